"""The rows of the ring for the query rows of a program: of tile_hopper*.py, on the device."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mma_v2

# The score of a key that a row does not see: finite, so that no difference of two is NaN.
NOTHING = gl.constexpr(-1.0e30)


@gluon.jit
def query_rows(
    start, flat, head, stride_token, stride_head, total_rows,
    M: gl.constexpr, RATIO: gl.constexpr, ROWS: gl.constexpr, L: gl.constexpr,
):  # fmt: skip
    """Where the M rows of a query tile begin, and which of them there are."""
    row = gl.arange(0, M, layout=gl.SliceLayout(1, L))
    token = (start + (flat + row) // RATIO).to(gl.int64)
    q_head = (head * RATIO + (flat + row) % RATIO).to(gl.int64)
    ok = (row < ROWS) & (flat + row < total_rows)
    return token * stride_token + q_head * stride_head, ok


@gluon.jit
def ring_share(
    packed, seq_len, split, splits, each, G: gl.constexpr, HALVINGS: gl.constexpr
):  # fmt: skip
    """Whether a split attends to the ring, and to which positions [begin, end) of it.

    Split 0 does; where `packed` tiles, `each` of them a split, leave the last one or three idle, so
    do these, and each has a half or a quarter: 2^HALVINGS shares at most.
    """
    begin = packed * G
    halvings = 0
    for i in gl.static_range(1, HALVINGS + 1):
        if (splits >= 1 << i) & ((splits - (1 << i)) * each >= packed):
            halvings = i
    shares = 1 << halvings
    rows = (seq_len - begin + shares - 1) >> halvings
    share = gl.where(split == 0, 0, splits - split)
    begin += share * rows
    return share < shares, begin, gl.minimum(begin + rows, seq_len)


@gluon.jit
def _rows(n, end, ring_rows, KEYS: gl.constexpr, L: gl.constexpr):
    """The rows of the ring of positions n … n + KEYS - 1, and which of them are before end."""
    at = gl.arange(0, KEYS, layout=gl.SliceLayout(1, L))
    row = n % ring_rows + at  # one division: a ring has more than KEYS rows
    row = gl.where(row < ring_rows, row, row - ring_rows)
    return row.to(gl.int64)[:, None], (n + at < end)[:, None]


@gluon.jit
def attend_ring(
    q_ptr, ring_keys_ptr, ring_values_ptr, slot, part_out_ptr, part_max_ptr, part_sum_ptr, scale,
    start, flat, head, q_stride_token, q_stride_head,
    key_stride_slot, key_stride_row, key_stride_head,
    value_stride_slot, value_stride_row, value_stride_head,
    ring_rows, begin, end, committed, total_rows, base,
    RATIO: gl.constexpr, ROWS: gl.constexpr, M: gl.constexpr, D: gl.constexpr,
    CAUSAL: gl.constexpr,
):  # fmt: skip
    """Leave the part of positions [begin, end): scores [rows, keys] by mma.sync of 4 warps."""
    KEYS: gl.constexpr = 32 if M > 16 else 64  # of a step, as registers allow
    S: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [1, 4], [16, 8])
    rows: gl.constexpr = gl.SliceLayout(1, S)
    B: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [4, 1], [1, 0])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    left: gl.constexpr = gl.DotOperandLayout(0, S, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, S, 2)
    at, ok = query_rows(
        start, flat, head, q_stride_token, q_stride_head, total_rows, M, RATIO, ROWS, B
    )
    dim = gl.arange(0, D, layout=gl.SliceLayout(0, B))
    q = gl.load(q_ptr + at[:, None] + dim[None, :], mask=ok[:, None], other=0.0)
    slot = slot.to(gl.int64)
    wide = head.to(gl.int64)
    keys_at = ring_keys_ptr + slot * key_stride_slot + wide * key_stride_head + dim
    values_at = ring_values_ptr + slot * value_stride_slot + wide * value_stride_head + dim
    here, valid = _rows(begin, end, ring_rows, KEYS, B)
    k = gl.load(keys_at[None, :] + here * key_stride_row, mask=valid, other=0.0)
    # not before: the query and the keys are under way at the same time, then the values
    query = gl.allocate_shared_memory(gl.float16, [M, D], swizzled, q)
    v = gl.load(values_at[None, :] + here * value_stride_row, mask=valid, other=0.0)
    # keys, then values: nothing else is read meanwhile
    ring = gl.allocate_shared_memory(gl.float16, [KEYS, D], swizzled)
    weights = gl.allocate_shared_memory(gl.float16, [M, KEYS], swizzled)
    position = committed + (flat + gl.arange(0, M, layout=rows)) // RATIO
    acc = gl.zeros([M, D], gl.float32, layout=S)
    m = gl.full([M], NOTHING, gl.float32, layout=rows)
    total = gl.zeros([M], gl.float32, layout=rows)
    for n in range(begin, end, KEYS):
        ring.store(k)
        s = gl.zeros([M, KEYS], gl.float32, layout=S)
        for h in gl.static_range(D // 64):
            keys = ring.slice(h * 64, 64, dim=1).permute([1, 0]).load(right)
            s = mma_v2(query.slice(h * 64, 64, dim=1).load(left), keys, s)
        key = n + gl.arange(0, KEYS, layout=gl.SliceLayout(0, S))
        seen = (key < end)[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= position[:, None])
        s = gl.where(seen, s * scale, NOTHING)
        m_new = gl.maximum(m, gl.max(s, 1))
        p = gl.where(seen, gl.exp2(s - m_new[:, None]), 0.0)
        alpha = gl.exp2(m - m_new)
        total = total * alpha + gl.sum(p, 1)
        acc = acc * alpha[:, None]
        m = m_new
        ring.store(v)
        weights.store(p.to(gl.float16))
        for h in gl.static_range(KEYS // 16):
            p = weights.slice(h * 16, 16, dim=1).load(left)
            acc = mma_v2(p, ring.slice(h * 16, 16, dim=0).load(right), acc)
        if n + KEYS < end:
            here, valid = _rows(n + KEYS, end, ring_rows, KEYS, B)
            k = gl.load(keys_at[None, :] + here * key_stride_row, mask=valid, other=0.0)
            v = gl.load(values_at[None, :] + here * value_stride_row, mask=valid, other=0.0)
    row = gl.arange(0, M, layout=rows)
    ok = (row < ROWS) & (flat + row < total_rows)
    gl.store(part_max_ptr + base + row, m, mask=ok)
    gl.store(part_sum_ptr + base + row, total, mask=ok)
    dim = gl.arange(0, D, layout=gl.SliceLayout(0, S))
    at = ((base + row) * D)[:, None] + dim[None, :]
    gl.store(part_out_ptr + at, acc, mask=ok[:, None])
