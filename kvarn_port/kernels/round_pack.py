"""Device functions that round a balanced tile to codes and pack those into bytes.

row = code · step + low, code = half-to-even((row - low) / step), step = (high - low) / (2^bits - 1)
but at least 1e-10; numbers and bytes are those of kvarn_port.reference.tiles, bit for bit. Of mode
"fitted" the bytes are, and step and low are but for the order of sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..reference.tiles import PARTS
from .normalise import ends

STEP_MIN = tl.constexpr(1.0e-10)
PARTS_OF_2_BITS, PARTS_OF_4_BITS = tl.constexpr(PARTS[2] * 1.0), tl.constexpr(PARTS[4] * 1.0)
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
def limits(balanced, BITS: tl.constexpr, AXIS: tl.constexpr, MODE: tl.constexpr,
           NATIVE: tl.constexpr):  # fmt: skip
    """Where codes are counted from in each row, and their step; rows run along AXIS.

    The lowest of the row, but by "fitted" the middle of its range.
    """
    if NATIVE:
        low, high = tl.reduce((balanced, balanced), AXIS, ends)
    else:
        low, high = tl.min(balanced, AXIS), tl.max(balanced, AXIS)
    if MODE == "fitted":
        parts = tl.full([1], PARTS_OF_2_BITS if BITS == 2 else PARTS_OF_4_BITS, tl.float32)
        origin = (low + high) * 0.5
    else:
        parts = tl.full([1], ((1 << BITS) - 1) * 1.0, tl.float32)
        origin = low
    return origin, tl.maximum(quotient(high - low, parts, NATIVE), STEP_MIN)


@triton.jit
def codes(balanced, origin, step, BITS: tl.constexpr, AXIS: tl.constexpr, MODE: tl.constexpr,
          NATIVE: tl.constexpr):  # fmt: skip
    """The codes of a balanced tile, uint8 of its shape; rows run along AXIS."""
    steps = quotient(balanced - tl.expand_dims(origin, AXIS), tl.expand_dims(step, AXIS), NATIVE)
    if MODE == "fitted":
        LAST: tl.constexpr = ((1 << BITS) - 1) * 1.0
        # a row of one value has codes 0: no number is further than half of all parts from the middle
        first = tl.where(step > STEP_MIN, 0.5 * LAST, -PARTS_OF_4_BITS)
        steps = tl.minimum(tl.maximum(steps + tl.expand_dims(first, AXIS), 0.0), LAST)
    # otherwise nothing is over the highest of its row, and so no code over the last
    return ((steps + WHOLE).to(tl.int32, bitcast=True) & ((1 << BITS) - 1)).to(tl.uint8)


@triton.jit
def fit_to_rows(balanced, code, middle, step, BITS: tl.constexpr, AXIS: tl.constexpr):
    """The low and the step that give rows their mean, and products with them the squares' sum."""
    COUNT: tl.constexpr = balanced.shape[AXIS]
    HALF: tl.constexpr = 0.5 * ((1 << BITS) - 1)
    apart = balanced - tl.expand_dims(middle, AXIS)
    level = code.to(tl.float32) - HALF
    mean = tl.sum(apart, AXIS) * (1.0 / COUNT)
    mean_level = tl.sum(level, AXIS) * (1.0 / COUNT)
    # about the middle of a range sums of products lose little: the mean is within half of it
    squares = tl.sum(apart * apart, AXIS) - COUNT * mean * mean
    covariance = tl.sum(apart * level, AXIS) - COUNT * mean * mean_level
    is_fit = step > STEP_MIN
    fitted = squares / tl.where(is_fit, covariance, 1.0)
    low = tl.where(is_fit, middle + mean - fitted * (mean_level + HALF), middle)
    return low, tl.where(is_fit, fitted, step)


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
