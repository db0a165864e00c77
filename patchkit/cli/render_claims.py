"""What people see of `patchkit claims`."""

from __future__ import annotations

from typing import Any

from patchkit.cli.render import say
from patchkit.report import counted


def show_claims(document: dict[str, Any]) -> None:
    """Print what was filled in, then each finding with its hint, then the counts.

    One line a finding, whatever its length: editors and `grep` go by lines.
    """
    for filled in document["filled"]:
        say(f"{filled['place']}:{filled['line']}: filled in: {filled['text']}")
    for found in document["findings"]:
        say(f"{found['place']}:{found['line']}: {found['rule']}: {found['text']}")
        if found["hint"]:
            say(f"  hint: {found['hint']}")
    words = {
        "record": "of record", "ratio": "ratios", "published": "published",
        "arithmetic": "arithmetic",
    }  # fmt: skip
    marks = [f"{number} {words[kind]}" for kind, number in document["marks"].items() if number]
    listed = ", ".join(marks) or "no figure is marked"
    verdict = (
        counted(len(document["findings"]), "finding") if document["findings"] else "all backed"
    )
    say(f"{counted(document['files'], 'file')}: {listed}; {verdict}")
