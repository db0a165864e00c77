"""Tiles that a step fills packed into their pages, then the step's rows stored; plain torch.

Positions are of a request: committed = seq_len - query_len of them are there before the step. A
position p below committed that no page holds is row p mod ring_rows of the request's ring. A step
packs every tile k with committed // group <= k < seq_len // group, the tile that drafts fill too:
it is packed again by the step that commits its last token, and is not read before. kvarn.md 11.
"""

from __future__ import annotations

import torch

from ..layout import TileLayout
from .normalise import ITERATIONS
from .tiles import quantise


def pack(
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    ring_slot: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    layout: TileLayout,
    max_query_len: int,
    iterations: int = ITERATIONS,
    mode: str = "reference",
) -> None:
    """Write the records of filled tiles, then the last rows of the step into the ring.

    tiles: [num_blocks, num_kv_heads, tile_bytes or more] uint8; bytes past tile_bytes stay
    ring_keys, ring_values: [slots, ring_rows, num_kv_heads, head_dim] float16, rotated
    rotated_key, rotated_value: [tokens, num_kv_heads, head_dim] float16, of this step
    query_start: [requests + 1] int32; seq_lens: [requests] int32, this step's tokens included
    ring_slot: [requests] int32; a request whose slot is negative writes nothing
    slot_mapping: [tokens] int64, block · group + position in block; a token whose slot is negative
        is written nowhere, and no tile is packed whose last token is such a one

    Rows are read from the ring before any is stored: a long step overwrites what it still packs.
    Of a step of more rows than the ring has, the last ring_rows are stored.

    Raises ValueError where a query is over the maximum.
    """
    starts, lengths, slots = query_start.tolist(), seq_lens.tolist(), ring_slot.tolist()
    group, rows = layout.group, ring_keys.shape[1]
    for request, seq_len in enumerate(lengths):
        first, query_len = starts[request], starts[request + 1] - starts[request]
        if query_len > max_query_len:
            raise ValueError(f"request {request} has {query_len} query tokens, over the maximum")
        if slots[request] < 0 or query_len <= 0:
            continue
        committed = seq_len - query_len
        step = slice(first, first + query_len)
        for tile in range(committed // group, seq_len // group):
            last = int(slot_mapping[first + (tile + 1) * group - 1 - committed])
            if last < 0:
                continue
            position = torch.arange(tile * group, (tile + 1) * group, device=tiles.device)
            records = quantise(
                *(
                    tile_rows(ring[slots[request]], rotated[step], position, committed)
                    for ring, rotated in ((ring_keys, rotated_key), (ring_values, rotated_value))
                ),
                layout,
                iterations,
                mode,
            )
            tiles[last // group, :, : layout.tile_bytes] = records
        token = torch.arange(max(query_len - rows, 0), query_len, device=tiles.device)
        token = token[slot_mapping[step][token] >= 0]
        row = (committed + token) % rows
        ring_keys[slots[request], row] = rotated_key[step][token]
        ring_values[slots[request], row] = rotated_value[step][token]


def tile_rows(
    ring: torch.Tensor, rotated: torch.Tensor, position: torch.Tensor, committed: int
) -> torch.Tensor:
    """Return the rows of some positions, head by head: [num_kv_heads, positions, head_dim].

    ring: [ring_rows, num_kv_heads, head_dim], for positions before `committed`
    rotated: [query_len, num_kv_heads, head_dim], for those from it on
    """
    old = ring[position % ring.shape[0]]
    new = rotated[(position - committed).clamp(min=0)]
    return torch.where((position < committed)[:, None, None], old, new).transpose(0, 1)
