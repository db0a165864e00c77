"""x · H of queries, keys and values in one launch, H the Hadamard matrix of Sylvester over √D.

H_D = H_(D/64) ⊗ H_64 · 8/√D: each 64 channels are multiplied by the matrix of ±1, which is exact in
every dtype, and the products are added and subtracted in butterflies of float32. Grid: blocks of
BLOCK_M rows, those of the queries, then of keys, then of values; a row is a token and head.
Source: kvarn.md 1.1, 1.5.
"""

from __future__ import annotations

from math import gcd

import torch
import triton
import triton.language as tl

from ..layout import HEAD_DIMS

FP16_MAX = tl.constexpr(65504.0)
PART = tl.constexpr(64)
# To what keys and values are clamped: bfloat16 has no 65,504, and 65,536 is next to it.
LIMITS = {torch.bfloat16: 65536.0, torch.float16: 65504.0, torch.float32: 65504.0}
# One size of block for every call, so that a row is computed by the same instructions whatever
# is beside it; under 64 rows, which would be other instructions.
BLOCK_M = 32


@triton.jit
def _signs(DTYPE: tl.constexpr):
    """The matrix of ±1, [64, 64]: minus where row and column share an odd number of bits."""
    common = tl.arange(0, PART)[:, None] & tl.arange(0, PART)[None, :]
    common = common ^ (common >> 3)
    odd = (0x96 >> (common & 7)) & 1  # the parity of three bits, from a table
    if DTYPE == tl.float32:
        signs = (0x3F800000 | (odd << 31)).to(tl.float32, bitcast=True)
    else:
        ONE: tl.constexpr = 0x3F80 if DTYPE == tl.bfloat16 else 0x3C00
        signs = (ONE | (odd << 15)).to(tl.int16).to(DTYPE, bitcast=True)
    return signs


@triton.jit
def _part(at, ok, signs, is_query, LIMIT: tl.constexpr, PRECISION: tl.constexpr,
          NATIVE: tl.constexpr):  # fmt: skip
    """64 channels of the rows times ±1, [BLOCK_M, 64] float32; keys and values are sanitised."""
    x = tl.load(at, mask=ok, other=0.0)
    if not NATIVE:
        x = x.to(tl.float32)  # the interpreter multiplies the bits of bfloat16, not its values
    if not is_query:
        within = tl.minimum(tl.maximum(x, -LIMIT), LIMIT).to(x.dtype)
        x = tl.where(x == x, within, 0.0)
    return tl.dot(x, signs, input_precision=PRECISION)


@triton.jit
def _store(at, ok, x, D: tl.constexpr):
    x = x * (1.0 / D**0.5)
    x = tl.clamp(x, -FP16_MAX, FP16_MAX, propagate_nan=tl.PropagateNan.ALL)
    tl.store(at, x.to(tl.float16), mask=ok)


@triton.jit
def _butterflies(parts, COUNT: tl.constexpr):
    """The parts times the matrix of ±1 of COUNT rows; parts: COUNT tensors of one shape."""
    if COUNT > 1:
        HALF: tl.constexpr = COUNT // 2
        first = _butterflies(parts[:HALF], HALF)
        second = _butterflies(parts[HALF:], HALF)
        parts = ()
        for i in tl.static_range(HALF):
            parts += (first[i] + second[i],)
        for i in tl.static_range(HALF):
            parts += (first[i] - second[i],)
    return parts


@triton.jit(do_not_specialize=["tokens"])
def rotate_rows(
    query_ptr, key_ptr, value_ptr,  # [tokens, heads, D] bf16 | fp16 | fp32
    rotated_query_ptr, rotated_key_ptr, rotated_value_ptr,  # [tokens, heads, D] fp16
    q_stride_token, q_stride_head, k_stride_token, k_stride_head, v_stride_token, v_stride_head,
    rq_stride_token, rq_stride_head, rk_stride_token, rk_stride_head,
    rv_stride_token, rv_stride_head,
    tokens, query_heads, key_heads,
    D: tl.constexpr, BLOCK_M: tl.constexpr, GRAIN: tl.constexpr, LIMIT: tl.constexpr,
    PRECISION: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Rotate one block of rows of one of the three tensors."""
    block = tl.program_id(0)
    query_blocks = tl.cdiv(tokens * query_heads, BLOCK_M)
    key_blocks = tl.cdiv(tokens * key_heads, BLOCK_M)
    is_query = block < query_blocks
    x_ptr, out_ptr, heads = query_ptr, rotated_query_ptr, query_heads
    stride_token, stride_head = q_stride_token, q_stride_head
    out_stride_token, out_stride_head = rq_stride_token, rq_stride_head
    if not is_query:
        block -= query_blocks
        heads = key_heads
        if block < key_blocks:
            x_ptr, out_ptr = key_ptr, rotated_key_ptr
            stride_token, stride_head = k_stride_token, k_stride_head
            out_stride_token, out_stride_head = rk_stride_token, rk_stride_head
        else:
            block -= key_blocks
            x_ptr, out_ptr = value_ptr, rotated_value_ptr
            stride_token, stride_head = v_stride_token, v_stride_head
            out_stride_token, out_stride_head = rv_stride_token, rv_stride_head
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    ok = (row < tokens * heads)[:, None]
    token, head = (row // heads).to(tl.int64), (row % heads).to(tl.int64)
    dim = tl.arange(0, PART)[None, :]
    at = x_ptr + (token * stride_token + head * stride_head)[:, None] + dim
    out_at = out_ptr + (token * out_stride_token + head * out_stride_head)[:, None] + dim
    signs = _signs(x_ptr.dtype.element_ty if NATIVE else tl.float32)
    parts = ()
    for i in tl.static_range(D // PART):
        part_at = tl.multiple_of(at + i * PART, (1, GRAIN))
        parts += (_part(part_at, ok, signs, is_query, LIMIT, PRECISION, NATIVE),)
    parts = _butterflies(parts, D // PART)
    for i in tl.static_range(D // PART):
        _store(tl.multiple_of(out_at + i * PART, (1, GRAIN)), ok, parts[i], D)


def rotate(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rotated_query: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
) -> None:
    """Write x · H of each of the three inputs, rounded to float16 once and clamped to ±65504.

    query: [tokens, num_query_heads, head_dim] bf16, fp16 or fp32; head_dim 64, 128, 256, 512
    key, value: [tokens, num_kv_heads, head_dim] of the same dtype; NaN counts as 0 in them, and
        what is beyond float16, infinities too, as ±65504, with bf16 as ±65536
    rotated_query, rotated_key, rotated_value: float16 of the shapes of the inputs

    All may have any strides but the last. A query that is not finite spoils its own row alone. A
    row has the same bits whatever rows are beside it and however many.

    Raises ValueError where an argument is not as above.
    """
    pairs = {"query": (query, rotated_query), "key": (key, rotated_key)}
    pairs["value"] = (value, rotated_value)
    _check(query, key, pairs)
    tokens, query_heads, head_dim = query.shape
    key_heads = key.shape[1]
    grid = triton.cdiv(tokens * query_heads, BLOCK_M) + 2 * triton.cdiv(tokens * key_heads, BLOCK_M)
    if not grid:
        return
    inputs, outputs = [pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()]
    rotate_rows[(grid,)](
        *inputs, *outputs, *(step for x in (*inputs, *outputs) for step in x.stride()[:2]),
        tokens, query_heads, key_heads,
        D=head_dim, BLOCK_M=BLOCK_M, GRAIN=min(grain_bytes(x) for x in (*inputs, *outputs)),
        LIMIT=LIMITS[query.dtype],
        PRECISION="tf32x3" if query.dtype == torch.float32 else "ieee",
        NATIVE=isinstance(rotate_rows, triton.JITFunction), num_warps=8 if head_dim == 512 else 4,
    )  # fmt: skip


def grain_bytes(x: torch.Tensor) -> int:
    """Return the largest power of two up to 16 that divides the address of every row, in bytes."""
    return gcd(16, x.data_ptr(), *(step * x.element_size() for step in x.stride()[:-1]))


def _check(
    query: torch.Tensor, key: torch.Tensor, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]
) -> None:
    """Raise ValueError at the first argument that is not what the kernel reads."""
    for name, (x, rotated) in pairs.items():
        like = query if name == "query" else key
        if x.dim() != 3 or x.shape[2] not in HEAD_DIMS or x.shape[2] != query.shape[2]:
            raise ValueError(
                f"{name} has shape {list(x.shape)}; expected [tokens, heads, head_dim], head_dim "
                f"{', '.join(map(str, HEAD_DIMS))} and the same everywhere"
            )
        if x.dtype not in LIMITS or x.dtype != query.dtype or x.device != query.device:
            raise ValueError(
                f"{name} is {x.dtype} on {x.device}; expected bfloat16, float16 or float32, the "
                f"query's {query.dtype} on {query.device}"
            )
        if x.shape != like.shape or x.shape[0] != query.shape[0]:
            raise ValueError(
                f"{name} has shape {list(x.shape)}; expected {query.shape[0]} tokens, keys and "
                f"values alike: {list(like.shape)}"
            )
        if rotated.shape != x.shape or rotated.dtype != torch.float16 or rotated.device != x.device:
            raise ValueError(
                f"rotated_{name} is {rotated.dtype} {list(rotated.shape)} on {rotated.device}; "
                f"expected float16 {list(x.shape)} on {x.device}"
            )
        if x.stride(2) != 1 or rotated.stride(2) != 1:
            raise ValueError(
                f"{name} has last stride {x.stride(2)}, rotated_{name} {rotated.stride(2)}; "
                "expected 1"
            )
