"""What people see of patches that were moved: a stored series, or plain patch files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit import report
from patchkit.cli.render import say
from patchkit.cli.render_outcome import show_notes, show_outcomes, why_lines

if TYPE_CHECKING:
    from patchkit.repository.move import SeriesMove
    from patchkit.stacking.rebase import RebaseResult


def show_rebase(document: dict[str, Any], moves: Sequence[SeriesMove]) -> None:
    """Print what became of every hunk, then of every series, then how to go on."""
    for move in moves:
        show_outcomes(move.result.outcomes)
        show_notes(move.result)
        for note in move.notes:
            say(f"note: {note}")
        for path in move.clashes:
            say(f"{path}: in the overlay, and in the target already")
        for drift in move.drifts:
            say(f"{drift.read_at}: in the overlay: {drift.text}")
        if move.drifts:
            say(f"change the file, or say in {move.stored.place}/overlay.toml why it is right:")
        for drift in move.drifts:
            path = drift.read_at.rpartition(":")[0]
            say(f'[[accepted]]\npath = "{path}"\nsurface = "{drift.surface}"\nreason = "..."')
    target = document["target"]["version"] or document["target"]["name"]
    for left in document["left_out"]:
        hunks = "" if left["hunks"] is None else f", hunks {', '.join(map(str, left['hunks']))}"
        reason = f": {left['reason']}" if left["reason"] else ""
        say(f"{left['series']}/{left['patch']}{hunks}: left out, {left['why']}{reason}")
    for entry in document["replayed"]:
        made = f"resolved for {entry['release']}: {entry['reason']}"
        place = f"{entry['series']}/{entry['patch']}, hunk {entry['hunk']}"
        say(f"{place}: replayed, {entry['how']}: {made}")
    for series in document["series"]:
        stored = series["stored"]
        say(
            f"{series['folder']}: {series['base']} -> {target}: {_STORING[stored['state']]}"
            f"{' ' + stored['path'] if stored['path'] else ''}"
        )
        for difference in stored["differences"]:
            say(f"  {difference}")
    if document["state"] is not None:
        _show_state(document["state"])


_STORING = {
    "written": "written to",
    "updated": "updated in",
    "unchanged": "unchanged in",
    "differs": "differs from what is stored (--update replaces it) in",
    "withheld": "not stored",
}


def _show_state(state: dict[str, Any]) -> None:
    say(f"stopped at {state['series']}/{state['patch']}; {state['note']} says why")
    for file in state["files"]:
        if file["edit"]:
            say(f"  edit {file['edit']}")
        else:
            say(f"  {file['path']} is not in the target: nothing to edit, only to skip")
    say('then: patchkit rebase --continue --reason "..."')
    if state["drifted"]:
        say('or:   patchkit rebase --continue --accept-drift --reason "..."')
    say("or:   patchkit rebase --skip --yes   or   patchkit rebase --abort")


def show_port(
    document: dict[str, Any], result: RebaseResult, *, asked: Path | None, reasons: bool = False
) -> None:
    """Print what became of every hunk, and where the moved patches are.

    With `reasons` all that is known of each hunk, a fact a line.
    """
    if reasons:
        for outcome in document["outcomes"]:
            head, *facts = why_lines(outcome)
            say(f"{outcome['patch']}:{outcome['hunk']}: {head}")
            for fact in facts:
                say(fact)
        say(report.summary(result.outcomes))
    else:
        show_outcomes(result.outcomes)
    show_notes(result)
    if document["output"]:
        say(f"written to {document['output']}")
    elif asked is not None:
        say(f"nothing was written to {asked}: not every hunk landed on ground that held")
        if result.ok and result.drifted:
            say("--accept-drift writes what drifted as it landed")
