"""Which hunks of a series one file still holds, by its lines.

Whatever differs between the file as the series made it and the file as it is was done to it since.
Each difference is laid to the hunks whose lines are gone, or whose removed lines are back; where it
can be read in several places (of two equal lines one is gone), the one that hunks explain best
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from patchkit.diff import diff_lines, split_lines
from patchkit.diff.lines import Change
from patchkit.verifying.expected import ExpectedFile, ExpectedLine, Spot


@dataclass
class FileHoles:
    """What of a file's hunks is not there.

    `missing` are undone as a whole, `changed` in part or to something else. `edits` are the lines
    of the file, 1-based, at which it was changed apart from any hunk. `pairs` maps its lines,
    0-based, to those that the series made.
    """

    missing: set[Spot] = field(default_factory=set)
    changed: set[Spot] = field(default_factory=set)
    edits: list[int] = field(default_factory=list)
    pairs: dict[int, int] = field(default_factory=dict)


def find_holes(file: ExpectedFile, current: bytes) -> FileHoles:
    """Return which hunks of a file that the series leaves in place are not in its current bytes."""
    assert file.lines is not None
    lines, now = file.lines, split_lines(current)
    texts = [line.text for line in lines[:-1]]
    changes = diff_lines(texts, now)
    every = {s for line in lines for s in (line.spot, *(gap.spot for gap in line.gaps)) if s}
    # one hunk undone is known for certain, however the lines around it repeat; where several give
    # the same bytes, any of them may be the one
    alone = {spot for spot in every if undone(file, {spot}) == current}
    if alone:
        return FileHoles(alone, pairs=_pairs(changes, len(texts), len(now)))
    found = FileHoles(pairs=_pairs(changes, len(texts), len(now)))
    hit: set[Spot] = set()
    for number, change in enumerate(changes):
        # a change cannot be read as one beyond its neighbours
        above = changes[number - 1] if number else Change(0, 0, 0, 0)
        end = Change(len(texts), len(texts), len(now), len(now))
        below = changes[number + 1] if number + 1 < len(changes) else end
        readings = [_reading(c, lines, now) for c in _slid(change, above, below, texts, now)]
        best = min(strangers for _, strangers in readings)
        spots = {spot for found, strangers in readings if strangers == best for spot in found}
        if not spots:
            found.edits.append(min(change.new_start + 1, max(len(now), 1)))
        hit |= spots
    if undone(file, hit) == current:
        found.missing = hit
        return found
    kept = {lines[old].spot for old in found.pairs.values()}
    for spot in hit:
        whole = spot not in kept and _is_back(file, spot, now)
        (found.missing if whole else found.changed).add(spot)
    return found


def undone(file: ExpectedFile, spots: set[Spot]) -> bytes:
    """Return the file with some hunks undone."""
    return b"".join(_undone(file.lines or (), spots))


def _undone(lines: Iterable[ExpectedLine], spots: set[Spot]) -> Iterator[bytes]:
    for line in lines:
        for gap in line.gaps:
            if gap.spot in spots:
                yield from _undone(gap.removed, spots)
        if line.spot not in spots:
            yield line.text


def _is_back(file: ExpectedFile, spot: Spot, now: Sequence[bytes]) -> bool:
    """Return whether all lines that a hunk took out are back."""
    back = set(now)
    gaps = [gap for line in file.lines or () for gap in line.gaps if gap.spot == spot]
    return all(text in back for gap in gaps for text in gap.texts)


def _pairs(changes: Sequence[Change], old_len: int, new_len: int) -> dict[int, int]:
    """Return which current line is which line of the series' own."""
    pairs: dict[int, int] = {}
    old = new = 0
    for change in (*changes, Change(old_len, old_len, new_len, new_len)):
        for at in range(change.old_start - old):
            pairs[new + at] = old + at
        old, new = change.old_end, change.new_end
    return pairs


def _reading(
    change: Change, lines: Sequence[ExpectedLine], now: Sequence[bytes]
) -> tuple[set[Spot], int]:
    """Return the hunks that one reading of a change concerns, and how many lines none explains."""
    spots: set[Spot] = set()
    strangers = 0
    for line in lines[change.old_start : change.old_end]:
        if line.spot is None:
            strangers += 1
        else:
            spots.add(line.spot)
    new = now[change.new_start : change.new_end]
    explained: set[bytes] = set()
    for line in lines[change.old_start : change.old_end + 1]:
        for gap in (*line.gaps, *line.edges):
            if back := {text for text in gap.texts if text in new}:
                spots.add(gap.spot)
                explained |= back
    strangers += sum(text not in explained for text in new)
    inside = _inside(change, lines)
    if inside is not None:
        spots.add(inside)
    return spots, strangers


def _inside(change: Change, lines: Sequence[ExpectedLine]) -> Spot | None:
    """Return the hunk amid whose lines something was put in."""
    at = change.old_start
    if change.old_end != at or at == 0:
        return None
    before, after = lines[at - 1].spot, lines[at].spot
    return before if before is not None and before == after else None


def _slid(
    change: Change, above: Change, below: Change, texts: Sequence[bytes], now: Sequence[bytes]
) -> list[Change]:
    """Return every place at which a pure insertion or deletion may as well have been made."""
    inserted = change.old_start == change.old_end
    if not inserted and change.new_start != change.new_end:
        return [change]
    lines = now if inserted else texts
    start, end = (
        (change.new_start, change.new_end) if inserted else (change.old_start, change.old_end)
    )
    up = down = 0
    limit_up = min(change.old_start - above.old_end, change.new_start - above.new_end)
    while up < limit_up and lines[start - up - 1] == lines[end - up - 1]:
        up += 1
    limit_down = min(below.old_start - change.old_end, below.new_start - change.new_end)
    while down < limit_down and lines[start + down] == lines[end + down]:
        down += 1
    return [
        Change(
            change.old_start + by, change.old_end + by, change.new_start + by, change.new_end + by
        )
        for by in range(-up, down + 1)
    ]
