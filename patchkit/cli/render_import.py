"""What `patchkit import` shows: one table of the releases, then a paragraph a patch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from patchkit.cli.fitting import cut
from patchkit.cli.render import say, show_grid
from patchkit.cli.render_outcome import why_lines
from patchkit.report import counted, unshipped_text

_NOTES = 6  # of a patch; `diff -ru` gives three a file
_TITLES = ("release", "", "applies", "there", "neither", "ids", "off")
_WIDTHS = (8, 7, 7, 5, 7, 5, 5)
_LAST = "what is in the way first"
_WAYS = {
    "apart": "each patch was made on it by itself; they were moved onto one another, and proven",
    "below": "made without the series that is stored for it; moved onto that, and proven",
}


def show_import(document: dict[str, Any]) -> None:
    """Print what the patches were made on, what is stored of each, and what is left to do."""
    _show_base(document)
    if not document["given_base"]:
        _show_table(document["releases"])
    for text in document["lost"]:
        say(f"note: {text}")
    for row in document["passed_over"]:
        say(f"note: {row['name']} passed over: {row['reason']}")
    if not document["ok"]:
        _show_failure(document)
        return
    _show_moved(document["moved"])
    for patch in document["patches"]:
        _show_patch(patch)
    _show_end(document)


def _show_base(document: dict[str, Any]) -> None:
    base = document["base"]
    if base is None:
        say(f"fits no release: {document['nearest']['text']}")
        return
    say(f"base {base['name']}: {base['text']}")
    if base["alike"]:
        say(f"  just as well: {', '.join(base['alike'])}")
    if document["way"] in _WAYS:
        say(f"  {_WAYS[document['way']]}")
    if document["order"]:
        say(f"  {document['order']}")


def _show_table(releases: Sequence[dict[str, Any]]) -> None:
    rows = [_cells(row) for row in releases]
    if sys.stdout.isatty():
        colours = ["green" if row["fits"] else "red" for row in releases]
        show_grid([*_TITLES, _LAST], rows, colours)
        return
    for cells in ([*_TITLES, _LAST], *rows):
        say(_line(cells))


def _cells(row: dict[str, Any]) -> list[str]:
    word = "base" if row["base"] else "fits" if row["fits"] else "-"
    counts = (row["applying"], row["present"], row["neither"])
    known = row["proven"] + row["foreign"]
    ids = f"{row['proven']}/{known}" if known else "-"
    return [
        row["release"],
        word,
        *map(str, counts),
        ids,
        str(row["lines_off"]),
        row["reason"] or "",
    ]


def _line(cells: Sequence[str]) -> str:
    first = [f"{cell:<{width}}" for cell, width in zip(cells[:2], _WIDTHS[:2], strict=True)]
    numbers = [f"{cell:>{width}}" for cell, width in zip(cells[2:-1], _WIDTHS[2:], strict=True)]
    line = f"{' '.join([*first, *numbers])}  {cells[-1]}".rstrip()
    return cut(line)


def _show_failure(document: dict[str, Any]) -> None:
    if document["base"] is not None:
        _show_moved(document["moved"])
        say("nothing was written: not every patch has a place of its own")
        return
    _show_open(document)
    say("nothing was written")
    several = len({hunk["patch"] for row in document["releases"] for hunk in row["open"]}) > 1
    say(
        "hint: the patches were taken as one series; import them one by one"
        if several
        else "hint: --base TREE --release REL moves them, from a folder or git:REPO@REF"
    )


def _show_open(document: dict[str, Any]) -> None:
    """Print each hunk that does not apply to the release that comes nearest."""
    for release in document["nearest"]["releases"][-1:]:
        (row,) = (row for row in document["releases"] if row["release"] == release)
        say(f"on {release} do not apply:")
        for hunk in row["open"]:
            say(f"  {hunk['place']}: hunk {hunk['hunk']}: {hunk['reason']}")


def _show_moved(outcomes: Sequence[dict[str, Any]]) -> None:
    """Print what became of each hunk that did not simply land."""
    for outcome in outcomes:
        if outcome["status"] == "placed" and not outcome["drifted"]:
            continue
        name = f"{outcome['patch']}: hunk {outcome['hunk']}"
        if outcome["status"] == "already_upstream":
            say(f"  {name} is there already, in the release or in what is stored for it")
            continue
        first, *facts = why_lines(outcome)
        say(f"  {name}: {first}")
        for fact in facts:
            say(f"  {fact}")


def _show_patch(patch: dict[str, Any]) -> None:
    files = counted(len(set(patch["paths"])), "file")
    say(f"{patch['name']}: {counted(patch['hunks'], 'hunk')} in {files}, from {patch['source']}")
    for section in patch["unshipped"]:
        what = unshipped_text(section["section"])
        say(f"  kept: {section['path']} is {what}")
    for note in patch["notes"][:_NOTES]:
        say(f"  note: {note}")
    if len(patch["notes"]) > _NOTES:
        say(f"  note: {len(patch['notes']) - _NOTES} more, all of them with --json")
    if patch["depends_on"]:
        say(f"  depends on: {', '.join(patch['depends_on'])}")
    if patch["fill_in"]:
        say(f"  to fill in: {', '.join(patch['fill_in'])}")


def _show_end(document: dict[str, Any]) -> None:
    would = document["dry_run"]
    for name in document["set_up"]:
        say(f"{'would create' if would else 'created'} [tool.patchkit] in {name}")
    for note in document["notes"]:
        say(f"note: {note}")
    count = counted(len(document["patches"]), "patch", "patches")
    say(f"{count} {'would be written' if would else 'written'} to {document['path']}")
    if not would:
        empty = any(patch["fill_in"] for patch in document["patches"])
        say(f"next: {'fill in the headers, then ' if empty else ''}patchkit check --frozen")
