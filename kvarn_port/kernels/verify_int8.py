"""Stage 1 of verify attention over int8 per-token-head caches, on Hopper GPUs.

part_out = sum of 2^(s - part_max) v, part_sum = sum of 2^(s - part_max), s = log2(e) scale q.k,
k = key code x its token's scale, v likewise: the parts that `attend` (verify_attend.py) leaves.

Grid as there. A head's row in the cache is K | K scale | V | V scale, 2 (D + 4) bytes, which begins
at a multiple of 8 bytes, V at one of 4. The copy engine reads whole 16 bytes: it takes D from the
last such address before K on, the next D, and the 16 behind each. Where a row begins 8 bytes late,
two words of K lie behind its D bytes, and one word more of V; they are written over what came
before, so that a row is turned by as many words: the query is turned likewise, and the output back.
Codes become float16 in registers, exactly; so is the query, in units of a power of two near its
row's largest element. Source: kvarn.md 8.2 (layout, fold of the scales after the dot).

Two programs a multiprocessor: one waits at its barriers while the other computes.
"""

from __future__ import annotations

from math import log2

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from .verify_call import Call
from .verify_int8_layouts import sum_layout
from .verify_int8_tile import NOTHING, copy, expect, keys_first, leave, mended, scores, step
from .verify_plan import PROGRAMS_PER_SM, TILES_PER_SPLIT, Device, Plan, Shape, rows_of
from .verify_scratch import Scratch

KEYS = 64  # of a tile
WARPS = 4
STAGES = 2
PER_SM = 2


def fits(call: Call, device: Device) -> bool:
    """Return whether the kernel reads the cache of a call on this device."""
    key, value, heads = call.key_cache, call.value_cache, call.shape.num_kv_heads
    head_dim, content = call.shape.head_dim, 2 * (call.shape.head_dim + 4)
    if key.dtype != torch.int8 or not device.has_tma or head_dim not in (128, 256):
        return False
    if not key.is_cuda or torch.cuda.get_device_capability(key.device)[0] != 9:
        return False
    if call.query.dtype not in (torch.bfloat16, torch.float16):
        return False
    block, token, head = key.stride()[:3]
    scales = (block // 4, token // 4, head // 4)
    return (
        (heads == 1 or head == content)
        and token >= heads * content
        and token % 16 == 0
        and block % 16 == 0
        and key.data_ptr() % 16 == 0
        and value.stride() == key.stride()
        and value.data_ptr() == key.data_ptr() + head_dim + 4
        and call.key_scale.data_ptr() == key.data_ptr() + head_dim
        and call.value_scale.data_ptr() == value.data_ptr() + head_dim
        and call.key_scale.stride() == scales
        and call.value_scale.stride() == scales
    )


def choose_plan(shape: Shape, device: Device, requests: int, max_query_len: int) -> Plan:
    """Return the plan of a call: tiles of 16, 32 or 48 rows, two programs a multiprocessor."""
    rows = max_query_len * shape.ratio
    block_m = next((m for m in (16, 32) if rows <= m), 48)
    used = rows_of(block_m, shape.ratio)
    tiles = -(-rows // used)
    unsplit = tiles * shape.num_kv_heads
    splits = min(
        PER_SM * device.sm_count // unsplit,
        PROGRAMS_PER_SM * device.sm_count // (requests * unsplit),
    )
    return Plan(
        block_m=block_m,
        block_n=KEYS,
        rows=used,
        tiles=tiles,
        splits=max(1, splits),
        warps=WARPS,
        stages=STAGES,
        tiles_per_split=TILES_PER_SPLIT,
    )


def launch(call: Call, plan: Plan, scratch: Scratch) -> None:
    """Leave the parts of a call in scratch."""
    shape, key = call.shape, call.key_cache
    content = 2 * (shape.head_dim + 4)
    box_n = next(n for n in (64, 32, 16) if shape.block_size % n == 0)
    width = shape.head_dim if box_n == plan.block_n else 128

    def descriptor(columns: int, swizzle: int) -> TensorDescriptor:
        return TensorDescriptor(
            key,
            [key.shape[0], shape.block_size, shape.num_kv_heads * content],
            [key.stride(0), key.stride(1), 1],
            [1, box_n, columns],
            gl.NVMMASharedLayout(swizzle, 8, rank=3),
        )

    attend_int8[(call.requests * plan.tiles, shape.num_kv_heads, plan.splits)](
        call.query, descriptor(width, 128), descriptor(16, 0),
        call.block_table, call.query_start, call.seq_lens,
        scratch.part_out, scratch.part_max, scratch.part_sum, call.softmax_scale * log2(torch.e),
        call.query.stride(0), call.query.stride(1), content, call.block_table.stride(0),
        call.window, plan.tiles, plan.splits, plan.tiles_per_split,
        RATIO=shape.ratio, ROWS=plan.rows, D=shape.head_dim, M1=min(plan.block_m, 32),
        M2=max(0, plan.block_m - 32), N=plan.block_n, BLOCK_SIZE=shape.block_size, BOX_N=box_n,
        STAGES=plan.stages, W=plan.warps, WINDOW=call.window > 0, num_warps=plan.warps,
    )  # fmt: skip


@gluon.jit
def _tiles_of_split(
    seq_len, q_len, token, tokens_end, window, splits, tiles_per_split, split,
    N: gl.constexpr, WINDOW: gl.constexpr,
):  # fmt: skip
    """The first key of a split and its number of tiles, for the query tokens [token, tokens_end).

    And which keys these see: [oldest, end). A split may have no tile.
    """
    end = gl.maximum(seq_len - q_len + tokens_end, 0)
    oldest = 0
    if WINDOW:
        oldest = gl.maximum(seq_len - q_len + token - window + 1, 0)
    low = oldest // N * N
    each = gl.maximum(gl.cdiv(gl.cdiv(end - low, N), splits), tiles_per_split)
    n0 = low + split * each * N
    num = gl.maximum(gl.minimum(each, gl.cdiv(end - n0, N)), 0)
    return n0, num, oldest, end


@gluon.jit
def _barriers(STAGES: gl.constexpr):
    """Barriers of keys, values, and the rest of each; one a stage."""
    bars: gl.constexpr = mbarrier.MBarrierLayout()
    key_bar = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bars)
    value_bar = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bars)
    key_rest_bar = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bars)
    value_rest_bar = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bars)
    for i in gl.static_range(STAGES):
        mbarrier.init(key_bar.index(i), count=1)
        mbarrier.init(value_bar.index(i), count=1)
        mbarrier.init(key_rest_bar.index(i), count=1)
        mbarrier.init(value_rest_bar.index(i), count=1)
    fence_async_shared()
    return key_bar, value_bar, key_rest_bar, value_rest_bar


@gluon.jit
def _copy_first_tiles(
    desc, rest_desc, keys, values, key_rest, value_rest,
    key_bar, value_bar, key_rest_bar, value_rest_bar, table, n0, num, column,
    D: gl.constexpr, N: gl.constexpr, BLOCK_SIZE: gl.constexpr, BOX_N: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Ask for a split's first tiles, one a stage."""
    for i in gl.static_range(STAGES):
        expect(key_bar.index(i), key_rest_bar.index(i), i < num, D, N)
        expect(value_bar.index(i), value_rest_bar.index(i), i < num, D, N)
    for i in gl.static_range(STAGES):
        copy(desc, rest_desc, keys, key_rest, key_bar.index(i), key_rest_bar.index(i), table,
             n0 + i * N, i, column, i < num, D, N, BLOCK_SIZE, BOX_N)  # fmt: skip
        copy(desc, rest_desc, values, value_rest, value_bar.index(i), value_rest_bar.index(i),
             table, n0 + i * N, i, column + D, i < num, D, N, BLOCK_SIZE, BOX_N)  # fmt: skip


@gluon.jit
def _load_query(
    q_ptr, start, flat, head, late, q_stride_token, q_stride_head, total_rows,
    FROM: gl.constexpr, M: gl.constexpr, RATIO: gl.constexpr, ROWS: gl.constexpr,
    D: gl.constexpr, W: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """M rows from row FROM on in shared memory, turned, and the unit of each."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [W, 1], [1, 0])
    row = FROM + gl.arange(0, M, layout=gl.SliceLayout(1, layout))
    ok = (row < ROWS) & (flat + row < total_rows)
    token = (start + (flat + row) // RATIO).to(gl.int64)
    q_head = (head * RATIO + (flat + row) % RATIO).to(gl.int64)
    at = token * q_stride_token + q_head * q_stride_head
    dim = gl.arange(0, D, layout=gl.SliceLayout(0, layout))
    q = gl.load(q_ptr + at[:, None] + dim[None, :], mask=ok[:, None], other=0.0)
    # a power of two: bfloat16 and float16 of whatever range stay exact
    unit = gl.maximum(gl.max(gl.abs(q.to(gl.float32)), 1), 1.0e-30)
    unit = (unit.to(gl.int32, bitcast=True) & 0x7F800000).to(gl.float32, bitcast=True)
    smem = gl.allocate_shared_memory(
        gl.float16, [D // 128, M, 128], gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    )
    dim = gl.arange(0, 128, layout=gl.SliceLayout(0, layout))
    for h in gl.static_range(D // 128):
        turned = (dim + h * 128 + D - gl.where(late, 8, 0)) % D
        q = gl.load(q_ptr + at[:, None] + turned[None, :], mask=ok[:, None], other=0.0)
        q = q.to(gl.float32) / unit[:, None]
        smem.index(h).store(keys_first(q.to(gl.float16), M))
    return smem, gl.convert_layout(unit, gl.SliceLayout(1, S))


@gluon.jit
def _first_scores(
    q1, q2, keys, key_rest, key_bar, key_rest_bar, turn, s1, s2,
    D: gl.constexpr, M2: gl.constexpr, N: gl.constexpr, STAGES: gl.constexpr, W: gl.constexpr,
    S: gl.constexpr,
):  # fmt: skip
    """Scores of a split's first tile; `step` has those of the next one."""
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    key_words = keys._reinterpret(
        gl.int32, [STAGES, N, D // 4], gl.NVMMASharedLayout(128, 32, rank=2)
    )
    key_tail = key_rest._reinterpret(gl.int32, [STAGES, N, 4], plain)
    mbarrier.wait(key_bar.index(0), 0)
    mbarrier.wait(key_rest_bar.index(0), 0)
    key_begin = mended(key_words.index(0), key_tail.index(0), turn, W)
    key_words.index(0).slice(0, 4, dim=1).store(key_begin)
    codes = keys._reinterpret(gl.int8, [STAGES, N, D], gl.NVMMASharedLayout(128, 8, rank=2))
    for h in gl.static_range(D // 128):
        s1, s2 = scores(q1, q2, codes.index(0), s1, s2, h, M2, N, W, S)
    return s1, s2


@gluon.jit(
    do_not_specialize=["block_table_stride", "window", "tiles", "splits", "tiles_per_split"],
    do_not_specialize_on_alignment=["block_table_ptr", "query_start_ptr", "seq_lens_ptr"],
)
def attend_int8(
    q_ptr,  # [tokens, query heads, D] bf16 | fp16
    desc, rest_desc,  # [blocks, block, KV heads x content] int8, boxes of D (or 128) and 16 bytes
    block_table_ptr,  # [requests, blocks] int32
    query_start_ptr,  # [requests + 1] int32
    seq_lens_ptr,  # [requests] int32
    part_out_ptr,  # [programs, M1 + M2, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, M1 + M2] float32
    scale, q_stride_token, q_stride_head, content, block_table_stride,
    window, tiles, splits, tiles_per_split,
    RATIO: gl.constexpr, ROWS: gl.constexpr, D: gl.constexpr, M1: gl.constexpr, M2: gl.constexpr,
    N: gl.constexpr, BLOCK_SIZE: gl.constexpr, BOX_N: gl.constexpr, STAGES: gl.constexpr,
    W: gl.constexpr, WINDOW: gl.constexpr,
):  # fmt: skip
    """Leave the part of one query tile, KV head and split."""
    S: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [1, W], [16, 8])
    rows: gl.constexpr = gl.SliceLayout(1, S)
    request = (gl.program_id(0) // tiles).to(gl.int64)
    tile = gl.program_id(0) % tiles
    head = gl.program_id(1)
    split = gl.program_id(2)
    start = gl.load(query_start_ptr + request)
    q_len = gl.load(query_start_ptr + request + 1) - start
    seq_len = gl.load(seq_lens_ptr + request)
    flat = tile * ROWS
    total_rows = q_len * RATIO
    if flat >= total_rows:
        return
    token = flat // RATIO
    tokens_end = gl.minimum((flat + ROWS + RATIO - 1) // RATIO, q_len)
    n0, num, oldest, end = _tiles_of_split(
        seq_len, q_len, token, tokens_end, window, splits, tiles_per_split, split, N, WINDOW
    )
    program = (gl.program_id(0) * gl.num_programs(1) + head).to(gl.int64) * splits + split
    base = program * (M1 + M2)
    if num == 0:
        row = gl.arange(0, 64, layout=gl.BlockedLayout([1], [32], [W], [0]))
        ok = (row < ROWS) & (flat + row < total_rows)
        gl.store(part_max_ptr + base + row, float("-inf"), mask=ok)
        return
    # tiles of which every row sees every key
    clear = gl.minimum(gl.maximum((seq_len - q_len + token + 1 - n0) // N, 0), num)
    if WINDOW:
        clear = 0
    column = head * content
    late = column % 16 > 0
    column = column // 16 * 16
    turn = gl.where(late, 2, 0)

    width: gl.constexpr = D if BOX_N == N else 128
    boxes: gl.constexpr = STAGES * (N // BOX_N)
    box: gl.constexpr = gl.NVMMASharedLayout(128, 8, rank=3)
    narrow: gl.constexpr = gl.NVMMASharedLayout(0, 8, rank=3)
    keys = gl.allocate_shared_memory(gl.int8, [boxes * (D // width), 1, BOX_N, width], box)
    values = gl.allocate_shared_memory(gl.int8, [boxes * (D // width), 1, BOX_N, width], box)
    key_rest = gl.allocate_shared_memory(gl.int8, [boxes, 1, BOX_N, 16], narrow)
    value_rest = gl.allocate_shared_memory(gl.int8, [boxes, 1, BOX_N, 16], narrow)
    key_bar, value_bar, key_rest_bar, value_rest_bar = _barriers(STAGES)
    table = block_table_ptr + request * block_table_stride
    _copy_first_tiles(
        desc, rest_desc, keys, values, key_rest, value_rest,
        key_bar, value_bar, key_rest_bar, value_rest_bar, table, n0, num, column,
        D, N, BLOCK_SIZE, BOX_N, STAGES,
    )  # fmt: skip

    MM: gl.constexpr = 16 if M2 == 0 else M2
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    q1, unit1 = _load_query(q_ptr, start, flat, head, late, q_stride_token, q_stride_head,
                            total_rows, 0, M1, RATIO, ROWS, D, W, S)  # fmt: skip
    p1 = gl.allocate_shared_memory(gl.float16, [M1, N], swizzled)
    tops1 = gl.allocate_shared_memory(gl.float32, [M1, W], plain)
    worth1 = unit1 * scale
    position1 = seq_len - q_len + (flat + gl.arange(0, M1, layout=rows)) // RATIO
    position2 = seq_len - q_len + (flat + M1 + gl.arange(0, MM, layout=rows)) // RATIO
    q2, p2, tops2, worth2 = q1, p1, tops1, worth1
    if M2 > 0:
        q2, unit2 = _load_query(q_ptr, start, flat, head, late, q_stride_token, q_stride_head,
                                total_rows, M1, M2, RATIO, ROWS, D, W, S)  # fmt: skip
        p2 = gl.allocate_shared_memory(gl.float16, [M2, N], swizzled)
        tops2 = gl.allocate_shared_memory(gl.float32, [M2, W], plain)
        worth2 = unit2 * scale
    s1 = gl.zeros([M1, N], gl.float32, layout=S)
    s2 = gl.zeros([MM, N], gl.float32, layout=S)
    acc1 = gl.zeros([M1, D], gl.float32, layout=S)
    acc2 = gl.zeros([MM, D], gl.float32, layout=S)
    m1 = gl.full([M1], NOTHING, gl.float32, layout=rows)
    m2 = gl.full([MM], NOTHING, gl.float32, layout=rows)
    sums1 = gl.zeros([M1, W, 4], gl.float32, layout=sum_layout(M1, W))
    sums2 = gl.zeros([MM, W, 4], gl.float32, layout=sum_layout(MM, W))
    v_top = 1.0e-30
    s1, s2 = _first_scores(
        q1, q2, keys, key_rest, key_bar, key_rest_bar, turn, s1, s2, D, M2, N, STAGES, W, S
    )
    for tile_index in range(clear):
        s1, s2, acc1, acc2, m1, m2, sums1, sums2, v_top = step(
            tile_index, num, n0, oldest, end, window, late, desc, rest_desc, table, column,
            q1, q2, worth1, worth2, position1, position2, p1, p2, tops1, tops2,
            keys, values, key_rest, value_rest, key_bar, value_bar, key_rest_bar, value_rest_bar,
            s1, s2, acc1, acc2, m1, m2, sums1, sums2, v_top,
            D, M1, M2, N, BLOCK_SIZE, BOX_N, STAGES, W, S, False, WINDOW,
        )  # fmt: skip
    for tile_index in range(clear, num):
        s1, s2, acc1, acc2, m1, m2, sums1, sums2, v_top = step(
            tile_index, num, n0, oldest, end, window, late, desc, rest_desc, table, column,
            q1, q2, worth1, worth2, position1, position2, p1, p2, tops1, tops2,
            keys, values, key_rest, value_rest, key_bar, value_bar, key_rest_bar, value_rest_bar,
            s1, s2, acc1, acc2, m1, m2, sums1, sums2, v_top,
            D, M1, M2, N, BLOCK_SIZE, BOX_N, STAGES, W, S, True, WINDOW,
        )  # fmt: skip
    leave(acc1, m1, sums1, v_top, part_out_ptr, part_max_ptr, part_sum_ptr, base, flat, ROWS,
          total_rows, turn + 1, 0, M1, D, W, S)  # fmt: skip
    if M2 > 0:
        leave(acc2, m2, sums2, v_top, part_out_ptr, part_max_ptr, part_sum_ptr, base, flat, ROWS,
              total_rows, turn + 1, M1, M2, D, W, S)  # fmt: skip
