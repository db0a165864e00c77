"""What a rebase reports: every hunk, what was stored, and where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchkit.cli.options import shown_path
from patchkit.errors import ExitCode
from patchkit.report import drift_json, outcome_json, tree_json
from patchkit.repository import session
from patchkit.repository.deliver import Delivery, Storing
from patchkit.repository.move import SeriesMove


def rebase_document(
    moves: Sequence[SeriesMove],
    deliveries: Sequence[Delivery],
    state: session.State | None,
    place: str,
) -> dict[str, Any]:
    """Return the report of a rebase, as docs/schema/rebase-1.json describes it.

    `place` is the folder of the state.
    """
    differs = any(delivery.storing is Storing.DIFFERS for delivery in deliveries)
    ok = not differs and all(move.is_settled for move in moves)
    return {
        "schema": "patchkit.rebase/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "target": tree_json(moves[0].result.target),
        "series": [_series(m, d) for m, d in zip(moves, deliveries, strict=True)],
        "outcomes": [
            {"series": move.stored.folder, **outcome_json(outcome)}
            for move in moves
            for outcome in move.result.outcomes
        ],
        "left_out": [entry for move in moves for entry in _left_out(move)],
        "replayed": [entry for move in moves for entry in _replayed(move)],
        "state": _state(moves, state, place) if state else None,
        "notes": [note for move in moves for note in (*move.result.notes, *move.notes)],
    }


def _series(move: SeriesMove, delivery: Delivery) -> dict[str, Any]:
    return {
        "folder": move.stored.folder,
        "base": move.stored.release,
        "patches": [patch.name for patch in move.result.patches],
        "unshipped": [
            {"patch": u.patch, "path": u.path, "section": u.section.value, "hunks": u.hunks}
            for u in move.result.unshipped
        ],
        "overlay_clashes": list(move.clashes),
        "overlay_drifts": [drift_json(drift) for drift in move.drifts],
        "stored": {
            "path": shown_path(delivery.path) if delivery.path else None,
            "state": delivery.storing.value,
            "differences": list(delivery.differences),
        },
    }


def _left_out(move: SeriesMove) -> list[dict[str, Any]]:
    """Return what the result lacks of the series: skipped, superseded, or upstream already."""
    found: list[dict[str, Any]] = [
        {
            "series": skip.series,
            "patch": skip.patch,
            "hunks": None if skip.hunks is None else list(skip.hunks),
            "why": "skipped",
            "reason": None,
        }
        for skip in move.skips
    ]
    skipped = {skip.patch for skip in move.skips if skip.hunks is None}
    for verdict in move.superseded:
        if verdict.patch not in skipped:
            entry = {"series": move.stored.folder, "patch": verdict.patch, "hunks": None}
            found.append({**entry, "why": "superseded", "reason": verdict.reason})
    skipped |= {verdict.patch for verdict in move.superseded}
    for patch in move.result.patches:
        if not patch.data and patch.name not in skipped and not move.open:
            entry = {"series": move.stored.folder, "patch": patch.name, "hunks": None}
            found.append({**entry, "why": "already upstream", "reason": None})
    return found


def _replayed(move: SeriesMove) -> list[dict[str, Any]]:
    """Return the hunks that were placed by what is remembered of an earlier move."""
    return [
        {
            "series": move.stored.folder,
            "patch": outcome.patch,
            "hunk": outcome.hunk,
            "release": outcome.replayed.release,
            "how": outcome.replayed.how,
            "reason": outcome.replayed.reason,
        }
        for outcome in move.result.outcomes
        if outcome.replayed is not None
    ]


def _state(moves: Sequence[SeriesMove], state: session.State, place: str) -> dict[str, Any]:
    files = [
        {
            "edit": f"{place}/{session.FILES}{file.path}" if file.path else None,
            "path": file.path or file.path_before,
            "hunks": list(file.hunks),
        }
        for file in state.files
    ]
    note = f"{place}/{state.patch}.conflict.md"
    return {
        "folder": place,
        "series": state.series,
        "patch": state.patch,
        "note": note,
        "files": files,
        "drifted": sorted(
            outcome.hunk
            for move in moves
            if move.stored.folder == state.series
            for outcome in move.open
            if outcome.drifted and outcome.patch == state.patch and outcome.hunk in state.hunks
        ),
    }
