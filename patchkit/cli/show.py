"""`patchkit show`: what is stored for a release, and with --why how each hunk came to its place."""

from __future__ import annotations

import re
from typing import Any

import click

from patchkit.cli import render, render_series
from patchkit.cli.options import here, json_option, series_folders, series_option, tree_opener
from patchkit.errors import ExitCode, UsageError
from patchkit.knowing.shown import (
    Shown,
    Wanted,
    moved_shown,
    no_such_patch,
    only,
    parse_wanted,
    stored_shown,
)
from patchkit.outcome import HunkOutcome
from patchkit.report import outcome_json
from patchkit.series.contents import HunkContents, PatchContents
from patchkit.upstream.pins import normalise_version

_RELEASE = re.compile(r"v?\d")


@click.command(short_help="Show a stored series, and why each hunk is where it is.")
@click.argument("words", nargs=-1, metavar="[RELEASE] [PATCH[#HUNK]]")
@click.option("--why", is_flag=True, help="Say how each hunk came to its place, with evidence.")
@click.option("--from", "base", metavar="REL", help="With --why: moved from this stored release.")
@series_option
@json_option
def command(
    words: tuple[str, ...], why: bool, base: str | None, folder: str | None, as_json: bool
) -> ExitCode:
    """Show a stored series, and why each hunk is where it is.

    RELEASE is the highest one stored unless given. With --why the move from the nearest lower
    release is made again, nothing is written, and each hunk says which method placed it, from which
    definition to which, what upstream renamed, the evidence, and what was rejected and why; the
    hunks are those of the release that was moved. While a rebase is stopped, it is the one shown.
    The exit status of --why is 3 where a shown hunk is open, or stored otherwise.

    \b
    Examples:
      patchkit show
      patchkit show v0.29.0 --why
      patchkit show v0.29.0 block-promotion#2 --why
      patchkit show v0.29.0 --why --from v0.27.1 --json
    """
    config = here()
    release, wanted = _read_words(words)
    folders = series_folders(config, folder)
    if base is not None and not why:
        raise UsageError("--from is for --why", place="patchkit show")
    if why:
        with render.progress() as progress:
            opener = tree_opener(config, progress)
            shown = moved_shown(config, folders, release, base, opener, progress)
    else:
        shown = stored_shown(config, folders, release)
    shown = [only(entry, wanted) for entry in shown]
    if wanted.patch is not None and not any(entry.patches for entry in shown):
        raise no_such_patch(wanted, shown)
    document = _document([entry for entry in shown if entry.patches or wanted.patch is None], why)
    if as_json:
        render.show_json(document)
    else:
        render_series.show_series(document, whole=wanted.patch is not None)
    return ExitCode(document["exit_code"])


def _read_words(words: tuple[str, ...]) -> tuple[str | None, Wanted]:
    """Return the release and the patch or hunk that are meant, in that order."""
    rest = list(words)
    release = None
    if rest and _RELEASE.match(rest[0]) and not rest[0].endswith((".patch", ".diff")):
        release = normalise_version(rest.pop(0))
    if len(rest) > 1:
        raise UsageError(
            f"{rest[1]!r} is one too many",
            place="patchkit show",
            expected="a release, a patch or PATCH#HUNK, in this order",
            hint="`patchkit show --help` has examples",
        )
    if not rest:
        return release, Wanted()
    return release, parse_wanted(rest[0])


# The document ------------------------------------------------------------------------------------


def _document(shown: list[Shown], why: bool) -> dict[str, Any]:
    """Return what is shown, as docs/schema/show-1.json describes it."""
    outcomes = [o for entry in shown for o in entry.outcomes.values()]
    differ = any(entry.differences or entry.clashes for entry in shown)
    ok = not differ and all(o.landed and not o.drifted for o in outcomes)
    return {
        "schema": "patchkit.show/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "why": why,
        "series": [_series(entry) for entry in shown],
    }


def _series(shown: Shown) -> dict[str, Any]:
    return {
        "folder": shown.folder,
        "release": shown.release,
        "target": shown.target,
        "stopped": shown.stopped,
        "same_as": shown.same_as,
        "base": shown.base,
        "differences": None if shown.differences is None else list(shown.differences),
        "overlay_clashes": list(shown.clashes),
        "patches": [_patch(patch, shown) for patch in shown.patches],
    }


def _patch(patch: PatchContents, shown: Shown) -> dict[str, Any]:
    header = patch.header
    return {
        "name": patch.name,
        "subject": patch.subject,
        "description": header.description,
        "reason": header.reason,
        "origin": header.origin,
        "forwarded": header.forwarded,
        "exit_condition": header.exit_condition,
        "applies_to": header.get("Applies-To"),
        "files": [
            {
                "path_before": file.path_before,
                "path_after": file.path_after,
                "change": file.change,
                "hunks": [_hunk(hunk, shown.outcomes.get((patch.name, hunk.number)))
                          for hunk in file.hunks],
            }
            for file in patch.files
        ],
    }  # fmt: skip


def _hunk(hunk: HunkContents, outcome: HunkOutcome | None) -> dict[str, Any]:
    return {
        "hunk": hunk.number,
        "line": hunk.line,
        "added": hunk.added,
        "removed": hunk.removed,
        "definitions": list(hunk.definitions),
        "edits": list(hunk.edits),
        "outcome": outcome_json(outcome) if outcome is not None else None,
    }
