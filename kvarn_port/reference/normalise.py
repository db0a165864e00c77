"""Tiles divided by scales of their columns and rows until all have like deviations; plain torch.

balanced = tile / column_scale / row_scale, found by turns as logarithms of standard deviations, the
turn of the least imbalance kept. kvarn.md 1.3. In a tile of keys rows are channels and columns are
tokens, in one of values the other way round.

The deviation is that of a sample (n - 1), in two passes: the mean, then squares of differences from
it. The first channel of rotated keys carries their mean, so that it may be many deviations from 0,
where E[x²] - mean² in float32 loses its digits. Largest relative error against float64 in 4,096
rows of 128 normal samples, by mean over deviation (CPU, torch 2.13):

    mean / deviation      1       10      100     300     1000    3000
    E[x²] - mean²         3e-7    3e-5    3e-3    3e-2    2e-1    1.3
    less the first one    1e-6    2e-6    1e-6    9e-7    7e-7    5e-7
    two passes            1e-7    2e-7    2e-7    2e-7    2e-7    2e-7
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

ITERATIONS = 8
MODES = ("reference", "prescaled", "fitted")
DEFAULT_MODE = "fitted"  # the best in the mean over texts and models: docs/kvarn-quality.md
DEVIATION_MIN, DEVIATION_MAX = 1e-3, 1e3
LOG_SCALE_MIN, LOG_SCALE_MAX = -0.3, 10.0
IMBALANCE_FLOOR = 1e-8


@dataclass(frozen=True)
class Normalised:
    """Balanced tiles, what they were divided by, and how uneven they were and are.

    balanced: [n, rows, columns] float32
    column_scale: [n, columns] float32; row_scale: [n, rows] float32
    imbalance_before, imbalance_after: [n] float32; 2 where all deviations are equal
    kept: [n] int64, the iteration whose scales these are; 0: none, the scales are 1
    """

    balanced: torch.Tensor
    column_scale: torch.Tensor
    row_scale: torch.Tensor
    imbalance_before: torch.Tensor
    imbalance_after: torch.Tensor
    kept: torch.Tensor


def normalise(
    tiles: torch.Tensor, *, iterations: int = ITERATIONS, mode: str = DEFAULT_MODE
) -> Normalised:
    """Return balanced tiles with their scales; computed in the dtype of the tiles.

    tiles: [n, rows, columns] float32
    mode: "reference" is the published recipe. Its scales stay over 0.7408, so that small rows are
        not amplified. "prescaled" divides a tile by its standard deviation first, "fitted" by
        `usual_deviation`, and multiply row_scale by it at the end: what is stored has the same form
        ("fitted" has codes of its own too: `tiles.fit_to_rows`)

    By "reference" a tile whose deviations are all under 0.74 has equal imbalance in every
    iteration, so that rounding decides between scales of 1 and of 0.7408: in another order of sums
    a quarter of tiles of deviation 0.1 kept another one, none in the other modes.

    A tile with a NaN or an infinity is not balanced: its imbalance is NaN, no iteration is better,
    and its scales stay 1 in every mode. Other tiles of the call know nothing of it.

    Raises ValueError where the mode is none of these.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}, expected one of {', '.join(MODES)}")
    if mode == "reference":
        return _balance(tiles, iterations)
    size = usual_deviation(tiles) if mode == "fitted" else deviation(tiles.flatten(1), 1)
    size = torch.where((size > 0) & size.isfinite(), size, torch.ones_like(size))
    found = _balance(tiles / size[:, None, None], iterations)
    return Normalised(
        found.balanced,
        found.column_scale,
        found.row_scale * size[:, None],
        found.imbalance_before,
        found.imbalance_after,
        found.kept,
    )


def usual_deviation(tiles: torch.Tensor) -> torch.Tensor:
    """Return the geometric mean of the deviations of rows, or of columns if it is smaller: [n].

    Zeros are left out, as of equal tokens; without others it is infinite. The deviation of the
    whole tile follows the largest token and leaves all others under the least scale: one of 128
    tokens 10⁵ times as large made the relative error of the keys of the others 2.8, here 0.099 as
    without that token.
    """
    return torch.minimum(_geometric_mean(deviation(tiles, 1)), _geometric_mean(deviation(tiles, 2)))


def _geometric_mean(deviations: torch.Tensor) -> torch.Tensor:
    """Return the geometric mean of what is not 0 in each row, inf where all is: [n]; NaN stays."""
    none = deviations == 0
    mean = torch.where(none, 0.0, deviations.log()).sum(1) / (~none).sum(1)
    return torch.where(none.all(1), torch.inf, mean.exp())


def _balance(tiles: torch.Tensor, iterations: int) -> Normalised:
    """Return the tiles balanced by the published recipe."""
    count, rows, columns = tiles.shape
    log_column, log_row = tiles.new_zeros(count, columns), tiles.new_zeros(count, rows)
    column_scale, row_scale = torch.ones_like(log_column), torch.ones_like(log_row)
    before = least = imbalance(tiles)
    kept = torch.zeros(count, dtype=torch.int64, device=tiles.device)
    current = tiles
    for iteration in range(1, iterations + 1):
        log_column = _step(log_column, deviation(current, 1))
        current = _divided(tiles, log_column.exp(), log_row.exp())
        log_row = _step(log_row, deviation(current, 2))
        current = _divided(tiles, log_column.exp(), log_row.exp())
        now = imbalance(current)
        better = now <= least  # ties too, NaN never
        least = torch.where(better, now, least)
        kept = torch.where(better, iteration, kept)
        column_scale = torch.where(better[:, None], log_column.exp(), column_scale)
        row_scale = torch.where(better[:, None], log_row.exp(), row_scale)
    balanced = _divided(tiles, column_scale, row_scale)
    return Normalised(balanced, column_scale, row_scale, before, least, kept)


def _step(log_scale: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Return logarithms of scales with deviations taken into them, both within their limits."""
    more = found.clamp(DEVIATION_MIN, DEVIATION_MAX).log()
    return (log_scale + more).clamp(LOG_SCALE_MIN, LOG_SCALE_MAX)


def _divided(
    tiles: torch.Tensor, column_scale: torch.Tensor, row_scale: torch.Tensor
) -> torch.Tensor:
    """Return the tiles over their scales, columns first."""
    return tiles / column_scale[:, None, :] / row_scale[:, :, None]


def deviation(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the sample standard deviation over an axis, in two passes."""
    centred = x - x.mean(dim, keepdim=True)
    return ((centred * centred).sum(dim) / (x.shape[dim] - 1)).sqrt()


def imbalance(tiles: torch.Tensor) -> torch.Tensor:
    """Return the largest over the smallest deviation, of columns plus of rows: [n].

    Deviations are not clipped here; the smallest counts as 1e-8 at least.
    """
    return _spread(deviation(tiles, 1)) + _spread(deviation(tiles, 2))


def _spread(deviations: torch.Tensor) -> torch.Tensor:
    """Return the largest over the smallest of each row, NaN where one is NaN: [n]."""
    return deviations.amax(1) / deviations.amin(1).clamp(min=IMBALANCE_FLOOR)
