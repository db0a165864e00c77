"""Proposals: where the text engines of the cascade would put a hunk. A proposal decides nothing.

Exact: the hunk's whole old text at its stated line. Offset: the same text exactly once in the file.
Merge: each changed run between its own two neighbours, inside one definition and its correspondent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchkit.diff.lines import match_lines
from patchkit.diff.model import Hunk, split_lines
from patchkit.outcome import Evidence, Method
from patchkit.placing.merge3 import Run, place_run

Piece = tuple[int, int, bytes]


@dataclass(frozen=True)
class Region:
    """Lines [start, end), 0-based, of base and target that correspond; `shift` is the difference
    in indentation, in bytes, that the target's have."""

    base: tuple[int, int]
    target: tuple[int, int]
    shift: int = 0


@dataclass(frozen=True)
class HunkJob:
    """A hunk of the authored patch: its number, its first base line (0-based), its changed runs."""

    number: int
    hunk: Hunk
    start: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Proposal:
    """Bytes of one target file to be replaced, by which method, for which reason."""

    path: str
    method: Method
    pieces: tuple[Piece, ...]
    evidence: Evidence


def runs_of(hunk: Hunk, start: int) -> tuple[Run, ...]:
    """Return the changed runs of a hunk whose old lines begin at base line `start` (0-based)."""
    runs: list[Run] = []
    position = begin = start
    added: list[bytes] = []
    for line in (*hunk.lines, None):
        if line is None or line.kind == " ":
            if added or position > begin:
                runs.append(Run(begin, position, tuple(added)))
            position += 1
            begin, added = position, []
        elif line.kind == "-":
            position += 1
        else:
            added.append(line.text)
    return tuple(runs)


class Lines:
    """A text by lines, with the byte offset of each."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.lines = split_lines(content)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def piece(self, start: int, end: int, lines: Sequence[bytes]) -> Piece:
        """Return the byte piece that replaces lines [start, end)."""
        return (self.starts[start], self.starts[end], b"".join(lines))


def by_text(job: HunkJob, target: Lines, path: str) -> Proposal | None:
    """Return where a hunk's whole old text stands: at its own line, else at its only place."""
    old = job.hunk.old_lines
    if not old:
        return None  # nothing to recognise a place by
    if target.lines[job.start : job.start + len(old)] == old:
        evidence = Evidence("exact", f"all {len(old)} old lines stand at line {job.start + 1}")
        return Proposal(path, Method.EXACT, _pieces(job, target, 0), evidence)
    places = _occurrences(old, target)
    if len(places) != 1:
        return None
    offset = places[0] - job.start
    text = f"all {len(old)} old lines stand once in the file, {offset:+d} lines away"
    return Proposal(path, Method.OFFSET, _pieces(job, target, offset), Evidence("offset", text))


def _pieces(job: HunkJob, target: Lines, offset: int) -> tuple[Piece, ...]:
    return tuple(target.piece(r.start + offset, r.end + offset, r.lines) for r in job.runs)


def _occurrences(old: list[bytes], target: Lines) -> list[int]:
    """The lines at which a run of lines stands; two at most are looked for."""
    text = b"".join(old)
    index = {start: line for line, start in enumerate(target.starts)}
    found: list[int] = []
    position = target.content.find(text)
    while position >= 0 and len(found) < 2:
        line = index.get(position)
        if line is not None and target.lines[line : line + len(old)] == old:
            found.append(line)
        position = target.content.find(text, position + 1)
    return found


def text_misfit(job: HunkJob, target: Lines) -> str | None:
    """Return why a hunk's whole old text says no place, None where it does."""
    old = job.hunk.old_lines
    if not old:
        return "it has no old line to recognise a place by"
    if target.lines[job.start : job.start + len(old)] == old:
        return None
    count = len(_occurrences(old, target))
    if count == 1:
        return None
    where = "more than once in the file" if count else "nowhere in the file as they are"
    return f"its {len(old)} old lines stand {where}"


class Merger:
    """Places runs by three-way alignment of regions; alignments are made once a region."""

    def __init__(self, base: Lines, target: Lines) -> None:
        self.base = base
        self.target = target
        self._mappings: dict[Region, dict[int, int]] = {}

    def whole(self) -> Region:
        """The region that is the whole file."""
        return Region((0, len(self.base.lines)), (0, len(self.target.lines)))

    def place(self, run: Run, region: Region) -> Piece | None:
        """Return the piece for a run, None where its lines or neighbours changed."""
        if not (region.base[0] <= run.start and run.end <= region.base[1]):
            return None
        place = place_run(run, region.base, region.target, self.mapping(region))
        if place is None:
            return None
        return self.target.piece(*place, [shift_line(line, region.shift) for line in run.lines])

    def misfit(self, run: Run, region: Region) -> str | None:
        """Return why a run has no piece, None where it has one."""
        if self.place(run, region) is not None:
            return None
        mapping = self.mapping(region)
        low, high = max(run.start - 1, region.base[0]), min(run.end + 1, region.base[1])
        lost = [number for number in range(low, high) if number not in mapping]
        said = [number for number in lost if self.base.lines[number].strip()]
        for number in said or lost:
            text = self.base.lines[number].strip().decode("utf-8", "replace")
            what = f"line {number + 1} of the base, " + (f"`{text}`" if text else "a blank one")
            return f"{what}, has no counterpart in its place"
        return "something new stands between the lines that it changes and those next to them"

    def mapping(self, region: Region) -> dict[int, int]:
        """Return which target line each base line of a region is."""
        if region not in self._mappings:
            old = self.base.lines[slice(*region.base)]
            new = self.target.lines[slice(*region.target)]
            shifted = [shift_line(line, region.shift) for line in old]
            self._mappings[region] = {
                i + region.base[0]: j + region.target[0] for i, j in match_lines(shifted, new)
            }
        return self._mappings[region]


def shift_line(line: bytes, shift: int) -> bytes:
    """Return a line indented by `shift` more bytes (fewer where negative); blank lines stay."""
    if not shift or not line.strip():
        return line
    if shift > 0:
        return b" " * shift + line
    return line[-shift:] if not line[:-shift].strip() else line
