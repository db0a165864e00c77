"""Stage 1 of attention over packed tiles and ring rows: a query tile against one part of its keys.

part_out = sum of 2^(s - part_max) v, part_sum = sum of 2^(s - part_max), s = log2(e) scale q.k

Grid: (requests x query tiles, KV heads, splits); one program attends the rows of a query tile,
which are query tokens x the query heads of one KV head, to the tiles of its split, each of which
is unpacked once for all rows, and in one of the splits to the rows of the ring.

    s[t]   = T[t] q.((code - 8) A + Z'), Z' = Z + 8 A
    out[c] = C[c] (sum of w[t] (code - mid) + sum of p[t] Z'[t]), w = p A, Z' = Z + mid A

w is rounded to the dtype of the dot, in units of a power of two of the tile; the sum of p is not.
Centring costs nothing: the dot takes codes as they are, mid x the sum of the rounded w is taken
off again in float32. Source: kvarn.md 2, 11, 13.
"""

from __future__ import annotations

from math import log2

import torch
import triton
import triton.language as tl

from .tile_call import TileCall
from .tile_combine import combine as combine
from .tile_unpack import has_ptx, keys_of, lift, pair, values_of
from .verify_attend import NOTHING
from .verify_plan import PROGRAMS_PER_SM, Device, Plan, rows_of
from .verify_scratch import Scratch

# What the ring costs beside a tile: of the keys a split has to read, as many tiles.
RING_TILES = tl.constexpr(2)
RING_KEYS = 32  # of a step over the ring
STAGES = 2
# What the largest tiles of queries take of shared memory: 128 rows at D 256, 32 rows at D 512.
SHARED_BYTES_OF_128_ROWS = 164 << 10
SHARED_BYTES_OF_512_CHANNELS = 104 << 10
# Programs that share a multiprocessor: one waits while the other computes.
PER_SM = 2
# Fewer tiles than this in a split cost more in the part they leave than they save in waiting.
TILES_PER_SPLIT = 1


@triton.jit
def share(tiles, splits, least, split):
    """The tiles [first, end) of a split, and whether it has the ring; a split may have neither.

    The ring counts as RING_TILES behind the tiles, so that its split has fewer of them.
    """
    each = tl.maximum(tl.cdiv(tiles + RING_TILES, splits), least)
    first = split * each
    return first, tl.minimum(first + each, tiles), tiles // each == split


@triton.jit
def _online(even, odd, m, total):
    """Weights of two blocks of scores, the factor of what was summed before, and new m and sum."""
    m_new = tl.maximum(m, tl.maximum(tl.max(even, 1), tl.max(odd, 1)))
    even = tl.exp2(even - m_new[:, None])
    odd = tl.exp2(odd - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    return even, odd, alpha, m_new, total * alpha + tl.sum(even + odd, 1)


@triton.jit
def _unit(even, odd):
    """The power of two that takes the largest of these scales to 2^14 and above, below 2^15."""
    top = tl.maximum(tl.max(tl.maximum(even, odd), 0), 2.0**-24)
    bits = top.to(tl.uint32, bitcast=True) & 0x7F800000
    return (tl.full([], (2 * 127 + 14) << 23, tl.uint32) - bits).to(tl.float32, bitcast=True)


@triton.jit
def _add(acc, even, odd, value_even, value_odd, alpha, z, scale, back,
         PLACE: tl.constexpr, BITS: tl.constexpr, NATIVE: tl.constexpr):  # fmt: skip
    """acc alpha + C (dot + z) back of the channels that lie at one place of their bytes."""
    dot = tl.dot(even, value_even, input_precision="ieee")
    dot = tl.dot(odd, value_odd, dot, input_precision="ieee")
    lifted: tl.constexpr = lift(PLACE, BITS, NATIVE)
    dot += (z * (1.0 / lifted))[:, None]
    return acc * alpha[:, None] + dot * (scale * (back * lifted))[None, :]


@triton.jit
def _half(bits, PLACE: tl.constexpr):
    """A float16 out of those that an integer has beside each other, as float32."""
    return (bits >> 16 * PLACE & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _packed(q, acc, m, total, scale, record, step,
            D: tl.constexpr, G: tl.constexpr, BYTES: tl.constexpr, BITS: tl.constexpr,
            AK: tl.constexpr, ZK: tl.constexpr, TK: tl.constexpr, VC: tl.constexpr,
            CV: tl.constexpr, AV: tl.constexpr, ZV: tl.constexpr,
            OPERAND: tl.constexpr, NATIVE: tl.constexpr):  # fmt: skip
    """2 x BYTES tokens of a tile: the online softmax of every row moves on by them."""
    channel = tl.arange(0, D)
    at = step * BYTES + tl.arange(0, BYTES)  # of pairs of tokens
    words = record.to(tl.pointer_type(tl.int32))
    halves = record.to(tl.pointer_type(tl.float16))
    codes = tl.load(record + channel[:, None] * (G // 2) + at[None, :])
    ak = tl.load(halves + AK // 2 + channel)
    zk = tl.load(halves + ZK // 2 + channel)
    key_even, key_odd = keys_of(codes, ak, zk, OPERAND, NATIVE)
    token_even, token_odd = pair(words + TK // 4 + at)
    even = tl.dot(q, key_even, input_precision="ieee") * (token_even * scale)[None, :]
    odd = tl.dot(q, key_odd, input_precision="ieee") * (token_odd * scale)[None, :]
    even, odd, alpha, m, total = _online(even, odd, m, total)

    width: tl.constexpr = D * BITS // 8  # bytes of a token
    byte = tl.arange(0, width)
    codes = record + VC + (2 * at * width)[:, None] + byte[None, :]
    values_even = values_of(tl.load(codes), BITS, OPERAND, NATIVE)
    values_odd = values_of(tl.load(codes + width), BITS, OPERAND, NATIVE)
    av_even, av_odd = pair(words + AV // 4 + at)
    zv_even, zv_odd = pair(words + ZV // 4 + at)
    mid: tl.constexpr = (2**BITS - 1) * 0.5
    unit = 1.0
    if OPERAND == tl.float16:
        unit = _unit(av_even, av_odd)
    low_even = (zv_even + mid * av_even) * unit
    low_odd = (zv_odd + mid * av_odd) * unit
    weight_even = (even * (av_even * unit)[None, :]).to(OPERAND)
    weight_odd = (odd * (av_odd * unit)[None, :]).to(OPERAND)
    z = even * low_even[None, :] + odd * low_odd[None, :]
    z = tl.sum(z - mid * (weight_even.to(tl.float32) + weight_odd.to(tl.float32)), 1)
    if BITS == 2:
        bits = tl.load(record.to(tl.pointer_type(tl.int64)) + CV // 8 + byte)
    else:
        bits = tl.load(words + CV // 4 + byte)
    moved = ()
    for place in tl.static_range(8 // BITS):
        out = _add(acc[place], weight_even, weight_odd, values_even[place], values_odd[place],
                   alpha, z, _half(bits, place), 1.0 / unit, place, BITS, NATIVE)  # fmt: skip
        moved = moved + (out,)  # noqa: RUF005 (Triton knows no starred element)
    return moved, m, total


@triton.jit
def _apart(x, ROWS: tl.constexpr, D: tl.constexpr, BITS: tl.constexpr):
    """[ROWS, D] as the channels of each place of a byte: 2 or 4 of [ROWS, D / 2 or / 4]."""
    if BITS == 4:
        apart = tl.split(x.reshape(ROWS, D // 2, 2))
    else:
        even, odd = tl.split(x.reshape(ROWS, D // 4, 2, 2))
        x0, x2 = tl.split(even)
        x1, x3 = tl.split(odd)
        apart = (x0, x1, x2, x3)
    return apart


@triton.jit
def _together(acc, ROWS: tl.constexpr, D: tl.constexpr, BITS: tl.constexpr):
    """The inverse of `_apart`."""
    if BITS == 4:
        x = tl.join(acc[0], acc[1])
    else:
        x = tl.join(tl.join(acc[0], acc[2]), tl.join(acc[1], acc[3]))
    return x.reshape(ROWS, D)


@triton.jit
def _ringed(q, acc, m, total, scale, key_ptr, value_ptr, k_stride_row, v_stride_row, rows, n,
            seq_len, position, D: tl.constexpr, KEYS: tl.constexpr, BITS: tl.constexpr,
            OPERAND: tl.constexpr):  # fmt: skip
    """KEYS positions of the ring from n on; key_ptr and value_ptr: row 0 of a slot and head."""
    at = n + tl.arange(0, KEYS)
    ok = at < seq_len  # what lies beyond may be anything, NaN too
    row = (at % rows).to(tl.int64)[:, None]
    channel = tl.arange(0, D)[None, :]
    k = tl.load(key_ptr + row * k_stride_row + channel, mask=ok[:, None], other=0.0).to(OPERAND)
    s = tl.dot(q, k.T, input_precision="ieee") * (scale * 0.5)
    s = tl.where((at[None, :] <= position[:, None]) & ok[None, :], s, NOTHING)
    m_new = tl.maximum(m, tl.max(s, 1))
    p = tl.exp2(s - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    total = total * alpha + tl.sum(p, 1)
    p = p.to(OPERAND)
    v = tl.load(value_ptr + row * v_stride_row + channel, mask=ok[:, None], other=0.0).to(OPERAND)
    v = _apart(v, KEYS, D, BITS)
    moved = ()
    for place in tl.static_range(8 // BITS):
        out = tl.dot(p, v[place], acc[place] * alpha[:, None], input_precision="ieee")
        moved = moved + (out,)  # noqa: RUF005
    return moved, m_new, total


@triton.jit(
    do_not_specialize=["block_table_stride", "ring_rows", "query_tiles", "splits", "least"],
    do_not_specialize_on_alignment=[
        "block_table_ptr", "query_start_ptr", "seq_lens_ptr", "ring_slot_ptr"
    ],
)  # fmt: skip
def attend_tiles(
    query_ptr,  # [tokens, query heads, D] fp16, rotated
    tiles_ptr,  # [blocks, KV heads, bytes of a record] uint8
    ring_key_ptr, ring_value_ptr,  # [slots, ring_rows, KV heads, D] fp16, rotated
    block_table_ptr,  # [requests, blocks of a request] int32
    query_start_ptr,  # [requests + 1] int32
    seq_lens_ptr, ring_slot_ptr,  # [requests] int32
    part_out_ptr,  # [programs, BLOCK_M, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, BLOCK_M] float32
    scale,  # of the scores, times 2 log2(e)
    q_stride_token, q_stride_head, t_stride_block, t_stride_head,
    k_stride_slot, k_stride_row, k_stride_head, v_stride_slot, v_stride_row, v_stride_head,
    block_table_stride, ring_rows, query_tiles, splits, least,
    RATIO: tl.constexpr, D: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr,
    BLOCK_M: tl.constexpr, ROWS: tl.constexpr, BYTES: tl.constexpr, KEYS: tl.constexpr,
    AK: tl.constexpr, ZK: tl.constexpr, TK: tl.constexpr, VC: tl.constexpr,
    CV: tl.constexpr, AV: tl.constexpr, ZV: tl.constexpr, CAUSAL: tl.constexpr,
    OPERAND: tl.constexpr, NATIVE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Leave the part of one query tile, KV head and split."""
    request = tl.program_id(0) // query_tiles
    head = tl.program_id(1)
    split = tl.program_id(2)
    start = tl.load(query_start_ptr + request)
    q_len = tl.load(query_start_ptr + request + 1) - start
    seq_len = tl.load(seq_lens_ptr + request)
    slot = tl.load(ring_slot_ptr + request)
    flat = tl.program_id(0) % query_tiles * ROWS  # in query tokens x heads of the group
    if flat // RATIO >= q_len:
        return
    packed = tl.maximum(seq_len - q_len, 0) // G
    first, end, has_ring = share(packed, splits, least, split)
    row = tl.arange(0, BLOCK_M)
    program = (tl.program_id(0).to(tl.int64) * tl.num_programs(1) + head) * splits + split
    out_at = program * BLOCK_M + row
    if (slot < 0) | ((first >= end) & (not has_ring)):
        tl.store(part_max_ptr + out_at, tl.full([BLOCK_M], float("-inf"), tl.float32))
        tl.store(part_sum_ptr + out_at, tl.zeros([BLOCK_M], tl.float32))
        return
    tokens = (flat + row) // RATIO
    is_row = (row < ROWS) & (tokens < q_len)
    channel = tl.arange(0, D)
    q_head = (head * RATIO + (flat + row) % RATIO).to(tl.int64)
    q_at = (start + tokens).to(tl.int64) * q_stride_token + q_head * q_stride_head
    q = tl.load(query_ptr + q_at[:, None] + channel[None, :], mask=is_row[:, None], other=0.0)
    q = q.to(OPERAND)
    m = tl.full([BLOCK_M], NOTHING, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    zero = tl.zeros([BLOCK_M, D * BITS // 8], tl.float32)
    acc = (zero, zero)
    if BITS == 2:
        acc = (zero, zero, zero, zero)
    table = block_table_ptr + request.to(tl.int64) * block_table_stride
    records = tiles_ptr + head.to(tl.int64) * t_stride_head
    # The page of the next tile is looked up a tile ahead: its load must not hold up the codes'.
    steps: tl.constexpr = G // 2 // BYTES
    block = tl.load(table + first, mask=first < end, other=0)
    for i in tl.range(first * steps, end * steps, num_stages=STAGES):
        following = tl.load(table + (i + 1) // steps, mask=i + 1 < end * steps, other=0)
        record = records + block.to(tl.int64) * t_stride_block
        acc, m, total = _packed(q, acc, m, total, scale, record, i % steps, D, G, BYTES, BITS,
                                AK, ZK, TK, VC, CV, AV, ZV, OPERAND, NATIVE)  # fmt: skip
        block = following
    position = tl.where(CAUSAL, seq_len - q_len + tokens, seq_len)  # the last key a row sees
    key = ring_key_ptr + slot.to(tl.int64) * k_stride_slot + head.to(tl.int64) * k_stride_head
    value = ring_value_ptr + slot.to(tl.int64) * v_stride_slot + head.to(tl.int64) * v_stride_head
    ring_end = tl.where(has_ring, seq_len, 0)
    for n in tl.range(packed * G, ring_end, KEYS, num_stages=1):
        acc, m, total = _ringed(
            q, acc, m, total, scale, key, value, k_stride_row, v_stride_row, ring_rows, n,
            seq_len, position, D, KEYS, BITS, OPERAND,
        )  # fmt: skip
    acc = _together(acc, BLOCK_M, D, BITS)
    tl.store(part_out_ptr + out_at[:, None] * D + channel[None, :], acc, mask=is_row[:, None])
    tl.store(part_max_ptr + out_at, m, mask=is_row)
    tl.store(part_sum_ptr + out_at, total, mask=is_row)


def fits(call: TileCall, device: Device) -> bool:
    """Return whether the kernel reads a call: it reads every one."""
    del call, device
    return True


def choose_plan(call: TileCall, device: Device) -> Plan:
    """Return the plan of a call for its shape and its longest query."""
    shape = call.shape
    rows = call.max_query_len * shape.ratio
    block_m, pairs, warps = _tile(call, device)
    used = rows_of(block_m, shape.ratio)
    query_tiles = -(-rows // used)
    unsplit = query_tiles * shape.num_kv_heads
    splits = min(
        PER_SM * device.sm_count // unsplit,
        PROGRAMS_PER_SM * device.sm_count // (call.requests * unsplit),
    )
    return Plan(
        block_m=block_m,
        block_n=2 * min(pairs, call.layout.group // 2),
        rows=used,
        tiles=query_tiles,
        splits=max(1, splits),
        warps=warps,
        stages=1 if call.precise else STAGES,
        tiles_per_split=TILES_PER_SPLIT,
    )


def _tile(call: TileCall, device: Device) -> tuple[int, int, int]:
    """Return query rows of a tile, pairs of tokens of a step and warps.

    Instructions that a scheduler of an sm_90 issues for a tile of 128 tokens, D 256, 2-bit values
    (ptxas of CUDA 12.8): 16 rows 2,200, 32 rows 3,900, 64 rows 4,000, 128 rows 5,800. From 64 rows
    on Triton's own addresses of operands in shared memory overflow the registers.

    128 rows, D 64 or 128 and steps of 64 pairs overflow the uniform registers too, and ptxas then
    leaves some of those addresses unset: the values of a place are taken from elsewhere in shared
    memory. Steps of 32 pairs have half as many. tests/kernels/sass.py sees it in what is compiled.
    """
    rows, head_dim = call.max_query_len * call.shape.ratio, call.layout.head_dim
    if call.precise:
        return 16, 16, 8
    if head_dim > 256:
        wide = rows > 16 and device.shared_bytes >= SHARED_BYTES_OF_512_CHANNELS
        return 32 if wide else 16, 32, 8
    pairs = 64 if call.layout.value_bits == 2 and head_dim >= 128 else 32
    if rows <= 16:
        return 16, pairs, 4
    if rows <= 32:
        return 32, pairs, 8
    if rows <= 64 or device.shared_bytes < SHARED_BYTES_OF_128_ROWS:
        return 64, 32, 4
    return 128, 64 if head_dim > 128 else 32, 8


def attend(call: TileCall, plan: Plan, scratch: Scratch) -> None:
    """Leave the parts of a call in scratch."""
    shape, layout = call.shape, call.layout
    attend_tiles[(call.requests * plan.tiles, shape.num_kv_heads, plan.splits)](
        call.query, call.tiles, call.ring_keys, call.ring_values, call.block_table,
        call.query_start, call.seq_lens, call.ring_slot,
        scratch.part_out, scratch.part_max, scratch.part_sum,
        2 * log2(torch.e) * call.softmax_scale,
        call.query.stride(0), call.query.stride(1), *call.tiles.stride()[:2],
        *call.ring_keys.stride()[:3], *call.ring_values.stride()[:3], call.block_table.stride(0),
        call.ring_keys.shape[1], plan.tiles, plan.splits, plan.tiles_per_split,
        RATIO=shape.ratio, D=shape.head_dim, G=layout.group, BITS=layout.value_bits,
        BLOCK_M=plan.block_m, ROWS=plan.rows, BYTES=plan.block_n // 2,
        KEYS=min(RING_KEYS, plan.block_n // 2),
        AK=layout.key_channel_scale, ZK=layout.key_zero_point, TK=layout.key_token_scale,
        VC=layout.value_codes, CV=layout.value_channel_scale, AV=layout.value_token_scale,
        ZV=layout.value_zero_point, CAUSAL=call.causal,
        OPERAND=tl.float32 if call.precise else tl.float16, NATIVE=has_ptx() and not call.precise,
        STAGES=plan.stages, num_warps=plan.warps,
    )  # fmt: skip
