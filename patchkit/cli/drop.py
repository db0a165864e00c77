"""`patchkit drop`: a stored patch taken out of a release, with the reason."""

from __future__ import annotations

from typing import Any

import click

from patchkit.cli import render, render_edit
from patchkit.cli.options import (
    dry_run_option,
    here,
    json_option,
    series_folders,
    series_option,
    stored_release_option,
    tree_opener,
)
from patchkit.editing.delivery import Delivery, deliver, plan_delivery
from patchkit.editing.dropping import drop
from patchkit.editing.opened import refuse_while_open
from patchkit.editing.renaming import holders
from patchkit.editing.stack import choose_release, find_layer, open_stack
from patchkit.errors import ExitCode, UsageError
from patchkit.repository.workspace import Workspace


@click.command(short_help="Take a stored patch out of a release, with the reason.")
@click.argument("patch")
@click.option("--reason", metavar="TEXT", required=True, help="Why; the series file keeps it.")
@stored_release_option
@click.option("--all-releases", is_flag=True, help="Every release that holds it.")
@series_option
@click.option("--with-dependents", is_flag=True, help="Drop what needs it as well.")
@click.option("--accept-drift", is_flag=True, help="Later patches are right on changed ground.")
@dry_run_option
@json_option
def command(
    patch: str,
    reason: str,
    release: str | None,
    all_releases: bool,
    folder: str | None,
    with_dependents: bool,
    accept_drift: bool,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Take a stored patch out of a release, with the reason.

    Later patches are carried over the gap and proven; what needs the patch is named, and dropped
    only on request. The reason stays in the series file, where `patchkit status` finds it. Other
    releases keep the patch unless --all-releases is given.

    \b
    Examples:
      patchkit drop block-promotion --reason "upstream solves it since 0.30"
      patchkit drop kv-cache --release v0.29.0 --with-dependents --reason "gone"
    """
    if release is not None and all_releases:
        raise UsageError("--release and --all-releases exclude each other", place="patchkit drop")
    config = here()
    workspace = Workspace(config.state_folder)
    folders = series_folders(config, folder)
    plans: list[Delivery] = []
    dropped: list[dict[str, str]] = []
    with workspace.locked(), render.progress() as progress:
        opener = tree_opener(config, progress)
        if all_releases:
            folders, name, releases = holders(config, folders, patch)
            patch = f"{folders[0]}/{name}"
        else:
            releases = (choose_release(config, folders, release, (patch,)),)
        for one in releases:
            refuse_while_open(config.state_folder, one)
            stack = open_stack(config, one, opener)
            layer = find_layer(config, stack, folders, patch)
            gone = drop(
                stack, layer, reason,
                with_dependents=with_dependents, accept_drift=accept_drift, progress=progress,
            )  # fmt: skip
            plans.append(plan_delivery(config, gone.revision, layer.folder, opener))
            dropped += [{"release": one, "patch": n, "reason": why} for n, why in gone.reasons]
        if not dry_run:
            deliver(workspace, plans)
    document: dict[str, Any] = {
        "schema": "patchkit.drop/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "dry_run": dry_run,
        "dropped": dropped,
        "releases": [render_edit.delivery_json(plan) for plan in plans],
    }
    render_edit.show_revision(document, as_json=as_json)
    return ExitCode.DONE
