"""Device functions that find the scales of one tile in registers: kvarn_port.reference.normalise.

balanced = tile / column_scale / row_scale, found by turns from standard deviations, the turn of the
least imbalance kept. A tile is [group, D], tokens by channels; columns are tokens in one of keys,
channels in one of values. AXIS is the axis that statistics of a column run along: 1 for keys, 0 for
values; a scale a column then runs along the other one.

Differences from the reference, each of a few units in the last place of float32: the deviation of
a line is taken before the line is divided by its own scale, which changes nothing else, so that
one look at the tile serves the imbalance of a turn and the turn after it. What is kept is one over
a scale, multiplied where the reference adds logarithms.

A tile is a tuple of parts, [group, D / parts] each. So are numbers a channel; numbers a token are a
tuple of one.
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
def single(x, again):
    """A tile in float32; x is the tile, or pointers to it, which are read at each use.

    again: 0, which the compiler does not know: what is read once more is not kept in registers
    """
    if x.dtype.is_ptr():
        x = tl.load(x + again * 8)
    return x.to(tl.float32)


@triton.jit
def _sum_of_tokens(x, inverse, again):
    """Sums over all channels of x times `inverse` of each channel: [group]."""
    total = tl.sum(single(x[0], again) * inverse[0][None, :], 1)
    for i in tl.static_range(1, len(x)):
        total += tl.sum(single(x[i], again) * inverse[i][None, :], 1)
    return total


@triton.jit
def _squares(x, inverse, mean, AXIS: tl.constexpr):
    """Sums along AXIS of squares of what x times `inverse` differs from `mean` by."""
    centred = x * tl.expand_dims(inverse, 1 - AXIS) - tl.expand_dims(mean, AXIS)
    return tl.sum(centred * centred, AXIS)


@triton.jit
def variance(x, inverse, again, AXIS: tl.constexpr):
    """Sample variances along AXIS of x times `inverse`, which runs along AXIS; two passes."""
    GROUP: tl.constexpr = x[0].shape[0]
    D: tl.constexpr = len(x) * x[0].shape[1]
    if AXIS == 1:
        mean = _sum_of_tokens(x, inverse, again) * (1.0 / D)
        total = _squares(single(x[0], 2 * again), inverse[0], mean, 1)
        for i in tl.static_range(1, len(x)):
            total += _squares(single(x[i], 2 * again), inverse[i], mean, 1)
        found = (total * (1.0 / (D - 1)),)
    else:
        found = ()
        for i in tl.static_range(len(x)):
            mean = tl.sum(single(x[i], again) * inverse[0][:, None], 0) * (1.0 / GROUP)
            total = _squares(single(x[i], 2 * again), inverse[0], mean, 0)
            found += (total * (1.0 / (GROUP - 1)),)
    return found


@triton.jit
def tile_deviation(x, again):
    """The sample deviation of a whole tile."""
    COUNT: tl.constexpr = len(x) * x[0].shape[0] * x[0].shape[1]
    mean = 0.0
    for i in tl.static_range(len(x)):
        mean += tl.sum(tl.sum(single(x[i], again), 1), 0) * (1.0 / COUNT)
    total = 0.0
    for i in tl.static_range(len(x)):
        centred = single(x[i], 2 * again) - mean
        total += tl.sum(tl.sum(centred * centred, 1), 0)
    return tl.sqrt_rn(total * (1.0 / (COUNT - 1)))


@triton.jit
def _geometric_mean(variances):
    """The geometric mean of the deviations that are not 0; infinite without any."""
    count = 0.0
    logs = 0.0
    for i in tl.static_range(len(variances)):
        is_any = variances[i] > 0.0
        count += tl.sum(is_any.to(tl.float32), 0)
        log = tl.log(tl.where(is_any, variances[i], 1.0))
        logs += tl.sum(0.5 * log, 0)
    return tl.where(count > 0.0, tl.exp(logs / tl.maximum(count, 1.0)), float("inf"))


@triton.jit
def size_of(x, of_columns, of_rows, again, MODE: tl.constexpr):
    """What a tile is divided by before: 1, its deviation, or the usual one of its lines."""
    if MODE == "reference":
        size = 1.0
    else:
        if MODE == "prescaled":
            size = tile_deviation(x, again)
        else:
            size = tl.minimum(_geometric_mean(of_columns), _geometric_mean(of_rows))
        size = tl.where((size > 0.0) & (size < float("inf")), size, 1.0)
    return size


@triton.jit
def _times(variances, inverse):
    """Variances of lines that are multiplied by `inverse` each; both are tuples."""
    found = ()
    for i in tl.static_range(len(variances)):
        found += (variances[i] * inverse[i] * inverse[i],)
    return found


@triton.jit
def scaled(lines, number):
    """Numbers of lines, a tuple, times one number."""
    found = ()
    for i in tl.static_range(len(lines)):
        found += (lines[i] * number,)
    return found


@triton.jit
def _step(inverse, found):
    """One over scales, with variances taken into them; both within their limits."""
    result = ()
    for i in tl.static_range(len(inverse)):
        more = tl.rsqrt(tl.minimum(tl.maximum(found[i], VARIANCE_MIN), VARIANCE_MAX))
        result += (tl.minimum(tl.maximum(inverse[i] * more, INVERSE_MIN), INVERSE_MAX),)
    return result


@triton.jit
def _chosen(is_first, first, second):
    """The first tuple or the second."""
    found = ()
    for i in tl.static_range(len(first)):
        found += (tl.where(is_first, first[i], second[i]),)
    return found


@triton.jit
def ends(low, high, other_low, other_high):
    """The lower of two lows and the higher of two highs, for a reduction in one go."""
    return tl.minimum(low, other_low), tl.maximum(high, other_high)


@triton.jit
def limits_of(x, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The lowest and the highest along an axis."""
    if NATIVE:
        low, high = tl.reduce((x, x), AXIS, ends)
    else:
        low, high = tl.min(x, AXIS), tl.max(x, AXIS)
    return low, high


@triton.jit
def spread(variances, NATIVE: tl.constexpr):
    """The largest deviation over the smallest, which counts as IMBALANCE_FLOOR at least."""
    low, high = limits_of(variances[0], 0, NATIVE)
    for i in tl.static_range(1, len(variances)):
        low, high = ends(low, high, *limits_of(variances[i], 0, NATIVE))
    return tl.sqrt(high) / tl.maximum(tl.sqrt(low), IMBALANCE_FLOOR)


@triton.jit
def _ones(x, AXIS: tl.constexpr):
    """Ones that run along an axis of a tile."""
    found = (tl.full([x[0].shape[AXIS]], 1.0, tl.float32),)
    if AXIS == 1:
        for _ in tl.static_range(1, len(x)):
            found += (tl.full([x[0].shape[AXIS]], 1.0, tl.float32),)
    return found


@triton.jit
def inverse_scales(x, iterations, again, AXIS: tl.constexpr, MODE: tl.constexpr,
                   NATIVE: tl.constexpr):  # fmt: skip
    """What the tile is divided by before, one over its scales of columns and of rows; and the
    imbalances before and after, and the iteration kept, which packing leaves alone.

    x: parts [group, D / parts], or pointers to them
    """
    column = _ones(x, 1 - AXIS)
    row = _ones(x, AXIS)
    of_columns = variance(x, row, 3 * again, AXIS)
    of_rows = variance(x, column, 5 * again, 1 - AXIS)
    size = size_of(x, of_columns, of_rows, again, MODE)
    unit = 1.0 / size
    of_columns = scaled(of_columns, unit * unit)
    of_rows = scaled(of_rows, unit * unit)
    before = spread(of_columns, NATIVE) + spread(of_rows, NATIVE)
    least = before
    kept = 0
    best_column, best_row = column, row
    for turn in range(iterations):
        column = _step(column, _times(of_columns, column))
        of_rows = variance(x, scaled(column, unit), (4 * turn + 7) * again, 1 - AXIS)
        row = _step(row, _times(of_rows, row))
        of_columns = variance(x, scaled(row, unit), (4 * turn + 9) * again, AXIS)
        now = spread(_times(of_columns, column), NATIVE) + spread(_times(of_rows, row), NATIVE)
        better = now <= least  # ties too
        least = tl.where(better, now, least)
        kept = tl.where(better, turn + 1, kept)
        best_column = _chosen(better, column, best_column)
        best_row = _chosen(better, row, best_row)
    return size, best_column, best_row, before, least, kept
