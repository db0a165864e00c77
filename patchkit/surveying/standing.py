"""What one release makes of a patch: a verdict out of what became of each hunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from patchkit.outcome import HunkOutcome, Status
from patchkit.report import counted
from patchkit.surveying.fit import Fit


class Verdict(StrEnum):
    """What a release makes of a whole patch."""

    CLEAN = "clean"
    DRIFTED = "drifted"
    UPSTREAM = "upstream"
    PARTLY_UPSTREAM = "partly_upstream"
    CONFLICTS = "conflicts"
    ORPHANED = "orphaned"
    NEVER_FITTED = "never_fitted"
    UNAVAILABLE = "unavailable"


REACHED = (*list(Verdict)[:6],)  # those that answer the question
LANDING = (Verdict.CLEAN, Verdict.UPSTREAM)


@dataclass(frozen=True)
class Standing:
    """The verdict of one release.

    `outcomes` is empty where the patch has no base or the release could not be opened. `reason` is
    the first thing that speaks against the patch there.
    """

    release: str
    verdict: Verdict
    is_base: bool = False
    outcomes: tuple[HunkOutcome, ...] = ()
    fit: Fit | None = None
    reason: str | None = None

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many hunks came to each status."""
        found = Counter(outcome.status for outcome in self.outcomes)
        return {status: found[status] for status in Status}

    @property
    def open(self) -> int:
        """How many hunks neither landed nor are upstream."""
        return sum(not outcome.landed for outcome in self.outcomes)

    @property
    def drifted(self) -> int:
        """How many hunks landed on ground that changed."""
        return sum(outcome.drifted for outcome in self.outcomes)

    @property
    def lands(self) -> bool:
        """Whether every hunk is in the release or goes in as it is, on ground that held."""
        return bool(self.outcomes or self.fit) and not self.open and not self.drifted and (
            self.verdict in (*LANDING, Verdict.PARTLY_UPSTREAM)
        )  # fmt: skip


def judge(
    release: str, outcomes: tuple[HunkOutcome, ...], fit: Fit | None, *, is_base: bool
) -> Standing:
    """Return the verdict that outcomes amount to."""
    verdict = _verdict(outcomes)
    return Standing(release, verdict, is_base, outcomes, fit, _reason(outcomes))


def judge_fit(release: str, fit: Fit) -> Standing:
    """Return the verdict on a patch that has no base."""
    if fit.is_there:
        return Standing(release, Verdict.UPSTREAM, fit=fit)
    if fit.error is not None:
        return Standing(release, Verdict.NEVER_FITTED, fit=fit, reason=str(fit.error))
    first = next((h for h in fit.hunks if h.offset is None and not h.there), None)
    reason = f"#{first.number} {first.reason}" if first is not None else None
    return Standing(release, Verdict.NEVER_FITTED, fit=fit, reason=reason)


def _verdict(outcomes: tuple[HunkOutcome, ...]) -> Verdict:
    statuses = {outcome.status for outcome in outcomes}
    if not statuses <= {Status.PLACED, Status.ALREADY_UPSTREAM, Status.PARTLY_UPSTREAM}:
        return Verdict.ORPHANED if statuses == {Status.ORPHANED} else Verdict.CONFLICTS
    if Status.PARTLY_UPSTREAM not in statuses and any(o.drifted for o in outcomes):
        return Verdict.DRIFTED
    if statuses == {Status.ALREADY_UPSTREAM}:
        return Verdict.UPSTREAM
    return Verdict.CLEAN if statuses == {Status.PLACED} else Verdict.PARTLY_UPSTREAM


def _reason(outcomes: tuple[HunkOutcome, ...]) -> str | None:
    """The first open hunk with a reason of its own, else the first change of the ground."""
    still_open = [outcome for outcome in outcomes if not outcome.landed]
    # a hunk that another one blocks, or that lacks its partner, says less
    own = [o for o in still_open if o.status is not Status.BLOCKED] or still_open
    if own:
        first = own[0]
        blocked = f"blocked by {', '.join(first.blocked_by)}" if first.blocked_by else None
        reason = first.reason or blocked or first.status.value.replace("_", " ")
        more = f" (and {counted(len(still_open) - 1, 'other')})" if len(still_open) > 1 else ""
        return f"{_named(first, outcomes)} {reason}{more}"
    drifted = next((outcome for outcome in outcomes if outcome.drifts), None)
    return f"{_named(drifted, outcomes)} {drifted.drifts[0].text}" if drifted else None


def _named(outcome: HunkOutcome, outcomes: tuple[HunkOutcome, ...]) -> str:
    """The number of a hunk, with its patch where there are several."""
    several = len({o.patch for o in outcomes}) > 1
    return f"{outcome.patch}#{outcome.hunk}" if several else f"#{outcome.hunk}"
