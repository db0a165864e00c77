"""The normaliser in plain torch: golden tiles, the recipe in float64 beside it, and its edges.

Comments name the mutations of `mutations_kvarn_reference.py` that a comparison catches.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import numpy as np
import torch

from kvarn_port.reference.normalise import MODES, deviation, imbalance, normalise, usual_deviation
from tests.kernels.golden_tiles import GOLDEN, Golden, golden_tile

pytestmark = pytest.mark.kernel

LEAST = 0.7408182206817179  # exp(-0.3), the least scale
EVERY_MODE = pytest.mark.parametrize("mode", MODES)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.tile}-{g.iterations}")
def test_golden_tiles_are_balanced_as_published(golden: Golden) -> None:
    # rows-before-columns, deviation-of-n, fewer-iterations
    tile = golden_tile(golden.tile)[None]
    found = normalise(tile, iterations=golden.iterations, mode="reference")
    assert round(found.imbalance_before.item(), 4) == golden.before
    assert round(found.imbalance_after.item(), 4) == golden.after
    assert found.kept.tolist() == [golden.iterations]
    assert found.column_scale[0, :4].tolist() == pytest.approx(golden.column_scale, rel=2**-11)


@dataclass(frozen=True)
class Turn:
    """Scales after an iteration of the recipe, and how uneven they leave a tile."""

    column_scale: np.ndarray
    row_scale: np.ndarray
    imbalance: float


def turn(tile: np.ndarray, column: np.ndarray, row: np.ndarray) -> Turn:
    """The scales with the imbalance that they leave."""
    now = tile / column / row[:, None]
    spreads = (now.std(axis, ddof=1) for axis in (0, 1))
    return Turn(column, row, sum(s.max() / max(s.min(), 1e-8) for s in spreads))


def oracle(tile: np.ndarray, iterations: int) -> list[Turn]:
    """kvarn.md 1.3 in float64, written down anew: numpy's deviation, scales instead of logs."""
    column, row = np.ones(tile.shape[1]), np.ones(tile.shape[0])
    turns = [turn(tile, column, row)]
    for _ in range(iterations):
        found = np.clip((tile / column / row[:, None]).std(0, ddof=1), 1e-3, 1e3)
        column = np.clip(column * found, LEAST, np.exp(10))
        found = np.clip((tile / column / row[:, None]).std(1, ddof=1), 1e-3, 1e3)
        row = np.clip(row * found, LEAST, np.exp(10))
        turns.append(turn(tile, column, row))
    return turns


@pytest.mark.parametrize("size", [1.0, 30.0, 0.02, 5e-5, 4e5])
@pytest.mark.parametrize("shape", [(8, 6), (5, 16), (64, 128)])
def test_it_is_the_recipe_in_float64(shape: tuple[int, int], size: float) -> None:
    """float32 has 24 bits: after some hundred operations 1e-5. Where two iterations are as good
    within that, which one is kept is rounding: small tiles have all scales at the least, or 1."""
    # log-scale-over-its-limit, log-scale-under-its-limit, deviations-not-clipped,
    # imbalance-of-clipped-deviations, last-iteration-kept, columns-of-the-step-before
    rng = np.random.default_rng(7)
    tile = rng.normal(0.3, 1.0, (3, *shape)) * size
    tile *= np.exp(rng.normal(0, 1.5, (3, shape[0], 1)) + rng.normal(0, 1, (3, 1, shape[1])))
    tile[1] = rng.normal(0.0, size, shape)
    tile[2, 0] *= 3e4
    tile = tile.astype(np.float32)
    found = normalise(torch.from_numpy(tile), mode="reference")
    for place in range(3):
        turns = oracle(tile[place].astype(np.float64), 8)
        kept = turns[found.kept[place].item()]
        assert kept.imbalance <= (1 + 1e-5) * min(each.imbalance for each in turns)
        before, after = turns[0].imbalance, kept.imbalance
        assert found.imbalance_before[place].item() == pytest.approx(before, rel=1e-5)
        assert found.imbalance_after[place].item() == pytest.approx(after, rel=1e-5)
        np.testing.assert_allclose(found.column_scale[place], kept.column_scale, rtol=1e-5)
        np.testing.assert_allclose(found.row_scale[place], kept.row_scale, rtol=1e-5)
    scales = found.column_scale[:, None, :] * found.row_scale[:, :, None]
    np.testing.assert_allclose(found.balanced * scales, tile, rtol=1e-6)


def test_the_imbalance_is_of_deviations_as_they_are() -> None:
    # imbalance-of-clipped-deviations: 1001; imbalance-without-columns: 100000
    tile = torch.tensor([[3.0, -3.0], [3e-5, -3e-5]])[None]
    assert imbalance(tile).item() == pytest.approx(100_001, rel=1e-6)
    even = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])[None]
    assert imbalance(even).item() == 2
    # a row of zeros counts as one of 1e-8: imbalance-without-a-floor
    empty = torch.tensor([[1.0, -1.0], [0.0, 0.0]])[None]
    assert imbalance(empty).item() == pytest.approx(1.41421356e8 + 1, rel=1e-6)


def test_the_deviation_is_that_of_a_sample() -> None:
    # deviation-of-n: 1.118
    assert deviation(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 1).item() == pytest.approx(1.2909944)
    assert deviation(torch.tensor([[1.0, 2.0], [5.0, 2.0]]), 0).tolist() == pytest.approx(
        [2.8284271, 0.0]
    )


@pytest.mark.parametrize("ratio", [1, 30, 300, 3000])
def test_a_mean_of_many_deviations_leaves_the_deviation_right(ratio: float) -> None:
    """Two passes err by the rounding of differences, under 2⁻²² here; one pass by (mean/std)²·2⁻²⁴:
    3e-5 at 30, everything at 3000."""
    # deviation-in-one-pass
    random = torch.Generator().manual_seed(3)
    x = (torch.randn(512, 128, generator=random, dtype=torch.float64) + ratio).float()
    true = x.double().std(1)
    assert ((deviation(x, 1) - true).abs() / true).max() < 1e-6


@EVERY_MODE
def test_an_iteration_that_only_equals_is_kept(mode: str) -> None:
    # ties-refused: scales 1, iteration 0
    found = normalise(torch.zeros(1, 64, 128), mode=mode)
    assert found.kept.tolist() == [8]
    for scale in (found.column_scale, found.row_scale):
        assert scale.unique().tolist() == [pytest.approx(LEAST, rel=1e-6)]
    assert found.balanced.abs().max() == 0
    assert (found.imbalance_before.item(), found.imbalance_after.item()) == (0, 0)


@EVERY_MODE
def test_without_iterations_scales_are_one_but_for_the_size_of_the_tile(mode: str) -> None:
    tile = golden_tile("key")[None] / 8
    found = normalise(tile, iterations=0, mode=mode)
    assert found.kept.tolist() == [0]
    assert found.column_scale.unique().tolist() == [1]
    (size,) = found.row_scale.unique().tolist()
    # the whole tile: numpy's deviation of its 16,384 numbers; a token: numpy's geometric mean
    whole = np.std(tile.double().numpy(), ddof=1)
    usual = np.exp(np.log(np.std(tile[0].double().numpy(), axis=1, ddof=1)).mean())
    usual_columns = np.exp(np.log(np.std(tile[0].double().numpy(), axis=0, ddof=1)).mean())
    expected = {"reference": 1.0, "prescaled": whole, "fitted": min(usual, usual_columns)}
    assert size == pytest.approx(expected[mode], rel=1e-6)
    assert found.imbalance_after.tolist() == found.imbalance_before.tolist()


@pytest.mark.parametrize("mode", MODES[1:])
def test_the_size_of_a_tile_is_in_its_row_scale_alone(mode: str) -> None:
    """A power of two is no rounding: all else is equal to the bit."""
    # size-not-folded-back, size-in-columns
    tile = golden_tile("value")[None]
    large, small = normalise(tile, mode=mode), normalise(tile / 256, mode=mode)
    assert torch.equal(large.balanced, small.balanced)
    assert torch.equal(large.column_scale, small.column_scale)
    assert torch.equal(large.row_scale / 256, small.row_scale)
    assert torch.equal(large.imbalance_before, small.imbalance_before)
    assert torch.equal(large.kept, small.kept)


def test_the_published_recipe_does_not_balance_a_small_tile() -> None:
    """Under the least scale of 0.7408 nothing is amplified: the other modes are for this."""
    tile = golden_tile("key")[None] / 256
    after = {mode: normalise(tile, mode=mode).imbalance_after.item() for mode in MODES}
    assert after["reference"] > 11
    assert after["prescaled"] < 6
    assert after["fitted"] < 6


def test_the_usual_deviation_is_a_geometric_mean_of_one_axis() -> None:
    # usual-deviation-is-the-larger
    # rows ±1 and ±16: √2 and 16√2, mean 4√2; columns 1, 16 and -1, -16: 15/√2 each
    tile = torch.tensor([[1.0, -1.0], [16.0, -16.0]])[None]
    assert usual_deviation(tile).item() == pytest.approx(4 * 2**0.5, rel=1e-6)
    assert usual_deviation(tile.transpose(1, 2)).item() == pytest.approx(4 * 2**0.5, rel=1e-6)
    # zeros-in-the-mean: a token of zeros is no token; equal rows leave it to the other axis
    tile = torch.tensor([[1.0, -1.0], [16.0, -16.0], [0.0, 0.0]])[None]
    assert usual_deviation(tile).item() == pytest.approx(4 * 2**0.5, rel=1e-6)
    assert usual_deviation(torch.tensor([[[1.0, 5.0], [1.0, 5.0]]])).item() == pytest.approx(8**0.5)
    assert usual_deviation(torch.ones(1, 4, 4)).item() == float("inf")


@EVERY_MODE
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_tile_with_a_nan_or_an_infinity_keeps_scales_of_one(mode: str, bad: float) -> None:
    """Other tiles of the call are as without it."""
    # nan-is-better, size-of-nan
    tiles = torch.stack([golden_tile("key")] * 3)
    tiles[1, 3, 7] = bad
    found = normalise(tiles, mode=mode)
    alone = normalise(tiles[:1], mode=mode)
    assert found.kept.tolist() == [8, 0, 8]
    assert found.imbalance_before[1].isnan()
    assert found.imbalance_after[1].isnan()
    assert found.column_scale[1].unique().tolist() == [1]
    assert found.row_scale[1].unique().tolist() == [1]
    assert torch.equal(found.balanced[1].nan_to_num(7.0), tiles[1].nan_to_num(7.0))
    for place in (0, 2):
        assert torch.equal(found.balanced[place], alone.balanced[0])
        assert torch.equal(found.row_scale[place], alone.row_scale[0])


def test_an_unknown_mode_is_refused() -> None:
    message = r"^mode is 'best', expected one of reference, prescaled, fitted$"
    with pytest.raises(ValueError, match=message):
        normalise(torch.zeros(1, 2, 2), mode="best")
