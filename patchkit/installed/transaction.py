"""Many files of an installed tree replaced together, or none; a killed run is finished by the next.

All new content is staged in one folder beside RECORD and flushed; then one journal is written; then
each staged file is renamed to its place. No file is ever written where it lies: what pip or uv
linked from a cache keeps its bytes there, and a reader finds the old file or the new one. Killed
before the journal, nothing has happened and the staging folder is swept up by the next run; killed
after it, the next run puts the rest in place.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.installed.site import Site

FORMAT = 1
_JOURNAL = "journal.json"


@dataclass(frozen=True)
class Step:
    """One file: its path below the site's root, what must be there now, and what is to be there.

    `old` and the digest of `content` are sha256 in hex; None stands for no file. `mode` holds the
    permission bits of the new file (those of the one that is there where None), `mtime_ns` its time
    (now where None).
    """

    path: str
    old: str | None
    content: bytes | None
    mode: int | None = None
    mtime_ns: int | None = None


class Transaction:
    """What is done to one site, behind one lock and one journal."""

    def __init__(self, site: Site) -> None:
        self.site, self.root = site, site.root
        self.work = site.root / site.work
        self.journal = self.work / _JOURNAL

    @contextmanager
    def locked(self) -> Iterator[str | None]:
        """Hold the site's lock, and give the name of what was broken off and is finished now.

        The lock is on a folder that is there anyway, so that nothing has to be left for it.
        """
        place = self.root / (self.site.dist_info or self.site.package)
        descriptor = os.open(place, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as err:
                raise PatchkitError(
                    "another patchkit is at work there",
                    place=str(place),
                    hint="wait until it has finished, then repeat the command",
                ) from err
            yield self._recover()
        finally:
            os.close(descriptor)

    def commit(self, name: str, steps: Sequence[Step], emptied: Sequence[str] = ()) -> None:
        """Take all steps or none; the caller holds the lock.

        `emptied` are folders to remove where nothing is left in them. Byte code made from a file
        that changes is removed, unless a step puts it there.
        """
        self._check_places(steps)
        try:
            self._sweep()
            self.work.mkdir(parents=True)
            entries = [self._stage(number, step) for number, step in enumerate(steps)]
            document = {"format": FORMAT, "name": name, "steps": entries, "emptied": [*emptied]}
            part = self.work / f"{_JOURNAL}.part"
            _write(part, json.dumps(document, indent=1).encode())
            _sync(self.work)
            part.rename(self.journal)
            _sync(self.work)
        except OSError as err:
            with suppress(OSError):
                self._sweep()
            raise _unwritable(err, "nothing was changed") from err
        self._finish(document)

    def _recover(self) -> str | None:
        if not self.journal.exists():
            try:
                self._sweep()
            except OSError as err:
                raise _unwritable(err, "a broken-off run left it; remove it") from err
            return None
        document = read_journal(self.site)
        assert document is not None
        self._finish(document)
        return str(document["name"])

    def _check_places(self, steps: Sequence[Step]) -> None:
        """Raise unless every folder can be written to, and renamed into from the staging folder."""
        site = self.root / (self.site.dist_info or "")
        for folder in sorted({_existing((self.root / step.path).parent) for step in steps}):
            if not folder.is_dir() or folder.resolve() != self.root.resolve() / (
                folder.relative_to(self.root)
            ):
                raise PatchkitError(
                    "lies behind a link or is no folder", place=str(folder), expected="a folder"
                )
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PatchkitError(
                    "cannot be written to by this user",
                    place=str(folder),
                    hint=f"run it as user {folder.stat().st_uid}, whose folder it is; "
                    "nothing was changed",
                )
            if folder.stat().st_dev != site.stat().st_dev:
                raise PatchkitError(
                    "is on another file system than the rest",
                    place=str(folder),
                    expected=f"the one of {site}",
                    hint="files are put in place by a rename, which cannot cross file systems",
                )

    def _stage(self, number: int, step: Step) -> dict[str, Any]:
        place = self.root / step.path
        found = digest_of(place)
        if found != step.old and not _is_bytecode(step.path):
            raise PatchkitError(
                "changed while it was patched", place=str(place), hint="nothing was changed"
            )
        entry: dict[str, Any] = {"path": step.path, "old": step.old, "new": None}
        if step.content is None:
            return entry
        staged = self.work / str(number)
        _write(staged, step.content)
        like = place.stat() if found is not None else None
        mode = step.mode if step.mode is not None else stat.S_IMODE(like.st_mode) if like else 0o644
        owner = like or _existing(place.parent).stat()
        with suppress(PermissionError):  # only root may give a file away
            os.chown(staged, owner.st_uid, owner.st_gid)
        staged.chmod(mode)
        if step.mtime_ns is not None:
            os.utime(staged, ns=(step.mtime_ns, step.mtime_ns))
        new = hashlib.sha256(step.content).hexdigest()
        return {**entry, "new": new, "staged": str(number)}

    def _finish(self, document: Mapping[str, Any]) -> None:
        """Put in place what is not there yet, then forget the journal."""
        steps = document["steps"]
        try:
            for entry in steps:
                self._settle(entry)
            self._remove_bytecode(steps)
            for path in document["emptied"]:
                with suppress(OSError):
                    (self.root / path / "__pycache__").rmdir()
                with suppress(OSError):
                    (self.root / path).rmdir()
            for folder in {(self.root / entry["path"]).parent for entry in steps}:
                if folder.is_dir():
                    _sync(folder)
            self.journal.unlink()
            self._sweep()
        except OSError as err:
            raise _unwritable(
                err, "mend that, then repeat the command: it finishes what was begun"
            ) from err

    def _settle(self, entry: Mapping[str, Any]) -> None:
        """Take one step, where it was not taken before the run was broken off."""
        place, new = self.root / entry["path"], entry["new"]
        staged = self.work / entry["staged"] if new is not None else None
        found = digest_of(place)
        if staged is not None and not staged.exists() and found == new:
            return
        sound = found in (entry["old"], new) or _is_bytecode(entry["path"])
        if not sound or (staged is not None and digest_of(staged) != new):
            raise PatchkitError(
                "was changed after a run was broken off there",
                place=str(place),
                hint="put back the file as it was before or after that run, or install anew",
            )
        if staged is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        staged.rename(place)

    def _remove_bytecode(self, steps: Sequence[Mapping[str, Any]]) -> None:
        kept = {entry["path"]: entry["new"] for entry in steps if entry["new"] is not None}
        for entry in steps:
            for path in bytecode_of(self.root, entry["path"]):
                if path not in kept or digest_of(self.root / path) != kept[path]:
                    (self.root / path).unlink(missing_ok=True)

    def _sweep(self) -> None:
        if self.work.is_dir():
            shutil.rmtree(self.work)
        if self.site.dist_info is None:
            with suppress(OSError):
                self.work.parent.rmdir()


def read_journal(site: Site) -> Mapping[str, Any] | None:
    """Return what a broken-off run has still to do; None where there is nothing."""
    place = site.root / site.work / _JOURNAL
    if not place.exists():
        return None
    try:
        document = json.loads(place.read_bytes())
        found = document["format"]
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise PatchkitError("damaged journal", place=str(place)) from err
    if found != FORMAT:
        raise PatchkitError(
            f"journal of format {found}",
            place=str(place),
            expected=f"format {FORMAT}",
            hint="a newer patchkit was broken off here; let that one finish",
        )
    journal: Mapping[str, Any] = document
    return journal


def bytecode_of(root: Path, path: str) -> list[str]:
    """Return the paths of the byte code that Python made from a source file, of any version."""
    if not path.endswith(".py"):
        return []
    source = root / path
    found = list((source.parent / "__pycache__").glob(f"{escape(source.stem)}.*.pyc"))
    beside = source.with_suffix(".pyc")
    found += [beside] if beside.is_file() else []
    return sorted(place.relative_to(root).as_posix() for place in found)


def digest_of(place: Path) -> str | None:
    """Return the sha256 of a file in hex, None where there is none; a link counts as its file."""
    try:
        return hashlib.sha256(place.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as err:
        raise PatchkitError(
            f"cannot be read: {(err.strerror or str(err)).lower()}", place=str(place)
        ) from err


def _is_bytecode(path: str) -> bool:
    """Return whether Python itself may write a file anew at any time."""
    return path.endswith(".pyc")


def _existing(folder: Path) -> Path:
    while not os.path.lexists(folder):
        folder = folder.parent
    return folder


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(err: OSError, hint: str) -> PatchkitError:
    fact = f"cannot be written: {(err.strerror or str(err)).lower()}"
    return PatchkitError(fact, place=str(err.filename) if err.filename else None, hint=hint)
