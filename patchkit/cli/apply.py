"""`patchkit apply`: the stored series put into an installed tree, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli import render, render_installed
from patchkit.cli.options import (
    here,
    json_option,
    python_option,
    selection_options,
    selection_words,
    series_source,
    tree_opener,
)
from patchkit.errors import ExitCode
from patchkit.installed.apply import Plan, plan_apply
from patchkit.installed.kept import read_applied
from patchkit.installed.site import Site, find_site
from patchkit.installed.transaction import Transaction
from patchkit.report import outcome_json
from patchkit.series.selection import Selection, select_patches
from patchkit.upstream.pins import normalise_version
from patchkit.wheel.provenance import selection_json

if TYPE_CHECKING:
    from patchkit.installed.source import Source
    from patchkit.repository.store import Stored


@click.command(short_help="Put the stored series into an installed tree.")
@click.argument("target", metavar="installed|DIR")
@click.option(
    "--series",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="An exported series, in place of the repository's.",
)
@click.option("--release", metavar="REL", help="Take the tree for this release.")
@selection_options
@python_option
@json_option
def command(
    target: str,
    folder: Path | None,
    release: str | None,
    only: str | None,
    without: str | None,
    selection: str | None,
    python: str | None,
    as_json: bool,
) -> ExitCode:
    """Put the stored series into an installed tree.

    All of it goes in or nothing; a run that was killed is finished by the next. RECORD is kept
    right, stale byte code is removed, and what was replaced is kept beside RECORD for `revert`. A
    second run changes nothing. The release is found by content: nothing of vLLM is imported.

    \b
    Examples:
      patchkit apply installed
      patchkit apply /opt/venv --only block-promotion
      patchkit apply installed --series exported/
    """
    config = here()
    site = find_site(target, config.profile, python)
    source = series_source(config, folder)
    choose = _chooser(source, only=only, without=without, name=selection)
    asked = normalise_version(release) if release else None
    transaction = Transaction(site)
    with render.progress() as progress, transaction.locked() as finished:
        opener = None if source.is_export else tree_opener(config, progress)
        plan = plan_apply(site, source, choose, read_applied(site), opener, asked)
        if plan.steps:
            transaction.commit("apply", plan.steps)
    document = _document(site, plan, finished)
    if as_json:
        render.show_json(document)
    else:
        outcomes = [outcome for _, outcome in plan.patched.outcomes] if plan.patched else []
        render_installed.show_apply(document, outcomes)
    return ExitCode(document["exit_code"])


def _chooser(source: Source, **choice: Any) -> Callable[[Sequence[Stored]], Selection]:
    def choose(stored: Sequence[Stored]) -> Selection:
        patches = {
            (s.folder, name): data for s in stored for name, data in s.series.patches.items()
        }
        return select_patches(patches, named=source.selections, **selection_words(**choice))

    return choose


def _document(site: Site, plan: Plan, finished: str | None) -> dict[str, Any]:
    """Return the report of an apply, as docs/schema/apply-1.json describes it."""
    patched = plan.patched
    return {
        "schema": "patchkit.apply/1",
        "ok": plan.ok,
        "exit_code": int(ExitCode.DONE if plan.ok else ExitCode.FINDINGS),
        "place": site.place,
        "distribution": site.distribution,
        "release": plan.release,
        "changed": bool(plan.steps),
        "finished": finished,
        "selection": selection_json(plan.selection),
        "outcomes": [
            {"series": folder, **outcome_json(outcome)}
            for folder, outcome in (patched.outcomes if patched else ())
        ],
        "files": sorted(patched.files) if patched and plan.steps else [],
        "left_out": [
            {"patch": patch, "path": u.path, "section": u.section.value}
            for patch, u in (patched.unshipped if patched else ())
        ],
        "notes": list(plan.notes),
    }
