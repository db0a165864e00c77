"""What the hunks of a patch bring that their base did not have: names, members, parameters, files.

Where it is brought is part of what it is: `helper` of one module is not that of another, a member
belongs to its class, a variable to its function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from patchkit.diff.model import FileChange
from patchkit.placing.landed import authored_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.units import Lines
from patchkit.stacking.weave import HunkId
from patchkit.syntax.build import try_module
from patchkit.tree import PYTHON

_PASSED = ("parameter", "position")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Provided(NamedTuple):
    """Something that a hunk brings.

    `kind` is "module" (bound at module level), "member" (of the class `owner`), "local" (of the
    function `owner`), "parameter" (of the callable `owner`, a class for its `__init__`), "position"
    (`name` arguments by position are taken by `owner`) or "file" (`name` is its dotted module).
    """

    kind: str
    name: str
    owner: str
    path: str
    line: int

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is, wherever in its file it stands."""
        return self.kind, self.name, self.owner


def provided_by(
    plan: PatchPlan, hunks: Collection[HunkId] | None = None
) -> list[tuple[HunkId, Provided]]:
    """Return what each hunk of a patch, or each of some, brings that its file did not have."""
    found: list[tuple[HunkId, Provided]] = []
    for file in plan.files:
        path = file.section.path
        first = HunkId(plan.patch.name, file.numbers[0])
        if file.authored is None or not path.endswith(PYTHON):
            continue
        if hunks is not None and not any(HunkId(plan.patch.name, n) in hunks for n in file.numbers):
            continue
        if file.section.change in (FileChange.ADD, FileChange.COPY, FileChange.RENAME):
            found.append((first, Provided("file", module_of(path), "", path, 1)))
        found += _in_file(plan.patch.name, file, path)
    return [(hunk, p) for hunk, p in found if hunks is None or hunk in hunks]


def module_of(path: str) -> str:
    """Return the dotted name under which a file is imported."""
    stem = path.rpartition(".")[0].removesuffix("/__init__")
    return stem.replace("/", ".")


def _in_file(patch: str, file: PlannedFile, path: str) -> Iterator[tuple[HunkId, Provided]]:
    module = try_module(file.authored or b"")
    if module is None:
        return
    lines = {n: authored_lines(file, n) for n in file.numbers}
    every = [span for spans in lines.values() for span in spans]
    brought = [p for p in _bound(module.tree, path, every) if _inside(p.line, every)]
    old = _known(file.base, brought)
    new = [p for p in brought if p.key not in old]
    callables = {p.name for p in new if p.kind in ("module", "member")}
    for number, spans in lines.items():
        for provided in new:
            # What takes arguments is new itself: those who call it need it anyway.
            passed = provided.kind in _PASSED and provided.owner in callables
            if not passed and _inside(provided.line, spans):
                yield HunkId(patch, number), provided


def _inside(line: int, spans: list[Lines]) -> bool:
    return any(low <= line <= high for low, high in spans)


def _known(base: bytes | None, wanted: list[Provided]) -> Mapping[tuple[str, str, str], int]:
    """What of the wanted things a file has already; it is read only where it holds the words."""
    if base is None:
        return {}
    words = set(re.findall(rb"\w+", base))
    there = [p for p in wanted if p.kind == "position" or p.name.encode() in words]
    module = try_module(base) if there else None
    if module is None:
        return {}
    return {p.key: p.line for p in _bound(module.tree, "", None)}


def _bound(tree: ast.Module, path: str, lines: list[Lines] | None) -> Iterator[Provided]:
    """Everything that a module binds; with lines only what statements that reach them bind."""
    yield from _block(tree.body, path, "module", "", lines)


def _block(
    body: list[ast.stmt], path: str, kind: str, owner: str, lines: list[Lines] | None
) -> Iterator[Provided]:
    for node in body:
        if lines is not None and not reaches(node, lines):
            continue
        if isinstance(node, FUNCTIONS):
            yield Provided(kind, node.name, owner, path, node.lineno)
            yield from _signature(node, path, kind, owner)
            yield from _block(node.body, path, "local", inner(owner, kind, node.name), lines)
        elif isinstance(node, ast.ClassDef):
            yield Provided(kind, node.name, owner, path, node.lineno)
            yield from _fields(node, path)
            yield from _block(node.body, path, "member", inner(owner, kind, node.name), lines)
        else:
            yield from _statement(node, path, kind, owner)
            for part in blocks(node):
                yield from _block(part, path, kind, owner, lines)


def inner(owner: str, kind: str, name: str) -> str:
    """Return the qualified name of a definition inside of another; a class is not in its module."""
    return name if kind == "module" else f"{owner}.{name}"


def reaches(node: ast.stmt, lines: list[Lines]) -> bool:
    """Return whether a statement, decorators included, has a line among some."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    last = node.end_lineno or node.lineno
    return any(low <= last and first <= high for low, high in lines)


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the statement lists of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body


def _statement(node: ast.stmt, path: str, kind: str, owner: str) -> Iterator[Provided]:
    """What one statement binds outside of its blocks."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            yield Provided(kind, name, owner, path, alias.lineno)
        return
    own = {id(statement) for part in blocks(node) for statement in part}
    stack: list[ast.AST] = [c for c in ast.iter_child_nodes(node) if id(c) not in own]
    while stack:
        part = stack.pop()
        if isinstance(part, (ast.Lambda, ast.stmt)):
            continue
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield Provided(kind, part.id, owner, path, part.lineno)
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            own_class = owner.rpartition(".")[0] if is_self(part.value) else ""
            yield Provided("member", part.attr, own_class, path, part.end_lineno or part.lineno)
        stack.extend(ast.iter_child_nodes(part))


def is_self(node: ast.expr) -> bool:
    """Return whether an expression is the object or class that a method is called on."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _signature(
    node: ast.FunctionDef | ast.AsyncFunctionDef, path: str, kind: str, owner: str
) -> Iterator[Provided]:
    """The parameters of a function; those of `__init__` belong to its class."""
    callee = node.name
    if kind == "member" and node.name in ("__init__", "__new__"):
        callee = owner.rpartition(".")[2]
    positional = [*node.args.posonlyargs, *node.args.args]
    bound = kind == "member" and not any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
    )
    for count, arg in enumerate(positional[1:] if bound else positional, start=1):
        yield Provided("position", str(count), callee, path, arg.lineno)
    for arg in (*positional, *node.args.kwonlyargs):
        yield Provided("parameter", arg.arg, callee, path, arg.lineno)
        yield Provided("local", arg.arg, inner(owner, kind, node.name), path, arg.lineno)


def _fields(node: ast.ClassDef, path: str) -> Iterator[Provided]:
    """The annotated fields of a class without `__init__`, which take a keyword each."""
    if any(isinstance(s, FUNCTIONS) and s.name == "__init__" for s in node.body):
        return
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield Provided("parameter", statement.target.id, node.name, path, statement.lineno)
