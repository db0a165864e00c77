"""The files of a series as weaves: every line that ever was, who added it and who removed it.

A line that a patch removes stays where it was, marked. So the file can be read as it is without any
patch that the others do not build on, and a patch that touches what an earlier one did is seen:
the two do not commute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from patchkit.diff.model import FileChange, split_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.propose import HunkJob


class HunkId(NamedTuple):
    """A hunk of a series: the name of its patch and its number there, from 1."""

    patch: str
    number: int

    def __str__(self) -> str:
        return f"{self.patch}#{self.number}"


@dataclass(frozen=True, eq=False)
class Stroke:
    """One changed run of a hunk; `replaces` says whether it removes lines where it adds some."""

    hunk: HunkId
    replaces: bool


@dataclass(eq=False, slots=True)
class Cell:
    """One line that is or was in a file; `added` is None for a line of the base."""

    text: bytes
    added: Stroke | None = None
    removed: Stroke | None = None


class Touch(NamedTuple):
    """A hunk that touches what an earlier patch did.

    `kind` is "lines" (changes or parts lines that the earlier one added, or those around what it
    removed), "order" (adds lines in the very gap in which the earlier one did), "file" (works on a
    file that the earlier one made, moved or removed) or "context" (stands beside its lines: the two
    commute). `line` is 1-based, in the file that the later patch finds.
    """

    later: HunkId
    earlier: HunkId
    kind: str
    path: str
    line: int
    how: str


@dataclass
class FileWeave:
    """One file: its cells, and which hunk made, renamed or gave a mode to it as a whole."""

    cells: list[Cell]
    made: HunkId | None = None
    moved: HunkId | None = None
    mode: HunkId | None = None

    def seen(self) -> list[int]:
        """The indices of the lines that are there now."""
        return [i for i, cell in enumerate(self.cells) if cell.removed is None]

    def lines_without(self, gone: Collection[HunkId]) -> list[Cell]:
        """The lines that are there where some hunks are not made."""
        return [cell for cell in self.cells if is_there(cell, gone)]


def is_there(cell: Cell, gone: Collection[HunkId]) -> bool:
    """Return whether a line is in its file where some hunks are not made."""
    if cell.added is not None and cell.added.hunk in gone:
        return False
    return cell.removed is None or cell.removed.hunk in gone


@dataclass
class Weaves:
    """The files that several patches of a series change, as far as the series has been followed."""

    shared: Collection[str]
    files: dict[str, FileWeave] = field(default_factory=dict)
    gone: dict[str, HunkId] = field(default_factory=dict)  # paths, and what removed the file

    def follow(self, plan: PatchPlan) -> list[Touch]:
        """Take a patch in, and return how its hunks touch what those before it did."""
        touches: list[Touch] = []
        for file in plan.files:
            paths = {file.section.old_path, file.section.new_path}
            if any(path in self.shared or path in self.files for path in paths):
                touches += _Step(self, plan.patch.name, file).take()
        return list(dict.fromkeys(touches))


def weave(plans: Sequence[PatchPlan]) -> Weaves:
    """Return the weaves of a series, nothing followed yet: those of files that patches share."""
    counts: Counter[str] = Counter()
    for plan in plans:
        counts.update(
            {p for f in plan.files for p in (f.section.old_path, f.section.new_path) if p}
        )
    return Weaves(frozenset(path for path, count in counts.items() if count > 1))


class _Step:
    """One section taken into the weaves."""

    def __init__(self, weaves: Weaves, patch: str, file: PlannedFile) -> None:
        self.weaves = weaves
        self.patch = patch
        self.file = file
        self.first = HunkId(patch, file.numbers[0])
        self.touches: list[Touch] = []

    def take(self) -> list[Touch]:
        """Change the weave of the file, and return what that touches."""
        section = self.file.section
        old, new = section.old_path, section.new_path
        if section.change is FileChange.ADD:
            self._make(section.path)
            return self.touches
        assert old is not None
        woven = self.weaves.files.get(old)
        if woven is None:
            woven = FileWeave([Cell(line) for line in split_lines(self.file.base or b"")])
        if section.change is FileChange.COPY:
            woven = FileWeave([Cell(c.text, c.added) for c in woven.cells if not c.removed])
        self.weaves.files[new or old] = woven
        self._whole_file(woven, old)
        self._hunks(woven, old)
        if section.change is FileChange.RENAME and old != new:
            self.weaves.files.pop(old, None)
            self.weaves.gone[old] = woven.moved = self.first
        elif section.change is FileChange.DELETE:
            self.weaves.files.pop(old, None)
            self.weaves.gone[old] = self.first
        if section.new_mode is not None and section.new_mode != section.old_mode:
            woven.mode = self.first
        return self.touches

    def _make(self, path: str) -> None:
        if path in self.weaves.gone:
            self._touch(self.first, self.weaves.gone.pop(path), "file", path, 1, "removed")
        stroke = Stroke(self.first, replaces=False)
        lines = split_lines(self.file.authored or b"")
        woven = FileWeave([Cell(line, stroke) for line in lines], made=self.first)
        self.weaves.files[path] = woven

    def _whole_file(self, woven: FileWeave, path: str) -> None:
        """Every hunk needs the file that it works on."""
        numbers = [HunkId(self.patch, number) for number in self.file.numbers]
        for number in numbers:
            for owner, how in ((woven.made, "made"), (woven.moved, "moved")):
                if owner is not None:
                    self._touch(number, owner, "file", path, 1, how)
        section = self.file.section
        if woven.mode and section.new_mode is not None and section.new_mode != section.old_mode:
            self._touch(self.first, woven.mode, "file", path, 1, "mode")

    def _hunks(self, woven: FileWeave, path: str) -> None:
        seen = woven.seen()
        for job in self.file.jobs:
            self._context(job, woven.cells, seen, path)
        # from the end, so that what stands above keeps its place
        for job in reversed(self.file.jobs):
            hunk = HunkId(self.patch, job.number)
            for run in reversed(job.runs):
                stroke = Stroke(hunk, replaces=run.end > run.start)
                added = [Cell(line, stroke) for line in run.lines]
                if stroke.replaces:
                    low, high = seen[run.start], seen[run.end - 1] + 1
                    if not added:
                        self._slide(woven.cells, seen, run.start, run.end, hunk, path)
                    self._remove(woven.cells[low:high], stroke, path, run.start + 1)
                    woven.cells[high:high] = added
                else:
                    at = self._gap(woven.cells, seen, run.start, hunk, path)
                    woven.cells[at:at] = added

    def _remove(self, cells: Iterable[Cell], stroke: Stroke, path: str, line: int) -> None:
        for cell in cells:
            if cell.removed is not None:
                self._touch(stroke.hunk, cell.removed.hunk, "lines", path, line, "around")
                continue
            if cell.added is not None:
                self._touch(stroke.hunk, cell.added.hunk, "lines", path, line, "changes")
            cell.removed = stroke
            line += 1

    def _slide(
        self,
        cells: Sequence[Cell],
        seen: Sequence[int],
        start: int,
        end: int,
        hunk: HunkId,
        path: str,
    ) -> None:
        """Note whose lines a removal may mean as well: those beside it that read the same."""
        lines = [cells[i] for i in seen]
        up = down = 0
        while up < start and lines[start - up - 1].text == lines[end - up - 1].text:
            up += 1
        while end + down < len(lines) and lines[start + down].text == lines[end + down].text:
            down += 1
        for at in (*range(start - up, start), *range(end, end + down)):
            added = lines[at].added
            if added is not None and lines[at].text.strip():
                self._touch(hunk, added.hunk, "lines", path, at + 1, "changes")

    def _gap(
        self, cells: list[Cell], seen: Sequence[int], start: int, hunk: HunkId, path: str
    ) -> int:
        """Return where in the weave lines go that are added above a line."""
        low = seen[start - 1] + 1 if start else 0
        high = seen[start] if start < len(seen) else len(cells)
        above = cells[low - 1].added if low else None
        below = cells[high].added if high < len(cells) else None
        if above is not None and above is below:
            self._touch(hunk, above.hunk, "lines", path, start + 1, "inside")
            return high
        if below is not None and below.replaces:
            # What a run replaced lies above what it put there: what goes above it goes above both.
            while high > low and cells[high - 1].removed is below:
                high -= 1
        for cell in cells[low:high]:
            assert cell.removed is not None
            self._touch(hunk, cell.removed.hunk, "lines", path, start + 1, "where")
        for beside in (above, below):
            if beside is not None and not beside.replaces:
                self._touch(hunk, beside.hunk, "order", path, start + 1, "beside")
        return high

    def _context(self, job: HunkJob, cells: Sequence[Cell], seen: Sequence[int], path: str) -> None:
        count = len(job.hunk.old_lines)
        if not count:
            return
        hunk = HunkId(self.patch, job.number)
        line = job.start + 1
        for cell in cells[seen[job.start] : seen[job.start + count - 1] + 1]:
            for stroke in (cell.added, cell.removed):
                if stroke is not None:
                    self._touch(hunk, stroke.hunk, "context", path, line, "context")
            line += cell.removed is None

    def _touch(
        self, later: HunkId, earlier: HunkId, kind: str, path: str, line: int, how: str
    ) -> None:
        if earlier.patch != self.patch:
            self.touches.append(Touch(later, earlier, kind, path, line, how))


def strongest(touches: Iterable[Touch]) -> Iterator[Touch]:
    """Yield of each pair of hunks the touch that says most of how one binds the other."""
    best: dict[tuple[HunkId, HunkId], Touch] = {}
    for touch in touches:
        pair = touch.later, touch.earlier
        if pair not in best or _rank(touch) < _rank(best[pair]):
            best[pair] = touch
    yield from best.values()


def _rank(touch: Touch) -> tuple[int, bool, int]:
    return _ORDER.index(touch.kind), touch.how == "around", touch.line


_ORDER = ("lines", "file", "order", "context")
