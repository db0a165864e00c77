"""One patch on one target with the memory of resolutions: what does not land by itself is replayed.

A resolution is replayed where the target's definitions are as they were before it, or where its own
change can be placed on them and proven. What does not hold is said beside the conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from patchkit.diff import Patch, diff_files
from patchkit.errors import PatchkitError
from patchkit.outcome import Evidence, Method, Replayed, Status
from patchkit.placing.adaptation import (
    Adaptation,
    Replay,
    apply_adaptation,
    check_adaptation,
    fingerprint_definition,
    make_adaptation,
)
from patchkit.placing.landed import Landing, Missing, is_there
from patchkit.placing.landing import land_patch, place_patch
from patchkit.placing.plan import PatchPlan, hunk_of, plan_patch
from patchkit.placing.resolution import Resolution
from patchkit.placing.verdict import Verdict
from patchkit.tree import SourceTree

_Entry = tuple[Resolution, tuple[int, ...]]  # with the numbers of its hunks in the patch


def land_remembering(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    *,
    memory: Sequence[Resolution],
    adaptations: Sequence[Adaptation] = (),
    missing: Sequence[Missing] = (),
    banned: Mapping[int, Verdict] | None = None,
    unsettled: Collection[int] = (),
) -> Landing:
    """Return what a patch does to a target, as `land_patch` does, with the memory of resolutions.

    `unsettled` are hunks that land by themselves, but not for good. Resolutions made for a patch of
    the same name go first, then those made for the very release, then what was made last.
    """
    stopped = dict(banned or {})
    landing = land_patch(
        plan, base, target, adaptations=adaptations, missing=missing, banned=stopped
    )
    there = {number for number, verdict in landing.verdicts.items() if is_there(verdict)}
    there -= set(unsettled)
    left = set(landing.verdicts) - there - set(stopped)
    if not memory or not left:
        return landing
    replayer = _Replayer(plan, base, target, adaptations, landing)
    ranked = _ranked(memory, plan, target)
    waiting = list(ranked)
    refused: dict[int, list[str]] = {}
    chosen: list[Replay] = []
    while True:
        _choose(chosen, waiting, left, replayer, refused)
        tried = land_patch(
            plan, base, target,
            adaptations=[*replayer.without(chosen), *chosen], missing=missing, banned=stopped,
        )  # fmt: skip
        fallen = _fallen(chosen, tried, there, refused)
        if not fallen:
            return _told(replace(tried, replays=tuple(chosen)), refused)
        # each was made on what those before it leave
        kept = chosen[: min(map(chosen.index, fallen))]
        again = [replay for replay in chosen if replay not in (*fallen, *kept)]
        waiting[:0] = [entry for r in again for entry in ranked if _is_of(r, entry)]
        chosen = kept


class _Replayer:
    """Makes replays of resolutions for one patch and one target."""

    def __init__(
        self,
        plan: PatchPlan,
        base: SourceTree,
        target: SourceTree,
        adaptations: Sequence[Adaptation],
        landing: Landing,
    ) -> None:
        self.plan = plan
        self.base = base
        self.target = target
        self.adaptations = adaptations
        self.landing = landing

    def without(self, replays: Iterable[Adaptation]) -> list[Adaptation]:
        """Return the stored adaptations but for those of hunks that are replayed."""
        hunks = {number for replay in replays for number in replay.hunks}
        return [a for a in self.adaptations if hunks.isdisjoint(a.hunks)]

    def replay(
        self, resolution: Resolution, hunks: tuple[int, ...], before: Sequence[Replay]
    ) -> Replay | str:
        """Return what a resolution makes of its hunks after other replays, or why it fails."""
        made = replace(resolution.adaptation, hunks=hunks)
        tree = self._ready(made, before)
        numbered = {j.number: j.hunk for file in self.plan.files for j in file.jobs}
        content = tree.files.get(made.path)
        mismatch = check_adaptation(made, numbered, content)
        if mismatch is None and content is not None and _fits(made, content):
            text = "the hunk and the target definitions are as they were then"
            return self._as_replay(resolution, made, "exact", [Evidence("fingerprints", text)])
        changed = mismatch.text if mismatch else "comments or layout next to it have changed"
        return self._carried(resolution, hunks, tree, changed)

    def _ready(self, adaptation: Adaptation, before: Sequence[Replay]) -> SourceTree:
        """The target with all other hunks of the patch, as it was when the person decided."""
        waits = Verdict(Status.CONFLICTED, reason="to be replayed")
        verdicts = self.landing.verdicts
        left = {n for n, v in verdicts.items() if not is_there(v) and v.status != Status.BLOCKED}
        left = left.union(adaptation.hunks).difference(*(replay.hunks for replay in before))
        stopped = dict.fromkeys(left, waits)
        others = [a for a in self.without(before) if left.isdisjoint(a.hunks)] + [*before]
        placed = place_patch(self.plan, self.base, self.target, others, stopped)
        return self.target.with_changes(placed.contents, placed.modes)

    def _carried(
        self, resolution: Resolution, hunks: tuple[int, ...], tree: SourceTree, changed: str
    ) -> Replay | str:
        """The resolution's own change, placed on what the definitions have become."""
        path, texts = resolution.adaptation.path, resolution.texts
        if texts is None or _other_ground(resolution, tree.files.get(path)):
            return changed
        before, after = ({path: text} for text in texts)
        origin = SourceTree(before, partial=True)
        plan = plan_patch(Patch("resolution", b"", diff_files(before, after)), origin)
        landing = land_patch(plan, origin, tree)
        verdicts = landing.verdicts.values()
        for verdict in verdicts:
            if verdict.status is not Status.PLACED:
                said = verdict.reason or f"it is {verdict.status.value.replace('_', ' ')}"
                return f"{changed}, and its change cannot be placed there: {said}"
        changes = [(p, c) for p, c in landing.contents.items() if c is not None]
        if len(changes) != 1:
            return f"{changed}, and its change would go into several files"
        ((there, content),) = changes
        made = make_adaptation(
            release=resolution.adaptation.release,
            path=there,
            hunks=[(n, hunk) for n in hunks if (hunk := hunk_of(self.plan, n)) is not None],
            before=tree.files[there],
            after=content,
            reason=resolution.adaptation.reason,
        )
        methods = ", ".join(dict.fromkeys(str(v.method) for v in verdicts))
        facts = "; ".join(dict.fromkeys(str(fact) for v in verdicts for fact in v.evidence))
        how = f"{changed}; its own change was placed there by {methods}, and proven: {facts}"
        proof = [Evidence("carried", how)]
        return self._as_replay(resolution, made, "carried", proof)

    def _as_replay(
        self, resolution: Resolution, made: Adaptation, how: str, proof: Iterable[Evidence]
    ) -> Replay:
        release = self.target.version or self.target.name
        replayed = Replayed(resolution.key, made.release, made.reason, how)
        fields = {name: getattr(made, name) for name in Adaptation.__dataclass_fields__}
        return Replay(
            **{**fields, "release": release},
            replayed=replayed,
            proof=tuple(dict.fromkeys(proof)),
            resolved_in=resolution.adaptation.path,
        )


def _ranked(memory: Iterable[Resolution], plan: PatchPlan, target: SourceTree) -> list[_Entry]:
    """The resolutions that are for hunks of a patch, with those, in the order to be tried."""
    found = [(r, n) for r in reversed(list(memory)) if (n := r.numbers_in(plan)) is not None]
    return sorted(
        found,
        key=lambda entry: (
            entry[0].patch != plan.patch.name,
            entry[0].adaptation.release != target.version,
        ),
    )


def _fallen(
    chosen: Sequence[Replay],
    tried: Landing,
    there: Collection[int],
    refused: dict[int, list[str]],
) -> list[Replay]:
    """The replays that did not land, or for which something fell that lands by itself."""
    fallen = [replay for replay in chosen if not _landed(replay, tried)]
    for replay in fallen:
        why = next(v.reason for n in replay.hunks if (v := tried.verdicts[n]).reason)
        _refuse(refused, replay.hunks, replay.replayed.release, why or "")
    if fallen or all(is_there(tried.verdicts[number]) for number in there):
        return fallen
    for replay in chosen:
        text = "other hunks would not land any more"
        _refuse(refused, replay.hunks, replay.replayed.release, text)
    return list(chosen)


def _is_of(replay: Replay, entry: _Entry) -> bool:
    return (replay.replayed.key, replay.hunks) == (entry[0].key, entry[1])


def _choose(
    chosen: list[Replay],
    waiting: list[_Entry],
    left: set[int],
    replayer: _Replayer,
    refused: dict[int, list[str]],
) -> None:
    """Take the next resolution for each hunk that is open and has none chosen."""
    for entry in list(waiting):
        resolution, hunks = entry
        if any(not set(hunks).isdisjoint(replay.hunks) for replay in chosen):
            continue
        waiting.remove(entry)
        landed = [number for number in hunks if number not in left]
        if len(landed) == len(hunks):
            continue  # they land by themselves
        replay: Replay | str = (
            f"it is for several hunks together, of which hunk {landed[0]} lands without it"
            if landed
            else replayer.replay(resolution, hunks, chosen)
        )
        if isinstance(replay, str):
            _refuse(refused, hunks, resolution.adaptation.release, replay)
        else:
            chosen.append(replay)


def _fits(adaptation: Adaptation, content: bytes) -> bool:
    """Whether the lines around an adaptation are still there for it."""
    try:
        apply_adaptation(adaptation, content)
    except PatchkitError:
        return False
    return True


def _other_ground(resolution: Resolution, content: bytes | None) -> bool:
    """Whether a definition that was looked at and left alone then is not what it was."""
    after = resolution.resolved_definitions
    left = {n: f for n, f in resolution.adaptation.target_definitions.items() if after.get(n) == f}
    return any(
        content is None or (fingerprint_definition(content, name) or "") != known
        for name, known in left.items()
    )


def _landed(replay: Replay, landing: Landing) -> bool:
    return all(landing.verdicts[n].method is Method.ADAPTATION for n in replay.hunks)


def _refuse(refused: dict[int, list[str]], hunks: Iterable[int], release: str, why: str) -> None:
    text = f"a resolution made for {release} is remembered, and does not hold: {why}"
    for number in hunks:
        refused.setdefault(number, []).append(text)


def _told(landing: Landing, refused: Mapping[int, Sequence[str]]) -> Landing:
    """The landing with what was remembered for hunks that did not land, beside their reasons."""
    verdicts = dict(landing.verdicts)
    for number, texts in refused.items():
        verdict = verdicts[number]
        if not is_there(verdict):
            reasons = [*([verdict.reason] if verdict.reason else []), *texts]
            verdicts[number] = replace(verdict, reason="; ".join(dict.fromkeys(reasons)))
    return replace(landing, verdicts=verdicts)
