"""x · H, H the Hadamard matrix of Sylvester over √D, rounded to float16 once; plain torch.

H is symmetric and its own inverse: keys, values and queries are rotated by it, the output of the
attention is rotated back by it. Sums are float64 here. kvarn.md 1.1.
"""

from __future__ import annotations

import torch

from ..layout import FP16_MAX


def hadamard(head_dim: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return H, [head_dim, head_dim] float64 of ±1/√head_dim.

    Raises ValueError where head_dim is no power of two.
    """
    if head_dim < 1 or head_dim & (head_dim - 1):
        raise ValueError(f"head_dim is {head_dim}, expected a power of two")
    signs = torch.ones(1, 1, dtype=torch.float64, device=device)
    while signs.shape[0] < head_dim:
        signs = torch.cat([torch.cat([signs, signs], 1), torch.cat([signs, -signs], 1)])
    # the square root of 128 or 512 has no exact inverse: it stands outside of the sums
    return signs / float(head_dim) ** 0.5


def sanitise(x: torch.Tensor) -> torch.Tensor:
    """Return x as float64 without NaN (0 instead), clamped to ±65504, infinities too.

    Unclamped, a bfloat16 of 3e38 would overflow in the sums of float32 of a kernel.
    """
    return x.double().nan_to_num(nan=0.0).clamp(-FP16_MAX, FP16_MAX)


def to_float16(x: torch.Tensor) -> torch.Tensor:
    """Return x rounded to float16, half to even, clamped to ±65504; NaN stays NaN."""
    return x.clamp(-FP16_MAX, FP16_MAX).half()


def rotate(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rotated_query: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
) -> None:
    """Write x · H of each of the three inputs, [tokens, heads, D] float16, clamped to ±65504.

    query: [tokens, num_query_heads, D] bf16, fp16 or fp32; one that is not finite spoils the
        outputs of its own row, which is all that it can
    key, value: [tokens, num_kv_heads, D] of the same; `sanitise`d first, since a NaN in one token
        of a tile would reach all of its tokens
    """
    matrix = hadamard(query.shape[-1], query.device)
    rotated_query.copy_(to_float16(query.double() @ matrix))
    rotated_key.copy_(to_float16(sanitise(key) @ matrix))
    rotated_value.copy_(to_float16(sanitise(value) @ matrix))
