"""Stage 1 of attention over packed tiles and ring rows, on Hopper GPUs: 4-bit keys, 2-bit values.

part_out = sum of 2^(s - part_max) v, part_sum = sum of 2^(s - part_max), s = log2(e) scale q.k

Grid: (requests x query tiles, KV heads, splits). Split 0 of a query tile attends to the ring, the
last ones too where packed tiles leave them idle; the others share the packed tiles. Both products
are transposed, [tokens, rows] = K [tokens, channels] q^T and [channels, rows] = V^T p^T: codes are
the left operand, which the matrix units take from registers, unpacked and dequantised there to
float16 (k / T = code A + Z, v = (code A + Z) C: each rounded once, values twice), and never return
to shared memory. A and Z are halved, so that no sum overflows; scores and outputs are doubled. T
multiplies scores. The values of one tile and the scores of the next are
computed in one stretch between two barriers.

Up to 32 rows, through mma.sync, which takes 8 columns at no more than its share, by two programs of
4 warps a multiprocessor. More rows are those of tile_hopper_wide.py. Source: kvarn.md 2, 11, 13.
"""

from __future__ import annotations

from math import log2

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from . import tile_hopper_wide
from .tile_call import TileCall
from .tile_hopper_combine import combine as combine
from .tile_hopper_layouts import accumulator_layout, sum_layout
from .tile_hopper_ring import NOTHING, attend_ring, query_rows, ring_share
from .tile_hopper_tile import (
    HALF,
    SLACK,
    add_scores,
    add_values,
    load_channel_scales,
    load_scales,
    load_token_scales,
    read,
    rescale,
    shifts,
    stage,
    weigh,
)
from .verify_plan import PROGRAMS_PER_SM, Device, Plan, rows_of
from .verify_scratch import Scratch

STAGES = 2
TILES_PER_SPLIT = 1
# The ring is halved so often at most, where splits are idle: 128 rows take longer than two tiles.
RING_HALVINGS = 2
KEY_BYTES = gl.constexpr(256 * 64)  # of the codes of a tile
VALUE_BYTES = gl.constexpr(128 * 64)


def fits(call: TileCall, device: Device) -> bool:
    """Return whether the kernels read the tiles of a call on this device."""
    layout, shape = call.layout, call.shape
    if (layout.key_bits, layout.value_bits, layout.group, layout.head_dim) != (4, 2, 128, 256):
        return False
    if not call.tiles.is_cuda or torch.cuda.get_device_capability(call.tiles.device)[0] != 9:
        return False
    # a maximum of scores is one of scaled scores too, where no scale turns them over
    right = not call.precise and call.softmax_scale >= 0
    return device.has_tma and right and shape.ratio <= 64


def choose_plan(call: TileCall, device: Device) -> Plan:
    """Return the plan of a call: tiles of 8, 16, 32 or 64 rows; at least two splits."""
    ratio, rows = call.shape.ratio, call.max_query_len * call.shape.ratio
    block_m = next((n for n in (8, 16, 32) if rows <= n), 64)
    tiles = -(-rows // rows_of(block_m, ratio))
    used = -(-call.max_query_len // tiles) * ratio  # as many tokens in each query tile
    few = block_m <= 32
    unsplit = tiles * call.shape.num_kv_heads
    splits = min(
        (2 if few else 1) * device.sm_count // unsplit,
        PROGRAMS_PER_SM * device.sm_count // (call.requests * unsplit),
    )
    if not few:  # all programs of the ring but one are not those of a split
        splits -= tile_hopper_wide.rings(used) - 1
    return Plan(
        block_m=block_m,
        block_n=call.layout.group,
        rows=used,
        tiles=tiles,
        splits=max(2, splits),
        warps=4 if few else 12,
        stages=STAGES if few else 1,
        tiles_per_split=TILES_PER_SPLIT,
    )


def attend(call: TileCall, plan: Plan, scratch: Scratch) -> None:
    """Leave the parts of a call in scratch."""
    if plan.block_m > 32:
        tile_hopper_wide.attend(call, plan, scratch)
        return
    layout, tiles, keys, values = call.layout, call.tiles, call.ring_keys, call.ring_values
    attend_tiles[(call.requests * plan.tiles, call.shape.num_kv_heads, plan.splits)](
        call.query, tiles, _descriptor(tiles, layout.key_codes, layout.head_dim),
        _descriptor(tiles, layout.value_codes, layout.group), keys, values,
        call.block_table, call.query_start, call.seq_lens, call.ring_slot,
        scratch.part_out, scratch.part_max, scratch.part_sum, call.softmax_scale * log2(torch.e),
        call.query.stride(0), call.query.stride(1), tiles.stride(0), tiles.stride(1),
        *keys.stride()[:3], *values.stride()[:3], keys.shape[1],
        call.block_table.stride(0), plan.tiles, plan.splits, plan.tiles_per_split,
        RATIO=call.shape.ratio, ROWS=plan.rows, N=plan.block_m, M=max(16, plan.block_m),
        A_K=layout.key_channel_scale, Z_K=layout.key_zero_point, T_K=layout.key_token_scale,
        C_V=layout.value_channel_scale, A_V=layout.value_token_scale, STAGES=plan.stages,
        KC=64, TC=64, CAUSAL=call.causal, RING_HALVINGS=RING_HALVINGS,
        num_warps=plan.warps, launch_pdl=True,
    )  # fmt: skip


def _descriptor(tiles: torch.Tensor, first: int, rows: int) -> TensorDescriptor:
    """Return boxes of `rows` times 64 bytes from byte `first` of a record on."""
    shape = [*tiles.shape[:2], rows, 64]
    strides = [*tiles.stride()[:2], 64, 1]
    view = tiles.as_strided(shape, strides, tiles.storage_offset() + first)
    box = gl.NVMMASharedLayout(64, 8, rank=4)
    return TensorDescriptor(view, shape, strides, [1, 1, rows, 64], box)


@gluon.jit
def _barriers(STAGES: gl.constexpr, num):
    """Barriers of keys and of values, one a stage, that expect the first tiles."""
    bars: gl.constexpr = mbarrier.MBarrierLayout()
    key_bar = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bars)
    value_bar = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bars)
    for i in gl.static_range(STAGES):
        mbarrier.init(key_bar.index(i), count=1)
        mbarrier.init(value_bar.index(i), count=1)
    fence_async_shared()
    for i in gl.static_range(STAGES):
        mbarrier.expect(key_bar.index(i), KEY_BYTES, pred=i < num)
        mbarrier.expect(value_bar.index(i), VALUE_BYTES, pred=i < num)
    gl.thread_barrier()
    return key_bar, value_bar


@gluon.jit
def _load_query(
    q_ptr, start, flat, head, stride_token, stride_head, total_rows,
    N: gl.constexpr, RATIO: gl.constexpr, ROWS: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """[D / 64, N, 64] in shared memory, channels in the order of the contraction."""
    L: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    at, ok = query_rows(start, flat, head, stride_token, stride_head, total_rows, N, RATIO, ROWS, L)
    dim = gl.arange(0, 64, layout=gl.SliceLayout(0, L))
    query = gl.allocate_shared_memory(
        gl.float16, [D // 64, N, 64], gl.NVMMASharedLayout(128, 16, rank=2)
    )
    for h in gl.static_range(D // 64):
        q = gl.load(q_ptr + at[:, None] + (h * 64 + dim)[None, :], mask=ok[:, None], other=0.0)
        q = q.reshape([N, 8, 2, 4]).permute([0, 1, 3, 2]).reshape([N, 64])
        query.index(h).store(q)
    return query


@gluon.jit
def _leave(
    out_0, out_1, m, sums, part_out_ptr, part_max_ptr, part_sum_ptr, base, flat, total_rows,
    N: gl.constexpr, ROWS: gl.constexpr, D: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """Store a part, channels in their own order."""
    columns: gl.constexpr = gl.SliceLayout(0, S)
    row = gl.arange(0, N, layout=columns)
    ok = (row < ROWS) & (flat + row < total_rows)
    gl.store(part_max_ptr + base + row, m, mask=ok)
    total = gl.convert_layout(gl.sum(gl.sum(gl.sum(sums, 2), 1), 0), columns)
    gl.store(part_sum_ptr + base + row, total, mask=ok)
    x = gl.join(out_0, out_1).reshape([2, 4, 2, 8, N, 2])
    x = x.permute([4, 1, 3, 2, 0, 5]).reshape([N, D // 2, 2]) * (1.0 / HALF)
    layout: gl.constexpr = x.type.layout
    row = gl.arange(0, N, layout=gl.SliceLayout(1, gl.SliceLayout(2, layout)))
    ok = (row < ROWS) & (flat + row < total_rows)
    pair = gl.arange(0, D // 2, layout=gl.SliceLayout(0, gl.SliceLayout(2, layout)))
    one = gl.arange(0, 2, layout=gl.SliceLayout(0, gl.SliceLayout(1, layout)))
    at = ((base + row) * D)[:, None, None] + (pair * 2)[None, :, None] + one[None, None, :]
    gl.store(part_out_ptr + at, x, mask=ok[:, None, None])


@gluon.jit(
    do_not_specialize=["block_table_stride", "tiles", "splits", "tiles_per_split", "ring_rows"],
    do_not_specialize_on_alignment=[
        "block_table_ptr", "query_start_ptr", "seq_lens_ptr", "ring_slot_ptr",
    ],
)  # fmt: skip
def attend_tiles(
    q_ptr,  # [tokens, query heads, D] float16, rotated
    tiles_ptr,  # [blocks, KV heads, record] uint8
    key_desc, value_desc,  # boxes of the codes of a tile
    ring_keys_ptr, ring_values_ptr,  # [slots, ring rows, KV heads, D] float16
    block_table_ptr,  # [requests, blocks] int32
    query_start_ptr,  # [requests + 1] int32
    seq_lens_ptr, ring_slot_ptr,  # [requests] int32
    part_out_ptr,  # [programs, N, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, N] float32
    scale, q_stride_token, q_stride_head, stride_block, stride_head,
    key_stride_slot, key_stride_row, key_stride_head,
    value_stride_slot, value_stride_row, value_stride_head,
    ring_rows, block_table_stride, tiles, splits, tiles_per_split,
    RATIO: gl.constexpr, ROWS: gl.constexpr, N: gl.constexpr, M: gl.constexpr,
    A_K: gl.constexpr, Z_K: gl.constexpr, T_K: gl.constexpr, C_V: gl.constexpr, A_V: gl.constexpr,
    STAGES: gl.constexpr, KC: gl.constexpr, TC: gl.constexpr,
    CAUSAL: gl.constexpr, RING_HALVINGS: gl.constexpr,
):  # fmt: skip
    """Leave the part of one query tile, KV head and split."""
    G: gl.constexpr = 128
    D: gl.constexpr = 256
    request = (gl.program_id(0) // tiles).to(gl.int64)
    head = gl.program_id(1)
    split = gl.program_id(2)
    # before the first access to memory: see tile_hopper_combine.py
    gdc_wait()
    gdc_launch_dependents()
    start = gl.load(query_start_ptr + request)
    q_len = gl.load(query_start_ptr + request + 1) - start
    seq_len = gl.load(seq_lens_ptr + request)
    slot = gl.load(ring_slot_ptr + request)
    flat = gl.program_id(0) % tiles * ROWS
    total_rows = q_len * RATIO
    if flat >= total_rows:
        return
    packed = (seq_len - q_len) // G
    base = (gl.program_id(0) * gl.num_programs(1) + head).to(gl.int64) * splits + split
    base = base * N
    each = tiles_per_split
    if packed > (splits - 1) * each:
        each = gl.cdiv(packed, splits - 1)
    first = (split - 1) * each
    num = gl.maximum(gl.minimum(each, packed - first), 0)
    if slot < 0:
        num = 0
    in_ring, begin, end = ring_share(packed, seq_len, split, splits, each, G, RING_HALVINGS)
    if in_ring & (slot >= 0):
        attend_ring(
            q_ptr, ring_keys_ptr, ring_values_ptr, slot, part_out_ptr, part_max_ptr, part_sum_ptr,
            scale, start, flat, head, q_stride_token, q_stride_head,
            key_stride_slot, key_stride_row, key_stride_head,
            value_stride_slot, value_stride_row, value_stride_head,
            ring_rows, begin, end, seq_len - q_len, total_rows, base, RATIO, ROWS, M, D, CAUSAL,
        )  # fmt: skip
        return
    if (num == 0) | (split == 0):
        row = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
        ok = (row < ROWS) & (flat + row < total_rows)
        gl.store(part_max_ptr + base + row, float("-inf"), mask=ok)
        return
    S: gl.constexpr = accumulator_layout()
    key_bar, value_bar = _barriers(STAGES, num)
    query = _load_query(
        q_ptr, start, flat, head, q_stride_token, q_stride_head, total_rows, N, RATIO, ROWS, D
    )
    m, sums, out_0, out_1 = _walk(
        query, tiles_ptr + head.to(gl.int64) * stride_head, stride_block, key_desc, value_desc,
        key_bar, value_bar, block_table_ptr + request * block_table_stride + first, num, head,
        scale * (1.0 / HALF), N, A_K, Z_K, T_K, C_V, A_V, STAGES, KC, TC, S,
    )  # fmt: skip
    _leave(out_0, out_1, m, sums, part_out_ptr, part_max_ptr, part_sum_ptr, base, flat, total_rows,
           N, ROWS, D, S)  # fmt: skip


@gluon.jit
def _walk(
    query, record, stride_block, key_desc, value_desc, key_bar, value_bar, table, num, head, scale,
    N: gl.constexpr, A_K: gl.constexpr, Z_K: gl.constexpr, T_K: gl.constexpr, C_V: gl.constexpr,
    A_V: gl.constexpr, STAGES: gl.constexpr, KC: gl.constexpr, TC: gl.constexpr,
    S: gl.constexpr,
):  # fmt: skip
    """Maxima, sums and outputs over `num` packed tiles, the pages of which begin at `table`."""
    G: gl.constexpr = 128
    D: gl.constexpr = 256
    box: gl.constexpr = gl.NVMMASharedLayout(64, 8, rank=4)
    keys = gl.allocate_shared_memory(gl.uint8, [STAGES, 1, 1, D, 64], box)
    values = gl.allocate_shared_memory(gl.uint8, [STAGES, 1, 1, G, 64], box)
    for i in gl.static_range(STAGES):
        page = gl.load(table + i, mask=i < num, other=0)
        tma.async_copy_global_to_shared(
            key_desc, [page, head, 0, 0], key_bar.index(i), keys.index(i), pred=i < num
        )
        tma.async_copy_global_to_shared(
            value_desc, [page, head, 0, 0], value_bar.index(i), values.index(i), pred=i < num
        )
    page = gl.load(table).to(gl.int64)
    scales = load_scales(record + page * stride_block, A_K, Z_K, T_K, C_V, A_V)
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    deep: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    key_scales = gl.allocate_shared_memory(gl.float16, [2, D // KC * 4, KC // 4], flat)
    key_zeros = gl.allocate_shared_memory(gl.float16, [2, D // KC * 4, KC // 4], flat)
    value_scales = gl.allocate_shared_memory(gl.float16, [2, 2 * G // TC * 4, TC // 4], flat)
    channel_scales = gl.allocate_shared_memory(gl.float16, [2, 2, 32, 4], deep)
    token_scales = gl.allocate_shared_memory(gl.float16, [2, 2, 32, 2], deep)
    stage(scales, key_scales.index(0), key_zeros.index(0), token_scales.index(0),
          channel_scales.index(0), value_scales.index(0), KC, TC)  # fmt: skip
    page = gl.load(table + 1, mask=1 < num, other=0).to(gl.int64)
    scales = load_scales(record + page * stride_block, A_K, Z_K, T_K, C_V, A_V)
    # the page after the next is looked up a tile ahead
    page = gl.load(table + 2, mask=2 < num, other=0).to(gl.int64)
    weights = gl.allocate_shared_memory(gl.float16, [N, G], gl.NVMMASharedLayout(128, 16, rank=2))
    word: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    key_words = keys._reinterpret(gl.int16, [STAGES, D, 32], word)
    value_words = values._reinterpret(gl.int16, [STAGES, G, 32], word)
    key_shift, value_shift = shifts(KC), shifts(TC)
    out_0 = gl.zeros([128, N], gl.float32, layout=S)
    out_1 = out_0
    m = gl.full([N], NOTHING, gl.float32, layout=gl.SliceLayout(0, S))
    sums = gl.zeros([2, 4, 8, N], gl.float32, layout=sum_layout(N))
    fence_async_shared()
    gl.thread_barrier()
    mbarrier.wait(key_bar.index(0), 0)
    s = gl.zeros([128, N], gl.float32, layout=S)
    for h in gl.static_range(D // KC):
        words = read(key_words.index(0), key_scales.index(0), key_zeros.index(0), h, KC)
        s = add_scores(words, query, key_shift, s, h, KC, S)
    for i in range(num):
        slot = i % STAGES
        following = (i + 1) % STAGES
        before = (i + STAGES - 1) % STAGES
        now = i % 2
        s = s * (load_token_scales(token_scales.index(now), S) * scale)[:, None]
        more_keys = i + STAGES < num
        more_values = (i > 0) & (i + STAGES - 1 < num)
        key_page = gl.load(table + i + STAGES, mask=more_keys, other=0)
        value_page = gl.load(table + i + STAGES - 1, mask=more_values, other=0)
        mbarrier.expect(key_bar.index(slot), KEY_BYTES, pred=more_keys)
        mbarrier.expect(value_bar.index(before), VALUE_BYTES, pred=more_values)
        worst = gl.max(gl.max(s - m[None, :], 1), 0)
        # every warp is through with the keys of this tile and the values of the one before
        tma.async_copy_global_to_shared(
            key_desc, [key_page, head, 0, 0], key_bar.index(slot), keys.index(slot), pred=more_keys
        )
        tma.async_copy_global_to_shared(
            value_desc, [value_page, head, 0, 0], value_bar.index(before), values.index(before),
            pred=more_values,
        )  # fmt: skip
        if worst > SLACK:
            m, sums, out_0, out_1 = rescale(s, m, sums, out_0, out_1, N)
        sums = weigh(s, m, sums, weights, N)
        stage(scales, key_scales.index(1 - now), key_zeros.index(1 - now),
              token_scales.index(1 - now), channel_scales.index(1 - now),
              value_scales.index(1 - now), KC, TC)  # fmt: skip
        fence_async_shared()
        gl.thread_barrier()
        scales = load_scales(record + page * stride_block, A_K, Z_K, T_K, C_V, A_V)
        page = gl.load(table + i + 3, mask=i + 3 < num, other=0).to(gl.int64)
        channels = load_channel_scales(channel_scales.index(now))
        mbarrier.wait(value_bar.index(slot), (i // STAGES) & 1)
        if i + 1 < num:
            mbarrier.wait(key_bar.index(following), ((i + 1) // STAGES) & 1)
        # after the last tile on what is there: finite codes, for nothing
        s, out_0, out_1 = _stretch(
            key_words.index(following), key_scales.index(1 - now), key_zeros.index(1 - now),
            value_words.index(slot), value_scales.index(now), channels, query, weights,
            key_shift, value_shift, out_0, out_1, N, KC, TC, S,
        )  # fmt: skip
    return m, sums, out_0, out_1


@gluon.jit
def _stretch(
    key_words, key_scales, key_zeros, value_words, value_scales, channels, query, weights,
    key_shift, value_shift, out_0, out_1,
    N: gl.constexpr, KC: gl.constexpr, TC: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """The values of a tile and the scores of the next; words are read a piece ahead."""
    G: gl.constexpr = 128
    D: gl.constexpr = 256
    EACH: gl.constexpr = D // KC // (G // TC)
    zeros = value_scales.slice(G // TC * 4, G // TC * 4, dim=0)
    s = gl.zeros([128, N], gl.float32, layout=S)
    next_values = read(value_words, value_scales, zeros, 0, TC)
    next_keys = read(key_words, key_scales, key_zeros, 0, KC)
    for h in gl.static_range(G // TC):
        out_0, out_1 = add_values(
            next_values, channels, weights, value_shift, out_0, out_1, h, TC, S
        )
        if h < G // TC - 1:
            next_values = read(value_words, value_scales, zeros, h + 1, TC)
        for k in gl.static_range(EACH):
            s = add_scores(next_keys, query, key_shift, s, h * EACH + k, KC, S)
            if h * EACH + k < D // KC - 1:
                next_keys = read(key_words, key_scales, key_zeros, h * EACH + k + 1, KC)
    return s, out_0, out_1
