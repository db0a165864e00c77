"""The DEP-3 header of an adopted patch: what is known of it; empty where only a person knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchkit.adopting.mailing import author_of, is_placeholder
from patchkit.adopting.said import Said
from patchkit.diff.header import (
    REQUIRED,
    Field,
    Header,
    empty_fields,
    field_key,
    format_header,
    parse_header,
    validate_header,
)


def heading(said: Said, *, origin: str, release: str, given: Mapping[str, str]) -> Header:
    """Return the header of a patch that is stored for a release.

    `given` are fields that a person sets for all patches: they win over what the patch says.
    What is required and not known is there and empty: nothing is invented.
    """
    known = {"Origin": origin, "Applies-To": f"=={release}", **given}
    fields, text = list(said.fields), said.text
    if said.is_mail:
        fields = _merged(_of_mail(said), fields)
    elif not fields and text:  # plain text, and nothing else: it says what the patch does
        fields, text = [Field("Description", text)], ""
    names = {_canonical(item.name) for item in fields}
    fields = [_given(item, given) for item in fields]
    fields += [Field(name, known.get(name, "")) for name in REQUIRED if name not in names]
    if said.is_mail:
        fields.sort(key=_place)
    return Header(tuple(fields), text)


def with_needs(preamble: bytes, name: str, needed: Sequence[str]) -> bytes:
    """Return a header that declares that the patch depends on some others besides."""
    header = parse_header(preamble, name)
    names = ", ".join([*header.depends_on, *needed])
    fields = [item for item in header.fields if item.name.lower() != "depends-on"]
    return format_header(Header((*fields, Field("Depends-On", names)), header.text))


def to_fill_in(preamble: bytes, name: str) -> tuple[str, ...]:
    """Return the required fields that are empty, and what is wrong with the others."""
    header = parse_header(preamble, name)
    problems = [text.partition(": ")[2] for text in validate_header(header, name)]
    others = [text for text in problems if not text.endswith(" is empty")]
    return (*empty_fields(header), *others)


def _of_mail(said: Said) -> list[Field]:
    description = "\n".join(part for part in (said.subject, said.message) if part)
    found = {"Description": description, "Author": author_of(said.author), "Date": said.date}
    fields = [Field(name, value) for name, value in found.items() if value]
    return [item for item in fields if not is_placeholder(item)]


def _merged(first: list[Field], others: list[Field]) -> list[Field]:
    """Return the fields of a mail with those in its message, which win where both say it."""
    own = {_canonical(item.name) for item in others}
    return [item for item in first if _canonical(item.name) not in own] + others


def _given(item: Field, given: Mapping[str, str]) -> Field:
    name = _canonical(item.name)
    return Field(item.name, given[name]) if name in given else item


def _canonical(name: str) -> str:
    """Return a required field's name as it is written here, whichever alias it goes by."""
    known = {field.lower(): field for field in (*REQUIRED, "Author")}
    return known.get(field_key(name), name)


def _place(item: Field) -> int:
    name = _canonical(item.name)
    if name in REQUIRED:
        return REQUIRED.index(name)
    return len(REQUIRED) + (name != "Author")
