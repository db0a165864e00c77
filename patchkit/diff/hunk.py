"""Hunks out of a patch file: the counts in the header decide, and must agree with the body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from patchkit.diff.model import Hunk, Line, LineKind
from patchkit.diff.reader import PatchReader, is_signature
from patchkit.errors import PatchkitError

# Nine digits: no file has more lines, and int() refuses very long numbers by another exception.
_HEADER = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)", re.DOTALL)
_LOOSE = re.compile(rb"@@\s*-([^+@]*?)\s*\+([^@]*?)\s*@@", re.DOTALL)
_FIELDS = (("old start", "old count"), ("new start", "new count"))
_WRITTEN = "@@ -START,COUNT +START,COUNT @@"


@dataclass
class _Body:
    """The lines of a hunk read so far, and how many of either side are still due."""

    old_due: int
    new_due: int
    lines: list[Line] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.old_due <= 0 and self.new_due <= 0

    def takes(self, kind: bytes) -> bool:
        """Return whether a line of that kind is still due."""
        old, new = kind in b" -", kind in b" +"
        return not (old and self.old_due <= 0) and not (new and self.new_due <= 0)

    def add(self, kind: bytes, text: bytes) -> None:
        self.lines.append(Line(cast(LineKind, kind.decode()), text))
        self.old_due -= kind in b" -"
        self.new_due -= kind in b" +"


def at_hunk(reader: PatchReader) -> bool:
    """Return whether a hunk comes next, after stepping over blank lines before one, noted."""
    at = reader.skip_blank_lines()
    if at >= len(reader.lines) or not reader.lines[at].startswith(b"@@"):
        return False
    if at > reader.pos:
        reader.note("blank line between hunks passed over")
        reader.pos = at
    return True


def parse_hunk(reader: PatchReader, title: str, *, git: bool, before: Sequence[Hunk]) -> Hunk:
    """Return the hunk at the position; `title` names it in errors, `before` are those above it."""
    start = reader.pos
    old_start, old_count, new_start, new_count, section = _parse_header(reader)
    reader.take_header()
    body = _Body(old_count, new_count)
    while not body.done and _take_line(reader, body, git=git):
        pass
    if not body.done:
        raise _count_error(reader, start, title, (old_count, new_count), git=git)
    _take_no_newline(reader, body)
    hunk = Hunk(
        old_start, old_count, new_start, new_count, section, tuple(body.lines), reader.lineno(start)
    )
    _check(reader, start, title, hunk, before)
    return hunk


def refuse_stray_lines(reader: PatchReader, start: int, title: str, *, git: bool) -> None:
    """Raise where lines with hunk markers follow the hunk whose header is at `start`."""
    at = reader.skip_blank_lines()
    if at >= len(reader.lines) or reader.lines[at][:1] not in (b" ", b"+", b"-", b"\\"):
        return
    if is_signature(reader.lines, at) or reader.lines[at].rstrip(b"\r\n") == b"-- ":
        return
    held, reader.pos = reader.pos, at
    starts_section = reader.starts_section()
    if not starts_section:
        counts = _parse_header_at(reader, start)
        raise _count_error(reader, start, title, (counts[1], counts[3]), git=git)
    reader.pos = held


def stray_hunk_error(reader: PatchReader) -> PatchkitError:
    """Return the error for a hunk outside any file section."""
    return reader.error(
        "hunk belongs to no file",
        expected="--- and +++ lines before it",
        hint="the lines that name the file are missing or damaged",
    )


def _parse_header_at(reader: PatchReader, at: int) -> tuple[int, int, int, int, bytes]:
    held, reader.pos = reader.pos, at
    try:
        return _parse_header(reader)
    finally:
        reader.pos = held


def _parse_header(reader: PatchReader) -> tuple[int, int, int, int, bytes]:
    line = reader.line()
    match = _HEADER.fullmatch(line)
    if not match:
        raise _header_error(reader, line)
    old_start, old_count, new_start, new_count = (
        1 if group is None else int(group) for group in match.groups()[:4]
    )
    for side, start, count in (("old", old_start, old_count), ("new", new_start, new_count)):
        if count and not start:
            raise reader.error(f"hunk header has {side} start 0 and {side} count {count}")
    if not old_count and not new_count:
        raise reader.error("hunk header has no old and no new lines")
    return old_start, old_count, new_start, new_count, match[5].removeprefix(b" ")


def _header_error(reader: PatchReader, line: bytes) -> PatchkitError:
    text = line.decode("utf-8", "replace")
    if line.startswith(b"@@@"):
        return reader.error("combined diff of a merge", expected="a diff against one parent")
    if loose := _LOOSE.match(line):
        for group, names in zip(loose.groups(), _FIELDS, strict=True):
            for name, value in zip(names, group.split(b","), strict=False):
                if not re.fullmatch(rb"\d{1,9}", value):
                    return reader.error(
                        f"hunk header has {name} {value.decode('utf-8', 'replace')!r}",
                        expected="a plain number",
                    )
    return reader.error(f"hunk header is damaged: {text[:80]!r}", expected=_WRITTEN)


def _take_line(reader: PatchReader, body: _Body, *, git: bool) -> bool:
    """Take one body line; False where the text at the position is none that is due."""
    if reader.pos >= len(reader.lines) or reader.interrupts_hunk(git=git):
        return False
    raw = reader.lines[reader.pos]
    kind = raw[:1]
    if kind == b"\\":
        return _take_no_newline(reader, body)
    if raw in (b"\n", b"\r\n"):
        kind, raw = b" ", b" " + raw
        if body.takes(kind):
            reader.note("empty line in a hunk read as empty context")
    if kind not in (b" ", b"-", b"+") or not body.takes(kind):
        return False
    if not raw.endswith(b"\n"):  # the last line of the file: an editor left the ending out
        reader.note("patch file ends without a newline")
        raw += b"\n"
    body.add(kind, raw[1:])
    reader.pos += 1
    return True


def _take_no_newline(reader: PatchReader, body: _Body) -> bool:
    r"""Take a `\ No newline at end of file`, which is about the line before it."""
    if not body.lines or not reader.line().startswith(b"\\ "):
        return False
    last = body.lines[-1]
    if not last.text.endswith(b"\n"):
        return False
    body.lines[-1] = Line(last.kind, last.text[:-1])
    reader.pos += 1
    return True


def _count_error(
    reader: PatchReader, start: int, title: str, stated: tuple[int, int], *, git: bool
) -> PatchkitError:
    """Return the error for a body that is longer or shorter than its header says."""
    old, new, end = _measure(reader, start + 1, git=git)
    wrong = [
        (side, found, said)
        for side, found, said in (("old", old, stated[0]), ("new", new, stated[1]))
        if found != said
    ]
    if not wrong:
        return reader.error(
            "hunk is damaged: the counts agree with its header, the lines do not",
            at=start,
            hint=title,
        )
    fact = " and ".join(f"{found} {side}" for side, found, _ in wrong)
    said = " and ".join(str(said) for _, _, said in wrong)
    off = max((found - said for _, found, said in wrong), key=abs)
    how = f"{abs(off)} line{'' if abs(off) == 1 else 's'} too {'long' if off > 0 else 'short'}"
    return reader.error(
        f"hunk has {fact} lines, header says {said}",
        at=start,
        hint=f"{title} is {how}; its body ends before {_describe(reader, end)}",
    )


def _describe(reader: PatchReader, at: int) -> str:
    if at >= len(reader.lines):
        return "the end of the file"
    text = reader.lines[at].rstrip(b"\r\n").decode("utf-8", "replace")
    return f"line {reader.lineno(at)} ({text[:40]!r})"


def _measure(reader: PatchReader, start: int, *, git: bool) -> tuple[int, int, int]:
    """Return old lines, new lines and the end of a body, going by its look and not by counts."""
    old = new = blank = 0
    held, reader.pos = reader.pos, start
    end = start
    while reader.pos < len(reader.lines) and not reader.interrupts_hunk(git=git):
        kind = reader.lines[reader.pos][:1]
        if kind in (b"\n", b"\r"):
            blank += 1
        elif kind in (b" ", b"-", b"+", b"\\"):
            # Blank lines are of the body only where the body goes on after them.
            old += blank + (kind in b" -")
            new += blank + (kind in b" +")
            blank, end = 0, reader.pos + 1
        else:
            break
        reader.pos += 1
    reader.pos = held
    return old, new, end


def _check(reader: PatchReader, start: int, title: str, hunk: Hunk, before: Sequence[Hunk]) -> None:
    """Raise for a file that goes on after its end; note what is odd and harmless."""
    for side, lines in (("old", hunk.old_lines), ("new", hunk.new_lines)):
        if any(not text.endswith(b"\n") for text in lines[:-1]):
            raise reader.error(
                f"hunk goes on after the {side} line without a newline", at=start, hint=title
            )
    if hunk.old == hunk.new:
        reader.note("hunk changes nothing", at=start)
    if not before:
        return
    last = before[-1]
    for side, lines in (("old", last.old_lines), ("new", last.new_lines)):
        if lines and not lines[-1].endswith(b"\n"):
            raise reader.error(
                f"hunk comes after one whose last {side} line has no newline", at=start, hint=title
            )
    if hunk.old_start < last.old_start + last.old_count:
        reader.note("hunk starts before the end of the one above it", at=start)
    elif hunk.new_start - hunk.old_start + _empty_shift(hunk) != _delta(before):
        reader.note("new start does not follow from the hunks above", at=start)


def _empty_shift(hunk: Hunk) -> int:
    """Return the correction for a side without lines, whose start names the line before it."""
    return (hunk.new_count == 0) - (hunk.old_count == 0)


def _delta(hunks: Sequence[Hunk]) -> int:
    return sum(hunk.new_count - hunk.old_count for hunk in hunks)
