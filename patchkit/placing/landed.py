"""What a patch did to a target, and what its hunks would have brought that did not land."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchkit.diff.lines import Change
from patchkit.diff.model import FileChange
from patchkit.names.imports import module_of
from patchkit.outcome import Status
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.units import NEEDED, Fact, facts_added
from patchkit.placing.verdict import Verdict

Span = tuple[str, int, int]  # path, first and last line, 1-based and inclusive


@dataclass(frozen=True)
class Landing:
    """What a patch did to a target: a verdict a hunk, the new contents, where each hunk stands.

    `adapted` are the adaptations that hunks were placed by, `replays` those that came from
    remembered resolutions.
    """

    verdicts: Mapping[int, Verdict]
    contents: Mapping[str, bytes | None]
    modes: Mapping[str, int]
    spans: Mapping[int, Span]
    not_checked: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    replays: tuple[Adaptation, ...] = ()
    adapted: Mapping[int, Adaptation] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """What hunks that did not land would have introduced, and which hunk that was."""

    fact: Fact
    patch: str
    hunk: int

    @property
    def label(self) -> str:
        """The hunk as people write it."""
        return f"{self.patch}#{self.hunk}"


def authored_lines(file: PlannedFile, number: int) -> list[tuple[int, int]]:
    """Return the 1-based inclusive line ranges that a hunk adds to its authored file."""
    ranges, shift = [], 0
    if not file.jobs and file.authored is not None:
        return [(1, file.authored.count(b"\n") + 1)]
    for job in file.jobs:
        for run in job.runs:
            start = run.start + shift
            if job.number == number and run.lines:
                ranges.append((start + 1, start + len(run.lines)))
            shift += len(run.lines) - (run.end - run.start)
    return ranges


def removed_lines(file: PlannedFile, number: int) -> list[tuple[int, int]]:
    """Return the 1-based inclusive line ranges that a hunk takes from its base file."""
    return [
        (run.start + 1, run.end)
        for job in file.jobs
        for run in job.runs
        if job.number == number and run.end > run.start
    ]


def shift_lines(lines: tuple[int, int], changes: Sequence[Change]) -> tuple[int, int]:
    """Return where lines (first, last), 1-based and inclusive, stand after some changes."""
    first, last = lines
    low, high = first, last
    for change in changes:
        growth = (change.new_end - change.new_start) - (change.old_end - change.old_start)
        if change.old_end < first:
            low += growth
        if change.old_end <= last:
            high += growth
    return low, max(low, high)


def missing_from(plan: PatchPlan, landing: Landing) -> list[Missing]:
    """Return what others may need of what the hunks that did not land would have introduced."""
    result = []
    for file in plan.files:
        for number in file.numbers:
            if is_there(landing.verdicts[number]):
                continue
            lines = authored_lines(file, number)
            added = facts_added(file.base, file.authored, lines)
            module = module_of(file.section.path)
            named = [f._replace(owner=module) if f.kind == "name" else f for f in added]
            if file.section.change is FileChange.ADD:
                package, _, name = module.rpartition(".")
                named += [Fact("name", name, package, 1), Fact("name", module, "", 1)]
            result += [Missing(f, plan.patch.name, number) for f in named if f.kind in NEEDED]
    return result


def is_there(verdict: Verdict) -> bool:
    """Return whether the target holds the hunk's change now."""
    return verdict.status in (Status.PLACED, Status.ALREADY_UPSTREAM)
