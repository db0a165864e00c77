"""Packed records of KVarN from rotated rows, and rows from records; plain torch.

Keys are quantised per channel, values per token, each after `normalise`; the scale of the other
axis is stored beside. kvarn.md 1.4 and 2; `kvarn_port.layout` has the offsets.
"""

from __future__ import annotations

import torch

from ..layout import TileLayout
from .normalise import DEFAULT_MODE, ITERATIONS, normalise
from .rotate import to_float16

STEP_MIN = 1e-10
# Of a row's range, what `fit_to_rows` has its codes 1 and 2 for. Two bits are best for N(0, 1) with
# steps of 1.0 deviation, and the range of 64 to 256 numbers is 4.8 to 5.7 of them.
INNER_PART = 0.2


def quantise(
    keys: torch.Tensor,
    values: torch.Tensor,
    layout: TileLayout,
    iterations: int = ITERATIONS,
    mode: str = DEFAULT_MODE,
) -> torch.Tensor:
    """Return the records of n tiles, [n, tile_bytes] uint8.

    keys, values: [n, group, head_dim] float16 or float32, rotated and finite. A value that is not
    makes NaN of its channel of keys, of its token of values (kvarn.md 1.5)

    Raises ValueError where a shape is not that of the layout.
    """
    for rows in (keys, values):
        if rows.shape[1:] != (layout.group, layout.head_dim):
            raise ValueError(
                f"a tile is {list(rows.shape[1:])}, expected "
                f"[group {layout.group}, head_dim {layout.head_dim}]"
            )
    records = torch.empty(len(keys), layout.tile_bytes, dtype=torch.uint8, device=keys.device)
    codes, scale, zero_point, token_scale = quantised(
        keys.transpose(1, 2).float(), layout.key_bits, iterations, mode
    )
    _write(records, layout.key_codes, pack_codes(codes, layout.key_bits).flatten(1))
    _write(records, layout.key_channel_scale, scale)
    _write(records, layout.key_zero_point, zero_point)
    _write(records, layout.key_token_scale, token_scale)
    codes, scale, zero_point, channel_scale = quantised(
        values.float(), layout.value_bits, iterations, mode
    )
    _write(records, layout.value_codes, pack_codes(codes, layout.value_bits).flatten(1))
    _write(records, layout.value_channel_scale, channel_scale)
    _write(records, layout.value_token_scale, scale)
    _write(records, layout.value_zero_point, zero_point)
    return records


def quantised(
    tiles: torch.Tensor, bits: int, iterations: int = ITERATIONS, mode: str = DEFAULT_MODE
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what is stored of tiles [n, rows, columns] float32 whose rows are quantised.

    codes [n, rows, columns] uint8; scale, zero_point [n, rows] float16; column_scale [n, columns]
    float16: tile = (code · scale + zero_point) · column_scale. Codes are of unrounded scales.
    By "fitted" 2 bits are those of `fit_to_rows`; rows of 4 bits reach both ends of their range in
    every mode, since the key of a token that many attend to is often at one.
    Scales are clamped to ±65504: without, a zero point could be infinite and its row NaN.
    """
    found = normalise(tiles, iterations=iterations, mode=mode)
    if mode == "fitted" and bits == 2:
        codes, step, low = fit_to_rows(found.balanced)
    else:
        codes, step, low = round_to_nearest(found.balanced, bits)
    scale, zero_point = found.row_scale * step, found.row_scale * low
    return codes, to_float16(scale), to_float16(zero_point), to_float16(found.column_scale)


def round_to_nearest(
    balanced: torch.Tensor, bits: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes [n, rows, columns] uint8, and step and low [n, rows]: row = code · step + low.

    A step is the range of its row over 2^bits - 1, at least 1e-10. Halves go to the even code. A
    row with a NaN has codes 0, and step and low NaN.
    """
    last = 2**bits - 1
    low, high = balanced.amin(2), balanced.amax(2)
    step = ((high - low) / last).clamp(min=STEP_MIN)
    codes = ((balanced - low[..., None]) / step[..., None]).round().clamp(0, last)
    return codes.nan_to_num(nan=0.0).to(torch.uint8), step, low


def fit_to_rows(balanced: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes of 2 bits, [n, rows, columns] uint8, and step and low [n, rows] float.

    row = code · step + low. Codes say on which side of the middle of its row's range a number is,
    and whether it is INNER_PART of the range from there or further.

    A row of one number has codes 0, a step of 0, and the number in low. A row with a NaN has codes
    1, a step of 0 and NaN for low; with an infinity, that for low.
    """
    low, high = balanced.amin(2, keepdim=True), balanced.amax(2, keepdim=True)
    apart = balanced - (low + high) * 0.5
    beyond = (apart.abs() >= (high - low) * INNER_PART).to(torch.uint8)
    codes = torch.where(apart > 0, 2 + beyond, 1 - beyond)
    return codes, *fit(balanced, codes)


def fit(balanced: torch.Tensor, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return step and low [n, rows] by which code · step + low has the mean and size of each row.

    Size: the products of its deviations with those of the row sum up to the squares of those, sum
    of (found - mean) · (row - mean) = sum of (row - mean)². Attention adds rows up, so that errors
    of either sign are lost in each other, but not a row that comes back too small: by least
    squares, 0.88 of N(0, 1).

    A step is cut so that codes 0 and 3 stay within the row's range: what spreads within one code
    would else be put on the few numbers that lie apart from the rest, in every row of a channel
    that has an offset.
    """
    codes = codes.to(balanced.dtype)
    low, high = balanced.amin(2), balanced.amax(2)
    middle, half = (low + high) * 0.5, (high - low) * 0.5
    # about the middle, where numbers of nearly one size are subtracted without an error
    apart = balanced - middle[..., None]
    mean, mean_code = apart.mean(2), codes.mean(2)
    apart = apart - mean[..., None]
    covariance = (apart * (codes - mean_code[..., None])).sum(2)
    is_fit = (covariance > 0) & covariance.isfinite()
    step = (apart * apart).sum(2) / covariance
    step = torch.minimum(step, (half - mean) / (3 - mean_code))
    step = torch.minimum(step, (half + mean) / mean_code)
    step = torch.where(is_fit, step, 0.0)
    return step, torch.where(is_fit, middle + mean - step * mean_code, middle)


def pack_codes(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Return codes [..., m] uint8 as bytes [..., m · bits / 8], the first in the lowest bits."""
    each = 8 // bits
    shift = bits * torch.arange(each, dtype=torch.uint8, device=codes.device)
    apart = codes.unflatten(-1, (-1, each)) << shift
    return apart.sum(-1, dtype=torch.uint8)


def unpack_codes(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the codes [..., m · 8 / bits] uint8 of bytes [..., m]."""
    shift = bits * torch.arange(8 // bits, dtype=torch.uint8, device=packed.device)
    return ((packed[..., None] >> shift) & (2**bits - 1)).flatten(-2)


def dequantise(
    records: torch.Tensor, layout: TileLayout, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values, rotated, each [n, group, head_dim] of `dtype`, computed in it.

    records: [n, tile_bytes or more] uint8
    """
    group, head_dim = layout.group, layout.head_dim

    def scale(at: int, count: int) -> torch.Tensor:
        return _float16(records, at, count).to(dtype)

    def codes(at: int, rows: int, columns: int, bits: int) -> torch.Tensor:
        packed = records[:, at : at + rows * columns * bits // 8]
        return unpack_codes(packed, bits).unflatten(1, (rows, columns)).to(dtype)

    keys = codes(layout.key_codes, head_dim, group, layout.key_bits)
    keys = keys * scale(layout.key_channel_scale, head_dim)[:, :, None]
    keys = keys + scale(layout.key_zero_point, head_dim)[:, :, None]
    keys = keys * scale(layout.key_token_scale, group)[:, None, :]
    values = codes(layout.value_codes, group, head_dim, layout.value_bits)
    values = values * scale(layout.value_token_scale, group)[:, :, None]
    values = values + scale(layout.value_zero_point, group)[:, :, None]
    values = values * scale(layout.value_channel_scale, head_dim)[:, None, :]
    return keys.transpose(1, 2).contiguous(), values


def _write(records: torch.Tensor, at: int, field: torch.Tensor) -> None:
    """Put bytes or float16, [n, …], into the records from byte `at` on."""
    written = field.contiguous().view(torch.uint8)
    records[:, at : at + written.shape[1]] = written


def _float16(records: torch.Tensor, at: int, count: int) -> torch.Tensor:
    """Return `count` float16 from byte `at` of each record on, [n, count]."""
    return records[:, at : at + 2 * count].contiguous().view(torch.float16)
