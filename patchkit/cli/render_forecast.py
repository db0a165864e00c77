"""What `patchkit forecast` shows: a line a target, then each patch that does not just land."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from patchkit.cli.fitting import cut, filled, seconds, short_name
from patchkit.cli.render import say

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
    show_reasons(found, whole=reasons)
    for line in _notes(document):
        say(line)


def _row(forecast: dict[str, Any]) -> tuple[str, ...]:
    if forecast["error"] is not None:
        return (forecast["target"], "unavailable", *[""] * 7)
    patches = [patch for series in forecast["series"] for patch in series["patches"]]
    if not patches:
        return (forecast["target"], "nothing to move", *[""] * 7)
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


def show_reasons(found: Sequence[dict[str, Any]], *, whole: bool) -> None:
    """Print what is in the way of each patch, how long it took, and what need not be moved.

    Lines are cut where the terminal ends, unless they are wanted `whole`.
    """
    for forecast in found:
        if forecast["error"] is not None:
            _say(f"{forecast['target']}: {forecast['error']}", whole)
        for series in forecast["series"]:
            for patch in series["patches"]:
                if not patch["lands"]:
                    _say(_reason(forecast["target"], patch), whole)
            for note in series["notes"]:
                _say(f"{forecast['target']} {series['folder']}: {note}", whole)
            _show_gone(forecast["target"], series["patches"], whole)


def _say(line: str, whole: bool) -> None:
    say(line if whole else cut(line))


def _reason(target: str, patch: dict[str, Any]) -> str:
    by_hand = f", {patch['by_hand']} of {patch['hunks']} by hand" if patch["by_hand"] else ""
    reason = f": {patch['reason']}" if patch["reason"] else ""
    outlook = patch["outlook"].replace("_", " ")
    head = f"{target} {short_name(patch['patch'])}: {outlook}{by_hand}"
    return f"{head}, {seconds(patch['seconds'])}{reason}"


def _show_gone(target: str, patches: Sequence[dict[str, Any]], whole: bool) -> None:
    """Print which patches the target needs no more: by name, or `whole` with what shows it."""
    kinds = (("upstream", "already upstream"), ("superseded", "superseded by their tests"))
    for outlook, words in kinds:
        names = [short_name(p["patch"]) for p in patches if p["outlook"] == outlook]
        for line in filled(f"{target} {words}: ", names):
            say(line)
    held = [patch for patch in patches if patch["exit"]]
    names = [short_name(patch["patch"]) for patch in held]
    for line in filled(f"{target} may go by their exit conditions: ", names) if not whole else ():
        say(line)
    for patch in held if whole else ():
        say(f"{target} {short_name(patch['patch'])}: exit condition holds: {patch['exit']}")


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
