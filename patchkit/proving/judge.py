"""What a report of pytest's says of one tree: red, green, or nothing that can be relied on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.series.verdict import Colour, Verdict

MAX_REASON = 240


@dataclass(frozen=True)
class Ended:
    """How the interpreter ended: its exit status, negative for a signal; None after `limit_s`."""

    status: int | None
    limit_s: float = 0


@dataclass(frozen=True)
class TreeRun:
    """The named tests on one tree; `reason` is one line that says why it is no plain green.

    `torch` is the version that was imported, None where none was. `output` is what pytest printed.
    """

    colour: Colour
    reason: str = ""
    torch: str | None = None
    output: str = ""


def read_report(text: str) -> list[dict[str, Any]]:
    """Return the lines of a report; the last one of a killed run may be cut short."""
    lines = []
    for line in text.split("\n"):
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def judge_run(
    report: Sequence[Mapping[str, Any]], ended: Ended, names: Sequence[str], tree: str
) -> TreeRun:
    """Return what a run of the named tests says of the tree that lies in the folder `tree`.

    Red needs a test that ran and whose own assertion failed, and no test of which that cannot be
    said: an error in an import, a fixture or the code under test, a skip, a crash and a missing
    test prove nothing.
    """
    end = next((line for line in report if line["kind"] == "end"), None)
    torch = end["torch"] if end else None
    problem = _broken(report, ended, names, tree, end)
    if problem:
        return TreeRun(Colour.BROKEN, _line(problem), torch)
    red = [line for line in _phases(report) if line["outcome"] == "failed"]
    if red:
        return TreeRun(Colour.RED, _line(f"{_short(red[0])}: {_first(red[0]['text'])}"), torch)
    return TreeRun(Colour.GREEN, "", torch)


def _broken(
    report: Sequence[Mapping[str, Any]],
    ended: Ended,
    names: Sequence[str],
    tree: str,
    end: Mapping[str, Any] | None,
) -> str | None:
    """Return why a run proves nothing, None where it does."""
    last = next((line["nodeid"] for line in reversed(report) if line["kind"] == "start"), None)
    where = f" in {last.rpartition('::')[2]}" if last else " before any test ran"
    if ended.status is None:
        return f"was stopped after {ended.limit_s:g} seconds{where}"
    for line in report:
        if line["kind"] == "collect":
            return f"cannot be collected: {_cause(line['text'])}"
    if end is None:
        how = f"signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
        return f"the interpreter ended with {how}{where}"
    ran = {line["nodeid"] for line in _phases(report) if line["when"] == "call"}
    for line in _phases(report):
        if line["outcome"] == "passed" or (line["when"] == "call" and _is_red(line)):
            continue
        what = {"call": "raised", "setup": "has no fixture", "teardown": "did not clean up"}
        how = "was skipped" if "skipped" in line["outcome"] else what[line["when"]]
        if line["outcome"] == "xpassed":
            how = "was expected to fail"
        return f"{_short(line)} {how}: {_first(line['text'])}"
    for name in names:
        if not any(node == name or node.startswith((f"{name}::", f"{name}[")) for node in ran):
            return f"{name} names no test"
    origin = end["origin"]
    if origin is not None and not origin.startswith(tree.rstrip("/") + "/"):
        return f"the tests imported {origin}, which is not the tree under test"
    return None


def _phases(report: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [line for line in report if line["kind"] == "phase"]


def _is_red(line: Mapping[str, Any]) -> bool:
    return bool(line["outcome"] == "failed" and line["own"])


def _short(line: Mapping[str, Any]) -> str:
    return str(line["nodeid"]).rpartition("::")[2]


def _cause(text: str) -> str:
    """Return the exception at the end of a traceback, where lines of errors are marked."""
    lines = text.rstrip().split("\n")
    last = max((n for n, line in enumerate(lines) if line.startswith("E ")), default=0)
    while last and lines[last - 1].startswith("E "):
        last -= 1
    return lines[last].removeprefix("E ")


def _first(text: str) -> str:
    """Return what an exception says; on the lines below it pytest explains the operands."""
    return text.split("\n")[0]


def _line(text: str) -> str:
    """Return a text as one line that is not too long for a table."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 1] + "…"


def explain(verdict: Verdict, pristine: TreeRun, patched: TreeRun | None, landing: str) -> str:
    """Return one line that says what a verdict rests on.

    `landing` says why there is no patched tree, or on what ground the patch landed there.
    """
    if verdict is Verdict.BROKEN:
        if pristine.colour is Colour.BROKEN:
            return f"without it: {pristine.reason}"
        return f"with it: {patched.reason}" if patched else landing
    if verdict is Verdict.SUPERSEDED:
        if patched is not None and patched.colour is not Colour.GREEN:
            return f"green without it; with it: {patched.reason}"
        return "green without it" + (f"; {landing}" if landing else "")
    if verdict is Verdict.NEEDED:
        return f"without it: {pristine.reason}" + (f"; {landing}" if landing else "")
    return f"with it: {patched.reason}" if patched else f"without it: {pristine.reason}; {landing}"
