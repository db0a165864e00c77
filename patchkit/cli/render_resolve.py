"""What people see of conflicts and what was made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchkit.cli.render import say
from patchkit.report import counted


def show_resolutions(document: Mapping[str, Any], *, whole: bool) -> None:
    """Print resolutions, a few lines each; `whole` with the edit."""
    entries = document["resolutions"]
    for entry in entries:
        for line in _resolution(entry):
            say(line)
        if whole:
            say()
            say(entry["diff"].rstrip("\n"))
    count = counted(len(entries), "resolution")
    if document["forgotten"]:
        say(f"forgotten: {count}; what is stored already was not changed")
    elif not entries:
        say("no resolution is remembered")
    elif not whole:
        say(count)


def show_stopped(stopped: Mapping[str, Any] | None) -> None:
    """Print where a rebase has stopped, what is open there, and the ways on."""
    if stopped is None:
        say("no rebase has stopped here")
        return
    say(
        f"stopped at {stopped['series']}/{stopped['patch']}, "
        f"on the way from v{stopped['base']} to {stopped['target']}"
    )
    for entry in stopped["open"]:
        say(f"  {_open_line(entry)}")
    for file in stopped["files"]:
        say(f"  {file['state']}: {file['edit'] or file['path']}")
    for path in stopped["strays"]:
        say(f"  not among the files to edit: {path}")
    say(f"{stopped['note']} says why")
    for item in stopped["settled"]:
        say(f"settled by {item['by']}: {_hunks(item)}: {item['reason']}")
    for item in stopped["skipped"]:
        say(f"skipped: {_hunks(item)}")
    for entry in stopped["later"]:
        say(f"still to come: {entry['series']}/{entry['patch']}, {_open_line(entry)}")
    longest = max(len(way["command"]) for way in stopped["next"])
    for way in stopped["next"]:
        say(f"  {way['command']:<{longest}}  {way['does']}")


def _hunks(item: Mapping[str, Any]) -> str:
    """The hunks that a decision is about, with their patch."""
    place = f"{item['series']}/{item['patch']}"
    if item["hunks"] is None:
        return place
    word = "hunk" if len(item["hunks"]) == 1 else "hunks"
    return f"{place}, {word} {', '.join(map(str, item['hunks']))}"


def _open_line(entry: Mapping[str, Any]) -> str:
    status = "drifted" if entry["drifted"] else entry["status"].replace("_", " ")
    name = f" {entry['definition']}" if entry["definition"] else ""
    line = f"hunk {entry['hunk']}: {status}: {entry['path']}{name}"
    commit = entry["upstream_commit"]
    return f"{line}, since {commit['id']} {commit['subject']}" if commit else line


_PLAIN = ("exact", "offset", "merge3", "new_file", "delete_file", "metadata")
_TITLES = ("patch", "hunk", "definition", "verdict", "method, or why not", "upstream commit")


def show_table(outcomes: Sequence[Mapping[str, Any]]) -> None:
    """Print as a Markdown table what a reviewer has to look at: all that is not plainly placed."""
    rows = [_row(outcome) for outcome in outcomes if not _is_plain(outcome)]
    plain = len(outcomes) - len(rows)
    if rows:
        for cells in (_TITLES, ("---",) * len(_TITLES), *rows):
            say(f"| {' | '.join(cells)} |")
        say()
    head = counted(len(outcomes), "hunk")
    say(f"{head}: {plain} plainly placed" if rows else f"{head}: all plainly placed")


def _is_plain(outcome: Mapping[str, Any]) -> bool:
    return (
        outcome["method"] in _PLAIN
        and not outcome["drifts"]
        and not outcome["accepted"]
        and outcome["status"] == "placed"
    )


def _row(outcome: Mapping[str, Any]) -> tuple[str, ...]:
    path = outcome["path_after"] or outcome["path_before"]
    name = outcome["definition_after"] or outcome["definition_before"]
    status = outcome["status"].replace("_", " ") + (", drifted" if outcome["drifted"] else "")
    commit = outcome["upstream_commit"]
    patch = f"{outcome['series']}/{outcome['patch']}" if "series" in outcome else outcome["patch"]
    shown = f"`{path}`" + (f" `{name}`" if name and name != "<module>" else "")
    said = f"{commit['id']} {commit['date']} {commit['subject']}" if commit else ""
    cells = (patch, str(outcome["hunk"]), shown, status, "; ".join(_reasons(outcome)), said)
    return tuple(_cell(cell) for cell in cells)


def _reasons(outcome: Mapping[str, Any]) -> Iterator[str]:
    """By which method a hunk was placed, what drifted, or why it was not placed."""
    if outcome["method"]:
        yield outcome["method"]
    if outcome["replayed"]:
        replayed = outcome["replayed"]
        yield f"resolved for {replayed['release']} ({replayed['how']}): {replayed['reason']}"
    if outcome["reason"]:
        yield outcome["reason"]
    yield from (drift["text"] for drift in outcome["drifts"])
    yield from (f"accepted: {a['text']} ({a['reason']})" for a in outcome["accepted"])
    if outcome["status"] == "already_upstream":
        yield from (fact["text"] for fact in outcome["evidence"][:1])
    elif outcome["method"] == "adaptation" and not outcome["replayed"]:
        yield from (fact["text"] for fact in outcome["evidence"] if fact["kind"] == "adaptation")


def _cell(text: str) -> str:
    """A text as one cell: in one line, its bars escaped."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _resolution(entry: Mapping[str, Any]) -> Iterator[str]:
    hunks = ", ".join(map(str, entry["hunks"]))
    word = "hunk" if len(entry["hunks"]) == 1 else "hunks"
    head = f"{entry['number']}. {entry['series']}/{entry['patch']}, {word} {hunks}"
    yield f"{head}: made for {entry['release']}"
    names = [name for name in entry["definitions"] if name != "<module>"]
    yield f"   {entry['path']}{' ' if names else ''}{', '.join(names)}"
    yield f"   {' '.join(entry['reason'].split())}"
    yield f"   used on {', '.join(entry['used_on']) or 'none that is stored'}"
