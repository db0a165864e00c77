"""What people see of conflicts and what was made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def _resolution(entry: Mapping[str, Any]) -> Iterator[str]:
    hunks = ", ".join(map(str, entry["hunks"]))
    word = "hunk" if len(entry["hunks"]) == 1 else "hunks"
    head = f"{entry['number']}. {entry['series']}/{entry['patch']}, {word} {hunks}"
    yield f"{head}: made for {entry['release']}"
    names = [name for name in entry["definitions"] if name != "<module>"]
    yield f"   {entry['path']}{' ' if names else ''}{', '.join(names)}"
    yield f"   {entry['reason']}"
    yield f"   used on {', '.join(entry['used_on']) or 'none that is stored'}"
