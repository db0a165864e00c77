"""How far a series has been moved: what did not land, and what of the next patch waits for that.

What commutes with the missing hunks is placed as if they had never been. What needs one of them is
blocked by it, unless the target has it already or a person has adapted it to the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.diff.model import FileChange
from patchkit.names.unresolved import unresolved_beyond
from patchkit.outcome import Method, Status
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.file_edits import FileEdits, FileJob
from patchkit.placing.landed import (
    Landing,
    Missing,
    authored_lines,
    missing_from,
)
from patchkit.placing.landing import place_patch
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.verdict import Verdict
from patchkit.stacking.carry import carry_back, with_hunks
from patchkit.stacking.dependencies import Dependency, Followed
from patchkit.stacking.weave import HunkId
from patchkit.syntax.tree import NotPythonError
from patchkit.tree import PYTHON, SourceTree

LEFT_OUT = "left out on request"
_LANDED = (Status.PLACED, Status.ALREADY_UPSTREAM)
_BY_LINES = ("lines", "file")


@dataclass(frozen=True)
class Ready:
    """A patch as it is to be placed, the tree that it is then made on, and verdicts beforehand."""

    plan: PatchPlan
    base: SourceTree
    waiting: Mapping[int, Verdict] = field(default_factory=dict)


class Ledger:
    """The patches of a series that have been placed so far."""

    def __init__(
        self, plans: Sequence[PatchPlan], base: SourceTree, pristine: SourceTree | None = None
    ) -> None:
        self.full = base  # with every patch so far
        self.base = base  # with those hunks alone that landed
        self.gone: dict[HunkId, str] = {}
        self.missing: list[Missing] = []
        self._plans = list(plans)
        self._lower: frozenset[str] = frozenset()  # the patches of series below, by folder and name
        self._pristine = pristine or base  # without the series below as well
        self._followed = Followed(plans, self._pristine)
        self._behind: list[PatchPlan] = []  # not followed yet: not before something is gone
        self._entered: list[PatchPlan] = []  # whose names have not been taken in yet
        self._needs: list[Dependency] = []

    def below(self, folder: str, plans: Sequence[PatchPlan], base: SourceTree) -> Ledger:
        """Return the ledger of a series on top of this one, which its `base` holds in full.

        The patches of this one go by the name of their folder there.
        """

        def named(patch: str) -> str:
            return patch if patch in self._lower else f"{folder}/{patch}"

        mine = [replace(p, patch=replace(p.patch, name=named(p.patch.name))) for p in self._plans]
        above = Ledger([*mine, *plans], base, self._pristine)
        above._behind += mine
        above._entered += mine
        above._lower = frozenset(plan.patch.name for plan in mine)
        above.gone = {HunkId(named(h.patch), h.number): what for h, what in self.gone.items()}
        above.missing = [replace(m, patch=named(m.patch)) for m in self.missing]
        paths = {path for plan in self._plans for path in plan.after}
        above.base = base.with_changes(
            {
                path: self.base.files.get(path)
                for path in paths
                if self.base.files.get(path) != self.full.files.get(path)
            }
        )
        return above

    def prepare(
        self,
        plan: PatchPlan,
        target: SourceTree,
        adaptations: Sequence[Adaptation],
        banned: Mapping[int, Verdict],
    ) -> Ready:
        """Return the next patch as it can be placed without what did not land."""
        self._behind.append(plan)
        numbers = [number for file in plan.files for number in file.numbers]
        if not self.gone or all(number in banned for number in numbers):
            return Ready(plan, self.base)
        needs = self._catch_up()
        waiting = self._waiting(plan, needs)
        settled = self._settled(plan, target, adaptations, waiting)
        adapted = {n for adaptation in adaptations for n in adaptation.hunks}
        fixed = {f.section.path for f in plan.files if not adapted.isdisjoint(f.numbers)}
        while True:
            carried = self._carried(plan, waiting, fixed)
            more = {n: v for n, v in self._unbound(plan, carried) if n not in waiting}
            if not more:
                break
            waiting |= more
        here = {file.path_before: file.base for file in carried.files if file.base is not None}
        return Ready(carried, self.base.with_changes(here), {**waiting, **settled})

    def enter(self, plan: PatchPlan, ready: Ready, landing: Landing) -> None:
        """Take in what became of a patch."""
        for file in plan.files:
            for number in file.numbers:
                verdict = landing.verdicts[number]
                if verdict.status not in _LANDED:
                    left_out = verdict.reason == LEFT_OUT
                    what = f"is {LEFT_OUT}" if left_out else "did not land"
                    self.gone[HunkId(plan.patch.name, number)] = what
        self.missing += missing_from(plan, landing)
        self._entered.append(plan)
        self.full = self.full.with_changes(plan.after)
        self.base = ready.base.with_changes(dict(_landed(ready.plan, landing)))

    def _catch_up(self) -> list[Dependency]:
        """What the patch that comes next needs; only now is it worth the time to follow them."""
        found: list[Dependency] = []
        for plan in self._behind:
            found = [need for need in self._followed.by_lines(plan) if need.binds]
            self._needs += found
        for plan in self._entered:
            self._followed.bring(plan, self.gone)
        found += self._followed.by_names(self._behind[-1])
        self._behind.clear()
        self._entered.clear()
        return found

    def _waiting(self, plan: PatchPlan, needs: Iterable[Dependency]) -> dict[int, Verdict]:
        """The hunks that need what did not land, and those that share an edit with one of them."""
        found: dict[int, list[Dependency]] = {}
        for need in needs:
            if need.earlier in self.gone:
                found.setdefault(need.later.number, []).append(need)
        for file in plan.files if found else ():
            for tied in _tied(file):
                owner = next((n for n in tied if n in found), None)
                for number in tied if owner is not None else ():
                    found.setdefault(number, found[owner or 0])
        return {number: self._blocked(reasons) for number, reasons in found.items()}

    def _blocked(self, needs: Sequence[Dependency]) -> Verdict:
        first = needs[0]
        reason = f"{first.text}; {first.earlier} {self.gone[first.earlier]}"
        labels = dict.fromkeys(str(need.earlier) for need in needs)
        return Verdict(Status.BLOCKED, reason=reason, blocked_by=tuple(labels))

    def _settled(
        self,
        plan: PatchPlan,
        target: SourceTree,
        adaptations: Sequence[Adaptation],
        waiting: dict[int, Verdict],
    ) -> dict[int, Verdict]:
        """Take those out of the waiting hunks that are upstream already, or adapted to the target.

        Returned are the verdicts of those that the target has.
        """
        if not waiting:
            return {}
        landing = place_patch(plan, self.full, target, adaptations, {})
        there = {}
        for number in list(waiting):
            verdict = landing.verdicts[number]
            name = verdict.definition_before
            waiting[number] = replace(waiting[number], definition_before=name)
            if verdict.status is Status.ALREADY_UPSTREAM:
                there[number] = verdict
            if verdict.method is Method.ADAPTATION:
                del waiting[number]
        return there

    def _carried(
        self, plan: PatchPlan, waiting: Collection[int], fixed: Collection[str]
    ) -> PatchPlan:
        gone = set(self.gone) - self._relied_on(plan.patch.name)
        return carry_back(plan, self._followed.weaves, gone, waiting, fixed)

    def _relied_on(self, patch: str) -> set[HunkId]:
        """What did not land but is built on by hunks before a patch that landed all the same."""
        kept: set[HunkId] = set()
        for need in reversed(self._needs):
            built = need.later not in self.gone or need.later in kept
            if need.later.patch == patch:
                continue
            if need.kind in _BY_LINES and need.earlier in self.gone and built:
                kept.add(need.earlier)
        return kept

    def _unbound(self, plan: PatchPlan, carried: PatchPlan) -> Iterator[tuple[int, Verdict]]:
        """The hunks that would read names which only a missing hunk binds, by no known need."""
        whole = {file.section.path: file for file in plan.files}
        for file in carried.files:
            path = file.section.path
            if file is whole[path] or not path.endswith(PYTHON):
                continue
            try:
                names = unresolved_beyond(
                    whole[path].base or b"", whole[path].authored or b"",
                    file.base or b"", file.authored or b"",
                )  # fmt: skip
            except NotPythonError:
                continue
            labels = [hunk for hunk in self.gone if self._changed(hunk, path)]
            for name in names:
                for number in file.numbers:
                    if any(a <= name.line <= b for a, b in authored_lines(file, number)):
                        text = f"{name} without {labels[0]}, which {self.gone[labels[0]]}"
                        by = tuple(map(str, labels))
                        yield number, Verdict(Status.BLOCKED, reason=text, blocked_by=by)

    def _changed(self, hunk: HunkId, path: str) -> bool:
        strokes = (s for c in self._followed.weaves.files[path].cells for s in (c.added, c.removed))
        return any(stroke is not None and stroke.hunk == hunk for stroke in strokes)


def _tied(file: PlannedFile) -> Iterator[list[int]]:
    """The hunks of a section that share an edit, where there are several."""
    if len(file.jobs) < 2 or not file.section.path.endswith(PYTHON):
        return
    try:
        job = FileJob(file.section.path, file.base or b"", file.authored or b"", file.jobs)
        groups = FileEdits(job).groups
    except NotPythonError:
        return
    yield from ([hunk.number for hunk in group.hunks] for group in groups)


def _landed(plan: PatchPlan, landing: Landing) -> Iterator[tuple[str, bytes | None]]:
    """What the files of a patch's base become by those of its hunks that landed."""
    for file in plan.files:
        landed = {n for n in file.numbers if landing.verdicts[n].status in _LANDED}
        old, new = file.section.old_path, file.section.new_path
        content = with_hunks(file, landed)
        if not landed:
            continue
        if old and file.section.change in (FileChange.RENAME, FileChange.DELETE):
            yield old, None
        if new and content is not None:
            yield new, content
