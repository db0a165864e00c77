"""Which thread holds what in tile_hopper_wide*.py, so that codes become rows in shared memory by
whole 16 bytes, and weights the next product's operand, through registers alone.

A word of codes is dequantised into pairs, codes 4 apart of a word of keys and 8 apart of a word of
values: tokens, and channels of values, lie in that order, `in_rows` and `channel_of`. Neither is
seen outside: products do not care, and outputs are stored where their channel says.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def channel_of(column):
    """The channel of a value in a column: a word of eight pairs has every other column of 16."""
    return (column & 240) | ((column & 1) << 3) | ((column & 14) >> 1)


@gluon.jit
def in_rows(x):
    """Tokens along the first axis, in their own order, in that of rows: k + 4 e of 8 at 2 k + e."""
    N: gl.constexpr = x.shape[0]
    if len(x.shape) == 1:
        x = x.reshape([N // 8, 2, 4]).permute([0, 2, 1]).reshape([N])
    else:
        x = x.reshape([N // 8, 2, 4, x.shape[1]]).permute([0, 2, 1, 3]).reshape([N, x.shape[1]])
    return x


@gluon.constexpr_function
def key_words_layout():
    """[128, 16] words of eight codes: threads have 16 bytes of 4 channels."""
    return gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [32, 0], [64, 0]],
        [[0, 4], [1, 0], [2, 0], [0, 8], [4, 0]],
        [[8, 0], [16, 0]],
        [],
        [128, 16],
    )


@gluon.constexpr_function
def key_scales_layout():
    """[8, 32] scales of channels: those of key_words_layout's threads, of both halves."""
    none = [0, 0]
    return gl.DistributedLinearLayout(
        [[1, 0], [2, 0], [4, 0]],
        [none, [0, 1], [0, 2], none, [0, 4]],
        [[0, 8], [0, 16]],
        [],
        [8, 32],
    )


@gluon.constexpr_function
def token_scales_layout():
    """[8, 32] scales of tokens, and what lies behind them: two a thread."""
    return gl.DistributedLinearLayout(
        [[2, 0], [4, 0]],
        [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]],
        [[1, 0], [0, 0]],
        [],
        [8, 32],
    )


@gluon.constexpr_function
def value_words_layout():
    """[64, 16] words of 16 codes: threads have one of 8 tokens; warps lie 64 channels apart."""
    return gl.DistributedLinearLayout(
        [[8, 0], [16, 0], [32, 0]],
        [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]],
        [[0, 4], [0, 8]],
        [],
        [64, 16],
    )


@gluon.constexpr_function
def value_codes_layout():
    """[64, 16] words: value_words_layout, tokens in their own order."""
    return gl.DistributedLinearLayout(
        [[8, 0], [16, 0], [32, 0]],
        [[0, 1], [0, 2], [4, 0], [1, 0], [2, 0]],
        [[0, 4], [0, 8]],
        [],
        [64, 16],
    )


@gluon.constexpr_function
def value_scales_layout():
    """[8, 32] scales, then zero points, of tokens: those of value_codes_layout's threads."""
    none = [0, 0]
    return gl.DistributedLinearLayout(
        [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        [none, none, [0, 4], [0, 1], [0, 2]],
        [none, none],
        [],
        [8, 32],
    )


@gluon.constexpr_function
def channel_scales_layout():
    """[8, 32] scales of channels: those of the words that value_words_layout's threads have."""
    none = [0, 0]
    return gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [0, 8]],
        [[0, 16], [1, 0], none, none, none],
        [[2, 0], [4, 0]],
        [],
        [8, 32],
    )


@gluon.constexpr_function
def column_scales_layout():
    """[16, 8] scales of tokens: of the columns of scores that a thread has."""
    none = [0, 0]
    return gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]],
        [[1, 0], [2, 0], none, none, none],
        [none, none],
        [],
        [16, 8],
    )
