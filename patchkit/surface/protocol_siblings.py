"""What the other classes of a base do, read off their text: whether most of them answer to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from patchkit.tree import SourceTree

_HEADER = re.compile(rb"^class (\w+)\(([^)]*)\)[^\n:]*:", re.MULTILINE)
_NEXT = re.compile(rb"^[^\s#)]", re.MULTILINE)


class Sibling(NamedTuple):
    """A class that derives from a base directly, at the top of its module."""

    path: str
    name: str
    body: bytes

    def gives(self, member: str) -> bool:
        """Return whether its body defines a method of a name."""
        return b" def %b(" % member.encode() in self.body

    def says(self, member: str, value: str) -> bool:
        """Return whether its body sets a name to a constant, or a method of it returns that."""
        if member.encode() not in self.body:
            return False
        return _says(member, value).search(self.body) is not None


class Siblings:
    """Finds the classes of a tree that derive from the same base."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._found: dict[str, tuple[Sibling, ...]] = {}

    def of(self, base: str) -> tuple[Sibling, ...]:
        """Return the classes that name a base, by its last name, in the order of the tree."""
        if base not in self._found:
            self._found[base] = tuple(self._read(base.rpartition(".")[2].encode()))
        return self._found[base]

    def _read(self, word: bytes) -> Iterator[Sibling]:
        for path in self._tree.python_holding(word):
            for name, body in _deriving(self._tree.files[path], word):
                yield Sibling(path, name, body)


@lru_cache(maxsize=1024)
def _deriving(source: bytes, word: bytes) -> tuple[tuple[str, bytes], ...]:
    """The classes of a module that have a name among their bases, with their bodies."""
    named = re.compile(rb"(?<!\w)%b(?!\w)" % re.escape(word))
    found = []
    for header in _HEADER.finditer(source):
        if named.search(header[2]):
            end = _NEXT.search(source, header.end())
            body = source[header.end() : end.start() if end else len(source)]
            found.append((header[1].decode(), body))
    return tuple(found)


@lru_cache(maxsize=256)
def _says(member: str, value: str) -> re.Pattern[bytes]:
    name, said = member.encode(), value.encode()
    method = rb" def %b\([^\n]*\n(?:[ \t]*\"\"\".*?\"\"\"\n)?\s*return %b\n" % (name, said)
    attribute = rb"^    %b(?::[^\n=]*)? = %b$" % (name, said)
    return re.compile(rb"%b|%b" % (method, attribute), re.MULTILINE | re.DOTALL)
