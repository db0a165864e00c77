"""Moving patches from a base to a target: the run over a series, and what it returns.

Patches are taken in order; each is placed on what the ones before it made of the target. A run
always finishes and reports every hunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.diff import diff_files, format_patch, parse_mbox, parse_patch
from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import Patch
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome, Status
from patchkit.placing.acceptance import Acceptance, split_accepted
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.drift import OpenMadeOn, drifts_of
from patchkit.placing.landed import Landing, Missing, Span, missing_from, shift_lines
from patchkit.placing.plan import PatchPlan, Unshipped, hunk_of, plan_patch
from patchkit.placing.replay import land_remembering
from patchkit.placing.resolution import Resolution
from patchkit.placing.verdict import Verdict
from patchkit.stacking.ledger import LEFT_OUT, Ledger, Ready
from patchkit.surface.defined import DriftReport
from patchkit.syntax.tree import at_ease
from patchkit.tree import SourceTree, as_tree

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PatchInput:
    """A patch of a series: its name, its bytes, and what people decided on it.

    `left_out` are the hunks that a person does not want in the target, None for all of them.
    `memory` are resolutions of earlier moves, replayed where a hunk does not land by itself.
    """

    name: str
    data: bytes
    adaptations: tuple[Adaptation, ...] = ()
    left_out: frozenset[int] | None = frozenset()
    acceptances: tuple[Acceptance, ...] = ()
    memory: tuple[Resolution, ...] = ()


@dataclass(frozen=True)
class RebasedPatch:
    """One patch after the move.

    `before` and `after` hold the target files that it changes, None where there is no file; `data`
    is the patch as it would be stored for the target, empty where nothing is left of it. `placed`
    is the patch without what waits for earlier hunks that did not land, as if those had never been,
    and `base` the tree that it is then made on.
    """

    name: str
    preamble: bytes
    before: Mapping[str, bytes | None]
    after: Mapping[str, bytes | None]
    data: bytes
    plan: PatchPlan = field(repr=False)
    landing: Landing = field(repr=False)
    placed: PatchPlan = field(repr=False)
    base: SourceTree = field(repr=False)


@dataclass(frozen=True)
class RebaseResult:
    """What became of every hunk, and the target with everything that landed.

    `unshipped` lists the sections for files that the base tree does not hold by its nature;
    `notes` what was tolerated in reading the patches. `ledger` is what a series on top needs to
    know of this one.
    """

    base: SourceTree
    target: SourceTree
    tree: SourceTree
    outcomes: tuple[HunkOutcome, ...]
    patches: tuple[RebasedPatch, ...]
    unshipped: tuple[Unshipped, ...] = ()
    notes: tuple[str, ...] = ()
    ledger: Ledger | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there are hunks and every one is placed or already upstream."""
        return bool(self.outcomes) and all(outcome.landed for outcome in self.outcomes)

    @property
    def drifted(self) -> bool:
        """Whether something landed on ground that changed."""
        return any(outcome.drifted for outcome in self.outcomes)


def port(
    patches: Sequence[bytes],
    base: SourceTree | Mapping[str, bytes],
    target: SourceTree | Mapping[str, bytes],
) -> RebaseResult:
    """Return plain patches moved from one tree to another; nothing is written.

    A tree is a `SourceTree` or a mapping of posix paths to bytes, which may be partial. Raises
    `PatchkitError` for a patch that cannot be read or does not fit its base.
    """
    named = ((f"patch-{n}", data) for n, data in enumerate(patches, start=1))
    inputs = [entry for name, data in named for entry in read_inputs(data, name)]
    return rebase_series(inputs, as_tree(base, name="base"), as_tree(target, name="target"))


def read_inputs(data: bytes, name: str) -> list[PatchInput]:
    """Return the patches of a file: one, or one for each mail of a mailbox."""
    patches = parse_mbox(data, name)
    if len(patches) == 1:
        return [PatchInput(name, data)]
    return [PatchInput(patch.name, format_patch(patch)) for patch in patches]


def rebase_series(
    patches: Sequence[PatchInput],
    base: SourceTree,
    target: SourceTree,
    *,
    below: tuple[str, RebaseResult] | None = None,
    made_on: OpenMadeOn | None = None,
    progress: Progress | None = None,
) -> RebaseResult:
    """Return a series moved from base to target. Raises PatchkitError before anything is placed.

    `below` is the folder of the series that it is on top of, and what became of that: both trees
    hold it, `base` in full. `made_on` gives the tree of a release that an adaptation was made for,
    None where it cannot.
    """
    if not patches:
        raise PatchkitError("no patch given", hint="name at least one patch file")
    with at_ease():
        return _rebase(patches, base, target, below, made_on, progress)


def _rebase(
    patches: Sequence[PatchInput],
    base: SourceTree,
    target: SourceTree,
    below: tuple[str, RebaseResult] | None,
    made_on: OpenMadeOn | None,
    progress: Progress | None,
) -> RebaseResult:
    plans, notes = plan_all(patches, base)
    ledger = Ledger(plans, base)
    if below is not None and below[1].ledger is not None:
        ledger = below[1].ledger.below(below[0], plans, base)
    run = _Run(ledger, target, made_on)
    if progress is not None:
        progress(patches[0].name, 0, len(plans))
    for number, (patch, plan) in enumerate(zip(patches, plans, strict=True), start=1):
        run.land(patch, plan)
        if progress is not None:
            progress(patch.name, number, len(plans))
    outcomes = tuple(o for outcome in run.outcomes for o in outcome)
    unshipped = tuple(u for plan in plans for u in plan.unshipped)
    return RebaseResult(
        base, target, run.target, outcomes, tuple(run.patches), unshipped, tuple(notes), ledger
    )


def plan_all(patches: Sequence[PatchInput], base: SourceTree) -> tuple[list[PatchPlan], list[str]]:
    """Every patch read against the base with those before it applied; nothing is placed yet."""
    plans, notes = [], []
    for patch in patches:
        parsed = parse_patch(patch.data, patch.name)
        resolved, root_notes = resolve_roots(parsed, base)
        found = dict.fromkeys([*parsed.notes, *root_notes, *resolved.notes])
        notes += [f"{patch.name}:{note.lineno}: {note.text}" for note in found]
        plan = plan_patch(resolved, base)
        plans.append(plan)
        base = base.with_changes(plan.after)
    return plans, notes


def _left_out(patch: PatchInput, plan: PatchPlan) -> dict[int, Verdict]:
    """The hunks of a patch that are left out on request."""
    numbers = [n for file in plan.files for n in file.numbers]
    chosen = numbers if patch.left_out is None else sorted(patch.left_out)
    unknown = sorted(set(chosen) - set(numbers))
    if unknown:
        raise PatchkitError(
            f"hunk {unknown[0]} is to be left out, but there is none", place=patch.name
        )
    return {n: Verdict(Status.CONFLICTED, reason=LEFT_OUT) for n in chosen}


class _Run:
    """The state of a run: how far base and target have come, and what did not land so far."""

    def __init__(self, ledger: Ledger, target: SourceTree, made_on: OpenMadeOn | None) -> None:
        self.target = target
        self.made_on = made_on
        self.ledger = ledger
        self.outcomes: list[list[HunkOutcome]] = []
        self.patches: list[RebasedPatch] = []

    def land(self, patch: PatchInput, plan: PatchPlan) -> None:
        """Place one patch and take its result as the new state."""
        before = self.target
        banned = _left_out(patch, plan)
        ready = self.ledger.prepare(plan, before, patch.adaptations, banned)
        landing, after, drifts = self._landed(patch, plan, ready, banned)
        again = _unaccepted(plan, drifts, patch.acceptances) if patch.memory else set()
        if again:
            # it lands, but a person has to settle it: that may be remembered as well
            landing, after, drifts = self._landed(patch, plan, ready, banned, again)
        verdicts = {**ready.waiting, **banned, **landing.verdicts}
        landing = replace(landing, verdicts=verdicts)
        self._shift_outcomes(before, landing)
        self.outcomes.append(_outcomes(plan, landing, drifts, patch.acceptances))
        self.patches.append(_rebased(plan, landing, before, after, ready))
        self.ledger.enter(plan, ready, landing)
        self.target = after

    def _landed(
        self,
        patch: PatchInput,
        plan: PatchPlan,
        ready: Ready,
        banned: Mapping[int, Verdict],
        unsettled: Collection[int] = (),
    ) -> tuple[Landing, SourceTree, dict[int, DriftReport]]:
        """What a patch does to the target, the target after it, and what has drifted."""
        before = self.target
        landing = land_remembering(
            ready.plan, ready.base, before,
            memory=patch.memory,
            adaptations=patch.adaptations,
            missing=[*self.ledger.missing, *_withheld(plan, ready)],
            banned={**ready.waiting, **banned},
            unsettled=unsettled,
        )  # fmt: skip
        after = before.with_changes(landing.contents, landing.modes)
        return (
            landing,
            after,
            drifts_of(ready.plan, landing, ready.base, before, after, self.made_on),
        )

    def _shift_outcomes(self, before: SourceTree, landing: Landing) -> None:
        """Move the lines of earlier outcomes by what this patch does above them."""
        for path, content in landing.contents.items():
            old = before.files.get(path)
            if old is None or content is None:
                continue
            changes = diff_lines(old.splitlines(True), content.splitlines(True))
            for outcomes in self.outcomes:
                outcomes[:] = [_shifted(o, path, changes) for o in outcomes]


def _unaccepted(
    plan: PatchPlan, drifts: Mapping[int, DriftReport], acceptances: Sequence[Acceptance]
) -> set[int]:
    """The hunks that have drifted, and nobody has accepted it."""
    found = ((n, hunk_of(plan, n), report.drifts) for n, report in drifts.items())
    return {n for n, hunk, some in found if split_accepted(some, n, hunk, acceptances)[0]}


def _withheld(plan: PatchPlan, ready: Ready) -> list[Missing]:
    """What the hunks that wait for earlier ones would bring to the others of their patch."""
    there = Verdict(Status.PLACED)
    numbers = [n for file in plan.files for n in file.numbers]
    verdicts = {n: ready.waiting.get(n, there) for n in numbers}
    return missing_from(plan, Landing(verdicts, {}, {}, {}))


def _shifted(outcome: HunkOutcome, path: str, changes: Sequence[Change]) -> HunkOutcome:
    if outcome.path_after != path or outcome.target_lines is None:
        return outcome
    return replace(outcome, target_lines=shift_lines(outcome.target_lines, changes))


def _outcomes(
    plan: PatchPlan,
    landing: Landing,
    drifts: Mapping[int, DriftReport],
    acceptances: Sequence[Acceptance],
) -> list[HunkOutcome]:
    result = []
    for file in plan.files:
        for number in file.numbers:
            verdict = landing.verdicts[number]
            span: Span | None = landing.spans.get(number)
            placed = verdict.status is Status.PLACED
            report = drifts.get(number, DriftReport())
            hunk = hunk_of(plan, number)
            left, accepted = split_accepted(report.drifts, number, hunk, acceptances)
            result.append(
                HunkOutcome(
                    patch=plan.patch.name,
                    hunk=number,
                    status=verdict.status,
                    path_before=file.path_before,
                    path_after=verdict.path,
                    definition_before=verdict.definition_before,
                    definition_after=verdict.definition_after,
                    method=verdict.method,
                    evidence=verdict.evidence,
                    drifts=left,
                    accepted=accepted,
                    target_lines=(span[1], span[2]) if span and placed else None,
                    reason=verdict.reason,
                    candidates=verdict.candidates,
                    blocked_by=verdict.blocked_by,
                    not_checked=(*landing.not_checked.get(number, ()), *report.not_checked),
                    renames=verdict.renames,
                    rejected=verdict.rejected,
                    clash=verdict.clash if verdict.status in _CLASHING else None,
                    replayed=verdict.replayed,
                )
            )
    return result


_CLASHING = (Status.CONFLICTED, Status.PARTLY_UPSTREAM)


def _rebased(
    plan: PatchPlan, landing: Landing, before: SourceTree, after: SourceTree, ready: Ready
) -> RebasedPatch:
    old = {path: before.files.get(path) for path in landing.contents}
    new = {path: after.files.get(path) for path in landing.contents}
    for path in landing.modes:
        old.setdefault(path, before.files.get(path))
        new.setdefault(path, after.files.get(path))
    files = diff_files(
        {p: c for p, c in old.items() if c is not None},
        {p: c for p, c in new.items() if c is not None},
        before.modes,
        after.modes,
    )
    preamble = plan.patch.preamble
    # Sections for sources, tests and docs go along as they are: a wheel cannot judge them.
    rest = tuple(u.file for u in plan.unshipped)
    kept = bool(files) or not plan.files  # one that changes nothing else stays as it is
    data = format_patch(Patch(plan.patch.name, preamble, (*files, *rest))) if kept else b""
    return RebasedPatch(
        plan.patch.name, preamble, old, new, data, plan, landing, ready.plan, ready.base
    )
