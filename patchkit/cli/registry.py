"""`patchkit registry`: a page of Markdown about every stored patch, for reviewers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_know
from patchkit.cli.options import here, json_option, series_folders, series_option, shown_path
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.knowing.page import format_page, owner, upstream_state
from patchkit.knowing.registry import Entry, registry
from patchkit.repository.workspace import Replacement, Workspace, read_file


@click.command(short_help="Write a page about every stored patch.")
@click.option("--output", metavar="FILE.md", help="Where to write it; printed unless given.")
@click.option("--check", is_flag=True, help="Write nothing; a file that is stale is a finding.")
@series_option
@json_option
def command(output: str | None, check: bool, folder: str | None, as_json: bool) -> ExitCode:
    """Write a page about every stored patch.

    For those who review the repository: what each patch does and why, what upstream knows of it,
    whose it is, when it may go, how it got from release to release, what its tests say, and what
    the last rebases took. It comes from stored files alone, and the same files give the same page.
    With --check, as in CI, the exit status is 3 where the file is not that page.

    \b
    Examples:
      patchkit registry --output docs/patches.md
      patchkit registry --output docs/patches.md --check
      patchkit registry | less
    """
    if check and output is None:
        hint = "the page to check is named with --output FILE.md"
        raise UsageError("--check has no file", place="patchkit registry", hint=hint)
    config = here()
    entries = registry(config, series_folders(config, folder))
    page = format_page(entries)
    path = Path(output) if output is not None else None
    state = _state(path, page, check)
    if path is not None and state in ("written", "updated"):
        if path.is_dir():
            raise PatchkitError("is a folder", place=output, expected="the name of a file")
        workspace = Workspace(config.state_folder)
        with workspace.locked():
            workspace.commit([Replacement(path.absolute(), page)])
    document = _document(entries, path, state)
    if as_json:
        render.show_json(document)
    elif path is None:
        sys.stdout.write(page.decode())
    else:
        render_know.show_registry(document)
    return ExitCode(document["exit_code"])


def _state(path: Path | None, page: bytes, check: bool) -> str:
    """What is to be said of the file: what becomes of it or, checked, what it is."""
    if path is None:
        return "printed"
    there = read_file(path) if path.is_file() else None
    if there == page:
        return "fresh"
    if check:
        return "missing" if there is None else "stale"
    return "written" if there is None else "updated"


def _document(entries: tuple[Entry, ...], path: Path | None, state: str) -> dict[str, Any]:
    """Return the registry as docs/schema/registry-1.json describes it."""
    ok = state not in ("stale", "missing")
    return {
        "schema": "patchkit.registry/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "output": shown_path(path) if path is not None else None,
        "state": state,
        "patches": [_entry(entry) for entry in entries],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    header, hunks = entry.header, entry.contents.hunks
    return {
        "folder": entry.folder,
        "name": entry.name,
        "subject": entry.contents.subject,
        "reason": header.reason,
        "upstream": upstream_state(header),
        "owner": owner(header),
        "exit_condition": header.exit_condition,
        "exit_when": list(header.exit_when),
        "carried": entry.carried,
        "last_touched": entry.touched,
        "files": len(entry.contents.files),
        "hunks": len(hunks),
        "added": sum(hunk.added for hunk in hunks),
        "removed": sum(hunk.removed for hunk in hunks),
        "releases": [
            {"release": step.release, "how": step.how, "same_as": step.same_as,
             "reasons": [reason.text for reason in step.reasons]}
            for step in entry.steps
        ],
        "verdicts": [
            {"release": known.verdict.release, "verdict": known.verdict.verdict.value,
             "fresh": known.fresh, "reason": known.verdict.reason}
            for known in entry.verdicts
        ],
        "rebases": [
            {"date": cost.rebase.date.isoformat(), "base": cost.rebase.base,
             "target": cost.rebase.target, "fate": cost.patch.fate.value,
             "methods": dict(cost.patch.methods), "by_hand": cost.patch.by_hand,
             "stopped_seconds": cost.rebase.stopped_seconds}
            for cost in entry.costs
        ],
    }  # fmt: skip
