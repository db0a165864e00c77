"""x · H of queries, keys and values in one launch, H the Hadamard matrix of Sylvester over √D.

H_D is the Kronecker product of a matrix of ±1 for each bit of a channel's number, which may come in
any order. Of 32 channels 4 threads have 8 neighbours each, 16 bytes, as tensor cores take operands
and leave products, so that nothing passes through shared memory. Bits 0, 1, 3 and 4 are one product
by [16, 16] of ±1, exact in every dtype; the others, all in a thread, are butterflies of float32.
Grid: blocks of BLOCK_M rows, those of the queries, then of keys, then of values; a row is a token
and head.
Source: kvarn.md 1.1, 1.5.
"""

from __future__ import annotations

from math import gcd

import torch
import triton
import triton.language as tl

from ..layout import HEAD_DIMS

# Whether this Triton has what lets a kernel start while the one before it ends.
HAS_WAITS = hasattr(tl.extra.cuda, "gdc_wait")
FP16_MAX = tl.constexpr(65504.0)
RUN, LANES = tl.constexpr(8), tl.constexpr(4)  # of 32 channels: those of a thread, and threads
PRODUCT = tl.constexpr(16)  # rows and columns of the matrix
# To what keys and values are clamped: bfloat16 has no 65,504, and 65,536 is next to it.
LIMITS = {torch.bfloat16: 65536.0, torch.float16: 65504.0, torch.float32: 65504.0}
# What a program reads, one warp, and holds in registers; of fewer than 8 rows there is no product.
# Each program multiplies by the same instructions: a row has the same bits whatever is beside it.
BLOCK_NUMBERS, FEWEST_ROWS = 2048, 8


def _pairwise(kind: str, limit: int) -> str:
    """Return the assembly of `_sanitised` of two numbers of 16 bits, `limit` the bits of LIMIT."""
    high, low = (f"0x{bits << 16 | bits:08X}" for bits in (limit, limit | 0x8000))
    return f"""{{
        .reg .b32 within, is_number, limit;
        mov.b32 limit, {high};
        min.{kind} within, $1, limit;
        mov.b32 limit, {low};
        max.{kind} within, within, limit;
        set.eq.u32.{kind} is_number, $1, $1;
        and.b32 $0, within, is_number;
    }}"""


PAIRWISE_BF16 = tl.constexpr(_pairwise("bf16x2", 0x4780))
PAIRWISE_FP16 = tl.constexpr(_pairwise("f16x2", 0x7BFF))


@triton.jit
def _signs(DTYPE: tl.constexpr):
    """The matrix of ±1, [16, 16]: minus where row and column share an odd number of bits."""
    common = tl.arange(0, PRODUCT)[:, None] & tl.arange(0, PRODUCT)[None, :]
    odd = (0x6996 >> common) & 1  # the parity of four bits, from a table
    if DTYPE == tl.float32:
        signs = (0x3F800000 | (odd << 31)).to(tl.float32, bitcast=True)
    else:
        ONE: tl.constexpr = 0x3F80 if DTYPE == tl.bfloat16 else 0x3C00
        signs = (ONE | (odd << 15)).to(tl.int16).to(DTYPE, bitcast=True)
    return signs


@triton.jit
def _sanitised(x, LIMIT: tl.constexpr, HOPPER: tl.constexpr):
    """Rows without NaN, all within ±LIMIT."""
    if HOPPER and x.dtype != tl.float32:
        # two numbers an instruction, which the compiler does not find by itself
        x = tl.inline_asm_elementwise(
            PAIRWISE_BF16 if x.dtype == tl.bfloat16 else PAIRWISE_FP16,
            "=r,r", [x], dtype=x.dtype, is_pure=True, pack=2)  # fmt: skip
    else:
        within = tl.minimum(tl.maximum(x, -LIMIT), LIMIT).to(x.dtype)
        x = tl.where(x == x, within, 0.0)
    return x


@triton.jit
def _products(x, signs, NATIVE: tl.constexpr):
    """Rows [4, n, D / 32, 8] times ±1 by bits 0, 1, 3 and 4: [4, n, 4, D / 16] float32.

    The last index is of the other bits, 5 and above before 2.
    """
    N: tl.constexpr = x.shape[1]
    FAR: tl.constexpr = x.shape[2]
    # bits 4 and 3, two of rows, bits 5 and above, 2, 1, 0: lanes and registers as mma.sync has them
    x = x.reshape(LANES, N // 8, 8, FAR, 2, 2, 2).permute(3, 1, 4, 2, 5, 0, 6)
    x = x.reshape(N * FAR * 2, PRODUCT)
    if NATIVE and x.dtype == tl.float32:
        # as two numbers of 11 bits; what else tf32x3 adds up is 0, since ±1 has no more bits
        high = (x.to(tl.int32, bitcast=True) & -0x2000).to(tl.float32, bitcast=True)
        product = tl.dot(high, signs, input_precision="tf32")
        product = tl.dot(x - high, signs, acc=product, input_precision="tf32")
    else:
        product = tl.dot(x, signs, input_precision="ieee")
    product = product.reshape(FAR, N // 8, 2, 8, 2, LANES, 2).permute(5, 1, 3, 4, 6, 0, 2)
    return product.reshape(LANES, N, 4, FAR * 2)


@triton.jit
def _butterflies(x, TIMES: tl.constexpr):
    """Rows [4, n, 4, parts] times the matrix of ±1 of the parts, of which there are TIMES."""
    if TIMES > 1:
        N: tl.constexpr = x.shape[1]
        HALF: tl.constexpr = x.shape[3] // 2
        first, second = tl.split(x.reshape(LANES, N, 4, HALF, 2))
        x = tl.join(first + second, first - second)
        # the pairs of the next step are neighbours then, and all in their places after the last
        x = x.permute(0, 1, 2, 4, 3).reshape(LANES, N, 4, 2 * HALF)
        x = _butterflies(x, TIMES // 2)
    return x


@triton.jit
def _store(at, ok, x, signs, D: tl.constexpr, NATIVE: tl.constexpr):
    """Write rows [4, n, D / 32, 8] times H."""
    N: tl.constexpr = x.shape[1]
    x = _butterflies(_products(x, signs, NATIVE), D // PRODUCT) * (1.0 / D**0.5)
    x = tl.clamp(x, -FP16_MAX, FP16_MAX, propagate_nan=tl.PropagateNan.ALL)
    x = x.to(tl.float16).reshape(LANES, N, 2, 2, D // 32, 2).permute(0, 1, 4, 5, 2, 3)
    tl.store(at, x.reshape(LANES, N, D // 32, RUN), mask=ok)


@triton.jit(do_not_specialize=["tokens"])
def rotate_rows(
    query_ptr, key_ptr, value_ptr,  # [tokens, heads, D] bf16 | fp16 | fp32
    rotated_query_ptr, rotated_key_ptr, rotated_value_ptr,  # [tokens, heads, D] fp16
    q_stride_token, q_stride_head, k_stride_token, k_stride_head, v_stride_token, v_stride_head,
    rq_stride_token, rq_stride_head, rk_stride_token, rk_stride_head,
    rv_stride_token, rv_stride_head,
    tokens, query_heads, key_heads,
    D: tl.constexpr, BLOCK_M: tl.constexpr, GRAIN: tl.constexpr, LIMIT: tl.constexpr,
    NATIVE: tl.constexpr, HOPPER: tl.constexpr, OVERLAPS: tl.constexpr,
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
    # dimensions in this order get 4 neighbouring lanes a row, 8 rows a warp, 8 channels a thread
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)[None, :, None, None]
    ok = row < tokens * heads
    token, head = (row // heads).to(tl.int64), (row % heads).to(tl.int64)
    lane = tl.arange(0, LANES)[:, None, None, None] * RUN
    far = tl.arange(0, D // 32)[None, None, :, None] * 32
    dim = lane + far + tl.arange(0, RUN)[None, None, None, :]
    at = x_ptr + (token * stride_token + head * stride_head) + dim
    out_at = out_ptr + (token * out_stride_token + head * out_stride_head) + dim
    out_at = tl.multiple_of(out_at, (1, 1, 1, GRAIN))
    signs = _signs(x_ptr.dtype.element_ty if NATIVE else tl.float32)
    if OVERLAPS:
        # before the first access to memory: see tile_hopper_combine.py
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    x = tl.load(tl.multiple_of(at, (1, 1, 1, GRAIN)), mask=ok, other=0.0)
    if not NATIVE:
        x = x.to(tl.float32)  # the interpreter multiplies the bits of bfloat16, not its values
    # twice, since where branches meet the compiler takes numbers of 16 bits out of their pairs
    if is_query:
        _store(out_at, ok, x, signs, D, NATIVE)
    else:
        _store(out_at, ok, _sanitised(x, LIMIT, HOPPER), signs, D, NATIVE)


def rotate(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rotated_query: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
) -> None:
    """Write x · H of each of the three inputs, rounded to float16 once and clamped to ±65504.

    query: [tokens, num_query_heads, head_dim] bf16, fp16 or fp32; head_dim 64, 128, 256, 512; of
        no heads where keys and values alone are to be rotated
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
    rows = max(FEWEST_ROWS, BLOCK_NUMBERS // head_dim)
    grid = triton.cdiv(tokens * query_heads, rows) + 2 * triton.cdiv(tokens * key_heads, rows)
    if not grid:
        return
    inputs, outputs = [pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()]
    native = isinstance(rotate_rows, triton.JITFunction) and torch.version.hip is None
    # others compare no pairs of bfloat16
    hopper = native and is_from_hopper_on(query.device)
    overlaps = hopper and HAS_WAITS
    rotate_rows[(grid,)](
        *inputs, *outputs, *(step for x in (*inputs, *outputs) for step in x.stride()[:2]),
        tokens, query_heads, key_heads,
        D=head_dim, BLOCK_M=rows, GRAIN=min(grain_bytes(x) for x in (*inputs, *outputs)),
        LIMIT=LIMITS[query.dtype], NATIVE=native, HOPPER=hopper, OVERLAPS=overlaps,
        num_warps=2 if head_dim == 512 and query.dtype == torch.float32 else 1,
        **({"launch_pdl": True} if overlaps else {}),
    )  # fmt: skip


def is_from_hopper_on(device: torch.device) -> bool:
    """Return whether a GPU is Hopper or newer: on others no kernel starts before another's end."""
    return torch.cuda.get_device_capability(device)[0] >= 9


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
