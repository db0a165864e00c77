"""One packed tile for the query rows of a program. Functions of tile_hopper.py, on the device."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mma_v2

from .tile_hopper_layouts import across_layout, along_layout, sum_layout, word_layout

# A row's maximum moves only when its weights would pass 2^8: the output is rescaled in few tiles.
SLACK = gl.constexpr(8.0)
# Keys over T and values over C are computed halved, of halved scales and zero points. T and C are
# 0.74 or more, so that of numbers up to 65504 they may reach 88,500: float16 holds their halves.
# A value stays halved when C has multiplied it.
HALF = gl.constexpr(0.5)


@gluon.jit
def _keys(words, scale, zero_point, shift):
    """The 4-bit codes of a place, of both bytes of words: code x scale + zero point."""
    # 0x6400 | code is 1024 + code in float16; the lower and the upper byte of both halves
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 s, t, o;
        mov.b32 o, 0xe400e400;
        shf.r.wrap.b32 s, $2, $2, $5;
        shr.b32 t, s, 8;
        lop3.b32 s, s, 0x000f000f, 0x64006400, 0xea;
        lop3.b32 t, t, 0x000f000f, 0x64006400, 0xea;
        add.rn.f16x2 s, s, o;
        add.rn.f16x2 t, t, o;
        fma.rn.f16x2 $0, s, $3, $4;
        fma.rn.f16x2 $1, t, $3, $4;
        }
        """,
        "=&r,=&r,r,r,r,r",
        [words, scale, zero_point, shift],
        dtype=(gl.float16, gl.float16),
        is_pure=True,
        pack=2,
    )


@gluon.jit
def _values(words, scale, zero_point, low_0, low_1, high_0, high_1, shift):
    """Two 2-bit codes of a place, of both bytes: (code x scale + zero point) x channel scale.

    Scale and zero point are halved, not the channel scale: the sum in brackets may pass 65504.
    """
    # 0x5c00 | code << 2 is 256 + code
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 s, t, u, v, a, b;
        mov.b32 a, 0xe400e400;
        mov.b32 b, 0xdc00dc00;
        shf.r.wrap.b32 s, $4, $4, $11;
        shr.b32 t, s, 8;
        lop3.b32 u, s, 0x00030003, 0x64006400, 0xea;
        lop3.b32 v, s, 0x000c000c, 0x5c005c00, 0xea;
        add.rn.f16x2 u, u, a;
        add.rn.f16x2 v, v, b;
        fma.rn.f16x2 u, u, $5, $6;
        fma.rn.f16x2 v, v, $5, $6;
        mul.rn.f16x2 $0, u, $7;
        mul.rn.f16x2 $1, v, $8;
        lop3.b32 u, t, 0x00030003, 0x64006400, 0xea;
        lop3.b32 v, t, 0x000c000c, 0x5c005c00, 0xea;
        add.rn.f16x2 u, u, a;
        add.rn.f16x2 v, v, b;
        fma.rn.f16x2 u, u, $5, $6;
        fma.rn.f16x2 v, v, $5, $6;
        mul.rn.f16x2 $2, u, $9;
        mul.rn.f16x2 $3, v, $10;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r,r,r,r,r,r,r",
        [words, scale, zero_point, low_0, low_1, high_0, high_1, shift],
        dtype=(gl.float16, gl.float16, gl.float16, gl.float16),
        is_pure=True,
        pack=2,
    )


@gluon.jit
def shifts(n: gl.constexpr):
    """[2, 1, 1]: by how many bits the codes of a place lie in their bytes, in both halves."""
    layout: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, word_layout(n)))
    return (gl.arange(0, 2, layout=layout) * 4).to(gl.int16)[:, None, None]


@gluon.jit
def _operand(low, high, n: gl.constexpr, S: gl.constexpr):
    """[128, n] left operand of two [2, 32, n], those of lower and of upper bytes."""
    x = gl.join(low, high).reshape([2, 4, 8, n // 8, 2, 4, 2])
    x = x.permute([0, 1, 6, 2, 3, 5, 4]).reshape([128, n])
    return gl.convert_layout(x, gl.DotOperandLayout(0, S, 2), assert_trivial=True)


@gluon.jit
def _along(staged, n: gl.constexpr):
    """[1, 1, n] of a scale along the contraction, which `spread` has put into shared memory."""
    x = staged.load(along_layout(n)).permute([1, 0]).reshape([n])
    layout: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, word_layout(n)))
    return gl.convert_layout(x, layout, assert_trivial=True)[None, :][:, None, :]


@gluon.jit
def _across(scale, n: gl.constexpr):
    """[2, 32, 1] of a scale of rows."""
    layout: gl.constexpr = gl.SliceLayout(2, word_layout(n))
    return gl.convert_layout(scale, layout, assert_trivial=True)[:, :, None]


@gluon.jit
def read(codes, scales, zero_points, at: gl.constexpr, n: gl.constexpr):
    """n columns of the left operand as words, with their scales and zero points."""
    layout: gl.constexpr = gl.SliceLayout(0, word_layout(n))
    words = codes.slice(at * n, n, dim=0).permute([1, 0]).load(layout)[None, :, :]
    scale = _along(scales.slice(4 * at, 4, dim=0), n)
    return words, scale, _along(zero_points.slice(4 * at, 4, dim=0), n)


@gluon.jit
def _times(left, right, acc, S: gl.constexpr):
    return mma_v2(left, right.load(gl.DotOperandLayout(1, S, 2)), acc)


@gluon.jit
def add_scores(
    words, query, shift, s,
    at: gl.constexpr, n: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """Scores moved on by n channels, the at-th of them."""
    low, high = _keys(words[0], words[1], words[2], shift)
    right = query.index(at * n // 64).slice(at * n % 64, n, dim=1).permute([1, 0])
    return _times(_operand(low, high, n, S), right, s, S)


@gluon.jit
def add_values(
    words, channel_scales, weights, shift, out_0, out_1,
    at: gl.constexpr, n: gl.constexpr, S: gl.constexpr,
):  # fmt: skip
    """Both outputs moved on by n tokens, the at-th of them."""
    low_0, low_1, high_0, high_1 = _values(
        words[0], words[1], words[2],
        _across(channel_scales[0], n), _across(channel_scales[1], n),
        _across(channel_scales[2], n), _across(channel_scales[3], n), shift,
    )  # fmt: skip
    right = weights.slice(at * n, n, dim=1).permute([1, 0])
    out_0 = _times(_operand(low_0, high_0, n, S), right, out_0, S)
    return out_0, _times(_operand(low_1, high_1, n, S), right, out_1, S)


@gluon.jit
def load_scales(
    record, A_K: gl.constexpr, Z_K: gl.constexpr, T_K: gl.constexpr,
    C_V: gl.constexpr, A_V: gl.constexpr,
):  # fmt: skip
    """All scales of a record of D = 256 and G = 128; the zero points of values lie behind A_V."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    half = record.to(gl.pointer_type(gl.float16), bitcast=True)
    at = gl.arange(0, 256, layout=layout)
    token = gl.arange(0, 128, layout=layout)
    return (
        gl.load(half + A_K // 2 + at),
        gl.load(half + Z_K // 2 + at),
        gl.load(half + T_K // 2 + token),
        gl.load(half + C_V // 2 + at),
        gl.load(half + A_V // 2 + at),
    )


@gluon.jit
def spread(x, n: gl.constexpr):
    """Scales along the contraction as `_along` reads them: a quad's lanes one after the other."""
    chunks: gl.constexpr = x.shape[0] // n
    return x.reshape([chunks, n // 4, 4]).permute([0, 2, 1]).reshape([chunks * 4, n // 4])


@gluon.jit
def stage(scales, key_scales, key_zeros, token_scales, channel_scales, value_scales,
          KC: gl.constexpr, TC: gl.constexpr):  # fmt: skip
    """Put the scales of a tile into shared memory, in the order in which threads need them."""
    half = gl.full([], HALF, gl.float16)
    key_scales.store(spread(scales[0] * half, KC))
    key_zeros.store(spread(scales[1] * half, KC))
    token_scales.store(scales[2].reshape([32, 2, 2]).permute([2, 0, 1]))
    # both of a token, its scale and its zero point
    value_scales.store(spread(scales[4] * half, TC))
    channels = scales[3].reshape([32, 2, 2, 2]).permute([2, 0, 1, 3])
    channel_scales.store(channels.reshape([2, 32, 4]))


@gluon.jit
def load_token_scales(staged, S: gl.constexpr):
    """[128] scales of keys, in the order of the rows of scores."""
    x = staged.load(across_layout(2)).reshape([2, 4, 8, 2]).permute([0, 1, 3, 2]).reshape([128])
    return gl.convert_layout(x, gl.SliceLayout(1, S), assert_trivial=True).to(gl.float32)


@gluon.jit
def load_channel_scales(staged):
    """[2, 32] scales of values: of the lower bytes' first and second code, of the upper ones'."""
    even, odd = gl.split(staged.load(across_layout(4)).reshape([2, 32, 2, 2]))
    low_0, high_0 = gl.split(even)
    low_1, high_1 = gl.split(odd)
    return low_0, low_1, high_0, high_1


@gluon.jit
def weigh(s, m, sums, weights, N: gl.constexpr):
    """Leave the weights of a tile in shared memory as the right operand of its values."""
    p = gl.exp2(s - m[None, :])
    part = gl.sum(p.reshape([2, 4, 2, 8, N]), 2)
    sums = sums + gl.convert_layout(part, sum_layout(N), assert_trivial=True)
    p = p.to(gl.float16).reshape([2, 4, 2, 4, 2, N])
    weights.store(p.permute([5, 1, 3, 2, 0, 4]).reshape([N, 128]))
    return sums


@gluon.jit
def rescale(s, m, sums, out_0, out_1, N: gl.constexpr):
    """New maxima of the rows whose weights would grow too large, and what was summed before."""
    seen = gl.max(s, 0)
    m_new = gl.where(seen > m + SLACK, seen, m)
    alpha = gl.exp2(m - m_new)
    layout: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(2, sum_layout(N))))
    factor = gl.convert_layout(alpha, layout)[None, :][:, None, :][:, :, None, :]
    return m_new, sums * factor, out_0 * alpha[None, :], out_1 * alpha[None, :]
