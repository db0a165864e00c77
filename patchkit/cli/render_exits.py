"""What `patchkit exits` shows: every patch on every release, then what shows that it may go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchkit.cli.fitting import cut, line_width, short_name, table
from patchkit.cli.render import say

_WORDS = {"held": "go", "not held": ".", "cannot say": "?"}


def show_exits(document: dict[str, Any], *, reasons: bool) -> None:
    """Print the table, then a line for each patch and run of releases on which it may go."""
    rows = [
        (short_name(row["patch"]), [_WORDS[cell["holding"]] for cell in row["targets"]])
        for row in document["patches"]
    ]
    if not rows:
        say("no patch names a condition that can be tried; the header's field is Exit-When")
        return
    for line in table(document["targets"], rows, line_width()):
        say(line)
    say("go its conditions hold; . they do not; ? the tree does not say")
    for row in document["patches"]:
        for line in _whole(row) if reasons else map(cut, _first(row)):
            say(line)


def _first(row: dict[str, Any]) -> Iterator[str]:
    """Yield the first release on which a patch may go, and those that do not say."""
    held = [cell for cell in row["targets"] if cell["holding"] == "held"]
    if held:
        yield f"{short_name(row['patch'])}: may go on {held[0]['target']}"
        yield f"  {held[0]['text']}"
    for cell in row["targets"]:
        if cell["holding"] == "cannot say":
            yield f"{short_name(row['patch'])}: {cell['target']} does not say"
            yield f"  {cell['text']}"


def _whole(row: dict[str, Any]) -> Iterator[str]:
    for cell in row["targets"]:
        yield f"{cell['target']} {short_name(row['patch'])}: {cell['holding']}"
        if not cell["conditions"]:
            yield f"  {cell['text']}"
        for one in cell["conditions"]:
            place = f"{one['place']}: " if one["place"] else ""
            yield f"  {one['condition']}: {one['holding']}: {place}{one['text']}"
