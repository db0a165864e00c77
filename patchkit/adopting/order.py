"""The order in which patches apply, where nothing says which one it is."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.adopting.canonical import after
from patchkit.adopting.gather import Found
from patchkit.tree import SourceTree

_MOST_TRIES = 400  # applications on one release; 20 patches in the reverse order take 210


def numbered(patches: Sequence[Found]) -> list[int] | None:
    """Return the order that the subjects say (`[PATCH 2/3]`), None where they say none or this."""
    numbers = [found.said.numbers for found in patches]
    known = [pair for pair in numbers if pair is not None]
    if len(known) < len(numbers) or len({count for _, count in known}) != 1:
        return None
    order = sorted(range(len(known)), key=lambda at: known[at][0])
    distinct = len({number for number, _ in known}) == len(known)
    return order if distinct and order != list(range(len(known))) else None


def applying_order(patches: Sequence[Found], tree: SourceTree) -> list[int] | None:
    """Return an order in which all patches apply to a tree, the nearest to the given one.

    None where there is none, or where it is not found within a bounded number of tries.
    """
    return _Search(patches).run([], list(range(len(patches))), tree)


class _Search:
    """Depth first, the given order first; what was a dead end once is one in every order."""

    def __init__(self, patches: Sequence[Found]) -> None:
        self._patches = patches
        self._tries = 0
        self._dead: set[frozenset[int]] = set()

    def run(self, done: list[int], left: list[int], tree: SourceTree) -> list[int] | None:
        if not left:
            return done
        for at in left:
            made = self._after(at, tree)
            rest = [other for other in left if other != at]
            if made is None or frozenset(rest) in self._dead:
                continue
            if (found := self.run([*done, at], rest, made)) is not None:
                return found
        self._dead.add(frozenset(left))
        return None

    def _after(self, at: int, tree: SourceTree) -> SourceTree | None:
        self._tries += 1
        if self._tries > _MOST_TRIES:
            return None
        return after(self._patches[at].patch, tree)
