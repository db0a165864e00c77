"""Where a move stops for a person, and how it goes on.

What is edited becomes an adaptation; a drift that is lived with becomes an acceptance.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchkit.diff import Hunk
from patchkit.diff.lines import Change, diff_lines
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome, Status
from patchkit.placing.acceptance import accept
from patchkit.placing.adaptation import definitions_around, make_adaptation
from patchkit.placing.landed import authored_lines, is_there, removed_lines
from patchkit.placing.landing import place_patch
from patchkit.placing.plan import hunk_of
from patchkit.placing.resolution import Resolution, make_resolution
from patchkit.placing.verdict import Verdict
from patchkit.report import outcome_json
from patchkit.repository.gitfolder import git_folder
from patchkit.repository.move import Request, SeriesMove
from patchkit.repository.note import OpenHunk, conflict_note
from patchkit.repository.session import (
    FILES,
    Edits,
    OpenFile,
    Settled,
    Skip,
    State,
    digest,
    folder_digest,
    lay_out,
)
from patchkit.stacking.rebase import RebasedPatch
from patchkit.syntax.outline import MODULE
from patchkit.syntax.unfinished import is_layout, unfinished
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class OpenPatch:
    """The first patch with hunks to settle, and both trees as they are before it."""

    move: SeriesMove
    patch: RebasedPatch
    outcomes: tuple[HunkOutcome, ...]
    base: SourceTree
    target: SourceTree

    @cached_property
    def laid_out(self) -> SourceTree:
        """The target with all that the patch can do to it but for the hunks that did not land."""
        return self.without(())

    def without(self, hunks: Iterable[int]) -> SourceTree:
        """Return the target with all other hunks of the patch, placed as if these were settled."""
        left = {*hunks, *(o.hunk for o in self.outcomes if not o.landed)}
        verdict = Verdict(Status.CONFLICTED, reason="to be settled by a person")
        adaptations = next(i.adaptations for i in self.move.inputs if i.name == self.patch.name)
        others = [a for a in adaptations if left.isdisjoint(a.hunks)]
        replays = [a for a in self.patch.landing.replays if left.isdisjoint(a.hunks)]
        replayed = {number for replay in replays for number in replay.hunks}
        others = [a for a in others if replayed.isdisjoint(a.hunks)] + replays
        landing = place_patch(
            self.patch.placed, self.base, self.target, others, dict.fromkeys(left, verdict)
        )
        return self.target.with_changes(dict(landing.contents), landing.modes)

    @property
    def files(self) -> tuple[OpenFile, ...]:
        """The files to edit, each with its hunks."""
        tree = self.laid_out
        hunks: dict[tuple[str | None, str], list[int]] = {}
        for outcome in self.outcomes:
            path = outcome.path_after or outcome.path_before
            known = path if path in tree.files else None
            hunks.setdefault((known, outcome.path_before), []).append(outcome.hunk)
        return tuple(
            OpenFile(path, digest(tree.files[path]) if path else None, tuple(numbers), before)
            for (path, before), numbers in hunks.items()
        )


def first_open(moves: Sequence[SeriesMove]) -> OpenPatch | None:
    """Return the first patch that a person has to settle, None where there is none.

    Hunks that only wait for others of the patch are not laid out: they land once those have.
    """
    for move in moves:
        if not move.open:
            continue
        target = move.result.target
        for patch in move.result.patches:
            here = tuple(o for o in move.open if o.patch == patch.name)
            if here:
                own = tuple(o for o in here if o.status is not Status.BLOCKED)
                return OpenPatch(move, patch, own or here, patch.base, target)
            target = target.with_changes(dict(patch.after))
    return None


def lay_out_stop(
    stopped: OpenPatch, moves: Sequence[SeriesMove], request: Request, place: str
) -> tuple[State, dict[str, bytes]]:
    """Return the state of a stopped move, and the content of its folder, which `place` names."""
    move, tree = stopped.move, stopped.laid_out
    state = State(
        target=request.target,
        is_release=request.is_release,
        base=request.base,
        output=str(request.output) if request.output else None,
        update=request.update,
        sources=sources_of(moves),
        series=move.stored.folder,
        release=move.stored.release,
        patch=stopped.patch.name,
        files=stopped.files,
        skips=request.skips,
        settled=request.settled,
        outcomes=tuple(
            {"series": m.stored.folder, **outcome_json(o)} for m in moves for o in m.result.outcomes
        ),
        stopped_at=request.stopped_at or time.time(),
    )
    copies = {file.path: tree.files[file.path] for file in stopped.files if file.path}
    hunks = [_open_hunk(stopped, outcome) for outcome in stopped.outcomes]
    note = conflict_note(
        stopped.patch.name, hunks, stopped.base, stopped.target, f"{place}/{FILES.rstrip('/')}"
    )
    return state, lay_out(state, copies, note)


def _open_hunk(stopped: OpenPatch, outcome: HunkOutcome) -> OpenHunk:
    patch = stopped.patch
    memory = next(i.memory for i in stopped.move.inputs if i.name == patch.name)
    known = [r for r in memory if outcome.hunk in (r.numbers_in(patch.plan) or ())]
    return OpenHunk(outcome, hunk_of(patch.plan, outcome.hunk), known)


def lay_out_git(stopped: OpenPatch, moves: Sequence[SeriesMove]) -> dict[str, bytes]:
    """Return the git folder whose work tree the laid out files are: how they came to be."""
    released, last = moves[0].result.target, stopped.laid_out
    paths = [file.path for file in stopped.files if file.path]
    states = [(f"{released.version or released.name} as released", released)]
    if any(stopped.target.files.get(p) != released.files.get(p) for p in paths):
        states.append(("What earlier patches make of it", stopped.target))
    states.append((f"What landed of {stopped.patch.name}", last))
    commits = [
        (message, {p: content for p in paths if (content := tree.files.get(p)) is not None})
        for message, tree in states
    ]
    return git_folder(commits, "rebase")


def sources_of(moves: Sequence[SeriesMove]) -> dict[str, str]:
    """Return what the moved release folders held, as digests."""
    return {move.stored.place: folder_digest(move.stored.files) for move in moves}


def request_of(state: State) -> Request:
    """Return the request that a stopped move began with, and what has been settled since."""
    output = Path(state.output) if state.output else None
    return Request(
        target=state.target,
        is_release=state.is_release,
        base=state.base,
        output=output,
        update=state.update,
        skips=state.skips,
        settled=state.settled,
        stopped_at=state.stopped_at,
    )


def settle(
    state: State,
    stopped: OpenPatch,
    edits: Edits,
    reason: str | None,
    place: str,
    *,
    accept_drifts: bool = False,
) -> tuple[Resolution, ...]:
    """Return the resolutions that a person's edits are; raises PatchkitError for what is left.

    Where drifts are accepted, a file in which nothing is open but drifts may be as it was laid out.
    """
    drifted = {o.hunk for o in stopped.outcomes if o.drifted} if accept_drifts else set()
    if accept_drifts and not drifted:
        raise PatchkitError(
            "no open hunk has drifted: there is nothing to accept",
            place=f"{state.series}/{state.patch}",
            hint="edit the files that are laid out, or --skip the patch",
        )
    left = [file for file in edits.untouched if not drifted.issuperset(file.hunks)]
    unaccepted = any(o.drifted for o in stopped.outcomes) and not accept_drifts
    _refuse_unfinished(state, replace(edits, untouched=tuple(left)), place, drifted=unaccepted)
    if not reason or not reason.strip():
        raise PatchkitError(
            "the edit needs a reason, which is stored with it"
            if edits.edited
            else "accepting a drift needs a reason, which is stored with it",
            place=f"{state.series}/{state.patch}",
            hint='give --reason "why the patch has to be different there"'
            if edits.edited
            else 'give --reason "why the patch is right on the changed ground"',
        )
    if stopped.files != state.files:
        raise PatchkitError(
            f"{state.target} is not what it was when the rebase stopped",
            place=place,
            hint="save your edits, `patchkit rebase --abort`, and begin again",
        )
    resolved = []
    for file in state.files:
        if file.path is None or file.path not in edits.edited:
            continue
        after = edits.edited[file.path]
        _refuse_spoilt(file.path, stopped.laid_out.files[file.path], after, place)
        hunks = _settled_too(stopped, file, after, place)
        before = stopped.without(hunks).files[file.path]
        adaptation = make_adaptation(
            release=stopped.target.version or stopped.target.name,
            path=file.path,
            hunks=[(n, _hunk(stopped.patch, n)) for n in hunks],
            before=before,
            after=after,
            reason=reason,
            authored_in=_authored_in(stopped.patch, hunks),
        )
        resolved.append(make_resolution(state.patch, adaptation, before, after))
    return tuple(resolved)


def accepted_drifts(
    state: State, moves: Sequence[SeriesMove], reason: str | None
) -> tuple[Settled, ...]:
    """Return the acceptance of all that drifted of the open patch's open hunks."""
    found = []
    for move in moves:
        if move.stored.folder != state.series:
            continue
        plan = next(p.plan for p in move.result.patches if p.name == state.patch)
        target = move.result.target
        for outcome in move.open:
            if outcome.patch == state.patch and outcome.hunk in state.hunks and outcome.drifted:
                hunk, release = hunk_of(plan, outcome.hunk), target.version or target.name
                accepted = accept(outcome.drifts, outcome.hunk, hunk, release, reason or "")
                found += [Settled(state.series, state.patch, one) for one in accepted]
    return tuple(found)


def refuse_what_does_not_hold(
    settled: Sequence[Settled], moves: Sequence[SeriesMove], place: str
) -> None:
    """Raise PatchkitError where an edit did not settle its hunks, so that it is not lost."""
    problems = []
    for item in settled:
        move = next(move for move in moves if move.stored.folder == item.series)
        for outcome in move.open:
            if outcome.patch == item.patch and outcome.hunk in item.hunks:
                why = "; ".join(d.text for d in outcome.drifts) or outcome.reason or outcome.status
                problems.append(f"hunk {outcome.hunk}: {why}")
    if problems:
        raise PatchkitError(
            "the edit does not settle " + "; ".join(problems),
            place=f"{settled[0].series}/{settled[0].patch}",
            hint=f"your edit is kept in {place}/files; edit again, --skip or --abort",
        )


def skip_of(state: State, hunks: Sequence[int]) -> Skip:
    """Return what is to be left out of the open patch: the given hunks, or all of it."""
    place = f"{state.series}/{state.patch}"
    for hunk in hunks:
        if hunk not in state.hunks:
            raise PatchkitError(
                f"hunk {hunk} is not open",
                place=place,
                expected="one of " + ", ".join(map(str, state.hunks)),
            )
    return Skip(state.series, state.patch, tuple(sorted(set(hunks))) if hunks else None)


def _refuse_unfinished(state: State, edits: Edits, place: str, *, drifted: bool) -> None:
    if edits.strays:
        raise PatchkitError(
            f"{', '.join(edits.strays)} is not among the files to edit",
            place=f"{place}/files",
            expected=", ".join(file.path for file in state.files if file.path) or "none",
        )
    if edits.untouched:
        lines = [_untouched(file, place) for file in edits.untouched]
        raise PatchkitError(
            "not settled yet: " + "; ".join(lines),
            place=f"{state.series}/{state.patch}",
            hint="edit each file, "
            + ("say --accept-drift where what drifted is right as it landed, " if drifted else "")
            + "or leave the patch out with `patchkit rebase --skip --yes`",
        )


def _refuse_spoilt(path: str, laid_out: bytes, after: bytes, place: str) -> None:
    """Raise PatchkitError for an edit that nobody can have meant."""
    where = f"{place}/files/{path}"
    problem = unfinished(path, laid_out, after)
    if problem is None and laid_out.strip() and not after.strip():
        problem = "nothing is left in the file"
    if problem is not None:
        raise PatchkitError(problem, place=where, hint="edit it again; nothing was stored")
    if is_layout(laid_out, after):
        raise PatchkitError(
            "nothing was changed but blank lines and the ends of lines",
            place=where,
            hint="edit it, or leave the patch out with `patchkit rebase --skip --yes`",
        )


def _settled_too(stopped: OpenPatch, file: OpenFile, after: bytes, place: str) -> tuple[int, ...]:
    """Return the hunks that an edit settles: the open ones, and those that had landed whose lines
    it changes. Raises PatchkitError where it takes one back, which is no way to leave it out.
    """
    assert file.path is not None
    laid_out = stopped.laid_out.files[file.path].splitlines(keepends=True)
    edited = after.splitlines(keepends=True)
    edits = diff_lines(laid_out, edited)
    found = set(file.hunks)
    for number, verdict in stopped.patch.landing.verdicts.items():
        elsewhere = verdict.path != file.path or hunk_of(stopped.patch.plan, number) is None
        if number in file.hunks or elsewhere or not is_there(verdict):
            continue
        without = stopped.without((number,)).files.get(file.path, b"").splitlines(keepends=True)
        own = diff_lines(laid_out, without)
        if own and all(any(_takes_back(edit, o, edited, without) for edit in edits) for o in own):
            raise PatchkitError(
                f"takes back hunk {number}, which had landed",
                place=f"{place}/files/{file.path}",
                hint="put its lines back; to be rid of it, `patchkit split` and `patchkit drop` it "
                "in the stored series first",
            )
        if any(e.old_start < o.old_end and o.old_start < e.old_end for e in edits for o in own):
            found.add(number)
    return tuple(sorted(found))


def _takes_back(
    edit: Change, own: Change, edited: Sequence[bytes], without: Sequence[bytes]
) -> bool:
    """Whether an edit makes of the lines of a hunk what they were without it."""
    old = without[own.new_start : own.new_end]
    new = edited[edit.new_start : edit.new_end]
    covers = edit.old_start <= own.old_start and own.old_end <= edit.old_end
    taken = any(new[i : i + len(old)] == old for i in range(len(new))) if old else not new
    return covers and taken


def _untouched(file: OpenFile, place: str) -> str:
    hunks = f"hunk{'s' if len(file.hunks) > 1 else ''} {', '.join(map(str, file.hunks))}"
    if file.path is None:
        return f"{hunks}, whose {file.path_before} the target does not have"
    return f"{hunks}, in {place}/files/{file.path}"


def _authored_in(patch: RebasedPatch, hunks: Sequence[int]) -> set[str]:
    """The definitions that some hunks change in the base; what is outside of any has no name."""
    found: set[str] = set()
    for file in patch.plan.files:
        for job in file.jobs:
            if job.number in hunks:
                lines = removed_lines(file, job.number), authored_lines(file, job.number)
                around = definitions_around(file.base or b"", file.authored or b"", *lines)
                found.update((around or MODULE).split(", "))
    return found - {MODULE}


def _hunk(patch: RebasedPatch, number: int) -> Hunk:
    hunk = hunk_of(patch.plan, number)
    if hunk is None:
        raise PatchkitError(
            f"hunk {number} is a change of name or mode, which no edit can stand for",
            place=patch.name,
            hint=f"leave it out with `patchkit rebase --skip --hunk {number} --yes`",
        )
    return hunk
