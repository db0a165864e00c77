"""The parts of a module that a change touches: statements whose text is not on the other side."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from patchkit.names.repeats import qualified
from patchkit.names.scopes import MODULE_SCOPE
from patchkit.names.surplus import surplus
from patchkit.syntax.build import parse_module

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A statement of the module or of a class body; of a class, only what is above its body."""

    scope: str
    node: ast.stmt
    text: bytes

    @property
    def key(self) -> tuple[str, str, bytes, int]:
        """What tells units apart; several statements may share a line."""
        return self.scope, type(self.node).__name__, self.text, self.node.col_offset


def changed_units(before: bytes, after: bytes) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Return the units that only `before` has and those that only `after` has."""
    old, new = units_of(before), units_of(after)
    return surplus(old, new, lambda u: u.key), surplus(new, old, lambda u: u.key)


@lru_cache(maxsize=64)
def units_of(source: bytes) -> tuple[Unit, ...]:
    """Return the units of a module in the order of the text; raises `NotPythonError`."""
    lines = source.splitlines(keepends=True)
    return tuple(_units(parse_module(source).tree.body, MODULE_SCOPE, lines))


def _units(body: Iterable[ast.stmt], scope: str, lines: list[bytes]) -> Iterator[Unit]:
    for node in body:
        first, last = _first_line(node), node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef):
            last = max(node.lineno, _first_line(node.body[0]) - 1)
        yield Unit(scope, node, b"".join(lines[first - 1 : last]))
        if isinstance(node, ast.ClassDef):
            yield from _units(node.body, qualified(scope, node.name), lines)


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    return min((d.lineno for d in decorators), default=node.lineno)
