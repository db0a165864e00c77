"""The table as it is printed: short, whatever went wrong, so that no case hides the others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# The end of a traceback, behind what vLLM writes before the lines of another process.
ERROR = re.compile(
    r"^(?:\([^)]*\) *)?(?:[A-Z]+ \S+ \S+ \[[^]]*\] *)?"
    r"([A-Za-z_][\w.]*(?:Error|Exception|Exit)\b.*)"
)
ERROR_LINES = 2
PROBLEMS = 3  # of a case
WIDTH = 150  # of a line that tells a problem


def last_lines(text: str) -> str:
    """The last error in what a process printed and the line behind it, or else its last lines.

    An interpreter that ends badly prints more behind the error: leaked functions, for one.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for place in reversed(range(len(lines))):
        if found := ERROR.match(lines[place]):
            lines[place] = found[1]
            return "\n".join(shortened(line, 300) for line in lines[place : place + ERROR_LINES])
    return "\n".join(shortened(line, 300) for line in lines[-ERROR_LINES:])


def printed(table: Sequence[Mapping[str, Any]]) -> str:
    """A line a case, the first of its problems below it, and how many cases are as they must be."""
    lines = []
    for line in table:
        lines.append(f"{'ok ' if line['ok'] else 'BAD'} {line['case']}{figures(line)}")
        problems = [" ".join(problem.split()) for problem in line["problems"]]
        lines += [f"      {shortened(problem)}" for problem in problems[:PROBLEMS]]
        if problems[PROBLEMS:]:
            lines.append(f"      and {len(problems) - PROBLEMS} more: result.json has them")
    good = sum(line["ok"] for line in table)
    return "\n".join([*lines, f"{good} of {len(table)} cases are as they must be"])


def figures(line: Mapping[str, Any]) -> str:
    """What was found of a case, where both runs came to their end."""
    if "equal" not in line:
        return ""
    drafts, path = line["drafting"]["on"], line["path"]
    return (
        f": {line['equal']} of {line['positions']} equal, {line['excluded']} excluded, "
        f"{line['differing']} other; margins move {line['usual move']}, at most "
        f"{line['largest move']} of {line['bound']}; {line['induced']:.1%} copied; drafts "
        f"{drafts['accepted_tokens']}/{drafts['draft_tokens']}; verify "
        f"{path['captured']} captured, {path['called']} called in {path['decoding steps']} steps, "
        f"{path['silent steps']} silent"
    )


def shortened(text: str, width: int = WIDTH) -> str:
    """A text of at most as many characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
