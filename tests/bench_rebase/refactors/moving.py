"""Moves of the definition around the edit: to the end of its file, or to another file."""

from __future__ import annotations

import ast
from dataclasses import replace
from random import Random

from patchkit.names.unresolved import unresolved
from tests.bench_rebase.bindings import module_scope
from tests.bench_rebase.refactors.ground import (
    DroppedError,
    Ground,
    InapplicableError,
    pair,
    refuse_neighbours,
)
from tests.bench_rebase.source import (
    Definition,
    Key,
    Source,
    definitions,
    with_comments,
)

Cut = tuple[bytes, list[bytes], bytes]  # before, definition, after; no blank lines at the seams


def move_to_end(ground: Ground, rng: Random) -> Ground:  # noqa: ARG001
    """Move the outermost definition around the edit to the end of the file."""
    key = _outermost(ground)
    refuse_neighbours(ground, key)
    _refuse_growth_at_end(ground)
    texts = [moved_to_end(source, definitions(source)[key]) for source in ground.sources]
    return ground.with_texts(texts[0], texts[1], f"move {key[0]} to the end of the file")


def _outermost(ground: Ground) -> Key:
    if not ground.chain:
        raise InapplicableError("the edit is in no definition")
    key = ground.chain[0]
    pair(ground, key)
    for source in ground.sources:
        if definitions(source)[key] not in source.tree.body:
            raise InapplicableError("the definition is in a branch")
    return key


def _refuse_growth_at_end(ground: Ground) -> None:
    """What the patch adds at the end of the file could go before the moved definition or after."""
    target, _ = ground.sources
    end = len(b"".join(target.lines).rstrip().split(b"\n"))
    if any(change.old_start >= end for change in ground.changes()):
        raise DroppedError("two orders")


def moved_to_end(source: Source, node: Definition) -> bytes:
    """Return the text with a definition and the comments right above it at the end."""
    before, lines, after = _cut(source, node)
    if not after:
        raise InapplicableError("the definition is at the end already")
    parts = [before, after, b"".join(lines)]
    return b"\n\n\n".join(part.rstrip(b"\n") for part in parts if part) + b"\n"


def _cut(source: Source, node: Definition) -> Cut:
    start, end = with_comments(source, node), node.end_lineno or 0
    before = b"".join(source.lines[:start]).rstrip(b"\n")
    after = b"".join(source.lines[end:]).strip(b"\n")
    return before, list(source.lines[start:end]), after


def move_to_file(ground: Ground, rng: Random) -> Ground:  # noqa: ARG001
    """Move the outermost definition around the edit to a file of its own.

    The new file imports what the definition reads in target or truth, the same on both sides: all
    that either side imports, but of what the module itself defines only what the target has. The
    old file imports the definition where it stood.
    """
    key = _outermost(ground)
    refuse_neighbours(ground, key)
    name = key[0]
    path = _new_path(ground, name)
    target, truth = ground.sources
    nodes = [definitions(source)[key] for source in ground.sources]
    if any(isinstance(part, ast.Global) for node in nodes for part in ast.walk(node)):
        raise InapplicableError("the definition declares globals")
    cuts = [_cut(source, node) for source, node in zip((target, truth), nodes, strict=True)]
    wanted = {gap.name for cut in cuts for gap in unresolved(b"".join(cut[1]))} - {name}
    header = _header(target, truth, ground.path, sorted(wanted))
    news = [header + b"\n\n" + b"".join(cut[1]).rstrip(b"\n") + b"\n" for cut in cuts]
    link = f"from {_module(path)} import {name}".encode()
    olds = [
        b"\n\n".join(part for part in (before, link, after) if part).rstrip(b"\n") + b"\n"
        for before, _, after in cuts
    ]
    return replace(
        ground,
        target={**ground.target, ground.path: olds[0], path: news[0]},
        truth={**ground.truth, ground.path: olds[1], path: news[1]},
        path=path,
        notes=(*ground.notes, f"move {name} to {path}"),
    )


def _new_path(ground: Ground, name: str) -> str:
    folder, _, file = ground.path.rpartition("/")
    stem = file.removesuffix(".py").strip("_")
    fresh = ground.fresh(f"{stem}_{name.strip('_').lower()}")
    return f"{folder}/{fresh}.py"


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _header(target: Source, truth: Source, path: str, wanted: list[str]) -> bytes:
    """Return the head of the new file: remarks at the top of the old one, and imports."""
    future, imports = [], {}
    for statement in (*truth.tree.body, *target.tree.body):
        source = target if statement in target.tree.body else truth
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            future.append(source.segment(statement))
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports.update(_imported(statement, wanted))
    bound = module_scope(target).bound
    others = [name for name in wanted if name in bound and name not in imports]
    lines = [imports[name] for name in wanted if name in imports]
    if others:
        lines.append(f"from {_module(path)} import {', '.join(others)}".encode())
    remarks = []
    for line in target.lines:
        if not line.startswith(b"#"):
            break
        remarks.append(line.rstrip(b"\n"))
    return b"\n".join(dict.fromkeys([*remarks, *future, *lines])) + b"\n"


def _imported(statement: ast.Import | ast.ImportFrom, wanted: list[str]) -> dict[str, bytes]:
    """Return the wanted names that a statement imports, each with an import of its own."""
    found = {}
    for alias in statement.names:
        name = alias.asname or alias.name.split(".")[0]
        if name in wanted:
            text = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            if isinstance(statement, ast.ImportFrom):
                text = f"from {'.' * statement.level}{statement.module or ''} {text}"
            found[name] = text.encode()
    return found
