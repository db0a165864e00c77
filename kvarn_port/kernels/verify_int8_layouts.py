"""Which thread of a program holds what in verify_int8.py, so that codes go from shared memory into
the matrix units through registers alone.

A product does not care in which order its terms are summed, nor an output in which order its
columns are computed: the channels of keys and values are numbered anew so that what a thread reads
in one go (16 bytes of a key's row, D / 8W bytes of a value's) is what `mma` wants of it. W is the
number of warps, all of which share a tile: each has every W-th run of 8 keys, and D / W channels of
the output.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.constexpr_function
def _doubled(first, end):
    """Return first, 2 first, … below end."""
    found = []
    while first < end:
        found.append(first)
        first *= 2
    return found


@gluon.constexpr_function
def key_layout(n, w):
    """[n, 128] bytes of keys: two runs of 16 bytes of each of a thread's rows."""
    registers = [[0, c] for c in (1, 2, 4, 8, 16)] + [[r, 0] for r in _doubled(8 * w, n)]
    lanes = [[0, 32], [0, 64], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(
        registers, lanes, [[r, 0] for r in _doubled(8, 8 * w)], [], [n, 128]
    )


@gluon.constexpr_function
def value_layout(d, w):
    """[16, d] bytes of values: d / 8w neighbours of tokens 2t, 2t + 1, 2t + 8, 2t + 9."""
    own = d // (8 * w)
    registers = [[0, c] for c in _doubled(1, own)] + [[1, 0], [8, 0]]
    lanes = [[2, 0], [4, 0]] + [[0, c] for c in _doubled(own, 8 * own)]
    warps = [[0, c] for c in _doubled(8 * own, d)]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [16, d])


@gluon.constexpr_function
def output_layout(m, d, w):
    """[m, d] of the output, channels in their own order: d / 4w neighbours of a row."""
    own = d // (4 * w)
    registers = [[0, c] for c in _doubled(1, own)] + [[r, 0] for r in _doubled(8, m)]
    lanes = [[0, own], [0, 2 * own], [1, 0], [2, 0], [4, 0]]
    warps = [[0, c] for c in _doubled(4 * own, d)]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [m, d])


@gluon.constexpr_function
def top_layout(m, w):
    """[m, w]: what every warp found for a row, in every thread that holds a part of the row."""
    registers = [[0, c] for c in _doubled(1, w)] + [[r, 0] for r in _doubled(8, m)]
    lanes = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(
        registers, lanes, [[0, 0] for _ in _doubled(1, w)], [], [m, w]
    )


@gluon.constexpr_function
def sum_layout(m, w):
    """[m, w, 4]: what a thread has summed of a row."""
    registers = [[r, 0, 0] for r in _doubled(8, m)]
    lanes = [[0, 0, 1], [0, 0, 2], [1, 0, 0], [2, 0, 0], [4, 0, 0]]
    return gl.DistributedLinearLayout(
        registers, lanes, [[0, c, 0] for c in _doubled(1, w)], [], [m, w, 4]
    )


@gluon.constexpr_function
def column_layout(n, w):
    """[n, 4] words: the rows that are a thread's columns of the scores."""
    registers = [[0, 1], [0, 2], [1, 0]] + [[r, 0] for r in _doubled(8 * w, n)]
    lanes = [[2, 0], [4, 0], [0, 0], [0, 0], [0, 0]]
    return gl.DistributedLinearLayout(
        registers, lanes, [[r, 0] for r in _doubled(8, 8 * w)], [], [n, 4]
    )


@gluon.constexpr_function
def every_layout(n, w):
    """[n, 4] words: every row in every warp."""
    registers = [[0, 1], [0, 2]] + [[r, 0] for r in _doubled(32, n)]
    return gl.DistributedLinearLayout(
        registers,
        [[r, 0] for r in _doubled(1, 32)],
        [[0, 0] for _ in _doubled(1, w)],
        [],
        [n, 4],
    )
