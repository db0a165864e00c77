"""Which thread of a program holds what in tile_hopper.py, so that codes go from shared memory into
the matrix units through registers alone.

A product does not care in which order its terms are summed, nor an output in which order its rows
are computed. Both products have the codes on the left, [128, contraction], and a tile's codes lie
in 64 bytes a channel of keys, or a token of values, whose two halves of a 16-bit word go to rows 8
apart: row = (place of the code in its byte, word / 8, byte of the word, word % 8). Along the
contraction bits 2, 0, 1 of an index are numbered 0, 1, 2, so that the lanes of a quad read four
neighbours, which lie in different banks. A thread has both places of a byte.
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
def accumulator_layout():
    """[128, n] of scores or outputs: a product leaves a row's columns to a quad."""
    return gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])


@gluon.constexpr_function
def word_layout(n):
    """[2, 32, n] words, once for each place: quads hold 4 neighbours of the contraction."""
    return gl.DistributedLinearLayout(
        [[0, 0, c] for c in _doubled(4, n)] + [[1, 0, 0]],
        [[0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        [[0, 8, 0], [0, 16, 0]],
        [],
        [2, 32, n],
    )


@gluon.constexpr_function
def along_layout(n):
    """[4, n / 4]: what word_layout's threads need of a scale along the contraction."""
    none = [0, 0]
    registers = [[0, c] for c in _doubled(1, n // 4)]
    lanes = [[1, 0], [2, 0], none, none, none]
    return gl.DistributedLinearLayout(registers, lanes, [none, none], [], [4, n // 4])


@gluon.constexpr_function
def across_layout(n):
    """[2, 32, n]: n scales of each of word_layout's rows, one after the other in a thread."""
    none = [0, 0, 0]
    return gl.DistributedLinearLayout(
        [[0, 0, c] for c in _doubled(1, n)] + [[1, 0, 0]],
        [none, none, [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        [[0, 8, 0], [0, 16, 0]],
        [],
        [2, 32, n],
    )


@gluon.constexpr_function
def sum_layout(n):
    """[2, 4, 8, n]: what a thread has summed of a column of the scores."""
    columns = [[0, 0, 0, 1]] + [[0, 0, 0, c] for c in _doubled(8, n)]
    return gl.DistributedLinearLayout(
        [*columns, [1, 0, 0, 0]],
        [[0, 0, 0, 2], [0, 0, 0, 4], [0, 0, 1, 0], [0, 0, 2, 0], [0, 0, 4, 0]],
        [[0, 1, 0, 0], [0, 2, 0, 0]],
        [],
        [2, 4, 8, n],
    )
