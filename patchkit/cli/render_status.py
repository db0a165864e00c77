"""What `patchkit status` shows: the matrix in blocks that fit the terminal, and the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from patchkit.cli.fitting import WIDTH, cut, line_width, seconds, short_name, table, wrapped
from patchkit.cli.render import say

_SIGNS = {
    "new": ("new", "the lowest release that has it"),
    "as_below": ("=", "removes and adds what it does in the release below"),
    "changed": ("text", "another text than in the release below"),
    "by_hand": ("hand", "adapted by hand for the release"),
    "same_as": ("same", "the release is stored as the same as another"),
    "left_out": ("out", "left out"),
    "not_yet": (".", "not there yet"),
    "not_stored": ("", "the series folder does not hold the release"),
    "problem": ("!", "a problem"),
}
_MARKS = {
    "needed": ("+", "needed, by its tests"),
    "superseded": ("-", "superseded: its tests pass without it"),
    "not effective": ("x", "its tests fail with it, too, or are broken"),
    "broken": ("x", "its tests fail with it, too, or are broken"),
    "stale": ("?", "the verdict of its tests is stale"),
}
_OUTLOOKS = {
    "clean": ("clean", "lands as it is"),
    "drifted": ("drift", "lands, on ground that changed"),
    "upstream": ("upstream", "the release has it"),
    "partly_upstream": ("partly", "the release has some of it"),
    "conflicts": ("conflict", "some hunks are to be settled by hand"),
    "orphaned": ("orphan", "what it changes is not there"),
    "blocked": ("blocked", "waits for patches before it"),
    "superseded": ("super", "its tests pass without it"),
}
_MAY_GO = (">", "its exit condition holds")
_NOT_MOVED = ("out", "not in the nearest stored release")
_COLOURS = {
    "!": 31, "conflict": 31, "orphan": 31, "blocked": 31, "partly": 33, "drift": 33, "text": 36,
    "hand": 36, "clean": 32, "upstream": 32, "super": 32, "out": 2, ".": 2,
}  # fmt: skip


def show_status(document: dict[str, Any]) -> None:
    """Print the matrix, why patches are left out, the rebases, then all that is wrong or open."""
    matrix = document["matrix"]
    cells = {(r["folder"], r["patch"]): [_cell(c) for c in r["cells"]] for r in matrix["rows"]}
    _show_blocks(matrix["releases"], cells)
    if matrix["rows"]:
        for line in _legend(_stored_signs(matrix["rows"])):
            say(line)
    if document["forecasts"] is not None:
        _show_forecasts(document["forecasts"], [(r["folder"], r["patch"]) for r in matrix["rows"]])
    for text in (*_same_as(document), *_left_out(matrix["rows"]), *_rebases(document["rebases"])):
        for line in wrapped(text, more="  "):
            say(line)
    for status in document["releases"]:
        for problem in status["problems"]:
            say(f"problem: {problem}")
    for problem in document["problems"]:
        say(f"problem: {problem}")
    for line in _open_work(document["open"]):
        say(line)
    say(_summary(document))


def _cell(cell: dict[str, Any]) -> str:
    sign = _SIGNS[cell["state"]][0]
    if cell["test"] is None:
        return sign
    return sign + _MARKS["stale" if cell["test_stale"] else cell["test"]][0]


def _show_blocks(titles: Sequence[str], cells: dict[tuple[str, str], list[str]]) -> None:
    """Print a table of each series folder; where there are several, below its name."""
    folders = list(dict.fromkeys(folder for folder, _ in cells))
    for folder in folders:
        if len(folders) > 1:
            say(f"{folder}:")
        rows = [(short_name(patch), row) for (own, patch), row in cells.items() if own == folder]
        for line in table(titles, rows, line_width()):
            say(_coloured(line))


def _coloured(line: str) -> str:
    """Return a line with its signs in colour, on a terminal that shows them."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return line
    label, _, rest = line.partition(" ")
    words = rest.split(" ")
    for number, word in enumerate(words):
        colour = _COLOURS.get(word.rstrip("+-x?>"))
        words[number] = f"\x1b[{colour}m{word}\x1b[0m" if colour and word else word
    return f"{label} {' '.join(words)}"


def _stored_signs(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The signs of the matrix that are used, with what they mean."""
    cells = [cell for row in rows for cell in row["cells"]]
    used = {cell["state"] for cell in cells}
    yield from (_SIGNS[state] for state in _SIGNS if state in used and _SIGNS[state][0])
    marks = {"stale" if cell["test_stale"] else cell["test"] for cell in cells if cell["test"]}
    yield from dict.fromkeys(_MARKS[name] for name in _MARKS if name in marks)


def _legend(signs: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Yield the meanings of some signs, filled into lines."""
    line = ""
    for sign, meaning in signs:
        part = f"{sign} {meaning}"
        if line and len(line) + 3 + len(part) > WIDTH:  # as a line that ends in a semicolon
            yield f"{line};"
            line = part
        else:
            line = f"{line}; {part}" if line else part
    if line:
        yield line


def _show_forecasts(found: Sequence[dict[str, Any]], order: Sequence[tuple[str, str]]) -> None:
    """Print what each release that is not stored would make of the patches, and what it took."""
    answered = [forecast for forecast in found if forecast["error"] is None]
    by_patch = {
        (forecast["target"], series["folder"], patch["patch"]): patch
        for forecast in answered
        for series in forecast["series"]
        for patch in series["patches"]
    }
    if answered and order:
        say()
        say("not stored, and what a rebase from the nearest stored release would come to:")
        titles = [forecast["target"] for forecast in answered]
        cells = {key: _outlooks(key, titles, by_patch) for key in order}
        times = [_time(forecast["seconds"], kept=forecast["kept"]) for forecast in answered]
        every = sum(forecast["seconds"] for forecast in answered)
        cells[order[-1][0], "time"] = [*times, _time(every)]
        _show_blocks([*titles, "time"], cells)
        for line in _legend(_forecast_signs(cells, by_patch, answered)):
            say(line)
        say("`patchkit forecast RELEASE`, or --why, says what is in the way")
    for forecast in found:
        if forecast["error"] is not None:
            say(cut(f"{forecast['target']} could not be asked: {forecast['error']}"))


def _outlooks(
    key: tuple[str, str],
    targets: Sequence[str],
    by_patch: dict[tuple[str, str, str], dict[str, Any]],
) -> list[str]:
    """The cells of one patch, and how long all of them took."""
    found = [by_patch.get((target, *key)) for target in targets]
    return [*map(_outlook, found), _time(sum(patch["seconds"] for patch in found if patch))]


def _time(value: float, *, kept: bool = False) -> str:
    return seconds(value).replace(" ", "") + ("*" if kept else "")


def _forecast_signs(
    cells: dict[tuple[str, str], list[str]],
    by_patch: dict[tuple[str, str, str], dict[str, Any]],
    found: Sequence[dict[str, Any]],
) -> Iterator[tuple[str, str]]:
    used = {patch["outlook"] for patch in by_patch.values()}
    yield from (_OUTLOOKS[name] for name in _OUTLOOKS if name in used)
    if any(_NOT_MOVED[0] in row for row in cells.values()):
        yield _NOT_MOVED
    if any(patch["exit"] for patch in by_patch.values()):
        yield _MAY_GO
    if any(forecast["kept"] for forecast in found):
        yield "*", "found by an earlier run"


def _outlook(patch: dict[str, Any] | None) -> str:
    if patch is None:
        return _NOT_MOVED[0]
    return _OUTLOOKS[patch["outlook"]][0] + (_MAY_GO[0] if patch["exit"] else "")


def _same_as(document: dict[str, Any]) -> Iterator[str]:
    for status in document["releases"]:
        if status["same_as"]:
            yield f"{status['folder']}/v{status['release']} is the same as v{status['same_as']}"
        if status["overlay"]:
            count = status["overlay"]
            files = "file" if count == 1 else "files"
            yield f"{status['folder']}/v{status['release']} has {count} new {files} besides"


def _left_out(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield why patches are left out, releases with one reason in one line."""
    for row in rows:
        runs: list[tuple[str | None, list[str]]] = []
        for cell in row["cells"]:
            if cell["state"] != "left_out":
                continue
            if not runs or runs[-1][0] != cell["reason"]:
                runs.append((cell["reason"], []))
            runs[-1][1].append(cell["release"])
        for reason, releases in runs:
            span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
            why = reason or "no reason is kept"
            yield f"{row['folder']}/{short_name(row['patch'])}: left out of {span}: {why}"


def _rebases(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    for entry in found:
        hands = entry["by_hand"]
        cost = f", {hands} hunk{'' if hands == 1 else 's'} by hand" if hands else ""
        if entry["stopped_seconds"] is not None:
            cost += f", {seconds(entry['stopped_seconds'])} from stop to end"
        yield (
            f"{entry['folder']}: {entry['base']} -> {entry['target']} on {entry['date']}, "
            f"{seconds(entry['seconds'])}{cost}"
        )


def _open_work(found: dict[str, Any]) -> Iterator[str]:
    rebase = found["rebase"]
    if rebase is not None:
        hunks = ", ".join(map(str, rebase["hunks"]))
        yield (
            f"open: a rebase onto {rebase['target']} has stopped at {rebase['series']}/"
            f"{rebase['patch']}, hunk {hunks}"
        )
        yield "  patchkit rebase --continue, --skip or --abort"
    for edit in found["edits"]:
        what = f", at {edit['patch']}" if edit["patch"] else ""
        yield f"open: a work tree of v{edit['release']} in {edit['path']}{what}"


def _summary(document: dict[str, Any]) -> str:
    matrix = document["matrix"]
    problems = len(document["problems"])
    problems += sum(len(status["problems"]) for status in document["releases"])
    patches, releases = len(matrix["rows"]), len(matrix["releases"])
    return (
        f"{patches} patch{'' if patches == 1 else 'es'}, "
        f"{releases} release{'' if releases == 1 else 's'}: "
        + (f"{problems} problem{'' if problems == 1 else 's'}" if problems else "sound")
    )
