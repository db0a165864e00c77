"""What is twice in a module after a change and was not before it.

Only what changed is looked into: a top-level statement, or a member of a class, whose text is the
same on both sides adds the same to both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from patchkit.names.changed import Unit, changed_units, units_of
from patchkit.names.repeats import Doubled, Repeats, grown, may_be_doubled, shown
from patchkit.names.scopes import MODULE_SCOPE
from patchkit.names.surplus import beyond, surplus
from patchkit.names.unresolved import rebound

__all__ = ["Doubled", "doubled", "doubled_beyond"]


@lru_cache(maxsize=256)
def doubled(before: bytes, after: bytes) -> tuple[Doubled, ...]:
    """Return what `after` holds twice and `before` does not, by line; raises `NotPythonError`."""
    if before == after:
        return ()
    old_units, new_units = changed_units(before, after)
    old, new = _facts(before, old_units), _facts(after, new_units)
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


def _facts(source: bytes, changed: Iterable[Unit]) -> Repeats:
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
    every = units_of(source)
    for unit in every:
        if isinstance(unit.node, ast.ClassDef):
            facts.look_at_class(unit.node, unit.scope)
    _top_statements(every, facts)
    return facts


def _top_statements(units: Iterable[Unit], facts: Repeats) -> None:
    """Note what stands twice in the module's block or a class's; attributes are noted elsewhere."""
    seen: set[tuple[str, str, bytes, int]] = set()
    for unit in units:
        member = unit.scope != MODULE_SCOPE and isinstance(unit.node, (ast.Assign, ast.AnnAssign))
        if member or not may_be_doubled(unit.node):
            continue
        if unit.key in seen:
            facts.doubled.append(
                Doubled("statement", unit.scope, shown(unit.node), unit.node.lineno)
            )
        seen.add(unit.key)
