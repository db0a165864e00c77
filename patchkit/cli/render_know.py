"""What people see of what is known of patches: how series differ, a patch's story, findings."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from patchkit.cli.render import say
from patchkit.report import counted

WIDTH = 80
_AROUND = 2  # lines that both versions have, shown beside those that differ


def tell(text: str, style: str = "") -> None:
    """Print one line; a terminal shows it in a style."""
    if not style or not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style=style), soft_wrap=True)


def wrapped(text: str, indent: str = "", more: str | None = None) -> list[str]:
    """Return a text as lines that fit, the later ones indented by `more`; words stay whole."""
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent if more is None else more,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return lines or [indent.rstrip()]


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
        names = [_stem(pair["after"]) for pair in pairs if _is_folded(pair, state)]
        if names:
            text = f"{sign} {len(names)} {words}: {', '.join(names)}"
            for line in wrapped(text, more="    "):
                say(line)
    for pair in pairs:
        if not any(_is_folded(pair, state) for state in _FOLDED):
            _show_pair(pair)
    if document["reordered"]:
        moved = ", ".join(map(_stem, document["reordered"]))
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
        return f"+ {after}: added"
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
    """Print what was mended, then each finding with its hint, then the counts."""
    for fixed in document["fixed"]:
        for line in wrapped(f"{fixed['place']}:{fixed['line']}: fixed: {fixed['text']}", more="  "):
            say(line)
    for found in document["findings"]:
        head = f"{found['place']}:{found['line']}: {found['severity']}: {found['rule']}: "
        for line in wrapped(head + found["text"], more="  "):
            tell(line, _COLOURS[found["severity"]])
        for line in wrapped(f"hint: {found['hint']}", "  ", "  ") if found["hint"] else ():
            say(line)
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


def _stem(name: str) -> str:
    return name.removesuffix(".patch").removesuffix(".diff")
