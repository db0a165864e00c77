"""Anchors: where a patch's hunks belong, said in terms of the code; stored beside each patch.

`NAME.anchors.toml` has two parts. `[generated]` is a pure function of base tree and diff: place,
definition and its fingerprint, typed edits with their neighbours, and the surface that the new code
uses. `[override]` is a person's: adaptations and accepted drifts, each with a reason. It is kept
letter for letter when the rest is generated anew.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tomlkit

from patchkit.errors import PatchkitError
from patchkit.placing.file_edits import FileEdits, FileJob
from patchkit.placing.fingerprint import FINGERPRINT_FORMAT, fingerprint_hunk
from patchkit.placing.landed import authored_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.series.override import Overrides, format_overrides, parse_overrides
from patchkit.surface.defined import reads
from patchkit.syntax.build import parse_module, try_module
from patchkit.syntax.edit import Edit
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import Node

FORMAT = 1
_OVERRIDE = re.compile(r"^[ \t]*\[\[?[ \t]*[\"']?override\b", re.MULTILINE)
_HEAD = "# Generated from the patch and its base; edit nothing above [override].\n"


@dataclass(frozen=True)
class Anchors:
    """The two parts of an anchors file: `generated` as text, the overrides as values and text."""

    generated: str
    overrides: Overrides
    override_text: str


def parse_anchors(data: bytes, place: str) -> Anchors:
    """Return the anchors of a file; raises PatchkitError with the place of what is wrong."""
    try:
        text = data.decode("utf-8")
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PatchkitError(f"not valid TOML: {error}", place=place) from error
    if table.get("format") != FORMAT:
        raise PatchkitError(
            f"format is {table.get('format')!r}", place=place, expected=str(FORMAT),
            hint="this patchkit reads format 1; a newer one may have written the file",
        )  # fmt: skip
    overrides = parse_overrides(table.get("override", {}), place)
    found = _OVERRIDE.search(text)
    generated = text.find("[generated]")
    if overrides and (found is None or found.start() < generated):
        raise PatchkitError(
            "the overrides do not follow the generated part under a head of their own",
            place=place,
            expected="[[override.adaptation]] and [[override.drift]] after [generated]",
        )
    split = found.start() if found else len(text)
    return Anchors(text[:split], overrides, text[split:])


def format_anchors(generated: str, added: Overrides, kept: str = "") -> bytes:
    """Return an anchors file: generated part, kept overrides, then the new ones."""
    text = generated
    if kept:
        text += kept if kept.endswith("\n") else kept + "\n"
    for override in format_overrides(added):
        text += ("" if text.endswith("\n\n") else "\n") + override
    return text.encode("utf-8")


# Generation --------------------------------------------------------------------------------------


def generate_anchors(plan: PatchPlan) -> str:
    """Return the generated part for a patch against its base."""
    document = tomlkit.document()
    document.add("format", FORMAT)
    generated = tomlkit.table()
    generated.add("fingerprints", FINGERPRINT_FORMAT)
    hunks = tomlkit.aot()
    for file in plan.files:
        for entry in _file_hunks(file):
            hunks.append(entry)
    generated.add("hunk", hunks)
    document.add("generated", generated)
    text = _HEAD + tomlkit.dumps(document).rstrip("\n") + "\n"
    return text + "\n"


def _file_hunks(file: PlannedFile) -> list[tomlkit.items.Table]:
    python = file.base is not None and file.authored is not None and bool(file.jobs)
    edits = None
    if python and try_module(file.base or b"") and try_module(file.authored or b""):
        edits = FileEdits(
            FileJob(file.path_before, file.base or b"", file.authored or b"", file.jobs)
        )
    result = []
    for number in file.numbers:
        table = tomlkit.table()
        table.add("number", number)
        table.add("path", file.path_before)
        hunk = next((j.hunk for j in file.jobs if j.number == number), None)
        if hunk is not None:
            table.add("hunk", fingerprint_hunk(hunk))
        if edits is not None:
            _add_places(table, edits.edits_of(number))
        elif file.authored is not None:
            digest = hashlib.sha256(file.authored).hexdigest()
            table.add("new_content", f"sha256:{digest}")
        _add_surface(table, file, number)
        result.append(table)
    return result


def _add_places(table: tomlkit.items.Table, edits: Sequence[Edit]) -> None:
    edits = [e for e in edits if not e.is_layout]
    if not edits:
        return
    outline = outline_of(edits[0].container.module)
    names = list(dict.fromkeys(outline.qualified(e.container) for e in edits))
    definitions = tomlkit.inline_table()
    for name in names:
        node = outline.by_name.get(name)
        definitions.add(name, _mark(node) if node is not None else "")
    table.add("definitions", definitions)
    entries = tomlkit.array().multiline(True)
    for edit in edits:
        entry = tomlkit.inline_table()
        entry.add("kind", edit.kind)
        entry.add("in", f"{outline.qualified(edit.container)} {edit.container.kind}.{edit.slot}")
        for label, node in (("after", edit.prev), ("before", edit.next)):
            if node is not None:
                entry.add(label, _mark(node))
        if edit.removed:
            entry.add("removes", [_mark(n) for n in edit.removed])
        entries.append(entry)
    table.add("edits", entries)


def _mark(node: Node) -> str:
    return f"{FINGERPRINT_FORMAT}:{node.digest.hex()}"


def _add_surface(table: tomlkit.items.Table, file: PlannedFile, number: int) -> None:
    """What a hunk's new code relies on, by kind, and the signatures of callees in the file."""
    if file.authored is None or try_module(file.authored) is None:
        return
    if file.base is not None and try_module(file.base) is None:
        return
    lines = authored_lines(file, number)
    found = [
        r for r in reads(file.base or b"", file.authored) if any(a <= r.line <= b for a, b in lines)
    ]
    for kind in ("attribute", "keyword", "name", "import"):
        names = sorted({r.name for r in found if r.kind == kind})
        if names:
            table.add(f"{kind}s", names)
    calls = sorted(_signatures(file.authored, lines))
    if calls:
        table.add("calls", calls)


def _signatures(source: bytes, lines: Iterable[tuple[int, int]]) -> set[str]:
    """The signatures of functions of the same module that are called on the given lines."""
    tree = parse_module(source).tree
    defined = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    spans = list(lines)
    called = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        and any(a <= n.lineno <= b for a, b in spans)
    }  # fmt: skip
    functions = [defined[name] for name in called if isinstance(defined.get(name), ast.FunctionDef)]
    return {f"{f.name}({ast.unparse(f.args)})" for f in functions if isinstance(f, ast.FunctionDef)}
