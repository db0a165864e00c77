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

# The reference's limits: of a deviation 1e-3 and 1e3, of the logarithm of a scale -0.3 and 10. One
# over INVERSE_MAX is e^-0.3 to the last place: many scales of small tiles are at that limit.
VARIANCE_MIN, VARIANCE_MAX = tl.constexpr(1.0e-6), tl.constexpr(1.0e6)
INVERSE_MIN, INVERSE_MAX = tl.constexpr(4.539993096841499e-05), tl.constexpr(1.3498588800430298)
IMBALANCE_FLOOR = tl.constexpr(1.0e-8)


@triton.jit
def whole(x):
    """A tile [group, D] of [n, D / m, group / n, m]."""
    ROWS: tl.constexpr = x.shape[0] * x.shape[2]
    COLUMNS: tl.constexpr = x.shape[1] * x.shape[3]
    return x.permute(2, 0, 1, 3).reshape(ROWS, COLUMNS)


@triton.jit
def single(x, again):
    """A tile in float32; x is the tile, or pointers to it, which are read at each use.

    again: 0, which the compiler does not know: what is read once more is not kept in registers
    """
    if x.dtype.is_ptr():
        x = whole(tl.load(x + again * 8))
    return x.to(tl.float32)


@triton.jit
def variance(x, inverse, unit, again, AXIS: tl.constexpr):
    """The sample variance along AXIS of x times `inverse`, which runs along AXIS, times `unit`; two
    passes."""
    COUNT: tl.constexpr = inverse.shape[0]
    inverse = tl.expand_dims(inverse, 1 - AXIS)
    mean = tl.sum(single(x, again) * inverse, AXIS) * (1.0 / COUNT)
    centred = single(x, 2 * again) * inverse - tl.expand_dims(mean, AXIS)
    return tl.sum(centred * centred, AXIS) * (unit * (1.0 / (COUNT - 1)))


@triton.jit
def tile_deviation(x, again, AXIS: tl.constexpr):
    """The sample deviation of a whole tile."""
    found = single(x, again)
    COUNT: tl.constexpr = found.shape[0] * found.shape[1]
    mean = tl.sum(tl.sum(found, AXIS), 0) * (1.0 / COUNT)
    centred = single(x, 2 * again) - mean
    return tl.sqrt_rn(tl.sum(tl.sum(centred * centred, AXIS), 0) * (1.0 / (COUNT - 1)))


@triton.jit
def _geometric_mean(variances, NATIVE: tl.constexpr):
    """The geometric mean of the deviations that are not 0; infinite without any."""
    is_any = variances > 0.0
    logs = tl.where(is_any, tl.log2(tl.where(is_any, variances, 1.0)), 0.0)
    count, logs = two_sums(is_any.to(tl.float32), logs, 0, NATIVE)
    return tl.where(count > 0.0, tl.exp2(0.5 * logs / tl.maximum(count, 1.0)), float("inf"))


@triton.jit
def size_of(x, of_columns, of_rows, again, AXIS: tl.constexpr, MODE: tl.constexpr,
            NATIVE: tl.constexpr):  # fmt: skip
    """What a tile is divided by before: 1, its deviation, or the usual one of its lines."""
    if MODE == "reference":
        size = 1.0
    else:
        if MODE == "prescaled":
            size = tile_deviation(x, again, AXIS)
        else:
            size = tl.minimum(_geometric_mean(of_columns, NATIVE), _geometric_mean(of_rows, NATIVE))
        size = tl.where((size > 0.0) & (size < float("inf")), size, 1.0)
    return size


@triton.jit
def _step(inverse, found):
    """One over a scale, with a variance taken into it; both within their limits."""
    found = tl.minimum(tl.maximum(found, VARIANCE_MIN), VARIANCE_MAX)
    return tl.minimum(tl.maximum(inverse * tl.rsqrt(found), INVERSE_MIN), INVERSE_MAX)


@triton.jit
def sums(a, b, other_a, other_b):
    """Two sums, for a reduction in one go."""
    return a + other_a, b + other_b


@triton.jit
def two_sums(a, b, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The sums of two tensors along an axis."""
    if NATIVE:
        a, b = tl.reduce((a, b), AXIS, sums)
    else:
        a, b = tl.sum(a, AXIS), tl.sum(b, AXIS)
    return a, b


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
def inverse_scales(x, iterations, again, AXIS: tl.constexpr, MODE: tl.constexpr,
                   NATIVE: tl.constexpr):  # fmt: skip
    """What the tile is divided by before, one over its scales of columns and of rows; and the
    imbalances before and after, and the iteration kept, which packing leaves alone.

    x: [group, D], or pointers to what `whole` makes it of
    """
    found = single(x, 7 * again)  # its shape; nothing is read for it
    column = tl.full([found.shape[1 - AXIS]], 1.0, tl.float32)
    row = tl.full([found.shape[AXIS]], 1.0, tl.float32)
    of_columns = variance(x, row, 1.0, 3 * again, AXIS)
    of_rows = variance(x, column, 1.0, 5 * again, 1 - AXIS)
    size = size_of(x, of_columns, of_rows, again, AXIS, MODE, NATIVE)
    unit = 1.0 / (size * size)  # of variances
    of_columns = of_columns * unit
    of_rows = of_rows * unit
    before = spread(of_columns, NATIVE) + spread(of_rows, NATIVE)
    least = before
    kept = 0
    best_column, best_row = column, row
    for turn in range(iterations):
        column = _step(column, of_columns)
        of_rows = variance(x, column, unit, (4 * turn + 7) * again, 1 - AXIS)
        row = _step(row, of_rows * row * row)
        of_columns = variance(x, row, unit, (4 * turn + 9) * again, AXIS) * column * column
        now = spread(of_columns, NATIVE) + spread(of_rows * row * row, NATIVE)
        better = now <= least  # ties too
        least = tl.where(better, now, least)
        kept = tl.where(better, turn + 1, kept)
        best_column = tl.where(better, column, best_column)
        best_row = tl.where(better, row, best_row)
    return size, best_column, best_row, before, least, kept
