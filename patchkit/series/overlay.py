"""Overlays: whole new files that a series puts into the package, one source for all releases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePosixPath

from patchkit.errors import PatchkitError
from patchkit.series.toml_text import read_toml
from patchkit.tree import SourceTree
from patchkit.vllm.profile import VLLM

FORMAT = 1
_KEYS = ("source", "path", "sha256")
_ACCEPTED = ("path", "surface", "reason")
_TABLE = re.compile(r"^[ \t]*\[\[[ \t]*file[ \t]*\]\]", re.MULTILINE)
_DIGEST = re.compile(
    r"""^([ \t]*(?:sha256|"sha256"|'sha256')[ \t]*=[ \t]*["'])[0-9a-f]{64}""", re.MULTILINE
)


@dataclass(frozen=True)
class OverlayEntry:
    """One new file: where its text is kept, where it goes in the tree, the digest of its text."""

    source: str
    path: str
    sha256: str


@dataclass(frozen=True)
class AcceptedDrift:
    """A change of what a new file relies on that a person lives with: its fingerprint, and why."""

    path: str
    surface: str
    reason: str


@dataclass(frozen=True)
class Overlay:
    """The new files of a series, in order of path, and the drifts that were accepted for them.

    What is accepted is about moves from the release that the overlay is stored for.
    """

    entries: tuple[OverlayEntry, ...]
    accepted: tuple[AcceptedDrift, ...] = ()


def overlay_entry(source: str, path: str, content: bytes) -> OverlayEntry:
    """Return the entry for a source with its digest."""
    return OverlayEntry(source, path, sha256(content).hexdigest())


def parse_overlay(data: bytes, place: str, *, package: str = VLLM.package) -> Overlay:
    """Return the overlay in an `overlay.toml`; raises PatchkitError with place `name:line`."""
    table, text = read_toml(data, place), data.decode()
    if table.get("format") != FORMAT or isinstance(table["format"], bool):
        raise PatchkitError(
            f"format is {table.get('format')!r}", place=place, expected=f"format = {FORMAT}"
        )
    if unknown := sorted(table.keys() - {"format", "file", "accepted"}):
        raise PatchkitError(
            f"unknown key {unknown[0]!r}", place=place, expected="format, [[file]], [[accepted]]"
        )
    rows = table.get("file", [])
    if not isinstance(rows, list) or not rows:
        raise PatchkitError("overlay has no files", place=place, expected="[[file]] tables")
    starts = [text.count("\n", 0, match.start()) + 1 for match in _TABLE.finditer(text)]
    places = [f"{place}:{line}" for line in starts] if len(starts) == len(rows) else []
    entries: list[OverlayEntry] = []
    for number, row in enumerate(rows):
        row_place = places[number] if places else place
        entry = _parse_entry(row, row_place, package)
        _refuse_clash(entry, entries, row_place)
        entries.append(entry)
    return Overlay(tuple(entries), _parse_accepted(table.get("accepted", []), entries, place))


def format_overlay(overlay: Overlay) -> bytes:
    """Return the `overlay.toml`, files in order of path."""
    parts = [f"format = {FORMAT}\n"]
    for entry in sorted(overlay.entries, key=lambda entry: entry.path):
        parts.append("\n[[file]]\n")
        parts += [f"{key} = {_quote(getattr(entry, key))}\n" for key in _KEYS]
    for accepted in overlay.accepted:
        parts.append("\n[[accepted]]\n")
        parts += [f"{key} = {_quote(getattr(accepted, key))}\n" for key in _ACCEPTED]
    return "".join(parts).encode()


def with_digests(data: bytes, digests: Mapping[str, str], place: str) -> bytes:
    """Return an `overlay.toml` with other digests for some paths; every other byte stays.

    Raises PatchkitError where a digest does not stand on a line of its own below its `[[file]]`.
    """
    overlay = parse_overlay(data, place)
    entries = tuple(replace(e, sha256=digests.get(e.path, e.sha256)) for e in overlay.entries)
    text = data.decode()
    starts = [match.start() for match in _TABLE.finditer(text)]
    if len(starts) == len(entries):
        parts = [
            _DIGEST.sub(rf"\g<1>{entry.sha256}", text[at:end])
            for entry, at, end in zip(entries, starts, [*starts[1:], len(text)], strict=True)
        ]
        text = text[: starts[0]] + "".join(parts)
    if parse_overlay(text.encode(), place) != replace(overlay, entries=entries):
        raise PatchkitError(
            "its digests cannot be written without writing it anew",
            place=place,
            expected="a [[file]] table for each file, with sha256 on a line of its own",
        )
    return text.encode()


def overlay_conflicts(overlay: Overlay, target: SourceTree) -> tuple[str, ...]:
    """Return the paths at which the target has a file already, or a file where a folder must be."""
    return tuple(
        entry.path
        for entry in overlay.entries
        if entry.path in target.files
        or any(folder in target.files for folder in _above(entry.path))
    )


def overlay_changes(
    overlay: Overlay, sources: Mapping[str, bytes], target: SourceTree, place: str = "overlay.toml"
) -> Mapping[str, bytes]:
    """Return the new files by path.

    Raises PatchkitError for a source that is missing or not of its digest, and where upstream has
    a file of that name: `overlay_conflicts` gives those as values.
    """
    for entry in overlay.entries:
        content = sources.get(entry.source)
        if content is None:
            raise PatchkitError(f"source {entry.source} is missing", place=place)
        found = sha256(content).hexdigest()
        if found != entry.sha256:
            raise PatchkitError(
                f"source {entry.source} has sha256 {found}",
                place=place,
                expected=entry.sha256,
                hint="the source was edited after it was put down in the overlay: put it back, or "
                "let `patchkit overlay --refresh` write its new sha256",
            )
    if conflicts := overlay_conflicts(overlay, target):
        name = target.name or "the target"
        raise PatchkitError(f"{name} has {', '.join(conflicts)} already", place=place)
    return {entry.path: sources[entry.source] for entry in overlay.entries}


def _parse_entry(row: object, place: str, package: str) -> OverlayEntry:
    if not isinstance(row, dict):
        raise PatchkitError("file is not a table", place=place, expected="a [[file]] table")
    for key in row:
        if key not in _KEYS:
            raise PatchkitError(f"unknown key {key!r}", place=place, expected=", ".join(_KEYS))
    for key in _KEYS:
        if not isinstance(row.get(key), str):
            raise PatchkitError(f"{key} is {row.get(key)!r}", place=place, expected="a string")
    if not re.fullmatch(r"[0-9a-f]{64}", row["sha256"]):
        raise PatchkitError(
            f"sha256 is {row['sha256']!r}", place=place, expected="64 lower-case hex digits"
        )
    for key in ("source", "path"):
        _check_path(row[key], key, place)
    if not row["path"].startswith(f"{package}/"):
        raise PatchkitError(f"path is {row['path']!r}", place=place, expected=f"one in {package}/")
    return OverlayEntry(row["source"], row["path"], row["sha256"])


def _parse_accepted(
    rows: object, entries: list[OverlayEntry], place: str
) -> tuple[AcceptedDrift, ...]:
    """Return the accepted drifts; each is of a file of the overlay, and has a reason."""
    found = []
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        where = f"{place}: accepted {number}"
        if not isinstance(row, dict):
            raise PatchkitError("not a table", place=where, expected="an [[accepted]] table")
        if unknown := sorted(row.keys() - {*_ACCEPTED}):
            raise PatchkitError(
                f"unknown key {unknown[0]!r}", place=where, expected=", ".join(_ACCEPTED)
            )
        for key in _ACCEPTED:
            value = row.get(key)
            if not isinstance(value, str) or not value.strip() or not value.isprintable():
                raise PatchkitError(f"{key} is {value!r}", place=where, expected="a line of text")
        if all(entry.path != row["path"] for entry in entries):
            raise PatchkitError(f"{row['path']} is no file of the overlay", place=where)
        found.append(AcceptedDrift(**row))
    return tuple(found)


def _check_path(path: str, key: str, place: str) -> None:
    """Raise unless the path is relative, posix and in its shortest form."""
    odd = not path or "\\" in path or any(ord(char) < 32 or ord(char) == 127 for char in path)
    if odd or path.startswith("/") or ":" in path.split("/")[0]:
        raise PatchkitError(f"{key} is {path!r}", place=place, expected="a relative posix path")
    if str(PurePosixPath(path)) != path or any(part in (".", "..") for part in path.split("/")):
        raise PatchkitError(f"{key} is {path!r}", place=place, expected="a path without . and ..")


def _refuse_clash(entry: OverlayEntry, before: list[OverlayEntry], place: str) -> None:
    """Raise where two files would share a place, on a disk that ignores case as well."""
    path = entry.path.casefold()
    for other in before:
        taken = other.path.casefold()
        if path == taken or taken in _above(path) or path in _above(taken):
            raise PatchkitError(f"path {entry.path} clashes with {other.path}", place=place)


def _above(path: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
