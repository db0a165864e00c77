"""What people see of what is known of patches: how series differ, a patch's story, findings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from patchkit.cli.fitting import WIDTH, stem, wrapped
from patchkit.cli.render import say
from patchkit.cli.render_outcome import why_lines
from patchkit.report import counted

_AROUND = 2  # lines that both versions have, shown beside those that differ


def tell(text: str, style: str = "") -> None:
    """Print one line; a terminal shows it in a style."""
    if not style or not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style=style), soft_wrap=True)


# range-diff --------------------------------------------------------------------------------------

_FOLDED = {"same": ("=", "unchanged"), "context": ("~", "unchanged but for the lines around")}
_OUTER = {"-": "red", "+": "green", " ": ""}


def show_range_diff(document: dict[str, Any]) -> None:
    """Print how two series differ: what is unchanged in a line, then patch by patch."""
    pairs = document["patches"]
    before, after = (sum(pair[side] is not None for pair in pairs) for side in ("before", "after"))
    count = f"{counted(before, 'patch', 'patches')}, {after} after"
    for line in wrapped(f"{document['before']} -> {document['after']}: {count}", more="  "):
        say(line)
    for state, (sign, words) in _FOLDED.items():
        names = [stem(pair["after"]) for pair in pairs if _is_folded(pair, state)]
        if names:
            text = f"{sign} {len(names)} {words}: {', '.join(names)}"
            for line in wrapped(text, more="    "):
                say(line)
    for pair in pairs:
        if not any(_is_folded(pair, state) for state in _FOLDED):
            _show_pair(pair)
    if document["reordered"]:
        moved = ", ".join(map(stem, document["reordered"]))
        for line in wrapped(f"at another place in the series: {moved}", more="    "):
            say(line)
    for text in document["overlay"]:
        say(f"overlay: {text}")
    if not document["differ"]:
        say("they make the same edits")


def _is_folded(pair: dict[str, Any], state: str) -> bool:
    same_name = pair["before"] == pair["after"]
    return bool(pair["state"] == state and same_name and not pair["header"])


def _show_pair(pair: dict[str, Any]) -> None:
    for line in wrapped(_head(pair), more="    "):
        tell(line, "bold")
    for field in pair["header"]:
        _show_field(field)
    for file in pair["files"]:
        if file["state"] != "context":
            _show_file(file)


def _head(pair: dict[str, Any]) -> str:
    before, after, state = pair["before"], pair["after"], pair["state"]
    if state == "added":
        return f"+ {after}: added" + (f": {pair['subject']}" if pair["subject"] else "")
    if state == "dropped":
        return f"- {before}: dropped" + (f": {pair['reason']}" if pair["reason"] else "")
    words = {
        "same": "the same edits",
        "context": "the same edits, other lines around",
        "moved": "the same lines at another place",
        "changed": "changed",
    }[state]
    words += ", another header" if pair["header"] else ""
    if before == after:
        return f"! {after}: {words}"
    share = round(100 * pair["likeness"])
    return f"! {after}: was {before}, by {share} % of their lines; {words}"


def _show_field(field: dict[str, Any]) -> None:
    say(f"    header: {field['field'] or 'the text below the fields'}")
    for sign, value in (("-", field["before"]), ("+", field["after"])):
        for line in value.split("\n") if value is not None else ():
            tell(f"      {sign} {line}".rstrip(), _OUTER[sign])


def _show_file(file: dict[str, Any]) -> None:
    before, after = file["path_before"], file["path_after"]
    gone = " (no longer)" if after is None else " (new here)" if before is None else ""
    say(f"    {after or before}{gone}")
    for note in file["notes"]:
        for text in wrapped(note, "      ", "        "):
            say(text)
    definition = None
    for line in _near_changes(file["lines"]):
        if isinstance(line, int):
            say(f"       ... {counted(line, 'line')} as before")
            continue
        if line["definition"] != definition:
            definition = line["definition"]
            say(f"      in {definition}" if definition else "      elsewhere")
        tell(f"      {line['outer']}{line['inner']}{line['text']}", _OUTER[line["outer"]])


def _near_changes(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any] | int]:
    """Yield the lines that differ with some of the others beside them, and how many are left out
    between.
    """
    odd = [at for at, line in enumerate(lines) if line["outer"] != " "]
    near = {n for at in odd for n in range(at - _AROUND, at + _AROUND + 1)}
    left = 0
    for at, line in enumerate(lines):
        if at not in near:
            left += 1
            continue
        if left:
            yield left
        left = 0
        yield line
    if left:
        yield left


# lint --------------------------------------------------------------------------------------------

_COLOURS = {"error": "red", "warning": "yellow"}


def show_lint(document: dict[str, Any]) -> None:
    """Print what was mended, then each finding with its hint, then the counts.

    One line a finding, whatever its length: editors and `grep` go by lines. What is the same in
    several releases of a patch is told of the last.
    """
    for fixed in document["fixed"]:
        say(f"{fixed['place']}:{fixed['line']}: fixed: {fixed['text']}")
    same: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for found in document["findings"]:
        key = found["place"].rpartition("/")[2], found["rule"], found["text"]
        same.setdefault(key, []).append(found)
    for group in same.values():
        found = group[-1]
        head = f"{found['place']}:{found['line']}: {found['severity']}: {found['rule']}: "
        others = [one["place"].split("/")[-2] for one in group[:-1] if "/" in one["place"]]
        also = f" (in {', '.join(others)} as well)" if others else ""
        tell(head + found["text"] + also, _COLOURS[found["severity"]])
        if found["hint"]:
            say(f"  hint: {found['hint']}")
    counts = [counted(document[f"{kind}s"], kind) for kind in _COLOURS if document[f"{kind}s"]]
    verdict = ", ".join(counts) or "nothing to say against their headers"
    say(f"{counted(document['patches'], 'patch', 'patches')}: {verdict}")


# registry ----------------------------------------------------------------------------------------


def show_registry(document: dict[str, Any]) -> None:
    """Print what became of the page, or what it is."""
    words = {
        "fresh": "is what is stored",
        "written": "written",
        "updated": "brought up to date",
        "stale": "is not what is stored any more",
        "missing": "is not there",
    }
    count = counted(len(document["patches"]), "patch", "patches")
    say(f"{document['output']}: {words[document['state']]}: {count}")
    if not document["ok"]:
        say(f"hint: `patchkit registry --output {document['output']}` writes it")


# why ---------------------------------------------------------------------------------------------

_HOW = {
    "first": "the lowest that has it",
    "as it was": "carried as it was",
    "other context": "carried as it was, with other lines around it",
    "moved": "the same lines at another place",
    "changed": "changed",
    "left out": "left out",
}


def show_why(document: dict[str, Any]) -> None:
    """Print the story of a patch: what and why, where it holds on, what needs it, its ways."""
    hunk = f"#{document['hunk']}" if document["hunk"] else ""
    place = f"{document['folder']}/v{document['release']}/{document['patch']}{hunk}"
    for line in wrapped(place, more="  "):
        tell(line, "bold")
    _show_header(document)
    for file in document["files"]:
        _show_anchors(file)
    _show_links("needs", document["needs"])
    _show_links("needed by", document["needed_by"])
    in_full = len(document["releases"]) == 1 or document["trial"] is not None
    for row in document["releases"]:
        _show_passage(row, in_full=in_full)
    _show_verdicts(document["verdicts"])
    if document["trial"] is not None:
        _show_trial(document["trial"])
    for step in document["next"] or ["nothing: all is as it should be"]:
        for line in wrapped(f"next: {step}", more="  "):
            tell(line, "bold")


def _show_header(document: dict[str, Any]) -> None:
    """The header as it is in the patch; only what is too long is broken."""
    for item in document["header"]:
        first, *more = item["value"].split("\n")
        for line in wrapped(f"{item['field']}: {first}", "", " "):
            say(line)
        for text in more:
            for line in wrapped(text, " ") if text else [" ."]:
                say(line)
    for text in document["text"].split("\n") if document["text"] else ():
        say(text)


def _show_anchors(file: dict[str, Any]) -> None:
    path, new = file["path_before"], file["path_after"]
    change = "" if file["change"] == "modify" else f" ({file['change']})"
    for line in wrapped(f"{path}{f' -> {new}' if new != path else ''}{change}", more="  "):
        say(line)
    for hunk in file["hunks"]:
        size = f" line {hunk['line']}, +{hunk['added']} -{hunk['removed']}" if hunk["line"] else ""
        say(f"  #{hunk['hunk']}{size}")
        for name, mark in hunk["definitions"].items():
            for line in wrapped(f"in {name}{f', {mark}' if mark else ''}", "     ", "       "):
                say(line)
        for edit in hunk["edits"]:
            for line in wrapped(f"{edit['kind']} in {edit['in']}", "     ", "       "):
                say(line)
            for label in ("after", "before"):
                if edit[label]:
                    say(f"       {label:<8}{edit[label]}"[:WIDTH])
            for text in edit["removes"]:
                say(f"       {'removes':<8}{text}"[:WIDTH])
        if hunk["relies_on"]:
            names = f"relies on {', '.join(hunk['relies_on'])}"
            for line in wrapped(names, "     ", "       "):
                say(line)


def _show_links(label: str, links: Sequence[dict[str, Any]]) -> None:
    binding = [link for link in links if link["binds"] or not link["reasons"]]
    if not binding:
        say(f"{label}: nothing")
    for link in binding:
        declared = "" if link["declared"] else ", which no header declares"
        say(f"{label}: {link['patch']}{declared}")
        for reason in link["reasons"]:
            for line in wrapped(reason["text"], "  ", "    "):
                say(line)


def _show_passage(row: dict[str, Any], *, in_full: bool) -> None:
    """How a patch got to one release: a line a hunk, or all that is known of each."""
    same = f", shared with v{row['same_as']}" if row["same_as"] else ""
    moved = f", from v{row['base']}" if row["base"] else ""
    for line in wrapped(f"v{row['release']}: {_HOW[row['how']]}{moved}{same}", more="  "):
        say(line)
    for reason in row["reasons"]:
        for line in wrapped(reason, "  ", "    "):
            say(line)
    for text in row["differences"]:
        for line in wrapped(f"what is stored is not what the move makes: {text}", "  ", "    "):
            tell(line, "yellow")
    if row["unknown"]:
        for line in wrapped(f"not known: {row['unknown']}", "  ", "    "):
            say(line)
    for outcome in row["outcomes"]:
        _show_outcome(outcome, in_full=in_full)
    for hunk in row["hunks"] if not row["outcomes"] else ():
        names = f", {', '.join(hunk['definitions'])}" if hunk["definitions"] else ""
        at = f", line {hunk['line']}" if hunk["line"] else ""
        for line in wrapped(f"#{hunk['hunk']}{at} of {hunk['path']}{names}", "  ", "    "):
            say(line)


def _show_outcome(outcome: dict[str, Any], *, in_full: bool) -> None:
    head, *facts = why_lines(outcome)
    if not in_full and outcome["target_lines"]:
        head += f", line {outcome['target_lines'][0]} of {outcome['path_after']}"
        facts = [fact for fact in facts if fact.split()[0] in ("renamed", "drifted", "accepted")]
    colour = "yellow" if outcome["drifted"] else ""
    landed = outcome["status"] in ("placed", "already_upstream")
    for line in wrapped(f"#{outcome['hunk']} {head}", "  ", "    "):
        tell(line, colour or ("" if landed else "red"))
    for fact in facts:
        label, text = fact[:12], fact[13:]
        for line in wrapped(text, f"    {label.strip():<11}", " " * 15):
            say(line)


def _show_verdicts(verdicts: Sequence[dict[str, Any]]) -> None:
    """What the tests say, a line for all releases on which they say the same."""
    said: dict[str, list[str]] = {}
    for known in verdicts:
        stale = ", stale" if not known["fresh"] else ""
        colours = f"{known['pristine']} without it, {known['patched'] or 'no run'} with it"
        said.setdefault(f"{known['verdict']}{stale}, {colours}", []).append(known["release"])
    for text, releases in said.items():
        names = ", ".join(f"v{release}" for release in releases)
        for line in wrapped(f"by its tests {text}: {names}", more="  "):
            say(line)


def _show_trial(trial: dict[str, Any]) -> None:
    for line in wrapped(f"on {trial['target']}, moved from v{trial['base']}:", more="  "):
        tell(line, "bold")
    if trial["in_range"] is False:
        say(f"  its header does not mean it for {trial['target']}")
    if trial["verdict"] is not None:
        verdict = trial["verdict"]
        for line in wrapped(
            f"by its tests {verdict['verdict']}: {verdict['reason']}", "  ", "    "
        ):
            say(line)
    for outcome in trial["outcomes"]:
        _show_outcome(outcome, in_full=True)
