"""`patchkit status`: what is stored, one line a release."""

from __future__ import annotations

from typing import Any

import click

from patchkit.checks.status import Status, stored_status
from patchkit.cli import render
from patchkit.cli.options import here, json_option, series_folders
from patchkit.errors import ExitCode


@click.command(short_help="Say what is stored, one line a release.")
@click.option("--series", "folder", metavar="DIR", help="This series folder only.")
@json_option
def command(folder: str | None, as_json: bool) -> ExitCode:
    """Say what is stored, one line a release.

    Only stored files are read: patches and headers can be read, and the anchors belong to the text
    that they lie beside. `check` proves the rest. The exit status is 3 where something is wrong.

    \b
    Examples:
      patchkit status
      patchkit status --series patches
    """
    config = here()
    found = list(stored_status(config.root, series_folders(config, folder)))
    document = _document(found)
    if as_json:
        render.show_json(document)
    else:
        render.show_status(document)
    return ExitCode(document["exit_code"])


def _document(found: list[Status]) -> dict[str, Any]:
    """Return the report of a status, as docs/schema/status-1.json describes it."""
    ok = not any(status.problems for status in found)
    return {
        "schema": "patchkit.status/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "releases": [
            {
                "folder": status.folder,
                "release": status.release,
                "patches": status.patches,
                "hunks": status.hunks,
                "overlay": status.overlay,
                "same_as": status.same_as,
                "problems": list(status.problems),
                "left_out": [{"patch": one.patch, "why": one.why} for one in status.left_out],
            }
            for status in found
        ],
    }
