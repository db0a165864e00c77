"""What became of one hunk in one file."""

from __future__ import annotations

from dataclasses import dataclass

from patchkit.outcome import Clash, Evidence, Method, Rejected, Rename, Replayed, Status


@dataclass(frozen=True)
class Verdict:
    """What became of one hunk in one file.

    `lines` are (first, last), 1-based and inclusive, in the file at `path` with the patch's other
    hunks of that file landed too.
    """

    status: Status
    definition_before: str | None = None
    path: str | None = None
    definition_after: str | None = None
    method: Method | None = None
    evidence: tuple[Evidence, ...] = ()
    lines: tuple[int, int] | None = None
    reason: str | None = None
    candidates: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    adds_statements: bool = True
    renames: tuple[Rename, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    clash: Clash | None = None
    replayed: Replayed | None = None
