"""The rules that a header keeps or breaks by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from patchkit.diff.header import Field, Header, header_problems
from patchkit.linting.fields import (
    BLANKS,
    field_lines,
    header_lines,
    is_known,
    is_mail,
    is_one_paragraph,
    misnamed,
    mistaken_first,
    out_of_order,
)
from patchkit.linting.rule import Finding

_SUBJECT_COLUMNS = 72
_LINE_COLUMNS = 100
_PROBLEMS = {
    "missing": "missing-field", "empty": "empty-field", "doubled": "doubled-field",
    "value": "bad-value",
}  # fmt: skip
_PLACEHOLDER = re.compile(r"\b(TODO|FIXME|TBD|XXX|xxx)\b")
# a link, the number of an issue or a pull request
_REFERENCE = re.compile(r"://|#\d+|\b(?:PR|pr|pull request|issue|commit) ?\w*\d\w*|\b\d{3,}\b")
# a version, a quoted piece of code, a name as code has them
_TESTABLE = re.compile(r"\d+\.\d+|`[^`]+`|\b\w+(?:_\w+)+|\b_\w+|\b\w+\.\w+|\w\(|\b[a-z]+[A-Z]\w+")
# what `git format-patch` puts in front of a subject
_TAG = re.compile(r"^(\[[^\]]*\]\s*)+")
_WHAT = (
    "Description, Reason, Origin, Forwarded, Exit-Condition and Applies-To go in front of the diff"
)


def header_findings(header: Header, preamble: bytes, place: str, today: date) -> Iterator[Finding]:
    """Yield what is wrong with a header, as far as it alone can say."""
    lines = header_lines(preamble)
    if not header.fields:
        yield from _no_fields(lines, place)
        return
    for problem in header_problems(header):
        yield Finding(_PROBLEMS[problem.kind], place, problem.lineno, problem.text)
    yield from _names(header, place)
    if is_one_paragraph(header) and not is_mail(header, lines):
        late = out_of_order(header)
        if late is not None:
            text = f"{late.name} usually stands further up"
            yield Finding("field-order", place, late.lineno, text, "--fix sorts the fields")
    yield from _texts(header, place, today)
    yield from _layout(header, lines, place)


def _no_fields(lines: list[str], place: str) -> Iterator[Finding]:
    first = mistaken_first(lines)
    if first is not None:
        text = f"no field is called {first.item.name}, so that nothing is taken for a header"
        yield Finding("misspelt-field", place, first.item.lineno, text, _meant(first.right))
        return
    yield Finding("no-header", place, 1, "there is no header", _WHAT)


def _names(header: Header, place: str) -> Iterator[Finding]:
    near = {naming.item.lineno: naming for naming in misnamed(header)}
    for item in header.fields:
        naming = near.get(item.lineno)
        if naming is None:
            if not is_known(item.name):
                hint = f"X-{item.name} where it is a field of your own"
                text = f"nothing reads a field {item.name}"
                yield Finding("unknown-field", place, item.lineno, text, hint)
        elif naming.near:
            text = f"there is no field {item.name}"
            yield Finding("misspelt-field", place, item.lineno, text, _meant(naming.right))
        else:
            text = f"{item.name} is written {naming.right}"
            yield Finding("field-case", place, item.lineno, text)


def _meant(name: str) -> str:
    return f"did you mean {name}?"


def _texts(header: Header, place: str, today: date) -> Iterator[Finding]:
    """What the values say."""
    for item in header.fields:
        for lineno, line in enumerate(item.value.split("\n"), item.lineno):
            if found := _PLACEHOLDER.search(line):
                text = f"{item.name} still says {found[0]}"
                yield Finding("placeholder", place, lineno, text)
    yield from _subject(header, place)
    yield from _forwarded(header.find("Forwarded"), place)
    yield from _exit(header, place)
    yield from _bugs(header, place)
    updated = header.find("Last-Update")
    if updated is not None and _is_later(updated.value.strip(), today):
        text = f"Last-Update {updated.value.strip()} lies in the future"
        yield Finding("future-date", place, updated.lineno, text)


def _said(item: Field) -> bool:
    return bool(item.value.strip())


def _subject(header: Header, place: str) -> Iterator[Finding]:
    described, reason = header.find("Description"), header.find("Reason")
    if described is None or not _said(described):
        return
    first = _TAG.sub("", described.value.strip().split("\n")[0]).strip()
    if len(first) > _SUBJECT_COLUMNS:
        text = f"the first line of {described.name} has {len(first)} columns"
        hint = f"say it in {_SUBJECT_COLUMNS}, and the rest on the lines below"
        yield Finding("long-subject", place, described.lineno, text, hint)
    if first.endswith(".") and not first.endswith(".."):
        text = f"the first line of {described.name} ends with a period"
        yield Finding("subject-period", place, described.lineno, text, "it is a title")
    if reason is not None and _words(reason.value) in (_words(described.value), _words(first)):
        text = f"Reason says what {described.name} says"
        hint = "say what goes wrong without the patch"
        yield Finding("reason-repeats", place, reason.lineno, text, hint)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _forwarded(item: Field | None, place: str) -> Iterator[Finding]:
    if item is None or not _said(item):
        return
    first = item.value.strip().split("\n")[0]
    word = (first.split() or [""])[0].strip(".,;:").lower()
    if word not in ("no", "not-needed") and not _REFERENCE.search(item.value):
        text = f"{item.name} {first.strip()!r} does not say where upstream has it"
        hint = "no, not-needed, a link, or the number of a pull request"
        yield Finding("unclear-forwarded", place, item.lineno, text, hint)


def _exit(header: Header, place: str) -> Iterator[Finding]:
    item = header.find("Exit-Condition")
    if item is None or not _said(item) or header.exit_when:
        return
    if not _TESTABLE.search(item.value) and not _REFERENCE.search(item.value):
        text = "Exit-Condition names no release, no pull request and nothing in the code"
        hint = "name one, or say with Exit-When what can be tried"
        yield Finding("untestable-exit", place, item.lineno, text, hint)


def _bugs(header: Header, place: str) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for item in header.fields:
        if item.name.lower() == "bug" or item.name.lower().startswith("bug-"):
            value = item.value.strip()
            if value and value in seen:
                text = f"{item.name} names the bug of {seen[value]} once more"
                yield Finding("repeated-bug", place, item.lineno, text)
            seen.setdefault(value, item.name)


def _is_later(text: str, today: date) -> bool:
    try:
        return date.fromisoformat(text) > today
    except ValueError:
        return False  # a bad value, and found as one


def _layout(header: Header, lines: list[str], place: str) -> Iterator[Finding]:
    """How the lines of the fields are written."""
    whole = {lineno for item in header.fields if _is_by_line(item) for lineno in _span(item)}
    for lineno, line in field_lines(header, lines):
        if len(line) > _LINE_COLUMNS and lineno not in whole and _can_be_broken(line):
            text = f"the line has {len(line)} columns"
            hint = "go on in the next line, behind a blank"
            yield Finding("long-line", place, lineno, text, hint)
        if "\t" in line.rstrip(BLANKS):
            yield Finding("tab", place, lineno, "the line holds a tab", "write blanks")
        if line != line.rstrip(BLANKS):
            yield Finding("trailing-blank", place, lineno, "the line ends with a blank")


def _is_by_line(item: Field) -> bool:
    """Whether each line of a field is one thing that a machine reads."""
    return item.name.lower() in ("exit-when", "requires")


def _span(item: Field) -> range:
    return range(item.lineno, item.lineno + item.value.count("\n") + 1)


def _can_be_broken(line: str) -> bool:
    """Whether a line has room for a break: a name and one long word have none."""
    return len(line.split()) > 2
