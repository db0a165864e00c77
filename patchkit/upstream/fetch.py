"""A pinned file's tree or its whole bytes, from the cache, a folder or the network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from patchkit.errors import PatchkitError
from patchkit.upstream.archives import (
    open_wheel,
    read_wheel,
    sdist_file_contents,
    wheel_file_contents,
    wheel_spans,
)
from patchkit.upstream.cache import Cache
from patchkit.upstream.index import Index, Location
from patchkit.upstream.packed import Contents, Origin
from patchkit.upstream.pins import Artifact
from patchkit.upstream.progress import Progress, silent
from patchkit.upstream.ranged import (
    CHUNK_BYTES,
    RangedFile,
    RangedReader,
    RangesRefusedError,
)
from patchkit.upstream.spans import coalesce
from patchkit.upstream.transport import BrokenOffError, Http, redact


def artifact_contents(
    artifact: Artifact, index: Index, cache: Cache, progress: Progress = silent
) -> Contents:
    """Return the tree of a pinned file: of a wheel from spans of it, where the index has ranges."""
    if artifact.kind == "sdist":
        path = fetch_artifact(artifact, index, cache, progress)
        contents = sdist_file_contents(path, progress)
        return replace(contents, origin=Origin("whole file", 1, artifact.size_bytes))
    return _wheel_contents(artifact, index, cache, progress)


def fetch_artifact(
    artifact: Artifact, index: Index, cache: Cache, progress: Progress = silent
) -> Path:
    """Return the path of a pinned file, whole and with the pinned digest, fetched where needed."""
    kept = cache.whole_file(artifact.sha256, artifact.filename)
    if kept is not None:
        return kept
    location = index.locate(artifact)
    if location.path is not None:
        _compare(_digest(location.path), artifact, str(location))
        return location.path
    return _fetch_whole(artifact, location, index, cache, progress, artifact.filename)


def _wheel_contents(artifact: Artifact, index: Index, cache: Cache, progress: Progress) -> Contents:
    kept = cache.file_path(artifact.sha256, artifact.filename)
    if kept.is_file():
        kept = fetch_artifact(artifact, index, cache, progress)
        return wheel_file_contents(kept, artifact.record_sha256)
    location = index.locate(artifact)
    if location.path is not None:
        return wheel_file_contents(location.path, artifact.record_sha256)
    try:
        return _ranged_contents(artifact, location, index, progress)
    except RangesRefusedError:
        label = f"{artifact.filename}, whole: the index has no byte ranges"
        path = _fetch_whole(artifact, location, index, cache, progress, label)
        contents = wheel_file_contents(path, artifact.record_sha256)
        return replace(contents, origin=Origin("whole file", 1, artifact.size_bytes))


def _ranged_contents(
    artifact: Artifact, location: Location, index: Index, progress: Progress
) -> Contents:
    """Return the tree of a remote wheel from its directory and the spans of the tree's members."""
    name = artifact.filename
    remote = RangedFile(index.http, location.url, artifact.size_bytes, name, progress)
    remote.fetch_tail()
    with open_wheel(RangedReader(remote), str(location)) as archive:  # type: ignore[arg-type]
        remote.fetch(coalesce(remote.missing(wheel_spans(archive, str(location)))))
        contents = read_wheel(archive, str(location), artifact.record_sha256)
    return replace(contents, origin=Origin("ranges", remote.requests, remote.fetched_bytes))


def _fetch_whole(
    artifact: Artifact,
    location: Location,
    index: Index,
    cache: Cache,
    progress: Progress,
    label: str,
) -> Path:
    """Return the cache's path of a remote file; a transfer that breaks off goes on, if it can."""

    def note(done_bytes: int) -> None:
        progress(label, done_bytes, artifact.size_bytes)

    def fetch(file: BinaryIO) -> None:
        received = _Received(file)  # with what an earlier run had received
        resumed = file.tell() > 0
        if file.tell() < artifact.size_bytes or not resumed:
            _receive_all(location.url, index.http, received, note)
        if resumed and received.sha256.hexdigest() != artifact.sha256:
            received.restart()
            _receive_all(location.url, index.http, received, note)
        try:
            _compare(received.sha256.hexdigest(), artifact, str(location))
        except PatchkitError:
            received.restart()
            raise

    return cache.file(artifact.sha256, artifact.filename, fetch)


class _Received:
    """A file as it arrives, with the digest of what has arrived: it is not read a second time."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        file.seek(0)
        self.sha256 = hashlib.sha256()
        while chunk := file.read(1 << 20):
            self.sha256.update(chunk)

    def add(self, chunk: bytes) -> None:
        """Append bytes."""
        self.file.write(chunk)
        self.sha256.update(chunk)

    def restart(self) -> None:
        """Forget all that has arrived."""
        self.file.seek(0)
        self.file.truncate()
        self.sha256 = hashlib.sha256()


def _receive_all(url: str, http: Http, received: _Received, note: Callable[[int], None]) -> None:
    """Receive a remote file to its end; a transfer that breaks off goes on while any bytes come."""
    idle = 0
    while True:
        before = received.file.tell()
        try:
            _receive_whole(url, http, received, note)
            return
        except BrokenOffError:
            idle = idle + 1 if received.file.tell() <= before else 0
            if idle > http.retries:
                raise


def _receive_whole(url: str, http: Http, received: _Received, note: Callable[[int], None]) -> None:
    """Append to a file what it lacks of a remote one, or write it anew where that cannot be had."""
    file = received.file
    done = file.tell()
    headers = {"Range": f"bytes={done}-"} if done else {}
    with http.stream(url, headers) as response:
        answer = response.headers.get("Content-Range", "")
        if response.status not in (200, 206):
            raise PatchkitError(f"the index answers {response.status}", place=redact(url))
        if response.status == 200 or not answer.startswith(f"bytes {done}-"):
            if response.status == 206:
                raise PatchkitError(f"the index answers with {answer!r}", place=redact(url))
            received.restart()
        for chunk in response.stream(CHUNK_BYTES):
            received.add(chunk)
            note(file.tell())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compare(found: str, artifact: Artifact, place: str) -> None:
    if found != artifact.sha256:
        raise PatchkitError(
            f"the file has sha256 {found}", place=place, expected=f"{artifact.sha256} as pinned"
        )
