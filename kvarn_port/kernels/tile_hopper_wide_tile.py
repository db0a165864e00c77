"""Packed tiles dequantised into shared memory by halves: of tile_hopper_wide.py, on the device.

Keys lie there as [channels, tokens], half of the channels at a time, values as [tokens, channels],
half of the tokens, both float16; what is 16 bits in pairs is computed in words of 32. One
warpgroup makes keys, another values: each has the codes of a tile copied to shared memory, reads
them into registers, has those of the next copied to their place, and writes a half wherever one
has been read: `full` says that it is there, `empty` that its place is free.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from .tile_hopper_tile import HALF
from .tile_hopper_wide_layouts import (
    channel_scales_layout,
    in_rows,
    key_scales_layout,
    key_words_layout,
    token_scales_layout,
    value_codes_layout,
    value_scales_layout,
    value_words_layout,
)

D = gl.constexpr(256)
G = gl.constexpr(128)
VALUE_HALVES = gl.constexpr(3)  # places for halves of values: one lies ready while two are read
# Boxes of a record of 420 times 64 bytes: where each begins, and how many rows it has.
KEY_SCALES, TOKEN_SCALES = gl.constexpr(256), gl.constexpr(272)
VALUES, VALUE_SCALES = gl.constexpr(276), gl.constexpr(404)
BOXES = {"keys": 256, "values": 128, "scales": 16, "tokens": 8}
KEY_BYTES = gl.constexpr(64 * (256 + 16 + 8))
VALUE_BYTES = gl.constexpr(64 * (128 + 16))


@gluon.jit
def _keys(words, scale, zero_point):
    """Four pairs of 4-bit codes of each word, four apart: code x scale + zero point.

    0x6400 | code is 1024 + code in float16, 0x6400 | code << 4 is 1024 + 16 code.
    """
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 s, a, b, o, p, f;
        mov.b32 o, 0xe400e400;
        mov.b32 p, 0xd400d400;
        mov.b32 f, 0x2c002c00;
        shr.b32 s, $4, 8;
        lop3.b32 a, $4, 0x000f000f, 0x64006400, 0xea;
        lop3.b32 b, $4, 0x00f000f0, 0x64006400, 0xea;
        add.rn.f16x2 a, a, o;
        fma.rn.f16x2 b, b, f, p;
        fma.rn.f16x2 $0, a, $5, $6;
        fma.rn.f16x2 $1, b, $5, $6;
        lop3.b32 a, s, 0x000f000f, 0x64006400, 0xea;
        lop3.b32 b, s, 0x00f000f0, 0x64006400, 0xea;
        add.rn.f16x2 a, a, o;
        fma.rn.f16x2 b, b, f, p;
        fma.rn.f16x2 $2, a, $5, $6;
        fma.rn.f16x2 $3, b, $5, $6;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r,r",
        [words, scale, zero_point],
        dtype=(gl.int32,) * 4,
        is_pure=True,
        pack=1,
    )


@gluon.jit
def _values(words, scale, zero_point, c_0, c_1, c_2, c_3, c_4, c_5, c_6, c_7):
    """Eight pairs of 2-bit codes of each word, eight apart: (code x scale + zero point) x c."""
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 s, a, b, c, d, o, p, q, r;
        mov.b32 o, 0xe400e400;
        mov.b32 p, 0xdc00dc00;
        mov.b32 q, 0xd400d400;
        mov.b32 r, 0xcc00cc00;
        shr.b32 s, $8, 8;
        lop3.b32 a, $8, 0x00030003, 0x64006400, 0xea;
        lop3.b32 b, $8, 0x000c000c, 0x5c005c00, 0xea;
        lop3.b32 c, $8, 0x00300030, 0x54005400, 0xea;
        lop3.b32 d, $8, 0x00c000c0, 0x4c004c00, 0xea;
        add.rn.f16x2 a, a, o;
        add.rn.f16x2 b, b, p;
        add.rn.f16x2 c, c, q;
        add.rn.f16x2 d, d, r;
        fma.rn.f16x2 a, a, $9, $10;
        fma.rn.f16x2 b, b, $9, $10;
        fma.rn.f16x2 c, c, $9, $10;
        fma.rn.f16x2 d, d, $9, $10;
        mul.rn.f16x2 $0, a, $11;
        mul.rn.f16x2 $1, b, $12;
        mul.rn.f16x2 $2, c, $13;
        mul.rn.f16x2 $3, d, $14;
        lop3.b32 a, s, 0x00030003, 0x64006400, 0xea;
        lop3.b32 b, s, 0x000c000c, 0x5c005c00, 0xea;
        lop3.b32 c, s, 0x00300030, 0x54005400, 0xea;
        lop3.b32 d, s, 0x00c000c0, 0x4c004c00, 0xea;
        add.rn.f16x2 a, a, o;
        add.rn.f16x2 b, b, p;
        add.rn.f16x2 c, c, q;
        add.rn.f16x2 d, d, r;
        fma.rn.f16x2 a, a, $9, $10;
        fma.rn.f16x2 b, b, $9, $10;
        fma.rn.f16x2 c, c, $9, $10;
        fma.rn.f16x2 d, d, $9, $10;
        mul.rn.f16x2 $4, a, $15;
        mul.rn.f16x2 $5, b, $16;
        mul.rn.f16x2 $6, c, $17;
        mul.rn.f16x2 $7, d, $18;
        }
        """,
        "=&r,=&r,=&r,=&r,=&r,=&r,=&r,=&r,r,r,r,r,r,r,r,r,r,r,r",
        [words, scale, zero_point, c_0, c_1, c_2, c_3, c_4, c_5, c_6, c_7],
        dtype=(gl.int32,) * 8,
        is_pure=True,
        pack=1,
    )


@gluon.jit
def _bits(x):
    """The 16 bits of float16 numbers as 32-bit ones."""
    return x.to(gl.int16, bitcast=True).to(gl.int32) & 0xFFFF


@gluon.jit
def _twice(x):
    """Float16 numbers, halved, in both halves of 32-bit words."""
    x = _bits(x * gl.full([], HALF, gl.float16))
    return x | (x << 16)


@gluon.jit
def _half_of(x, h: gl.constexpr):
    """[n] of [2 n]: the first or the last."""
    halves = gl.split(x.reshape([2, x.shape[0] // 2]).permute([1, 0]))
    return halves[h]


@gluon.jit
def _read_keys(codes, scales, h: gl.constexpr):
    """Words of half of the channels, their scales and zero points."""
    layout: gl.constexpr = key_scales_layout()
    channels: gl.constexpr = gl.SliceLayout(1, key_words_layout())
    scale = _half_of(scales.slice(0, 8, dim=0).load(layout).reshape([D]), h)
    zero = _half_of(scales.slice(8, 8, dim=0).load(layout).reshape([D]), h)
    return (
        codes.slice(h * D // 2, D // 2, dim=0).load(key_words_layout()),
        gl.convert_layout(_twice(scale), channels, assert_trivial=True),
        gl.convert_layout(_twice(zero), channels, assert_trivial=True),
    )


@gluon.jit
def _read_token_scales(scales):
    """[16, 8] scales of tokens of keys, in the order of columns, those of a thread together."""
    x = in_rows(_half_of(scales.load(token_scales_layout()).reshape([2 * G]), 0))
    # a quad's lane has columns 8 j + 2 lane + e
    return x.reshape([4, 4, 4, 2]).permute([0, 2, 1, 3]).reshape([16, 8])


@gluon.jit
def _read_values(codes, scales, h: gl.constexpr):
    """Words of half of the tokens, in the order of rows, their scales and zero points."""
    tokens: gl.constexpr = gl.SliceLayout(1, value_words_layout())
    words = in_rows(codes.slice(h * G // 2, G // 2, dim=0).load(value_codes_layout()))
    x = scales.slice(8, 8, dim=0).load(value_scales_layout()).reshape([2 * G])
    scale = in_rows(_half_of(_half_of(x, 0), h))
    zero = in_rows(_half_of(_half_of(x, 1), h))
    return (
        gl.convert_layout(words, value_words_layout(), assert_trivial=True),
        gl.convert_layout(_twice(scale), tokens, assert_trivial=True),
        gl.convert_layout(_twice(zero), tokens, assert_trivial=True),
    )


@gluon.jit
def _read_channel_scales(scales):
    """[1, 16] of each of eight pairs of channels, eight apart, of each word."""
    x = _bits(scales.slice(0, 8, dim=0).load(channel_scales_layout()).reshape([16, 2, 8]))
    first, second = gl.split(x.permute([0, 2, 1]))
    even, odd = gl.split((first | (second << 16)).reshape([16, 4, 2]))
    even_0, even_1 = gl.split(even.reshape([16, 2, 2]))
    odd_0, odd_1 = gl.split(odd.reshape([16, 2, 2]))
    c_0, c_4 = gl.split(even_0)
    c_2, c_6 = gl.split(even_1)
    c_1, c_5 = gl.split(odd_0)
    c_3, c_7 = gl.split(odd_1)
    return (
        _across(c_0), _across(c_1), _across(c_2), _across(c_3),
        _across(c_4), _across(c_5), _across(c_6), _across(c_7),
    )  # fmt: skip


@gluon.jit
def _across(c):
    x = gl.convert_layout(c, gl.SliceLayout(0, value_words_layout()), assert_trivial=True)
    return x[None, :]


@gluon.jit
def _fill_keys(i, h: gl.constexpr, x, keys, full, empty):
    """Half of the keys of tile i, when those of the tile before have been read."""
    mbarrier.wait(empty.index(0), (i & 1) ^ 1)
    x_0, x_1, x_2, x_3 = _keys(x[0], x[1][:, None], x[2][:, None])
    pairs = gl.join(gl.join(x_0, x_2), gl.join(x_1, x_3))
    keys.index(h).store(pairs.reshape([D // 2, G // 2]))
    fence_async_shared()
    gl.thread_barrier()
    mbarrier.arrive(full.index(h), count=1)


@gluon.jit
def _fill_values(n, x, c, values, full, empty):
    """The n-th half of values, when the one in its place has been read."""
    slot = n % VALUE_HALVES
    mbarrier.wait(empty.index(slot), (n // VALUE_HALVES & 1) ^ 1)
    y = _values(x[0], x[1][:, None], x[2][:, None], c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7])
    even = gl.join(gl.join(y[0], y[4]), gl.join(y[2], y[6]))
    odd = gl.join(gl.join(y[1], y[5]), gl.join(y[3], y[7]))
    values.index(slot).store(gl.join(even, odd).reshape([G // 2, D // 2]))
    fence_async_shared()
    gl.thread_barrier()
    mbarrier.arrive(full.index(slot), count=1)


@gluon.jit
def _fetch_keys(key_desc, scale_desc, token_desc, page, head, here, codes, scales, tokens):
    """Have the keys of a tile copied, with their scales."""
    mbarrier.expect(here, KEY_BYTES)
    tma.async_copy_global_to_shared(key_desc, [page, head, 0, 0], here, codes)
    tma.async_copy_global_to_shared(scale_desc, [page, head, KEY_SCALES, 0], here, scales)
    tma.async_copy_global_to_shared(token_desc, [page, head, TOKEN_SCALES, 0], here, tokens)


@gluon.jit
def _fetch_values(value_desc, scale_desc, page, head, here, codes, scales):
    """Have the values of a tile copied, with their scales."""
    mbarrier.expect(here, VALUE_BYTES)
    tma.async_copy_global_to_shared(value_desc, [page, head, VALUES, 0], here, codes)
    tma.async_copy_global_to_shared(scale_desc, [page, head, VALUE_SCALES, 0], here, scales)


@gluon.jit
def dequantise_keys(
    keys, tokens, full, empty, key_desc, scale_desc, token_desc, codes, scales, token_scales,
    here, table, num, head,
):  # fmt: skip
    """The keys of `num` tiles, the pages of which begin at `table`, and their tokens' scales."""
    number: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    pairs: gl.constexpr = gl.NVMMASharedLayout(128, 32, rank=2)
    keys = keys._reinterpret(gl.int32, [2, D // 2, G // 2], pairs)
    words: gl.constexpr = gl.NVMMASharedLayout(64, 32, rank=2)
    key_words = codes._reinterpret(gl.int32, [D, 16], words)
    key_scales = scales._reinterpret(gl.float16, [16, 32], number)
    behind = token_scales._reinterpret(gl.float16, [8, 32], number)
    _fetch_keys(key_desc, scale_desc, token_desc, gl.load(table), head, here.index(0), codes,
                scales, token_scales)  # fmt: skip
    next_page = gl.load(table + gl.minimum(1, num - 1))
    for i in range(num):
        page = next_page  # looked up a tile ahead
        mbarrier.wait(here.index(0), i & 1)
        token = _read_token_scales(behind)
        first = _read_keys(key_words, key_scales, 0)
        last = _read_keys(key_words, key_scales, 1)
        gl.thread_barrier()
        # every thread has read what the next tile's may overwrite now
        if i + 1 < num:
            _fetch_keys(key_desc, scale_desc, token_desc, page, head, here.index(0), codes,
                        scales, token_scales)  # fmt: skip
        next_page = gl.load(table + gl.minimum(i + 2, num - 1))
        # the scores of tile i - 2 are there, so that those of i - 4 have been scaled
        tokens.index(i & 3).store(token)
        _fill_keys(i, 0, first, keys, full, empty)
        _fill_keys(i, 1, last, keys, full, empty)


@gluon.jit
def dequantise_values(
    values, full, empty, value_desc, scale_desc, codes, scales, here, table, num, head,
):  # fmt: skip
    """The values of `num` tiles, the pages of which begin at `table`."""
    number: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    pairs: gl.constexpr = gl.NVMMASharedLayout(128, 32, rank=2)
    values = values._reinterpret(gl.int32, [VALUE_HALVES, G // 2, D // 2], pairs)
    words: gl.constexpr = gl.NVMMASharedLayout(64, 32, rank=2)
    value_words = codes._reinterpret(gl.int32, [G, 16], words)
    value_scales = scales._reinterpret(gl.float16, [16, 32], number)
    _fetch_values(value_desc, scale_desc, gl.load(table), head, here.index(0), codes, scales)
    next_page = gl.load(table + gl.minimum(1, num - 1))
    for i in range(num):
        page = next_page
        mbarrier.wait(here.index(0), i & 1)
        channels = _read_channel_scales(value_scales)
        first = _read_values(value_words, value_scales, 0)
        last = _read_values(value_words, value_scales, 1)
        gl.thread_barrier()
        if i + 1 < num:
            _fetch_values(value_desc, scale_desc, page, head, here.index(0), codes, scales)
        next_page = gl.load(table + gl.minimum(i + 2, num - 1))
        _fill_values(2 * i, first, channels, values, full, empty)
        _fill_values(2 * i + 1, last, channels, values, full, empty)
