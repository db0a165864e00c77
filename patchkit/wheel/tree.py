"""The source tree in a wheel, its files unpacked when asked for."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from patchkit.errors import PatchkitError
from patchkit.tree import REGULAR, SourceTree
from patchkit.upstream.members import VERSION_FILE, git_mode, is_skipped, is_text, parse_version
from patchkit.wheel.archive import Archive, Member
from patchkit.wheel.record import Row, digest_text


class WheelFiles(Mapping[str, bytes]):
    """The files of a wheel that a patch can touch, each checked against its row of RECORD.

    `left_out` are the paths of all others, such as compiled modules.
    """

    def __init__(self, archive: Archive, rows: Mapping[str, Row]) -> None:
        self._archive, self._rows = archive, rows
        files = [member for member in archive.members if not _is_metadata(member)]
        self.members = {m.name: m for m in files if _is_source(m)}
        self.left_out = frozenset(m.name for m in files if m.name not in self.members)
        self._read: dict[str, bytes] = {}

    def __getitem__(self, path: str) -> bytes:
        if path not in self._read:
            content = self._archive.read(self.members[path])
            if path not in self._rows or self._rows[path].digest != digest_text(content):
                raise PatchkitError(f"{path} is not as RECORD says", place=self._archive.place)
            self._read[path] = content
        return self._read[path]

    def __contains__(self, path: object) -> bool:
        return path in self.members

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


def wheel_tree(archive: Archive, rows: Mapping[str, Row], name: str) -> SourceTree:
    """Return the tree in a wheel; `rows` are those of its RECORD by path."""
    files = WheelFiles(archive, rows)
    modes = {path: git_mode(member.mode) for path, member in files.members.items()}
    odd = {path: mode for path, mode in modes.items() if mode != REGULAR}
    version = parse_version(files.get(VERSION_FILE))
    return SourceTree(files, MappingProxyType(odd), name, version)


def _is_source(member: Member) -> bool:
    regular = not member.is_folder and stat.S_IFMT(member.mode) in (0, stat.S_IFREG)
    return regular and not is_skipped(member.name) and is_text(member.name, member.size_bytes)


def _is_metadata(member: Member) -> bool:
    return member.name.split("/")[0].endswith((".dist-info", ".data"))
