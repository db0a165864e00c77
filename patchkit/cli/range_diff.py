"""`patchkit range-diff`: how one stored series differs from another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from patchkit.cli import render, render_know
from patchkit.cli.options import here, json_option, tree_opener
from patchkit.errors import ExitCode
from patchkit.knowing.changes import SectionPair
from patchkit.knowing.range_diff import PatchPair, RangeDiff, range_diff
from patchkit.knowing.sides import read_side


@click.command(short_help="Compare two stored series patch by patch.")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.argument("patches", nargs=-1, metavar="[PATCH]...")
@click.option("--series", "folder", metavar="DIR", help="Of releases, this series folder only.")
@click.option("--exit-code", "strict", is_flag=True, help="Exit with 3 where they differ.")
@json_option
def command(
    before: str,
    after: str,
    patches: tuple[str, ...],
    folder: str | None,
    strict: bool,
    as_json: bool,
) -> ExitCode:
    """Compare two stored series patch by patch.

    A and B are stored releases, folders that hold a `series`, or folders of a commit. Patches are
    paired by name, those that are left by what they change. A patch is unchanged where it makes the
    same edits in the same definitions, whatever the line numbers, blob ids and lines around them;
    of the others the diff of their changed lines is shown, and header fields apart.

    \b
    Examples:
      patchkit range-diff v0.28.0 v0.29.0
      patchkit range-diff v0.28.0 moved block-promotion
      patchkit range-diff git:.@main:patches/v0.29.0 v0.29.0 --exit-code
    """
    config = here()
    folders = config.series if folder is None else (folder.rstrip("/"),)
    with render.progress() as progress:
        opener = tree_opener(config, progress)

        def read_git(commit: str) -> Mapping[str, bytes]:
            return opener(f"git:{commit}").files

        old, new = (read_side(config, folders, spec, read_git) for spec in (before, after))
        found = range_diff(old, new, patches)
    document = _document(found, strict)
    if as_json:
        render.show_json(document)
    else:
        render_know.show_range_diff(document)
    return ExitCode(document["exit_code"])


def _document(found: RangeDiff, strict: bool) -> dict[str, Any]:
    """Return the comparison as docs/schema/range-diff-1.json describes it."""
    failed = strict and found.differ
    return {
        "schema": "patchkit.range-diff/1",
        "ok": not failed,
        "exit_code": int(ExitCode.FINDINGS if failed else ExitCode.DONE),
        "differ": found.differ,
        "before": found.before,
        "after": found.after,
        "patches": [_pair(pair) for pair in found.pairs],
        "reordered": list(found.reordered),
        "overlay": list(found.overlay),
    }


def _pair(pair: PatchPair) -> dict[str, Any]:
    state = pair.state.name.lower()
    if pair.before is None or pair.after is None:
        state = "added" if pair.before is None else "dropped"
    return {
        "before": pair.before,
        "after": pair.after,
        "subject": pair.subject,
        "state": state,
        "likeness": None if pair.likeness is None else round(pair.likeness, 3),
        "reason": pair.reason,
        "header": [
            {"field": field.field, "before": field.before, "after": field.after}
            for field in pair.header
        ],
        "files": [_section(section) for section in pair.sections],
    }


def _section(section: SectionPair) -> dict[str, Any]:
    return {
        "path_before": section.path_before,
        "path_after": section.path_after,
        "state": section.state.name.lower(),
        "notes": list(section.notes),
        "lines": [
            {"outer": line.outer, "inner": line.inner, "text": line.text,
             "definition": line.definition}
            for line in section.lines
        ],
    }  # fmt: skip
