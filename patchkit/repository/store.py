"""The series that a repository keeps: which releases are stored, and each read as a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from patchkit.errors import PatchkitError
from patchkit.repository.workspace import read_folder
from patchkit.series.series import SAME_AS, Series, read_series
from patchkit.upstream.pins import normalise_version

_RELEASE_FOLDER = re.compile(r"v\d")


@dataclass(frozen=True)
class Stored:
    """One release of one series folder.

    `files` is the release folder as it lies on disk; `series` what it holds, or where it says only
    `same-as` what that other release holds.
    """

    folder: str
    release: str
    files: Mapping[str, bytes]
    series: Series
    same_as: str | None = None

    @property
    def place(self) -> str:
        """The release folder, relative to the repository."""
        return release_folder(self.folder, self.release)


def release_folder(folder: str, release: str) -> str:
    """Return the folder of one release: `patches/v0.28.0`."""
    return f"{folder}/v{release}"


def stored_releases(root: Path, folder: str) -> tuple[str, ...]:
    """Return the releases that a series folder holds, lowest first."""
    path = root / folder
    names = [p.name for p in path.iterdir() if p.is_dir()] if path.is_dir() else []
    releases = []
    for name in filter(_RELEASE_FOLDER.match, names):
        release = normalise_version(name)
        if name != f"v{release}":
            raise PatchkitError(
                "not the name of a release folder", place=f"{folder}/{name}", expected=f"v{release}"
            )
        releases.append(release)
    return tuple(sorted(releases, key=Version))


def held_releases(root: Path, folders: Iterable[str]) -> tuple[str, ...]:
    """Return the releases that any of the folders holds, lowest first."""
    known = {release for folder in folders for release in stored_releases(root, folder)}
    return tuple(sorted(known, key=Version))


def not_stored(release: str, known: Iterable[str], place: str) -> PatchkitError:
    """Return the error that says for which releases something is stored instead."""
    others = ", ".join(f"v{other}" for other in known)
    return PatchkitError(
        f"no series is stored for v{release}",
        place=place,
        hint=f"stored are: {others or 'none'}; `patchkit rebase v{release}` moves one there",
    )


def read_stored(root: Path, folder: str, release: str) -> Stored:
    """Return a stored release, its `same-as` followed."""
    files = read_folder(root / release_folder(folder, release))
    return follow_same_as(root, folder, release, files)


def follow_same_as(root: Path, folder: str, release: str, files: Mapping[str, bytes]) -> Stored:
    """Return the release that a folder's files hold or, with `same-as`, name."""
    place = release_folder(folder, release)
    series = read_series(files, version=release, place=place)
    if series.same_as is None:
        return Stored(folder, release, files, series)
    other = read_stored(root, folder, normalise_version(series.same_as))
    if other.same_as is not None:
        raise PatchkitError(
            f"same-as names v{other.release}, which is itself the same as v{other.same_as}",
            place=f"{place}/{SAME_AS}",
            expected="a release that holds patches",
        )
    return Stored(folder, release, files, other.series, same_as=other.release)


def nearest_base(releases: Iterable[str], target: str | None) -> str | None:
    """Return the highest release below a target version; the highest of all for an unknown one."""
    known = sorted(releases, key=Version)
    if target is not None:
        known = [release for release in known if Version(release) < Version(target)]
    return known[-1] if known else None
