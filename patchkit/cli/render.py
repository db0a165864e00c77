"""What people and programs see: the only module that formats for a terminal."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit import report
from patchkit.errors import PatchkitError
from patchkit.outcome import Clash

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from patchkit.outcome import HunkOutcome
    from patchkit.repository.move import SeriesMove
    from patchkit.series.graph import Graph
    from patchkit.stacking.rebase import RebaseResult
    from patchkit.upstream.progress import Progress

PROGRESS_AFTER_S = 1.0
CLASH_LINES = 6  # of each side in a terminal; a note has them all


def show_json(value: dict[str, Any]) -> None:
    """Print a JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_error(error: PatchkitError, *, as_json: bool) -> None:
    """Print a refusal: JSON on standard output, or two lines on standard error."""
    if as_json:
        show_json(report.error_json(error))
        return
    say(f"error: {error}", to_stderr=True)
    if error.hint:
        say(f"hint: {error.hint}", to_stderr=True)


def say(text: str = "", *, to_stderr: bool = False) -> None:
    """Print one plain line."""
    print(text, file=sys.stderr if to_stderr else sys.stdout)


def show_outcomes(outcomes: Sequence[HunkOutcome]) -> None:
    """Print one row a hunk: a table on a terminal, a line elsewhere; then the counts."""
    if sys.stdout.isatty():
        _show_table(outcomes)
    else:
        for outcome in outcomes:
            say(_line(outcome))
    say(report.summary(outcomes))


def show_rebase(document: dict[str, Any], moves: Sequence[SeriesMove]) -> None:
    """Print what became of every hunk, then of every series, then how to go on."""
    for move in moves:
        show_outcomes(move.result.outcomes)
        _show_notes(move.result)
        for note in move.notes:
            say(f"note: {note}")
        for path in move.clashes:
            say(f"{path}: in the overlay, and in the target already")
        for drift in move.drifts:
            say(f"{drift.read_at}: in the overlay: {drift.text}")
        if move.drifts:
            say(f"change the file, or say in {move.stored.place}/overlay.toml why it is right:")
        for drift in move.drifts:
            path = drift.read_at.rpartition(":")[0]
            say(f'[[accepted]]\npath = "{path}"\nsurface = "{drift.surface}"\nreason = "..."')
    target = document["target"]["version"] or document["target"]["name"]
    for left in document["left_out"]:
        hunks = "" if left["hunks"] is None else f", hunks {', '.join(map(str, left['hunks']))}"
        reason = f": {left['reason']}" if left["reason"] else ""
        say(f"{left['series']}/{left['patch']}{hunks}: left out, {left['why']}{reason}")
    for series in document["series"]:
        stored = series["stored"]
        say(
            f"{series['folder']}: {series['base']} -> {target}: {_STORING[stored['state']]}"
            f"{' ' + stored['path'] if stored['path'] else ''}"
        )
        for difference in stored["differences"]:
            say(f"  {difference}")
    if document["state"] is not None:
        _show_state(document["state"])


_STORING = {
    "written": "written to",
    "updated": "updated in",
    "unchanged": "unchanged in",
    "differs": "differs from what is stored (--update replaces it) in",
    "withheld": "not stored",
}


def _show_state(state: dict[str, Any]) -> None:
    say(f"stopped at {state['series']}/{state['patch']}; {state['note']} says why")
    for file in state["files"]:
        if file["edit"]:
            say(f"  edit {file['edit']}")
        else:
            say(f"  {file['path']} is not in the target: nothing to edit, only to skip")
    say('then: patchkit rebase --continue --reason "..."')
    if state["drifted"]:
        say('or:   patchkit rebase --continue --accept-drift --reason "..."')
    say("or:   patchkit rebase --skip --yes   or   patchkit rebase --abort")


def show_port(
    document: dict[str, Any], result: RebaseResult, *, asked: Path | None, reasons: bool = False
) -> None:
    """Print what became of every hunk, and where the moved patches are.

    With `reasons` all that is known of each hunk, a fact a line.
    """
    if reasons:
        for outcome in document["outcomes"]:
            head, *facts = why_lines(outcome)
            say(f"{outcome['patch']}:{outcome['hunk']}: {head}")
            for fact in facts:
                say(fact)
        say(report.summary(result.outcomes))
    else:
        show_outcomes(result.outcomes)
    _show_notes(result)
    if document["output"]:
        say(f"written to {document['output']}")
    elif asked is not None:
        say(f"nothing was written to {asked}: not every hunk landed on ground that held")
        if result.ok and result.drifted:
            say("--accept-drift writes what drifted as it landed")


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


def show_status(document: dict[str, Any]) -> None:
    """Print each stored release in a line, with what is wrong below it."""
    for status in document["releases"]:
        parts = [report.counted(status["patches"], "patch", "patches")]
        parts.append(report.counted(status["hunks"], "hunk"))
        if status["overlay"]:
            parts.append(report.counted(status["overlay"], "new file"))
        if status["same_as"]:
            parts.append(f"the same as v{status['same_as']}")
        for left in status["left_out"]:
            why = f" ({left['why']})" if left["why"] else ""
            parts.append(f"without {left['patch']}{why}")
        found = len(status["problems"])
        verdict = report.counted(found, "problem") if found else "sound"
        say(f"{status['folder']}/v{status['release']}: {', '.join(parts)}: {verdict}")
        for problem in status["problems"]:
            say(f"  {problem}")


def _show_finished(document: dict[str, Any]) -> None:
    if document["finished"]:
        say(f"note: finished the {document['finished']} that was broken off")


def _show_choice(document: dict[str, Any]) -> None:
    """Print what was left out, what came along, and what was not chosen."""
    for left in document["left_out"]:
        what = "built from source" if left["section"] == "built" else "not shipped"
        say(f"left out: {left['patch']}: {left['path']} is {what}")
    chosen = document["selection"]
    for patch, by in chosen["brought"].items():
        say(f"{patch}: comes along, {by} needs it")
    for patch in chosen["left_out"]:
        say(f"{patch}: not chosen")


def show_series(document: dict[str, Any], *, whole: bool) -> None:
    """Print stored series patch by patch; `whole` with the full header, as for a patch named."""
    for series in document["series"]:
        for line in _series_head(series):
            say(line)
        for path in series["overlay_clashes"]:
            say(f"{path}: in the overlay, and in the target already")
        for patch in series["patches"]:
            say(f"{patch['name']}: {patch['subject']}")
            for line in _header(patch, whole):
                say(f"  {line}")
            for file in patch["files"]:
                path, new = file["path_before"], file["path_after"]
                change = "" if file["change"] == "modify" else f" ({file['change']})"
                say(f"  {path}{f' -> {new}' if new != path else ''}{change}")
                for hunk in file["hunks"]:
                    _show_hunk(hunk)


def _series_head(series: dict[str, Any]) -> list[str]:
    place = f"{series['folder']}/{series['target']}"
    hunks = sum(len(file["hunks"]) for patch in series["patches"] for file in patch["files"])
    count = f"{report.counted(len(series['patches']), 'patch', 'patches')}, "
    count += report.counted(hunks, "hunk")
    same = f", the same as v{series['same_as']}" if series["same_as"] else ""
    if series["base"] is None:
        return [f"{place}: {count}{same}"]
    if series["stopped"]:
        base, target = f"v{series['base']}", series["target"]
        return [f"{series['folder']}, stopped on its way from {base}{same} to {target}: {count}"]
    head = f"{place}, moved from v{series['base']}{same}: {count}"
    differences = series["differences"]
    if differences is None:
        return [f"{head}; the move would stop"]
    if not differences:
        return [f"{head}, stored as the move makes it"]
    return [f"{head}; what is stored is not what the move makes:", *(f"  {d}" for d in differences)]


def _header(patch: dict[str, Any], whole: bool) -> list[str]:
    """The facts of a header, a line each; `whole` with its texts as they are."""
    names = {"applies_to": "for", "forwarded": "forwarded", "exit_condition": "until"}
    if not whole:
        facts = {name: patch[key] or "" for key, name in names.items()}
        facts["forwarded"] = facts["forwarded"].split("\n")[0]
        return [f"{name} {' '.join(value.split())}" for name, value in facts.items() if value]
    lines = (patch["description"] or "").split("\n")[1:]
    for key in ("reason", "origin", *names):
        if patch[key]:
            lines += f"{names.get(key, key)}: {patch[key]}".split("\n")
    return lines


def _show_hunk(hunk: dict[str, Any]) -> None:
    size = f" line {hunk['line']}, +{hunk['added']} -{hunk['removed']}" if hunk["line"] else ""
    names = ", ".join(hunk["definitions"])
    kinds = ", ".join(dict.fromkeys(hunk["edits"]))
    what = f" in {names}" if names else ""
    say(f"    #{hunk['hunk']}{size}{what}{f': {kinds}' if kinds else ''}")
    if hunk["outcome"]:
        for line in why_lines(hunk["outcome"]):
            say(f"       {line}")


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


def show_test(document: dict[str, Any]) -> None:
    """Print each verdict with what it rests on; of a broken run what pytest printed last."""
    for entry in document["verdicts"]:
        for line in (entry["output"] or "").split("\n") if entry["output"] else ():
            say(f"  {line}", to_stderr=True)
        colours = f"{entry['pristine']} without it, {entry['patched'] or 'no run'} with it"
        name = f"{entry['series']}/{entry['patch']}"
        torch = f", torch {entry['torch']}" if entry["torch"] else ""
        say(f"{name} of v{entry['base']} on v{document['release']}: {entry['verdict']}")
        say(f"  {colours}{torch}: {entry['reason']}")
    for place in document["untested"]:
        say(f"{place}: names no test")
    for path in document["stored"]:
        say(f"stored in {path}")


def show_check(document: dict[str, Any]) -> None:
    """Print what is wrong, then each stored release in a line."""
    for series in document["series"]:
        place = f"{series['folder']}/v{series['release']}"
        for finding in series["findings"]:
            say(f"{finding['place']}: {finding['kind']}: {finding['text']}")
        for name in series["refreshed"]:
            say(f"wrote {place}/{name}")
        same = f", the same as v{series['same_as']}" if series["same_as"] else ""
        count = f"{report.counted(series['patches'], 'patch', 'patches')}, "
        count += report.counted(series["hunks"], "hunk") + same
        found = len(series["findings"])
        say(f"{place}: {count}: {report.counted(found, 'finding') if found else 'sound'}")


def show_deps(place: str, graph: Graph, *, hunks: bool, compare: bool) -> None:
    """Print a series as a tree of what needs what, and how that compares with its headers."""
    from patchkit.cli import draw

    say(draw.summary(place, graph))
    for line in draw.tree_lines(graph):
        say(line)
    for link in graph.links if hunks else ():
        for line in draw.link_lines(link):
            say(line)
    for line in draw.warnings(graph) if compare else ():
        say(line)


def show_dot(graph: Graph) -> None:
    """Print a series for Graphviz."""
    from patchkit.cli import draw

    for line in draw.dot_lines(graph):
        say(line)


def _show_notes(result: RebaseResult) -> None:
    for note in result.notes:
        say(f"note: {note}")
    for section in result.unshipped:
        what = "built from source" if section.section.value == "built" else "not shipped"
        say(f"note: {section.patch}: {section.path} is {what}; its hunks were not moved")


def why(outcome: HunkOutcome) -> list[str]:
    """Return what speaks for or against one outcome, most telling first."""
    lines = [f"{drift.text}; read at {drift.read_at}" for drift in outcome.drifts]
    if outcome.reason:
        lines.append(outcome.reason)
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


def show_grid(titles: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str]) -> None:
    """Print a table of which the last column is cut where the terminal ends.

    The second column has a colour a row; those between it and the last are numbers.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    left = console.width
    for number, title in enumerate(titles[:-1]):
        table.add_column(title, justify="right" if number > 1 else "left", no_wrap=True)
        left -= 2 + max(len(title), *(len(row[number]) for row in rows))
    table.add_column(titles[-1])
    for (first, second, *others, last), colour in zip(rows, colours, strict=True):
        shown = Text(last)
        shown.truncate(max(left, len(titles[-1])), overflow="ellipsis")
        table.add_row(Text(first), Text(second, style=colour), *map(Text, others), shown)
    console.print(table)


@contextmanager
def progress(*, lines: bool = False) -> Iterator[Progress]:
    """Yield what a long step reports to: on a terminal a bar, once a second has gone.

    Elsewhere nothing, or with `lines` a line on standard error for each transfer that starts.
    """
    from patchkit.upstream.progress import silent

    if not sys.stderr.isatty():
        yield _Lines() if lines else silent
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


class _Lines:
    """A line for each file that is fetched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[str] = set()

    def __call__(self, label: str, done_bytes: int, total_bytes: int | None) -> None:  # noqa: ARG002
        with self._lock:
            if label in self._seen or not label.endswith((".whl", ".tar.gz")):
                return
            self._seen.add(label)
            say(f"fetching {label}", to_stderr=True)


class _Bar:
    """A progress bar that starts late, so that quick work shows none; any thread may call it."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._bar: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        with self._lock:
            if time.monotonic() - self._started < PROGRESS_AFTER_S:
                return
            bar = self._bar or self._open()
            if label not in self._tasks:
                self._tasks[label] = bar.add_task(label, total=total_bytes)
            bar.update(self._tasks[label], completed=done_bytes, total=total_bytes)

    def _open(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            console=Console(stderr=True), transient=True, redirect_stdout=False
        )
        self._bar.start()
        return self._bar

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
