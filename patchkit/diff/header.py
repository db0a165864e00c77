"""DEP-3 headers: why a patch is there, where it comes from, and when it may go.

Source: https://dep-team.pages.debian.net/deps/dep3/, with Reason, Exit-Condition, Exit-When,
Applies-To, Depends-On, Requires, Optional-Sections and Test added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from patchkit.diff.exit_when import condition_problems
from patchkit.diff.mail import is_from_line
from patchkit.diff.requires import requires_problems
from patchkit.errors import PatchkitError

_ALIASES = {"subject": "description", "from": "author", "upstream-state": "forwarded"}
_MAIL = {"from", "date", "subject", "message-id", "return-path", "received", "to", "mime-version"}
_OURS = {
    *("description", "origin", "forwarded", "author", "reason", "exit-condition", "applies-to"),
    *("last-update", "optional-sections", "applied-upstream", "reviewed-by", "acked-by", "bug"),
    *("upstream-state", "depends-on", "exit-when", "requires"),
}
_SINGLE = (
    *("description", "reason", "origin", "forwarded", "exit-condition", "applies-to", "test"),
    *("exit-when", "requires"),
)
# What the header of a stored patch must have, in the order in which it is written.
REQUIRED = ("Description", "Reason", "Origin", "Forwarded", "Exit-Condition", "Applies-To")
_ALSO = {"Description": " (or Subject)", "Forwarded": " (or Upstream-State)"}
# A file in the repository and, as pytest writes it, what in it: tests/test_kv.py::test_pages
TEST_NAME = re.compile(r"(?P<path>[^/\s:\\][^\s:\\]*\.py)(?P<node>(?:::[^\s:]+)*)")
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)$")


@dataclass(frozen=True)
class Field:
    """One field: its name as written, its value with `\\n` between lines, its 1-based line."""

    name: str
    value: str
    lineno: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Header:
    """The fields in order, known or not, and the free text after them."""

    fields: tuple[Field, ...] = ()
    text: str = ""

    def get(self, name: str) -> str | None:
        """Return the value of the first field of a name or of an alias of it, in any case."""
        found = self.find(name)
        return found.value if found else None

    def find(self, name: str) -> Field | None:
        """Return the first field of a name or of an alias of it, in any case."""
        return next((item for item in self.fields if field_key(item.name) == field_key(name)), None)

    @property
    def description(self) -> str | None:
        """Return Description, or Subject."""
        return self.get("Description")

    @property
    def reason(self) -> str | None:
        """Return Reason: why the patch is needed."""
        return self.get("Reason")

    @property
    def origin(self) -> str | None:
        """Return Origin: who wrote it, or where it was taken from."""
        return self.get("Origin")

    @property
    def forwarded(self) -> str | None:
        """Return Forwarded, or Upstream-State: what upstream knows of it."""
        return self.get("Forwarded")

    @property
    def exit_condition(self) -> str | None:
        """Return Exit-Condition: when the patch may be dropped."""
        return self.get("Exit-Condition")

    @property
    def author(self) -> str | None:
        """Return Author, or From."""
        return self.get("Author")

    @property
    def last_update(self) -> str | None:
        """Return Last-Update."""
        return self.get("Last-Update")

    @property
    def applies_to(self) -> SpecifierSet | None:
        """Return the declared range, or None where there is none or it is not a PEP 440 range."""
        value = self.get("Applies-To")
        try:
            return SpecifierSet(value) if value and value.strip() else None
        except InvalidSpecifier:
            return None

    @property
    def optional_sections(self) -> tuple[str, ...]:
        """Return the paths or patterns of sections that need not be built from source."""
        return self._words("Optional-Sections")

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Return the names of the patches that this one needs."""
        return self._words("Depends-On")

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the tests that prove the patch, as written: `path.py`, `path.py::name`."""
        return self._words("Test")

    @property
    def exit_when(self) -> tuple[str, ...]:
        """Return the conditions under which the patch may go, one a line, as written."""
        return self._lines("Exit-When")

    @property
    def requires(self) -> tuple[str, ...]:
        """Return what the patch needs of the environment that it runs in, one need a line."""
        return self._lines("Requires")

    def _lines(self, name: str) -> tuple[str, ...]:
        lines = (line.strip() for line in (self.get(name) or "").split("\n"))
        return tuple(line for line in lines if line)

    def _words(self, name: str) -> tuple[str, ...]:
        return tuple(word for word in re.split(r"[\s,]+", self.get(name) or "") if word)

    def covers(self, version: str) -> bool:
        """Return whether the declared range holds a version; pre-releases count."""
        declared = self.applies_to
        try:
            return declared is not None and declared.contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False


def parse_header(preamble: bytes, place: str) -> Header:
    """Return the header in the text before a patch's first section; free text alone has no fields.

    `place` is the patch's name. Raises PatchkitError with place `name:line` for a line among the
    fields that is neither a field nor a continuation.
    """
    lines = preamble.decode("utf-8", "surrogateescape").replace("\r\n", "\n").split("\n")
    start = 1 if is_from_line(lines[0].encode("utf-8", "surrogateescape")) else 0
    while start < len(lines) and not lines[start].strip():
        start += 1
    name = _field_name(lines, start)
    # What a header may start with; any other first line makes the whole text free text.
    if name not in _OURS | _MAIL and not name.startswith(("bug-", "x-")):
        return Header(text=_plain_text(lines[start:]))
    fields, at = _parse_paragraph(lines, start, place)
    text = lines[at:]
    if name in _MAIL:
        more, text = _fields_in_message(lines, at, place)
        fields += more
    return Header(tuple(fields), _plain_text(text))


def format_header(header: Header) -> bytes:
    """Return the header in its canonical form, a blank line after the fields and after the text."""
    parts = [_format_field(item) for item in header.fields]
    if header.fields:
        parts.append("\n")
    if header.text:
        parts.append(header.text + "\n\n")
    return "".join(parts).encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class HeaderProblem:
    """One thing that a stored patch's header must not be: its kind, its 1-based line, the fact."""

    kind: str  # "missing", "empty", "doubled" or "value"
    lineno: int
    text: str


def validate_header(header: Header, place: str) -> tuple[str, ...]:
    """Return what is wrong with a header that a stored patch must have, each with `name:line`."""
    return tuple(f"{place}:{found.lineno}: {found.text}" for found in header_problems(header))


def header_problems(header: Header) -> Iterator[HeaderProblem]:
    """Yield what is wrong with a header that a stored patch must have."""
    for name in REQUIRED:
        found = header.find(name)
        if found is None:
            yield HeaderProblem("missing", 1, f"header has no {name}{_ALSO.get(name, '')}")
        elif not found.value.strip():
            yield HeaderProblem("empty", found.lineno, f"{found.name} is empty")
    for name in _SINGLE:
        same = [item for item in header.fields if field_key(item.name) == name]
        for item in same[1:]:
            yield HeaderProblem("doubled", item.lineno, f"{item.name} is there twice")
    for item in header.fields:
        problem = _value_problem(item)
        if problem:
            yield HeaderProblem("value", item.lineno, problem)
        if field_key(item.name) == "requires":
            for lineno, text in requires_problems(item.value, item.lineno):
                yield HeaderProblem("value", lineno, text)
        if field_key(item.name) == "exit-when":
            for lineno, text in condition_problems(item.value, item.lineno):
                yield HeaderProblem("value", lineno, text)


def empty_fields(header: Header) -> tuple[str, ...]:
    """Return the names of the required fields that a header leaves empty or out."""
    return tuple(name for name in REQUIRED if not (header.get(name) or "").strip())


def is_test(word: str) -> bool:
    """Return whether a word of a Test field names a test in the repository."""
    match = TEST_NAME.fullmatch(word)
    return match is not None and not {"", ".", ".."} & set(match["path"].split("/"))


def _value_problem(item: Field) -> str | None:
    if field_key(item.name) == "applies-to" and item.value.strip():
        try:
            SpecifierSet(item.value)
        except InvalidSpecifier:
            return (
                f"{item.name} {item.value!r} is no version range, expected one like '>=0.26,<0.30'"
            )
    if field_key(item.name) == "test":
        odd = [word for word in re.split(r"[\s,]+", item.value) if word and not is_test(word)]
        if odd or not item.value.strip():
            found = repr(odd[0]) if odd else "empty"
            return f"{item.name} is {found}, expected tests like 'tests/test_kv.py::test_pages'"
    if field_key(item.name) == "last-update":
        try:
            date.fromisoformat(item.value.strip())
        except ValueError:
            return f"{item.name} {item.value!r} is no date, expected one like '2026-01-31'"
    return None


def field_key(name: str) -> str:
    """Return what fields of one meaning have in common: the name in small letters, no alias."""
    lower = name.lower()
    return _ALIASES.get(lower, lower)


def _field_name(lines: list[str], at: int) -> str:
    match = _FIELD.match(lines[at]) if at < len(lines) else None
    return match[1].lower() if match else ""


def _fields_in_message(lines: list[str], at: int, place: str) -> tuple[list[Field], list[str]]:
    """Return the fields in paragraphs of a mail's message that start with one, and what is left."""
    fields: list[Field] = []
    text: list[str] = []
    while at < len(lines) and not lines[at].startswith("---"):
        if _field_name(lines, at) in _OURS and (at == 0 or not lines[at - 1].strip()):
            found, at = _parse_paragraph(lines, at, place)
            fields += found
        else:
            text.append(lines[at])
            at += 1
    return fields, [*text, *lines[at:]]


def _parse_paragraph(lines: list[str], start: int, place: str) -> tuple[list[Field], int]:
    """Return the fields of one paragraph, and the index of the line after it."""
    fields: list[Field] = []
    at = start
    while at < len(lines) and lines[at].strip() and not lines[at].startswith("---"):
        line = lines[at]
        if line[0] in " \t" and fields:
            last = fields[-1]
            more = line[1:].rstrip()
            more = "" if more == "." else more
            fields[-1] = Field(last.name, f"{last.value}\n{more}", last.lineno)
        elif match := _FIELD.match(line):
            fields.append(Field(match[1], match[2].rstrip(), at + 1))
        else:
            raise PatchkitError(
                f"header line is neither a field nor a continuation: {line[:60]!r}",
                place=f"{place}:{at + 1}",
                expected="'Name: value', or a blank and the rest of the value",
            )
        at += 1
    return fields, at


def _plain_text(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n")


def _format_field(item: Field) -> str:
    first, *more = item.value.split("\n")
    head = f"{item.name}: {first}" if first else f"{item.name}:"
    return "\n".join([head, *(f" {line or '.'}" for line in more)]) + "\n"
