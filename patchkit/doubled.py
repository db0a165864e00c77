"""What is twice in a module after a change and was not before it.

Only what changed is looked into: a top-level statement, or a member of a class, whose text is the
same on both sides adds the same to both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from patchkit.names import rebound
from patchkit.repeats import Doubled, Repeats, grown, may_be_doubled, qualified, shown
from patchkit.scopes import MODULE_SCOPE
from patchkit.surplus import beyond, surplus
from patchkit.syntax import parse_module

__all__ = ["Doubled", "doubled", "doubled_beyond"]

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """A statement of the module or of a class body; of a class, only what is above its body."""

    scope: str
    node: ast.stmt
    text: bytes
    column: int

    @property
    def key(self) -> tuple[str, bytes, int]:
        return self.scope, self.text, self.column


@lru_cache(maxsize=256)
def doubled(before: bytes, after: bytes) -> tuple[Doubled, ...]:
    """Return what `after` holds twice and `before` does not, by line; raises `NotPythonError`."""
    if before == after:
        return ()
    old_units, new_units = tuple(_units(before)), tuple(_units(after))
    old = _facts(before, surplus(old_units, new_units, lambda u: u.key), old_units)
    new = _facts(after, surplus(new_units, old_units, lambda u: u.key), new_units)
    found = [
        *surplus(new.doubled, old.doubled, _key),
        *grown(old.displays, new.displays),
    ]
    return tuple(sorted(set(found), key=lambda d: (d.line, d.kind, d.name)))


def doubled_beyond(
    base: bytes, authored: bytes, target: bytes, result: bytes
) -> tuple[Doubled, ...]:
    """Return what is doubled from target to result and was not doubled as authored.

    What the author doubled is allowed in the same definition, else once in a renamed one.
    """
    found = doubled(target, result)
    return beyond(found, doubled(base, authored), _key, _loose_key) if found else ()


def _key(item: Doubled) -> tuple[str, ...]:
    return item.kind, item.scope, item.name


def _loose_key(item: Doubled) -> tuple[str, ...]:
    return item.kind, item.name


@lru_cache(maxsize=64)
def _units(source: bytes) -> tuple[_Unit, ...]:
    lines = source.splitlines(keepends=True)
    return tuple(_units_of(parse_module(source).tree.body, MODULE_SCOPE, lines))


def _units_of(body: Iterable[ast.stmt], scope: str, lines: list[bytes]) -> Iterator[_Unit]:
    for node in body:
        first, last = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, _DEFINITIONS) and node.decorator_list:
            first = min(d.lineno for d in node.decorator_list)
        if isinstance(node, ast.ClassDef):
            last = max(node.lineno, node.body[0].lineno - 1)
        yield _Unit(scope, node, b"".join(lines[first - 1 : last]), node.col_offset)
        if isinstance(node, ast.ClassDef):
            yield from _units_of(node.body, qualified(scope, node.name), lines)


def _facts(source: bytes, changed: Iterable[_Unit], every: Iterable[_Unit]) -> Repeats:
    """Return what the changed units repeat inside, and what the scopes around them repeat."""
    facts = Repeats()
    for item in rebound(source):
        facts.doubled.append(Doubled(item.kind, item.scope, item.name, item.line))
    for unit in changed:
        if not isinstance(unit.node, ast.ClassDef):
            facts.look(unit.node, unit.scope)
        else:
            facts.look_at_header(unit.node, unit.scope)
            for part in (*unit.node.decorator_list, *unit.node.bases, *unit.node.keywords):
                facts.look(part, unit.scope)
    for unit in every:
        if isinstance(unit.node, ast.ClassDef):
            facts.look_at_class(unit.node, unit.scope)
    _top_statements(every, facts)
    return facts


def _top_statements(units: Iterable[_Unit], facts: Repeats) -> None:
    """Note what stands twice in the module's block or a class's; attributes are noted elsewhere."""
    seen: set[tuple[str, bytes, int, str]] = set()
    for unit in units:
        member = unit.scope != MODULE_SCOPE and isinstance(unit.node, (ast.Assign, ast.AnnAssign))
        if member or not may_be_doubled(unit.node):
            continue
        key = (*unit.key, type(unit.node).__name__)
        if key in seen:
            facts.doubled.append(
                Doubled("statement", unit.scope, shown(unit.node), unit.node.lineno)
            )
        seen.add(key)
