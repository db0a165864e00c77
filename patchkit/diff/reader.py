"""A place in the lines of a patch file: what starts there, and how to complain about it."""

from __future__ import annotations

import re

from patchkit.diff.model import Note
from patchkit.errors import PatchkitError

_VERSION = re.compile(rb"\d+\.\d+[\w.() +-]*$")


class PatchReader:
    """The lines of one message, a position in them, and the notes made on the way.

    `lines` are raw; `line()` gives one as headers are read, without its ending. `pos` is a 0-based
    index; `first` is the 1-based number, in the whole file, of the line at index 0.
    """

    def __init__(self, lines: list[bytes], name: str, first: int = 1) -> None:
        self.lines = lines
        self.name = name
        self.first = first
        self.pos = 0
        self.notes: list[Note] = []
        self._headers = 0
        self._headers_crlf = 0

    @property
    def headers_crlf(self) -> bool:
        """Return whether every header line taken so far ends in CRLF."""
        return 0 < self._headers == self._headers_crlf

    def line(self, ahead: int = 0) -> bytes:
        """Return a line without its ending, or nothing past the end."""
        at = self.pos + ahead
        return self.lines[at].rstrip(b"\r\n") if at < len(self.lines) else b""

    def take_header(self) -> bytes:
        """Return the line at the position, counted as a header, and step over it."""
        line = self.line()
        self._headers += 1
        self._headers_crlf += self.lines[self.pos].endswith(b"\r\n")
        self.pos += 1
        return line

    def error(
        self,
        fact: str,
        *,
        at: int | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> PatchkitError:
        """Return an error placed at a line, by default the one at the position."""
        place = f"{self.name}:{self.lineno(at)}"
        return PatchkitError(fact, place=place, expected=expected, hint=hint)

    def note(self, text: str, *, at: int | None = None) -> None:
        """Record what was tolerated at a line, by default the one at the position."""
        self.notes.append(Note(self.lineno(at), text))

    def lineno(self, at: int | None = None) -> int:
        """Return the 1-based line number of an index, by default of the position."""
        return self.first + (self.pos if at is None else at)

    def at_names(self) -> bool:
        """Return whether a `---` line and its `+++` line come next."""
        return self.line().startswith(b"--- ") and self.line(1).startswith(b"+++ ")

    def starts_section(self) -> bool:
        """Return whether a file section starts here."""
        return self.line().startswith(b"diff --git ") or self.at_names()

    def interrupts_hunk(self, *, git: bool) -> bool:
        """Return whether this line cannot be of a hunk though its first byte says it could.

        In a patch without `diff --git` lines the names of the next file look like a removed and an
        added line; with those lines the next file announces itself first.
        """
        if is_signature(self.lines, self.pos):
            return True
        return not git and self.at_names() and self.line(2).startswith(b"@@ -")

    def skip_blank_lines(self) -> int:
        """Return the index of the next line that is not blank."""
        at = self.pos
        while at < len(self.lines) and not self.lines[at].strip(b"\r\n"):
            at += 1
        return at


def is_signature(lines: list[bytes], at: int) -> bool:
    """Return whether the mail signature of git starts here: `-- `, then a version, then no more."""
    if lines[at].rstrip(b"\r\n") not in (b"-- ", b"--") or at + 1 >= len(lines):
        return False
    if not _VERSION.match(lines[at + 1].rstrip(b"\r\n")):
        return False
    return at + 2 >= len(lines) or not lines[at + 2].strip()
