"""Outcomes as JSON values, in the shapes that docs/schema describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.outcome import Clash, Drift, HunkOutcome
from patchkit.tree import SourceTree


def outcome_json(outcome: HunkOutcome) -> dict[str, Any]:
    """Return one hunk's outcome; every key is always there."""
    lines = outcome.target_lines
    return {
        "patch": outcome.patch,
        "hunk": outcome.hunk,
        "status": outcome.status.value,
        "drifted": outcome.drifted,
        "method": outcome.method.value if outcome.method else None,
        "path_before": outcome.path_before,
        "path_after": outcome.path_after,
        "definition_before": outcome.definition_before,
        "definition_after": outcome.definition_after,
        "target_lines": list(lines) if lines else None,
        "evidence": [{"kind": e.kind, "text": e.text} for e in outcome.evidence],
        "drifts": [drift_json(drift) for drift in outcome.drifts],
        "accepted": [{**drift_json(a.drift), "reason": a.reason} for a in outcome.accepted],
        "reason": outcome.reason,
        "candidates": list(outcome.candidates),
        "blocked_by": list(outcome.blocked_by),
        "not_checked": list(outcome.not_checked),
        "renames": [
            {"kind": r.kind, "scope": r.scope, "old": r.old, "new": r.new} for r in outcome.renames
        ],
        "rejected": [
            {"kind": r.kind, "candidate": r.candidate, "why": r.why} for r in outcome.rejected
        ],
        "clash": _clash_json(outcome.clash) if outcome.clash else None,
        "replayed": asdict(outcome.replayed) if outcome.replayed else None,
        "upstream_commit": asdict(outcome.upstream_commit) if outcome.upstream_commit else None,
    }


def _clash_json(clash: Clash) -> dict[str, str]:
    return {
        "kind": clash.kind,
        "place": clash.place,
        "base": clash.base,
        "target": clash.target,
        "patch": clash.patch,
    }


def unshipped_text(section: str) -> str:
    """Return in words why a section of a patch is for no file of a wheel."""
    return "built from source" if section == "built" else "not shipped"


def drift_json(drift: Drift) -> dict[str, Any]:
    """Return one part of the surface that changed; every key is always there."""
    return {
        "kind": drift.kind,
        "name": drift.name,
        "read_at": drift.read_at,
        "text": drift.text,
        "before": drift.before,
        "after": drift.after,
        "surface": drift.surface,
    }


def tree_json(tree: SourceTree) -> dict[str, Any]:
    """Return what names a tree."""
    return {"name": tree.name, "version": tree.version, "partial": tree.partial}


def error_json(error: PatchkitError) -> dict[str, Any]:
    """Return a user's mistake with its parts apart."""
    return {
        "schema": "patchkit.error/1",
        "place": error.place,
        "fact": error.fact,
        "expected": error.expected,
        "hint": error.hint,
        "exit_code": int(error.exit_code),
    }


def summary(outcomes: Iterable[HunkOutcome]) -> str:
    """Return the count of each status in one line: `3 hunks: 2 placed, 1 conflicted; 1 drifted`."""
    outcomes = tuple(outcomes)
    counts = Counter(outcome.status.value.replace("_", " ") for outcome in outcomes)
    parts = ", ".join(f"{number} {status}" for status, number in counts.items())
    drifted = sum(outcome.drifted for outcome in outcomes)
    text = counted(len(outcomes), "hunk")
    text += f": {parts}" if parts else ""
    return f"{text}; {drifted} drifted" if drifted else text


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 hunk`, `2 hunks`, `1,024 hunks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
