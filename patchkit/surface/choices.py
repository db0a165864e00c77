"""The texts that a `Literal` type allows."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from patchkit.names.definitions import last_name
from patchkit.surface.program import Item, Program

_AROUND = frozenset({"Optional", "ClassVar", "Final", "Annotated"})
_DEEPEST = 8  # names of types that stand for other types
_NONE: frozenset[str] = frozenset()


def choices(annotation: ast.expr, path: str, program: Program, depth: int = 0) -> frozenset[str]:
    """Return the texts that a type allows; none where it allows, or may allow, any others."""
    if depth > _DEEPEST:
        return _NONE
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return _NONE
    if isinstance(annotation, ast.BinOp):
        sides = (annotation.left, annotation.right)
        kept = [s for s in sides if not (isinstance(s, ast.Constant) and s.value is None)]
        return _all_of(choices(side, path, program, depth + 1) for side in kept)
    if isinstance(annotation, ast.Subscript):
        inner = annotation.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        head = last_name(annotation.value)
        if head in _AROUND:
            return choices(parts[0], path, program, depth + 1)
        return _of_literal(parts, path, program, depth) if head == "Literal" else _NONE
    found = program.expression(path, annotation)
    value = getattr(found.node, "value", None) if isinstance(found, Item) else None
    if not isinstance(found, Item) or not isinstance(value, ast.expr):
        return _NONE
    return choices(value, found.path, program, depth + 1)


def _of_literal(
    parts: Iterable[ast.expr], path: str, program: Program, depth: int
) -> frozenset[str]:
    """What the parts of a `Literal` allow: texts, and other such types."""
    found = []
    for part in parts:
        if not isinstance(part, ast.Constant):
            found.append(choices(part, path, program, depth + 1))
        elif isinstance(part.value, str):
            found.append(frozenset({part.value}))
    return _all_of(found)


def _all_of(found: Iterable[frozenset[str]]) -> frozenset[str]:
    """What several types allow together; none where one of them allows others."""
    listed = list(found)
    return _NONE.union(*listed) if all(listed) else _NONE
