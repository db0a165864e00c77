"""One patch on one target: every section placed, then the result as a whole checked.

A hunk can be right in itself and still not stand: a name that it needs was to come from a hunk that
did not land, or what it adds is there already under another roof. Such hunks are taken out again,
with the reason, and the patch is placed anew without them until what is left holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.diff.lines import diff_lines
from patchkit.diff.model import Hunk
from patchkit.errors import PatchkitError
from patchkit.outcome import Method, Replayed, Status
from patchkit.placing.adaptation import (
    Adaptation,
    Replay,
    apply_adaptation,
    check_adaptation,
    definitions_around,
    key_of,
)
from patchkit.placing.landed import Landing, Missing, Span, authored_lines, shift_lines
from patchkit.placing.place_file import place_file
from patchkit.placing.placers import Placers
from patchkit.placing.plan import PatchPlan
from patchkit.placing.standing import unchecked, violations
from patchkit.placing.verdict import Verdict
from patchkit.tree import SourceTree


@dataclass
class _Draft:
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)


def land_patch(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    *,
    adaptations: Sequence[Adaptation] = (),
    missing: Sequence[Missing] = (),
    banned: Mapping[int, Verdict] | None = None,
) -> Landing:
    """Return what a patch does to a target.

    `missing` is what earlier patches did not land; `banned` hunks keep the verdict given.
    """
    stopped = dict(banned or {})
    placers = Placers()
    while True:
        landing = place_patch(plan, base, target, adaptations, stopped, placers)
        found = violations(plan, base, target, landing, missing, placers)
        new = {n: v for n, v in found.items() if n not in stopped}
        if not new:
            return replace(landing, not_checked=unchecked(plan, target, landing))
        stopped.update(new)


def place_patch(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    adaptations: Sequence[Adaptation],
    banned: Mapping[int, Verdict],
    placers: Placers | None = None,
) -> Landing:
    """Return every section placed, with no check of the whole.

    `placers` are those of the patch in an earlier round.
    """
    draft = _Draft()
    placers = placers or Placers()
    adaptations = _one_each(plan, base, target, adaptations, banned, placers)
    usable, stopped = _choose(plan, target, adaptations, banned)
    base_now, target_now = base, target
    for file in plan.files:
        placement = place_file(file, base_now, target_now, stopped, placers)
        draft.verdicts.update(placement.verdicts)
        draft.contents.update(placement.contents)
        draft.modes.update(placement.modes)
        if placement.contents:
            target_now = target_now.with_changes(placement.contents, placement.modes)
    spans = _spans(draft)
    for adaptation in usable:
        _adapt(adaptation, draft, spans, plan, target)
    adapted = {number: adaptation for adaptation in usable for number in adaptation.hunks}
    return Landing(draft.verdicts, draft.contents, draft.modes, spans, adapted=adapted)


# Adaptations -------------------------------------------------------------------------------------


def _one_each(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    adaptations: Sequence[Adaptation],
    banned: Mapping[int, Verdict],
    placers: Placers,
) -> list[Adaptation]:
    """The adaptations without those that another one for the same hunk goes before.

    The one for the very release goes first, then the one that was made last; among them the first
    that holds is taken. Where none holds, the first of them says why.
    """
    own = [a for a in adaptations if a.release == target.version]
    ranked = [*own, *(a for a in reversed(adaptations) if a not in own)]
    kept: list[Adaptation] = []
    while ranked:
        first = ranked[0]
        rivals = [a for a in ranked if not set(a.hunks).isdisjoint(first.hunks)]
        if len(rivals) > 1:
            first = next(
                (a for a in rivals if _holds(plan, base, target, a, banned, placers)), first
            )
        kept.append(first)
        ranked = [a for a in ranked if set(a.hunks).isdisjoint(first.hunks)]
    return [a for a in adaptations if a in kept]


def _holds(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    adaptation: Adaptation,
    banned: Mapping[int, Verdict],
    placers: Placers,
) -> bool:
    """Whether an adaptation lands on the target with all else that the patch does to it."""
    alone = place_patch(plan, base, target, [adaptation], banned, placers)
    return all(alone.verdicts[n].method is Method.ADAPTATION for n in adaptation.hunks)


def _choose(
    plan: PatchPlan,
    target: SourceTree,
    adaptations: Sequence[Adaptation],
    banned: Mapping[int, Verdict],
) -> tuple[list[Adaptation], dict[int, Verdict]]:
    """The adaptations meant for this target, and their hunks, which the cascade leaves alone."""
    stopped = dict(banned)
    hunks = {job.number: job.hunk for file in plan.files for job in file.jobs}
    usable = []
    for adaptation in adaptations:
        if any(n in banned for n in adaptation.hunks):
            continue
        if not _meant_for(adaptation, target, hunks):
            continue
        usable.append(adaptation)
        reason = "waits for its stored adaptation"
        for number in adaptation.hunks:
            stopped[number] = Verdict(Status.CONFLICTED, reason=reason)
    return usable, stopped


def _meant_for(adaptation: Adaptation, target: SourceTree, hunks: Mapping[int, Hunk]) -> bool:
    """Whether an adaptation speaks about this target: its release, or content that matches."""
    if target.version is None or target.version == adaptation.release:
        return True
    return check_adaptation(adaptation, hunks, target.files.get(adaptation.path)) is None


def _adapt(
    adaptation: Adaptation,
    draft: _Draft,
    spans: dict[int, Span],
    plan: PatchPlan,
    target: SourceTree,
) -> None:
    """Place an adaptation on what the cascade made of its file, or say why it does not hold."""
    path = adaptation.path
    content = draft.contents.get(path, target.files.get(path))
    hunks = {job.number: job.hunk for file in plan.files for job in file.jobs}
    mismatch = check_adaptation(adaptation, hunks, content)
    reason = mismatch.text if mismatch else None
    if content is not None and reason is None:
        try:
            adapted = apply_adaptation(adaptation, content)
        except PatchkitError as error:
            reason = str(error)
    if reason is not None:
        text = f"the adaptation stored for {adaptation.release} does not hold: {reason}"
        verdict = Verdict(
            Status.CONFLICTED, reason=text, candidates=(path,) if content is not None else ()
        )
        draft.verdicts.update(dict.fromkeys(adaptation.hunks, verdict))
        return
    assert content is not None
    changed = diff_lines(content.splitlines(True), adapted.splitlines(True))
    verdict = Verdict(
        Status.PLACED, path=path, method=Method.ADAPTATION, evidence=adaptation.evidence,
        replayed=_replayed(adaptation, plan, target),
        definition_after=definitions_around(
            content, adapted,
            [(c.old_start + 1, c.old_end) for c in changed if c.old_end > c.old_start],
            [(c.new_start + 1, c.new_end) for c in changed if c.new_end > c.new_start],
        ),
    )  # fmt: skip
    for file in plan.files:
        for job in file.jobs:
            if job.number in adaptation.hunks:
                removed = [(r.start + 1, r.end) for r in job.runs if r.end > r.start]
                added = authored_lines(file, job.number)
                name = definitions_around(file.base or b"", file.authored or b"", removed, added)
                draft.verdicts[job.number] = replace(verdict, definition_before=name)
    draft.contents[path] = adapted
    first = min(c.new_start for c in changed) + 1
    last = max(max(c.new_end, c.new_start + 1) for c in changed)
    for number, (other, low, high) in list(spans.items()):
        if other == path:
            spans[number] = (path, *shift_lines((low, high), changed))
    spans.update(dict.fromkeys(adaptation.hunks, (path, first, last)))


def _replayed(adaptation: Adaptation, plan: PatchPlan, target: SourceTree) -> Replayed | None:
    """Return which decision is used again; none where it was made for this very release."""
    if isinstance(adaptation, Replay):
        return adaptation.replayed
    if target.version in (None, adaptation.release):
        return None
    key = key_of(plan.patch.name, adaptation)
    return Replayed(key, adaptation.release, adaptation.reason, "exact")


def _spans(draft: _Draft) -> dict[int, Span]:
    """The lines of each placed hunk in the target as this patch leaves it."""
    spans: dict[int, Span] = {}
    for number, verdict in draft.verdicts.items():
        if verdict.path and verdict.lines:
            spans[number] = (verdict.path, *verdict.lines)
    return spans
