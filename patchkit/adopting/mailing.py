"""A patch as the mail that `git format-patch` would write and `git am` takes."""

from __future__ import annotations

import base64
import re
from datetime import date
from email.utils import format_datetime, parsedate_to_datetime

from patchkit.diff import Patch, format_files
from patchkit.diff.header import Field, Header, format_header, parse_header

# git wants an address and a date of every mail; these say that there is none.
NO_ADDRESS = "<author@unknown.invalid>"
_NOBODY = "unknown"
NO_DATE = "Thu, 01 Jan 1970 00:00:00 +0000"
_FIRST = b"From %s Mon Sep 17 00:00:00 2001\n" % (b"0" * 40)
_IN_HEADER = ("description", "subject", "author", "from", "date")
# What ends a mail's message for git, or begins another mail.
_BREAK = re.compile(r"(---|diff -|Index: |From |@@ -|>8|8<)")


def format_mail(patch: Patch, number: int, count: int, stem: str) -> bytes:
    """Return a patch as mail `number` of `count`: its DEP-3 header is in the message.

    `stem` is the subject where the patch has no description. A function of the patch alone.
    """
    header = parse_header(patch.preamble, patch.name)
    subject, _, rest = (header.description or "").strip("\n").partition("\n")
    others = tuple(item for item in header.fields if item.name.lower() not in _IN_HEADER)
    parts = [_message(rest), format_header(Header(others)).decode("utf-8", "surrogateescape")]
    parts.append(_message(header.text))
    message = "\n\n".join(part.strip("\n") for part in parts if part.strip("\n"))
    body = f"{message}\n---\n".encode("utf-8", "surrogateescape")
    body += b"\n" + format_files(patch.files) + b"-- \npatchkit\n\n"
    encoding = "8bit"
    if b"\r" in body:  # which does not outlive a mail
        encoding, body = "base64", base64.encodebytes(body)
    fields = {
        "From": _address(header.author or ""),
        "Date": _date(header),
        "Subject": f"[PATCH {number}/{count}] {subject.strip() or stem}",
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": encoding,
    }
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return _FIRST + head.encode("utf-8", "surrogateescape") + b"\n" + body


def is_placeholder(item: Field) -> bool:
    """Return whether a field says no more than that a mail has to have it."""
    return item.name.lower() == "date" and item.value == NO_DATE


def author_of(text: str) -> str:
    """Return an author less the address that stands for none."""
    name = text.replace(NO_ADDRESS, "").strip()
    return "" if name == _NOBODY and name != text else name


def _address(author: str) -> str:
    flat = " ".join(author.split())
    return flat if "@" in flat else f"{flat or _NOBODY} {NO_ADDRESS}"


def _date(header: Header) -> str:
    try:
        return format_datetime(parsedate_to_datetime(header.get("Date") or ""))
    except ValueError:
        pass
    try:
        day = date.fromisoformat((header.last_update or "").strip())
    except ValueError:
        return NO_DATE
    return f"{day:%a, %d %b %Y} 00:00:00 +0000"


def _message(text: str) -> str:
    """Return text of a message with a blank before what git would take for the end of it."""
    return "\n".join(f" {line}" if _BREAK.match(line) else line for line in text.split("\n"))
