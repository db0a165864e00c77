"""A wheel's RECORD: path to digest and size (PEP 376, PEP 427)."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
from dataclasses import dataclass
from io import StringIO

from patchkit.errors import PatchkitError


@dataclass(frozen=True)
class RecordRow:
    """The digest (lower-case hex) and size of one installed file."""

    sha256: str
    size_bytes: int | None


def parse_record(text: bytes, place: str) -> dict[str, RecordRow]:
    """Return path to row for every file that RECORD gives a sha256 for."""
    rows: dict[str, RecordRow] = {}
    try:
        for fields in csv.reader(StringIO(text.decode("utf-8"), newline="")):
            path, digest, size = fields
            if not digest:
                continue  # RECORD itself has no digest
            algorithm, _, value = digest.partition("=")
            if algorithm != "sha256" or path in rows:
                raise ValueError(path)
            raw = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            rows[path] = RecordRow(raw.hex(), int(size) if size else None)
    except (ValueError, csv.Error, binascii.Error) as err:
        raise PatchkitError("RECORD cannot be read", place=place, expected="PEP 376 rows") from err
    return rows


def check_member(rows: dict[str, RecordRow], path: str, content: bytes, place: str) -> str:
    """Return the sha256 of a file's content, which must be the one that RECORD gives."""
    row = rows.get(path)
    if row is None:
        raise PatchkitError(f"{path} is not in RECORD", place=place)
    found = hashlib.sha256(content).hexdigest()
    if found != row.sha256:
        raise PatchkitError(
            f"{path} has sha256 {found}", place=place, expected=f"{row.sha256} as in RECORD"
        )
    return found
