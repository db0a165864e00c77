"""Whether hunks whose lines are all there still do something: by definition, not by text.

Looked at only where something in the tree is not as the series made it. A hunk is no good where the
definition it is in is bound anew further down, where it reads a name or import that is not there
any more, and where what it defines or imports is used no longer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchkit.names.imports import added_imports, check_import
from patchkit.names.unresolved import new_unresolved
from patchkit.syntax.build import try_module
from patchkit.syntax.outline import MODULE, outline_of, outline_or_none
from patchkit.syntax.tree import NotPythonError
from patchkit.tree import SourceTree
from patchkit.verifying.expected import Expected, ExpectedFile, Spot, owned
from patchkit.verifying.hunks import FileHoles

# A line that may define or import a name; the continuation of an import has the name alone.
_BINDS = re.compile(rb"\b(?:def|class|import)\b|^\s*\w+(?: as \w+)?,?\s*$")


@dataclass(frozen=True)
class Fault:
    """Why a hunk that is there does nothing: `kind` is "unused", "unbound" or "shadowed"."""

    spot: Spot
    kind: str
    text: str


def find_faults(
    expected: Expected,
    current: SourceTree,
    holes: Mapping[str, FileHoles],
    present: frozenset[Spot],
) -> Iterator[Fault]:
    """Yield what is wrong with the hunks that are present, and perhaps with others.

    `holes` are those of the files that differ, by path. A file without such hunks is not parsed.
    """
    # what an authored patch asks for in vain is no fault of the tree
    whole = current.with_changes({path: file.content for path, file in expected.files.items()})
    for path, file in expected.files.items():
        content = current.files.get(path)
        if file.lines is None or content is None or not path.endswith(".py"):
            continue
        lines = [line.text for line in file.lines if line.spot in present]
        if not lines or not (path in holes or any(_BINDS.search(line) for line in lines)):
            continue
        made = file.content or b""
        if try_module(content) is None or try_module(made) is None:
            continue
        if path in holes:
            yield from _unbound(file, made, content, holes[path])
            yield from _shadowed(file, made, content, holes[path])
        yield from _imports(file, path, made, current, whole)
    yield from _unused(expected, current, present)


def _unbound(file: ExpectedFile, made: bytes, content: bytes, holes: FileHoles) -> Iterator[Fault]:
    """Names that a hunk reads and nothing binds any more."""
    try:
        found = new_unresolved(made, content)
    except NotPythonError:
        return
    assert file.lines is not None
    for item in found:
        at = holes.pairs.get(item.line - 1)
        spot = file.lines[at].spot if at is not None else None
        if spot is not None:
            yield Fault(spot, "unbound", f"{item.name} is not defined any more (line {item.line})")


def _shadowed(file: ExpectedFile, made: bytes, content: bytes, holes: FileHoles) -> Iterator[Fault]:
    """Definitions with a hunk in them that are defined once more, or that hold it no longer."""
    before, after = outline_or_none(made), outline_or_none(content)
    if before is None or after is None:
        return
    back = {old: new for new, old in holes.pairs.items()}
    old_names, new_names = definitions_by_line(made), definitions_by_line(content)
    seen: set[tuple[Spot, str]] = set()
    for at, spot in owned(file):
        name = old_names.get(at, MODULE)
        if at not in back or (spot, name) in seen:
            continue
        seen.add((spot, name))
        now = new_names.get(back[at], MODULE)
        if now != name:
            yield Fault(spot, "shadowed", f"stands in {now}, not in {name} (line {back[at] + 1})")
        for twin in _twins(name, set(after.by_name) - set(before.by_name)):
            line = after.by_name[twin].line
            yield Fault(spot, "shadowed", f"{name.split('#')[0]} is defined again in line {line}")


def _twins(name: str, new: set[str]) -> list[str]:
    """Return the new definitions that bind the name of a definition, or of one around it, anew."""
    parts = name.split(".")
    wholes = {".".join(parts[: n + 1]).split("#")[0] for n in range(len(parts))}
    return sorted(twin for twin in new if "#" in twin and twin.rpartition("#")[0] in wholes)


def definitions_by_line(content: bytes) -> dict[int, str]:
    """Return the innermost definition of each line, 0-based, that is in one; none for no Python."""
    module = try_module(content)
    found: dict[int, str] = {}
    if module is None:
        return found
    for node, name in outline_of(module).names.items():  # outer ones first
        last = module.line_at(max(node.end - 1, node.start))
        found.update(dict.fromkeys(range(node.line - 1, last), name))
    return found


def _imports(
    file: ExpectedFile, path: str, made: bytes, current: SourceTree, whole: SourceTree
) -> Iterator[Fault]:
    """Imports of a hunk whose module or name is not in the tree any more."""
    assert file.lines is not None
    try:
        uses = added_imports(file.before or b"", made, path)
    except NotPythonError:
        return
    for use in uses:
        spot = file.lines[use.line - 1].spot
        if spot is None or use.guarded or check_import(use, current) != "missing":
            continue
        if check_import(use, whole) != "missing":
            yield Fault(spot, "unbound", f"imports {use}, which is not there")


def _unused(expected: Expected, current: SourceTree, present: frozenset[Spot]) -> Iterator[Fault]:
    """Definitions and imports of hunks that the series uses and that nothing uses any more."""
    binding = {
        path
        for path, file in expected.files.items()
        for line in file.lines or ()
        if _python(path) and line.spot in present and _BINDS.search(line.text)
    }
    if not binding:
        return
    made = {path: uses_of(f.content or b"") for path, f in expected.files.items() if _python(path)}
    now = {path: uses_of(current.files.get(path) or b"") for path in made}
    for path, file in expected.files.items():
        if path not in binding:
            continue
        for name, spot in _bound(file, imported=True):
            if name in made[path].read and name not in now[path].read:
                yield Fault(spot, "unused", f"{name} is imported and used no longer in {path}")
        for name, spot in _bound(file, imported=False):
            if not any(name in uses for uses in made.values()):
                continue
            if any(name in uses for uses in now.values()):
                continue
            if not _used_elsewhere(name, expected, current):
                yield Fault(spot, "unused", f"{name} is defined and nothing uses it any more")


def _python(path: str) -> bool:
    return path.endswith(".py")


def _used_elsewhere(name: str, expected: Expected, current: SourceTree) -> bool:
    """Return whether a file that the series does not change uses a name."""
    others = (p for p in current.python_holding(name.encode()) if p not in expected.files)
    word = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
    return any(
        word.search(current.files[path]) and name in uses_of(current.files[path]) for path in others
    )


def _bound(file: ExpectedFile, *, imported: bool) -> Iterator[tuple[str, Spot]]:
    """Yield the names that hunks bind and that the file had not: by imports, or by definitions."""
    assert file.lines is not None
    before = {name for name, _ in _bindings(file.before or b"", imported)}
    for name, line in _bindings(file.content or b"", imported):
        spot = file.lines[line - 1].spot
        if name not in before and spot is not None:
            yield name, spot


def _bindings(source: bytes, imported: bool) -> Iterator[tuple[str, int]]:
    module = try_module(source)
    for node in ast.walk(module.tree) if module is not None else ():
        if not imported and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif imported and isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield (alias.asname or alias.name.partition(".")[0]), alias.lineno


@dataclass(frozen=True)
class Uses:
    """The names that a module reads (names, attributes, keywords, what it quotes) or imports."""

    read: frozenset[str]
    imported: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name in self.read or name in self.imported


def uses_of(source: bytes) -> Uses:
    """Return the names that a module uses; a use of a definition within itself is none.

    Of what is no Python every word counts: nothing is called unused because of it.
    """
    module = try_module(source)
    if module is None:
        words = (word.decode() for word in re.findall(rb"[A-Za-z_]\w*", source))
        return Uses(frozenset(words), frozenset())
    read: set[str] = set()
    imported: set[str] = set()
    work: list[tuple[ast.AST, frozenset[str]]] = [(module.tree, frozenset())]
    while work:
        node, inside = work.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside |= {node.name}
        elif isinstance(node, ast.ImportFrom):
            imported.update(alias.name for alias in node.names)
        elif (name := _name_read(node)) and name not in inside:
            read.add(name)
        work += [(child, inside) for child in ast.iter_child_nodes(node)]
    return Uses(frozenset(read), frozenset(imported))


def _name_read(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Load) else None
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.keyword):
        return node.arg
    quoted = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if quoted and str(node.value).isidentifier() else None  # type: ignore[attr-defined]
