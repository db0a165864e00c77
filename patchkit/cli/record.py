"""`patchkit record`: what was changed in a work tree, stored as a patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from patchkit.cli import render, render_edit
from patchkit.cli.options import (
    dry_run_option,
    forget_decisions_option,
    here,
    json_option,
    shown_path,
    tree_opener,
)
from patchkit.config import Config
from patchkit.editing import opened as opened_trees
from patchkit.editing import worktree
from patchkit.editing.delivery import Delivery, deliver, plan_delivery
from patchkit.editing.heading import new_preamble
from patchkit.editing.naming import patch_name
from patchkit.editing.opened import OpenedTree
from patchkit.editing.recording import (
    NewPatch,
    Recorded,
    record,
    refuse_moved_ground,
)
from patchkit.editing.stack import Stack, find_patch, open_stack, own_folder
from patchkit.editing.state import format_state, state_path
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.repository.workspace import Replacement, Workspace

_FIELDS = ("description", "reason", "origin", "forwarded", "exit_condition", "applies_to")


@click.command(short_help="Store what was changed in the work tree as a patch.")
@click.argument("patch", required=False)
@click.option("--new", metavar="NAME", help="Make a new patch of it, after the one edited.")
@click.option("--description", metavar="TEXT", help="With --new: what the patch does.")
@click.option("--reason", metavar="TEXT", help="With --new: why it is needed.")
@click.option("--origin", metavar="TEXT", help="With --new: where it comes from.")
@click.option("--forwarded", metavar="TEXT", help="With --new: what upstream knows of it.")
@click.option("--exit-condition", metavar="TEXT", help="With --new: when it can go.")
@click.option("--applies-to", metavar="RANGE", help="With --new: the releases it is for.")
@click.option("--release", metavar="REL", help="Where several work trees are open: which.")
@click.option("--series", "folder", metavar="DIR", help="The series folder of a new patch.")
@click.option("--depends", is_flag=True, help="Declare in the headers what needs are found.")
@click.option("--accept-drift", is_flag=True, help="Later patches are right on changed ground.")
@forget_decisions_option
@dry_run_option
@json_option
def command(
    patch: str | None,
    new: str | None,
    release: str | None,
    folder: str | None,
    depends: bool,
    accept_drift: bool,
    forget_decisions: bool,
    dry_run: bool,
    as_json: bool,
    **header: str | None,
) -> ExitCode:
    """Store what was changed in the work tree as a patch.

    The patch that the tree stands at takes the changes, or PATCH, or a new one after it. It is
    always a diff against the release with the patches before it, with its anchors. Later patches
    are carried over the change and proven; where one cannot be, nothing is stored. Said of each
    hunk is how sure its context is in this release, and what needs no header declares; --depends
    declares them, as `Depends-On:`.

    \b
    Examples:
      patchkit record
      patchkit record block-promotion --dry-run
      patchkit record --new longer-table --description "Make the table longer" \\
        --reason "it overflows"
    """
    given = [name for name in _FIELDS if header.get(name) is not None]
    if patch is not None and new is not None:
        raise UsageError("PATCH and --new exclude each other", place="patchkit record")
    if given and new is None:
        option = given[0].replace("_", "-")
        raise UsageError(f"--{option} is for --new: the header is kept", place="patchkit record")
    config = here()
    workspace = Workspace(config.state_folder)
    with workspace.locked(), render.progress() as progress:
        opener = tree_opener(config, progress)
        opened = _opened(config, release)
        if not opened.changes:
            document = _document(opened, None, None, dry_run=dry_run)
        else:
            stack = open_stack(config, opened.state.release, opener)
            refuse_moved_ground(opened, stack)
            fields = [(n.replace("_", "-").title(), header.get(n)) for n in _FIELDS]
            at, into = _target(stack, opened, patch, new, folder, fields)
            recorded = record(
                stack, opened, at, into,
                accept_drift=accept_drift, declare=depends, progress=progress,
            )  # fmt: skip
            plan = plan_delivery(config, recorded.revision, at, opener, forget=forget_decisions)
            if not dry_run:
                _store(workspace, opened, stack, recorded, plan, is_new=new is not None)
            document = _document(opened, recorded, plan, dry_run=dry_run)
    if as_json:
        render.show_json(document)
    else:
        render_edit.show_record(document)
    return ExitCode.DONE


def _opened(config: Config, release: str | None) -> OpenedTree:
    release = opened_trees.only_open(config.state_folder, release)
    opened = opened_trees.find_opened(config.state_folder, release)
    if opened is None:
        place = shown_path(state_path(config.state_folder, release))
        hint = "`patchkit edit` opens a new one"
        raise PatchkitError("the work tree that it tells of is gone", place=place, hint=hint)
    return opened


def _target(
    stack: Stack,
    opened: OpenedTree,
    patch: str | None,
    new: str | None,
    folder: str | None,
    fields: Sequence[tuple[str, str | None]],
) -> tuple[str, str | NewPatch]:
    """Return the series folder, and the patch there that takes the changes."""
    state = opened.state
    if new is not None:
        names = [n for n, one in stack.stored.items() if one.same_as is None]
        at = folder or state.folder or (names[0] if len(names) == 1 else None)
        if at not in names:
            raise UsageError(
                "a new patch needs a series folder" if at is None else f"{at} holds no patches",
                place="patchkit record",
                expected=f"--series, one of {', '.join(names)}",
            )
        if state.folder is None and at != list(stack.stored)[-1]:
            hint = f"`patchkit edit` a patch of {at} and record it there"
            raise PatchkitError("is not the topmost series folder", place=at, hint=hint)
        return at, NewPatch(patch_name(new), new_preamble(fields))
    if folder is not None:
        raise UsageError("--series is for --new", place="patchkit record")
    if patch is None and state.patch is None:
        raise UsageError(
            "the work tree stands on top of all patches",
            place="patchkit record",
            expected="the patch that takes the changes, or --new NAME",
        )
    if patch is None:
        assert state.folder is not None
        assert state.patch is not None
        return state.folder, state.patch
    at, name = find_patch(patch, stack.stored)
    own_folder(stack.stored, at)
    if at != (state.folder or list(stack.stored)[-1]):
        hint = f"`patchkit edit {at}/{name.removesuffix('.patch')}` opens it there"
        raise PatchkitError("is in another series folder", place=f"{at}/{name}", hint=hint)
    return at, name


def _store(
    workspace: Workspace,
    opened: OpenedTree,
    stack: Stack,
    recorded: Recorded,
    plan: Delivery,
    *,
    is_new: bool,
) -> None:
    """Write the patches together with the state of the work tree, then tell git."""
    revision, state = recorded.revision, opened.state
    layers = tuple(one for name in stack.stored for one in revision.built[name].layers)
    sources = dict(opened_trees.digests(stack.stored))
    written = {place: files for place, files in revision.files().items() if place in sources}
    sources |= opened_trees.digests_of(written)
    key = (state.folder, state.patch) if state.folder and state.patch else None
    if is_new and key is not None:
        key = (recorded.folder, recorded.patch)
    new = opened_trees.advance(opened, stack, replace(stack, layers=layers), sources, key)
    place = state_path(workspace.state_folder, state.release)
    deliver(workspace, [plan], [Replacement(place, format_state(new, place))])
    worktree.stand_at(opened.path, new.commit, new.series)


def _document(
    opened: OpenedTree, recorded: Recorded | None, plan: Delivery | None, *, dry_run: bool
) -> dict[str, Any]:
    """Return the report of a record, as docs/schema/record-1.json describes it."""
    found = recorded.contexts if recorded is not None else ()
    return {
        "schema": "patchkit.record/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "dry_run": dry_run,
        "path": shown_path(opened.path),
        "changed": [change.path for change in opened.changes],
        "folder": recorded.folder if recorded is not None else opened.state.folder,
        "patch": recorded.patch if recorded is not None else opened.state.patch,
        "hunks": [
            {
                "number": one.number,
                "path": one.path,
                "weak": one.is_weak,
                "occurrences": one.occurrences,
                "context": one.lines,
                "unique_from": one.unique_from,
                "insert_only": one.insert_only,
                "definitions": list(one.definitions),
                "text": one.text,
            }
            for one in found
        ],
        "empty_fields": list(recorded.empty) if recorded is not None else [],
        "undeclared": _needs(recorded.undeclared if recorded is not None else ()),
        "declared": _needs(recorded.declared if recorded is not None else ()),
        "release": render_edit.delivery_json(plan) if plan is not None else None,
    }


def _needs(needs: Sequence[tuple[str, str, str]]) -> list[dict[str, str]]:
    return [{"later": later, "earlier": earlier, "text": why} for later, earlier, why in needs]
