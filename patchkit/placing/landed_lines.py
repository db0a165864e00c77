"""Which lines of a result the pieces take up that were spliced in."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.placing.file_edits import changes_from_pieces
from patchkit.placing.propose import Piece
from patchkit.syntax.edit import Change, splice


def lines_of(source: bytes, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    """Return, for each piece, the lines (1-based, inclusive) that it takes up once all are made."""
    result = splice(source, pieces)
    changes = changes_from_pieces(pieces)
    order = sorted(range(len(pieces)), key=lambda i: (pieces[i][0], pieces[i][1]))
    lines = {}
    for index, change in zip(order, changes, strict=True):
        start, end = _changed(source[change.start : change.end], result, change)
        first = result.count(b"\n", 0, start) + 1
        last = result.count(b"\n", 0, max(end - 1, start)) + 1
        lines[index] = (first, max(first, last))
    return [lines[i] for i in range(len(pieces))]


def _changed(old: bytes, result: bytes, change: Change) -> tuple[int, int]:
    """The span of a piece in the result without what it only repeats, and without outer spaces."""
    text = result[change.new_start : change.new_end]
    head = _common(old, text)
    tail = _common(old[head:][::-1], text[head:][::-1])
    core = text[head : len(text) - tail]
    blank = len(core) - len(core.lstrip()) if core.strip() else 0
    start = change.new_start + head + blank
    return start, start + len(core.strip())


def _common(one: bytes, other: bytes) -> int:
    """How many leading bytes two texts share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
