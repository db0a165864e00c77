"""Which lines a patch file holds, read as simply as can be and by none of our parsers."""

from __future__ import annotations

import codecs
import re
from email import message_from_bytes

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MAIL = re.compile(rb"^(?=From \S+ \w+ \w+ +\d+ [\d:]+ \d{4}\n[A-Z][\w-]*: )", re.MULTILINE)


def changed_lines(data: bytes) -> list[bytes]:
    """Return every line that follows a hunk header and says that it is added or removed.

    Its marker is left on it, carriage returns are not; lines that only name a file do not count.
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            data = data[len(mark) :].decode(codec, "ignore").encode()
    found: list[bytes] = []
    for part in _MAIL.split(data):
        found += _in_text(_decoded(part))
    return found


def _decoded(part: bytes) -> bytes:
    coding = re.search(
        rb"^content-transfer-encoding: *(base64|quoted-printable)", part, re.M | re.I
    )
    head = part.split(b"\n\n")[0]
    if coding is None or coding.start() > len(head):
        return part
    payload = message_from_bytes(part).get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _in_text(text: bytes) -> list[bytes]:
    found: list[bytes] = []
    lines = [line.rstrip(b"\r") for line in text.split(b"\n")]
    inside = False
    for at, line in enumerate(lines):
        names_a_file = (
            line.startswith(b"--- ")
            and lines[at + 1 : at + 2]
            and (lines[at + 1].startswith(b"+++ "))
        )
        if re.match(rb"@@ -\d", line):
            inside = True
        elif names_a_file or line[:1] not in (b" ", b"+", b"-", b"\\", b""):
            inside = False
        elif inside and line[:1] in (b"+", b"-") and line not in (b"-- ", b"--"):
            found.append(line)
    return found
