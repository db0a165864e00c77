"""`patchkit edit`: a git work tree of a release, with its series as commits, to edit a patch in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_edit
from patchkit.cli.options import (
    here,
    json_option,
    series_folders,
    series_option,
    shown_path,
    stored_release_option,
    tree_opener,
)
from patchkit.config import Config
from patchkit.editing import opened as opened_trees
from patchkit.editing.opened import Key, OpenedTree
from patchkit.editing.stack import (
    Stack,
    choose_release,
    find_patch,
    open_stack,
    own_folder,
    read_release,
)
from patchkit.editing.state import EditState
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.repository.workspace import Workspace


@click.command(short_help="Open a git work tree of a release to edit a patch in.")
@click.argument("patch", required=False)
@stored_release_option
@series_option
@click.option("--path", metavar="DIR", type=click.Path(path_type=Path), help="Open it there.")
@click.option("--close", "--abort", "close", is_flag=True, help="Remove the work tree.")
@click.option("--discard", is_flag=True, help="Throw away what is not recorded in it.")
@json_option
def command(
    patch: str | None,
    release: str | None,
    folder: str | None,
    path: Path | None,
    close: bool,
    discard: bool,
    as_json: bool,
) -> ExitCode:
    """Open a git work tree of a release to edit a patch in.

    Its first commit is the release as it ships, then there is one a patch. With PATCH the tree
    stands at that patch, and later ones are not in its files; without, it has all of them. Edit,
    commit or not as you like, and `patchkit record`. Run again it says where the tree is; changes
    that are not recorded are never overwritten unless --discard says so.

    \b
    Examples:
      patchkit edit block-promotion
      patchkit edit --release v0.28.0
      patchkit edit block-promotion --path ../vllm-edit
      patchkit edit --close
    """
    if close and (patch is not None or path is not None):
        raise UsageError("--close takes no patch and no --path", place="patchkit edit")
    config = here()
    workspace = Workspace(config.state_folder)
    with workspace.locked():
        if close:
            document = _close(config, workspace, release, discard=discard)
        else:
            document = _open(config, workspace, patch, release, folder, path, discard=discard)
    if as_json:
        render.show_json(document)
    else:
        render_edit.show_edit(document)
    return ExitCode.DONE


def _open(
    config: Config,
    workspace: Workspace,
    patch: str | None,
    release: str | None,
    folder: str | None,
    path: Path | None,
    *,
    discard: bool,
) -> dict[str, Any]:
    """Return the report of a work tree that is open now."""
    folders = series_folders(config, folder)
    words = (patch,) if patch is not None else ()
    known = opened_trees.open_releases(config.state_folder)
    if release is None and len(known) == 1:
        release = known[0]
    release = choose_release(config, folders, release, words)
    stored = read_release(config, folders, release)
    key = find_patch(patch, stored) if patch is not None else None
    if key is not None:
        own_folder(stored, key[0])
    elif all(one.same_as is not None for one in stored.values()):
        own_folder(stored, next(iter(stored)))
    found = opened_trees.find_opened(config.state_folder, release)
    with render.progress() as progress:
        stack = open_stack(config, release, tree_opener(config, progress))
        if found is None:
            place = (
                path.absolute()
                if path is not None
                else opened_trees.default_path(config.state_folder, release)
            )
            state = opened_trees.open_new(workspace, stack, place, key, progress)
            return _document("opened", state, stack)
    return _again(workspace, found, stack, key, path, discard=discard, named=patch is not None)


def _again(
    workspace: Workspace,
    found: OpenedTree,
    stack: Stack,
    key: Key | None,
    path: Path | None,
    *,
    discard: bool,
    named: bool,
) -> dict[str, Any]:
    """Return the report of a work tree that was open before."""
    state = found.state
    shown = shown_path(found.path)
    if path is not None and path.absolute() != found.path:
        raise PatchkitError(
            f"v{state.release} is open in another work tree",
            place=shown,
            hint="`patchkit edit --close` removes it",
        )
    here_already = not named or key == (state.folder, state.patch)
    is_stale = opened_trees.digests(stack.stored) != dict(state.sources)
    if here_already and not is_stale and not (discard and found.changes):
        return _document("there", state, stack, found)
    if found.changes and not discard:
        raise opened_trees.refuse_unrecorded(found, shown)
    if not named and state.folder is not None and state.patch is not None:
        kept = (state.folder, state.patch)
        key = kept if any((one.folder, one.name) == kept for one in stack.layers) else None
    state = opened_trees.stand_elsewhere(workspace, found, stack, key)
    return _document("moved", state, stack)


def _close(
    config: Config, workspace: Workspace, release: str | None, *, discard: bool
) -> dict[str, Any]:
    release = opened_trees.only_open(config.state_folder, release)
    if not discard:  # with it, neither state nor tree has to be readable
        found = opened_trees.find_opened(config.state_folder, release)
        if found is not None and found.changes:
            raise opened_trees.refuse_unrecorded(found, shown_path(found.path))
    path = opened_trees.close(workspace, release)
    return _report("closed", release, path, None, None, (), ())


def _document(
    what: str, state: EditState, stack: Stack, found: OpenedTree | None = None
) -> dict[str, Any]:
    several = len(stack.stored) > 1
    names = [(layer.folder, layer.name) for layer in stack.layers]
    at = names.index((state.folder or "", state.patch)) if state.patch else len(names) - 1
    later = tuple("/".join(key) if several else key[1] for key in names[at + 1 :])
    changed = tuple(change.path for change in found.changes) if found is not None else ()
    path = Path(state.path)
    return _report(what, state.release, path, state.folder, state.patch, changed, later)


def _report(
    what: str,
    release: str,
    path: Path,
    folder: str | None,
    patch: str | None,
    changed: tuple[str, ...],
    later: tuple[str, ...],
) -> dict[str, Any]:
    """Return the report of a work tree, as docs/schema/edit-1.json describes it."""
    return {
        "schema": "patchkit.edit/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "state": what,
        "path": shown_path(path),
        "release": release,
        "folder": folder,
        "patch": patch,
        "changed": list(changed),
        "later": list(later),
    }
