"""Attention over segments of the keys joined by their log-sum-exp, then rotated back; plain torch.

out = Σ exp(lse_s - lse) · out_s · H, lse = log Σ exp(lse_s), over segments s in their order.
"""

from __future__ import annotations

import torch

from .rotate import hadamard


def merge(
    outputs: torch.Tensor,
    lses: torch.Tensor,
    output: torch.Tensor,
    *,
    unrotate: bool = True,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Return `output`, every element of which is written.

    outputs: [segments, tokens, num_query_heads, head_dim], softmax-weighted values of a segment,
        normalised within it
    lses: [segments, num_query_heads, tokens] float32, natural logarithm, as FlashAttention has it;
        -inf where a row sees no key of the segment, whose output is not looked at then
    output: [tokens, num_query_heads, head_dim] of any float dtype
    unrotate: multiply by H at the end

    A row that sees no key in any segment is 0.
    """
    lse = lses.to(dtype).transpose(1, 2)[..., None]
    seen = lse > -torch.inf
    top = lse.amax(0).clamp(min=torch.finfo(dtype).min)
    weight = torch.where(seen, (lse - top).exp(), 0.0)
    parts = torch.where(seen, outputs.to(dtype), 0.0) * weight
    total = weight.sum(0)
    joined = parts.sum(0) / torch.where(total > 0, total, 1.0)
    if unrotate:
        joined = joined @ hadamard(joined.shape[-1], joined.device).to(dtype)
    output.copy_(joined)
    return output
