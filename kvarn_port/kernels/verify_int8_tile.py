"""One tile of keys and values of int8 per token-head, for the query rows of a program.

Functions of verify_int8.py, on the device. What has the number 1 belongs to the first M1 rows of a
query tile, what has the number 2 to the M2 behind them (M2 may be 0): 48 rows, the 8 query tokens
of 6 heads, are three runs of the 16 rows of an `mma`, where one tensor would have to hold 64.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    mma_v2,
    tma,
)

from .verify_int8_layouts import (
    column_layout,
    every_layout,
    key_layout,
    output_layout,
    sum_layout,
    top_layout,
    value_layout,
)

# The score of a key that a row does not see: finite, so that no difference of two is NaN.
NOTHING = gl.constexpr(-1.0e30)
# A row's maximum moves only when its weights would pass 2^8, the largest value scale only when it
# grew 16 times: the output is then rescaled in few tiles. Weights stay below 2^12 < 65504.
SLACK = gl.constexpr(8.0)
GROWTH = gl.constexpr(16.0)


@gluon.jit
def _keys_as_half(x):
    # 0x64 before a byte is 1024 + byte in float16; with the sign bit turned, byte = code + 128
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 t, c;
        mov.b32 c, 0xe480e480;
        xor.b32 t, $2, 0x80808080;
        prmt.b32 $0, t, 0x64646464, 0x4140;
        prmt.b32 $1, t, 0x64646464, 0x4342;
        add.rn.f16x2 $0, $0, c;
        add.rn.f16x2 $1, $1, c;
        }
        """,
        "=r,=r,r",
        [x],
        dtype=gl.float16,
        is_pure=True,
        pack=4,
    )


@gluon.jit
def _pairs_as_half(a, b):
    # the same of two tokens: a word of the result has both of a channel, as `mma` reads values
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 t, u, c;
        mov.b32 c, 0xe480e480;
        prmt.b32 t, $4, $5, 0x5140;
        prmt.b32 u, $4, $5, 0x7362;
        xor.b32 t, t, 0x80808080;
        xor.b32 u, u, 0x80808080;
        prmt.b32 $0, t, 0x64646464, 0x4140;
        prmt.b32 $1, t, 0x64646464, 0x4342;
        prmt.b32 $2, u, 0x64646464, 0x4140;
        prmt.b32 $3, u, 0x64646464, 0x4342;
        add.rn.f16x2 $0, $0, c;
        add.rn.f16x2 $1, $1, c;
        add.rn.f16x2 $2, $2, c;
        add.rn.f16x2 $3, $3, c;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r",
        [a, b],
        dtype=(gl.float16, gl.float16),
        is_pure=True,
        pack=4,
    )


@gluon.jit
def keys_first(x, ROWS: gl.constexpr):
    """[ROWS, 128] with channels in the order of the contraction (verify_int8_layouts.py)."""
    return x.reshape([ROWS, 4, 16, 2]).permute([0, 2, 1, 3]).reshape([ROWS, 128])


@gluon.jit
def _values(raw, D: gl.constexpr, OWN: gl.constexpr):
    """[16, D] codes as float16, channels in the order of the product."""
    a, b = gl.split(raw.reshape([8, 2, D]).permute([0, 2, 1]))
    low, high = _pairs_as_half(a, b)
    # token pair, word, channel's bit 0, token, channel's bit 1
    y = gl.join(low, high).reshape([8, D // 4, 2, 2, 2])
    y = y.permute([0, 3, 1, 4, 2]).reshape([16, D])
    return y.reshape([16, D // OWN, OWN]).permute([0, 2, 1]).reshape([16, D])


@gluon.jit
def _word(rest, late, ODD: gl.constexpr, FROM: gl.constexpr, TO: gl.constexpr):
    """Word 0 or 2 of each row of four, or 1 or 3; the later one where `late`."""
    even, odd = gl.split(rest.load(FROM).reshape([rest.shape[0], 2, 2]))
    one, two = gl.split(odd if ODD else even)
    chosen = gl.where(late, two, one).to(gl.float32, bitcast=True)
    return gl.convert_layout(chosen, TO, assert_trivial=True)


@gluon.jit
def mended(words, rest, turn, W: gl.constexpr):
    """The first four words of each row, of which `turn` become those that lie behind its end."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [32, 1], [W, 1], [1, 0])
    at = gl.arange(0, 4, layout=gl.SliceLayout(0, layout))
    begin = words.slice(0, 4, dim=1).load(layout)
    return gl.where((at < turn)[None, :], rest.load(layout), begin)


@gluon.jit
def expect(bar, rest_bar, pred, D: gl.constexpr, N: gl.constexpr):
    """Announce the bytes of a tile, apart from its rest: one barrier would order the copies."""
    mbarrier.expect(bar, N * D, pred=pred)
    mbarrier.expect(rest_bar, N * 16, pred=pred)


@gluon.jit
def copy(
    desc, rest_desc, to, to_rest, bar, rest_bar, table, n, slot, at, pred,
    D: gl.constexpr, N: gl.constexpr, BLOCK_SIZE: gl.constexpr, BOX_N: gl.constexpr,
):  # fmt: skip
    """Ask for N rows of D bytes from column `at` on, and for the 16 bytes behind each."""
    width: gl.constexpr = D if BOX_N == N else 128
    for j in gl.static_range(N // BOX_N):
        block = gl.load(table + (n + j * BOX_N) // BLOCK_SIZE, mask=pred, other=0)
        pos = (n + j * BOX_N) % BLOCK_SIZE
        for h in gl.static_range(D // width):
            box = to.index((slot * (D // width) + h) * (N // BOX_N) + j)
            tma.async_copy_global_to_shared(desc, [block, pos, at + h * width], bar, box, pred=pred)
        rest = to_rest.index(slot * (N // BOX_N) + j)
        tma.async_copy_global_to_shared(rest_desc, [block, pos, at + D], rest_bar, rest, pred=pred)


@gluon.jit
def scores(
    q1, q2, keys, s1, s2,
    h: gl.constexpr, M2: gl.constexpr, N: gl.constexpr, W: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """Scores of N keys, moved on by the h-th 128 channels; rows in units of their own."""
    left: gl.constexpr = gl.DotOperandLayout(0, S, 2)
    k = _keys_as_half(keys.slice(h * 128, 128, dim=1).load(key_layout(N, W)))
    k = keys_first(k, N).permute([1, 0])
    k = gl.convert_layout(k, gl.DotOperandLayout(1, S, 2), assert_trivial=True)
    s1 = mma_v2(q1.index(h).load(left), k, s1)
    if M2 > 0:
        s2 = mma_v2(q2.index(h).load(left), k, s2)
    return s1, s2


@gluon.jit
def _warp_tops(s, M: gl.constexpr, N: gl.constexpr, W: gl.constexpr):
    """[M, W]: the largest score of each row among a warp's keys."""
    return gl.max(gl.max(gl.max(s.reshape([M, N // (8 * W), W, 4, 2]), 4), 1), 2)


@gluon.jit
def _weights(
    s, worth, vs, tops, m, sums,
    M: gl.constexpr, N: gl.constexpr, W: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """Weights of values, the factor of what was summed before, and the new maximum and sum."""
    layout: gl.constexpr = sum_layout(M, W)
    rows: gl.constexpr = gl.SliceLayout(1, S)
    seen = gl.convert_layout(gl.max(tops.load(top_layout(M, W)), 1), rows, assert_trivial=True)
    seen = gl.maximum(seen * worth, NOTHING)
    m_new = gl.where(seen > m + SLACK, seen, m)
    p = gl.exp2(s * worth[:, None] - m_new[:, None])
    alpha = gl.exp2(m - m_new)
    part = gl.sum(gl.sum(p.reshape([M, N // (8 * W), W, 4, 2]), 4), 1)
    old = gl.convert_layout(alpha, gl.SliceLayout(1, gl.SliceLayout(2, layout)))
    sums = sums * old[:, None, None] + gl.convert_layout(part, layout)
    return (p * vs[None, :]).to(gl.float16), alpha, gl.max(m_new - m, 0), m_new, sums


@gluon.jit
def value_scales(
    rest, late, n, oldest, end, v_top,
    N: gl.constexpr, W: gl.constexpr, S: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Value scales in units of the largest so far, that one, and by what the unit grew."""
    columns: gl.constexpr = gl.SliceLayout(0, S)
    every: gl.constexpr = gl.SliceLayout(1, every_layout(N, W))
    vs = _word(rest, late, True, column_layout(N, W), columns)
    all_vs = _word(rest, late, True, every_layout(N, W), every)
    if MASKED:  # what lies beyond may be anything, NaN too
        at = n + gl.arange(0, N, layout=columns)
        vs = gl.where((at >= oldest) & (at < end), vs, 0.0)
        at = n + gl.arange(0, N, layout=every)
        all_vs = gl.where((at >= oldest) & (at < end), all_vs, 0.0)
    seen = gl.max(all_vs, 0)
    top = gl.where(seen > v_top * GROWTH, seen, v_top)
    return vs * (1.0 / top), top, v_top / top


@gluon.jit
def masked(s, n, position, window, N: gl.constexpr, S: gl.constexpr, WINDOW: gl.constexpr):
    """Scores with those gone that a row does not see."""
    at = n + gl.arange(0, N, layout=gl.SliceLayout(0, S))
    seen = at[None, :] <= position[:, None]
    if WINDOW:
        seen = seen & (at[None, :] > position[:, None] - window)
    return gl.where(seen, s, -3.0e38)


@gluon.jit
def step(
    i, num, n0, oldest, end, window, late, desc, rest_desc, table, column,
    q1, q2, worth1, worth2, position1, position2, p1, p2, tops1, tops2,
    keys, values, key_rest, value_rest, key_bar, value_bar, key_rest_bar, value_rest_bar,
    s1, s2, acc1, acc2, m1, m2, sums1, sums2, v_top,
    D: gl.constexpr, M1: gl.constexpr, M2: gl.constexpr, N: gl.constexpr,
    BLOCK_SIZE: gl.constexpr, BOX_N: gl.constexpr, STAGES: gl.constexpr, W: gl.constexpr,
    S: gl.constexpr, MASKED: gl.constexpr, WINDOW: gl.constexpr,
):  # fmt: skip
    """Tile i: its scores become weights; its values are summed beside the next tile's scores."""
    left: gl.constexpr = gl.DotOperandLayout(0, S, 2)
    own: gl.constexpr = D // (8 * W)
    block: gl.constexpr = gl.NVMMASharedLayout(128, 8, rank=2)
    words: gl.constexpr = gl.NVMMASharedLayout(128, 32, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    slot = i % STAGES
    phase = (i // STAGES) & 1
    following = (i + 1) % STAGES
    before = (i + STAGES - 1) % STAGES
    key_words = keys._reinterpret(gl.int32, [STAGES, N, D // 4], words)
    value_words = values._reinterpret(gl.int32, [STAGES, N, D // 4], words)
    key_tail = key_rest._reinterpret(gl.int32, [STAGES, N, 4], plain)
    value_tail = value_rest._reinterpret(gl.int32, [STAGES, N, 4], plain)
    n = n0 + i * N
    mbarrier.wait(value_rest_bar.index(slot), phase)
    ks = _word(key_tail.index(slot), late, False, column_layout(N, W), gl.SliceLayout(0, S))
    vs, top, grow = value_scales(
        value_tail.index(slot), late, n, oldest, end, v_top, N, W, S, MASKED
    )
    s1 = s1 * ks[None, :]
    if MASKED:
        s1 = masked(s1, n, position1, window, N, S, WINDOW)
    tops1.store(_warp_tops(s1, M1, N, W))
    if M2 > 0:
        s2 = s2 * ks[None, :]
        if MASKED:
            s2 = masked(s2, n, position2, window, N, S, WINDOW)
        tops2.store(_warp_tops(s2, M2, N, W))
    mbarrier.wait(value_bar.index(slot), phase)
    # the last of a value's row lie behind it and go where its scale was
    turn = gl.where(late, 3, 1)
    value_begin = mended(value_words.index(slot), value_tail.index(slot), turn, W)
    more_keys = i + STAGES < num
    more_values = (i > 0) & (i + STAGES - 1 < num)
    expect(key_bar.index(slot), key_rest_bar.index(slot), more_keys, D, N)
    expect(value_bar.index(before), value_rest_bar.index(before), more_values, D, N)
    fence_async_shared()
    w1, alpha1, moved, m1, sums1 = _weights(s1, worth1, vs, tops1, m1, sums1, M1, N, W, S)
    if M2 > 0:
        w2, alpha2, moved2, m2, sums2 = _weights(s2, worth2, vs, tops2, m2, sums2, M2, N, W, S)
        moved = gl.maximum(moved, moved2)
    # every warp is through with the keys of this tile and the values of the one before
    copy(desc, rest_desc, keys, key_rest, key_bar.index(slot), key_rest_bar.index(slot), table,
         n + STAGES * N, slot, column, more_keys, D, N, BLOCK_SIZE, BOX_N)  # fmt: skip
    copy(desc, rest_desc, values, value_rest, value_bar.index(before),
         value_rest_bar.index(before), table, n + STAGES * N - N, before, column + D, more_values,
         D, N, BLOCK_SIZE, BOX_N)  # fmt: skip
    p1.store(w1)
    if M2 > 0:
        p2.store(w2)
    value_words.index(slot).slice(0, 4, dim=1).store(value_begin)
    if i + 1 < num:
        mbarrier.wait(key_bar.index(following), ((i + 1) // STAGES) & 1)
        mbarrier.wait(key_rest_bar.index(following), ((i + 1) // STAGES) & 1)
        key_begin = mended(
            key_words.index(following), key_tail.index(following), gl.where(late, 2, 0), W
        )
        key_words.index(following).slice(0, 4, dim=1).store(key_begin)
    if (moved > 0.0) | (grow < 1.0):
        acc1 = acc1 * (alpha1 * grow)[:, None]
        if M2 > 0:
            acc2 = acc2 * (alpha2 * grow)[:, None]
    next_keys = keys._reinterpret(gl.int8, [STAGES, N, D], block).index(following)
    codes = values._reinterpret(gl.int8, [STAGES, N, D], block).index(slot)
    s1 = gl.zeros([M1, N], gl.float32, layout=S)
    s2 = gl.zeros([16 if M2 == 0 else M2, N], gl.float32, layout=S)
    parts: gl.constexpr = N // 16 // (D // 128)
    for t in gl.static_range(N // 16):
        v = _values(codes.slice(16 * t, 16, dim=0).load(value_layout(D, W)), D, own)
        v = gl.convert_layout(v, gl.DotOperandLayout(1, S, 2), assert_trivial=True)
        acc1 = mma_v2(p1.slice(16 * t, 16, dim=1).load(left), v, acc1)
        if M2 > 0:
            acc2 = mma_v2(p2.slice(16 * t, 16, dim=1).load(left), v, acc2)
        if t % parts == 0:  # after the last tile on what is there: finite codes, for nothing
            s1, s2 = scores(q1, q2, next_keys, s1, s2, t // parts, M2, N, W, S)
    return s1, s2, acc1, acc2, m1, m2, sums1, sums2, top


@gluon.jit
def leave(
    acc, m, sums, v_top, out_ptr, max_ptr, sum_ptr, base, flat, used, total_rows, turn,
    FROM: gl.constexpr, M: gl.constexpr, D: gl.constexpr, W: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """Store the part of M rows from row FROM on, channels in their own order."""
    own: gl.constexpr = D // (8 * W)
    row = FROM + gl.arange(0, M, layout=gl.SliceLayout(1, S))
    ok = (row < used) & (flat + row < total_rows)
    gl.store(max_ptr + base + row, m, mask=ok)
    total = gl.convert_layout(gl.sum(gl.sum(sums, 2), 1), gl.SliceLayout(1, S))
    gl.store(sum_ptr + base + row, total, mask=ok)
    x = (acc * v_top).reshape([M, own, D // own]).permute([0, 2, 1]).reshape([M, D])
    x = gl.convert_layout(x, output_layout(M, D, W), assert_trivial=True)
    x = x.reshape([M, D // 4, 4])
    layout: gl.constexpr = x.type.layout
    row = FROM + gl.arange(0, M, layout=gl.SliceLayout(1, gl.SliceLayout(2, layout)))
    ok = (row < used) & (flat + row < total_rows)
    word = gl.arange(0, D // 4, layout=gl.SliceLayout(0, gl.SliceLayout(2, layout)))
    byte = gl.arange(0, 4, layout=gl.SliceLayout(0, gl.SliceLayout(1, layout)))
    word = (word + D // 4 - turn) % (D // 4)
    at = ((base + row) * D)[:, None, None] + (word * 4)[None, :, None] + byte[None, None, :]
    gl.store(out_ptr + at, x, mask=ok[:, None, None])
