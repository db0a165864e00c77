"""The mechanical repairs of a header: names, trailing blanks, order; nothing that it says."""

from __future__ import annotations

from collections import Counter

from patchkit.diff import parse_patch
from patchkit.diff.header import Header, parse_header
from patchkit.errors import PatchkitError
from patchkit.linting.fields import (
    BLANKS,
    Naming,
    field_lines,
    header_lines,
    in_order,
    is_mail,
    is_one_paragraph,
    misnamed,
    mistaken_first,
    out_of_order,
)
from patchkit.linting.rule import Repair


def mend_patch(data: bytes, place: str) -> tuple[bytes, tuple[Repair, ...]]:
    """Return a patch file with its header mended, and what was done; the diff stays as it is.

    What cannot be read, or came in another encoding or as a mail that had to be decoded, is left
    alone.
    """
    try:
        preamble = parse_patch(data, place).preamble
        header = parse_header(preamble, place)
    except PatchkitError:
        return data, ()
    if not data.startswith(preamble):
        return data, ()
    body = data[len(preamble) :]
    mended, repairs = _mend_names(preamble, header)
    if repairs and not header.fields:  # the first field has its name now: there is a header
        return _again(mended + body, place, repairs)
    mended, blanks = _mend_blanks(mended, header)
    mended, order = _mend_order(mended, place)
    repairs += (*blanks, *order)
    assert _says(mended, place) == _says(_mend_names(preamble, header)[0], place)
    return mended + body, tuple(sorted(repairs, key=lambda repair: repair.lineno))


def _again(
    data: bytes, place: str, repairs: tuple[Repair, ...]
) -> tuple[bytes, tuple[Repair, ...]]:
    mended, more = mend_patch(data, place)
    return mended, tuple(sorted((*repairs, *more), key=lambda repair: repair.lineno))


def _says(preamble: bytes, place: str) -> tuple[Counter[tuple[str, str]], str]:
    header = parse_header(preamble, place)
    return Counter((item.name, item.value) for item in header.fields), header.text


def _mend_names(preamble: bytes, header: Header) -> tuple[bytes, tuple[Repair, ...]]:
    """Give fields their right names, unless one of that name is there already."""
    lines = preamble.split(b"\n")
    first = mistaken_first(header_lines(preamble)) if not header.fields else None
    repairs = []
    taken = {item.name.lower() for item in header.fields}
    for naming in [*misnamed(header), *([first] if first else [])]:
        if naming.near and naming.right.lower() in taken:
            continue
        taken.add(naming.right.lower())
        at = naming.item.lineno - 1
        _, colon, rest = lines[at].partition(b":")
        lines[at] = naming.right.encode() + colon + rest
        repairs.append(_renamed(naming))
    return b"\n".join(lines), tuple(repairs)


def _renamed(naming: Naming) -> Repair:
    rule = "misspelt-field" if naming.near else "field-case"
    return Repair(rule, naming.item.lineno, f"{naming.item.name} is called {naming.right} now")


def _mend_blanks(preamble: bytes, header: Header) -> tuple[bytes, tuple[Repair, ...]]:
    lines = preamble.split(b"\n")
    repairs = []
    for lineno, line in field_lines(header, header_lines(preamble)):
        if line != line.rstrip(BLANKS):
            ending = b"\r" if lines[lineno - 1].endswith(b"\r") else b""
            lines[lineno - 1] = lines[lineno - 1].rstrip(b" \t\r") + ending
            repairs.append(Repair("trailing-blank", lineno, "blanks at the end taken off"))
    return b"\n".join(lines), tuple(repairs)


def _mend_order(preamble: bytes, place: str) -> tuple[bytes, tuple[Repair, ...]]:
    """Sort the fields of one paragraph, each with the lines that it goes on in."""
    header = parse_header(preamble, place)
    late = out_of_order(header)
    if late is None or not is_one_paragraph(header) or is_mail(header, header_lines(preamble)):
        return preamble, ()
    lines = preamble.split(b"\n")
    blocks = {
        item.lineno: lines[item.lineno - 1 : item.lineno + item.value.count("\n")]
        for item in header.fields
    }
    start = header.fields[0].lineno - 1
    end = start + sum(map(len, blocks.values()))
    lines[start:end] = [line for item in in_order(header) for line in blocks[item.lineno]]
    names = ", ".join(dict.fromkeys(item.name for item in in_order(header)))
    return b"\n".join(lines), (Repair("field-order", late.lineno, f"sorted: {names}"),)
