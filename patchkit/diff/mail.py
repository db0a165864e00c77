"""The text of patches out of what carried them: byte order marks, mailboxes, mail encodings."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message

from patchkit.diff.model import Note, split_lines
from patchkit.errors import PatchkitError

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32 (little endian)"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32 (big endian)"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16 (little endian)"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16 (big endian)"),
)
_FROM_LINE = re.compile(rb"From \S+ .*\d\d:\d\d(:\d\d)? (\S+ )?\d{4}\r?\n?$")
_FIELD = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:([ \t\r\n]|$)")
_MAIL_FIELD = re.compile(rb"(From|Date|Subject|Message-I[dD]|Received|Return-Path|To): ")
_ENCODED = re.compile(
    rb"^(content-transfer-encoding:\s*(quoted-printable|base64)|content-type:\s*multipart/)",
    re.IGNORECASE | re.MULTILINE,
)
_STAT_ROW = re.compile(rb" .+\| +(\d+( [-+]+)?|Bin.*)$")
_STAT_SUM = re.compile(rb" \d+ files? changed")
_PATCH_MARK = re.compile(rb"^(diff --git |--- .*\n\+\+\+ |@@ -)", re.MULTILINE)


@dataclass(frozen=True)
class Letter:
    """One message, or a whole patch file that is no mail.

    `first` is the 1-based line its text starts on; no patch begins before index `start`.
    """

    lines: list[bytes]
    first: int
    start: int
    notes: tuple[Note, ...]


def decode_text(data: bytes, name: str) -> tuple[bytes, tuple[Note, ...]]:
    """Return the data as bytes of an ASCII-compatible encoding, with a note where it was converted.

    Raises PatchkitError where a byte order mark is followed by what does not decode.
    """
    for mark, codec, title in _MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(codec)
            except UnicodeDecodeError as err:
                raise PatchkitError(
                    f"has a {title} byte order mark and does not decode: {err.reason}",
                    place=f"{name}:1",
                ) from err
            return text.encode(), (Note(1, f"{title} converted to UTF-8"),)
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :], (Note(1, "UTF-8 byte order mark dropped"),)
    return data, ()


def split_letters(text: bytes, name: str) -> tuple[Letter, ...]:
    """Return the messages of a mailbox, or the whole text as one."""
    lines = split_lines(text)
    starts = [at for at in range(len(lines)) if _is_from_line(lines, at)]
    if not starts or any(line.strip() for line in lines[: starts[0]]):
        starts.insert(0, 0)  # text before the first message is a patch file's own header
    ends = [*starts[1:], len(lines)]
    return tuple(
        _open_letter(lines[at:end], at + 1, name) for at, end in zip(starts, ends, strict=True)
    )


def is_from_line(line: bytes) -> bool:
    """Return whether a line is the `From SHA DATE` that starts a message in a mailbox."""
    return bool(_FROM_LINE.match(line))


def _is_from_line(lines: list[bytes], at: int) -> bool:
    if not is_from_line(lines[at]) or (at and lines[at - 1].strip()):
        return False
    return at + 1 < len(lines) and bool(_FIELD.match(lines[at + 1]))


def _open_letter(lines: list[bytes], first: int, name: str) -> Letter:
    end = _header_end(lines)
    if end == 0:
        return Letter(lines, first, 0, ())
    notes: tuple[Note, ...] = ()
    header = b"".join(lines[:end])
    if _ENCODED.search(header):
        body, how = _decode_body(message_from_bytes(b"".join(lines)), f"{name}:{first}")
        if _PATCH_MARK.search(b"".join(lines[end:])) and not _PATCH_MARK.search(body):
            notes = (Note(first, f"mail says it is {how}, and is plain: read as it stands"),)
        else:
            notes = (Note(first, f"mail body decoded from {how}; lines count in the decoded text"),)
            lines = [*lines[:end], b"\n", *split_lines(body)]
    return Letter(lines, first, _diffstat_end(lines, end), notes)


def _header_end(lines: list[bytes]) -> int:
    """Return the index of the blank line after a mail's header, or 0 where the text is no mail."""
    start = 1 if lines and is_from_line(lines[0]) else 0
    seen = start == 1
    for at in range(start, len(lines)):
        line = lines[at]
        if not line.strip():
            return at if seen else 0
        if at > start and line[:1] in (b" ", b"\t"):
            continue
        if not _FIELD.match(line):
            return 0
        seen = seen or bool(_MAIL_FIELD.match(line))
    return 0


def _diffstat_end(lines: list[bytes], start: int) -> int:
    """Return the index after `---` and a diffstat: what comes before is message, come what may."""
    for at in range(start, len(lines)):
        if lines[at].rstrip(b"\r\n") != b"---":
            continue
        row = at + 1
        while row < len(lines) and _STAT_ROW.match(lines[row].rstrip(b"\r\n")):
            row += 1
        if row < len(lines) and _STAT_SUM.match(lines[row]):
            return row + 1
    return start


def _decode_body(message: Message, place: str) -> tuple[bytes, str]:
    if not message.is_multipart():
        return _payload(message), str(message["content-transfer-encoding"]).lower()
    parts = [part for part in message.walk() if not part.is_multipart()]
    bodies = [_payload(part) for part in parts if part.get_content_maintype() != "image"]
    holding = [body for body in bodies if _PATCH_MARK.search(body)]
    if len(holding) > 1:
        raise PatchkitError(
            f"mail has {len(holding)} parts that hold a patch", place=place, expected="one"
        )
    return (holding or bodies or [b""])[0], "a part of a multipart mail"


def _payload(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
