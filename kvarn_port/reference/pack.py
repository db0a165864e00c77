"""Tiles that a step fills packed into their pages, then the step's rows stored; plain torch.

Positions are of a request: committed = seq_len - query_len of them are there before the step. A
position p below committed that no page holds is row p mod ring_rows of the request's ring. A step
packs every tile k with committed // group <= k < seq_len // group, the tile that drafts fill too:
it is packed again by the step that commits its last token, and is not read before. kvarn.md 11.
"""

from __future__ import annotations

import torch

from ..layout import TileLayout
from .normalise import DEFAULT_MODE, ITERATIONS
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
    mode: str = DEFAULT_MODE,
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
    for request, seq_len in enumerate(lengths):
        step = slice(starts[request], starts[request + 1])
        query_len = step.stop - step.start
        if query_len > max_query_len:
            raise ValueError(f"request {request} has {query_len} query tokens, over the maximum")
        if slots[request] < 0 or query_len <= 0:
            continue
        committed = seq_len - query_len
        rings = (ring_keys[slots[request]], ring_values[slots[request]])
        new = (rotated_key[step], rotated_value[step])
        group, mapped = layout.group, slot_mapping[step]
        position = torch.arange(committed // group * group, seq_len // group * group)
        position = position.to(tiles.device)
        pages = mapped[position[group - 1 :: group] - committed] // group  # of the last tokens
        if len(pages):
            keys, values = (
                tile_rows(ring, rows, position, committed, group)
                for ring, rows in zip(rings, new, strict=True)
            )
            records = quantise(keys, values, layout, iterations, mode)
            records = records.unflatten(0, (len(pages), -1))
            tiles[pages[pages >= 0], :, : layout.tile_bytes] = records[pages >= 0]
        for ring, rows in zip(rings, new, strict=True):
            store(ring, rows, mapped, committed)


def tile_rows(
    ring: torch.Tensor, new: torch.Tensor, position: torch.Tensor, committed: int, group: int
) -> torch.Tensor:
    """Return the rows of the tiles at some positions: [tiles * num_kv_heads, group, head_dim].

    ring: [ring_rows, num_kv_heads, head_dim], for positions before `committed`
    new: [query_len, num_kv_heads, head_dim], for those from it on
    """
    rows = torch.where(
        (position < committed)[:, None, None],
        ring[position % ring.shape[0]],
        new[(position - committed).clamp(min=0)],
    )
    return rows.unflatten(0, (-1, group)).transpose(1, 2).flatten(0, 1)


def store(ring: torch.Tensor, new: torch.Tensor, mapped: torch.Tensor, committed: int) -> None:
    """Put the last rows of a step, as many as the ring has, at their positions modulo that.

    mapped: [query_len] int64, negative for a token that is not stored
    """
    rows = ring.shape[0]
    token = torch.arange(max(len(new) - rows, 0), len(new), device=new.device)
    token = token[mapped[token] >= 0]
    ring[(committed + token) % rows] = new[token]
