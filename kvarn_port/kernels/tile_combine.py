"""Stage 2 of attention over packed tiles: the parts of a row become its output, rotated back.

out = (sum of 2^(part_max - top) part_out / sum of 2^(part_max - top) part_sum) H, in float32

Grid: (requests x longest query, query heads); one program a query token and head. Parts are
weighed in the order of the splits; those whose maximum is -inf are skipped. H is +-1 / sqrt(D):
the index of a channel is cut into a high and a low half, along which sums of +-x are taken one
after the other, exactly but for the rounding of float32 sums: at most log2(D) + 2 roundings of
2^-24 in each, far below 1e-6 of the largest channel. Source: kvarn.md 1.1, 13.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .tile_call import TileCall
from .tile_unpack import has_ptx
from .verify_attend import rounded
from .verify_plan import Plan
from .verify_scratch import Scratch

# Splits that a program reads at a time, the smallest that covers a plan's: four variants, so that
# a server compiles no more. One request on an H200 has up to 66.
SPLITS_AT_ONCE = (4, 16, 64, 128)


@triton.jit
def _is_odd(N: tl.constexpr):
    """[N, N]: whether the bits that both indices have are odd in number, where H is negative."""
    both = tl.arange(0, N)[:, None] & tl.arange(0, N)[None, :]
    both = both ^ (both >> 4)
    both = both ^ (both >> 2)
    both = both ^ (both >> 1)
    return (both & 1) > 0


@triton.jit
def rotated_back(x, D: tl.constexpr, LOW: tl.constexpr):
    """x H of [D] float32; LOW: into how many channels its index is cut, D / LOW of them."""
    high: tl.constexpr = D // LOW
    # chosen, not multiplied: Triton makes a dot of a sum of products, in TF32
    x = x.reshape(high, LOW)[:, :, None]
    x = tl.sum(tl.where(_is_odd(LOW)[None, :, :], -x, x), 1)[:, None, :]
    x = tl.sum(tl.where(_is_odd(high)[:, :, None], -x, x), 0)
    return x.reshape(D) * (D**-0.5)


@triton.jit(
    do_not_specialize=["max_query_len", "query_tiles", "splits"],
    do_not_specialize_on_alignment=["query_start_ptr"],
)
def combine_tiles(
    part_out_ptr,  # [programs, BLOCK_M, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, BLOCK_M] float32
    query_start_ptr,  # [requests + 1] int32
    output_ptr,  # [tokens, query heads, D] bf16 | fp16 | fp32
    o_stride_token, o_stride_head,
    max_query_len, query_tiles, splits,
    RATIO: tl.constexpr, D: tl.constexpr, LOW: tl.constexpr, BLOCK_M: tl.constexpr,
    ROWS: tl.constexpr, SPLITS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Write one row of the output; a row that sees no key is 0."""
    request = (tl.program_id(0) // max_query_len).to(tl.int64)
    i = tl.program_id(0) % max_query_len
    q_head = tl.program_id(1)
    head = q_head // RATIO
    flat = i * RATIO + q_head % RATIO
    heads = tl.num_programs(1) // RATIO
    program = ((request * query_tiles + flat // ROWS) * heads + head) * splits
    split = tl.arange(0, SPLITS)
    channel = tl.arange(0, D)
    at = (program + split) * BLOCK_M + flat % ROWS
    # read before the query's length is known: nothing then waits for the one and the other
    m = tl.load(part_max_ptr + at, mask=split < splits, other=float("-inf"))
    total = tl.load(part_sum_ptr + at, mask=split < splits, other=0.0)
    start = tl.load(query_start_ptr + request)
    if i >= tl.load(query_start_ptr + request + 1) - start:
        return
    top = -1.0e30
    denominator = 0.0
    out = tl.zeros([D], tl.float32)
    for first in range(0, splits, SPLITS):
        # a row that saw nothing in a split has about -1e30, an empty split -inf
        full = m > -1.0e29
        part = tl.load(
            part_out_ptr + at[:, None] * D + channel[None, :], mask=full[:, None], other=0.0
        )
        top_new = tl.maximum(top, tl.max(m, 0))
        weight = tl.where(full, tl.exp2(m - top_new), 0.0)
        old = tl.exp2(top - top_new)
        denominator = denominator * old + tl.sum(tl.where(full, total, 0.0) * weight, 0)
        out = out * old + tl.sum(part * weight[:, None], 0)
        top = top_new
        at += SPLITS * BLOCK_M
        later = first + SPLITS + split < splits
        m = tl.load(part_max_ptr + at, mask=later, other=float("-inf"))
        total = tl.load(part_sum_ptr + at, mask=later, other=0.0)
    out = rotated_back(out / tl.maximum(denominator, 1.0e-30), D, LOW)
    out_at = (start + i).to(tl.int64) * o_stride_token + q_head.to(tl.int64) * o_stride_head
    tl.store(output_ptr + out_at + channel, rounded(out, output_ptr.dtype.element_ty, NATIVE))


def combine(call: TileCall, plan: Plan, scratch: Scratch) -> None:
    """Write the output of a call from its parts in scratch."""
    shape, output = call.shape, call.output
    at_once = next((n for n in SPLITS_AT_ONCE if n >= plan.splits), SPLITS_AT_ONCE[-1])
    combine_tiles[(call.requests * call.max_query_len, shape.num_query_heads)](
        scratch.part_out, scratch.part_max, scratch.part_sum, call.query_start, output,
        output.stride(0), output.stride(1), call.max_query_len, plan.tiles, plan.splits,
        RATIO=shape.ratio, D=shape.head_dim, LOW=1 << (shape.head_dim.bit_length() // 2),
        BLOCK_M=plan.block_m, ROWS=plan.rows, SPLITS=at_once, NATIVE=has_ptx(),
        num_warps=min(16, max(1, at_once * shape.head_dim // 1024)),
    )  # fmt: skip
