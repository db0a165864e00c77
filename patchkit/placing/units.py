"""What belongs together inside a series: who introduces a name, and who relies on it.

A hunk that did not land takes with it the hunks that use what it would have introduced: a name, a
member of a class, a parameter that a call passes. Only partners inside the series count.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from patchkit.names.changed import Unit, changed_units
from patchkit.names.scopes import MODULE_SCOPE
from patchkit.syntax.build import try_module

Lines = tuple[int, int]


class Fact(NamedTuple):
    """Something that code introduces or relies on.

    `kind` is "name" (bound in a module or function), "member" (of a class or object), "parameter"
    (of the function or class `owner`, with "required" as its own kind where it has no default), or,
    for what is relied on, "read", "attribute", "import" (from the module `owner`), "passes" (an
    argument to `owner`).
    """

    kind: str
    name: str
    owner: str
    line: int

    @property
    def key(self) -> tuple[str, str, str]:
        """What the fact says, wherever it stands."""
        return (self.kind, self.name, self.owner)


def facts_added(before: bytes | None, after: bytes | None, lines: Sequence[Lines]) -> list[Fact]:
    """Return what `after` says in the given 1-based inclusive line ranges and `before` does not."""
    tree = _tree(after)
    if tree is None or not lines:
        return []
    surplus = _surplus(before, after)
    here = _walk(tree, lines=lines)
    return [f for f in here if f.key in surplus and any(a <= f.line <= b for a, b in lines)]


@lru_cache(maxsize=64)
def _surplus(before: bytes | None, after: bytes | None) -> Collection[tuple[str, str, str]]:
    """What `after` says more often than `before`: what is the same on both sides adds nothing."""
    if _tree(before) is None or before is None or after is None:
        known, present = _counted(_whole(before)), _counted(_whole(after))
    else:
        old, new = changed_units(before, after)
        known, present = _counted(_of_units(old)), _counted(_of_units(new))
    return (present - known).keys()


def _counted(facts: Iterable[Fact]) -> Counter[tuple[str, str, str]]:
    return Counter(fact.key for fact in facts)


def _tree(source: bytes | None) -> ast.Module | None:
    module = None if source is None else try_module(source)
    return module.tree if module is not None else None


def _whole(source: bytes | None) -> Iterator[Fact]:
    tree = _tree(source)
    return iter(()) if tree is None else _walk(tree)


def _of_units(units: Iterable[Unit]) -> Iterator[Fact]:
    """The facts of statements of the module or of a class; of a class what is above its body."""
    for unit in units:
        around = unit.scope.rpartition(".")[2] if unit.scope != MODULE_SCOPE else ""
        node = unit.node
        yield from _own(node, around)
        if isinstance(node, ast.ClassDef):
            body = {id(statement) for statement in node.body}
            for child in ast.iter_child_nodes(node):
                if id(child) not in body:
                    yield from _own(child, node.name)
                    yield from _below(child, node.name)
        else:
            yield from _below(node, around)


def _walk(
    node: ast.AST, in_class: str = "", lines: Sequence[Lines] | None = None
) -> Iterator[Fact]:
    """The facts below a node; where lines are given, statements that lie outside are left out.

    `in_class` is the name of the class whose body the node stands in, empty outside of one.
    """
    for child in ast.iter_child_nodes(node):
        if lines is not None and isinstance(child, ast.stmt) and not _reaches(child, lines):
            continue
        yield from _own(child, in_class)
        yield from _below(child, in_class, lines)


def _below(node: ast.AST, in_class: str, lines: Sequence[Lines] | None = None) -> Iterator[Fact]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        in_class = ""
    elif isinstance(node, ast.ClassDef):
        in_class = node.name
    yield from _walk(node, in_class, lines)


def _reaches(statement: ast.stmt, lines: Sequence[Lines]) -> bool:
    """Whether a statement, decorators included, has a line among the given ones."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    last = statement.end_lineno or statement.lineno
    return any(a <= last and first <= b for a, b in lines)


def _own(node: ast.AST, in_class: str) -> Iterator[Fact]:
    kind = "member" if in_class else "name"
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield Fact(kind, node.name, "", node.lineno)
        if not isinstance(node, ast.ClassDef):
            yield from _parameters(node, in_class)
    elif isinstance(node, ast.AnnAssign) and in_class and isinstance(node.target, ast.Name):
        yield Fact("parameter", node.target.id, in_class, node.lineno)  # of a dataclass
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield Fact("name", (alias.asname or alias.name).split(".")[0], "", node.lineno)
            yield Fact("import", alias.name, _module_named(node), node.lineno)
    elif isinstance(node, ast.Name):
        bound = isinstance(node.ctx, ast.Store)
        yield Fact(kind if bound else "read", node.id, "", node.lineno)
    elif isinstance(node, ast.Attribute):
        bound = isinstance(node.ctx, ast.Store)
        yield Fact("member" if bound else "attribute", node.attr, "", node.end_lineno or 0)
    elif isinstance(node, ast.Call):
        yield from _arguments(node)


def _module_named(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.Import):
        return ""
    return RELATIVE if node.level else node.module or ""


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, in_class: str) -> Iterator[Fact]:
    owner = in_class if node.name in ("__init__", "__new__") and in_class else node.name
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    bound = 1 if in_class and not static else 0  # `self`, which no call passes
    for index, arg in enumerate(positional):
        yield Fact("parameter", arg.arg, owner, arg.lineno)
        yield Fact("position", str(index - bound), owner, arg.lineno)
        if index < required:
            yield Fact("required", arg.arg, owner, arg.lineno)
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Fact("parameter", arg.arg, owner, arg.lineno)
        if default is None:
            yield Fact("required", arg.arg, owner, arg.lineno)


def _arguments(node: ast.Call) -> Iterator[Fact]:
    # `kernel[grid](...)` passes arguments to `kernel`
    function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    called = getattr(function, "attr", None) or getattr(function, "id", None)
    if called is None:
        return
    for keyword in node.keywords:
        if keyword.arg:
            yield Fact("passes", keyword.arg, called, keyword.value.lineno)
    for index, arg in enumerate(node.args):
        yield Fact("passes position", str(index), called, arg.lineno)


# What an unlanded fact of one kind takes away from facts of which other kind, and whether those
# have to be of the same name and of the same owner.
_NEEDS = {
    "member": ("attribute", True, False),
    "parameter": ("passes", True, True),
    "position": ("passes position", True, True),
    "passes": ("required", True, True),
    "passes position": ("required", False, True),
    "name": ("import", True, True),
}
NEEDED = frozenset(_NEEDS)
RELATIVE = "."  # the module that a relative import names: which one it is depends on the file


def missing_partner(uses: Iterable[Fact], missing: Iterable[Fact]) -> tuple[Fact, Fact] | None:
    """Return a fact among `uses` that needs one among `missing`, the first, with that one."""
    first: dict[tuple[str, str, str], Fact] = {}
    uses = list(uses)
    new = {use.name for use in uses if use.kind in ("name", "member")}
    for use in uses:
        if use.kind == "required" and use.owner in new:
            continue  # of a function that is new itself: nobody called it without
        for name in (use.name, ""):
            for owner in (use.owner, ""):
                first.setdefault((use.kind, name, owner), use)
    if not first:
        return None
    for gone in missing:
        need = _NEEDS.get(gone.kind)
        if need is not None:
            kind, by_name, by_owner = need
            owners = [gone.owner if by_owner else ""]
            owners += [RELATIVE] if kind == "import" else []
            for owner in owners:
                key = kind, gone.name if by_name else "", owner
                if key in first:
                    return first[key], gone
    return None
