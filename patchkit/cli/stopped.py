"""A rebase that has stopped: where, what is left, and an end to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchkit.cli import render, render_resolve
from patchkit.cli.options import shown_path
from patchkit.config import Config
from patchkit.errors import ExitCode
from patchkit.placing.acceptance import Acceptance
from patchkit.repository import session
from patchkit.repository.note import next_commands
from patchkit.repository.workspace import Replacement, Workspace


def state_folder(config: Config) -> Path:
    """Return the folder of a stopped rebase, whether there is one or not."""
    return config.state_folder / "rebase"


def shown_folder(config: Config) -> str:
    """Return that folder as people know it."""
    return shown_path(state_folder(config))


def emptied(config: Config) -> list[Replacement]:
    """Return what takes a stopped rebase off the disk, its git folder too; nothing for none."""
    folder = state_folder(config)
    paths = (folder, folder.with_name(session.GIT))
    return [Replacement(path, None) for path in paths if path.exists() or path.is_symlink()]


def abort_rebase(config: Config, workspace: Workspace, as_json: bool) -> ExitCode:
    """Forget a stopped rebase, whatever its state is like; the caller holds the lock."""
    if not state_folder(config).exists():
        raise session.refuse_none(shown_folder(config))
    workspace.commit(emptied(config))
    if as_json:
        document = {"schema": "patchkit.rebase-abort/1", "exit_code": int(ExitCode.DONE)}
        render.show_json({**document, "aborted": shown_folder(config)})
    else:
        render.say("the stopped rebase is forgotten; nothing else was changed")
    return ExitCode.DONE


def show_stopped(config: Config, workspace: Workspace, as_json: bool) -> ExitCode:
    """Say where a rebase has stopped; what a killed one left is finished first."""
    workspace.recover()
    state = session.read_state(state_folder(config))
    document: dict[str, Any] = {
        "schema": "patchkit.rebase-status/1",
        "exit_code": int(ExitCode.DONE),
        "stopped": _stopped(config, state) if state is not None else None,
    }
    if as_json:
        render.show_json(document)
    else:
        render_resolve.show_stopped(document["stopped"])
    return ExitCode.DONE


def _stopped(config: Config, state: session.State) -> dict[str, Any]:
    """Return a stopped rebase, as docs/schema/rebase-status-1.json describes it."""
    place = shown_folder(config)
    edits = session.read_edits(state, state_folder(config))
    outcomes = [dict(outcome) for outcome in state.outcomes]
    here = [o for o in outcomes if (o.get("series"), o["patch"]) == (state.series, state.patch)]
    shown = [o for o in here if o["hunk"] in state.hunks]
    drifted = any(o["drifted"] for o in shown)
    return {
        "folder": place,
        "target": state.target,
        "base": state.release,
        "series": state.series,
        "patch": state.patch,
        "note": f"{place}/{state.patch}.conflict.md",
        "open": [_open(outcome) for outcome in shown],
        "files": [_file(config, file, edits) for file in state.files],
        "strays": [f"{place}/{session.FILES}{path}" for path in edits.strays],
        "later": [_open(o) for o in outcomes if _is_open(o, state) and o not in shown],
        "settled": [_settled(item) for item in state.settled],
        "skipped": [
            {"series": s.series, "patch": s.patch, "hunks": None if s.hunks is None else [*s.hunks]}
            for s in state.skips
        ],
        "next": [
            {"command": command, "does": does}
            for command, does in next_commands(state.hunks, drifted=drifted)
        ],
    }


def _is_open(outcome: dict[str, Any], state: session.State) -> bool:
    """Whether a hunk waits to be settled, in the open patch or after it."""
    landed = outcome["status"] in ("placed", "already_upstream")
    skipped = any(
        (s.series, s.patch) == (outcome.get("series"), outcome["patch"])
        and (s.hunks is None or outcome["hunk"] in s.hunks)
        for s in state.skips
    )
    return (not landed or outcome["drifted"]) and not skipped


def _open(outcome: dict[str, Any]) -> dict[str, Any]:
    drifts = "; ".join(drift["text"] for drift in outcome["drifts"])
    return {
        "series": outcome["series"],
        "patch": outcome["patch"],
        "hunk": outcome["hunk"],
        "status": outcome["status"],
        "drifted": outcome["drifted"],
        "path": outcome["path_after"] or outcome["path_before"],
        "definition": outcome["definition_after"] or outcome["definition_before"],
        "reason": outcome["reason"] or drifts or None,
        "upstream_commit": outcome["upstream_commit"],
    }


def _file(config: Config, file: session.OpenFile, edits: session.Edits) -> dict[str, Any]:
    """Return a file to edit, and what a person has done to it."""
    edit = state_folder(config) / session.FILES / file.path if file.path else None
    state = "edited" if file.path in edits.edited else "untouched"
    if edit is None or not edit.exists():
        state = "not in the target" if edit is None else "removed"
    return {
        "edit": shown_path(edit) if edit else None,
        "path": file.path or file.path_before,
        "hunks": list(file.hunks),
        "state": state,
    }


def _settled(item: session.Settled) -> dict[str, Any]:
    accepted = isinstance(item.decision, Acceptance)
    return {
        "series": item.series,
        "patch": item.patch,
        "hunks": list(item.hunks),
        "by": "accepted drift" if accepted else "edit",
        "reason": item.decision.reason,
    }
