"""What new code reads: attributes, keywords, module names and imports, each with its line."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from patchkit.names.changed import changed_units
from patchkit.names.repeats import qualified
from patchkit.names.scopes import Binding, Kind, Scope
from patchkit.names.scopes import Read as NameRead
from patchkit.names.surplus import surplus
from patchkit.names.unresolved import module_scope, scopes
from patchkit.syntax.build import parse_module

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ATTRIBUTE_BY_NAME = frozenset({"getattr", "hasattr"})
_REPLACING = frozenset({"replace", "dataclasses.replace", "copy.replace", "_replace"})


@dataclass(frozen=True, slots=True)
class Read:
    """One thing that code relies on.

    `kind` is "attribute", "keyword", "name" or "import". `callee` is the last name of what a
    keyword is passed to. `origin` is the module, as the import writes it, that the expression
    starts from (`torch` in `torch.cuda.Event`); empty where it starts from anything else.
    """

    kind: str
    name: str
    line: int
    callee: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A simple statement, or what a compound one says before its body."""

    scope: str
    text: str
    nodes: tuple[ast.AST, ...]


@lru_cache(maxsize=128)
def reads(before: bytes, after: bytes) -> tuple[Read, ...]:
    """Return what the statements read that `after` has and `before` has not, by line.

    A statement counts as new in its definition when it says something new: neither layout nor a
    block put around it makes it so. Raises `NotPythonError`.
    """
    added = added_pieces(before, after)
    if not added:
        return ()
    roots = _Roots(after)
    found = {r for piece in added for node in piece.nodes for r in _reads_in(node, roots)}
    return tuple(sorted(found, key=lambda r: (r.line, r.kind, r.name, r.callee)))


@lru_cache(maxsize=128)
def added_pieces(before: bytes, after: bytes) -> tuple[Piece, ...]:
    """Return the statements that only `after` says, as nodes of its shared tree."""
    if before == after:
        return ()
    old, new = changed_units(before, after)
    old_pieces = [p for unit in old for p in pieces_of(unit.node, unit.scope)]
    new_pieces = [p for unit in new for p in pieces_of(unit.node, unit.scope)]
    return surplus(new_pieces, old_pieces, lambda p: (p.scope, p.text))


def pieces_of(node: ast.stmt, scope: str) -> Iterator[Piece]:
    """Yield the simple statements of a statement, and what compound ones say before a body."""
    stack: list[tuple[ast.AST, str]] = [(node, scope)]
    while stack:
        current, inside = stack.pop()
        header = _header(current)
        if header:
            text = type(current).__name__ + " ".join(ast.dump(n) for n in header)
            yield Piece(inside, text, header)
        below = inside
        if isinstance(current, (*_FUNCTIONS, ast.ClassDef)):
            below = qualified(inside, current.name)
        stack.extend((child, below) for child in _blocks(current))


def _header(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return the parts of a statement outside its blocks; a simple statement is one part."""
    if not _blocks(node):
        return (node,)
    below = {id(child) for child in _blocks(node)}
    return tuple(child for child in ast.iter_child_nodes(node) if id(child) not in below)


def _blocks(node: ast.AST) -> list[ast.AST]:
    blocks: list[ast.AST] = []
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        value = getattr(node, name, None)
        if isinstance(value, list):
            blocks.extend(value)
    return blocks


class _Roots:
    """Says of a name in a module where it comes from."""

    def __init__(self, source: bytes) -> None:
        self._modules = _modules_of(parse_module(source).tree)
        self._owners: dict[tuple[str, int], list[Binding] | None] = {}
        self._global: set[tuple[str, int]] = set()
        module = module_scope(source)
        for scope in scopes(module):
            for read in scope.reads:
                owner = _owner(scope, read)
                key = read.name, read.line
                self._owners[key] = owner.bindings.get(read.name) if owner else None
                if owner is module:
                    self._global.add(key)

    def is_global(self, node: ast.Name) -> bool:
        """Whether the module itself binds the name."""
        return (node.id, node.lineno) in self._global

    def origin(self, node: ast.expr) -> str:
        """Return the module that a dotted expression starts from, where an import binds it."""
        while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
            if not isinstance(node, ast.Attribute):
                return ""
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        bindings = self._owners.get((node.id, node.lineno)) or []
        origins = {self._modules.get(id(b.node), "") for b in bindings}
        return origins.pop() if len(origins) == 1 else ""


def _modules_of(tree: ast.Module) -> Mapping[int, str]:
    """Return the module that each imported alias comes from, by the alias node's identity."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({id(alias): alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.update({id(alias): module for alias in node.names})
    return found


def _owner(scope: Scope, read: NameRead) -> Scope | None:
    """Return the scope whose binding a read finds by name."""
    current: Scope | None = scope
    sees_class = True
    while current is not None:
        if read.name in current.globals:
            while current.parent is not None:
                current = current.parent
        if read.name in current.bindings and (sees_class or current.kind is not Kind.CLASS):
            return current
        sees_class = sees_class and current.kind is Kind.TYPE_PARAMETERS
        current = current.parent
    return None


def _reads_in(top: ast.AST, roots: _Roots) -> Iterator[Read]:
    for node in ast.walk(top):
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                line = node.end_lineno or node.lineno
                yield Read("attribute", node.attr, line, origin=roots.origin(node))
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and roots.is_global(node):
                yield Read("name", node.id, node.lineno, origin=roots.origin(node))
        elif isinstance(node, ast.Call):
            yield from _call_reads(node, roots)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Read("import", alias.name, alias.lineno, origin=module)
        elif isinstance(node, ast.MatchClass):
            for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
                yield Read("attribute", name, pattern.lineno)


def _call_reads(node: ast.Call, roots: _Roots) -> Iterator[Read]:
    function = node.func
    dotted = ast.unparse(function) if isinstance(function, (ast.Name, ast.Attribute)) else ""
    callee = dotted.rpartition(".")[2]
    if dotted in _ATTRIBUTE_BY_NAME and len(node.args) > 1:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield Read("attribute", name.value, name.lineno, origin=roots.origin(node.args[0]))
    for keyword in node.keywords:
        if keyword.arg is None:
            continue
        # dataclasses.replace(x, NAME=...) names a field of x
        if dotted in _REPLACING or callee == "_replace":
            yield Read("attribute", keyword.arg, keyword.lineno)
        elif callee:
            yield Read("keyword", keyword.arg, keyword.lineno, callee, roots.origin(function))
