"""`patchkit overlay`: the new files of each stored release, and their digests made anew."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import click

from patchkit.cli import render, render_overlay
from patchkit.cli.options import here, json_option, series_folders, series_option
from patchkit.config import Config
from patchkit.editing.around import refuse_stopped_rebase
from patchkit.errors import ExitCode
from patchkit.repository.new_files import NewFiles, new_files, renewed_overlays
from patchkit.repository.store import held_releases, not_stored, read_stored, stored_releases
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.repository.workspace import Replacement, Workspace
from patchkit.upstream.pins import normalise_version

# A verdict by series folder, patch and release.
Key = tuple[str, str, str]


@click.command(short_help="List the new files of a series, and which have changed.")
@click.argument("releases", nargs=-1, metavar="[RELEASE]...")
@series_option
@click.option("--refresh", is_flag=True, help="Write the digests of sources that have changed.")
@json_option
def command(
    releases: tuple[str, ...], folder: str | None, refresh: bool, as_json: bool
) -> ExitCode:
    """List the new files of a series, and which have changed.

    A series can hold whole new files. The overlay.toml of a release names the source of each, where
    it goes, and the sha256 of its text; nothing is built or moved while a source is another. The
    exit status is 3 where one has changed or is missing.

    With --refresh the digests of changed sources are written, all or none, and nothing else of an
    overlay.toml. What tests said of the patches of that series has to be found anew.

    \b
    Examples:
      patchkit overlay
      patchkit overlay v0.28.0 v0.29.0
      patchkit overlay --refresh
    """
    config = here()
    folders = series_folders(config, folder)
    wanted = [normalise_version(release) for release in releases]
    if refresh:
        workspace = Workspace(config.state_folder)
        with workspace.locked():
            document = _refresh(config, workspace, _overlays(config, folders, wanted))
    else:
        document = _document(_overlays(config, folders, wanted))
    if as_json:
        render.show_json(document)
    else:
        render_overlay.show_overlay(document, wanted)
    return ExitCode(document["exit_code"])


def _overlays(config: Config, folders: Sequence[str], wanted: Sequence[str]) -> list[NewFiles]:
    """Return the overlays of stored releases, of all unless some are wanted."""
    known = held_releases(config.root, folders)
    for release in wanted:
        if release not in known:
            raise not_stored(release, known, ", ".join(folders))
    found = [
        new_files(config.root, read_stored(config.root, folder, release))
        for folder in folders
        for release in stored_releases(config.root, folder)
        if not wanted or release in wanted
    ]
    return [overlay for overlay in found if overlay.files]


def _refresh(config: Config, workspace: Workspace, overlays: list[NewFiles]) -> dict[str, Any]:
    """Write what is to be written; return the report of it."""
    renewed = renewed_overlays(config.root, overlays)
    refuse_stopped_rebase(config, {o.folder for o in overlays if o.path in renewed})
    folders = list(dict.fromkeys(o.stored.folder for o in overlays if o.path in renewed))
    before = _held(config, folders)
    workspace.commit([Replacement(config.root / path, data) for path, data in renewed.items()])
    after = _held(config, folders)
    stale = [key for key in before if key not in after]
    return _document(overlays, refresh=True, written=list(renewed), stale=stale)


def _held(config: Config, folders: Sequence[str]) -> list[Key]:
    """Return the verdicts that speak of what is stored, the tests that they name included."""
    held = []
    for folder in folders:
        known = stored_releases(config.root, folder)
        for verdict in read_verdicts(config.root, folder):
            if verdict.base not in known:
                continue
            stored = read_stored(config.root, folder, verdict.base)
            if is_fresh(config.root, stored, verdict):
                held.append((folder, verdict.patch, verdict.release))
    return held


def _document(
    overlays: Sequence[NewFiles],
    *,
    refresh: bool = False,
    written: Collection[str] = (),
    stale: Sequence[Key] = (),
) -> dict[str, Any]:
    """Return the report of the new files, as docs/schema/overlay-1.json describes it."""
    ok = refresh or all(file.state == "holds" for o in overlays for file in o.files)
    return {
        "schema": "patchkit.overlay/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "refresh": refresh,
        "overlays": [_overlay(overlay, refresh=refresh) for overlay in overlays],
        "written": list(written),
        "stale_verdicts": [
            {"series": folder, "patch": patch, "release": release}
            for folder, patch, release in stale
        ],
    }


def _overlay(overlay: NewFiles, *, refresh: bool) -> dict[str, Any]:
    changed = "refreshed" if refresh else "changed"
    return {
        "series": overlay.stored.folder,
        "release": overlay.stored.release,
        "same_as": overlay.stored.same_as,
        "overlay": overlay.path,
        "files": [
            {
                "source": file.entry.source,
                "path": file.entry.path,
                "sha256": file.entry.sha256,
                "found": file.found,
                "state": changed if file.state == "changed" else file.state,
            }
            for file in overlay.files
        ],
    }
