"""What `patchkit overlay` shows: new files, releases that have the same ones told together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchkit import report
from patchkit.cli.fitting import filled
from patchkit.cli.render import say

_WIDTH = len("refreshed")


def show_overlay(document: dict[str, Any], wanted: Sequence[str]) -> None:
    """Print the new files, then what was written and what is to be done next."""
    overlays = document["overlays"]
    if not overlays:
        which = ", ".join(f"v{release}" for release in wanted) or "any release"
        say(f"no new files are stored for {which}")
        return
    several = len({overlay["series"] for overlay in overlays}) > 1
    for group in _groups(overlays):
        names = [_name(overlay, several=several) for overlay in group]
        files = group[0]["files"]
        say(f"{', '.join(names)}: {report.counted(len(files), 'new file')}")
        for file in files:
            say(f"  {file['state']:<{_WIDTH}} {file['source']} -> {file['path']}")
    _show_next(document)


def _groups(overlays: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the overlays, those together that have the same files in the same state."""
    groups: list[list[dict[str, Any]]] = []
    for overlay in overlays:
        alike = (group for group in groups if group[0]["files"] == overlay["files"])
        group = next(alike, None)
        if group is None:
            groups.append([overlay])
        else:
            group.append(overlay)
    return groups


def _name(overlay: dict[str, Any], *, several: bool) -> str:
    same = f" (same as v{overlay['same_as']})" if overlay["same_as"] else ""
    return f"{overlay['series'] + ' ' if several else ''}v{overlay['release']}{same}"


def _show_next(document: dict[str, Any]) -> None:
    states = [file["state"] for overlay in document["overlays"] for file in overlay["files"]]
    for line in filled("written: ", document["written"]):
        say(line)
    if document["refresh"] and not document["written"]:
        say("nothing to refresh: every digest holds")
    stale: dict[str, list[str]] = {}
    for verdict in document["stale_verdicts"]:
        stale.setdefault(verdict["patch"], []).append(f"v{verdict['release']}")
    for patch, releases in stale.items():
        for line in filled(f"verdicts on {patch} that hold no more: ", releases):
            say(line)
    if stale:
        say("`patchkit test RELEASE` makes verdicts anew")
    if "missing" in states:
        say("a source is missing: put it back, or take its table out of the overlay.toml")
    if "changed" in states:
        say("`patchkit overlay --refresh` writes the digests of changed sources")
