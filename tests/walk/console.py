"""Shell sessions in Markdown, run as they stand: `$ command`, then what it prints.

A block is fenced with ```console. A command goes on in the next line after a backslash, and with
`<<'END'` until that word. `...` at the end of a line stands for the rest of it, a line of `...`
alone for any number of lines. A command that fails ends with a line `[3]`, its exit status.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_FENCE = "```console"
_HERE = re.compile(r"<<'(\w+)'")


@dataclass(frozen=True)
class Step:
    """One command, what the page says that it prints, and the line of the page that it is in."""

    command: str
    said: tuple[str, ...]
    lineno: int


def read_steps(text: str) -> Iterator[Step]:
    """Yield the commands of a page in order."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if lines[at] != _FENCE:
            at += 1
            continue
        at += 1
        while lines[at] != "```":
            assert lines[at].startswith("$ "), f"line {at + 1}: not a command: {lines[at]}"
            start = at
            command = lines[at][2:]
            while command.endswith("\\"):
                at += 1
                command += "\n" + lines[at].removeprefix("> ")
            if match := _HERE.search(command):
                while lines[at] != match[1]:
                    at += 1
                    command += "\n" + lines[at]
            at += 1
            said = []
            while lines[at] != "```" and not lines[at].startswith("$ "):
                said.append(lines[at])
                at += 1
            yield Step(command, tuple(said), start + 1)


def run_step(step: Step, folder: Path, variables: Mapping[str, str]) -> list[str]:
    """Return what a command prints, standard error as it comes, and `[N]` where it fails with N.

    A `cd` holds for that command alone.
    """
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step.command],
        cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    lines = done.stdout.removesuffix("\n").split("\n") if done.stdout else []
    return [*lines, f"[{done.returncode}]"] if done.returncode else lines


def is_said(said: tuple[str, ...], printed: list[str]) -> bool:
    """Return whether what was printed is what the page says."""
    if not said:
        return not printed
    if said[0] == "...":
        return any(is_said(said[1:], printed[at:]) for at in range(len(printed) + 1))
    if not printed:
        return False
    head, line = said[0], printed[0]
    same = line.startswith(head[:-3]) if head.endswith("...") else line == head
    return same and is_said(said[1:], printed[1:])
