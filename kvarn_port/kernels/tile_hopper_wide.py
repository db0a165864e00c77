"""Stage 1 of attention over packed tiles for 33 query rows and more, on Hopper GPUs.

part_out = sum of 2^(s - part_max) v, part_sum = sum of 2^(s - part_max), s = log2(e) scale q.k

4-bit keys, 2-bit values. Grid: (requests x query tiles, KV heads, blocks of rows of the ring +
splits - 1); part 0 of a query tile is the ring's, RING_ROWS rows of it a program; the others share
the packed tiles, 64 rows a program.

Three warpgroups share the tiles of a program. Two dequantise, one keys and one values, into shared
memory (tile_hopper_wide_tile.py). The third multiplies: scores [rows, tokens] and outputs [rows,
channels] by wgmma, weights going from one to the other in registers. The scores of a tile and the
values of the one before are asked for together. Source: kvarn.md 2, 13.
"""

from __future__ import annotations

from math import log2

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from .tile_call import TileCall
from .tile_hopper_ring import attend_ring, query_rows
from .tile_hopper_tile import HALF
from .tile_hopper_wide_layouts import channel_of, column_scales_layout
from .tile_hopper_wide_tile import (
    BOXES,
    VALUE_HALVES,
    D,
    G,
    dequantise_keys,
    dequantise_values,
)
from .verify_plan import Plan
from .verify_scratch import Scratch

RING_ROWS = 32  # for which one program attends to the ring
# Registers of a thread that dequantises; the others, of 65,536 for 384 threads, those that multiply
# have: 128 of outputs, 64 of scores and 32 of weights are under way at the same time.
REGISTERS = (112, 112)
M = gl.constexpr(64)


def rings(rows: int) -> int:
    """Return the programs that attend to the ring for the rows of a query tile."""
    return -(-rows // RING_ROWS)


def attend(call: TileCall, plan: Plan, scratch: Scratch) -> None:
    """Leave the parts of a call in scratch."""
    tiles, keys, values = call.tiles, call.ring_keys, call.ring_values
    of_ring = rings(plan.rows)
    grid = (call.requests * plan.tiles, call.shape.num_kv_heads, of_ring + plan.splits - 1)
    attend_wide[grid](
        call.query, *(_descriptor(tiles, rows) for rows in BOXES.values()), keys, values,
        call.block_table, call.query_start, call.seq_lens, call.ring_slot,
        scratch.part_out, scratch.part_max, scratch.part_sum, call.softmax_scale * log2(torch.e),
        call.query.stride(0), call.query.stride(1),
        *keys.stride()[:3], *values.stride()[:3], keys.shape[1],
        call.block_table.stride(0), plan.tiles, plan.splits, plan.tiles_per_split,
        RATIO=call.shape.ratio, ROWS=plan.rows, RINGS=of_ring, RING_ROWS=RING_ROWS,
        CAUSAL=call.causal, REGISTERS=REGISTERS, num_warps=4, launch_pdl=True,
    )  # fmt: skip


def _descriptor(tiles: torch.Tensor, rows: int) -> TensorDescriptor:
    """Return boxes of `rows` times 64 bytes of a record, which is 420 of them."""
    shape = [*tiles.shape[:2], 420, 64]
    strides = [*tiles.stride()[:2], 64, 1]
    view = tiles.as_strided(shape, strides, tiles.storage_offset())
    return TensorDescriptor(view, shape, strides, [1, 1, rows, 64], gl.NVMMASharedLayout(64, 8, 4))


@gluon.jit
def _power(x):
    """2^x; 0 where that is below float32's normal numbers."""
    return gl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=gl.float32, is_pure=True, pack=1
    )


@gluon.jit
def _scaled(s, tokens):
    """Scores times the scales of their tokens."""
    x = tokens.load(column_scales_layout()).reshape([4, 4, 4, 2]).permute([0, 2, 1, 3]).reshape([G])
    x = gl.convert_layout(x, gl.SliceLayout(0, s.type.layout), assert_trivial=True)
    return s * x.to(gl.float32)[None, :]


@gluon.jit
def _row_maxima(s):
    """[64] maxima of rows; of what a thread has in several chains, so that none is long."""
    x = gl.max(s.reshape([M, 4, 4, 4, 2]), 4)
    x = gl.max(gl.max(gl.max(x, 2), 1), 1)
    return gl.convert_layout(x, gl.SliceLayout(1, s.type.layout), assert_trivial=True)


@gluon.jit
def _thread_sums(p):
    """[64, 4] sums of what a thread has of each row."""
    return gl.sum(gl.sum(p.reshape([M, 16, 4, 2]), 3), 1)


@gluon.jit
def _operands(p, L: gl.constexpr):
    """Both halves of the weights of a tile, as left operands."""
    left: gl.constexpr = gl.DotOperandLayout(0, L, 2)
    halves = gl.split(p.to(gl.float16).reshape([M, 2, G // 2]).permute([0, 2, 1]))
    first = gl.convert_layout(halves[0], left, assert_trivial=True)
    return first, gl.convert_layout(halves[1], left, assert_trivial=True)


@gluon.jit
def _start_scores(i, query, keys, full, none):
    """The scores of tile i, under way."""
    mbarrier.wait(full.index(0), i & 1)
    s = warpgroup_mma(query.index(0), keys.index(0), none, use_acc=False, is_async=True)
    mbarrier.wait(full.index(1), i & 1)
    return warpgroup_mma(query.index(1), keys.index(1), s, is_async=True)


@gluon.jit
def _start_values(i, first, last, values, full, out):
    """The outputs with the values of tile i in them, under way."""
    n = 2 * i
    mbarrier.wait(full.index(n % VALUE_HALVES), n // VALUE_HALVES & 1)
    out = warpgroup_mma(first, values.index(n % VALUE_HALVES), out, is_async=True)
    n += 1
    mbarrier.wait(full.index(n % VALUE_HALVES), n // VALUE_HALVES & 1)
    return warpgroup_mma(last, values.index(n % VALUE_HALVES), out, is_async=True)


@gluon.jit
def _multiply(query, keys, values, tokens, k_full, k_empty, v_full, v_empty, num, scale):
    """Outputs, maxima and sums of 64 rows over `num` tiles; scale: not negative."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, G, 16])
    L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    rows: gl.constexpr = gl.SliceLayout(1, S)
    out = gl.zeros([M, D], gl.float32, layout=L)
    none = gl.zeros([M, G], gl.float32, layout=S)
    s = warpgroup_mma_wait(0, deps=[_start_scores(0, query, keys, k_full, none)])
    gl.thread_barrier()
    mbarrier.arrive(k_empty.index(0), count=1)
    s = _scaled(s, tokens.index(0))
    m = _row_maxima(s)
    p = _power(s * scale - (m * scale)[:, None])
    sums = _thread_sums(p)
    each: gl.constexpr = gl.SliceLayout(1, sums.type.layout)
    first, last = _operands(p, L)
    for i in range(num - 1):
        s = _start_scores(i + 1, query, keys, k_full, none)
        out = _start_values(i, first, last, values, v_full, out)
        s = warpgroup_mma_wait(2, deps=[s])
        gl.thread_barrier()
        mbarrier.arrive(k_empty.index(0), count=1)
        out = warpgroup_mma_wait(0, deps=[out])
        gl.thread_barrier()
        mbarrier.arrive(v_empty.index(2 * i % VALUE_HALVES), count=1)
        mbarrier.arrive(v_empty.index((2 * i + 1) % VALUE_HALVES), count=1)
        s = _scaled(s, tokens.index((i + 1) & 3))
        m_new = gl.maximum(m, _row_maxima(s))
        alpha = gl.exp2((m - m_new) * scale)
        m = m_new
        p = _power(s * scale - (m * scale)[:, None])
        part = gl.convert_layout(alpha, each, assert_trivial=True)
        sums = sums * part[:, None] + _thread_sums(p)
        part = gl.convert_layout(alpha, gl.SliceLayout(1, L), assert_trivial=True)
        out = out * part[:, None]
        first, last = _operands(p, L)
    out = _start_values(num - 1, first, last, values, v_full, out)
    out = warpgroup_mma_wait(0, deps=[out])
    return out, m * scale, gl.convert_layout(gl.sum(sums, 1), rows)


@gluon.jit
def _multiply_and_leave(
    query, keys, values, tokens, k_full, k_empty, v_full, v_empty, num, scale,
    part_out_ptr, part_max_ptr, part_sum_ptr, base, ok_below,
):  # fmt: skip
    """Leave the part of 64 rows, channels in their own order."""
    out, m, total = _multiply(
        query, keys, values, tokens, k_full, k_empty, v_full, v_empty, num, scale * (1.0 / HALF)
    )
    row = gl.arange(0, M, layout=m.type.layout)
    gl.store(part_max_ptr + base + row, m, mask=row < ok_below)
    gl.store(part_sum_ptr + base + row, total, mask=row < ok_below)
    row = gl.arange(0, M, layout=gl.SliceLayout(1, out.type.layout))
    channel = channel_of(gl.arange(0, D, layout=gl.SliceLayout(0, out.type.layout)))
    at = ((base + row) * D)[:, None] + channel[None, :]
    gl.store(part_out_ptr + at, out * (1.0 / HALF), mask=(row < ok_below)[:, None])


@gluon.jit
def _load_query(
    q_ptr, start, flat, head, stride_token, stride_head, total_rows, RATIO: gl.constexpr
):  # fmt: skip
    """[2, 64, 128] in shared memory: 64 rows, half of the channels each."""
    L: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    query = gl.allocate_shared_memory(
        gl.float16, [2, M, D // 2], gl.NVMMASharedLayout(128, 16, rank=2)
    )
    at, ok = query_rows(start, flat, head, stride_token, stride_head, total_rows, M, RATIO, M, L)
    dim = gl.arange(0, D // 2, layout=gl.SliceLayout(0, L))
    for h in gl.static_range(2):
        here = q_ptr + at[:, None] + (h * D // 2 + dim)[None, :]
        query.index(h).store(gl.load(here, mask=ok[:, None], other=0.0))
    return query


@gluon.jit
def _barriers(COUNT: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(bars.index(i), count=1)
    return bars


@gluon.jit(
    do_not_specialize=["block_table_stride", "tiles", "splits", "tiles_per_split", "ring_rows"],
    do_not_specialize_on_alignment=[
        "block_table_ptr", "query_start_ptr", "seq_lens_ptr", "ring_slot_ptr",
    ],
)  # fmt: skip
def attend_wide(
    q_ptr,  # [tokens, query heads, D] float16, rotated
    key_desc, value_desc, scale_desc, token_desc,  # BOXES of records
    ring_keys_ptr, ring_values_ptr,  # [slots, ring rows, KV heads, D] float16
    block_table_ptr,  # [requests, blocks] int32
    query_start_ptr,  # [requests + 1] int32
    seq_lens_ptr, ring_slot_ptr,  # [requests] int32
    part_out_ptr,  # [programs, M, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, M] float32
    scale, q_stride_token, q_stride_head,
    key_stride_slot, key_stride_row, key_stride_head,
    value_stride_slot, value_stride_row, value_stride_head,
    ring_rows, block_table_stride, tiles, splits, tiles_per_split,
    RATIO: gl.constexpr, ROWS: gl.constexpr, RINGS: gl.constexpr, RING_ROWS: gl.constexpr,
    CAUSAL: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Leave the part of one query tile, KV head and split; the first RINGS have the ring."""
    request = (gl.program_id(0) // tiles).to(gl.int64)
    head = gl.program_id(1)
    split = gl.maximum(gl.program_id(2) - (RINGS - 1), 0)
    # before the first access to memory: see tile_hopper_combine.py
    gdc_wait()
    gdc_launch_dependents()
    start = gl.load(query_start_ptr + request)
    q_len = gl.load(query_start_ptr + request + 1) - start
    seq_len = gl.load(seq_lens_ptr + request)
    slot = gl.load(ring_slot_ptr + request)
    flat = gl.program_id(0) % tiles * ROWS
    ok_below = gl.minimum(ROWS, q_len * RATIO - flat)
    if ok_below <= 0:
        return
    packed = (seq_len - q_len) // G
    base = (gl.program_id(0) * gl.num_programs(1) + head).to(gl.int64) * splits + split
    base = base * M
    each = gl.maximum(gl.cdiv(packed, splits - 1), tiles_per_split)
    first = (split - 1) * each
    num = gl.maximum(gl.minimum(each, packed - first), 0)
    if (split == 0) & (slot >= 0):
        at = gl.program_id(2) * RING_ROWS
        if at < ok_below:
            attend_ring(
                q_ptr, ring_keys_ptr, ring_values_ptr, slot, part_out_ptr, part_max_ptr,
                part_sum_ptr, scale, start, flat + at, head, q_stride_token, q_stride_head,
                key_stride_slot, key_stride_row, key_stride_head,
                value_stride_slot, value_stride_row, value_stride_head,
                ring_rows, packed * G, seq_len, seq_len - q_len, flat + ok_below, base + at,
                RATIO, RING_ROWS, RING_ROWS, D, CAUSAL,
            )  # fmt: skip
        return
    if (num == 0) | (split == 0) | (slot < 0):
        row = gl.arange(0, M, layout=gl.BlockedLayout([1], [32], [4], [0]))
        gl.store(part_max_ptr + base + row, float("-inf"), mask=row < ok_below)
        return
    swizzled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    box: gl.constexpr = gl.NVMMASharedLayout(64, 8, rank=4)
    keys = gl.allocate_shared_memory(gl.float16, [2, D // 2, G], swizzled)
    values = gl.allocate_shared_memory(gl.float16, [VALUE_HALVES, G // 2, D], swizzled)
    tokens = gl.allocate_shared_memory(
        gl.float16, [4, 16, 8], gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    )
    key_codes = gl.allocate_shared_memory(gl.uint8, key_desc.block_type.shape, box)
    value_codes = gl.allocate_shared_memory(gl.uint8, value_desc.block_type.shape, box)
    key_scales = gl.allocate_shared_memory(gl.uint8, scale_desc.block_type.shape, box)
    value_scales = gl.allocate_shared_memory(gl.uint8, scale_desc.block_type.shape, box)
    token_scales = gl.allocate_shared_memory(gl.uint8, token_desc.block_type.shape, box)
    k_full, k_empty = _barriers(2), _barriers(1)
    v_full, v_empty = _barriers(VALUE_HALVES), _barriers(VALUE_HALVES)
    keys_here, values_here = _barriers(1), _barriers(1)
    query = _load_query(q_ptr, start, flat, head, q_stride_token, q_stride_head, flat + ok_below,
                        RATIO)  # fmt: skip
    fence_async_shared()
    gl.thread_barrier()
    table = block_table_ptr + request * block_table_stride + first
    gl.warp_specialize(
        [
            (_multiply_and_leave, (
                query, keys, values, tokens, k_full, k_empty, v_full, v_empty, num, scale,
                part_out_ptr, part_max_ptr, part_sum_ptr, base, ok_below,
            )),
            (dequantise_keys, (
                keys, tokens, k_full, k_empty, key_desc, scale_desc, token_desc, key_codes,
                key_scales, token_scales, keys_here, table, num, head,
            )),
            (dequantise_values, (
                values, v_full, v_empty, value_desc, scale_desc, value_codes, value_scales,
                values_here, table, num, head,
            )),
        ],
        [4, 4], REGISTERS,
    )  # fmt: skip
