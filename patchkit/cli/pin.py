"""`patchkit pin`: a release of the package index, written into the repository's pins."""

from __future__ import annotations

import click

from patchkit.cli import render
from patchkit.cli.options import here, json_option, read_pins, shown_path
from patchkit.config import Config
from patchkit.errors import ExitCode
from patchkit.repository.workspace import Replacement, Workspace, read_file
from patchkit.upstream.pins import Pins, Release, format_pins, parse_pins


@click.command(short_help="Add a release to the pins from the package index.")
@click.argument("version")
@json_option
def command(version: str, as_json: bool) -> ExitCode:
    """Add a release to the pins from the package index.

    Writes name, size and sha256 of each file of the release, and the sha256 of each wheel's RECORD,
    into the pins file of the repository (`upstream_pins.toml` unless pyproject.toml names another).
    No wheel is downloaded. A file that is pinned already must not have changed.

    \b
    Examples:
      patchkit pin 0.34.0
      patchkit pin v0.34.0rc1 --json
    """
    from patchkit.upstream.index import Index
    from patchkit.upstream.pinning import pin_release

    config = here()
    known = read_pins(config, may_be_missing=True)
    with render.progress() as progress:
        release = pin_release(version, Index(), known, progress)
    changed = _write(config, release)
    name = shown_path(config.pins_to_write)
    if as_json:
        render.show_json(_document(release, name, changed))
        return ExitCode.DONE
    for artifact in release.artifacts:
        yanked = " (yanked)" if artifact.yanked else ""
        render.say(f"{artifact.filename} {artifact.sha256[:12]}{yanked}")
    render.say(f"{'pinned' if changed else 'unchanged:'} {release.version} in {name}")
    return ExitCode.DONE


def _write(config: Config, release: Release) -> bool:
    """Return whether the pins file had to change."""
    path = config.pins_to_write
    workspace = Workspace(config.state_folder)
    with workspace.locked():
        before = read_file(path) if path.exists() else b""
        pins = parse_pins(before.decode(), place=str(path)) if before else Pins()
        after = format_pins(pins.with_release(release)).encode()
        if after != before:
            workspace.commit([Replacement(path, after)])
    return after != before


def _document(release: Release, path: str, changed: bool) -> dict[str, object]:
    artifacts = [
        {"filename": a.filename, "size_bytes": a.size_bytes, "sha256": a.sha256, "yanked": a.yanked}
        for a in release.artifacts
    ]
    return {
        "schema": "patchkit.pin/1",
        "exit_code": int(ExitCode.DONE),
        "release": release.version,
        "path": path,
        "changed": changed,
        "artifacts": artifacts,
    }
