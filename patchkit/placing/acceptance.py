"""A drift that a person accepted: for which hunk, for which surface, and why.

It holds while the patch's hunk is as it was and base and target differ in the same way. When
upstream changes the surface once more, it is a drift again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchkit.diff.model import Hunk
from patchkit.errors import PatchkitError
from patchkit.outcome import Accepted, Drift
from patchkit.placing.fingerprint import fingerprint_hunk


@dataclass(frozen=True)
class Acceptance:
    """One accepted drift of one hunk.

    `base_hunk` is the fingerprint of the authored hunk, `surface` that of what changed; `release`
    is the one that it was first accepted for, and `text` tells people what was.
    """

    release: str
    hunk: int
    base_hunk: str
    kind: str
    name: str
    surface: str
    text: str
    reason: str

    def covers(self, number: int, hunk: Hunk | None, drift: Drift) -> bool:
        """Return whether a drift of a hunk is the accepted one."""
        return (
            hunk is not None
            and (self.hunk, self.surface) == (number, drift.surface)
            and self.base_hunk == fingerprint_hunk(hunk)
        )


def accept(
    drifts: Iterable[Drift], number: int, hunk: Hunk | None, release: str, reason: str
) -> list[Acceptance]:
    """Return the acceptance of some drifts of one hunk.

    Raises PatchkitError without a reason, and for a change of name or mode, which reads nothing.
    """
    if not reason.strip():
        raise PatchkitError("accepting a drift needs a reason", hint="give --reason TEXT")
    if hunk is None:
        raise PatchkitError(f"hunk {number} is a change of name or mode, which cannot drift")
    known = fingerprint_hunk(hunk)
    return [
        Acceptance(release, number, known, d.kind, d.name, d.surface, d.text, reason.strip())
        for d in {drift.surface: drift for drift in drifts}.values()
    ]


def split_accepted(
    drifts: Sequence[Drift], number: int, hunk: Hunk | None, acceptances: Sequence[Acceptance]
) -> tuple[tuple[Drift, ...], tuple[Accepted, ...]]:
    """Return the drifts of a hunk that nobody has accepted, and those that somebody has."""
    left, accepted = [], []
    for drift in drifts:
        reason = next((a.reason for a in acceptances if a.covers(number, hunk, drift)), None)
        if reason is None:
            left.append(drift)
        else:
            accepted.append(Accepted(drift, reason))
    return tuple(left), tuple(accepted)
