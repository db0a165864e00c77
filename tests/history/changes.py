"""The table of real changes, each cut as a patch from the two releases around it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.specifiers import SpecifierSet

from patchkit.diff import diff_files, format_patch
from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import Patch, split_lines
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree, shipped_pins

TABLE = Path(__file__).with_name("changes.toml")
WHOLE_FILE = "*"


@dataclass(frozen=True)
class HistoryChange:
    """One change that upstream made from `older` to `newer`.

    `take` says what of it, by path: texts that stand in the changed runs of lines, `def NAME` for
    the lines of one definition, `*` for a whole new file. `upstream` are the releases that have it,
    as read in their sources; in every other release it may land or be a conflict.
    """

    name: str
    kind: str
    older: str
    newer: str
    take: Mapping[str, Sequence[str]]
    upstream: SpecifierSet
    note: str = ""

    def contents(self) -> dict[str, bytes]:
        """Return the older release's files with this change alone."""
        old, new = tree(self.older).files, tree(self.newer).files
        return {p: _cut(p, old.get(p), new[p], texts) for p, texts in self.take.items()}

    def patch(self) -> bytes:
        """Return the change as a patch against the older release."""
        old, new = tree(self.older).files, self.contents()
        before = {path: old[path] for path in new if path in old}
        return format_patch(Patch(self.name, b"", diff_files(before, new)))


@lru_cache(maxsize=16)
def tree(version: str) -> SourceTree:
    """Return a release's tree, opened once."""
    return open_tree(f"v{version}", pins=shipped_pins())


def releases() -> tuple[str, ...]:
    """Return the pinned releases, the oldest first."""
    return tuple(shipped_pins().versions)


def read_table(text: str | None = None) -> tuple[HistoryChange, ...]:
    """Return the changes of the table."""
    table = tomllib.loads(TABLE.read_text() if text is None else text)
    return tuple(
        HistoryChange(**{**entry, "upstream": SpecifierSet(entry["upstream"])})
        for entry in table["change"]
    )


def _cut(path: str, old: bytes | None, new: bytes, texts: Sequence[str]) -> bytes:
    """The old file with those runs of the new one that hold a text."""
    if old is None:
        assert list(texts) == [WHOLE_FILE], path
        return new
    before, after = split_lines(old), split_lines(new)
    runs = list(diff_lines(before, after))
    chosen: list[Change] = []
    for text in texts:
        if text.startswith("def "):
            chosen.append(_inserted(text.removeprefix("def "), before, after))
            continue
        found = list(_runs_of(text, runs, before, after))
        assert found, f"nothing of {path} says {text!r}"
        chosen += [run for run in found if run not in chosen]
    return _joined(before, after, chosen)


def _joined(before: Sequence[bytes], after: Sequence[bytes], chosen: Sequence[Change]) -> bytes:
    """The old lines with some changes towards the new ones."""
    pieces, at = [], 0
    for run in sorted(chosen, key=lambda c: (c.old_start, c.new_start)):
        pieces += [*before[at : run.old_start], *after[run.new_start : run.new_end]]
        at = run.old_end
    return b"".join([*pieces, *before[at:]])


def _runs_of(
    text: str,
    runs: Sequence[Change],
    before: Sequence[bytes],
    after: Sequence[bytes],
) -> Iterator[Change]:
    wanted = text.encode()
    for run in runs:
        lines = [*before[run.old_start : run.old_end], *after[run.new_start : run.new_end]]
        if wanted in b"".join(lines):
            yield run


def _inserted(name: str, before: Sequence[bytes], after: Sequence[bytes]) -> Change:
    """One definition of the new file, put behind the one that it follows there and in the old.

    A diff may begin in the middle of a definition that is like the one before it.
    """
    outer, _, bare = name.rpartition(".")
    old, new = _spans(b"".join(before), outer), _spans(b"".join(after), outer)
    names = list(new)
    start, end = new[bare]
    previous = next((n for n in names[: names.index(bare)][::-1] if n in old), None)
    if previous is None:
        at = next(old[n][0] for n in names[names.index(bare) :] if n in old)
        while not after[end].strip():
            end += 1
        return Change(at, at, start, end)
    at = old[previous][1]
    while not after[start - 1].strip():
        start -= 1
    return Change(at, at, start, end)


def _spans(source: bytes, outer: str) -> dict[str, tuple[int, int]]:
    """The definitions of a scope with their 0-based half-open lines, decorators included."""
    body: Sequence[ast.stmt] = ast.parse(source).body
    for part in outer.split(".") if outer else ():
        around = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == part)
        body = around.body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        n.name: (min([n.lineno, *(d.lineno for d in n.decorator_list)]) - 1, n.end_lineno or 0)
        for n in body
        if isinstance(n, kinds)
    }
