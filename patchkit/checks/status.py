"""What is stored for each release, and whether it is sound as far as that can be said at a glance.

Nothing but the stored files is read: whether a patch applies to its release, and whether its
anchors are those that the release gives, is what `check` proves.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchkit.diff import parse_patch
from patchkit.diff.header import parse_header, validate_header
from patchkit.diff.model import Patch
from patchkit.errors import PatchkitError
from patchkit.placing.adaptation import fingerprint_hunk
from patchkit.repository.store import Stored, read_stored, stored_releases
from patchkit.series.series import SeriesEntry, anchors_name, left_out_reason


@dataclass(frozen=True)
class LeftOut:
    """A patch that the release below has and this one has not; `why` as the series file says it."""

    patch: str
    why: str | None = None


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
            yield _status(stored, below)
            below = stored.series.entries


def _status(stored: Stored, below: tuple[SeriesEntry, ...]) -> Status:
    hunks = 0
    problems: list[str] = []
    for name, data in stored.series.patches.items():
        try:
            patch = parse_patch(data, f"{stored.place}/{name}")
            hunks += sum(max(1, len(file.hunks)) for file in patch.files)
            problems += _problems(stored, name, patch)
        except PatchkitError as error:
            problems.append(str(error))
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
    )


def _problems(stored: Stored, name: str, patch: Patch) -> Iterator[str]:
    """Yield what is wrong with a patch's header and with its anchors."""
    place = f"{stored.place}/{name}"
    header = parse_header(patch.preamble, place)
    yield from validate_header(header, place)
    if header.applies_to is not None and not header.covers(stored.release):
        yield f"{place}: Applies-To {header.applies_to} does not hold {stored.release}"
    anchors, file = stored.series.anchors.get(name), f"{stored.place}/{anchors_name(name)}"
    if anchors is None:
        yield f"{file}: is missing"
        return
    hunks = [hunk for section in patch.files for hunk in section.hunks]
    wanted = [fingerprint_hunk(hunk) for hunk in hunks]
    if [mark for mark in _fingerprints(anchors, file) if mark is not None] != wanted:
        yield f"{file}: was made for another text of the patch"


def _fingerprints(anchors: bytes, place: str) -> list[str | None]:
    try:
        table: Mapping[str, list[Mapping[str, str]]] = tomllib.loads(anchors.decode())["generated"]
        return [entry.get("hunk") for entry in table.get("hunk", [])]
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, AttributeError) as error:
        raise PatchkitError("is damaged", place=place) from error


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
