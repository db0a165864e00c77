"""`patchkit check`: what is stored, proven; what is derived from it, brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from patchkit.checks.stored import Checked, check_stored
from patchkit.cli import render, render_series
from patchkit.cli.options import here, json_option, series_folders, series_option, tree_opener
from patchkit.config import Config
from patchkit.errors import ExitCode
from patchkit.repository.store import release_folder
from patchkit.repository.workspace import Replacement, Workspace


@click.command(short_help="Prove that what is stored is sound.")
@click.option("--frozen", is_flag=True, help="Write nothing; what is not up to date is a finding.")
@series_option
@json_option
def command(frozen: bool, folder: str | None, as_json: bool) -> ExitCode:
    """Prove that what is stored is sound.

    Each patch applies to its release in series order, headers say what they must, `same-as` holds,
    and no two patches edit one statement unless the later declares that it depends on the other.
    With --frozen, as in CI, the stored text must also be what patchkit would write: no offsets,
    canonical form, fresh anchors, every need of another patch declared, and no verdict that is
    stale or finds a patch not needed. Without it, canonical text and anchors are written.

    \b
    Examples:
      patchkit check --frozen
      patchkit check --series patches
    """
    config = here()
    folders = series_folders(config, folder)
    workspace = Workspace(config.state_folder)
    with workspace.locked(), render.progress() as progress:
        opener = tree_opener(config, progress)
        checked = tuple(check_stored(config, folders, opener, frozen=frozen))
        _write(config, workspace, checked)
    document = _document(checked)
    if as_json:
        render.show_json(document)
    else:
        render_series.show_check(document)
    return ExitCode(document["exit_code"])


def _write(config: Config, workspace: Workspace, checked: Sequence[Checked]) -> None:
    """Write what is derived, unless something is wrong with what it is derived from."""
    if any(_is_unsound(entry) for entry in checked):
        return
    workspace.commit(
        [
            Replacement(config.root / release_folder(entry.folder, entry.release) / name, content)
            for entry in checked
            for name, content in entry.renewed.items()
        ]
    )


def _is_unsound(entry: Checked) -> bool:
    # nothing that anchors are made from
    other = ("header", "verdict", "statement", "depends", "exit", "log")
    return any(finding.kind not in other for finding in entry.findings)


def _document(checked: Sequence[Checked]) -> dict[str, Any]:
    """Return the report of a check, as docs/schema/check-1.json describes it."""
    ok = not any(entry.findings for entry in checked)
    unsound = any(_is_unsound(entry) for entry in checked)
    return {
        "schema": "patchkit.check/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "series": [
            {
                "folder": entry.folder,
                "release": entry.release,
                "patches": entry.patches,
                "hunks": entry.hunks,
                "same_as": entry.same_as,
                "findings": [
                    {"kind": f.kind, "place": f.place, "text": f.text} for f in entry.findings
                ],
                "refreshed": [] if unsound else sorted(entry.renewed),
            }
            for entry in checked
        ],
    }
