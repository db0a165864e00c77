"""What the arguments of `pack` must be; nothing is launched here, and no element is read."""

from __future__ import annotations

import torch

from ..layout import TileLayout


def check(
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    ring_slot: torch.Tensor,
    slot_mapping: torch.Tensor,
    layout: TileLayout,
) -> None:
    """Raise ValueError at the first argument of `pack` that is not what the kernel reads."""
    heads = tiles.shape[1] if tiles.dim() == 3 else 0
    _check_tiles(tiles, layout)
    for name, x, like, axes in (
        ("ring_keys", ring_keys, ring_keys, "[slots, ring_rows, num_kv_heads, head_dim]"),
        ("ring_values", ring_values, ring_keys, "that of ring_keys"),
        ("rotated_key", rotated_key, rotated_key, "[tokens, num_kv_heads, head_dim]"),
        ("rotated_value", rotated_value, rotated_key, "that of rotated_key"),
    ):
        rank = 4 if name.startswith("ring") else 3
        right = x.dim() == rank and x.shape == like.shape
        right = right and x.shape[-2:] == (heads, layout.head_dim) and x.dtype == torch.float16
        _expect(
            right and x.stride(-1) == 1 and x.device == tiles.device,
            f"{name} is {x.dtype} {list(x.shape)} with strides {list(x.stride())} on {x.device}",
            f"float16 of shape {axes}, {heads} heads of {layout.head_dim}, the last stride 1, on "
            f"{tiles.device}",
        )
    rows = ring_keys.shape[1]
    _expect(rows >= layout.group, f"ring_keys has {rows} rows", f"{layout.group} or more")
    tokens, requests = rotated_key.shape[0], seq_lens.shape[0]
    for name, x, dtype, count in (
        ("query_start", query_start, torch.int32, requests + 1),
        ("seq_lens", seq_lens, torch.int32, requests),
        ("ring_slot", ring_slot, torch.int32, requests),
        ("slot_mapping", slot_mapping, torch.int64, tokens),
    ):
        _expect(
            x.dtype == dtype and tuple(x.shape) == (count,) and x.device == tiles.device,
            f"{name} is {x.dtype} {list(x.shape)} on {x.device}",
            f"{dtype} [{count}] on {tiles.device}",
        )
        _expect(x.is_contiguous(), f"{name} has stride {x.stride(0)}", "1")


def _check_tiles(tiles: torch.Tensor, layout: TileLayout) -> None:
    _expect(
        tiles.dtype == torch.uint8 and tiles.dim() == 3 and tiles.shape[2] >= layout.tile_bytes,
        f"tiles is {tiles.dtype} {list(tiles.shape)}",
        f"uint8 [num_blocks, num_kv_heads, {layout.tile_bytes} or more]",
    )
    steps = (*tiles.stride()[:2], tiles.data_ptr())
    _expect(
        tiles.stride(2) == 1 and not any(step % 16 for step in steps),
        f"tiles has strides {list(tiles.stride())} and begins at {tiles.data_ptr() % 16} mod 16",
        "blocks and heads that begin at multiples of 16 bytes, and bytes that are neighbours",
    )


def _expect(right: bool, fact: str, expected: str) -> None:
    if not right:
        raise ValueError(f"{fact}; expected {expected}")
