"""Mistakes in `pack` that only a GPU runs, as data; `mutate.py --gpu` tries them.

A GPU adds what it has multiplied without rounding the product; the interpreter rounds it.
"""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation

TOKENS = tuple(
    f"tests/kernels/test_pack.py::test_two_bits_stay_within_the_range_of_their_token[{n}-fitted]"
    for n in (10, 1)
)

UNCHANGED = (
    Mutation(
        "nothing changed in tokens that are alike once balanced",
        "kvarn_port/__init__.py",
        "",
        "",
        count=0,
        gpu=True,
        tests=TOKENS,
    ),
)

MUTATIONS = (
    Mutation(
        "pack-gpu-fitted-to-codes-alike",
        KERNELS + "round_pack.py",
        "(covariance > 0.0) & (tl.abs(mean_level) < 1.5)",
        "covariance > 0.0",
        gpu=True,
        tests=TOKENS,
    ),
)
