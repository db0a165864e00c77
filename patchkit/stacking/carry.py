"""A patch as it would have been made without some hunks of the patches before it.

Only hunks that commute with those are carried back over them: the weave says where they stand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from patchkit.diff.model import FileChange, Hunk, Line
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.propose import HunkJob, Lines, runs_of
from patchkit.stacking.weave import Cell, FileWeave, HunkId, Weaves
from patchkit.syntax.edit import splice


def carry_back(
    plan: PatchPlan,
    weaves: Weaves,
    gone: Collection[HunkId],
    skipped: Collection[int],
    fixed: Collection[str] = (),
) -> PatchPlan:
    """Return a patch without its skipped hunks, on files as they are without the gone ones.

    `weaves` have followed the patch and none after it. Sections for `fixed` paths stay as they are.
    """
    counts = Counter(file.section.path for file in plan.files)
    files = []
    for file in plan.files:
        path = file.section.path
        woven = weaves.files.get(path)
        if path in fixed or counts[path] > 1:
            files.append(file)
        elif all(number in skipped for number in file.numbers):
            continue
        elif woven is None or not file.jobs or not _concerns(woven, gone):
            files.append(file)
        else:
            off = {*gone, *(HunkId(plan.patch.name, number) for number in skipped)}
            files.append(_carried(plan.patch.name, file, woven, off))
    return replace(plan, files=tuple(files))


def with_hunks(file: PlannedFile, landed: Collection[int]) -> bytes | None:
    """Return the file of a section with some of its hunks made; None where there is none then."""
    if not file.jobs:
        return file.authored if landed else file.base
    if file.section.change in (FileChange.ADD, FileChange.DELETE):
        return file.authored if landed else file.base
    lines = Lines(file.base or b"")
    runs = [run for job in file.jobs if job.number in landed for run in job.runs]
    return splice(lines.content, [lines.piece(r.start, r.end, r.lines) for r in runs])


def _concerns(woven: FileWeave, gone: Collection[HunkId]) -> bool:
    """Whether any of the gone hunks did something to a file."""
    strokes = (stroke for cell in woven.cells for stroke in (cell.added, cell.removed))
    return any(stroke is not None and stroke.hunk in gone for stroke in strokes)


def _carried(patch: str, file: PlannedFile, woven: FileWeave, off: set[HunkId]) -> PlannedFile:
    own = {HunkId(patch, number) for number in file.numbers}
    base = woven.lines_without(off | own)
    authored = woven.lines_without(off)
    old = {id(cell): line for line, cell in enumerate(base)}
    new = {id(cell): line for line, cell in enumerate(authored)}
    cells = [cell for cell in woven.cells if id(cell) in old or id(cell) in new]
    jobs: list[HunkJob] = []
    done = 0
    for job in file.jobs:
        if HunkId(patch, job.number) not in off:
            # what stood between two hunks may be gone: they share no line of context
            carried, done = _job(job, HunkId(patch, job.number), cells, done, old, new)
            jobs.append(carried)
    return replace(
        file,
        section=replace(file.section, hunks=tuple(job.hunk for job in jobs)),
        numbers=tuple(job.number for job in jobs),
        base=b"".join(cell.text for cell in base),
        authored=b"".join(cell.text for cell in authored),
        jobs=tuple(jobs),
    )


def _job(
    job: HunkJob,
    hunk: HunkId,
    cells: Sequence[Cell],
    done: int,
    old: dict[int, int],
    new: dict[int, int],
) -> tuple[HunkJob, int]:
    """A hunk among the lines that are there, with as many lines of context as it has.

    The first `done` cells belong to the hunks above; returned is also how many do then.
    """
    own = [i for i, cell in enumerate(cells) if _is_of(cell, hunk, old, new)]
    kinds = [line.kind for line in job.hunk.lines]
    lead = next(i for i, kind in enumerate(kinds) if kind != " ")
    trail = next(i for i, kind in enumerate(reversed(kinds)) if kind != " ")
    low, high = own[0], own[-1] + 1
    while lead and low > done and _is_kept(cells[low - 1], old, new):
        low, lead = low - 1, lead - 1
    while trail and high < len(cells) and _is_kept(cells[high], old, new):
        high, trail = high + 1, trail - 1
    lines = tuple(_lines(cells[low:high], old, new))
    start = sum(1 for cell in cells[:low] if id(cell) in old)
    new_start = sum(1 for cell in cells[:low] if id(cell) in new)
    old_count = sum(line.kind != "+" for line in lines)
    new_count = sum(line.kind != "-" for line in lines)
    carried = Hunk(
        start + bool(old_count), old_count, new_start + bool(new_count), new_count,
        job.hunk.section, lines, job.hunk.lineno,
    )  # fmt: skip
    return HunkJob(job.number, carried, start, runs_of(carried, start)), high


def _is_of(cell: Cell, hunk: HunkId, old: dict[int, int], new: dict[int, int]) -> bool:
    """Whether a hunk adds or removes a line."""
    if (id(cell) in old) == (id(cell) in new):
        return False
    stroke = cell.added if id(cell) in new else cell.removed
    return stroke is not None and stroke.hunk == hunk


def _is_kept(cell: Cell, old: dict[int, int], new: dict[int, int]) -> bool:
    return id(cell) in old and id(cell) in new


def _lines(cells: Sequence[Cell], old: dict[int, int], new: dict[int, int]) -> Iterator[Line]:
    for cell in cells:
        if _is_kept(cell, old, new):
            yield Line(" ", cell.text)
        else:
            yield Line("-" if id(cell) in old else "+", cell.text)
