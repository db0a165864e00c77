"""The source tree inside a wheel (checked against its RECORD) or an sdist."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from patchkit.errors import PatchkitError
from patchkit.upstream.members import (
    VERSION_FILE,
    check_path,
    git_mode,
    is_skipped,
    is_text,
    parse_version,
)
from patchkit.upstream.packed import Contents, PackedEntry
from patchkit.upstream.progress import Progress, silent
from patchkit.upstream.record import check_member, parse_record
from patchkit.upstream.spans import Span


@contextmanager
def open_wheel(file: IO[bytes], place: str) -> Iterator[zipfile.ZipFile]:
    """Give a wheel's archive; what is damaged in it becomes a PatchkitError."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as err:
        raise PatchkitError(f"the wheel is damaged: {err}", place=place) from err


def read_record(archive: zipfile.ZipFile, place: str, expected: str | None) -> bytes:
    """Return the wheel's RECORD, whose sha256 must be the pinned one where there is one."""
    names = [n for n in archive.namelist() if n.endswith(".dist-info/RECORD") and n.count("/") == 1]
    if len(names) != 1:
        raise PatchkitError(f"the wheel has {len(names)} RECORD files", place=place, expected="one")
    record = archive.read(names[0])
    found = hashlib.sha256(record).hexdigest()
    if expected is not None and found != expected:
        raise PatchkitError(
            f"RECORD has sha256 {found}",
            place=place,
            expected=f"{expected} as pinned",
            hint="the index offers another file than the one that was pinned",
        )
    return record


def wheel_spans(archive: zipfile.ZipFile, place: str) -> list[Span]:
    """Return where the bytes of RECORD and of each member of the tree lie in the wheel."""
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    ends = [member.header_offset for member in members[1:]] + [archive.start_dir]
    return [
        Span(member.header_offset, end)
        for member, end in zip(members, ends, strict=True)
        if _belongs(member, place) or member.filename.endswith(".dist-info/RECORD")
    ]


def read_wheel(archive: zipfile.ZipFile, place: str, record_sha256: str | None) -> Contents:
    """Return the tree in a wheel, every file of it checked against RECORD."""
    rows = parse_record(read_record(archive, place, record_sha256), place)
    seen: set[str] = set()
    entries: list[PackedEntry] = []
    left_out: list[str] = []
    for member in archive.infolist():
        path = check_path(member.filename, place)
        if path in seen:
            raise PatchkitError(f"member {path} is there twice", place=place)
        seen.add(path)
        if _belongs(member, place):
            content = archive.read(member)
            digest = check_member(rows, path, content, place)
            entries.append(PackedEntry(path, content, digest, git_mode(member.external_attr >> 16)))
        elif not member.is_dir() and not _is_metadata(path):
            left_out.append(path)
    missing = next((p for p in rows if p not in seen and is_text(p, 0)), None)
    if missing is not None:
        raise PatchkitError(f"{missing} is in RECORD but not in the wheel", place=place)
    return _contents(entries, left_out)


def wheel_file_contents(path: Path, record_sha256: str | None = None) -> Contents:
    """Return the tree of a wheel that lies on this machine."""
    with path.open("rb") as file, open_wheel(file, str(path)) as archive:
        return read_wheel(archive, str(path), record_sha256)


def sdist_file_contents(path: Path, progress: Progress = silent) -> Contents:
    """Return the tree of an sdist that lies on this machine."""
    total = path.stat().st_size
    with path.open("rb") as file:
        return read_sdist(
            file, str(path), lambda done: progress(f"reading {path.name}", done, total)
        )


def _belongs(member: zipfile.ZipInfo, place: str) -> bool:
    path = check_path(member.filename, place)
    kind = stat.S_IFMT(member.external_attr >> 16)
    regular = not member.is_dir() and kind in (0, stat.S_IFREG)
    return (
        regular
        and not _is_metadata(path)
        and not is_skipped(path)
        and is_text(path, member.file_size)
    )


def _is_metadata(path: str) -> bool:
    return path.split("/")[0].endswith((".dist-info", ".data"))


def read_sdist(file: IO[bytes], place: str, note: Callable[[int], None]) -> Contents:
    """Return the tree in an sdist, less the folder that holds it all; `note` takes bytes read."""
    entries: list[PackedEntry] = []
    left_out: list[str] = []
    version: str | None = None
    try:
        with tarfile.open(fileobj=file, mode="r:gz") as archive:
            for member in archive:
                note(file.tell())
                path = check_path(member.name, place).partition("/")[2]
                if not path or not member.isreg() or is_skipped(path):
                    continue
                if not is_text(path, member.size):
                    left_out.append(path)
                    continue
                opened = archive.extractfile(member)
                content = opened.read() if opened else b""
                if path == "PKG-INFO":
                    version = _metadata_version(content)
                digest = hashlib.sha256(content).hexdigest()
                entries.append(PackedEntry(path, content, digest, git_mode(member.mode)))
    except (tarfile.TarError, EOFError, zlib.error, OSError) as err:
        raise PatchkitError(f"the sdist is damaged: {err}", place=place) from err
    contents = _contents(entries, left_out)
    return contents if contents.version else replace(contents, version=version)


def _contents(entries: list[PackedEntry], left_out: list[str]) -> Contents:
    version = next((e.content for e in entries if e.path == VERSION_FILE), None)
    return Contents(tuple(entries), tuple(sorted(left_out)), parse_version(version))


def _metadata_version(content: bytes) -> str | None:
    for line in content.decode("utf-8", errors="replace").splitlines():
        if not line:
            break  # the description follows
        if line.startswith("Version:"):
            return line.removeprefix("Version:").strip()
    return None
