"""A large file written from spans of another: whole under its name, or not there at all.

The bytes go into a hidden file beside the destination, are flushed to the disk, checked, and get
their name last. The hidden file is locked while it is written, so that what a killed run left can
be told from what another run is writing, and is removed by the next one.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from patchkit.errors import PatchkitError
from patchkit.upstream.spans import Span

# Where the kernel cannot copy by itself (another file system), bytes go through memory.
BLOCK_BYTES = 8 << 20
SUFFIX = ".patchkit-part"
# what says that two files are not of a kind the kernel copies between
_NO_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}


@contextmanager
def new_file(path: Path) -> Iterator[tuple[FileIO, Callable[[], None]]]:
    """Give a file that is not there yet, and what gives it its name once its bytes are right.

    Without that call nothing is left of it. Raises PatchkitError where it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}{SUFFIX}")
    named = False

    def publish() -> None:
        nonlocal named
        os.fsync(file.fileno())
        part.replace(path)
        named = True
        _sync(path.parent)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        with _locked(part) as file:
            yield file, publish
    except OSError as err:
        raise PatchkitError(
            f"cannot be written: {(err.strerror or str(err)).lower()}",
            place=str(path),
            hint="nothing was written under that name",
        ) from err
    finally:
        if not named:
            with suppress(OSError):
                part.unlink()


@contextmanager
def _locked(part: Path) -> Iterator[FileIO]:
    """Give a new file that is locked under its name: a sweep may come between the two steps."""
    while True:
        with part.open("w+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if part.exists() and os.path.samestat(part.stat(), os.fstat(file.fileno())):
                yield file
                return


def write_pieces(file: FileIO, pieces: Sequence[Span | bytes], source: BinaryIO) -> None:
    """Write bytes, and spans of a source file, one after another."""
    for piece in pieces:
        if isinstance(piece, bytes):
            _write(file, piece)
        else:
            _copy(source.fileno(), file, piece)


def _write(file: FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _copy(source: int, file: FileIO, span: Span) -> None:
    at = span.start
    try:
        while hasattr(os, "copy_file_range") and at < span.end:
            done = os.copy_file_range(source, file.fileno(), span.end - at, at)
            if not done:
                break
            at += done
    except OSError as err:
        if err.errno not in _NO_COPY:
            raise
    while at < span.end:
        block = os.pread(source, min(BLOCK_BYTES, span.end - at), at)
        if not block:
            raise PatchkitError("the file became shorter while it was read")
        _write(file, block)
        at += len(block)


def _sweep(folder: Path) -> None:
    """Remove what killed runs left: hidden files of ours that nobody holds a lock on."""
    for left in folder.glob(f".*{SUFFIX}"):
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
