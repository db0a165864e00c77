"""`patchkit export-series`: stored series as a folder that works without this repository."""

from __future__ import annotations

from pathlib import Path

import click

from patchkit.cli import render
from patchkit.cli.options import here, json_option, series_folders, shown_path, tree_opener
from patchkit.errors import ExitCode
from patchkit.installed.apply import tool_version
from patchkit.installed.source import make_export, repository_source
from patchkit.repository.store import not_stored
from patchkit.repository.workspace import write_new_folder
from patchkit.upstream.pins import normalise_version


@click.command(short_help="Write stored series to a folder that needs nothing else.")
@click.argument("releases", nargs=-1, metavar="[RELEASE]...")
@click.option(
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A new or empty folder.",
)
@json_option
def command(releases: tuple[str, ...], output: Path, as_json: bool) -> ExitCode:
    """Write stored series to a folder that needs nothing else.

    `apply` and `verify` take it with --series, without a repository, pins, git or network. It holds
    the patches with their anchors, whole new files, the files that the patches change as upstream
    has them, and a sha256 of everything. Without a release all stored ones go in.

    \b
    Examples:
      patchkit export-series --output exported
      patchkit export-series v0.28.0 v0.29.0 --output exported
    """
    config = here()
    series_folders(config, None)
    source = repository_source(config)
    known = source.releases()
    wanted = tuple(dict.fromkeys(normalise_version(text) for text in releases)) or known
    for release in wanted:
        if release not in known:
            raise not_stored(release, known, source.place)
    with render.progress() as progress:
        files = make_export(config, wanted, tree_opener(config, progress), tool_version())
    write_new_folder(output, files)
    document = {
        "schema": "patchkit.export-series/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "path": shown_path(output),
        "releases": list(wanted),
        "files": sorted(files),
    }
    if as_json:
        render.show_json(document)
    else:
        render.say(f"wrote {shown_path(output)}: {', '.join(f'v{r}' for r in wanted)}")
    return ExitCode.DONE
