"""`patchkit rename`: a stored patch under another name, wherever a repository calls it."""

from __future__ import annotations

from typing import Any

import click

from patchkit.cli import render_edit
from patchkit.cli.options import dry_run_option, here, json_option, series_folders, series_option
from patchkit.editing.around import refuse_stopped_rebase
from patchkit.editing.naming import patch_name
from patchkit.editing.opened import refuse_while_open, renamed_state
from patchkit.editing.renaming import holders, rename
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.repository.workspace import Workspace
from patchkit.upstream.pins import normalise_version


@click.command(short_help="Give a stored patch another name, everywhere.")
@click.argument("old")
@click.argument("new")
@click.option("--release", metavar="REL", help="In this release alone.")
@click.option("--all-releases", is_flag=True, help="In every release; so it is unless told.")
@series_option
@dry_run_option
@json_option
def command(
    old: str,
    new: str,
    release: str | None,
    all_releases: bool,
    folder: str | None,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Give a stored patch another name, everywhere.

    The file, its anchors, the series file, the headers that depend on it, the comments that say why
    a release has it not, its verdicts and resolutions, and the selections of pyproject.toml. With
    --release only that release goes by the new name, so that a rebase takes it for another patch.

    \b
    Examples:
      patchkit rename kv-fix kv-pages
      patchkit rename kv-fix kv-pages --dry-run
    """
    if release is not None and all_releases:
        raise UsageError("--release and --all-releases exclude each other", place="patchkit rename")
    config = here()
    name = patch_name(new)
    workspace = Workspace(config.state_folder)
    with workspace.locked():
        (at,), known, releases = holders(config, series_folders(config, folder), old)
        if known == name:
            raise UsageError(f"{name} is its name already", place="patchkit rename")
        if release is not None:
            asked = normalise_version(release)
            if asked not in releases:
                held = ", ".join(f"v{one}" for one in releases)
                raise PatchkitError(f"v{asked} holds no {known}", place=at, hint=f"{held} do")
            releases = (asked,)
        for one in releases:
            refuse_while_open(config.state_folder, one)
        renamed = rename(config, at, known, name, releases, everywhere=release is None)
        refuse_stopped_rebase(config, [place for place, _ in renamed.done])
        if not dry_run:
            trees = [
                tree
                for one in releases
                for tree in renamed_state(config.state_folder, one, (at, known), name)
            ]
            workspace.commit([*renamed.replacements, *trees])
    document: dict[str, Any] = {
        "schema": "patchkit.rename/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "dry_run": dry_run,
        "folder": at,
        "old": known,
        "new": name,
        "releases": list(releases),
        "written": [{"path": place, "what": what} for place, what in renamed.done],
        "notes": list(renamed.notes),
    }
    render_edit.show_rename(document, as_json=as_json)
    return ExitCode.DONE
