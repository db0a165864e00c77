"""`patchkit split`: some hunks of a stored patch become a patch of their own."""

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
from patchkit.editing.naming import patch_name
from patchkit.editing.opened import refuse_while_open
from patchkit.editing.splitting import hunks_of_files, split
from patchkit.editing.stack import choose_release, find_layer, open_stack
from patchkit.errors import ExitCode, UsageError
from patchkit.repository.workspace import Workspace


@click.command(short_help="Take hunks of a stored patch into a new one.")
@click.argument("patch")
@click.option("--hunks", metavar="1,3", help="The hunks that go, by number; 2-4 is a range.")
@click.option("--files", metavar="A,B", help="The files that go: paths, folders or patterns.")
@click.option("--into", metavar="NAME", required=True, help="The name of the new patch.")
@click.option("--description", metavar="TEXT", help="What the new patch does.")
@stored_release_option
@series_option
@forget_decisions_option
@dry_run_option
@json_option
def command(
    patch: str,
    hunks: str | None,
    files: str | None,
    into: str,
    description: str | None,
    release: str | None,
    folder: str | None,
    forget_decisions: bool,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Take hunks of a stored patch into a new one.

    The new patch comes right after what is left, or before it where what is left needs it; where
    each needs the other nothing is done. Its header is that of the patch with another description.
    Needs that the split brings about are declared in the headers. The release with the whole series
    stays as it is, to the byte.

    \b
    Examples:
      patchkit split kv-cache --hunks 1,3 --into kv-pages
      patchkit split kv-cache --files 'vllm/v1/*' --into kv-scheduler --dry-run
    """
    if (hunks is None) == (files is None):
        raise UsageError("one of --hunks and --files says what goes", place="patchkit split")
    config = here()
    name = patch_name(into)
    workspace = Workspace(config.state_folder)
    folders = series_folders(config, folder)
    with workspace.locked(), render.progress() as progress:
        release = choose_release(config, folders, release, (patch,))
        refuse_while_open(config.state_folder, release)
        opener = tree_opener(config, progress)
        stack = open_stack(config, release, opener)
        layer = find_layer(config, stack, folders, patch)
        if files is not None:
            chosen = hunks_of_files(layer, [word for word in files.split(",") if word])
        else:
            chosen = _numbers(hunks or "")
        parted = split(stack, layer, chosen, name, description or "")
        plan = plan_delivery(config, parted.revision, layer.folder, opener, forget=forget_decisions)
        first, second = (name, layer.name) if parted.is_first else (layer.name, name)
        notes = [f"{first} comes first, then {second}"]
        notes += [f"declared: {later} needs {one}: {why}" for later, one, why in parted.needs]
        if not description:
            notes.append(f"{name}: to be filled in: Description")
        plan = with_notes(plan, notes)
        if not dry_run:
            deliver(workspace, [plan])
    document: dict[str, Any] = {
        "schema": "patchkit.split/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "dry_run": dry_run,
        "patch": layer.name,
        "new": name,
        "order": [first, second],
        "releases": [render_edit.delivery_json(plan)],
    }
    render_edit.show_revision(document, as_json=as_json)
    return ExitCode.DONE


def _numbers(text: str) -> frozenset[int]:
    """Return the numbers in a list such as `1,3-5`."""
    found: set[int] = set()
    for word in text.replace(" ", "").split(","):
        low, dash, high = word.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise UsageError(f"{word!r} is no hunk", place="patchkit split", expected="1,3 or 2-4")
        found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)
