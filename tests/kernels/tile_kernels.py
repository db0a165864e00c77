"""Kernels that call the device functions of `pack` alone, on one tile, for the tests of those."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvarn_port.kernels.normalise import inverse_scales
from kvarn_port.kernels.round_pack import (
    about_middle,
    codes,
    codes_about,
    fit,
    inner_part,
    limits,
    packed,
)


@triton.jit
def _round(balanced_ptr, octets_ptr, low_ptr, step_ptr, group: tl.constexpr, head_dim: tl.constexpr,
           bits: tl.constexpr, axis: tl.constexpr, fitted: tl.constexpr,
           native: tl.constexpr):  # fmt: skip
    at = tl.arange(0, group)[:, None] * head_dim + tl.arange(0, head_dim)[None, :]
    balanced = tl.load(balanced_ptr + at)
    if fitted:
        middle, inner = inner_part(balanced, axis, native)
        mean, squares = about_middle(balanced, middle, axis, native)
        low, step = fit(balanced, middle, inner, mean, squares, axis, native)
        code = codes_about(balanced, middle, inner, axis)
    else:
        low, step = limits(balanced, bits, axis, native)
        code = codes(balanced, low, step, bits, axis, native)
    if axis == 0:
        code = tl.trans(code)
    octets = packed(code, bits)
    line = tl.arange(0, octets.shape[0]) * octets.shape[1]
    tl.store(octets_ptr + line[:, None] + tl.arange(0, octets.shape[1])[None, :], octets)
    tl.store(low_ptr + tl.arange(0, low.shape[0]), low)
    tl.store(step_ptr + tl.arange(0, step.shape[0]), step)


@triton.jit
def _scales(x_ptr, column_ptr, row_ptr, numbers_ptr, iterations, group: tl.constexpr,
            head_dim: tl.constexpr, axis: tl.constexpr, mode: tl.constexpr,
            native: tl.constexpr):  # fmt: skip
    at = tl.arange(0, group)[:, None] * head_dim + tl.arange(0, head_dim)[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    size, column, row, before, after, kept = inverse_scales(x, iterations, 0, axis, mode, native)
    tl.store(column_ptr + tl.arange(0, column.shape[0]), 1.0 / column)
    tl.store(row_ptr + tl.arange(0, row.shape[0]), size / row)
    tl.store(numbers_ptr, before)
    tl.store(numbers_ptr + 1, after)
    tl.store(numbers_ptr + 2, kept * 1.0)


def round_and_pack(
    balanced: torch.Tensor, bits: int, axis: int, *, fitted: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return bytes [rows, row bytes], low and step [rows] of a tile [group, head_dim] float32.

    axis: that rows run along: 0 for keys, whose rows are channels, 1 for values
    fitted: as mode "fitted" makes 2 bits of them
    """
    group, head_dim = balanced.shape
    rows, columns = (head_dim, group) if axis == 0 else (group, head_dim)
    octets = torch.empty(rows, columns * bits // 8, dtype=torch.uint8, device=balanced.device)
    low, step = (torch.empty(rows, device=balanced.device) for _ in range(2))
    _round[(1,)](
        balanced, octets, low, step, group, head_dim, bits, axis, fitted, is_native(), num_warps=8
    )
    return octets, low, step


def scales_of(
    x: torch.Tensor, axis: int, iterations: int, mode: str
) -> tuple[torch.Tensor, torch.Tensor, tuple[float, float, int]]:
    """Return the scales of columns and rows of a tile [group, head_dim], and what is kept.

    axis: that statistics of a column run along: 1 for keys, 0 for values
    The numbers are the imbalance before and after, and the iteration.
    """
    group, head_dim = x.shape
    column = torch.empty(group if axis == 1 else head_dim, device=x.device)
    row = torch.empty(head_dim if axis == 1 else group, device=x.device)
    numbers = torch.empty(3, device=x.device)
    _scales[(1,)](
        x, column, row, numbers, iterations, group, head_dim, axis, mode, is_native(), num_warps=8
    )
    before, after, kept = numbers.tolist()
    return column, row, (before, after, int(kept))


def is_native() -> bool:
    """Return whether kernels are compiled; the interpreter takes plain branches."""
    return isinstance(_round, triton.JITFunction)
