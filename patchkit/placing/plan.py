"""A patch read against its base: which file becomes what, and where each hunk starts there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchkit.diff.apply import Applied, apply_exact, fit_line_endings
from patchkit.diff.model import FileChange, FilePatch, Hunk, Patch
from patchkit.diff.roots import Section, classify
from patchkit.errors import PatchkitError
from patchkit.placing.propose import HunkJob, runs_of
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class PlannedFile:
    """One section with the contents that it turns into each other; None where there is no file.

    `numbers` are the hunks' numbers in the patch, from 1; a section without hunks (a mode, a
    rename, an empty file) counts as one hunk.
    """

    section: FilePatch
    numbers: tuple[int, ...]
    base: bytes | None
    authored: bytes | None
    jobs: tuple[HunkJob, ...]

    @property
    def path_before(self) -> str:
        """The path in the base, or the new path of an added file."""
        return self.section.old_path or self.section.path


@dataclass(frozen=True)
class Unshipped:
    """A section for files that a wheel never holds: sources to build, tests, docs."""

    patch: str
    path: str
    section: Section
    hunks: int
    file: FilePatch


@dataclass(frozen=True)
class PatchPlan:
    """A whole patch against its base."""

    patch: Patch
    files: tuple[PlannedFile, ...]
    unshipped: tuple[Unshipped, ...]

    @property
    def after(self) -> dict[str, bytes | None]:
        """What the base's files become; None for a file that goes."""
        changes: dict[str, bytes | None] = {}
        for file in self.files:
            old, new = file.section.old_path, file.section.new_path
            if file.section.change in (FileChange.RENAME, FileChange.DELETE) and old:
                changes[old] = None
            if new and file.authored is not None:
                changes[new] = file.authored
        return changes

    @property
    def paths(self) -> frozenset[str]:
        """Every path that its sections name, in the tree before or after it."""
        sections = [file.section for file in self.files]
        return frozenset(p for s in sections for p in (s.old_path, s.new_path) if p is not None)


def plan_patch(patch: Patch, base: SourceTree) -> PatchPlan:
    """Return a patch whose paths are the tree's, read against the base.

    Raises PatchkitError where the patch does not fit its base: that is a mistake in the input, not
    an outcome.
    """
    files: list[PlannedFile] = []
    unshipped: list[Unshipped] = []
    contents: dict[str, bytes | None] = {}
    number = 1
    for section in patch.files:
        count = max(1, len(section.hunks))
        numbers = tuple(range(number, number + count))
        number += count
        kind = classify(section.path, tree=base)
        old = section.old_path
        if kind is not Section.SHIPPED and (old is None or old not in base.files):
            unshipped.append(Unshipped(patch.name, section.path, kind, count, section))
            continue
        before = _content(section, base, contents, patch.name)
        applied = _apply(section, before, patch.name)
        section, _ = fit_line_endings(section, before or b"")
        starts = [place.old[0] for place in applied.hunk_ranges]
        jobs = tuple(
            HunkJob(n, hunk, start, runs_of(hunk, start))
            for n, hunk, start in zip(numbers, section.hunks, starts, strict=False)
        )
        if section.change in (FileChange.RENAME, FileChange.DELETE) and old:
            contents[old] = None
        if section.new_path:
            contents[section.new_path] = applied.content
        files.append(PlannedFile(section, numbers, before, applied.content, jobs))
    return PatchPlan(patch, tuple(files), tuple(unshipped))


def _apply(section: FilePatch, content: bytes | None, patch: str) -> Applied:
    """The section applied to its base file; what does not fit is said with the patch's own name."""
    try:
        return apply_exact(section, content, allow_offset=True)
    except PatchkitError as error:
        hint = error.hint or "choose the base that the patch was cut against"
        fact = f"{error.place}: {error.fact}" if error.place else error.fact
        place = f"{patch}:{section.lineno}"
        raise PatchkitError(fact, place=place, expected=error.expected, hint=hint) from error


def _content(
    section: FilePatch, base: SourceTree, contents: Mapping[str, bytes | None], patch: str
) -> bytes | None:
    """The base's content for a section, changes of earlier sections included."""
    if section.change is FileChange.ADD:
        path = section.path
        existing = contents.get(path, base.files.get(path))
        if existing is not None:
            raise PatchkitError(
                f"adds {path}, which the base already has",
                place=f"{patch}:{section.lineno}",
                hint="choose the base that the patch was cut against",
            )
        return None
    path = section.old_path or section.path
    content = contents[path] if path in contents else base.files.get(path)
    if content is None:
        raise PatchkitError(
            f"changes {path}, which the base{' ' + base.name if base.name else ''} does not have",
            place=f"{patch}:{section.lineno}",
            hint="choose the base that the patch was cut against",
        )
    return content


def hunk_of(plan: PatchPlan, number: int) -> Hunk | None:
    """Return the hunk with a number, None where that number is a section without hunks."""
    for file in plan.files:
        for job in file.jobs:
            if job.number == number:
                return job.hunk
    return None
