"""The longest increasing subsequence of index pairs: matches that do not cross."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence in which the second numbers grow; the firsts do already."""
    tails: list[int] = []
    heads: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        position = bisect_left(tails, j)
        before.append(heads[position - 1] if position else -1)
        if position == len(tails):
            tails.append(j)
            heads.append(index)
        else:
            tails[position] = j
            heads[position] = index
    chain: list[tuple[int, int]] = []
    cursor = heads[-1] if heads else -1
    while cursor >= 0:
        chain.append(pairs[cursor])
        cursor = before[cursor]
    return chain[::-1]
