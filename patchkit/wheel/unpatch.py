"""Upstream's wheel out of a patched one, byte for byte."""

from __future__ import annotations

import hashlib
from io import FileIO
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.upstream.pins import Artifact
from patchkit.wheel.archive import Archive, opened_wheel, read_archive
from patchkit.wheel.names import parse_wheel_name
from patchkit.wheel.output import new_file, write_pieces
from patchkit.wheel.provenance import KEPT, PROVENANCE, Way, parse_way
from patchkit.wheel.rewrite import old_layout


def read_way(archive: Archive) -> tuple[Way, bytes, str]:
    """Return the way back that a wheel holds, the archive of what was replaced, and its dist-info.

    Raises PatchkitError for a wheel that patchkit did not make.
    """
    infos = {m.name.split("/")[0] for m in archive.members if m.name.endswith(f"/{PROVENANCE}")}
    if len(infos) != 1:
        raise PatchkitError(
            f"holds no {PROVENANCE}", place=archive.place, expected="a wheel that patchkit built"
        )
    info = infos.pop()
    content = [archive.by_name.get(f"{info}/{file}") for file in (PROVENANCE, KEPT)]
    if content[0] is None or content[1] is None:
        raise PatchkitError(f"holds no {KEPT}", place=archive.place)
    way = parse_way(archive.read(content[0]), f"{archive.place}: {PROVENANCE}")
    return way, archive.read(content[1]), info


def unpatch_wheel(wheel: Path, output: Path, pinned: Artifact | None = None) -> tuple[Path, Way]:
    """Write the file that a patched wheel was made from into a folder; return its path.

    Its sha256 must be the one that the wheel's provenance names and, where the file is pinned, the
    pinned one. Raises PatchkitError, and leaves nothing, where it is not.
    """
    place = str(wheel)
    with opened_wheel(wheel) as (opened, archive):
        way, kept, info = read_way(archive)
        parse_wheel_name(way.filename)  # a file name, and no path
        if pinned is not None and pinned.sha256 != way.sha256:
            raise PatchkitError(
                f"was made from a file with sha256 {way.sha256}",
                place=place,
                expected=f"{pinned.sha256} as pinned for {pinned.filename}",
            )
        replaced = read_archive(kept, f"{place}: {KEPT}")
        pieces = old_layout(archive, replaced, way.steps, (way.dist_info, info))
        path = output / way.filename
        with new_file(path) as (file, publish):
            write_pieces(file, pieces, opened)
            _check(file, way, place)
            publish()
    return path, way


def _check(file: FileIO, way: Way, place: str) -> None:
    """Raise unless what was written is the file that the wheel was made from."""
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != way.sha256:
        raise PatchkitError(
            f"leads back to a file with sha256 {found}",
            place=place,
            expected=f"{way.sha256} of {way.filename}",
            hint="the wheel was changed after patchkit built it",
        )
