"""What the text around a patch says: subject, author, message, DEP-3 fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from itertools import pairwise

from patchkit.adopting.naming import split_subject
from patchkit.diff import Patch, split_lines
from patchkit.diff.header import Field, Header, parse_header
from patchkit.diff.reader import is_signature
from patchkit.errors import PatchkitError

# What says how a mail travelled, and nothing of the patch.
_TRAVEL = re.compile(
    r"(received.*|return-path|x-.*|to|cc|bcc|list-.*|in-reply-to|references"
    r"|reply-to|delivered-to|dkim-.*|sender|user-agent|errors-to|precedence|arc-.*|status)$"
)
_CODING = re.compile(r"(mime-version|content-.*)$")
_MAIL = ("from", "subject", "date", "message-id")
_DEP3 = {"description", "origin", "reason", "forwarded", "applies-to", "exit-condition"}
_STAT = re.compile(
    r" .+\| +(\d+( [-+]+)?|Bin.*)$| \d+ files? changed| (create|delete) mode \d+ |"
    r" (rename|copy|rewrite) .+ \(\d+%\)$| mode change \d+ "
)
_COMMIT = re.compile(r"commit [0-9a-f]{7,64}\b")
_LOG_FIELD = re.compile(r"(Author|AuthorDate|Date|Commit|CommitDate|Merge|Reflog.*):\s+(.*)")
_SHOWN = 60


@dataclass(frozen=True)
class Said:
    """The text of a patch, sorted: `fields` are DEP-3 fields or unknown ones, in their order.

    `subject` is one line, less `[PATCH 2/3]`; `numbers` are those two; `message` is what a mail
    says below it, `text` any other free text. `is_mail` is true where the text is a mail's, or what
    `git show` writes. `notes` say what was left out, and what was read otherwise than it looks.
    """

    subject: str = ""
    message: str = ""
    author: str = ""
    date: str = ""
    fields: tuple[Field, ...] = ()
    text: str = ""
    numbers: tuple[int, int] | None = None
    is_mail: bool = False
    notes: tuple[str, ...] = ()


def said_by(patch: Patch) -> Said:
    """Return what the text before, between and after the sections of a patch says."""
    notes = _text_left_out(patch)
    log = _from_log(patch.preamble.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))
    if log is not None:
        return replace(log, notes=notes)
    try:
        header = parse_header(patch.preamble, patch.name)
    except PatchkitError as error:
        notes = (*notes, f"{error}; the text is kept as it is")
        header = _head_alone(patch)
    if _is_mail(header):
        return _from_mail(header, patch.name, notes)
    return Said(fields=header.fields, text=_without_rule(header.text), notes=notes)


def _head_alone(patch: Patch) -> Header:
    """Return a header of which what is below the first blank line, or all of it, is text."""
    head, _, rest = patch.preamble.replace(b"\r\n", b"\n").partition(b"\n\n")
    try:
        header = parse_header(head, patch.name)
    except PatchkitError:
        header, rest = Header(), patch.preamble.replace(b"\r\n", b"\n")
    return Header(header.fields, rest.decode("utf-8", "surrogateescape").strip("\n"))


def _is_mail(header: Header) -> bool:
    """Return whether a header is a mail's: DEP-3 has Subject and From too, beside its own fields.

    A mail may have DEP-3 fields as well, but in its message.
    """
    names = {item.name.lower() for item in header.fields[: _paragraph_end(header.fields)]}
    return any(name in names for name in _MAIL) and not names & _DEP3


def _paragraph_end(fields: Sequence[Field]) -> int:
    """Return how many fields follow one another without a line between them."""
    for at, (above, below) in enumerate(pairwise(fields), start=1):
        if below.lineno != above.lineno + above.value.count("\n") + 1:
            return at
    return len(fields)


def _from_mail(header: Header, name: str, notes: tuple[str, ...]) -> Said:
    mail = dict.fromkeys(_MAIL, "")
    kept: list[Field] = []
    left: list[str] = []
    for item in header.fields:
        key = item.name.lower()
        if key in mail and not mail[key]:
            mail[key] = _unfolded(item.value)
        elif _CODING.match(key):
            continue  # the body has been decoded by it
        elif _TRAVEL.match(key):
            left.append(item.name)
        else:
            kept.append(item)
    subject, numbers = split_subject(mail["subject"])
    message, below = _at_rule(header.text)
    if mail["message-id"]:
        kept.append(Field("Message-Id", mail["message-id"]))
    if left:
        notes = (*notes, f"{name}: fields of the mail left out: {', '.join(dict.fromkeys(left))}")
    return Said(
        subject, message, mail["from"], mail["date"], tuple(kept), _without_stat(below), numbers,
        is_mail=True, notes=notes,
    )  # fmt: skip


def _from_log(text: str) -> Said | None:
    """Return what `git show` or `git log -p` says before a patch, None where it is not that."""
    lines = text.strip("\n").split("\n")
    if not _COMMIT.match(lines[0]):
        return None
    at = 1
    fields: dict[str, str] = {}
    while at < len(lines) and (match := _LOG_FIELD.match(lines[at])):
        fields[match[1]] = match[2]
        at += 1
    message, below = _at_rule("\n".join(line.removeprefix("    ") for line in lines[at:]))
    subject, _, body = message.partition("\n")
    return Said(
        subject=subject.strip(),
        message=body.strip("\n"),
        author=fields.get("Author", ""),
        date=fields.get("AuthorDate", fields.get("Date", "")),
        text=_without_stat(below),
        is_mail=True,
    )


def _unfolded(value: str) -> str:
    """Return a mail field on one line, with its encoded words read."""
    flat = " ".join(line.strip() for line in value.split("\n")).strip()
    try:
        return str(make_header(decode_header(flat))) if "=?" in flat else flat
    except (HeaderParseError, LookupError, ValueError):
        return flat


def _at_rule(text: str) -> tuple[str, str]:
    """Return a message, and what is below the `---` that ends it."""
    lines = text.split("\n")
    rule = next((at for at, line in enumerate(lines) if line.rstrip() == "---"), len(lines))
    message = "\n".join(line.rstrip() for line in lines[:rule]).strip("\n")
    return message, "\n".join(lines[rule + 1 :])


def _without_stat(text: str) -> str:
    """Return text less the table of changed files that git puts there."""
    return "\n".join(line for line in text.split("\n") if not _STAT.match(line)).strip("\n")


def _without_rule(text: str) -> str:
    """Return a header's free text less the `---` that ends it, and a diffstat after that."""
    message, below = _at_rule(text)
    return "\n\n".join(part for part in (message, _without_stat(below)) if part)


def _text_left_out(patch: Patch) -> tuple[str, ...]:
    """Return a note for each text between and after the sections, which a stored patch has not."""
    notes = []
    for file in patch.files:
        if shown := _first_line(split_lines(file.lead)):
            notes.append(f"{patch.name}:{file.lineno}: text before the section left out: {shown}")
    if shown := _first_line(split_lines(patch.trailer)):
        notes.append(f"{patch.name}: text after the last section left out: {shown}")
    return tuple(notes)


def _first_line(lines: Sequence[bytes]) -> str | None:
    """Return the first line with words, as it is shown; the signature of a mail counts as none."""
    at = 0
    while at < len(lines):
        if is_signature(list(lines), at):
            at += 2
            continue
        if lines[at].rstrip(b"\r\n") == b"-- ":
            return None  # a person's: how long it is nobody knows
        if lines[at].strip():
            return repr(lines[at].strip().decode("utf-8", "replace")[:_SHOWN])
        at += 1
    return None
