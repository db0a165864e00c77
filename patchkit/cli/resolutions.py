"""`patchkit resolutions`: what was made of conflicts, remembered; listed, shown and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from patchkit.cli import render, render_resolve
from patchkit.cli.options import here, json_option
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.placing.resolution import Resolution
from patchkit.repository.memory import memory_file, read_memory
from patchkit.repository.workspace import Workspace


class Numbered(NamedTuple):
    """A resolution with its series folder and the number by which it is named, from 1."""

    number: int
    folder: str
    resolution: Resolution


@click.command(short_help="List what was made of conflicts, and take it back.")
@click.option("--show", "shown", type=int, metavar="N", help="Print one, with its edit.")
@click.option("--forget", "forgotten", metavar="N|PATCH", help="Never use it again.")
@json_option
def command(shown: int | None, forgotten: str | None, as_json: bool) -> ExitCode:
    """List what was made of conflicts, and take it back.

    Each edit that `patchkit rebase --continue` accepts is remembered in resolutions.toml beside the
    stored releases. Where the same hunk does not land by itself again, it is used if the target's
    definitions are as they were, or if its own change can be placed on them and proven. A rebase
    says which hunks were placed so.

    What is stored already stays as it is when a resolution is forgotten, and so do adaptations
    beside the patches.

    \b
    Examples:
      patchkit resolutions
      patchkit resolutions --show 2
      patchkit resolutions --forget 2
      patchkit resolutions --forget block-promotion
    """
    if shown is not None and forgotten is not None:
        raise UsageError("--show and --forget are two things", place="patchkit resolutions")
    config = here()
    workspace = Workspace(config.state_folder)
    if forgotten is not None:
        with workspace.locked():
            gone = _forget(config, workspace, forgotten)
        document = _document(gone, forgotten=True)
    else:
        workspace.recover()
        listed = _read(config)
        document = _document(listed if shown is None else [_one(listed, shown)], forgotten=False)
    if as_json:
        render.show_json(document)
    else:
        render_resolve.show_resolutions(document, whole=shown is not None)
    return ExitCode.DONE


def _read(config: Config) -> list[Numbered]:
    found = [(f, r) for f in config.series for r in read_memory(config.root, f)]
    return [Numbered(number, *entry) for number, entry in enumerate(found, start=1)]


def _one(listed: Sequence[Numbered], number: int) -> Numbered:
    for entry in listed:
        if entry.number == number:
            return entry
    raise PatchkitError(
        f"there is no resolution {number}",
        expected=f"a number up to {len(listed)}" if listed else "none is remembered",
        hint="`patchkit resolutions` lists them",
    )


def _forget(config: Config, workspace: Workspace, word: str) -> list[Numbered]:
    """Take one resolution, or all of a patch, out of the memory."""
    listed = _read(config)
    if word.isdecimal():
        gone = [_one(listed, int(word))]
    else:
        gone = [e for e in listed if word in _names(e)]
    if not gone:
        known = dict.fromkeys(entry.resolution.patch for entry in listed)
        raise PatchkitError(
            f"no resolution of {word} is remembered",
            expected=", ".join(known) or None,
            hint="`patchkit resolutions` lists them",
        )
    folders = dict.fromkeys(entry.folder for entry in gone)
    kept = {f: [e.resolution for e in listed if e.folder == f and e not in gone] for f in folders}
    workspace.commit([memory_file(config.root, f, left) for f, left in kept.items()])
    return gone


def _names(entry: Numbered) -> tuple[str, ...]:
    """What people may call the patch of a resolution."""
    patch = entry.resolution.patch
    bare = patch.removesuffix(".patch")
    return patch, bare, f"{entry.folder}/{patch}", f"{entry.folder}/{bare}"


def _document(entries: Sequence[Numbered], *, forgotten: bool) -> dict[str, Any]:
    """Return the report, as docs/schema/resolutions-1.json describes it."""
    return {
        "schema": "patchkit.resolutions/1",
        "exit_code": int(ExitCode.DONE),
        "forgotten": forgotten,
        "resolutions": [_entry(entry) for entry in entries],
    }


def _entry(entry: Numbered) -> dict[str, Any]:
    resolution, made = entry.resolution, entry.resolution.adaptation
    return {
        "number": entry.number,
        "key": resolution.key,
        "series": entry.folder,
        "patch": resolution.patch,
        "hunks": list(made.hunks),
        "path": made.path,
        "definitions": list(made.target_definitions),
        "release": made.release,
        "reason": made.reason,
        "used_on": list(resolution.used_on),
        "can_be_carried": bool(resolution.definitions),
        "diff": made.diff,
    }
