"""A source tree as a value: posix path to bytes, with what is known of its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

REGULAR = 0o100644
EXECUTABLE = 0o100755
PYTHON = (".py", ".pyi")  # how the names of Python files end


def search_files(files: Mapping[str, bytes], word: bytes, *, python: bool) -> list[str]:
    """Return the paths that hold a word, in the order of the mapping.

    A mapping that knows a faster way than to read every file has a method `search`.
    """
    search = getattr(files, "search", None)
    if search is not None:
        found: list[str] = search(word, python=python)
        return found
    paths = [p for p in files if p.endswith(PYTHON)] if python else list(files)
    return [path for path in paths if word in files[path]]


class Overlay(Mapping[str, bytes]):
    """A mapping with changes laid over another, which is never copied or read ahead."""

    def __init__(self, lower: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> None:
        if isinstance(lower, Overlay):  # keep the stack one level deep
            changes = {**lower._changes, **changes}
            lower = lower._lower
        self._lower: Mapping[str, bytes] = lower
        self._changes: dict[str, bytes | None] = dict(changes)

    def __getitem__(self, path: str) -> bytes:
        if path in self._changes:
            content = self._changes[path]
            if content is None:
                raise KeyError(path)
            return content
        return self._lower[path]

    def __contains__(self, path: object) -> bool:
        if path in self._changes:
            return self._changes[path] is not None
        return path in self._lower

    def __iter__(self) -> Iterator[str]:
        for path in self._lower:
            if path not in self._changes:
                yield path
        for path, content in self._changes.items():
            if content is not None:
                yield path

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def left_out(self) -> frozenset[str]:
        """The paths that the tree holds besides but that are no text, such as compiled modules."""
        return frozenset(getattr(self._lower, "left_out", ()))

    def search(self, word: bytes, *, python: bool = False) -> list[str]:
        """Return the paths of the files, or of the Python files alone, that hold a word."""
        below = [
            p for p in search_files(self._lower, word, python=python) if p not in self._changes
        ]
        changed = {path: new for path, new in self._changes.items() if new}
        return below + search_files(changed, word, python=python)


@dataclass(frozen=True)
class SourceTree:
    """The files of one tree.

    `files` maps posix paths, relative to the tree's top (`vllm/config/cache.py`), to bytes; it may
    read lazily. `modes` holds git modes of the files that are not 0o100644. `partial` is true where
    files of the package may lie outside: what is missing is then "not checked", never "absent".
    """

    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    name: str = ""
    version: str | None = None
    partial: bool = False

    def with_changes(
        self,
        changes: Mapping[str, bytes | None],
        modes: Mapping[str, int] | None = None,
    ) -> SourceTree:
        """Return a tree with files set, or removed where the content is None."""
        files = Overlay(self.files, changes)
        kept = {p: m for p, m in self.modes.items() if changes.get(p, b"") is not None}
        return replace(self, files=files, modes=MappingProxyType({**kept, **(modes or {})}))

    def python_holding(self, word: bytes) -> list[str]:
        """Return the paths of the Python files that hold a word, in the order of the mapping."""
        return search_files(self.files, word, python=True)

    def mode(self, path: str) -> int:
        """Return the git mode of a file."""
        return self.modes.get(path, REGULAR)


def as_tree(tree: SourceTree | Mapping[str, bytes], *, name: str = "") -> SourceTree:
    """Return a tree from a tree or from a plain mapping, which is taken as possibly partial."""
    if isinstance(tree, SourceTree):
        return tree
    return SourceTree(files=tree, name=name, partial=True)
