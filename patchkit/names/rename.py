"""Undo, merge, redo: upstream's renames taken back on the target, and made again on the result.

A rename is recognised by its binding site: the statement, parameter or definition that binds the
new name is, but for that name, the one that bound the old, and the old name is gone. On the target
with the rename undone a patch lands as on its base; making the rename again carries the inserted
code along, by Python's scopes alone.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchkit.names.occurrences import (
    UnsureError,
    attribute_uses,
    bound_names,
    definitions_in,
    spans_of,
    uses,
)
from patchkit.outcome import Evidence
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import splice
from patchkit.syntax.label import shape
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import Module, Node, NotPythonError

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Renaming:
    """One rename: `old` in the base became `new` in the target, in the scope of a definition.

    `scope` is the qualified name, in the base, of the function whose variable it is, or of the
    definition itself where `kind` is "definition".
    """

    kind: str  # "variable" or "definition"
    scope: str
    old: str
    new: str

    @property
    def evidence(self) -> Evidence:
        """What a report says of it."""
        if self.kind == "definition":
            text = f"`{self.scope}` is called `{self.new}` in the target; its uses follow"
        else:
            text = f"`{self.old}` in `{self.scope}` is called `{self.new}` in the target"
        return Evidence("renamed", text)


def undo(module: Module, renamings: Sequence[Renaming]) -> Module | None:
    """Return the target with renames taken back, None where that is not certain.

    Made again they give the target's bytes back: that is checked here.
    """
    if not renamings:
        return None
    source = module.source
    try:
        for renaming in renamings:
            scope = renaming.scope
            if renaming.kind == "definition":
                prefix = scope.rpartition(".")[0]
                scope = f"{prefix}.{renaming.new}" if prefix else renaming.new
            source = _rename(source, renaming, scope, renaming.new, renaming.old)
        if redo(source, renamings) != module.source:
            return None
        return parse_module(source)
    except (UnsureError, NotPythonError):
        return None


def redo(source: bytes, renamings: Sequence[Renaming]) -> bytes:
    """Return a source with renames made again; raises `UnsureError` where that is not certain."""
    for renaming in reversed(renamings):
        source = _rename(source, renaming, renaming.scope, renaming.old, renaming.new)
    return source


def renamed(name: str, renamings: Sequence[Renaming]) -> str:
    """Return the qualified name of a definition once renames of definitions are made again."""
    for renaming in reversed(renamings):
        old = renaming.scope.split(".")
        parts = name.split(".")
        if renaming.kind == "definition" and parts[: len(old)] == old:
            parts[len(old) - 1] = renaming.new
            name = ".".join(parts)
    return name


def _rename(source: bytes, renaming: Renaming, scope: str, old: str, new: str) -> bytes:
    module = parse_module(source)
    node = outline_of(module).by_name.get(scope)
    if node is None:
        raise UnsureError(f"there is no `{scope}`")
    tree = node.tree
    assert isinstance(tree, ast.AST)
    if renaming.kind == "variable":
        if new in _names_in(tree):
            raise UnsureError(f"`{new}` is in use in `{scope}` as well")
        spans = spans_of(module, tree, uses(tree, old), old)
    else:
        spans = _definition_spans(module, node, old, new)
    return splice(source, [(a, b, new.encode()) for a, b in spans])


def _names_in(tree: ast.AST) -> set[str]:
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Name, ast.arg))]
    return {n.id if isinstance(n, ast.Name) else n.arg for n in nodes}


def _definition_spans(module: Module, node: Node, old: str, new: str) -> list[tuple[int, int]]:
    """The spans of a definition's name: where it is defined, and its uses in the module."""
    tree = node.tree
    assert isinstance(tree, ast.AST)
    head = _name_span(module, node, old)
    around = outline_of(module).enclosing(node.parent) if node.parent else None
    cls = around.tree if around is not None else None
    if not isinstance(cls, ast.ClassDef):
        scope = cls if isinstance(cls, ast.AST) else module.tree
        if new in _names_in(scope) or new in bound_names(scope):
            raise UnsureError(f"`{new}` is in use in the scope as well")
        found = _scope_uses(scope, tree, old)
        return sorted({head, *spans_of(module, scope, found, old)})
    if attribute_uses(cls, new) or new in bound_names(cls):
        raise UnsureError(f"`{new}` is in use in the class as well")
    spans = [head]
    for use in attribute_uses(cls, old):
        assert use.end_lineno is not None
        assert use.end_col_offset is not None
        end = module.offset(use.end_lineno, use.end_col_offset)
        spans.append((end - len(old.encode()), end))
    if any(module.source[a:b] != old.encode() for a, b in spans):
        raise UnsureError(f"`{old}` is not where Python says")
    return sorted(set(spans))


def _scope_uses(scope: ast.AST, definition: ast.AST, name: str) -> list[ast.Name | ast.arg]:
    """The uses of a function or class in its module or function; its `def` is the one binding."""
    if definitions_in(scope, name) != [definition]:
        raise UnsureError(f"`{name}` is defined more than once")
    hidden = getattr(definition, "name", "")
    try:
        definition.name = "\0"  # type: ignore[attr-defined]
        return uses(scope, name)
    finally:
        definition.name = hidden  # type: ignore[attr-defined]


def _name_span(module: Module, node: Node, name: str) -> tuple[int, int]:
    tree = node.tree
    assert isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    start = module.offset(tree.lineno, tree.col_offset)
    head = re.compile(rb"(?:async\s+)?(?:def|class)\s+(%b)\b" % name.encode())
    found = head.match(module.source, start)
    if found is None:
        raise UnsureError(f"`{name}` is not where Python says")
    return found.span(1)


# Recognising ------------------------------------------------------------------------------------


def find_variables(name: str, base: Node, target: Node) -> tuple[Renaming, ...]:
    """Return the variables of a function that the target calls otherwise.

    `base` and `target` are the function in both; an answer is certain or not given.
    """
    before, after = base.tree, target.tree
    if not isinstance(before, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ()
    if not isinstance(after, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ()
    if base.digest == target.digest:
        return ()
    lost = bound_names(before) - _names_in(after)
    gained = bound_names(after) - _names_in(before)
    if not lost or not gained:
        return ()
    sites_before = _binding_sites(before, lost, lost | gained)
    sites_after = _binding_sites(after, gained, lost | gained)
    found = _pairs(
        lost,
        gained,
        lambda old, new: (
            sites_before[old] == sites_after[new]
            and _share(sites_before[old], sites_after[new]) > 0
        ),
    )
    lost, gained = lost - found.keys(), gained - set(found.values())
    linked = _pairs(lost, gained, lambda old, new: _share(sites_before[old], sites_after[new]) > 0)
    for old, new in linked.items():
        if _share(sites_before[old], sites_after[new]) >= _MOST:
            found[old] = new
    masked = lost | gained | found.keys() | set(found.values())
    return tuple(
        Renaming("variable", name, old, new)
        for old, new in sorted(found.items())
        if extends(old, new) or _uses(before, old, masked) & _uses(after, new, masked)
    )


def extends(old: str, new: str) -> bool:
    """Return whether one name is the other with words before or after it (`run_impl`)."""
    short, long = sorted((old.strip("_"), new.strip("_")), key=len)
    if len(short) < 4 or short == long:
        return len(short) > 3
    before, after = long[: -len(short)], long[len(short) :]
    leads = long.startswith(short) and (after[0] in "_0123456789" or after[0].isupper())
    follows = long.endswith(short) and (before[-1] == "_" or short[0].isupper())
    return leads or follows


_SIMPLE = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert, ast.Raise,
    ast.Delete,
)  # fmt: skip


def _uses(function: Function, name: str, masked: set[str]) -> set[str]:
    """What the statements and conditions that read a name say, with all doubtful names masked."""
    found = set()
    for node in ast.walk(function):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            parts = [node.test]
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            parts = [node.iter]
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            parts = [item.context_expr for item in node.items]
        elif isinstance(node, _SIMPLE):
            parts = [node]
        for part in parts:
            if part is not None and not _says_little(part) and name in _names_in(part):
                found.add(shape(part, masked))
    return found


def _says_little(tree: ast.AST) -> bool:
    """Whether a condition only asks if a name is set: any name may stand there."""
    if isinstance(tree, ast.UnaryOp):
        return _says_little(tree.operand)
    if isinstance(tree, ast.Compare) and len(tree.comparators) == 1:
        other = tree.comparators[0]
        return isinstance(tree.left, ast.Name) and (
            isinstance(other, ast.Constant) and other.value is None
        )
    return isinstance(tree.value if isinstance(tree, ast.Return) else tree, ast.Name)


def _pairs(lost: set[str], gained: set[str], same: Callable[[str, str], bool]) -> dict[str, str]:
    """The old names and the new that are the same, both one of a kind.

    A name that became two, or two that became one, is no rename.
    """
    pairs = [(old, new) for old in lost for new in gained if same(old, new)]
    olds, news = Counter(old for old, _ in pairs), Counter(new for _, new in pairs)
    return {old: new for old, new in pairs if olds[old] == news[new] == 1}


# Statements that bind a name change, and upstream adds and drops some: two thirds say it.
_MOST = 2 / 3


def _share(old: Counter[str], new: Counter[str]) -> float:
    """The share of common statements in those that bind either name, whichever has more.

    That a name starts as the same constant or as an empty list says nothing by itself.
    """
    common = old & new
    telling = any(not _IDLE.match(site) for site in common)
    return common.total() / max(old.total(), new.total()) if telling else 0.0


_IDLE = re.compile(
    r"(?:Assign\(\[§\],|AnnAssign\(§,.*,|AugAssign\(§,\w+\(\),)"
    r"(?:Constant\((?:[^()']|'[^']*')*\)|(?:List|Tuple|Set)\(\[\]\)|Dict\(\[\],\[\]\)"
    r"|Call\((?:list|dict|set|tuple),\[\],\[\]\))\) binds"
)


def _binding_sites(
    function: Function, names: set[str], masked: set[str]
) -> dict[str, Counter[str]]:
    """Per name the statements that bind it, with all doubtful names masked."""
    sites: dict[str, Counter[str]] = {n: Counter() for n in names}
    for arg, text in _parameters(function, masked):
        if arg in sites:
            sites[arg][text] += 1
    for statement, bound in _binders(function):
        for name in bound & names:
            sites[name][f"{shape(statement, masked)} binds {_position(statement, name)}"] += 1
    return sites


def _parameters(function: Function, masked: set[str]) -> list[tuple[str, str]]:
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    pairs = [*zip(positional, defaults, strict=True)]
    pairs += [*zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    result = []
    names = [a.arg for a, _ in pairs]
    for index, (arg, default) in enumerate(pairs):
        before = names[index - 1] if index else "("
        after = names[index + 1] if index + 1 < len(names) else ")"
        around = ["§" if n in masked else n for n in (before, after)]
        parts = [shape(p, masked) for p in (arg.annotation, default) if p is not None]
        result.append((arg.arg, f"parameter {around} {parts}"))
    return result


def _binders(function: Function) -> list[tuple[ast.AST, set[str]]]:
    """What binds in a function: simple statements whole, headers of compound ones."""
    found: list[tuple[ast.AST, set[str]]] = []
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor)):
            header: ast.AST = ast.Tuple(elts=[node.target, node.iter], ctx=ast.Load())
            found.append((header, _stored(node.target)))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            found.append((node, _stored(node.optional_vars)))
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            found.append((node, _stored(node)))
            if not isinstance(node, ast.NamedExpr):
                continue
        stack.extend(ast.iter_child_nodes(node))
    return found


def _stored(tree: ast.AST) -> set[str]:
    return {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _position(statement: ast.AST, name: str) -> list[int]:
    """Which of the stored names of a statement a name is, so that `a, b = …` keeps them apart."""
    stored = [
        n.id
        for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return [i for i, other in enumerate(stored) if other == name]
