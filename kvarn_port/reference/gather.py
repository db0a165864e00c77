"""The history of requests out of pages and rings, dequantised, still rotated; plain torch.

The rule of reading: with `committed` tokens before a step, tile k < committed // group is read from
its page, every later position from the ring. kvarn.md 11.
"""

from __future__ import annotations

import torch

from ..layout import TileLayout
from .tiles import dequantise


def gather(
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_table: torch.Tensor,
    committed: torch.Tensor,
    ring_slot: torch.Tensor,
    *,
    layout: TileLayout,
    start: int,
    seq_lens: torch.Tensor | None = None,
) -> None:
    """Write the positions start … start + N - 1 of each request's committed history.

    keys, values: [requests, N, num_kv_heads, head_dim] fp16 or bf16; all of it is written, rows
        from `committed` on and those of a request whose ring slot is negative with zeros
    block_table: [requests, max_blocks] int32, in blocks of `group` tokens
    committed: [requests] int32, tokens before this step; ring_slot: [requests] int32
    seq_lens: [requests] int32, this step's tokens included: to be given where `pack` stored them
        already. A step longer than a verify query overwrites rows of the ring that it packed, so
        that tiles k < seq_len // group are read from their pages then; without, by the rule above
    The other arguments are those of `pack`.
    """
    count = keys.shape[1]
    filled = (committed if seq_lens is None else seq_lens).tolist()
    for request, (tokens, slot) in enumerate(
        zip(committed.tolist(), ring_slot.tolist(), strict=True)
    ):
        keys[request], values[request] = 0, 0
        end = min(tokens, start + count)
        if slot < 0 or end <= start:
            continue
        rings = (ring_keys[slot], ring_values[slot])
        blocks = block_table[request]
        found = history(tiles, *rings, blocks, filled[request], start, end, layout)
        keys[request, : end - start], values[request, : end - start] = found


def history(
    tiles: torch.Tensor,
    ring_key: torch.Tensor,
    ring_value: torch.Tensor,
    blocks: torch.Tensor,
    filled: int,
    start: int,
    end: int,
    layout: TileLayout,
    dtype: torch.dtype = torch.float64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the keys and values of positions start … end - 1 of one request, rotated.

    ring_key, ring_value: [ring_rows, num_kv_heads, head_dim], of the request
    filled: tokens whose tiles k < filled // group are read from their pages; all later positions
        are read from the ring, committed or not
    Both results: [end - start, num_kv_heads, head_dim] of `dtype`.
    """
    group, heads = layout.group, tiles.shape[1]
    packed = filled // group * group
    pages = blocks[start // group : -(-min(end, packed) // group)].long()
    read = dequantise(tiles[pages].flatten(0, 1), layout, dtype)
    new = torch.arange(min(max(start, packed), end), end, device=tiles.device)
    results = []
    for rows, ring in zip(read, (ring_key, ring_value), strict=True):
        # [pages, heads, group, D] to tokens, the first of which may be before `start`
        tokens = rows.unflatten(0, (-1, heads)).transpose(1, 2).flatten(0, 1)
        old = tokens[start % group :][: max(min(end, packed) - start, 0)]
        results.append(torch.cat([old, ring[new % ring.shape[0]].to(dtype)]))
    return results[0], results[1]
