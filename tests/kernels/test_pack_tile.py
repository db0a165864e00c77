"""The device functions of `pack` alone: scales of a tile, rounding and packing of a balanced one.

Each comparison names mutations of `mutations_kvarn_pack.py` that it is to catch, without "kernel-".
"""

from __future__ import annotations

import importlib.util

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.reference.normalise import normalise
from kvarn_port.reference.tiles import fit_to_rows, pack_codes, round_to_nearest
from tests.kernels.golden_tiles import GOLDEN, Golden, golden_tile
from tests.kernels.tile_kernels import round_and_pack, scales_of

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]


def balanced_tile(kind: str, group: int, head_dim: int, axis: int) -> torch.Tensor:
    """Return a balanced tile of a kind, [group, head_dim] float32, whose rows run along an axis."""
    random = torch.Generator().manual_seed(group + head_dim)
    tile = torch.randn(group, head_dim, generator=random)
    if kind == "halves":  # differences from the lowest that are half way between codes
        tile = torch.randint(31, (group, head_dim), generator=random) / 2.0
        tile[0], tile[1], tile[:, 0], tile[:, 1] = 0.0, 15.0, 0.0, 15.0
        # steps whose inverse float32 has not: odd numbers
        odd = 2.0 * torch.arange(tile.shape[1 - axis]) + 1
        tile *= odd[:, None] if axis == 1 else odd
    elif kind == "constant lines":
        tile[3], tile[:, 5] = 2.5, -0.75
    elif kind == "tiny and huge":
        tile *= torch.logspace(-6, 4, head_dim)
    return tile


@pytest.mark.parametrize("kind", ["normal", "halves", "constant lines", "tiny and huge"])
@pytest.mark.parametrize(("group", "head_dim"), [(64, 64), (128, 256), (128, 128)])
@pytest.mark.parametrize(("bits", "axis"), [(4, 0), (4, 1), (2, 1)])
def test_a_balanced_tile_has_the_bytes_of_the_reference(
    bits: int, axis: int, group: int, head_dim: int, kind: str, device: str
) -> None:
    tile = balanced_tile(kind, group, head_dim, axis)
    octets, low, step = (x.cpu() for x in round_and_pack(tile.to(device), bits, axis))
    rows = tile.T.contiguous() if axis == 0 else tile
    codes, right_step, right_low = (x[0] for x in round_to_nearest(rows[None], bits))
    # step-of-all-codes, step-without-a-floor, rounds-down, rounds-half-up, fast-quotients,
    # nibbles-exchanged, pairs-exchanged
    assert torch.equal(octets, pack_codes(codes, bits))
    assert torch.equal(step, right_step)
    assert torch.equal(low, right_low)


@pytest.mark.parametrize("kind", ["normal", "halves", "constant lines", "tiny and huge"])
@pytest.mark.parametrize(("group", "head_dim"), [(64, 64), (128, 256), (128, 128)])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_fitted_tile_has_the_bytes_of_the_reference(
    axis: int, group: int, head_dim: int, kind: str, device: str
) -> None:
    tile = balanced_tile(kind, group, head_dim, axis)
    octets, low, step = (x.cpu() for x in round_and_pack(tile.to(device), 2, axis, fitted=True))
    rows = tile.T.contiguous() if axis == 0 else tile
    codes, right_step, right_low = (x[0] for x in fit_to_rows(rows[None]))
    # fitted-inner-part, fitted-from-the-lowest, fitted-codes-exchanged
    assert torch.equal(octets, pack_codes(codes, 2))
    # fitted-least-squares, fitted-mean-forgotten, fitted-products-about-the-middle,
    # fitted-flat-rows-have-steps: sums of 256 float32 by pairs, and 256 times the mean's square
    # taken from squares that are 64 times what is left where one number is far from all others
    torch.testing.assert_close(step, right_step, rtol=1e-5, atol=0.0)
    size = rows.abs().amax(1)
    assert ((low - right_low).abs() <= 1e-5 * size).all()


@pytest.mark.parametrize("mode", ["reference", "prescaled", "fitted"])
@pytest.mark.parametrize(("group", "head_dim"), [(64, 128), (128, 64)])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_uneven_tile_has_the_scales_of_the_reference(
    axis: int, group: int, head_dim: int, mode: str, device: str
) -> None:
    for seed in range(3):
        random = torch.Generator().manual_seed(seed)
        tile = torch.randn(group, head_dim, generator=random)
        tile *= torch.exp(0.8 * torch.randn(head_dim, generator=random))
        tile *= torch.exp(0.6 * torch.randn(group, 1, generator=random))
        rows = tile.T.contiguous() if axis == 1 else tile
        right = normalise(rows[None], mode=mode)
        column, row, (before, after, kept) = scales_of(tile.to(device), axis, 8, mode)
        # rows-first, floor-dropped, biased-deviation, ties-refused, limits of scales and deviations
        assert kept == int(right.kept)
        # eight iterations, each of which rounds a sum of 256 numbers by pairs and a few products
        near = {"rtol": 2e-6, "atol": 0.0}
        torch.testing.assert_close(column.cpu(), right.column_scale[0], **near)
        torch.testing.assert_close(row.cpu(), right.row_scale[0], **near)
        numbers = torch.tensor([before, after])
        expected = torch.cat([right.imbalance_before, right.imbalance_after])
        torch.testing.assert_close(numbers, expected, **near)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.tile}-{g.iterations}")
def test_golden_tiles_become_as_even_as_is_known(golden: Golden, device: str) -> None:
    tile = golden_tile(golden.tile)
    axis = 1 if golden.tile == "key" else 0
    tile = tile.T.contiguous() if axis == 1 else tile
    column, _, (before, after, kept) = scales_of(
        tile.to(device), axis, golden.iterations, "reference"
    )
    # iterations-ignored, one-iteration-less
    assert before == pytest.approx(golden.before, abs=6e-5)
    assert after == pytest.approx(golden.after, abs=6e-5)
    assert kept == golden.iterations
    assert column[:4].half().tolist() == pytest.approx(golden.column_scale, rel=2**-10)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("size", "kept_scale"), [(0.0, 0.7408182), (1e9, 22026.4648)])
def test_scales_stay_within_their_limits(
    size: float, kept_scale: float, axis: int, device: str
) -> None:
    random = torch.Generator().manual_seed(3)
    tile = torch.randn(64, 64, generator=random) * size
    column, row, _ = scales_of(tile.to(device), axis, 8, "reference")
    # no-limit-of-scales, deviations-unclipped: scales of a tile of zeros, and of a huge one
    assert column.max() <= 22026.5
    assert column.min() >= 0.74081
    assert row.max() <= 22026.5
    assert row.min() >= 0.74081
    if not size:
        assert column.unique().tolist() == pytest.approx([kept_scale], rel=1e-6)


def test_a_deviation_counts_as_a_thousand_at_most(device: str) -> None:
    tile = torch.randn(64, 64, generator=torch.Generator().manual_seed(4)) * 2e4
    column, row, _ = scales_of(tile.to(device), 0, 1, "reference")
    # deviations-unclipped: one iteration takes 1,000 of 20,000 into a column, and what is left
    assert column.unique().tolist() == pytest.approx([1000.0], rel=1e-6)
    right = normalise(tile[None], iterations=1, mode="reference")
    torch.testing.assert_close(row.cpu(), right.row_scale[0], rtol=2e-6, atol=0.0)
