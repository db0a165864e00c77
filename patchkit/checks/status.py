"""What is stored for each release, and whether it is sound as far as that can be said at a glance.

Nothing is read but the stored files and the sources of new files: whether a patch applies to its
release, and whether its anchors are those that the release gives, is what `check` proves.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from patchkit.diff.header import Header, parse_header, validate_header
from patchkit.diff.model import FilePatch, Patch
from patchkit.diff.parse import parse_patch
from patchkit.errors import PatchkitError
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.repository.applied import with_overlay
from patchkit.repository.store import Stored, read_stored, stored_releases
from patchkit.series.series import SeriesEntry, anchors_name, left_out_reason
from patchkit.tree import SourceTree

# What a patch does to each file: paths, kind, mode, and the lines that it removes and adds.
Changes = tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class LeftOut:
    """A patch that the release below has and this one has not; `why` as the series file says it."""

    patch: str
    why: str | None = None


@dataclass(frozen=True)
class Held:
    """A patch of a release: what it changes, and the releases that a person adapted it for."""

    patch: str
    changes: Changes = field(default=(), repr=False)
    adapted_for: tuple[str, ...] = ()
    is_problem: bool = False


@dataclass(frozen=True)
class Status:
    """One stored release: how much it holds, what is wrong with it, and what it leaves out."""

    folder: str
    release: str
    patches: int = 0
    hunks: int = 0
    overlay: int = 0
    same_as: str | None = None
    problems: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    held: tuple[Held, ...] = ()
    stored: Stored | None = field(default=None, repr=False, compare=False)  # None: unreadable


def stored_status(root: Path, folders: tuple[str, ...]) -> Iterator[Status]:
    """Yield the status of every stored release, by folder, lowest release first."""
    for folder in folders:
        below: tuple[SeriesEntry, ...] = ()
        for release in stored_releases(root, folder):
            try:
                stored = read_stored(root, folder, release)
            except PatchkitError as error:
                yield Status(folder, release, problems=(str(error),))
                continue
            yield _status(root, stored, below)
            below = stored.series.entries


def _status(root: Path, stored: Stored, below: tuple[SeriesEntry, ...]) -> Status:
    hunks = 0
    problems = list(_overlay_problems(root, stored))
    held: list[Held] = []
    for name, data in stored.series.patches.items():
        known = len(problems)
        found = Held(name)
        try:
            patch = parse_patch(data, f"{stored.place}/{name}")
            hunks += sum(max(1, len(file.hunks)) for file in patch.files)
            found = Held(name, changes_of(patch), _adapted_for(stored, name))
            problems += _problems(stored, name, patch)
        except PatchkitError as error:
            problems.append(str(error))
        if len(problems) > known:
            found = Held(name, found.changes, found.adapted_for, is_problem=True)
        held.append(found)
    overlay = stored.series.overlay
    return Status(
        stored.folder,
        stored.release,
        len(stored.series.patches),
        hunks,
        len(overlay.entries) if overlay else 0,
        stored.same_as,
        tuple(problems),
        _left_out(stored, below),
        tuple(held),
        stored,
    )


def _overlay_problems(root: Path, stored: Stored) -> Iterator[str]:
    """Yield why the new files of a release are not those that were stored."""
    try:
        with_overlay(root, stored, SourceTree({}))
    except PatchkitError as error:
        yield str(error)


def changes_of(patch: Patch) -> Changes:
    """Return what a patch does, wherever its lines have moved and whatever stands around them."""
    return tuple(_file_changes(file) for file in patch.files)


def _file_changes(file: FilePatch) -> tuple[object, ...]:
    head = (file.old_path, file.new_path, file.change, file.new_mode, file.binary)
    hunks = (tuple(line for line in hunk.lines if line.kind != " ") for hunk in file.hunks)
    return (*head, *hunks)


def _problems(stored: Stored, name: str, patch: Patch) -> Iterator[str]:
    """Yield what is wrong with a patch's header and with its anchors."""
    place = f"{stored.place}/{name}"
    header = parse_header(patch.preamble, place)
    yield from validate_header(header, place)
    yield from _out_of_range(header, place, stored.release)
    anchors, file = stored.series.anchors.get(name), f"{stored.place}/{anchors_name(name)}"
    if anchors is None:
        yield f"{file}: is missing"
        return
    hunks = [hunk for section in patch.files for hunk in section.hunks]
    wanted = [fingerprint_hunk(hunk) for hunk in hunks]
    if [mark for mark in _read_anchors(anchors, file)[0] if mark is not None] != wanted:
        yield f"{file}: was made for another text of the patch"


def _out_of_range(header: Header, place: str, release: str) -> Iterator[str]:
    if header.applies_to is not None and not header.covers(release):
        yield f"{place}: Applies-To {header.applies_to} does not hold {release}"


def _adapted_for(stored: Stored, name: str) -> tuple[str, ...]:
    anchors, file = stored.series.anchors.get(name), f"{stored.place}/{anchors_name(name)}"
    return _read_anchors(anchors, file)[1] if anchors is not None else ()


def _read_anchors(data: bytes, place: str) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    """Return the fingerprint of each hunk, and the releases that there are adaptations for."""
    try:
        return _anchors(data)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, AttributeError) as error:
        raise PatchkitError("is damaged", place=place) from error


@cache
def _anchors(data: bytes) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    table: dict[str, Any] = tomllib.loads(data.decode())
    marks = tuple(entry.get("hunk") for entry in table["generated"].get("hunk", []))
    adaptations = table.get("override", {}).get("adaptation", [])
    return marks, tuple(entry["release"] for entry in adaptations)


def _left_out(stored: Stored, below: tuple[SeriesEntry, ...]) -> tuple[LeftOut, ...]:
    """Return what the series file of the release below lists and this one does not."""
    if stored.same_as is not None:
        return ()
    entries = stored.series.entries
    listed = {entry.name for entry in entries}
    comments = "".join(f"{entry.before}{entry.after}" for entry in entries)
    if not entries:
        comments = stored.files.get("series", b"").decode("utf-8", "replace")
    return tuple(
        LeftOut(entry.name, left_out_reason(entry.name, comments))
        for entry in below
        if entry.name not in listed
    )
