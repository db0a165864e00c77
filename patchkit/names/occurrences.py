"""Where a binding is used: every place that Python's scopes make a use of one name.

A keyword argument, an attribute of another object and a string are never uses. Where Python gives
no position for a use (`except … as x`, `nonlocal x`, a `match` capture, an import alias) the answer
is that there is none, and the caller does without.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from patchkit.syntax.tree import Module

Function = ast.FunctionDef | ast.AsyncFunctionDef


class UnsureError(ValueError):
    """The uses of a name cannot be told for certain."""


def bound_names(scope: ast.AST) -> set[str]:
    """Return the names that a function, lambda, class or module binds in its own scope."""
    names: set[str] = set()
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        names |= {a.arg for a in _all_args(scope.args)}
    outer: set[str] = set()
    for node in _own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names}
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
        ):
            names.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outer |= set(node.names)
    return names - outer


def _all_args(args: ast.arguments) -> list[ast.arg]:
    extra = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _body(scope: ast.AST) -> list[ast.AST]:
    body: Any = getattr(scope, "body", [])
    return list(body) if isinstance(body, list) else [body]


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope's body that are not inside a scope of their own."""
    stack: list[ast.AST] = _body(scope)[::-1]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _SCOPES):
            stack.extend(_outside(node)[::-1])
        elif isinstance(node, _COMPREHENSIONS):
            stack.append(node.generators[0].iter)
            stack.extend(n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        else:
            stack.extend(list(ast.iter_child_nodes(node))[::-1])


def _outside(node: ast.AST) -> list[ast.AST]:
    """The parts of a definition that are evaluated in the scope around it."""
    parts: list[ast.AST | None] = list(getattr(node, "decorator_list", []))
    if isinstance(node, ast.ClassDef):
        parts += [*node.bases, *node.keywords]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        parts += [*node.args.defaults, *node.args.kw_defaults]
        parts += [a.annotation for a in _all_args(node.args)]
        parts.append(getattr(node, "returns", None))
    return [p for p in parts if p is not None]


def uses(scope: ast.AST, name: str) -> list[ast.Name | ast.arg]:
    """Return the nodes that bind or read the variable `name` of a function or module.

    Raises `UnsureError` where one of them has no position of its own.
    """
    found: list[ast.Name | ast.arg] = []
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        found += [a for a in _all_args(scope.args) if a.arg == name]
    for node in _body(scope):
        _visit(node, name, found)
    return found


def _visit(node: ast.AST, name: str, found: list[ast.Name | ast.arg]) -> None:
    _refuse(node, name)
    if isinstance(node, ast.Name):
        if node.id == name:
            found.append(node)
        return
    if isinstance(node, _SCOPES):
        for part in _outside(node):
            _visit(part, name, found)
        if name in bound_names(node):
            if isinstance(node, ast.ClassDef):
                _visit_methods(node, name, found)
            return
        for part in _body(node):
            _visit(part, name, found)
        return
    if isinstance(node, _COMPREHENSIONS):
        targets = [n for g in node.generators for n in ast.walk(g.target)]
        _visit(node.generators[0].iter, name, found)
        if any(isinstance(n, ast.Name) and n.id == name for n in targets):
            return
        first = node.generators[0].iter
        for child in ast.iter_child_nodes(node):
            for part in (
                ast.iter_child_nodes(child) if isinstance(child, ast.comprehension) else [child]
            ):
                if part is not first:
                    _visit(part, name, found)
        return
    for child in ast.iter_child_nodes(node):
        _visit(child, name, found)


def _visit_methods(cls: ast.ClassDef, name: str, found: list[ast.Name | ast.arg]) -> None:
    """The uses in the methods of a class that binds the name itself: they do not see its own."""
    for part in cls.body:
        outside: list[ast.AST] = [part]
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outside = _outside(part)
            if name not in bound_names(part):
                for inner in part.body:
                    _visit(inner, name, found)
        reads = (n for p in outside for n in ast.walk(p) if isinstance(n, ast.Name))
        if any(n.id == name and isinstance(n.ctx, ast.Load) for n in reads):
            raise UnsureError(f"`{name}` in the body of a class that binds it as well")


def definitions_in(scope: ast.AST, name: str) -> list[ast.AST]:
    """Return the functions and classes of a name that are defined directly in a scope."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [n for n in _own_nodes(scope) if isinstance(n, kinds) and n.name == name]


def _refuse(node: ast.AST, name: str) -> None:
    """Stop at a use that Python gives no position."""
    hidden: list[str | None] = []
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        hidden = list(node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        hidden = [node.name]
    elif isinstance(node, ast.MatchMapping):
        hidden = [node.rest]
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        hidden = [(a.asname or a.name).split(".")[0] for a in node.names]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        hidden = [node.name]
    if name in hidden:
        raise UnsureError(f"`{name}` is bound where Python gives no position")


def attribute_uses(cls: ast.ClassDef, name: str) -> list[ast.Attribute]:
    """Return the uses of a method inside its class: through `self`, `cls` or the class's name."""
    found = []
    for method in cls.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        owners = {cls.name, *(a.arg for a in method.args.args[:1])}
        for node in ast.walk(method):
            if not isinstance(node, ast.Attribute) or node.attr != name:
                continue
            if isinstance(node.value, ast.Name) and node.value.id in owners:
                found.append(node)
    return found


Span = tuple[int, int]


def spans_of(
    module: Module, scope: ast.AST, nodes: list[ast.Name | ast.arg], name: str
) -> list[Span]:
    """Return the byte spans of uses; those inside f-strings are found in the string's text.

    Python 3.11 gives the parts of an f-string wrong positions, so that they are searched for.
    """
    wanted = {id(n) for n in nodes}
    spans: list[Span] = []
    for node in ast.walk(scope):
        if isinstance(node, ast.JoinedStr):
            inside = [n for n in ast.walk(node) if id(n) in wanted]
            wanted -= {id(n) for n in inside}
            if inside:
                spans += _in_fstring(module, node, name, len(inside))
    for use in nodes:
        if id(use) in wanted:
            start = module.offset(use.lineno, use.col_offset)
            spans.append((start, start + len(name.encode())))
    for start, end in spans:
        if module.source[start:end] != name.encode():
            raise UnsureError(f"`{name}` is not where Python says")
    return sorted(set(spans))


def _in_fstring(module: Module, node: ast.JoinedStr, name: str, count: int) -> list[Span]:
    start = module.offset(node.lineno, node.col_offset)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    text = module.source[start : module.offset(node.end_lineno, node.end_col_offset)]
    pattern = re.compile(rb"(?<![\w.])%b(?!\w)" % name.encode())
    found = [m.span() for field in _fields(text) for m in pattern.finditer(text, *field)]
    if len(found) != count:
        raise UnsureError(f"`{name}` in an f-string cannot be told from its text")
    return [(start + a, start + b) for a, b in found]


def _fields(text: bytes) -> Iterator[Span]:
    """The spans between the braces of an f-string, doubled braces aside."""
    depth, begin, index = 0, 0, 0
    while index < len(text):
        pair = text[index : index + 2]
        if depth == 0 and pair in (b"{{", b"}}"):
            index += 2
            continue
        if text[index] == ord("{"):
            depth += 1
            begin = index + 1 if depth == 1 else begin
        elif text[index] == ord("}") and depth:
            depth -= 1
            if depth == 0:
                yield begin, index
        index += 1
