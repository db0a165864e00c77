"""The new files of stored series and their sources: whether each is still what was put down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from patchkit.errors import PatchkitError
from patchkit.repository.store import Stored, release_folder
from patchkit.repository.workspace import read_file
from patchkit.series.overlay import OverlayEntry, with_digests
from patchkit.series.series import OVERLAY

State = Literal["holds", "changed", "missing"]


@dataclass(frozen=True)
class NewFile:
    """One new file; `found` is the sha256 of its source as it is now, None where there is none."""

    entry: OverlayEntry
    found: str | None

    @property
    def state(self) -> State:
        """Whether the source is what the overlay says."""
        if self.found is None:
            return "missing"
        return "holds" if self.found == self.entry.sha256 else "changed"


@dataclass(frozen=True)
class NewFiles:
    """The new files of one stored release, which `same-as` may take from another one."""

    stored: Stored
    files: tuple[NewFile, ...]

    @property
    def folder(self) -> str:
        """The release folder that the overlay lies in, relative to the repository."""
        return release_folder(self.stored.folder, self.stored.same_as or self.stored.release)

    @property
    def path(self) -> str:
        """The overlay.toml, relative to the repository."""
        return f"{self.folder}/{OVERLAY}"


def new_files(root: Path, stored: Stored) -> NewFiles:
    """Return the new files of a stored release, each with what its source is now."""
    overlay = stored.series.overlay
    entries = overlay.entries if overlay is not None else ()
    return NewFiles(stored, tuple(NewFile(e, _digest(root / e.source)) for e in entries))


def renewed_overlays(root: Path, found: Iterable[NewFiles]) -> dict[str, bytes]:
    """Return by path each overlay.toml of which a source has changed, with the digest that it has.

    Raises PatchkitError where a source is missing, whatever the others are.
    """
    renewed: dict[str, bytes] = {}
    for overlay in found:
        changed: dict[str, str] = {}
        for file in overlay.files:
            if file.found is None:
                raise PatchkitError(
                    f"source {file.entry.source} is missing",
                    place=overlay.path,
                    hint=f"put it back, or take the table of {file.entry.path} out; nothing was "
                    "changed",
                )
            if file.state == "changed":
                changed[file.entry.path] = file.found
        if changed:
            data = read_file(root / overlay.path)
            renewed[overlay.path] = with_digests(data, changed, overlay.path)
    return renewed


def _digest(path: Path) -> str | None:
    return sha256(read_file(path)).hexdigest() if path.is_file() else None
