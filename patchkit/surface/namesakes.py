"""The one thing of a name in a whole tree, for code of which only the name is known."""

from __future__ import annotations

import ast
import re

from patchkit.names.mentions import CALLABLE
from patchkit.surface.bound_names import FUNCTIONS, body_of
from patchkit.surface.program import Item, Program
from patchkit.syntax.headings import headings_of

_MEMBERS = frozenset({"field", "method", "self", "store"})
Pair = tuple[Item | None, Item | None]


class Namesakes:
    """Finds what has a name alone in base and target, as seen from one file.

    The search begins close to the file and ends there where it finds nothing, or nothing that
    changed: whole releases are searched for the rest alone (40 ms a name).
    """

    def __init__(self, base: Program, target: Program, path: str) -> None:
        self._programs = base, target
        self._indexes = base.index(path), target.index(path)

    def callables(self, name: str, landed: str) -> Pair:
        """Return the only function or method of a name in either tree, where it may differ."""
        if not self._differs(name, CALLABLE):
            return None, None
        base, target = self._programs
        old = _only_callable(base, name)
        return old, _only_callable(target, landed) if old is not None else None

    def members(self, name: str, landed: str) -> Pair:
        """Return the only field or method of a name in either tree, where it may differ."""
        if not self._differs(name, _MEMBERS):
            return None, None
        old = self._only_member(0, name)
        return old, self._only_member(1, landed) if old is not None else None

    def _differs(self, name: str, kinds: frozenset[str]) -> bool:
        """Whether something of that name is close by, in a file that is not the same in both."""
        near = self._indexes[0].near(name, kinds)
        base, target = self._programs
        return near is not None and base.source(near.path) != target.source(near.path)

    def _only_member(self, side: int, name: str) -> Item | None:
        found = self._indexes[side].everywhere(name, _MEMBERS, most=2)
        if len(found) != 1:
            return None
        program, path = self._programs[side], found[0].path
        for owner in (h.bare for h in headings_of(program.source(path))):
            item = program.find(path, owner)
            node = item.node if isinstance(item, Item) else None
            if isinstance(node, ast.ClassDef) and name in body_of(node):
                assert isinstance(item, Item)
                return program.member(item, name)
        return None


def _only_callable(program: Program, name: str) -> Item | None:
    """The only function or method of that name; None where there are several, or a class."""
    word = name.encode()
    pattern = re.compile(rb"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+%b\b" % re.escape(word), re.M)
    found: list[str] = []
    for path in program.tree.python_holding(b"def " + word):
        found += [path for _ in pattern.finditer(program.source(path))]
        if len(found) > 1:
            return None
    return _item(program, found[0], name) if found else None


def _item(program: Program, path: str, name: str) -> Item | None:
    """The only definition of a name in a file, with the class that holds it."""
    heading = next((h for h in headings_of(program.source(path)) if h.bare == name), None)
    if heading is None:
        return None
    owner, _, _ = heading.name.rpartition(".")
    if not owner:
        found = program.find(path, name)
        return found if isinstance(found, Item) and isinstance(found.node, FUNCTIONS) else None
    holder = program.find(path, owner)
    if not isinstance(holder, Item) or not isinstance(holder.node, ast.ClassDef):
        return None
    for kind, node in body_of(holder.node).get(name, ()):
        if kind == "function":
            return Item(kind, path, name, node, holder.shift, holder)
    return None
