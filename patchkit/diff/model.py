"""A unified diff as values: lines, hunks, file sections, patches, notes of what was tolerated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha1
from typing import Literal

from patchkit.errors import PatchkitError

NO_BLOB = "0" * 40
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

LineKind = Literal[" ", "-", "+"]


class FileChange(StrEnum):
    """What a file section does to its file."""

    MODIFY = "modify"
    ADD = "add"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True)
class Note:
    """Something that was tolerated: the 1-based line of the patch file, and the fact."""

    lineno: int
    text: str


@dataclass(frozen=True)
class Line:
    """One line of a hunk; `text` has its own ending, or none where the file ends without one."""

    kind: LineKind
    text: bytes


@dataclass(frozen=True)
class Hunk:
    """One hunk. Starts are 1-based as written; a start with count 0 names the line before.

    `section` is the text after the second `@@`; `lineno` is the 1-based line of the `@@` in the
    patch file and takes no part in comparison.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: bytes
    lines: tuple[Line, ...]
    lineno: int = field(default=0, compare=False)

    @property
    def old_lines(self) -> list[bytes]:
        """Return context and removed lines."""
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def new_lines(self) -> list[bytes]:
        """Return context and added lines."""
        return [line.text for line in self.lines if line.kind != "-"]

    @property
    def old(self) -> bytes:
        """Return context and removed lines as one text."""
        return b"".join(self.old_lines)

    @property
    def new(self) -> bytes:
        """Return context and added lines as one text."""
        return b"".join(self.new_lines)


@dataclass(frozen=True)
class FilePatch:
    """One file section.

    Paths are as written, less the a/ b/ prefix, quotes and remarks; roots are found in `roots`. An
    added file has no `old_path`, a deleted one no `new_path`. `new_mode` of an added file is None
    only where nothing but the `-0,0` of its hunk says that it is new. `binary` is the raw body of a
    binary section. `lead` is text that stood between this section and the one before. `crlf` says
    that the patch file had a carriage return on every line, which was taken off.
    """

    old_path: str | None
    new_path: str | None
    change: FileChange
    hunks: tuple[Hunk, ...] = ()
    old_mode: int | None = None
    new_mode: int | None = None
    old_id: str | None = None
    new_id: str | None = None
    similarity: int | None = None
    lineno: int = field(default=0, compare=False)
    binary: bytes | None = None
    lead: bytes = b""
    crlf: bool = field(default=False, compare=False)

    @property
    def path(self) -> str:
        """Return the path after the change, or before it for a deleted file."""
        path = self.new_path if self.new_path is not None else self.old_path
        assert path is not None
        return path


@dataclass(frozen=True)
class Patch:
    """One patch file: the text before its sections, the sections, the text after.

    `notes` says how it was read, not what it says, and takes no part in comparison.
    """

    name: str
    preamble: bytes
    files: tuple[FilePatch, ...]
    trailer: bytes = b""
    notes: tuple[Note, ...] = field(default=(), compare=False)


def split_lines(content: bytes) -> list[bytes]:
    r"""Return the lines with their endings; only `\n` ends one, not a lone CR or a form feed."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def blob_id(content: bytes) -> str:
    """Return git's blob id of the content, 40 hex digits."""
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def reverse_file_patch(patch: FilePatch) -> FilePatch:
    """Return the section that undoes this one; raises PatchkitError for a copy or a binary one."""
    if patch.change is FileChange.COPY or patch.binary is not None:
        kind = "binary change" if patch.binary is not None else "copy"
        raise PatchkitError(f"a {kind} cannot be turned round", place=patch.path)
    change = {FileChange.ADD: FileChange.DELETE, FileChange.DELETE: FileChange.ADD}.get(
        patch.change, patch.change
    )
    return replace(
        patch,
        old_path=patch.new_path,
        new_path=patch.old_path,
        change=change,
        hunks=tuple(reverse_hunk(hunk) for hunk in patch.hunks),
        old_mode=patch.new_mode,
        new_mode=patch.old_mode,
        old_id=patch.new_id,
        new_id=patch.old_id,
    )


def reverse_hunk(hunk: Hunk) -> Hunk:
    """Return the hunk that undoes this one, removed lines before added ones in every run."""
    flipped: list[Line] = []
    added: list[Line] = []
    for line in hunk.lines:
        if line.kind == "-":
            added.append(Line("+", line.text))
        elif line.kind == "+":
            flipped.append(Line("-", line.text))
        else:
            flipped += [*added, line]
            added = []
    return Hunk(
        hunk.new_start,
        hunk.new_count,
        hunk.old_start,
        hunk.old_count,
        hunk.section,
        (*flipped, *added),
        hunk.lineno,
    )
