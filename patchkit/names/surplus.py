"""What is more in one collection of findings than in another, counted by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def surplus(after: Iterable[T], before: Iterable[T], key: Callable[[T], Hashable]) -> tuple[T, ...]:
    """Return the items of `after` beyond those of `before` with the same key, order kept.

    Of several with one key, the first ones are taken for those that were there before.
    """
    spare = Counter(key(item) for item in before)
    found = []
    for item in after:
        name = key(item)
        if spare[name]:
            spare[name] -= 1
        else:
            found.append(item)
    return tuple(found)


def beyond(
    found: Iterable[T],
    allowed: Iterable[T],
    exact: Callable[[T], Hashable],
    loose: Callable[[T], Hashable],
) -> tuple[T, ...]:
    """Return `found` less what `allowed` has, one for one: by exact key, then by loose key."""
    found, allowed = tuple(found), tuple(allowed)
    unused = surplus(allowed, found, exact)
    return surplus(surplus(found, allowed, exact), unused, loose)
