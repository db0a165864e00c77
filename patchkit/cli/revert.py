"""`patchkit revert`: an applied series taken out of an installed tree again."""

from __future__ import annotations

from typing import Any

import click

from patchkit.cli import render, render_installed
from patchkit.cli.options import here, json_option, python_option
from patchkit.errors import ExitCode
from patchkit.installed.kept import read_applied
from patchkit.installed.revert import plan_revert
from patchkit.installed.site import find_site
from patchkit.installed.transaction import Transaction


@click.command(short_help="Take an applied series out of an installed tree.")
@click.argument("target", metavar="installed|DIR")
@python_option
@json_option
def command(target: str, python: str | None, as_json: bool) -> ExitCode:
    """Take an applied series out of an installed tree.

    The files that `apply` kept are put back, byte for byte, RECORD among them. A file that was
    changed since then is named, and nothing is done.

    \b
    Examples:
      patchkit revert installed
      patchkit revert /opt/venv
    """
    site = find_site(target, here().profile, python)
    transaction = Transaction(site)
    with transaction.locked() as finished:
        applied = read_applied(site)
        restored: list[str] = []
        if applied is not None or finished != "revert":
            undo = plan_revert(site, applied)
            transaction.commit("revert", undo.steps, undo.emptied)
            restored = [c.path for c in applied.changes] if applied else []
    document: dict[str, Any] = {
        "schema": "patchkit.revert/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "place": site.place,
        "distribution": site.distribution,
        "finished": finished,
        "files": [path for path in restored if not path.endswith(".pyc")],
    }
    if as_json:
        render.show_json(document)
    else:
        render_installed.show_revert(document)
    return ExitCode.DONE
