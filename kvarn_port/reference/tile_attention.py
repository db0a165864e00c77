"""out = softmax(scale · q·K̂ᵀ) · V̂ · H over packed tiles and ring rows; plain torch.

The truth that the kernel of the same name is held against: one request after the other, every score
in one matrix, in float64. Nothing is folded, split or rounded on the way. q, K̂ and V̂ are rotated,
which leaves the scores as they are; the sum of values is rotated back. kvarn.md 1.1, 11, 13.
"""

from __future__ import annotations

import torch

from ..layout import TileLayout
from .gather import history
from .rotate import hadamard
from .verify_attention import attention_weights, visible_keys, weighted_values


def tile_attention(
    query: torch.Tensor,
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    output: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    ring_slot: torch.Tensor,
    *,
    layout: TileLayout,
    max_query_len: int,
    softmax_scale: float,
    causal: bool = True,
    scratch: object = None,
    precise: bool = False,
    path: str | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Return `output`, written where the query has tokens of a request.

    query: [tokens, num_query_heads, head_dim], rotated; query head h reads key head h // ratio
    output: as query, not rotated, of any float dtype: float64 shows the truth
    tiles, ring_keys, ring_values, query_start, seq_lens, ring_slot: those of `pack`, after it: this
        step's own rows are in the ring
    block_table: [requests, max_blocks] int32, in blocks of `group` tokens
    causal: query i of a request sees the keys before committed + i + 1; else all seq_len of it
    scratch, precise, path: of the kernel, nothing here
    dtype: of all that is computed

    Rows of a request whose ring slot is negative are 0; those of no request stay.

    Raises ValueError where a query is over the maximum, or the ring has fewer than
    group + max_query_len - 1 rows.
    """
    del scratch, precise, path
    rows = ring_keys.shape[1]
    if rows < layout.group + max_query_len - 1:
        raise ValueError(
            f"the ring has {rows} rows, tiles of {layout.group} and {max_query_len} query tokens "
            f"need {layout.group + max_query_len - 1}"
        )
    starts, lengths, slots = query_start.tolist(), seq_lens.tolist(), ring_slot.tolist()
    matrix = hadamard(layout.head_dim, query.device).to(dtype)
    for request, seq_len in enumerate(lengths):
        first, end = starts[request], starts[request + 1]
        if end - first > max_query_len:
            raise ValueError(f"request {request} has {end - first} query tokens, over the maximum")
        if end <= first:
            continue
        if slots[request] < 0:
            output[first:end] = 0
            continue
        rings = (ring_keys[slots[request]], ring_values[slots[request]])
        committed = seq_len - (end - first)
        keys, values = history(
            tiles, *rings, block_table[request], committed, 0, seq_len, layout, dtype
        )
        seen = visible_keys(end - first, seq_len, 0, query.device)
        seen = seen if causal else torch.ones_like(seen)
        weights = attention_weights(query[first:end].to(dtype), keys, seen, softmax_scale)
        output[first:end] = (weighted_values(weights, values) @ matrix).to(output.dtype)
    return output
