"""Device functions that find the scales of one tile in registers: kvarn_port.reference.normalise.

balanced = tile / column_scale / row_scale, found by turns from standard deviations, the turn of the
least imbalance kept. A tile is [group, D], tokens by channels; columns are tokens in one of keys,
channels in one of values. AXIS is the axis that statistics of a column run along: 1 for keys, 0 for
values; a scale a column then runs along the other one.

Differences from the reference, each of a few units in the last place of float32: the deviation of
a line is taken before the line is divided by its own scale, which changes nothing else, so that
one look at the tile serves the imbalance of a turn and the turn after it. What is kept is one over
a scale, multiplied where the reference adds logarithms.
"""

from __future__ import annotations

import triton
import triton.language as tl

# The reference's limits: of a deviation 1e-3 and 1e3, of the logarithm of a scale -0.3 and 10.
DEVIATION_MIN, DEVIATION_MAX = tl.constexpr(1.0e-3), tl.constexpr(1.0e3)
INVERSE_MIN, INVERSE_MAX = tl.constexpr(4.5399929762484854e-05), tl.constexpr(1.3498588075760032)
IMBALANCE_FLOOR = tl.constexpr(1.0e-8)


@triton.jit
def single(x, NATIVE: tl.constexpr):
    """A tile in float32; one that is held in float16 to save registers is widened at each use."""
    if x.dtype == tl.float16:
        if NATIVE:
            # an assembly that is not pure is not moved out of a loop, nor its results kept
            x = tl.inline_asm_elementwise(
                """
                {
                .reg .b16 low, high;
                mov.b32 {low, high}, $2;
                cvt.f32.f16 $0, low;
                cvt.f32.f16 $1, high;
                }
                """,
                "=f,=f,r",
                [x],
                dtype=tl.float32,
                is_pure=False,
                pack=2,
            )
        else:
            x = x.to(tl.float32)
    return x


@triton.jit
def variance(x, inverse, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The sample variance along AXIS of x times `inverse`, which runs along AXIS; two passes."""
    COUNT: tl.constexpr = x.shape[AXIS]
    inverse = tl.expand_dims(inverse, 1 - AXIS)
    mean = tl.sum(single(x, NATIVE) * inverse, AXIS) * (1.0 / COUNT)
    centred = single(x, NATIVE) * inverse - tl.expand_dims(mean, AXIS)
    return tl.sum(centred * centred, AXIS) * (1.0 / (COUNT - 1))


@triton.jit
def tile_deviation(x, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The sample deviation of a whole tile; 1 where that is 0."""
    COUNT: tl.constexpr = x.shape[0] * x.shape[1]
    mean = tl.sum(tl.sum(single(x, NATIVE), AXIS), 0) * (1.0 / COUNT)
    centred = single(x, NATIVE) - mean
    size = tl.sqrt_rn(tl.sum(tl.sum(centred * centred, AXIS), 0) * (1.0 / (COUNT - 1)))
    return tl.where(size > 0.0, size, 1.0)


@triton.jit
def _step(inverse, found):
    """One over a scale, with a variance taken into it; both within their limits."""
    more = tl.minimum(tl.maximum(tl.rsqrt(found), 1.0 / DEVIATION_MAX), 1.0 / DEVIATION_MIN)
    return tl.minimum(tl.maximum(inverse * more, INVERSE_MIN), INVERSE_MAX)


@triton.jit
def ends(low, high, other_low, other_high):
    """The lower of two lows and the higher of two highs, for a reduction in one go."""
    return tl.minimum(low, other_low), tl.maximum(high, other_high)


@triton.jit
def spread(variances, NATIVE: tl.constexpr):
    """The largest deviation over the smallest, which counts as IMBALANCE_FLOOR at least."""
    if NATIVE:
        low, high = tl.reduce((variances, variances), 0, ends)
    else:
        low, high = tl.min(variances, 0), tl.max(variances, 0)
    return tl.sqrt(high) / tl.maximum(tl.sqrt(low), IMBALANCE_FLOOR)


@triton.jit
def inverse_scales(x, unit, iterations, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """One over the scales of columns and rows, imbalances before and after, the iteration kept.

    x: [group, D] float32 or float16; unit: the tile is x times this
    """
    column = tl.full([x.shape[1 - AXIS]], 1.0, tl.float32)
    row = tl.full([x.shape[AXIS]], 1.0, tl.float32)
    of_columns = variance(x, row * unit, AXIS, NATIVE)
    of_rows = variance(x, column * unit, 1 - AXIS, NATIVE)
    before = spread(of_columns, NATIVE) + spread(of_rows, NATIVE)
    least = before
    kept = 0
    best_column, best_row = column, row
    for turn in range(iterations):
        column = _step(column, of_columns * column * column)
        of_rows = variance(x, column * unit, 1 - AXIS, NATIVE)
        row = _step(row, of_rows * row * row)
        of_columns = variance(x, row * unit, AXIS, NATIVE)
        now = spread(of_columns * column * column, NATIVE) + spread(of_rows * row * row, NATIVE)
        better = now <= least  # ties too
        least = tl.where(better, now, least)
        kept = tl.where(better, turn + 1, kept)
        best_column = tl.where(better, column, best_column)
        best_row = tl.where(better, row, best_row)
    return best_column, best_row, before, least, kept
