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
        builder.add(archive.view[member.span.start : member.span.end], member.central)
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
                builder.add(member.span, member.central)
            else:
                header = archive.view[member.header.start : member.header.end]
                entry = renamed_entry(member.central, name)
                builder.add(renamed_header(header, name), entry, member.data)
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
                builder.add(member.span, member.central)
            elif kind == "kept":
                builder.add(source.view[member.span.start : member.span.end], member.central)
            else:
                name = rename[0] + member.name.removeprefix(rename[1])
                header = renamed_header(new.view[member.header.start : member.header.end], name)
                builder.add(header, renamed_entry(member.central, name), member.data)
    return tuple(builder.finish())


class _Builder:
    """An archive as it grows; neighbouring spans of the old file become one."""

    def __init__(self) -> None:
        self._pieces: list[Span | bytes] = []
        self._entries: list[bytes] = []
        self._offset = 0

    def add(self, local: Span | bytes, central: bytes, data: Span | None = None) -> None:
        """Add a member: its header and data (apart where only the data is copied), its entry."""
        self._entries.append(moved_entry(central, self._offset))
        self._put(local)
        if data is not None:
            self._put(data)

    def add_new(self, members: Sequence[NewMember]) -> None:
        """Add new members."""
        for member in members:
            self.add(member.local, member.central(0))

    def finish(self) -> list[Span | bytes]:
        """Return the pieces of the archive, its directory included."""
        directory = b"".join(self._entries)
        end = self._offset + len(directory)
        tail = end_record(len(self._entries), Span(self._offset, end))
        return [*self._pieces, directory, tail]

    def _put(self, piece: Span | bytes) -> None:
        size = piece.size_bytes if isinstance(piece, Span) else len(piece)
        last = self._pieces[-1] if self._pieces else None
        if isinstance(piece, Span) and isinstance(last, Span) and last.end == piece.start:
            self._pieces[-1] = Span(last.start, piece.end)
        elif size:
            self._pieces.append(piece)
        self._offset += size
