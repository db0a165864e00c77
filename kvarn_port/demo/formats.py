"""Formats of a KV cache as what reading them back gives, so that their errors can be compared.

A format of KVarN packs tiles of tokens; what no tile holds yet is kept in 16 bit. The others store
each token as it comes, so that even the newest is read with a loss: that is "all tokens". By their
name alone they follow KVarN's rule, which tells what the formats of packed tiles cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..layout import PRESETS, tile_layout
from ..reference.normalise import ITERATIONS, MODES
from ..reference.rotate import hadamard, sanitise, to_float16
from ..reference.tiles import dequantise, quantise

INT4_SEED = 20  # of the random signs before int4's rotation: any, but always the same ones
SCALE_MIN = 1e-6
ZERO_POINT_BITS = 4  # of a float32 scale's mantissa, in which int4 keeps its zero point

Rows = torch.Tensor  # [n, tokens, head_dim] float32, keys or values, not rotated
Kept = Callable[[Rows], Rows]
Packed = Callable[[Rows, Rows], tuple[Rows, ...]]


@dataclass(frozen=True)
class Format:
    """How keys and values come back from a cache.

    kept: rows as they are read before their tile is packed
    packed: keys and values of whole tiles, [n, group, head_dim], as they are read afterwards
    group: tokens of a tile
    bits: of a token's key and value in the cache, by the number of both their channels
    """

    name: str
    kept: Kept
    packed: Packed
    group: int
    bits: float


def formats(head_dim: int, group: int = 128) -> dict[str, Format]:
    """Return every format by its name: KVarN's presets of a group in each mode, and the others."""
    presets = [name for name, preset in PRESETS.items() if preset.group == group]
    found = [kvarn(preset, mode, head_dim) for preset in presets for mode in MODES]
    scales = 8 * 4 / head_dim  # a float32 for each key, and one for each value
    for name, rows, bits in (
        ("int8 per token-head", int8_rows, 8 + scales),
        ("int4 per token-head", int4_rows, 4 + scales),
        ("fp8", fp8_rows, 8),
    ):
        found.append(by_token(name, rows, bits, group))
        found.append(by_token(f"{name}, all tokens", rows, bits, group, kept=rows))
    return {form.name: form for form in found}


def exact(group: int = 128) -> Format:
    """Return the format that gives back what was written, bit by bit."""
    return Format("as computed", lambda rows: rows, lambda *both: both, group, 32)


def by_token(name: str, rows: Kept, bits: float, group: int, kept: Kept | None = None) -> Format:
    """Return a format that stores each token by itself; `rows` says what is read of some.

    kept: what is read of those that are in no full tile, 16 bit where it is not said
    """
    return Format(name, kept or fp16_rows, lambda *both: tuple(map(rows, both)), group, bits)


def kvarn(preset: str, mode: str, head_dim: int, iterations: int = ITERATIONS) -> Format:
    """Return a preset of KVarN in a mode, as the references compute it."""
    layout = tile_layout(preset, head_dim)

    def rotated(rows: Rows) -> torch.Tensor:
        return to_float16(sanitise(rows) @ hadamard(head_dim, rows.device))

    def rotated_back(rows: torch.Tensor) -> Rows:
        return (rows.double() @ hadamard(head_dim, rows.device)).float()

    def packed(keys: Rows, values: Rows) -> tuple[Rows, Rows]:
        records = quantise(rotated(keys), rotated(values), layout, iterations, mode)
        key, value = dequantise(records, layout, torch.float32)
        return rotated_back(key), rotated_back(value)

    bits = 8 * layout.slot_bytes / (2 * head_dim)
    name = f"{preset} {mode}"
    return Format(name, lambda rows: rotated_back(rotated(rows)), packed, layout.group, bits)


def fp16_rows(rows: Rows) -> Rows:
    """Return rows rounded to float16."""
    return to_float16(rows).float()


def int8_rows(rows: Rows) -> Rows:
    """Return rows through int8, a float32 scale of the largest magnitude for each token and head.

    As `int8_per_token_head` of vLLM 0.28 computes it: symmetric, 127 steps a side.
    """
    scale = (rows.abs().amax(-1, keepdim=True) / 127).clamp(min=SCALE_MIN)
    return (rows / scale).round().clamp(-128, 127) * scale


def fp8_rows(rows: Rows) -> Rows:
    """Return rows through fp8 e4m3 with a scale of 1, which is vLLM's without calibration."""
    largest = torch.finfo(torch.float8_e4m3fn).max
    return rows.clamp(-largest, largest).to(torch.float8_e4m3fn).float()


def int4_rows(rows: Rows) -> Rows:
    """Return rows through int4 with a zero point, after a rotation with random signs.

    As `int4_per_token_head` of vLLM 0.28 computes it: 15 steps from the least to the most of a
    token and head, a zero point that is a code, kept in the lowest bits of the float32 scale.
    """
    matrix = _signed_hadamard(rows.shape[-1], rows.device)
    turned = (rows.double() @ matrix).float()
    low, high = turned.amin(-1, keepdim=True), turned.amax(-1, keepdim=True)
    scale = ((high - low) / 15).clamp(min=SCALE_MIN)
    zero = (-low / scale + 0.5).floor().clamp(0, 15)
    codes = (turned / scale + zero + 0.5).floor().clamp(0, 15)
    stored = _with_zero_point(scale, zero)
    return (((codes - zero) * stored).double() @ matrix.T).float()


def _with_zero_point(scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Return float32 scales whose lowest mantissa bits are the zero point."""
    whole = scale.contiguous().view(torch.int32) & -(2**ZERO_POINT_BITS)
    return (whole | zero.to(torch.int32)).view(torch.float32)


def _signed_hadamard(head_dim: int, device: torch.device) -> torch.Tensor:
    """Return an orthonormal matrix, [head_dim, head_dim] float64: random signs, then Hadamard's."""
    generator = torch.Generator().manual_seed(INT4_SEED)
    signs = torch.randint(2, (head_dim,), generator=generator).double() * 2 - 1
    return signs.to(device)[:, None] * hadamard(head_dim, device)
