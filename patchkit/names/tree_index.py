"""Where a tree defines a name: near files first, all that hold the word when asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from patchkit.names.definitions import Definition, definitions_of
from patchkit.names.mentions import CALLABLE, HEADS, is_read, may_define
from patchkit.tree import PYTHON, SourceTree

# Most of what new code reads is defined close by: 120 files take 2 ms a word, a search of a whole
# release 30 to 80 ms (0.28.0, 2 cores).
_NEAR = 120


@dataclass(frozen=True, slots=True)
class Found:
    """A definition and the file that holds it."""

    path: str
    definition: Definition

    @property
    def place(self) -> str:
        """`path:line` of the definition."""
        return f"{self.path}:{self.definition.line}"


class TreeIndex:
    """Finds definitions in one tree, as seen from one file of it."""

    def __init__(self, tree: SourceTree, path: str) -> None:
        self.tree = tree
        self._path = path
        self._near: tuple[str, ...] | None = None
        self._found: dict[bytes, tuple[str, ...]] = {}

    def near(self, name: str, kinds: frozenset[str]) -> Found | None:
        """Return a definition in a file close to the one that this was made for."""
        return next(self._in_files(self._near_paths(), name, kinds), None)

    def anywhere(self, name: str, kinds: frozenset[str]) -> Found | None:
        """Return the first definition that is met in the tree: whether there is one at all."""
        return next(self._in_files(self._holding(name, kinds), name, kinds), None)

    def everywhere(
        self, name: str, kinds: frozenset[str], most: int | None = None
    ) -> tuple[Found, ...]:
        """Return the definitions in the tree by path and line: all, or the first `most` met."""
        found = islice(self._in_files(self._holding(name, kinds), name, kinds), most)
        return tuple(sorted(found, key=lambda f: (f.path, f.definition.line)))

    def is_read_beyond(self, name: str, path: str) -> bool:
        """Return whether a file other than `path` reads the name as an attribute."""
        return any(is_read(self.tree.files[p], name) for p in self._holding(name) if p != path)

    def _in_files(
        self, paths: tuple[str, ...], name: str, kinds: frozenset[str]
    ) -> Iterator[Found]:
        word = name.encode()
        for path in paths:
            source = self.tree.files[path]
            if word in source and may_define(source, name, kinds):
                for definition in definitions_of(source, name):
                    if definition.kind in kinds:
                        yield Found(path, definition)

    def _holding(self, name: str, kinds: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """The Python files that hold a word, or for a callable what defines it."""
        words = [name.encode()]
        if kinds and kinds <= CALLABLE:
            words = [head + name.encode() for head in HEADS]
        paths = dict.fromkeys(path for word in words for path in self._searched(word))
        return tuple(paths)

    def _searched(self, word: bytes) -> tuple[str, ...]:
        if word not in self._found:
            self._found[word] = tuple(self.tree.python_holding(word))
        return self._found[word]

    def _near_paths(self) -> tuple[str, ...]:
        if self._near is None:
            python = [p for p in self.tree.files if p.endswith(PYTHON)]
            here = PurePosixPath(self._path).parts
            self._near = tuple(sorted(python, key=lambda p: distance(here, p))[:_NEAR])
        return self._near


def distance(here: tuple[str, ...], path: str) -> tuple[int, str]:
    """Return the steps from one file to another through their common folder, to sort by."""
    there = path.split("/")
    common = 0
    for one, other in zip(here, there, strict=False):
        if one != other:
            break
        common += 1
    return len(here) + len(there) - 2 * common, path
