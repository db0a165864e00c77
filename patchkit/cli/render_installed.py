"""What people see of wheels and installed trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from patchkit import report
from patchkit.cli.render import say
from patchkit.cli.render_outcome import show_outcomes

if TYPE_CHECKING:
    from patchkit.outcome import HunkOutcome


def show_build_wheel(document: dict[str, Any], outcomes: Sequence[HunkOutcome]) -> None:
    """Print what became of every hunk, what was left out, and where the wheel is."""
    show_outcomes(outcomes)
    for note in document["notes"]:
        say(f"note: {note}")
    _show_choice(document)
    if document["wheel"] is None:
        say("no wheel was written: not every hunk landed on ground that held")
        return
    say(f"wrote {document['wheel']['path']}, {document['wheel']['size_bytes']} bytes")


def show_apply(document: dict[str, Any], outcomes: Sequence[HunkOutcome]) -> None:
    """Print what became of every hunk, and what was done to the tree."""
    _show_finished(document)
    if outcomes:
        show_outcomes(outcomes)
    for note in document["notes"]:
        say(f"note: {note}")
    _show_choice(document)
    place = document["place"]
    if not document["ok"]:
        say(f"{place}: nothing was changed: not every hunk landed on ground that held")
    elif document["changed"]:
        files = report.counted(len(document["files"]), "file")
        say(f"{place}: applied the series of v{document['release']}, {files}")
    else:
        say(f"{place}: the series of v{document['release']} is in it already; nothing was changed")


def show_revert(document: dict[str, Any]) -> None:
    """Print what was put back."""
    _show_finished(document)
    for path in document["files"]:
        say(f"put back {path}")
    say(f"{document['place']}: as it was before the series")


def show_verify(document: dict[str, Any]) -> None:
    """Print every hole and every file that was changed, then the counts."""
    if document["note"]:
        say(f"note: {document['note']}")
    for hunk in document["hunks"]:
        if hunk["state"] != "present":
            name = f" {hunk['definition']}" if hunk["definition"] else ""
            at = f":{hunk['line']}" if hunk["line"] else ""
            text = f": {hunk['text']}" if hunk["text"] else ""
            head = f"{hunk['series']}/{hunk['patch']}:{hunk['hunk']}: {hunk['state']}"
            say(f"{head}: {hunk['path']}{at}{name}{text}")
    for file in document["files"]:
        say(f"{file['path']}: {file['text']}")
    present = sum(hunk["state"] == "present" for hunk in document["hunks"])
    count = f"{present} of {report.counted(len(document['hunks']), 'hunk')} present"
    say(f"{document['place']}: {document['state']}: v{document['release']}, {count}")
    if document["imported"]:
        _show_imported(document["imported"])


def _show_imported(imported: dict[str, Any]) -> None:
    """Print what interpreters loaded otherwise, then each with what it has of the series."""
    for fault in imported["faults"]:
        say(fault)
    for process in imported["processes"]:
        states = [module["state"] for module in process["modules"]]
        counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
        command = " ".join(process["command"][:3])
        say(f"process {process['pid']} ({command}): modules of the series: {', '.join(counts)}")


def show_requires(document: dict[str, Any]) -> None:
    """Print each requirement of each patch, what is missing first, then the count."""
    for row in sorted(document["requirements"], key=lambda row: bool(row["met"])):
        state = "has" if row["met"] else "MISSING"
        say(f"{row['patch']}: {state} {row['requires']}: {row['text']}")
    rows = document["requirements"]
    met = sum(row["met"] for row in rows)
    what = report.counted(len(rows), "requirement")
    said = f"{met} of {what} met" if rows else "no patch requires anything"
    say(f"v{document['release']} with {document['python']}: {said}")


def _show_finished(document: dict[str, Any]) -> None:
    if document["finished"]:
        say(f"note: finished the {document['finished']} that was broken off")


def _show_choice(document: dict[str, Any]) -> None:
    """Print what was left out, what came along, and what was not chosen."""
    for left in document["left_out"]:
        what = report.unshipped_text(left["section"])
        say(f"left out: {left['patch']}: {left['path']} is {what}")
    chosen = document["selection"]
    for patch, by in chosen["brought"].items():
        say(f"{patch}: comes along, {by} needs it")
    for patch in chosen["left_out"]:
        say(f"{patch}: not chosen")
