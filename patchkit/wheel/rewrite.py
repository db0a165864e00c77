"""The layout of a rewritten archive: what is copied, what is new, and how to get back.

Members keep their order. Packed data is never touched: runs of members that stay as they are are
one span, whatever they hold; a member that only moves to the renamed dist-info folder keeps its
data behind a new header. What is replaced or dropped is kept, packed as it was, for the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchkit.upstream.spans import Span
from patchkit.wheel.archive import (
    Archive,
    Member,
    NewMember,
    end_record,
    moved_entry,
    renamed_entry,
    renamed_header,
)

# How each member of the old archive is had from the new one: ("same", first, count) and
# ("renamed", first, count) name members of the new archive by number; ("kept", first, count) those
# of the archive of what was replaced.
Step = tuple[str, int, int]


@dataclass(frozen=True)
class Layout:
    """An archive to be written: spans of the old file and new bytes, in order.

    `copied` are the names of the members whose data comes from the old file.
    """

    pieces: tuple[Span | bytes, ...] = field(repr=False)
    copied: frozenset[str] = field(repr=False)

    @property
    def size_bytes(self) -> int:
        """How large the file becomes."""
        return sum(len(p) if isinstance(p, bytes) else p.size_bytes for p in self.pieces)


@dataclass(frozen=True)
class Edit:
    """What becomes of an archive's members.

    `changes` maps names to what takes their place (under any name), None for nothing; `added` go in
    before the dist-info folder; `rename` is that folder's old and new name.
    """

    changes: Mapping[str, NewMember | None]
    added: Sequence[NewMember]
    rename: tuple[str, str]

    def new_name(self, name: str) -> str:
        """Return the name of a member that stays."""
        old, new = self.rename
        return new + name.removeprefix(old) if name.startswith(f"{old}/") else name


def plan_steps(archive: Archive, edit: Edit) -> tuple[Step, ...]:
    """Return how the old members are had from the new archive and from what was replaced."""
    steps: list[Step] = []
    number, kept, added = 0, 0, False
    for member in archive.members:
        if not added and member.name.startswith(f"{edit.rename[0]}/"):
            number, added = number + len(edit.added), True
        if member.name in edit.changes:
            kind, place = "kept", kept
            kept += 1
            number += edit.changes[member.name] is not None
        else:
            kind = "same" if edit.new_name(member.name) == member.name else "renamed"
            place = number
            number += 1
        last = steps[-1] if steps else None
        if last and last[0] == kind and last[1] + last[2] == place:
            steps[-1] = (kind, last[1], last[2] + 1)
        else:
            steps.append((kind, place, 1))
    return tuple(steps)


def kept_archive(archive: Archive, edit: Edit) -> bytes:
    """Return an archive of the members that are replaced or dropped, each byte as it was."""
    kept = [member for member in archive.members if member.name in edit.changes]
    builder = _Builder()
    for member in kept:
        builder.write(archive.view[member.start : member.end], member.central)
    return b"".join(piece for piece in builder.finish() if isinstance(piece, bytes))


def plan_layout(archive: Archive, edit: Edit, last: Sequence[NewMember]) -> Layout:
    """Return the new archive; `last` are members that go to its end."""
    builder = _Builder()
    copied = set()
    added = False
    for member in archive.members:
        if not added and member.name.startswith(f"{edit.rename[0]}/"):
            builder.add_new(edit.added)
            added = True
        if member.name not in edit.changes:
            name = edit.new_name(member.name)
            copied.add(name)
            if name == member.name:
                builder.copy(member)
            else:
                builder.rename(archive, member, name)
        elif (new := edit.changes[member.name]) is not None:
            builder.add_new([new])
    builder.add_new(last)
    return Layout(tuple(builder.finish()), frozenset(copied))


def old_layout(
    new: Archive, kept: Archive, steps: Sequence[Step], rename: tuple[str, str]
) -> tuple[Span | bytes, ...]:
    """Return the bytes of the old archive: spans of the new one, and what was kept.

    `rename` is the dist-info folder's old and new name.
    """
    builder = _Builder()
    for kind, first, count in steps:
        source = kept if kind == "kept" else new
        for member in source.members[first : first + count]:
            if kind == "same":
                builder.copy(member)
            elif kind == "kept":
                builder.write(kept.view[member.start : member.end], member.central)
            else:
                builder.rename(new, member, rename[0] + member.name.removeprefix(rename[1]))
    return tuple(builder.finish())


class _Builder:
    """An archive as it grows; neighbouring spans of the old file become one."""

    def __init__(self) -> None:
        self._pieces: list[Span | bytes] = []
        self._entries: list[bytes] = []
        self._offset = 0
        self._run = (0, 0)  # what of the old file is still to become a piece

    def copy(self, member: Member) -> None:
        """Add a member as it is."""
        self._entries.append(moved_entry(member.central, self._offset))
        self._copy(member.start, member.end)

    def rename(self, source: Archive, member: Member, name: str) -> None:
        """Add a member under another name: a new header, and its data."""
        header = source.view[member.start : member.data_start]
        self.write(renamed_header(header, name), renamed_entry(member.central, name))
        self._copy(member.data_start, member.end)

    def write(self, local: bytes, central: bytes) -> None:
        """Add a member, or its header alone, in bytes."""
        self._entries.append(moved_entry(central, self._offset))
        self._end_run()
        self._pieces.append(local)
        self._offset += len(local)

    def add_new(self, members: Sequence[NewMember]) -> None:
        """Add new members."""
        for member in members:
            self.write(member.local, member.central(0))

    def finish(self) -> list[Span | bytes]:
        """Return the pieces of the archive, its directory included."""
        self._end_run()
        directory = b"".join(self._entries)
        end = self._offset + len(directory)
        tail = end_record(len(self._entries), Span(self._offset, end))
        return [*self._pieces, directory, tail]

    def _copy(self, start: int, end: int) -> None:
        if start != self._run[1]:
            self._end_run()
            self._run = (start, start)
        self._run = (self._run[0], end)
        self._offset += end - start

    def _end_run(self) -> None:
        if self._run[0] < self._run[1]:
            self._pieces.append(Span(*self._run))
        self._run = (0, 0)
