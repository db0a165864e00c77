"""The entry that a finished rebase leaves in the log, out of what became of every hunk."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from patchkit.outcome import Status
from patchkit.placing.acceptance import Acceptance
from patchkit.repository.log import Fate, LoggedPatch, LoggedRebase
from patchkit.repository.move import Request, SeriesMove


def logged(
    move: SeriesMove, request: Request, target: str, now: datetime, *, updated: bool
) -> LoggedRebase:
    """Return the entry of a series that was moved and is stored under a release."""
    stopped = None if request.stopped_at is None else int(now.timestamp() - request.stopped_at)
    return LoggedRebase(
        date=now.astimezone(UTC).date(),
        base=move.stored.release,
        target=target,
        seconds=round(move.seconds, 2),
        patches=tuple(_logged_patch(move, request, name) for name in move.stored.series.patches),
        stopped_seconds=None if stopped is None else max(0, stopped),
        updated=updated,
    )


def _logged_patch(move: SeriesMove, request: Request, name: str) -> LoggedPatch:
    outcomes = [outcome for outcome in move.result.outcomes if outcome.patch == name]
    skips = [skip for skip in move.skips if skip.patch == name]
    superseded = next((verdict for verdict in move.superseded if verdict.patch == name), None)
    fate = Fate.MOVED
    if any(skip.hunks is None for skip in skips):
        fate = Fate.SKIPPED
    elif superseded is not None:
        fate = Fate.SUPERSEDED
    elif name not in {patch.name for patch in move.kept}:
        fate = Fate.UPSTREAM
    if fate in (Fate.SKIPPED, Fate.SUPERSEDED):
        numbers = tuple(o.hunk for o in outcomes) if fate is Fate.SKIPPED else ()
        reason = superseded.reason if superseded is not None else None
        return LoggedPatch(name, fate, skipped=numbers, reason=reason)
    own = [s for s in request.settled if s.series == move.stored.folder and s.patch == name]
    accepted = {h for s in own if isinstance(s.decision, Acceptance) for h in s.hunks}
    settled = {h for s in own if not isinstance(s.decision, Acceptance) for h in s.hunks}
    return LoggedPatch(
        name,
        fate,
        dict(sorted(Counter(o.method.value for o in outcomes if o.method).items())),
        sum(outcome.status is Status.ALREADY_UPSTREAM for outcome in outcomes),
        tuple(sorted(settled)),
        tuple(sorted(accepted)),
        tuple(sorted({hunk for skip in skips for hunk in skip.hunks or ()})),
    )
