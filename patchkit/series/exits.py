"""Whether the conditions under which a patch may go hold in a tree, each with what shows it.

A condition holds only where the tree shows it. What a partial tree does not have, what is bound in
a way that cannot be followed, and what a wheel does not ship is not said to be absent.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from patchkit.diff.exit_when import Condition, Kind, parse_conditions
from patchkit.diff.header import Header
from patchkit.profile import Profile, Section
from patchkit.surface.bound_names import nested_nodes, top_nodes
from patchkit.surface.program import FOREIGN, Item, Module, Named, Program
from patchkit.tree import SourceTree
from patchkit.vllm.profile import VLLM


class Holding(StrEnum):
    """What a tree says of a condition."""

    HELD = "held"
    NOT_HELD = "not held"
    UNKNOWN = "cannot say"


_OPPOSITE = {
    Holding.HELD: Holding.NOT_HELD,
    Holding.NOT_HELD: Holding.HELD,
    Holding.UNKNOWN: Holding.UNKNOWN,
}


@dataclass(frozen=True)
class Judged:
    """One condition in one tree; `place` is the `path:line` that shows it, `text` says what."""

    condition: Condition
    holding: Holding
    text: str
    place: str | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


@dataclass(frozen=True)
class Exit:
    """All conditions of one patch in one tree; false where the patch names none."""

    judged: tuple[Judged, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.judged)

    @property
    def holding(self) -> Holding:
        """Whether the patch may go: every condition holds."""
        found = {one.holding for one in self.judged}
        if Holding.NOT_HELD in found or not found:
            return Holding.NOT_HELD
        return Holding.UNKNOWN if Holding.UNKNOWN in found else Holding.HELD

    @property
    def text(self) -> str:
        """What shows it: of all conditions where they hold, else of those that decide."""
        decisive = [one for one in self.judged if one.holding is self.holding]
        return "; ".join(str(one) for one in decisive)


def exit_conditions(header: Header, place: str) -> tuple[Condition, ...]:
    """Return the conditions of a header; raises PatchkitError for what is none."""
    found = header.find("Exit-When")
    return parse_conditions(found.value, place, found.lineno) if found else ()


def judge_exit(conditions: Iterable[Condition], tree: SourceTree, profile: Profile = VLLM) -> Exit:
    """Return what a pristine tree says of each condition of a patch."""
    program = Program(tree, profile.package)
    return Exit(tuple(judge_condition(one, program, profile) for one in conditions))


def judge_condition(condition: Condition, program: Program, profile: Profile = VLLM) -> Judged:
    """Return what a tree says of one condition."""
    if condition.kind is Kind.RELEASE:
        return _release(condition, program.tree)
    if condition.path is not None:
        found = _in_file(condition, condition.path, program.tree, profile)
    else:
        found = _of_symbol(condition, program)
    if not condition.negated:
        return found
    return replace(found, holding=_OPPOSITE[found.holding])


def _release(condition: Condition, tree: SourceTree) -> Judged:
    assert condition.range is not None
    try:
        version = Version(tree.version or "")
    except InvalidVersion:
        text = f"{tree.name or 'the tree'} has no release number"
        return Judged(condition, Holding.UNKNOWN, text)
    held = condition.range.contains(version, prereleases=True)
    text = f"the release is {version}"
    return Judged(condition, Holding.HELD if held else Holding.NOT_HELD, text)


def _in_file(condition: Condition, path: str, tree: SourceTree, profile: Profile) -> Judged:
    """A file, or a text in it."""
    if path not in tree.files:
        return _no_file(condition, path, tree, profile)
    if condition.text is None:
        return Judged(condition, Holding.HELD, "the file is there", path)
    return _search(condition, condition.text, path, tree.files[path], 0)


def _no_file(condition: Condition, path: str, tree: SourceTree, profile: Profile) -> Judged:
    if path in getattr(tree.files, "left_out", ()):
        there = Judged(condition, Holding.HELD, "the file is there, and is no text", path)
        return there if condition.text is None else replace(there, holding=Holding.UNKNOWN)
    if tree.partial:
        return Judged(condition, Holding.UNKNOWN, f"{path} may lie outside the partial tree")
    if any(name.startswith(f"{path}/") for name in tree.files):
        return Judged(condition, Holding.UNKNOWN, f"{path} is a folder")
    if profile.classify(path) is not Section.SHIPPED:
        return Judged(condition, Holding.UNKNOWN, f"{path} is of no part that a wheel ships")
    # of a file that has moved nobody knows whether the text has gone
    gone = condition.text is not None and condition.negated
    holding = Holding.UNKNOWN if gone else Holding.NOT_HELD
    return Judged(condition, holding, f"there is no {path}")


def _search(condition: Condition, text: str, path: str, source: bytes, shift: int) -> Judged:
    """A text in some lines of a file, which begin after `shift` others."""
    pattern = rb"\s+".join(re.escape(word.encode()) for word in text.split())
    match = re.search(pattern, source)
    if match is None:
        where = condition.name or path
        return Judged(condition, Holding.NOT_HELD, f"{where} does not say `{text}`", path)
    line = source.count(b"\n", 0, match.start()) + 1 + shift
    return Judged(condition, Holding.HELD, f"it says `{text}`", f"{path}:{line}")


def _of_symbol(condition: Condition, program: Program) -> Judged:
    """A symbol, or a text in its definition."""
    assert condition.module is not None
    assert condition.name is not None
    found = _resolve(condition, condition.module, condition.name.split("."), program)
    if isinstance(found, Judged):
        # of a definition that is not looked into, or has moved, nobody knows what it says
        vague = found.holding is Holding.HELD or condition.negated
        return replace(found, holding=Holding.UNKNOWN) if condition.text and vague else found
    if condition.text is None:
        return Judged(condition, Holding.HELD, f"`{found.label}` is defined", found.place)
    node = found.node
    if found.kind not in ("class", "function"):
        text = f"`{found.label}` is no class or function"
        return Judged(condition, Holding.UNKNOWN, text, found.place)
    starts = [node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]  # type: ignore[attr-defined]
    first, last = min(starts) + found.shift, node.end_lineno + found.shift  # type: ignore[attr-defined]
    lines = program.source(found.path).splitlines(keepends=True)[first - 1 : last]
    judged = _search(condition, condition.text, found.path, b"".join(lines), first - 1)
    # where it does not, the definition is what was looked at
    return judged if judged.holding is Holding.HELD else replace(judged, place=found.place)


def _resolve(
    condition: Condition, dotted: str, names: list[str], program: Program
) -> Item | Judged:
    """The definition that a symbol names; what is bound but not defined in the tree is judged."""
    module = program.module(dotted)
    if module is FOREIGN:
        return Judged(condition, Holding.UNKNOWN, f"{dotted} is no module of the package")
    if not module.path:
        return _no_module(condition, dotted, names[0], program)
    found = _top(condition, module, names[0], program)
    for name in names[1:]:
        if isinstance(found, Judged):
            if found.holding is Holding.HELD:  # bound, to something that is not looked into
                return replace(found, holding=Holding.UNKNOWN, text=f"{found.text}, not followed")
            return found
        found = _member(condition, found, name, program)
    return found


def _no_module(condition: Condition, dotted: str, name: str, program: Program) -> Judged:
    stem = dotted.replace(".", "/")
    compiled = (path for path in getattr(program.tree.files, "left_out", ()))
    if any(path.startswith(f"{stem}.") for path in compiled):
        return Judged(condition, Holding.UNKNOWN, f"{dotted} is compiled")
    if program.tree.partial:
        return Judged(condition, Holding.UNKNOWN, f"{dotted} may lie outside the partial tree")
    return _absent(condition, f"there is no module {dotted}", name, "", program)


def _top(condition: Condition, module: Module, name: str, program: Program) -> Item | Judged:
    """What a module binds a name to."""
    source = program.source(module.path)
    bindings = _bindings(source)
    if bindings is None:
        return Judged(condition, Holding.UNKNOWN, "Python cannot read the file", module.path)
    own = top_nodes(source, name) or nested_nodes(source, name)
    taken, given = _loose(source)
    loose = taken.get(name) or (None if own or name in bindings else given.get(name))
    if loose is not None:
        what = "taken away again" if name in taken else "bound by a function that may run"
        text = f"`{name}` is {what}"
        return Judged(condition, Holding.UNKNOWN, text, f"{module.path}:{loose}")
    if len(own) > 1:  # under a condition each, say: one of them it is
        text = f"`{name}` is defined {len(own)} times"
        return Judged(condition, Holding.HELD, text, f"{module.path}:{_line(own[0])}")
    found: Named = None
    # of all of another module a star brings no name with an underscore, unless that lists it
    if own or name in bindings or ("*" in bindings and not name.startswith("_")):
        found = program.find(module.path, name)
    if isinstance(found, Item):
        return found
    if own:
        return Item(own[0][0], module.path, name, own[0][1], own[0][2])
    if name in bindings:
        place = f"{module.path}:{bindings[name]}"
        if found is not None:
            return Judged(condition, Holding.HELD, f"`{name}` is imported", place)
        text = f"`{name}` is bound there, and what it is cannot be followed"
        return Judged(condition, Holding.UNKNOWN, text, place)
    submodule = program.module(f"{module.name}.{name}")
    if submodule.path:
        return Judged(condition, Holding.HELD, f"`{name}` is a module", submodule.path)
    vague = "*" if "*" in bindings else "__getattr__" if name.encode() in source else ""
    if vague in bindings:
        what = "imports all of another module" if vague == "*" else "makes names when asked"
        text = f"{module.name} {what}: `{name}` may be there"
        return Judged(condition, Holding.UNKNOWN, text, f"{module.path}:{bindings[vague]}")
    return _absent(condition, f"{module.path} has no `{name}`", name, module.path, program)


def _member(condition: Condition, owner: Item, name: str, program: Program) -> Item | Judged:
    if owner.kind != "class":
        text = f"`{owner.label}` is no class"
        return Judged(condition, Holding.UNKNOWN, text, owner.place)
    found = program.member(owner, name)
    if found is not None:
        return found
    _, complete = program.lineage(owner)
    text = f"`{owner.label}` has no `{name}`"
    slots = program.member(owner, "__slots__")
    if slots is not None and name in ast.unparse(slots.node):
        text += ", but in its slots"
        return Judged(condition, Holding.UNKNOWN, text, slots.place)
    if not complete:
        text += ", and not all of its bases are known"
    return Judged(condition, Holding.NOT_HELD if complete else Holding.UNKNOWN, text, owner.place)


def _absent(condition: Condition, text: str, name: str, path: str, program: Program) -> Judged:
    """A name that is not where it is looked for; elsewhere there may be one like it."""
    kinds = frozenset({"class", "function", "module"})
    found = program.index(path).anywhere(name, kinds)
    if found is None:
        return Judged(condition, Holding.NOT_HELD, text)
    # it may have moved, so that it is not said to be gone
    holding = Holding.UNKNOWN if condition.negated else Holding.NOT_HELD
    return Judged(condition, holding, f"{text}; one is defined there", found.place)


def _line(node: tuple[str, ast.AST, int]) -> int:
    return int(getattr(node[1], "lineno", 1)) + node[2]


@lru_cache(maxsize=256)
def _bindings(source: bytes) -> dict[str, int] | None:
    """Every name that the statements of a module bind, with its line; None for no Python.

    What a function binds for itself is not among them; "*" stands for all of another module.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found: dict[str, int] = {}
    for name, line in _bound(module):
        found.setdefault(name, line)
    return found


@lru_cache(maxsize=256)
def _loose(source: bytes) -> tuple[dict[str, int], dict[str, int]]:
    """The names that a module deletes, and those that functions bind in it, each with its line."""
    taken: dict[str, int] = {}
    given: dict[str, int] = {}
    todo: list[ast.AST] = [ast.parse(source)]
    inside: list[ast.AST] = []
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            taken.setdefault(node.id, node.lineno)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside.append(node)
            continue
        todo += ast.iter_child_nodes(node)
    for node in (node for top in inside for node in ast.walk(top)):
        if isinstance(node, ast.Global):
            given.update({name: node.lineno for name in node.names if name not in given})
    return taken, given


def _bound(node: ast.AST) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name, child.lineno
            continue
        if isinstance(child, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp)):
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id, child.lineno
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            for alias in child.names:
                yield (alias.asname or alias.name).partition(".")[0], child.lineno
            continue
        yield from _bound(child)
