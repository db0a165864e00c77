"""Draws that are the same for a seed on any Python.

Only `Random.random()` is promised to give the same sequence in every version, so nothing else of
the module is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def seeded(*parts: object) -> Random:
    """Return a generator that depends on the text of its parts alone."""
    return Random(":".join(map(str, parts)))


def pick(rng: Random, items: Sequence[T]) -> T:
    """Return one of the items."""
    return items[int(rng.random() * len(items))]


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """Return the items in a random order."""
    result = list(items)
    for end in range(len(result) - 1, 0, -1):
        at = int(rng.random() * (end + 1))
        result[end], result[at] = result[at], result[end]
    return result
