"""`patchkit status`: every patch on every release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from patchkit.checks.matrix import Matrix, build_matrix
from patchkit.checks.open_work import OpenWork, find_open_work
from patchkit.checks.status import Status, stored_status
from patchkit.cli import render, render_status
from patchkit.cli.options import (
    here,
    json_option,
    series_folders,
    series_option,
    shown_path,
)
from patchkit.config import Config
from patchkit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    pass


@click.command(short_help="Show every patch on every release.")
@click.option("--all", "with_all", is_flag=True, help="Try pinned releases that are not stored.")
@click.option("--releases", metavar="RANGE", help="Like --all, but these only: '>=0.30'.")
@click.option("--why", is_flag=True, help="With --all: print what is in the way of each patch.")
@series_option
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1),
    help="With --all: how many processes to use at most; one a processor unless given.",
)
@json_option
def command(
    with_all: bool,
    releases: str | None,
    why: bool,
    folder: str | None,
    jobs: int | None,
    as_json: bool,
) -> ExitCode:
    """Show every patch on every release.

    One row a patch, one column a stored release: whether it is there as in the release below, with
    another text, adapted by hand, or left out, and what `patchkit test` said of it. Only stored
    files are read: patches and headers can be read, and the anchors belong to the text that they
    lie beside. `check` proves the rest. Then the rebases that the log knows, and what is begun and
    not finished.

    With --all each pinned release that is not stored is asked too: the series are moved there from
    the nearest stored release, and nothing is written. What was found is kept in the user's cache
    and used again until a patch, a release, a verdict or patchkit changes.

    The exit status is 3 where something is wrong, or a release could not be asked.

    \b
    Examples:
      patchkit status
      patchkit status --all
      patchkit status --releases '>=0.30' --why
      patchkit status --series patches --json
    """
    if (why or jobs) and not (with_all or releases):
        raise UsageError("--why and --jobs are for --all", place="patchkit status")
    config = here()
    folders = series_folders(config, folder)
    found = list(stored_status(config.root, folders))
    matrix = build_matrix(config.root, folders, found)
    work = find_open_work(config.state_folder, shown_path(config.state_folder))
    asked = None
    if with_all or releases is not None:
        asked = _ask(config, folders, found, releases, jobs)
    document = _document(found, matrix, work, asked)
    if as_json:
        render.show_json(document)
    else:
        render_status.show_status(document)
        if why and asked is not None:
            from patchkit.cli import render_forecast

            render_forecast.show_reasons(asked, whole=True)
    return ExitCode(document["exit_code"])


def _ask(
    config: Config,
    folders: Sequence[str],
    found: Sequence[Status],
    releases: str | None,
    jobs: int | None,
) -> list[dict[str, Any]]:
    """Return what becomes of the patches on the pinned releases that a folder does not hold."""
    from patchkit.cli.forecast import ask_releases, forecast_json
    from patchkit.cli.options import read_pins
    from patchkit.cli.where import choose_releases

    pins = read_pins(config)
    held = {folder: {s.release for s in found if s.folder == folder} for folder in folders}
    held = {folder: releases for folder, releases in held.items() if releases}
    chosen = choose_releases(releases, pins)
    wanted = [v for v in chosen if any(v not in held[folder] for folder in held)]
    with render.progress(lines=True) as progress:
        asked = list(ask_releases(config, pins, wanted, jobs, progress))
    documents = [forecast_json(forecast) for forecast in asked]
    for document in documents:
        document["series"] = [
            series
            for series in document["series"]
            if document["target"] not in held.get(series["folder"], {document["target"]})
        ]
    return documents


def _document(
    found: Sequence[Status],
    matrix: Matrix,
    work: OpenWork,
    asked: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    """Return the report of a status, as docs/schema/status-1.json describes it."""
    problems = [*matrix.problems, *work.problems]
    ok = not problems and not any(status.problems for status in found)
    ok = ok and all(forecast["error"] is None for forecast in asked or ())
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
        "matrix": _matrix(matrix),
        "rebases": _rebases(matrix),
        "problems": problems,
        "open": {
            "rebase": asdict(work.rebase) if work.rebase else None,
            "edits": [asdict(edit) for edit in work.edits],
        },
        "forecasts": asked,
    }


def _matrix(matrix: Matrix) -> dict[str, Any]:
    return {
        "releases": list(matrix.releases),
        "rows": [
            {
                "folder": row.folder,
                "patch": row.patch,
                "cells": [
                    {
                        "release": cell.release,
                        "state": cell.state.name.lower(),
                        "reason": cell.reason,
                        "test": cell.test.value if cell.test else None,
                        "test_stale": cell.is_stale,
                        "rebased": cell.rebased.isoformat() if cell.rebased else None,
                    }
                    for cell in row.cells
                ],
            }
            for row in matrix.rows
        ],
    }


def _rebases(matrix: Matrix) -> list[dict[str, Any]]:
    """The last rebase onto each release that the log of its folder knows."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for folder, log in matrix.rebases.items():
        for entry in log:
            found[folder, entry.target] = {
                "folder": folder,
                "date": entry.date.isoformat(),
                "base": entry.base,
                "target": entry.target,
                "seconds": entry.seconds,
                "stopped_seconds": entry.stopped_seconds,
                "by_hand": sum(patch.by_hand for patch in entry.patches),
            }
    return list(found.values())
