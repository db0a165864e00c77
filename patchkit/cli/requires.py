"""`patchkit requires`: whether an environment has what the patches need of it."""

from __future__ import annotations

import sys
from typing import Any

import click

from patchkit.cli import render, render_installed
from patchkit.cli.options import here, json_option, series_folders
from patchkit.config import Config
from patchkit.diff import parse_patch
from patchkit.diff.header import parse_header
from patchkit.diff.requires import Required, parse_requires
from patchkit.errors import ExitCode
from patchkit.installed.environment import judge, read_environment
from patchkit.repository.store import held_releases, not_stored, read_stored, stored_releases
from patchkit.upstream.pins import normalise_version


@click.command(short_help="Say whether an environment has what the patches need.")
@click.argument("release", required=False)
@click.option(
    "--python", metavar="PATH", help="The environment's interpreter; our own unless given."
)
@json_option
def command(release: str | None, python: str | None, as_json: bool) -> ExitCode:
    """Say whether an environment has what the patches need.

    A patch says in its header what it needs beyond vLLM itself, one need a line: `Requires: package
    triton>=3.4`, or a module, a python, a command, a header, an option (a variable of the
    environment). That has nothing to do with whether it lands. Without a release the newest that is
    stored is meant. The exit status is 3 where something is missing.

    \b
    Examples:
      patchkit requires
      patchkit requires v0.28.0 --python /opt/venv/bin/python
    """
    config = here()
    version, wanted = _wanted(config, normalise_version(release) if release else None)
    interpreter = python or sys.executable
    there = read_environment(interpreter, [required for *_, required in wanted])
    rows = []
    for folder, patch, required in wanted:
        met = judge(required, there)
        rows.append(
            {
                "series": folder,
                "patch": patch,
                "requires": str(required),
                "met": met.is_met,
                "text": met.text,
            }
        )
    document = _document(version, interpreter, rows)
    if as_json:
        render.show_json(document)
    else:
        render_installed.show_requires(document)
    return ExitCode(document["exit_code"])


def _wanted(config: Config, release: str | None) -> tuple[str, list[tuple[str, str, Required]]]:
    """Return the release that is meant, and what each patch of its series requires."""
    folders = series_folders(config, None)
    known = held_releases(config.root, folders)
    chosen = release or known[-1]
    if chosen not in known:
        raise not_stored(chosen, known, ", ".join(folders))
    found = []
    for folder in folders:
        if chosen not in stored_releases(config.root, folder):
            continue
        stored = read_stored(config.root, folder, chosen)
        for name, data in stored.series.patches.items():
            place = f"{stored.place}/{name}"
            field = parse_header(parse_patch(data, place).preamble, place).find("Requires")
            if field is not None:
                needs = parse_requires(field.value, place, field.lineno)
                found += [(folder, name, required) for required in needs]
    return chosen, found


def _document(release: str, python: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the report, as docs/schema/requires-1.json describes it."""
    ok = all(row["met"] for row in rows)
    return {
        "schema": "patchkit.requires/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "release": release,
        "python": python,
        "requirements": rows,
    }
