"""`patchkit port`: plain patch files, moved from one tree to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_move, render_resolve
from patchkit.cli.options import here, json_option, read_patch_files, shown_path, tree_opener
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.report import outcome_json, tree_json
from patchkit.repository.workspace import read_folder, write_new_folder
from patchkit.series.series import Series, SeriesEntry, format_series
from patchkit.stacking.rebase import RebaseResult, rebase_series


@click.command(short_help="Move plain patch files from one vLLM tree to another.")
@click.argument("patches", nargs=-1, required=True, metavar="PATCH...")
@click.option("--base", required=True, metavar="TREE", help="What the patches were made on.")
@click.option("--target", required=True, metavar="TREE", help="Where they are to go.")
@click.option("--output", metavar="DIR", type=click.Path(path_type=Path), help="Write them there.")
@click.option(
    "--accept-drift", is_flag=True, help="What landed on changed ground is right all the same."
)
@click.option("--table", is_flag=True, help="Print a Markdown table for a pull request.")
@click.option("--why", is_flag=True, help="Print all the evidence, a fact a line.")
@json_option
def command(
    patches: tuple[str, ...],
    base: str,
    target: str,
    output: Path | None,
    accept_drift: bool,
    table: bool,
    why: bool,
    as_json: bool,
) -> ExitCode:
    """Move plain patch files from one vLLM tree to another.

    The patches are taken in the given order; - is standard input. A tree is a release, a folder, a
    wheel, an sdist, or git:REPO@REF. Nothing is written without --output, and then only if every
    hunk landed. A hunk has drifted where what it calls or reads is not what it was in the base:
    nothing is written then either, unless --accept-drift says that it is right as it is.

    \b
    Examples:
      patchkit port fix.patch --base v0.28.0 --target v0.29.0
      patchkit port fix.patch --base v0.28.0 --target v0.29.0 --why
      patchkit port *.patch --base v0.28.0 --target ../vllm --output moved
      patchkit port *.patch --base v0.28.0 --target v0.29.0 --table
      git diff v0.28.0 | patchkit port - --base v0.28.0 --target v0.29.0
    """
    if table and (as_json or why):
        other = "--json" if as_json else "--why"
        raise UsageError(f"--table and {other} are two things", place="patchkit port")
    config = here()
    inputs = read_patch_files(patches)
    with render.progress() as progress:
        open_tree = tree_opener(config, progress)
        result = rebase_series(inputs, open_tree(base), open_tree(target), progress=progress)
    done = result.ok and (accept_drift or not result.drifted)
    if output is not None and done:
        _write(output, result)
    document = _document(result, output if done else None, ok=done)
    if as_json:
        render.show_json(document)
    elif table:
        render_resolve.show_table(document["outcomes"])
    else:
        render_move.show_port(document, result, asked=output, reasons=why)
    return ExitCode(document["exit_code"])


def _write(output: Path, result: RebaseResult) -> None:
    """Write the moved patches as a series; a folder that holds anything else is left alone."""
    content = _content(result)
    there = read_folder(output) if output.is_dir() else {}
    if there == content:
        return
    if there or output.is_file():
        raise PatchkitError(
            "is there already, and holds something else",
            place=str(output),
            expected="an empty or a new folder",
        )
    write_new_folder(output, content)


def _content(result: RebaseResult) -> dict[str, bytes]:
    names = _file_names([patch.name for patch in result.patches if patch.data])
    kept = [patch for patch in result.patches if patch.data]
    data = {name: patch.data for name, patch in zip(names, kept, strict=True)}
    entries = tuple(SeriesEntry(name) for name in data)
    return format_series(Series(result.target.version or "0", entries, data))


def _file_names(names: Sequence[str]) -> list[str]:
    """Return a file name for each patch, the patch's own where that is free."""
    taken: list[str] = []
    for name in names:
        stem = Path(name.replace("#", "-")).name.replace(" ", "-")
        stem = stem.removesuffix(".patch").removesuffix(".diff") or "patch"
        number, free = 1, f"{stem}.patch"
        while free in taken:
            number += 1
            free = f"{stem}-{number}.patch"
        taken.append(free)
    return taken


def _document(result: RebaseResult, output: Path | None, *, ok: bool) -> dict[str, Any]:
    """Return the report of a port, as docs/schema/port-1.json describes it."""
    files = {path for patch in result.patches for path in patch.after}
    return {
        "schema": "patchkit.port/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "base": tree_json(result.base),
        "target": tree_json(result.target),
        "outcomes": [outcome_json(outcome) for outcome in result.outcomes],
        "files": sorted(files),
        "unshipped": [
            {"patch": u.patch, "path": u.path, "section": u.section.value, "hunks": u.hunks}
            for u in result.unshipped
        ],
        "output": shown_path(output) if output else None,
        "notes": list(result.notes),
    }
