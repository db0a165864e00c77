"""The headers of patches as editing changes them: made, copied, joined, pointed elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from patchkit.diff.header import REQUIRED, Field, Header, field_key, format_header, parse_header
from patchkit.errors import PatchkitError

DEPENDS_ON = "Depends-On"
_JOINED = ("description", "reason", "origin", "forwarded", "exit-condition")
_LINES = ("exit-when", "requires")
_WORDS = ("depends-on", "test", "optional-sections")
_SINGLE = ("applies-to", "last-update")


def new_preamble(given: Sequence[tuple[str, str | None]]) -> bytes:
    """Return a header with the fields that were given, and the other required ones empty."""
    values = {name: value for name, value in given if value is not None}
    names = [*REQUIRED, *(name for name in values if name not in REQUIRED)]
    return format_header(Header(tuple(Field(n, _checked(n, values.get(n, ""))) for n in names)))


def with_field(preamble: bytes, name: str, value: str, place: str) -> bytes:
    """Return a header with a field set; where it was not, it is put last."""
    header = parse_header(preamble, place)
    found = header.find(name)
    value = _checked(name, value)
    if found is None:
        fields = (*header.fields, Field(name, value))
    else:
        fields = tuple(Field(f.name, value) if f is found else f for f in header.fields)
    return _formatted(preamble, fields, header.text)


def depending_on(preamble: bytes, name: str, place: str) -> bytes:
    """Return a header that declares one patch more as needed."""
    known = parse_header(preamble, place).depends_on
    return with_field(preamble, DEPENDS_ON, ", ".join((*known, name)), place)


def with_needs(preamble: bytes, renamed: Callable[[str], str | None], place: str) -> bytes:
    """Return a header with each name that it depends on replaced, or left out for None.

    A header that names nothing else than before comes back byte for byte.
    """
    header = parse_header(preamble, place)
    named = [renamed(word) for word in header.depends_on]
    kept = tuple(dict.fromkeys(word for word in named if word is not None))
    if kept == header.depends_on:
        return preamble
    if kept:
        return with_field(preamble, DEPENDS_ON, ", ".join(kept), place)
    gone = header.find(DEPENDS_ON)
    return _formatted(preamble, tuple(f for f in header.fields if f is not gone), header.text)


def joined(into: bytes, other: bytes, name: str, place: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the header of a patch that another one is folded into, and what it could not take.

    Texts are put one below the other, lists are united; where only one value can be, the first
    patch's stays and the other is told.
    """
    header, more = parse_header(into, place), parse_header(other, name)
    lost = []
    fields = list(header.fields)
    for item in more.fields:
        key = field_key(item.name)
        at = next((n for n, known in enumerate(fields) if field_key(known.name) == key), None)
        if at is None:
            fields.append(item)
            continue
        both = _both(fields[at], item)
        if both is not None:
            fields[at] = both
        elif key in _SINGLE:
            lost.append(f"{name}: {item.name}: {item.value}")
        elif item not in fields:
            fields.append(item)
    text = "\n\n".join(part for part in (header.text, more.text) if part)
    if tuple(fields) == header.fields and text == header.text:
        return into, tuple(lost)
    return _formatted(into, tuple(fields), text), tuple(lost)


def _both(one: Field, other: Field) -> Field | None:
    """The field that says what two say, None where it can say only one thing."""
    key = field_key(one.name)
    said = {line.strip() for line in one.value.split("\n")}
    if said.issuperset(line.strip() for line in other.value.split("\n")) or not other.value.strip():
        return one
    if not one.value.strip():
        return Field(one.name, other.value)
    if key in _JOINED:
        gap = "\n\n" if key == "description" else "\n"
        return Field(one.name, f"{one.value}{gap}{other.value}")
    if key in _LINES:
        lines = [*one.value.split("\n"), *other.value.split("\n")]
        return Field(one.name, "\n".join(dict.fromkeys(lines)))
    if key in _WORDS:
        words = [w for f in (one, other) for w in re.split(r"[\s,]+", f.value) if w]
        return Field(one.name, ", ".join(dict.fromkeys(words)))
    return None


def _checked(name: str, value: str) -> str:
    """Return the value of a field as it can be written; a control character in it is refused."""
    value = "\n".join(line.rstrip() for line in value.strip().replace("\r\n", "\n").split("\n"))
    if any(ord(char) < 32 and char not in "\n\t" for char in value):
        raise PatchkitError(f"{name} holds a control character", expected="lines of text")
    return value


def _formatted(preamble: bytes, fields: tuple[Field, ...], text: str) -> bytes:
    """Return a changed header; what a mail's envelope said before its fields is kept by them."""
    head = b""
    if preamble.startswith(b"From ") and b"\n" in preamble:
        head = preamble[: preamble.index(b"\n") + 1]
    return head + format_header(Header(fields, text))
