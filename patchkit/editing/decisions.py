"""What people decided on hunks, kept when those get other numbers or another patch.

A decision is about the lines of a hunk: where these stay, it goes with them. Where they change, it
is lost, and that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchkit.placing.acceptance import Acceptance
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.placing.plan import PatchPlan
from patchkit.series.override import Overrides

_MOST = 60  # characters of a reason that are shown
Decision = Adaptation | Acceptance


@dataclass(frozen=True)
class Numbers:
    """The hunks of a patch by their fingerprint: where a decision on one of them goes."""

    by_fingerprint: dict[str, tuple[int, ...]]

    def of(self, fingerprint: str, number: int) -> int | None:
        """Return the number of a hunk now; `number` is what it was, None where it is gone."""
        found = self.by_fingerprint.get(fingerprint, ())
        if number in found:
            return number
        return found[0] if len(found) == 1 else None


def numbers_of(plan: PatchPlan) -> Numbers:
    """Return the numbers of the hunks of a patch."""
    found: dict[str, tuple[int, ...]] = {}
    for file in plan.files:
        for job in file.jobs:
            mark = fingerprint_hunk(job.hunk)
            found[mark] = (*found.get(mark, ()), job.number)
    return Numbers(found)


@dataclass(frozen=True)
class Decided:
    """What was decided on a patch as it was, and which of the new patches hold its hunks now."""

    name: str
    overrides: Overrides
    heirs: tuple[int, ...]


def move_decisions(
    decided: Iterable[Decided], plans: Sequence[PatchPlan]
) -> tuple[tuple[Overrides, ...], tuple[str, ...]]:
    """Return for each patch the decisions on its hunks, and in words those that are on none."""
    places = [numbers_of(plan) for plan in plans]
    kept = [Overrides() for _ in plans]
    lost = []
    for patch in decided:
        decisions: tuple[Decision, ...] = patch.overrides.adaptations
        decisions += patch.overrides.acceptances
        for one in decisions:
            found = [(at, new) for at in patch.heirs if (new := _moved(one, places[at]))]
            if found:
                at, moved = found[0]
                kept[at] = kept[at].with_decision(moved)
            else:
                lost.append(_told(patch.name, one))
    return tuple(kept), tuple(lost)


def _moved(one: Decision, numbers: Numbers) -> Decision | None:
    """Return a decision with the numbers that its hunks have now."""
    if isinstance(one, Acceptance):
        number = numbers.of(one.base_hunk, one.hunk)
        return None if number is None else replace(one, hunk=number)
    pairs = zip(one.base_hunks, one.hunks, strict=True)
    found = tuple(n for mark, was in pairs if (n := numbers.of(mark, was)) is not None)
    return replace(one, hunks=found) if len(set(found)) == len(one.hunks) else None


def _told(name: str, one: Decision) -> str:
    if isinstance(one, Acceptance):
        return f"{name}: hunk {one.hunk}: the drift of `{one.name}` accepted for {one.release}"
    hunks = ", ".join(map(str, one.hunks))
    word = "hunk" if len(one.hunks) == 1 else "hunks"
    reason = one.reason if len(one.reason) <= _MOST else f"{one.reason[: _MOST - 1].rstrip()}…"
    return f"{name}: {word} {hunks}: the adaptation to {one.release} ({reason})"
