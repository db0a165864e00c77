"""What `patchkit forecast` shows: a line a target, then each patch that does not just land."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from patchkit.cli.render import say
from patchkit.cli.render_status import cut, seconds, show_open_patches

_TITLES = ("target", "verdict", "clean", "drift", "upstream", "open", "by hand", "time", "from")


def show_forecast(document: dict[str, Any], *, reasons: bool) -> None:
    """Print a table of the targets, the patches that are not clean, and what was not asked."""
    found = document["targets"]
    if found:
        rows = [_TITLES, *(_row(forecast) for forecast in found)]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_TITLES))]
        for row in rows:
            say(cut("  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()))
    else:
        say("no newer release is known than those that are stored")
    show_open_patches(found, whole=reasons)
    for line in _notes(document):
        say(line)


def _row(forecast: dict[str, Any]) -> tuple[str, ...]:
    if forecast["error"] is not None:
        return (forecast["target"], "unavailable", *[""] * 7)
    patches = [patch for series in forecast["series"] for patch in series["patches"]]
    counts = Counter(patch["outlook"] for patch in patches)
    upstream = counts["upstream"] + counts["superseded"]
    still_open = len(patches) - counts["clean"] - counts["drifted"] - upstream
    bases = dict.fromkeys(series["base"] for series in forecast["series"])
    return (
        forecast["target"],
        "lands" if forecast["lands"] else "stops",
        str(counts["clean"]),
        str(counts["drifted"]),
        str(upstream),
        str(still_open),
        str(sum(patch["by_hand"] for patch in patches)),
        seconds(forecast["seconds"]) + ("*" if forecast["kept"] else ""),
        ", ".join(bases),
    )


def _notes(document: dict[str, Any]) -> Iterator[str]:
    if any(forecast["kept"] for forecast in document["targets"]):
        yield "* found by an earlier run, and nothing has changed since"
    if document["unpinned"]:
        names = ", ".join(document["unpinned"])
        yield f"note: not pinned, and looked at for this forecast only: {names}"
    for note in document["notes"]:
        yield f"note: {note}"
    if document["must_land"] and not document["ok"]:
        names = ", ".join(f["target"] for f in document["targets"] if not f["lands"])
        yield f"does not land as it is on {names}"
