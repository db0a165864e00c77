"""The one place that writes to disk, last: series folders read into values and replaced as a whole.

A commit is a list of folders and files with their new content. All of it is staged beside its
destination and flushed; then one journal is written; then each staged entry is swapped in. Killed
before the journal, nothing has happened, and the next use of the workspace sweeps up what was
staged; killed after it, the next use finishes the swaps.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError

JOURNAL_FORMAT = 1
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@dataclass(frozen=True)
class Replacement:
    """One destination and its new content: a folder's files, a file's bytes, None to remove it."""

    path: Path
    content: Mapping[str, bytes] | bytes | None


def read_folder(path: Path) -> dict[str, bytes]:
    """Return a folder as a mapping of posix names to bytes, without staged leftovers."""
    if not path.is_dir():
        raise PatchkitError("no such folder", place=str(path))
    found: dict[str, bytes] = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and not _is_staged(file.name):
            found[file.relative_to(path).as_posix()] = file.read_bytes()
    return found


def read_file(path: Path) -> bytes:
    """Return a file's bytes; a missing or unreadable one is the user's mistake."""
    try:
        return path.read_bytes()
    except OSError as err:
        raise PatchkitError(
            (err.strerror or "cannot be read").lower(), place=str(path), expected="a readable file"
        ) from err


class Workspace:
    """The folders that one repository writes to, behind one lock and one journal."""

    def __init__(self, state_folder: Path) -> None:
        self.state_folder = state_folder
        self._journal = state_folder / "journal.json"
        self._staging = state_folder / "staging.json"  # where to sweep

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the repository's lock; whoever comes second is refused, not queued."""
        import filelock

        self.state_folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self.state_folder / "lock", timeout=0)
        try:
            with lock:
                self._recover()
                self._sweep()
                yield
        except filelock.Timeout as err:
            raise PatchkitError(
                "another patchkit is at work in this repository",
                place=str(self.state_folder / "lock"),
                hint="wait until it has finished, then repeat the command",
            ) from err

    def recover(self) -> None:
        """Finish a commit that was killed after its journal was written; sweep up one before."""
        if self._journal.exists() or self._staging.exists():
            with self.locked():
                pass

    def commit(self, replacements: Sequence[Replacement]) -> None:
        """Write every replacement or none; the caller holds the lock."""
        entries: list[dict[str, Any]] = []
        try:
            if replacements:
                self._write_staging(replacements)
            for replacement in replacements:
                entries.append(self._stage(replacement))
            self._write_journal(entries)
        except OSError as err:
            for replacement in replacements:
                with suppress(OSError):
                    _remove(_staged(replacement.path))
            with suppress(OSError):
                self._staging.unlink(missing_ok=True)
            raise PatchkitError(
                f"cannot be written: {(err.strerror or str(err)).lower()}",
                place=str(err.filename) if err.filename else None,
                hint="nothing was changed",
            ) from err
        self._finish(entries)

    def _stage(self, replacement: Replacement) -> dict[str, Any]:
        path, content = replacement.path, replacement.content
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = _staged(path)
        _remove(staged)
        if content is not None:
            _write_new(staged, content)
        return {
            "path": self._relative(path),
            "old": _digest(path),
            "new": None if content is None else _digest(staged),
        }

    def _relative(self, path: Path) -> str:
        return os.path.relpath(path.absolute(), self.state_folder.absolute())

    def _absolute(self, name: str) -> Path:
        return Path(os.path.normpath(self.state_folder / name))

    def _write_staging(self, replacements: Sequence[Replacement]) -> None:
        self._make_state_folder()
        names = [self._relative(replacement.path) for replacement in replacements]
        write_file(self._staging, json.dumps(names, indent=1).encode())

    def _sweep(self) -> None:
        """Remove what a commit left that was killed before its journal; the lock is held."""
        with suppress(OSError, ValueError, TypeError):
            for name in json.loads(self._staging.read_bytes()):
                _remove(_staged(self._absolute(name)))
        with suppress(OSError):
            self._staging.unlink(missing_ok=True)
            for path in [p for p in self.state_folder.iterdir() if _is_staged(p.name)]:
                _remove(path)

    def _write_journal(self, entries: list[dict[str, Any]]) -> None:
        self._make_state_folder()
        text = json.dumps({"format": JOURNAL_FORMAT, "entries": entries}, indent=1)
        write_file(self._journal, text.encode())

    def _recover(self) -> None:
        if not self._journal.exists():
            return
        try:
            journal = json.loads(self._journal.read_bytes())
            found, entries = journal["format"], journal["entries"]
        except (ValueError, KeyError, TypeError) as err:
            raise PatchkitError("damaged journal", place=str(self._journal)) from err
        if found != JOURNAL_FORMAT:
            raise PatchkitError(
                f"journal of format {found}",
                place=str(self._journal),
                expected=f"format {JOURNAL_FORMAT}",
                hint="a newer patchkit was killed here; let that one finish",
            )
        self._finish(entries)

    def _finish(self, entries: list[dict[str, Any]]) -> None:
        """Swap in what is not yet in place, then forget the journal and the old content."""
        paths = [self._absolute(entry["path"]) for entry in entries]
        try:
            for path, entry in zip(paths, entries, strict=True):
                _settle(path, entry["old"], entry["new"])
            for path in paths:
                _remove(_staged(path))
                _remove(_displaced(path))
            self._journal.unlink()
            self._staging.unlink(missing_ok=True)
            _sync(self.state_folder)
        except OSError as err:
            raise PatchkitError(
                f"cannot be replaced: {(err.strerror or str(err)).lower()}",
                place=str(err.filename) if err.filename else None,
                hint="mend that, then repeat the command: it finishes what was begun",
            ) from err

    def _make_state_folder(self) -> None:
        self.state_folder.mkdir(parents=True, exist_ok=True)
        ignore = self.state_folder / ".gitignore"
        if not ignore.exists():
            write_file(ignore, b"*\n")


def write_file(path: Path, content: bytes) -> None:
    """Write one file so that a kill leaves the old bytes or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}.patchkit-new")
    _write_new(staged, content)
    staged.replace(path)
    _sync(path.parent)


def write_new_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder that is not there yet, or is empty; it appears as a whole or not at all."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.patchkit-new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(staged, files)
        staged.rename(path)  # onto an empty folder too, but never onto a full one
        _sync(path.parent)
    except OSError as err:
        with suppress(OSError):
            _remove(staged)
        raise PatchkitError(
            f"cannot be written: {(err.strerror or str(err)).lower()}", place=str(path)
        ) from err


def _staged(path: Path) -> Path:
    return path.with_name(f".{path.name}.patchkit-new")


def _displaced(path: Path) -> Path:
    return path.with_name(f".{path.name}.patchkit-old")


def _is_staged(name: str) -> bool:
    return name.startswith(".") and name.endswith((".patchkit-new", ".patchkit-old"))


def _write_new(path: Path, content: Mapping[str, bytes] | bytes) -> None:
    if isinstance(content, bytes):
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return
    path.mkdir(parents=True)
    for name, file_content in content.items():
        destination = path / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        _write_new(destination, file_content)
    for folder in (path, *(p for p in path.rglob("*") if p.is_dir())):
        _sync(folder)


def _settle(path: Path, old: str | None, new: str | None) -> None:
    """Bring one destination to its journalled content; what was edited since then is left alone."""
    if _digest(path) == new:
        return
    if new is None:
        if _digest(path) == old:
            path.rename(_staged(path))  # a folder vanishes in one step and is emptied afterwards
    elif _digest(_staged(path)) == new:
        _swap_in(_staged(path), path)
    _sync(path.parent)


def _swap_in(staged: Path, path: Path) -> None:
    """Put the staged entry in its place, in one step where the file system can do that."""
    if not path.exists() or path.is_file():
        staged.replace(path)
    elif not _exchange(staged, path):
        old = _displaced(path)
        _remove(old)
        path.rename(old)
        staged.rename(path)


def _exchange(one: Path, other: Path) -> bool:
    """Return whether two names have changed places at once (Linux `renameat2`)."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _digest(path: Path) -> str | None:
    """Return a digest of a file or of a folder's names and bytes; None where there is neither."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if not path.is_dir():
        return None
    total = hashlib.sha256(b"folder\0")
    for name, content in read_folder(path).items():
        total.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return total.hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
