"""How a function binds its variables, so far as it tells what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from patchkit.names.definitions import last_name
from patchkit.surface.bound_names import FUNCTIONS

# How, and what tells it: "self"; "type" with an annotation; "value" with an expression; "element"
# with what a `for` goes over; "import" with `module:name`; "" where nothing tells it.
Local = tuple[str, ast.expr | None]


@lru_cache(maxsize=1024)
def locals_of(scope: ast.AST) -> dict[str, list[Local]]:
    """Return how a function binds each of its names; comprehensions count as part of it."""
    found: dict[str, list[Local]] = {}
    if isinstance(scope, (*FUNCTIONS, ast.Lambda)):
        for name, local in _parameters(scope):
            found.setdefault(name, []).append(local)
        body = scope.body if isinstance(scope.body, list) else [scope.body]
        for node in _inside(body):
            for name, local in _bound_by(node):
                found.setdefault(name, []).append(local)
    return found


def _parameters(
    scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> Iterator[tuple[str, Local]]:
    arguments = scope.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for number, arg in enumerate(listed):
        if number == 0 and arg.arg in ("self", "cls"):
            yield arg.arg, ("self", None)
        else:
            yield arg.arg, ("type" if arg.annotation is not None else "", arg.annotation)
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            yield rest.arg, ("", None)


def _inside(body: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    """The nodes of a function's body without those of the definitions in it."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[tuple[str, Local]]:
    if isinstance(node, ast.AnnAssign):
        yield from _targets(node.target, ("type", node.annotation))
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, ("value", node.value))
    elif isinstance(node, ast.NamedExpr):
        yield from _targets(node.target, ("value", node.value))
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _targets(node.target, ("element", node.iter))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, ("", None))
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _imports(node)
    elif isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler)):
        if node.name:
            yield node.name, ("", None)
    elif isinstance(node, ast.Lambda):
        yield from ((name, ("", None)) for name, _ in _parameters(node))


def _targets(target: ast.expr, local: Local) -> Iterator[tuple[str, Local]]:
    if isinstance(target, ast.Name):
        yield target.id, local
    elif isinstance(target, (ast.Tuple, ast.List, ast.Starred)):
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id, ("", None)


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Local]]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            text = f"{module}:{alias.name}"
        else:
            text = f"{alias.name if alias.asname else alias.name.partition('.')[0]}:"
        bound = alias.asname or (
            alias.name if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0]
        )
        yield bound, ("import", ast.Constant(text))


@lru_cache(maxsize=8192)
def around(tree: ast.AST, line: int) -> tuple[ast.AST, ...]:
    """Return the functions and classes that hold a line below their header, outermost first."""
    found: list[ast.AST] = []
    body: list[ast.stmt] = getattr(tree, "body", [])
    while True:
        inner = next((s for s in body if s.lineno <= line <= (s.end_lineno or s.lineno)), None)
        if inner is None:
            return tuple(found)
        if isinstance(inner, (*FUNCTIONS, ast.ClassDef)):
            if line < inner.body[0].lineno:
                return tuple(found)
            found.append(inner)
        body = [s for s in ast.iter_child_nodes(inner) if isinstance(s, ast.stmt)]
        for part in (*getattr(inner, "handlers", ()), *getattr(inner, "cases", ())):
            body.extend(part.body)


def decorators(node: ast.AST) -> frozenset[str]:
    """Return the last names of a definition's decorators."""
    return frozenset(last_name(d) for d in getattr(node, "decorator_list", ()))
