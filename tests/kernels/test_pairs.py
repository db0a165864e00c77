"""The chooser of rows: every pair is there, in few rows, the same ones in every process."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.kernels.pairs import all_pairs, pairs_of, pairwise

FACTORS = {
    "format": ("bf16", "fp8", "int8", "fp32"),
    "size": (64, 128, 256),
    "page": (16, 48, 432),
    "window": (0, 7),
}


def test_three_factors_of_two_values_take_four_rows() -> None:
    assert pairwise({"a": (0, 1), "b": (0, 1), "c": (0, 1)}) == [
        {"a": 0, "b": 0, "c": 0},
        {"a": 0, "b": 1, "c": 1},
        {"a": 1, "b": 0, "c": 1},
        {"a": 1, "b": 1, "c": 0},
    ]


def test_the_pairs_of_two_factors_are_their_product() -> None:
    assert all_pairs({"a": (0, 1), "b": ("x",)}) == [
        (("a", 0), ("b", "x")),
        (("a", 1), ("b", "x")),
    ]


def test_every_pair_of_values_is_in_some_row_and_no_row_is_idle() -> None:
    rows = pairwise(FACTORS)
    shown = [set(pairs_of(row)) for row in rows]
    assert set.union(*shown) == set(all_pairs(FACTORS))
    for number, mine in enumerate(shown):
        assert mine - set().union(*shown[:number])


def test_the_rows_are_few() -> None:
    product = 4 * 3 * 3 * 2
    assert 12 <= len(pairwise(FACTORS)) <= 15 < product


@pytest.mark.parametrize("names", list(combinations(FACTORS, 2)))
def test_two_factors_alone_take_their_product(names: tuple[str, str]) -> None:
    one, two = names
    factors = {name: FACTORS[name] for name in names}
    assert len(pairwise(factors)) == len(FACTORS[one]) * len(FACTORS[two])
