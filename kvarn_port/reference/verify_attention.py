"""out = softmax(scale · q·K̂ᵀ, causal) · V̂ over a paged cache, K̂ and V̂ dequantised; plain torch.

The truth that the kernel of the same name is held against: one request after the other, every score
in one matrix, in float64. Nothing is folded, split or rounded on the way.
"""

from __future__ import annotations

import torch

Pages = torch.Tensor  # [num_blocks, block_size, num_kv_heads, head_dim], any strides
Scale = torch.Tensor | None  # int8: [num_blocks, block_size, num_kv_heads]; fp8: one element


def verify_attention(
    query: torch.Tensor,
    key_cache: Pages,
    value_cache: Pages,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    max_query_len: int,
    softmax_scale: float,
    key_scale: Scale = None,
    value_scale: Scale = None,
    window: int = 0,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Return the attention of every query token, [tokens, num_query_heads, head_dim] of `dtype`.

    query: [tokens, num_query_heads, head_dim]; query head h reads key head h // ratio
    block_table: [requests, max_blocks] int32, the pages of each request in order
    query_start: [requests + 1] int32, where each request's query tokens begin
    seq_lens: [requests] int32, the tokens of each request, its query tokens included
    window: a query sees this many keys, itself included; 0: all

    Query i of a request sits at seq_len - query_len + i and sees no later key. A query token
    without any key, and one of no request, is 0.
    """
    starts, lengths = query_start.tolist(), seq_lens.tolist()
    result = torch.zeros(query.shape, dtype=dtype, device=query.device)
    for request, seq_len in enumerate(lengths):
        first, end = starts[request], starts[request + 1]
        if end - first > max_query_len:
            raise ValueError(f"request {request} has {end - first} query tokens, over the maximum")
        if first == end or seq_len == 0:
            continue
        pages = block_table[request]
        keys = request_tokens(key_cache, key_scale, pages, seq_len, dtype)
        values = request_tokens(value_cache, value_scale, pages, seq_len, dtype)
        seen = visible_keys(end - first, seq_len, window, query.device)
        weights = attention_weights(query[first:end].to(dtype), keys, seen, softmax_scale)
        result[first:end] = weighted_values(weights, values)
    return result


def request_tokens(
    cache: Pages, scale: Scale, pages: torch.Tensor, seq_len: int, dtype: torch.dtype
) -> torch.Tensor:
    """Return one request's keys or values, dequantised: [seq_len, num_kv_heads, head_dim]."""
    token = torch.arange(seq_len, device=cache.device)
    page, slot = pages[token // cache.shape[1]].long(), token % cache.shape[1]
    stored = _bits(cache)[page, slot].view(cache.dtype).to(dtype)
    if scale is None:
        return stored
    if scale.numel() == 1:
        return stored * scale.reshape(()).to(dtype)
    return stored * scale[page, slot].to(dtype)[:, :, None]


def _bits(cache: Pages) -> torch.Tensor:
    """Return the cache as bytes where it is float8, which torch cannot index everywhere."""
    return cache.view(torch.uint8) if cache.dtype == torch.float8_e4m3fn else cache


def visible_keys(
    query_len: int, seq_len: int, window: int, device: torch.device | str
) -> torch.Tensor:
    """Return which keys each query token sees: [query_len, seq_len] bool."""
    position = torch.arange(seq_len - query_len, seq_len, device=device)[:, None]
    key = torch.arange(seq_len, device=device)[None, :]
    seen = key <= position
    return seen & (key > position - window) if window else seen


def attention_weights(
    query: torch.Tensor, keys: torch.Tensor, seen: torch.Tensor, softmax_scale: float
) -> torch.Tensor:
    """Return the softmax weights: [num_query_heads, query_len, seq_len], 0 where nothing is seen."""
    ratio = query.shape[1] // keys.shape[1]
    scores = torch.einsum("qhd,khd->hqk", query, keys.repeat_interleave(ratio, dim=1))
    scores = (scores * softmax_scale).masked_fill(~seen, -torch.inf)
    return torch.softmax(scores, dim=2).masked_fill(~seen.any(dim=1)[:, None], 0.0)


def weighted_values(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return Σ weight · value: [query_len, num_query_heads, head_dim]."""
    ratio = weights.shape[0] // values.shape[1]
    return torch.einsum("hqk,khd->qhd", weights, values.repeat_interleave(ratio, dim=1))
