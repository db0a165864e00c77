"""The user's cache: trees and whole files under their digests.

A file gets its name by a rename after its bytes are on the disk, so that a killed run leaves a
whole file or none; one lock a digest keeps two runs from fetching the same.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from patchkit.errors import PatchkitError
from patchkit.upstream.members import RULE
from patchkit.upstream.packed import Contents, DamagedError, PackedFiles, write_packed

VARIABLE = "PATCHKIT_CACHE_DIR"


def default_root() -> Path:
    """Return the folder that PATCHKIT_CACHE_DIR names, or the platform's folder for caches."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("patchkit", appauthor=False)


class Cache:
    """A folder of packed trees and of whole files, shared by all runs of a user."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root

    def tree(self, key: str, build: Callable[[], Contents]) -> PackedFiles:
        """Return the tree of a digest, built first where the cache has none that is whole."""
        path = self._tree_path(key)

        def repair() -> None:
            self._build(path, build, thorough=True)

        try:
            return PackedFiles(path, repair)
        except (FileNotFoundError, NotADirectoryError, DamagedError):
            pass  # made below
        except OSError as err:
            raise _unusable(path, "read", err) from err
        self._build(path, build, thorough=False)
        return PackedFiles(path, repair)

    def has_tree(self, key: str) -> bool:
        """Return whether the cache has the tree of a digest."""
        return self._tree_path(key).is_file()

    def _tree_path(self, key: str) -> Path:
        return self.root / f"trees-{RULE}" / f"{key}.tree"

    def _build(self, path: Path, build: Callable[[], Contents], *, thorough: bool) -> None:
        """Write a tree, unless another run has done so while this one waited for the lock."""
        with self._locked(path):
            with suppress(FileNotFoundError, DamagedError):
                found = PackedFiles(path)
                if not thorough or found.is_whole():
                    return
            contents = build()
            with _replacing(path) as file:
                write_packed(file, contents)

    def file_path(self, sha256: str, filename: str) -> Path:
        """Return where a whole file is kept; it may not be there."""
        return self.root / "files" / sha256 / filename

    def whole_file(self, sha256: str, filename: str) -> Path | None:
        """Return a whole file that is kept and has its digest still, else None."""
        path = self.file_path(sha256, filename)
        if not path.is_file():
            return None
        if path.stat().st_size and _digest(path) == sha256:
            return path
        path.unlink()  # damaged since it was fetched
        return None

    def file(self, sha256: str, filename: str, fetch: Callable[[BinaryIO], None]) -> Path:
        """Return a whole file, fetched first where there is none; `fetch` checks its digest.

        What an earlier run was broken off at is in the file that `fetch` gets, which stands at its
        end; bytes that are of no use it must truncate.
        """
        path = self.file_path(sha256, filename)
        if not path.is_file():
            with self._locked(path):
                if not path.is_file():
                    with _continuing(path) as file:
                        fetch(file)
        return path

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        from filelock import FileLock

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path.with_name(f".{path.name}.lock"))
            lock.acquire()
        except OSError as err:
            raise _unusable(self.root, "written", err) from err
        try:
            yield
        finally:
            lock.release()


def _digest(path: Path) -> str:
    """Return the sha256 of a file in one call, which leaves the interpreter to other threads.

    In blocks, as `hashlib.file_digest` reads, it would queue for the interpreter after each.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return hashlib.sha256(view).hexdigest()


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file that takes its name when it is whole and on the disk. The lock must be held."""
    for left in path.parent.glob(f".{path.name}.*.part"):  # of runs that were killed
        left.unlink(missing_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as err:
        raise _unusable(path.parent, "written", err) from err
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _continuing(path: Path) -> Iterator[BinaryIO]:
    """Give a file as above that keeps what has come until it is whole. The lock must be held."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("r+b" if part.exists() else "w+b") as file:
            file.seek(0, os.SEEK_END)
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as err:
        raise _unusable(path.parent, "written", err) from err
    finally:
        with suppress(OSError):
            if not part.stat().st_size:
                part.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, use: str, err: OSError) -> PatchkitError:
    return PatchkitError(
        f"the cache cannot be {use}: {err.strerror or err}",
        place=str(path),
        hint=f"{VARIABLE} names another folder",
    )
