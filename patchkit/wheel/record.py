"""RECORD as rows that keep their own text, so that what was not touched stays as it was.

As strict as `installer`, and stricter: a digest that is not the canonical sha256, a size with a
sign or zeros in front, a path that is listed twice. Source: PEP 376, PEP 427,
"Recording installed projects" of the packaging specifications.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from patchkit.errors import PatchkitError

# 256 bits in base64url without padding: the last character holds four of them and two zeros.
_DIGEST = re.compile(r"sha256=[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")


@dataclass(frozen=True)
class Row:
    """One file: its digest as RECORD writes it (`sha256=…`, "" for none), size, and the line.

    `text` is the whole line with its end.
    """

    path: str
    digest: str
    size_bytes: int | None
    text: str


def parse_rows(content: bytes, place: str) -> tuple[Row, ...]:
    """Return the rows of a RECORD in order; raises PatchkitError with place `place:line`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as err:
        raise PatchkitError("is not UTF-8", place=place) from err
    rows: dict[str, Row] = {}
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        row = _parse_row(line, f"{place}:{number}")
        if row.path in rows:
            raise PatchkitError(f"{row.path} is listed twice", place=f"{place}:{number}")
        rows[row.path] = row
    return tuple(rows.values())


def format_row(path: str, content: bytes | None) -> Row:
    """Return the row of a file; None is for RECORD itself, which has neither digest nor size."""
    digest = "" if content is None else digest_text(content)
    size = None if content is None else len(content)
    line = io.StringIO()
    fields = (path, digest, "" if size is None else str(size))
    csv.writer(line, lineterminator="\n").writerow(fields)
    return Row(path, digest, size, line.getvalue())


def renamed_row(row: Row, path: str) -> Row:
    """Return the row of the same content under another path."""
    line = io.StringIO()
    size = "" if row.size_bytes is None else str(row.size_bytes)
    csv.writer(line, lineterminator="\n").writerow((path, row.digest, size))
    return Row(path, row.digest, row.size_bytes, line.getvalue())


def format_rows(rows: Iterable[Row]) -> bytes:
    """Return the RECORD of rows."""
    return "".join(row.text for row in rows).encode()


def digest_text(content: bytes) -> str:
    """Return the digest of a content as RECORD writes it."""
    raw = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _parse_row(line: str, place: str) -> Row:
    if '"' in line:
        try:
            fields = next(csv.reader([line], strict=True), [])
        except csv.Error as err:
            raise PatchkitError(f"is no row: {err}", place=place) from err
    else:  # nearly all rows: of 4,835 csv would take ten times as long, twice a build
        fields = line.rstrip("\r\n").split(",")
    if len(fields) != 3 or not fields[0]:
        raise PatchkitError(f"row is {line.strip()!r}", place=place, expected="path,digest,size")
    path, digest, size = fields
    if digest and not _DIGEST.fullmatch(digest):
        raise PatchkitError(
            f"digest of {path} is {digest!r}", place=place, expected="sha256= and 43 characters"
        )
    if size and not (size.isdecimal() and size.isascii() and str(int(size)) == size):
        raise PatchkitError(f"size of {path} is {size!r}", place=place, expected="a number")
    return Row(path, digest, int(size) if size else None, line)
