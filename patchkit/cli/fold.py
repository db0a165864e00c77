"""`patchkit fold`: stored patches merged into one of them."""

from __future__ import annotations

from typing import Any

import click

from patchkit.cli import render, render_edit
from patchkit.cli.options import (
    dry_run_option,
    forget_decisions_option,
    here,
    json_option,
    series_folders,
    series_option,
    stored_release_option,
    tree_opener,
)
from patchkit.editing.delivery import deliver, plan_delivery, with_notes
from patchkit.editing.folding import fold, pointed_elsewhere
from patchkit.editing.opened import refuse_while_open
from patchkit.editing.revision import revise
from patchkit.editing.stack import choose_release, find_layer, open_stack
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.repository.workspace import Workspace


@click.command(short_help="Merge stored patches into one of them.")
@click.argument("patches", nargs=-1, required=True, metavar="PATCH...")
@click.option("--into", metavar="PATCH", required=True, help="The patch that takes the others.")
@stored_release_option
@series_option
@forget_decisions_option
@dry_run_option
@json_option
def command(
    patches: tuple[str, ...],
    into: str,
    release: str | None,
    folder: str | None,
    forget_decisions: bool,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Merge stored patches into one of them.

    Neighbours are merged as they are. A patch that stands further off is brought beside the other
    one first, and that it commutes with all between is proven; where it does not, nothing is done
    and what is in the way is named. The header of --into stays, with the descriptions, reasons and
    lists of the others added. The release with the whole series stays as it is, to the byte.

    \b
    Examples:
      patchkit fold kv-pages --into kv-cache
      patchkit fold fix-1 fix-2 --into kv-cache --release v0.28.0 --dry-run
    """
    config = here()
    workspace = Workspace(config.state_folder)
    folders = series_folders(config, folder)
    with workspace.locked(), render.progress() as progress:
        release = choose_release(config, folders, release, (*patches, into))
        refuse_while_open(config.state_folder, release)
        opener = tree_opener(config, progress)
        stack = open_stack(config, release, opener)
        target = find_layer(config, stack, folders, into)
        sources = [find_layer(config, stack, folders, patch) for patch in patches]
        _check(target.name, [one.name for one in sources])
        for source in sources:
            if source.folder != target.folder:
                hint = "patches of one series folder can be merged"
                raise PatchkitError("is in another series folder", place=source.place, hint=hint)
        names = [source.name for source in sources]
        folded = fold(stack, target.folder, names, target.name)
        at, into_name = target.folder, target.name
        revision = revise(
            stack, at, folded.drafts, change="the fold",
            pointed=lambda draft, own: pointed_elsewhere(draft, own, at, names, into_name),
        )  # fmt: skip
        plan = plan_delivery(
            config, revision, target.folder, opener, forget=forget_decisions, lost=folded.lost
        )
        plan = with_notes(plan, [f"not taken over: {text}" for text in folded.lost_fields])
        if not dry_run:
            deliver(workspace, [plan])
    document: dict[str, Any] = {
        "schema": "patchkit.fold/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "dry_run": dry_run,
        "patch": target.name,
        "folded": names,
        "releases": [render_edit.delivery_json(plan)],
    }
    render_edit.show_revision(document, as_json=as_json)
    return ExitCode.DONE


def _check(into: str, names: list[str]) -> None:
    if into in names:
        raise UsageError(f"{into} cannot be folded into itself", place="patchkit fold")
    for at, name in enumerate(names):
        if name in names[:at]:
            raise UsageError(f"{name} is given twice", place="patchkit fold")
