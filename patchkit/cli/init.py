"""`patchkit init`: a folder that patchkit can work in."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from patchkit.cli import render
from patchkit.cli.options import json_option, read_pins
from patchkit.config import PYPROJECT, find_config
from patchkit.errors import ExitCode, UsageError
from patchkit.repository.workspace import Replacement, Workspace, read_file

TABLE = '[tool.patchkit]\nseries = ["patches"]\n'
SERIES = "# One patch file a line, applied in this order.\n"


@click.command(short_help="Set up a folder for a patch series.")
@click.option("--from", "release", metavar="REL", help="Start a series for this vLLM release.")
@json_option
def command(release: str | None, as_json: bool) -> ExitCode:
    """Set up a folder for a patch series.

    Writes `[tool.patchkit]` into pyproject.toml, and with --from an empty series for a release.
    What is there already is kept; running it again changes nothing.

    \b
    Examples:
      patchkit init
      patchkit init --from v0.28.0
    """
    root = Path.cwd()
    version = read_pins(find_config(root)).release(release).version if release else None
    created, kept = _set_up(root, version)
    if as_json:
        document = {"schema": "patchkit.init/1", "exit_code": int(ExitCode.DONE), "root": str(root)}
        render.show_json({**document, "created": created, "kept": kept})
        return ExitCode.DONE
    for name in created:
        render.say(f"created {name}")
    for name in kept:
        render.say(f"kept {name}")
    if version is None:
        render.say("next: patchkit init --from v0.28.0, with the release your patches are for")
    elif any(name.endswith("/series") for name in created):
        folder = f"patches/v{version}"
        render.say(f"next: put patch files into {folder}, name them in {folder}/series")
    return ExitCode.DONE


def _set_up(root: Path, version: str | None) -> tuple[list[str], list[str]]:
    """Return the names that were created and those that were there."""
    workspace = Workspace(root / ".patchkit")
    with workspace.locked():
        wanted = {PYPROJECT: pyproject_text(root / PYPROJECT)}
        if version:
            series = find_config(root).series[0] if wanted[PYPROJECT] is None else "patches"
            name = f"{series}/v{version}/series"
            wanted[name] = None if (root / name).exists() else SERIES
        created = {name: text for name, text in wanted.items() if text is not None}
        workspace.commit([Replacement(root / n, text.encode()) for n, text in created.items()])
    return list(created), [name for name in wanted if name not in created]


def pyproject_text(path: Path) -> str | None:
    """Return the new text of a pyproject.toml, None where it has the table already."""
    if not path.exists():
        return TABLE
    text = read_file(path).decode("utf-8")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise UsageError(f"not valid TOML: {err}", place=path.name) from err
    if "patchkit" in document.get("tool", {}):
        return None
    return text.rstrip("\n") + "\n\n" + TABLE if text.strip() else TABLE
