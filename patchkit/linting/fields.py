"""The names of header fields: which are known, how they are written, in which order they come."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from patchkit.diff.header import Field, Header
from patchkit.diff.mail import is_from_line

# The usual order; names in one row share a place.
_ORDER = (
    ("Description", "Subject"), ("Reason",), ("Origin",), ("Forwarded", "Upstream-State"),
    ("Applied-Upstream",), ("Bug",), ("Exit-Condition",), ("Exit-When",), ("Applies-To",),
    ("Depends-On",), ("Requires",), ("Optional-Sections",), ("Test",), ("Author", "From"),
    ("Owner",), ("Reviewed-by", "Acked-by", "Signed-off-by", "Co-authored-by"), ("Last-Update",),
)  # fmt: skip
_PLACES = {name.lower(): place for place, names in enumerate(_ORDER) for name in names}
_SPELT = {name.lower(): name for names in _ORDER for name in names}
_MAIL = frozenset(
    ("date", "to", "cc", "message-id", "received", "return-path", "sender", "mime-version",
     "content-type", "content-transfer-encoding", "in-reply-to", "references")
)  # fmt: skip
# Low enough for two letters changed places in a short name, too high for Author and Owner.
_NEAR = 0.8
BLANKS = " \t"


@dataclass(frozen=True)
class Naming:
    """What a field's name should be where it is not that: `near` says that it is a guess."""

    item: Field
    right: str
    near: bool


def is_known(name: str) -> bool:
    """Return whether something reads a field of that name, or it is marked as somebody's own."""
    lower = name.lower()
    return lower in _SPELT or lower in _MAIL or lower.startswith(("x-", "bug-", "list-"))


def right_name(name: str) -> str | None:
    """Return the known name that a name is in other letters, or nearly; None where it is none."""
    lower = name.lower()
    if lower in _SPELT:
        return _SPELT[lower]
    near = difflib.get_close_matches(lower, _SPELT, n=1, cutoff=_NEAR)
    return _SPELT[near[0]] if near else None


def misnamed(header: Header) -> Iterator[Naming]:
    """Yield the fields that should have another name, as far as one is near."""
    for item in header.fields:
        if item.name.lower() in _SPELT:
            if item.name != _SPELT[item.name.lower()]:
                yield Naming(item, _SPELT[item.name.lower()], near=False)
        elif not is_known(item.name):
            right = right_name(item.name)
            if right is not None:
                yield Naming(item, right, near=True)


def mistaken_first(lines: list[str]) -> Naming | None:
    """Return the field that a text begins with, of a name so wrong that nothing takes it for one.

    A header is only what begins with a field of a known name.
    """
    at = next((at for at, line in enumerate(lines) if line.strip()), None)
    if at is None:
        return None
    name, colon, value = lines[at].partition(":")
    if not colon or not name.replace("-", "").isalnum() or is_known(name):
        return None
    right = right_name(name)
    return None if right is None else Naming(Field(name, value.strip(), at + 1), right, near=True)


def out_of_order(header: Header) -> Field | None:
    """Return the first field that belongs further up; None where all are in the usual order.

    Fields that have no usual place may stand anywhere.
    """
    last = -1
    for item in header.fields:
        place = _place(item)
        if place < last:
            return item
        if place < len(_ORDER):
            last = place
    return None


def in_order(header: Header) -> tuple[Field, ...]:
    """Return the fields in the usual order; those without a place keep theirs at the end."""
    return tuple(sorted(header.fields, key=_place))


def _place(item: Field) -> int:
    lower = item.name.lower()
    if lower.startswith("bug-"):
        lower = "bug"
    return _PLACES.get(lower, len(_ORDER))


def is_one_paragraph(header: Header) -> bool:
    """Return whether the fields follow each other, line on line."""
    starts = [item.lineno for item in header.fields]
    ends = [item.lineno + item.value.count("\n") + 1 for item in header.fields]
    return starts[1:] == ends[:-1]


def is_mail(header: Header, lines: list[str]) -> bool:
    """Return whether the text is that of a mail, whose order is not ours."""
    first = lines[0].encode("utf-8", "surrogateescape") if lines else b""
    return is_from_line(first) or any(item.name.lower() in _MAIL for item in header.fields)


def header_lines(preamble: bytes) -> list[str]:
    """Return the lines that a header's line numbers count, endings taken off."""
    return preamble.decode("utf-8", "surrogateescape").replace("\r\n", "\n").split("\n")


def field_lines(header: Header, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that fields stand on, each with its 1-based number."""
    for item in header.fields:
        for lineno in range(item.lineno, item.lineno + item.value.count("\n") + 1):
            yield lineno, lines[lineno - 1]
