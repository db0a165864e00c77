"""`patchkit exits`: which patches may go, by the conditions that their headers name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click
from packaging.version import Version

from patchkit.cli import render, render_exits
from patchkit.cli.options import (
    here,
    json_option,
    read_pins,
    series_folders,
    series_option,
    tree_opener,
)
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError
from patchkit.repository.move import OpenTree
from patchkit.repository.retired import stored_conditions
from patchkit.repository.store import nearest_base
from patchkit.series.exits import Exit, Holding, judge_exit


@click.command(short_help="Say which patches may go, by their own exit conditions.")
@click.argument("releases", nargs=-1, metavar="[RELEASE]...")
@click.option("--target", "trees", multiple=True, metavar="TREE", help="A tree that is no release.")
@series_option
@click.option("--must-hold", is_flag=True, help="Exit with 3 unless all conditions hold on each.")
@click.option("--why", is_flag=True, help="Print what shows it, condition by condition.")
@json_option
def command(
    releases: tuple[str, ...],
    trees: tuple[str, ...],
    folder: str | None,
    must_hold: bool,
    why: bool,
    as_json: bool,
) -> ExitCode:
    """Say which patches may go, by their own exit conditions.

    Each line of a header's Exit-When is a condition, and all must hold: `symbol MODULE:NAME`,
    `file PATH`, `text PATH "..."`, `text MODULE:NAME "..."`, their opposites `no-symbol`, `no-file`
    and `no-text`, and `release >=0.30`. Every pinned release is looked at unless some are named.
    The header of a patch is the one that is stored for the release, or for the nearest one below.

    \b
    Examples:
      patchkit exits
      patchkit exits 0.33.0 --why
      patchkit exits --target git:../vllm@main --must-hold
    """
    config = here()
    folders = series_folders(config, folder)
    pins = read_pins(config)
    asked = [pins.release(release).version for release in releases]
    specs = {release: f"v{release}" for release in asked or (() if trees else pins.versions)}
    specs |= {tree: tree for tree in trees}
    with render.progress(lines=True) as progress:
        opener = tree_opener(config, progress)
        rows = _rows(config, folders, specs, opener)
    document = _document(list(specs), rows, must_hold=must_hold)
    if as_json:
        render.show_json(document)
    else:
        render_exits.show_exits(document, reasons=why)
    return ExitCode(document["exit_code"])


def _rows(
    config: Config, folders: Sequence[str], specs: Mapping[str, str], opener: OpenTree
) -> list[dict[str, Any]]:
    """Return each patch that names conditions with what each target says of them."""
    stored = {folder: stored_conditions(config.root, folder) for folder in folders}
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {
        (folder, patch): []
        for folder, patches in stored.items()
        for patch, releases in patches.items()
        if any(releases.values())
    }
    for target, spec in specs.items():
        try:
            tree = opener(spec)
        except PatchkitError as error:
            for cells in rows.values():
                cells.append(_unavailable(target, str(error)))
            continue
        for (folder, patch), cells in rows.items():
            releases = stored[folder][patch]
            nearest = _nearest(releases, tree.version)
            cells.append(_cell(target, nearest, judge_exit(releases[nearest], tree)))
    return [{"folder": f, "patch": patch, "targets": cells} for (f, patch), cells in rows.items()]


def _nearest(releases: Collection[str], version: str | None) -> str:
    """The release whose header counts: the target's own, or the nearest that has the patch."""
    if version in releases:
        assert version is not None
        return version
    return nearest_base(releases, version) or min(releases, key=Version)


def _unavailable(target: str, reason: str) -> dict[str, Any]:
    unknown = Holding.UNKNOWN.value
    return {
        "target": target, "stored": None, "holding": unknown, "text": reason, "conditions": [],
    }  # fmt: skip


def _cell(target: str, stored: str, judged: Exit) -> dict[str, Any]:
    """One patch on one target, as docs/schema/exits-1.json describes it."""
    return {
        "target": target,
        "stored": stored,
        "holding": judged.holding.value,
        "text": judged.text,
        "conditions": [
            {
                "condition": str(one.condition),
                "holding": one.holding.value,
                "text": one.text,
                "place": one.place,
            }
            for one in judged.judged
        ],
    }


def _document(
    targets: Sequence[str], rows: list[dict[str, Any]], *, must_hold: bool
) -> dict[str, Any]:
    """Return the report of the conditions, as docs/schema/exits-1.json describes it."""
    held = all(cell["holding"] == Holding.HELD for row in rows for cell in row["targets"])
    ok = held or not must_hold
    return {
        "schema": "patchkit.exits/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "must_hold": must_hold,
        "targets": list(targets),
        "patches": rows,
    }
