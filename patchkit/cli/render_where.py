"""What `patchkit where` shows: a line a release, and on request the evidence for each hunk."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from patchkit import report
from patchkit.cli.fitting import cut
from patchkit.cli.render import say, show_grid
from patchkit.cli.render_outcome import why_lines

_COLUMNS = ("release", "verdict", "placed", "upstream", "open")
_LAST = "what is in the way first"
_FIT_COLUMNS = ("release", "verdict", "applies", "there", "neither")


def show_where(
    head: dict[str, Any], lines: Sequence[str], rows: Iterator[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the releases as a list; off a terminal each is printed as soon as it is known."""
    if sys.stdout.isatty():
        return list(rows)
    _show_lines(lines)
    say(_line(_titles(head), _LAST))
    shown = []
    for row in rows:
        say(_line(_cells(row), row["reason"] or ""))
        sys.stdout.flush()
        shown.append(row)
    return shown


def show_where_end(lines: Sequence[str], document: dict[str, Any], *, reasons: bool) -> None:
    """Print what is left to say of a survey: on a terminal all of it, as a table."""
    if sys.stdout.isatty():
        _show_lines(lines)
        _show_table(document)
    for row in document["releases"] if reasons else ():
        if row["verdict"] != "clean":
            _show_reasons(row)
    rows = document["releases"]
    counts = ", ".join(
        f"{number} {verdict.replace('_', ' ')}"
        for verdict, number in Counter(row["verdict"] for row in rows).items()
    )
    say(f"{report.counted(document['hunks'], 'hunk')}, {report.counted(len(rows), 'release')}: "
        f"{counts}")  # fmt: skip
    for note in document["notes"]:
        say(f"note: {note}")
    for section in document["unshipped"]:
        what = report.unshipped_text(section["section"])
        say(f"note: {section['patch']}: {section['path']} is {what}; it was not looked at")
    if document["must_land"] and not document["ok"]:
        missing = [row["release"] for row in rows if not row["lands"]]
        say(f"does not land as it is on {', '.join(missing)}")


def _show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def _titles(head: dict[str, Any]) -> tuple[str, ...]:
    return _COLUMNS if head["base"] else _FIT_COLUMNS


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """The cells of a release, less the reason."""
    verdict = row["verdict"].replace("_", " ")
    if row["base"]:
        verdict = "base" if verdict == "clean" else f"base, {verdict}"
    if row["outcomes"]:
        counts = row["counts"]
        numbers = (counts["placed"], counts["already_upstream"], row["open"])
    elif row["fit"]:
        applying, present = row["fit"]["applying"], row["fit"]["present"]
        numbers = (applying, present, len(row["fit"]["hunks"]) - applying - present)
    else:
        return row["release"], verdict, "", "", ""
    return row["release"], verdict, *map(str, numbers)


def _line(cells: Sequence[str], reason: str) -> str:
    release, verdict, *numbers = cells
    counts = " ".join(f"{n:>{len(t)}}" for n, t in zip(numbers, _COLUMNS[2:], strict=True))
    line = f"{release:<8} {verdict:<15} {counts}  {reason}".rstrip()
    return cut(line)


def _show_table(document: dict[str, Any]) -> None:
    rows, colours = [], []
    for row in document["releases"]:
        rows.append([*_cells(row), row["reason"] or ""])
        bad = "yellow" if row["verdict"] == "drifted" else "red"
        colours.append("green" if row["lands"] else bad)
    show_grid([*_titles(document), _LAST], rows, colours)


def _show_reasons(row: dict[str, Any]) -> None:
    """Print all that is known of a release's hunks; those that just landed in one line."""
    say(f"{row['release']}: {row['verdict'].replace('_', ' ')}")
    if not row["outcomes"]:
        for hunk in row["fit"]["hunks"] if row["fit"] else ():
            off = hunk["offset"]
            fits = None if off is None else f"applies, {off:+d} lines off" if off else "applies"
            say(f"  {hunk['patch']}:{hunk['hunk']}: {fits or hunk['reason']}")
        if not row["fit"]:
            say(f"  {row['reason']}")
        return
    plain = [o for o in row["outcomes"] if o["status"] == "placed" and not o["drifted"]]
    for outcome in row["outcomes"]:
        if outcome not in plain:
            first, *facts = why_lines(outcome)
            say(f"  {outcome['patch']}:{outcome['hunk']}: {first}")
            for fact in facts:
                say(f"  {fact}")
    if plain:
        hunks = ", ".join(f"{outcome['patch']}:{outcome['hunk']}" for outcome in plain)
        say(f"  placed: {hunks}")
