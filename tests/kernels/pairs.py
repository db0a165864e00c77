"""Few rows in which every pair of values of every two factors appears together (pairwise tests)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Value = Any
Row = dict[str, Value]
Pair = tuple[tuple[str, Value], tuple[str, Value]]


def all_pairs(factors: Mapping[str, Sequence[Value]]) -> list[Pair]:
    """Return every pair of values of two different factors."""
    return [
        ((one, a), (two, b))
        for one, two in combinations(factors, 2)
        for a, b in product(factors[one], factors[two])
    ]


def pairs_of(row: Row) -> Iterator[Pair]:
    """Return the pairs that a row, its factors in their order, shows."""
    return combinations(row.items(), 2)


def pairwise(factors: Mapping[str, Sequence[Value]]) -> list[Row]:
    """Return rows that show every pair, chosen greedily, the same ones every time.

    Each row begins with a pair that none has shown yet, and takes factor by factor the value that
    shows most new pairs with what is chosen; of equal ones that which was taken least often.
    """
    # a dict, for its order: a set of strings has another one in each process
    left = dict.fromkeys(all_pairs(factors))
    used = {(name, value): 0 for name in factors for value in factors[name]}
    order = {name: place for place, name in enumerate(factors)}
    rows: list[Row] = []
    while left:
        chosen = dict(next(iter(left)))
        for name in factors:
            if name not in chosen:
                chosen[name] = _best(name, factors[name], chosen, left, order, used)
        row = {name: chosen[name] for name in factors}
        for item in row.items():
            used[item] += 1
        for pair in pairs_of(row):
            left.pop(pair, None)
        rows.append(row)
    return rows


def _best(
    name: str,
    values: Sequence[Value],
    chosen: Row,
    left: Mapping[Pair, None],
    order: Mapping[str, int],
    used: Mapping[tuple[str, Value], int],
) -> Value:
    """Return the value of a factor that shows most new pairs with those chosen."""

    def new(value: Value) -> int:
        mine = (name, value)
        return sum(
            ((mine, other) if order[name] < order[other[0]] else (other, mine)) in left
            for other in chosen.items()
        )

    return max(values, key=lambda value: (new(value), -used[name, value]))
