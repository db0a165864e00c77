"""Device functions that round a balanced tile to codes and pack those into bytes.

row = code · step + low, code = half-to-even((row - low) / step), step = (high - low) / (2^bits - 1)
but at least 1e-10; numbers and bytes are those of kvarn_port.reference.tiles, bit for bit. Of mode
"fitted" the bytes are, and step and low are but for the order of sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..reference.tiles import INNER_PART
from .normalise import ends, two_sums

STEP_MIN = tl.constexpr(1.0e-10)
INNER = tl.constexpr(INNER_PART)
FP16_MAX = tl.constexpr(65504.0)
# 1.5 · 2^23: float32 has no digits behind the point there, and a code in its lowest bits
WHOLE = tl.constexpr(12582912.0)


@triton.jit
def quotient(x, y, NATIVE: tl.constexpr):
    """x / y rounded to nearest; y is of few elements beside x, none of them 0."""
    if NATIVE:
        # the instructions of div.rn are many for each element of a tile. With an inverse as good as
        # rounded the first product is next to the quotient, and what it leaves over is exact.
        inverse = 1.0 / y
        inverse = tl.fma(tl.fma(-inverse, y, 1.0), inverse, inverse)
        near = x * inverse
        result = tl.fma(tl.fma(-near, y, x), inverse, near)
    else:
        result = tl.div_rn(x, y)  # the interpreter's fma rounds twice
    return result


@triton.jit
def limits(balanced, BITS: tl.constexpr, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The lowest of each row and the step of its codes; rows run along AXIS."""
    low, high = _ends(balanced, AXIS, NATIVE)
    last = tl.full([1], ((1 << BITS) - 1) * 1.0, tl.float32)
    return low, tl.maximum(quotient(high - low, last, NATIVE), STEP_MIN)


@triton.jit
def _ends(balanced, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    if NATIVE:
        low, high = tl.reduce((balanced, balanced), AXIS, ends)
    else:
        low, high = tl.min(balanced, AXIS), tl.max(balanced, AXIS)
    return low, high


@triton.jit
def codes(balanced, low, step, BITS: tl.constexpr, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The codes of a balanced tile, uint8 of its shape; rows run along AXIS."""
    steps = quotient(balanced - tl.expand_dims(low, AXIS), tl.expand_dims(step, AXIS), NATIVE)
    # nothing is over the highest of its row, and so no code over the last
    return ((steps + WHOLE).to(tl.int32, bitcast=True) & ((1 << BITS) - 1)).to(tl.uint8)


@triton.jit
def inner_part(balanced, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The middle of each row's range, and how far from it the outer of four codes begin."""
    low, high = _ends(balanced, AXIS, NATIVE)
    return (low + high) * 0.5, (high - low) * INNER


@triton.jit
def codes_about(balanced, middle, inner, AXIS: tl.constexpr):
    """The codes of a balanced tile, uint8 of its shape: 1 and 2 near the middle, 0 and 3 beyond."""
    level = _levels(balanced - tl.expand_dims(middle, AXIS), inner, AXIS)
    return ((level + 1.5 + WHOLE).to(tl.int32, bitcast=True) & 3).to(tl.uint8)


@triton.jit
def _levels(apart, inner, AXIS: tl.constexpr):
    """Codes less 1.5 of what is so far from the middle; numbers, of which a fit has its sums too:
    codes of comparisons made anew were a third of all instructions."""
    level = tl.where(tl.abs(apart) >= tl.expand_dims(inner, AXIS), 1.5, 0.5)
    return tl.where(apart > 0.0, level, -level)


@triton.jit
def about_middle(balanced, middle, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The mean of what each row is apart from the middle of its range, and the sum of squares."""
    apart = balanced - tl.expand_dims(middle, AXIS)
    total, squares = two_sums(apart, apart * apart, AXIS, NATIVE)
    return total * (1.0 / balanced.shape[AXIS]), squares


@triton.jit
def fit(balanced, middle, inner, mean, squares, AXIS: tl.constexpr, NATIVE: tl.constexpr):
    """The low and the step by which code · step + low has the mean and the size of each row.

    Or the largest step by which codes 0 and 3 stay within the row's range, where that is smaller.
    mean, squares: of `about_middle`; near the middle of a range sums of products lose few digits
    """
    COUNT: tl.constexpr = balanced.shape[AXIS]
    apart = balanced - tl.expand_dims(middle, AXIS)
    level = _levels(apart, inner, AXIS)
    total, covariance = two_sums(level, apart * level, AXIS, NATIVE)
    mean_level = total * (1.0 / COUNT)
    squares -= COUNT * mean * mean
    covariance -= COUNT * mean * mean_level
    # codes that are all alike have no step: what is left of their covariance is rounding
    is_fit = (covariance > 0.0) & (tl.abs(mean_level) < 1.5)
    step = squares / tl.where(is_fit, covariance, 1.0)
    # the outer codes stay within the row's range
    half = inner * (0.5 / INNER)
    step = tl.minimum(step, (half - mean) / tl.where(is_fit, 1.5 - mean_level, 1.0))
    step = tl.minimum(step, (half + mean) / tl.where(is_fit, 1.5 + mean_level, 1.0))
    step = tl.where(is_fit, step, 0.0)
    return middle + mean - step * (mean_level + 1.5), step


@triton.jit
def packed(codes, BITS: tl.constexpr):
    """Codes [n, m] uint8 as bytes [n, m · BITS / 8], the first in the lowest bits."""
    N: tl.constexpr = codes.shape[0]
    M: tl.constexpr = codes.shape[1]
    if BITS == 4:
        even, odd = tl.split(codes.reshape(N, M // 2, 2))
        octets = even | (odd << 4)
    else:
        even, odd = tl.split(codes.reshape(N, M // 4, 2, 2))
        first, second = tl.split(even | (odd << 2))
        octets = first | (second << 4)
    return octets


@triton.jit
def to_float16(x):
    """Float32 to the nearest float16, clamped to ±65504."""
    return tl.minimum(tl.maximum(x, -FP16_MAX), FP16_MAX).to(tl.float16)
