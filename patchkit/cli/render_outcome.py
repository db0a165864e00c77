"""What people see of hunks: a row each, or all that is known of one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from patchkit import report
from patchkit.cli.render import say
from patchkit.outcome import Clash

if TYPE_CHECKING:
    from patchkit.outcome import HunkOutcome
    from patchkit.stacking.rebase import RebaseResult

CLASH_LINES = 6  # of each side in a terminal; a note has them all


def show_outcomes(outcomes: Sequence[HunkOutcome]) -> None:
    """Print one row a hunk: a table on a terminal, a line elsewhere; then the counts."""
    if sys.stdout.isatty():
        _show_table(outcomes)
    else:
        for outcome in outcomes:
            say(_line(outcome))
    say(report.summary(outcomes))


def show_notes(result: RebaseResult) -> None:
    """Print what is to be said of a move besides its hunks."""
    for note in result.notes:
        say(f"note: {note}")
    for section in result.unshipped:
        what = report.unshipped_text(section.section.value)
        say(f"note: {section.patch}: {section.path} is {what}; its hunks were not moved")


def why_lines(outcome: dict[str, Any]) -> list[str]:
    """Return all that is known of one outcome, given as JSON: a head, then a labelled fact a line.

    A label stands on the first of its facts only.
    """
    status = outcome["status"].replace("_", " ") + (", drifted" if outcome["drifted"] else "")
    head = f"{status} by {outcome['method']}" if outcome["method"] else status
    lines = outcome["target_lines"]
    span = f":{lines[0]}" + (f"-{lines[1]}" if lines[1] > lines[0] else "") if lines else ""
    before, after = outcome["definition_before"], outcome["definition_after"]
    facts = [("from", outcome["path_before"] + (f", {before}" if before else ""))]
    if outcome["path_after"]:
        facts.append(("to", outcome["path_after"] + span + (f", {after}" if after else "")))
    for rename in outcome["renames"]:
        of = f" in {rename['scope']}" if rename["kind"] == "variable" else ""
        text = f"{rename['old']} -> {rename['new']}{of}: taken back, and made again on the result"
        facts.append(("renamed", text))
    facts += [("open", outcome["reason"])] if outcome["reason"] else []
    if commit := outcome["upstream_commit"]:
        said = f"{commit['id']} {commit['date']} {commit['subject']}"
        facts.append(("since", f"{said}; it touched {commit['touched']}"))
    facts += list(_clash_facts(outcome["clash"])) if outcome["clash"] else []
    facts += [("because", fact["text"]) for fact in outcome["evidence"]]
    facts += [("drifted", f"{d['text']}; read at {d['read_at']}") for d in outcome["drifts"]]
    facts += [("accepted", f"{d['text']}; {d['reason']}") for d in outcome["accepted"]]
    facts += [("blocked by", label) for label in outcome["blocked_by"]]
    facts += [("rejected", f"{r['candidate']}: {r['why']}") for r in outcome["rejected"]]
    facts += [("look at", place) for place in outcome["candidates"]]
    facts += [("unchecked", what) for what in outcome["not_checked"]]
    shown, last = [head], ""
    for label, text in facts:
        shown.append(f"  {label if label != last else '':<10} {text}")
        last = label
    return shown


def _clash_facts(found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What base, target and patch have in the place that both changed, a few lines of each."""
    clash = Clash(**found)
    yield "clash", str(clash)
    yield from clash.lines(CLASH_LINES)


def why(outcome: HunkOutcome) -> list[str]:
    """Return what speaks for or against one outcome, most telling first."""
    lines = [f"{drift.text}; read at {drift.read_at}" for drift in outcome.drifts]
    if outcome.reason:
        lines.append(outcome.reason)
    if outcome.upstream_commit is not None:
        lines.append(f"since {outcome.upstream_commit}")
    lines += [str(evidence) for evidence in outcome.evidence]
    lines += [f"accepted: {a.drift.text}; {a.reason}" for a in outcome.accepted]
    if outcome.blocked_by:
        lines.append("blocked by " + ", ".join(outcome.blocked_by))
    lines += [f"candidate: {candidate}" for candidate in outcome.candidates]
    lines += [f"not checked: {what}" for what in outcome.not_checked]
    return lines


def verdict(outcome: HunkOutcome) -> str:
    """Return the status in words."""
    text = outcome.status.value.replace("_", " ")
    return f"{text}, drifted" if outcome.drifted else text


def where(outcome: HunkOutcome) -> str:
    """Return the place in the target, or in the base for what did not land."""
    path = outcome.path_after or outcome.path_before
    text = f"{path}:{outcome.target_lines[0]}" if outcome.target_lines else path
    name = outcome.definition_after or outcome.definition_before
    return f"{text} {name}" if name else text


def _line(outcome: HunkOutcome) -> str:
    method = outcome.method.value if outcome.method else "-"
    head = f"{outcome.patch}:{outcome.hunk}: {verdict(outcome)} ({method}) {where(outcome)}"
    reasons = "; ".join(why(outcome))
    return f"{head}: {reasons}" if reasons else head


def _show_table(outcomes: Sequence[HunkOutcome]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("patch", overflow="fold", max_width=16)
    table.add_column("hunk", justify="right")
    table.add_column("outcome", max_width=10)
    table.add_column("method", max_width=10)
    table.add_column("evidence", overflow="fold", ratio=1)
    named = None
    for outcome in outcomes:
        colour = "yellow" if outcome.drifted else "green" if outcome.landed else "red"
        table.add_row(
            Text(outcome.patch.removesuffix(".patch") if outcome.patch != named else ""),
            str(outcome.hunk),
            Text(verdict(outcome), style=colour),
            outcome.method.value if outcome.method else "",
            Text("\n".join([where(outcome), *why(outcome)])),
        )
        named = outcome.patch
    Console().print(table)
