"""`patchkit export`: a stored series as plain diffs, mails or a quilt folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from patchkit.adopting.leaving import Format, Leaving, format_folder, leaving, new_files
from patchkit.cli import render
from patchkit.cli.options import (
    here,
    json_option,
    selection_options,
    selection_words,
    series_folders,
    shown_path,
    tree_opener,
)
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError
from patchkit.report import counted
from patchkit.repository.store import (
    Stored,
    held_releases,
    not_stored,
    read_stored,
    stored_releases,
)
from patchkit.repository.workspace import read_file, write_new_folder
from patchkit.series.overlay import overlay_changes
from patchkit.series.selection import Key, select_patches
from patchkit.upstream.pins import normalise_version


@click.command(short_help="Write a stored series as plain diffs, mails or a quilt folder.")
@click.argument("release", required=False, metavar="[RELEASE]")
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.DIFF.value,
    show_default=True,
    help="Plain diffs, mails for `git am`, or a folder for quilt.",
)
@click.option(
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A new or empty folder.",
)
@selection_options
@json_option
def command(
    release: str | None,
    form: str,
    output: Path,
    only: str | None,
    without: str | None,
    selection: str | None,
    as_json: bool,
) -> ExitCode:
    """Write a stored series as plain diffs, mails or a quilt folder.

    Without a release the highest that is stored is taken. All series of the repository go in, in
    their order, and whole new files of an overlay as a patch of their own. `patchkit import` takes
    each format back. Diffs and mails are numbered, so that their names keep the order.

    \b
    Examples:
      patchkit export v0.28.0 --output patches-for-review
      patchkit export v0.28.0 --format mail --output mails
      patchkit export --format quilt --only block-promotion --output stack
    """
    config = here()
    folders = series_folders(config, None)
    version = _release(config, folders, release)
    stored = [
        read_stored(config.root, name, version)
        for name in folders
        if version in stored_releases(config.root, name)
    ]
    patches = {(s.folder, name): data for s in stored for name, data in s.series.patches.items()}
    words = selection_words(only, without, selection)
    chosen = set(select_patches(patches, **words, named=config.selections).chosen)
    whole = len(chosen) == len(patches)
    leaves = [one for series in stored for one in _leaving(config, series, chosen, whole=whole)]
    if not leaves:
        raise PatchkitError("the series is empty: there is nothing to write", place=f"v{version}")
    files = format_folder(leaves, Format(form))
    write_new_folder(output, files)
    document: dict[str, Any] = {
        "schema": "patchkit.export-patches/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "release": version,
        "format": form,
        "path": shown_path(output),
        "files": sorted(files),
        "left_out": ["/".join(key) for key in patches if key not in chosen]
        + ([] if whole else [f"{s.place}/overlay.toml" for s in stored if s.series.overlay]),
    }
    if as_json:
        render.show_json(document)
        return ExitCode.DONE
    count = counted(len(leaves), "patch", "patches")
    render.say(f"wrote {count} of v{version} to {shown_path(output)}")
    if not whole:
        render.say("note: line numbers and blob ids are those of the whole series")
        for name in document["left_out"]:
            render.say(f"left out: {name}")
    return ExitCode.DONE


def _release(config: Config, folders: Sequence[str], text: str | None) -> str:
    known = held_releases(config.root, folders)
    if text is None:
        return known[-1]
    version = normalise_version(text, known=known)
    if version not in known:
        raise not_stored(version, known, ", ".join(folders))
    return version


def _leaving(config: Config, stored: Stored, chosen: set[Key], *, whole: bool) -> Iterator[Leaving]:
    """Yield the patches of one series, its whole new files first."""
    overlay = stored.series.overlay
    if overlay is not None and whole:
        with render.progress() as progress:
            tree = tree_opener(config, progress)(f"v{stored.release}")
        sources = {entry.source: read_file(config.root / entry.source) for entry in overlay.entries}
        changes = overlay_changes(overlay, sources, tree, place=f"{stored.place}/overlay.toml")
        yield new_files(stored.folder, changes)
    for name, data in stored.series.patches.items():
        if (stored.folder, name) in chosen:
            yield leaving(name, data)
