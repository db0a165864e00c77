"""Which lines of two texts are the same: unique lines first, a shortest edit between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from patchkit.diff.sequence import longest_increasing

# Edits after which a stretch without unique lines counts as rewritten: time and memory grow with
# the square of it (0.2 s at 512 in plain Python).
_MAX_EDITS = 512

_Lines = Sequence[Hashable]
_Pair = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """One run of old lines that gives way to one run of new lines; 0-based, half-open."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def diff_lines(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Change, ...]:
    """Return the changes from old to new lines, in order, each slid to where it reads best."""
    return tuple(_slide(changes_between(match_lines(old, new), len(old), len(new)), old, new))


def match_lines(old: _Lines, new: _Lines) -> list[_Pair]:
    """Return pairs of indices of equal lines, both rising; deterministic on any Python."""
    pairs: list[_Pair] = []
    work = [(0, len(old), 0, len(new))]
    while work:
        old_start, old_end, new_start, new_end = work.pop()
        while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
            pairs.append((old_start, new_start))
            old_start, new_start = old_start + 1, new_start + 1
        while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
            old_end, new_end = old_end - 1, new_end - 1
            pairs.append((old_end, new_end))
        if old_start == old_end or new_start == new_end:
            continue
        box = (old_start, old_end, new_start, new_end)
        anchors = _anchors(old, new, box)
        if not anchors:
            pairs += _shortest_edit(old, new, box)
            continue
        pairs += anchors
        for old_at, new_at in [*anchors, (old_end, new_end)]:
            work.append((old_start, old_at, new_start, new_at))
            old_start, new_start = old_at + 1, new_at + 1
    return sorted(pairs)


def changes_between(pairs: Sequence[_Pair], old_len: int, new_len: int) -> list[Change]:
    """Return the gaps between matched lines."""
    changes = []
    old_at = new_at = 0
    for old_next, new_next in [*pairs, (old_len, new_len)]:
        if old_at < old_next or new_at < new_next:
            changes.append(Change(old_at, old_next, new_at, new_next))
        old_at, new_at = old_next + 1, new_next + 1
    return changes


def _anchors(old: _Lines, new: _Lines, box: tuple[int, int, int, int]) -> list[_Pair]:
    """Return the longest rising run of lines that occur once on either side (patience)."""
    old_start, old_end, new_start, new_end = box
    old_counts = Counter(old[old_start:old_end])
    new_counts = Counter(new[new_start:new_end])
    where = {new[at]: at for at in range(new_start, new_end) if new_counts[new[at]] == 1}
    unique = [
        (at, where[old[at]])
        for at in range(old_start, old_end)
        if old_counts[old[at]] == 1 and old[at] in where
    ]
    return longest_increasing(unique)


def _shortest_edit(old: _Lines, new: _Lines, box: tuple[int, int, int, int]) -> list[_Pair]:
    """Return the matches of a shortest edit (Myers 1986), none where it takes too many edits."""
    old_start, old_end, new_start, new_end = box
    old_len, new_len = old_end - old_start, new_end - new_start
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(old_len + new_len, _MAX_EDITS) + 1):
        trace.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1]
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < old_len and y < new_len and old[old_start + x] == new[new_start + y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= old_len and y >= new_len:
                found = _walk_back(trace, old_len, new_len)
                return [(old_start + i, new_start + j) for i, j in found]
    return []


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> list[_Pair]:
    pairs: list[_Pair] = []
    for edits in range(len(trace) - 1, -1, -1):
        reach, diagonal = trace[edits], x - y
        down = diagonal == -edits or (
            diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1]
        )
        last = diagonal + 1 if down else diagonal - 1
        last_x = reach[last]
        last_y = last_x - last
        while x > last_x and y > last_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if edits:
            x, y = last_x, last_y
    return pairs


def _slide(changes: list[Change], old: Sequence[bytes], new: Sequence[bytes]) -> list[Change]:
    """Return the changes, pure insertions and deletions moved between their neighbours."""
    slid: list[Change] = []
    for number, change in enumerate(changes):
        following = changes[number + 1] if number + 1 < len(changes) else None
        above = slid[-1] if slid else Change(0, 0, 0, 0)
        if change.old_start == change.old_end:
            room_up = change.new_start - above.new_end
            room_down = (following.new_start if following else len(new)) - change.new_end
            shift = _best_shift(new, change.new_start, change.new_end, room_up, room_down)
        elif change.new_start == change.new_end:
            room_up = change.old_start - above.old_end
            room_down = (following.old_start if following else len(old)) - change.old_end
            shift = _best_shift(old, change.old_start, change.old_end, room_up, room_down)
        else:
            shift = 0
        slid.append(
            Change(
                change.old_start + shift,
                change.old_end + shift,
                change.new_start + shift,
                change.new_end + shift,
            )
        )
    return slid


def _best_shift(lines: Sequence[bytes], start: int, end: int, room_up: int, room_down: int) -> int:
    """Return by how many lines a block moves to start where a reader would say that it starts."""
    up = 0
    while up < room_up and lines[start - up - 1] == lines[end - up - 1]:
        up += 1
    down = 0
    while down < room_down and lines[start + down] == lines[end + down]:
        down += 1
    shifts = range(down, -up - 1, -1)  # lowest first: it wins a tie, as in git
    return min(shifts, key=lambda shift: _start_cost(lines, start + shift))


def _start_cost(lines: Sequence[bytes], at: int) -> tuple[bool, int, bool]:
    """Return how badly a block starts at a line: blank, deeply indented, amid other lines."""
    line = lines[at]
    if not line.strip():
        return True, 0, False
    indent = len(re.sub(rb"\S.*", b"", line.expandtabs(8), flags=re.DOTALL))
    joined = at > 0 and bool(lines[at - 1].strip())
    return False, indent, joined
