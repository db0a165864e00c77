"""How one patch got from release to release, as far as what is stored can say that.

Nothing is moved again and no tree is opened: two neighbouring releases hold two versions of the
patch, the decisions of people lie beside them, and series files say why a patch is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchkit.knowing.changes import State
from patchkit.knowing.range_diff import compare_patches
from patchkit.knowing.sides import SidePatch, logged_reasons, read_patch
from patchkit.placing.acceptance import Acceptance
from patchkit.placing.adaptation import Adaptation
from patchkit.repository.log import LoggedRebase
from patchkit.repository.store import Stored
from patchkit.series.anchoring import stored_overrides
from patchkit.series.series import SERIES, anchors_name, left_out_reason
from patchkit.series.verdict import StoredVerdict, Verdict


@dataclass(frozen=True)
class Reason:
    """What a person or a test said, in words, and of which hunks; of all where it names none."""

    text: str
    hunks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Step:
    """One stored release, and what became of the patch there.

    `how` is "first", "as it was" (but for line numbers), "other context", "moved", "changed" or
    "left out". `same_as` names the release whose series this one shares. `reasons` are those of
    people and of tests; their hunks are those of the release that was moved.
    """

    release: str
    how: str
    same_as: str | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether the patch is in the series of the release."""
        return self.how != LEFT_OUT


LEFT_OUT = "left out"
_HOW = {
    State.SAME: "as it was", State.CONTEXT: "other context", State.MOVED: "moved",
    State.CHANGED: "changed",
}  # fmt: skip


def survival(
    name: str,
    releases: Sequence[Stored],
    verdicts: Sequence[StoredVerdict],
    log: Sequence[LoggedRebase] = (),
) -> tuple[Step, ...]:
    """Return a step for each stored release from the first that has a patch, lowest first."""
    steps: list[Step] = []
    decisions = _decisions(name, releases)
    before: SidePatch | None = None
    for stored in releases:
        data = stored.series.patches.get(name)
        if data is None:
            if before is not None:
                reasons = tuple(_why_left_out(name, stored, before, verdicts, log))
                steps.append(Step(stored.release, LEFT_OUT, stored.same_as, reasons))
            continue
        anchors = stored.series.anchors.get(name)
        patch = read_patch(name, name, data, anchors, stored.place)
        how = _HOW[compare_patches(before, patch).state] if before is not None else "first"
        steps.append(Step(stored.release, how, stored.same_as, _decided(decisions, stored.release)))
        before = patch
    return tuple(steps)


def _decisions(name: str, releases: Sequence[Stored]) -> list[Adaptation | Acceptance]:
    """What people decided on a patch, wherever it lies: beside the patch that was moved."""
    found: list[Adaptation | Acceptance] = []
    for stored in releases:
        place = f"{stored.place}/{anchors_name(name)}"
        overrides = stored_overrides(stored.series.anchors.get(name), place)
        found += [*overrides.adaptations, *overrides.acceptances]
    return found


def _decided(decisions: Iterable[Adaptation | Acceptance], release: str) -> tuple[Reason, ...]:
    """What was decided for a release, in words, each once."""
    own = [one for one in decisions if one.release.removeprefix("v") == release]
    return tuple(dict.fromkeys(map(_decision, own)))


def _decision(one: Adaptation | Acceptance) -> Reason:
    if isinstance(one, Acceptance):
        text = f"hunk {one.hunk}, accepted drift: {one.text}; {one.reason}"
        return Reason(text, (one.hunk,))
    numbers = ", ".join(map(str, one.hunks))
    plural = "s" if len(one.hunks) > 1 else ""
    return Reason(f"hunk{plural} {numbers} adapted: {one.reason}", one.hunks)


def _why_left_out(
    name: str,
    stored: Stored,
    before: SidePatch,
    verdicts: Sequence[StoredVerdict],
    log: Sequence[LoggedRebase],
) -> Iterator[Reason]:
    comments = stored.files.get(SERIES, b"").decode("utf-8", "replace")
    said = left_out_reason(name, comments)
    if said is not None:
        yield Reason(said)
    logged = logged_reasons(log, stored.release).get(name)
    if logged is not None:
        yield Reason(logged)
    for verdict in verdicts:
        here = (verdict.release, verdict.patch) == (stored.release, name)
        if here and verdict.verdict is Verdict.SUPERSEDED:
            yield Reason(f"superseded by its tests: {verdict.reason}")
    header = before.contents.header
    if header.applies_to is not None and not header.covers(stored.release):
        yield Reason(f"it is for {header.get('Applies-To')}")
