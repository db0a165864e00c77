"""A zip archive as a wheel has it, read strictly: one way to read it, so that no two tools differ.

Members lie one after another in the order of the directory, from the first byte to the directory,
each with its sizes before its data; the directory ends the file. What streams (uv from an index)
and what seeks (pip) then see the same. Not read: ZIP64, data descriptors, encryption, comments,
other methods than stored and deflate. Source: APPNOTE.TXT 6.3.10; the comparisons of local and
central header are those of uv 0.13.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from patchkit.errors import PatchkitError
from patchkit.upstream.spans import Span
from patchkit.wheel.paths import find_clash, path_problem

View = bytes | mmap.mmap

LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
LOCAL_MAGIC, CENTRAL_MAGIC, END_MAGIC = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
STORED, DEFLATED = 0, 8
UTF8 = 0x800
_DEFLATE_LEVEL = 0x6  # what a packer says of its own effort; nothing is read from it
UNIX = 3
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
# More than the 16 and 32 bits of a plain directory hold is ZIP64.
MAX_MEMBERS, MAX_BYTES = 0xFFFE, 0xFFFFFFFE
ZIP_EPOCH = (0, 0x21)  # time and date: 1980-01-01 00:00
_OFFSET_AT = 42


class Member(NamedTuple):
    """One member: its local header (with name and extra) starts at `start`, its packed data at
    `data_start`, and ends before `end`.

    `central` is its entry in the directory as written; `external` holds the Unix mode in its upper
    16 bits. A tuple, since there are 10,000 in a build.
    """

    name: str
    method: int
    crc32: int
    size_bytes: int
    external: int
    start: int
    data_start: int
    end: int
    central: bytes

    @property
    def span(self) -> Span:
        """Header and data."""
        return Span(self.start, self.end)

    @property
    def header(self) -> Span:
        """The local header."""
        return Span(self.start, self.data_start)

    @property
    def data(self) -> Span:
        """The packed data."""
        return Span(self.data_start, self.end)

    @property
    def mode(self) -> int:
        """The Unix mode, type included; 0 where the packer gave none."""
        return self.external >> 16

    @property
    def is_folder(self) -> bool:
        """Whether it stands for a folder."""
        return self.name.endswith("/")


@dataclass(frozen=True)
class Archive:
    """An archive: its bytes, its members in order, and where the directory lies."""

    view: View = field(repr=False)
    place: str
    members: tuple[Member, ...] = field(repr=False)
    directory: Span

    @cached_property
    def by_name(self) -> dict[str, Member]:
        """The members by name."""
        return {member.name: member for member in self.members}

    def read(self, member: Member) -> bytes:
        """Return a member's content; raises PatchkitError where size or checksum is another."""
        packed = self.view[member.data_start : member.end]
        content = packed if member.method == STORED else self._inflate(member, packed)
        if len(content) != member.size_bytes:
            self._refuse(member, f"has {len(content)} bytes", f"{member.size_bytes} as stated")
        if zlib.crc32(content) != member.crc32:
            self._refuse(member, "does not have the stated CRC-32")
        return content

    def _inflate(self, member: Member, packed: bytes) -> bytes:
        inflater = zlib.decompressobj(-15)
        try:
            # one byte more than stated is enough to know that there is too much
            content = inflater.decompress(packed, member.size_bytes + 1)
        except zlib.error as err:
            self._refuse(member, f"cannot be unpacked: {err}")
        if not inflater.eof or inflater.unused_data:
            self._refuse(member, "is packed into other bytes than stated")
        return content

    def _refuse(self, member: Member, fact: str, expected: str | None = None) -> NoReturn:
        raise PatchkitError(f"{member.name} {fact}", place=self.place, expected=expected)


@contextmanager
def opened_wheel(path: Path) -> Iterator[tuple[BinaryIO, Archive]]:
    """Give a file, to copy from, and the archive in it: of the same bytes, whatever its name gets.

    Raises PatchkitError for a file that cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as err:
        fact = (err.strerror or "cannot be read").lower()
        raise PatchkitError(fact, place=str(path), expected="a readable wheel") from err
    with file:
        yield file, map_archive(file, str(path))


def map_archive(file: FileIO | BinaryIO, place: str) -> Archive:
    """Return the archive in an open file, mapped while the value lives."""
    if not os.fstat(file.fileno()).st_size:
        raise PatchkitError("is empty", place=place, expected="a wheel")
    return read_archive(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), place)


def open_archive(path: Path) -> Archive:
    """Return the archive in a file, which stays mapped while the value lives."""
    with opened_wheel(path) as (_, archive):
        return archive


def read_archive(view: View, place: str) -> Archive:
    """Return the archive in bytes. Raises PatchkitError for any other layout than the module's."""
    return _Reader(view, place).read()


class _Reader:
    """The reading of one archive; every refusal names the archive and the member."""

    def __init__(self, view: View, place: str) -> None:
        self.view, self.place = view, place

    def read(self) -> Archive:
        """Return the archive."""
        count, directory = self._end_record()
        at, offset = directory.start, 0
        members: list[Member] = []
        for number in range(1, count + 1):
            member, at = self._member(number, at, offset, directory)
            offset = member.end
            members.append(member)
        if at != directory.end:
            self._refuse(f"the directory has {directory.end - at} bytes after its last entry")
        if offset != directory.start:
            self._refuse(f"{directory.start - offset} bytes lie between members and directory")
        if clash := find_clash(member.name for member in members):
            if clash[0] == clash[1]:
                self._refuse(f"member {clash[0]} is there twice")
            self._refuse(f"members {clash[0]} and {clash[1]} share a place on some disks")
        return Archive(self.view, self.place, tuple(members), directory)

    def _end_record(self) -> tuple[int, Span]:
        start = len(self.view) - END.size
        if start < 0 or self.view[start : start + 4] != END_MAGIC:
            found = self.view[max(0, start - 0xFFFF) :].rfind(END_MAGIC)
            fact = "is no zip archive" if found < 0 else "bytes follow the end of the directory"
            self._refuse(fact, "an archive that ends with its directory, without a comment")
        _, disk, first_disk, here, count, size, offset, comment = END.unpack(self.view[start:])
        if disk or first_disk or here != count or comment:
            self._refuse("the end record speaks of other disks or of a comment")
        if count > MAX_MEMBERS or max(size, offset) > MAX_BYTES:
            self._refuse("the archive needs ZIP64, which is not read")
        if offset + size != start:
            self._refuse(
                f"the directory does not end where the end record starts, at byte {start}",
                f"byte {offset + size}",
            )
        return count, Span(offset, start)

    def _member(self, number: int, at: int, offset: int, directory: Span) -> tuple[Member, int]:
        """Return the member whose entry is at a place, and the place of the next entry."""
        if at + CENTRAL.size > directory.end:
            self._refuse(f"entry {number} of the directory is damaged")
        (
            magic, made_by, needed, flags, method, time, date, crc, packed, size,
            name_size, extra_size, comment_size, disk, _, external, stated,
        ) = CENTRAL.unpack_from(self.view, at)  # fmt: skip
        end = at + CENTRAL.size + name_size + extra_size + comment_size
        if magic != CENTRAL_MAGIC or end > directory.end:
            self._refuse(f"entry {number} of the directory is damaged")
        central = self.view[at:end]
        raw = central[CENTRAL.size : CENTRAL.size + name_size]
        name = self._name(raw, flags, number)
        if comment_size or disk:
            self._refuse(f"member {name} has a comment or lies on another disk")
        # most are plain, and a call for each would be half of the time
        if flags or method != DEFLATED or packed > MAX_BYTES or size > MAX_BYTES:
            self._check_kind(name, flags, method, packed, size)
        if extra_size:
            self._check_extra(name, central[CENTRAL.size + name_size :])
        if name.endswith("/") and (size or packed or crc):
            self._refuse(f"folder {name} has content")
        if made_by >> 8 == UNIX:
            self._check_mode(name, external >> 16)
        if stated != offset:
            self._refuse(f"member {name} starts at byte {stated}", f"byte {offset}")
        fields = (needed, flags, method, time, date, crc, packed, size)
        start = self._local(name, raw, offset, fields)
        if start + packed > directory.start:
            self._refuse(f"member {name} reaches into the directory")
        place = (offset, start, start + packed)
        return Member(name, method, crc, size, external, *place, central), end

    def _local(self, name: str, raw: bytes, offset: int, fields: tuple[int, ...]) -> int:
        """Return where a local header ends, which must say what the directory says."""
        start = offset + LOCAL.size
        head = self.view[offset:start]
        if len(head) < LOCAL.size or not head.startswith(LOCAL_MAGIC):
            self._refuse(f"member {name} has no local header at byte {offset}")
        found = LOCAL.unpack(head)
        name_size, extra_size = int(found[9]), int(found[10])
        if self.view[start : start + name_size] != raw:
            self._refuse(f"member {name} has another name in its local header")
        if found[1:9] != fields:
            what = ("version", "flags", "method", "time", "date", "CRC-32", "packed size", "size")
            odd = [w for w, a, b in zip(what, found[1:9], fields, strict=True) if a != b]
            self._refuse(f"member {name} has another {', '.join(odd)} in its local header")
        end = start + name_size + extra_size
        if extra_size:
            self._check_extra(name, self.view[start + name_size : end])
        return end

    def _name(self, raw: bytes, flags: int, number: int) -> str:
        try:
            name = raw.decode("utf-8" if flags & UTF8 else "ascii")
        except UnicodeDecodeError:
            self._refuse(
                f"the name of member {number} is not {'UTF-8' if flags & UTF8 else 'ASCII'}"
            )
        if problem := path_problem(name):
            self._refuse(f"member name {name!r} {problem}")
        return name

    def _check_kind(self, name: str, flags: int, method: int, packed: int, size: int) -> None:
        if flags & ~(UTF8 | _DEFLATE_LEVEL):
            what = "its sizes after its data" if flags & 0x8 else f"flags {flags:#x}"
            self._refuse(f"member {name} has {what}", "a plain local header")
        if method not in (STORED, DEFLATED):
            self._refuse(f"member {name} is packed by method {method}", "stored or deflate")
        if max(packed, size) > MAX_BYTES:
            self._refuse(f"member {name} needs ZIP64, which is not read")
        if method == STORED and packed != size:
            self._refuse(f"member {name} is stored, and its two sizes differ")

    def _check_extra(self, name: str, extra: bytes) -> None:
        """Refuse extra fields that are damaged, or that say name or sizes a second time."""
        at, seen = 0, set()
        while at < len(extra):
            kind, size = struct.unpack_from("<HH", extra, at) if at + 4 <= len(extra) else (0, 1)
            if at + 4 + size > len(extra) or kind in seen:
                self._refuse(f"member {name} has a damaged extra field")
            if kind in (_ZIP64, _UNICODE_PATH):
                self._refuse(f"member {name} has extra field {kind:#06x}, which is stale here")
            seen.add(kind)
            at += 4 + size

    def _check_mode(self, name: str, mode: int) -> None:
        wanted = stat.S_IFDIR if name.endswith("/") else stat.S_IFREG
        if stat.S_IFMT(mode) not in (0, wanted):
            self._refuse(f"member {name} is neither a file nor a folder", "no links, no devices")

    def _refuse(self, fact: str, expected: str | None = None) -> NoReturn:
        raise PatchkitError(fact, place=self.place, expected=expected)


@dataclass(frozen=True)
class NewMember:
    """A member to be written: stored, since packed bytes differ from one zlib to another."""

    name: str
    content: bytes = field(repr=False)
    external: int = (stat.S_IFREG | 0o644) << 16

    @cached_property
    def local(self) -> bytes:
        """The local header, name and content."""
        raw = self.name.encode()
        head = LOCAL.pack(LOCAL_MAGIC, *self._fields, len(raw), 0)
        return head + raw + self.content

    def central(self, offset: int) -> bytes:
        """Return the entry in the directory of an archive that has it at an offset."""
        raw = self.name.encode()
        made_by = UNIX << 8 | 20
        tail = (len(raw), 0, 0, 0, 0, self.external, offset)
        return CENTRAL.pack(CENTRAL_MAGIC, made_by, *self._fields, *tail) + raw

    @cached_property
    def _fields(self) -> tuple[int, ...]:
        flags = 0 if self.name.isascii() else UTF8
        size = len(self.content)
        return (20, flags, STORED, *ZIP_EPOCH, zlib.crc32(self.content), size, size)


def moved_entry(central: bytes, offset: int) -> bytes:
    """Return a directory entry with another offset."""
    return central[:_OFFSET_AT] + struct.pack("<L", offset) + central[_OFFSET_AT + 4 :]


def renamed_entry(central: bytes, name: str) -> bytes:
    """Return a directory entry with another name, which must be ASCII as the old one is."""
    parts = list(CENTRAL.unpack_from(central))
    extra = central[CENTRAL.size + parts[10] :]
    parts[10] = len(name)
    return CENTRAL.pack(*parts) + name.encode("ascii") + extra


def renamed_header(local: bytes, name: str) -> bytes:
    """Return a local header, without data, with another name; ASCII as above."""
    parts = list(LOCAL.unpack_from(local))
    extra = local[LOCAL.size + parts[9] :]
    parts[9] = len(name)
    return LOCAL.pack(*parts) + name.encode("ascii") + extra


def end_record(count: int, directory: Span) -> bytes:
    """Return the record that ends an archive."""
    if count > MAX_MEMBERS or directory.end > MAX_BYTES:
        raise PatchkitError(
            f"the archive would have {count} members and {directory.end} bytes",
            expected="what fits without ZIP64, which is not written",
        )
    return END.pack(END_MAGIC, 0, 0, count, count, directory.size_bytes, directory.start, 0)
