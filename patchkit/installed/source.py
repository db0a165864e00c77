"""An exported series: a folder that holds all that is needed to apply and verify it, offline.

It is a small repository: release folders and overlay sources lie where they lie in the one they
came from. `export.json`, in the shape of docs/schema/export-1.json, names the series folders in the
order in which they compose, the sha256 of every file of the export, and the sha256 of the release's
files before and after. `base.zip` holds those files as they are before.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchkit.config import Config
from patchkit.diff import parse_patch
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.repository.applied import apply_shipped, with_overlay
from patchkit.repository.store import (
    Stored,
    held_releases,
    read_stored,
    release_folder,
    stored_releases,
)
from patchkit.repository.workspace import read_file
from patchkit.series.series import format_series
from patchkit.tree import SourceTree
from patchkit.wheel.provenance import digest, format_document

SCHEMA = "patchkit.export/1"
EXPORT = "export.json"
BASE = "base.zip"
_TIME = (1980, 1, 1, 0, 0, 0)
Files = Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Source:
    """Where stored series come from: the repository, or an export of it.

    `folders` compose in their order. `files` are, for each release of an export, the sha256 of each
    file before and after; `selections` as in the configuration.
    """

    root: Path
    folders: tuple[str, ...]
    selections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, Files] = field(default_factory=dict)
    is_export: bool = False

    @property
    def place(self) -> str:
        """What it is called in messages."""
        return str(self.root) if self.is_export else ", ".join(self.folders)

    def releases(self) -> tuple[str, ...]:
        """Return the releases that any of the folders holds, lowest first."""
        return held_releases(self.root, self.folders)

    def stored(self, release: str) -> tuple[Stored, ...]:
        """Return what the folders hold for a release, in order."""
        return tuple(
            read_stored(self.root, folder, release)
            for folder in self.folders
            if release in stored_releases(self.root, folder)
        )

    def base(self, release: str) -> dict[str, bytes]:
        """Return the files of a release that its series changes, of an export alone."""
        place = self.root / BASE
        prefix = f"v{release}/"
        try:
            with zipfile.ZipFile(place) as archive:
                names = [n for n in archive.namelist() if n.startswith(prefix)]
                return {name.removeprefix(prefix): archive.read(name) for name in names}
        except (OSError, zipfile.BadZipFile) as err:
            raise PatchkitError("cannot be read", place=str(place)) from err


def repository_source(config: Config) -> Source:
    """Return the series of a repository."""
    return Source(config.root, config.series, config.selections)


def make_export(
    config: Config, releases: Iterable[str], open_tree: Callable[[str], SourceTree], tool: str
) -> dict[str, bytes]:
    """Return the files of an export of some releases; `tool` is the version of patchkit.

    Raises PatchkitError for a series that does not apply to its release.
    """
    source = repository_source(config)
    content: dict[str, bytes] = {}
    tables: list[dict[str, Any]] = []
    base: dict[str, bytes] = {}
    for release in releases:
        tree = before = open_tree(f"v{release}")
        touched: dict[str, None] = {}
        for stored in source.stored(release):
            content |= _files(config.root, stored)
            tree = _applied(config.root, stored, tree, touched)
        rows = []
        for path in sorted(touched):
            old, new = before.files.get(path), tree.files.get(path)
            if old is not None:
                base[f"v{release}/{path}"] = old
            rows.append({"path": path, "before": _sha256(old), "after": _sha256(new)})
        tables.append({"release": release, "files": rows})
    content[BASE] = _zipped(base)
    document = {
        "schema": SCHEMA,
        "patchkit": tool,
        "series": list(config.series),
        "selections": {name: list(patches) for name, patches in config.selections.items()},
        "releases": tables,
        "contents": {path: digest(data) for path, data in sorted(content.items())},
    }
    return {EXPORT: format_document(document), **dict(sorted(content.items()))}


def read_export(folder: Path) -> Source:
    """Return an exported series, every file of it as `export.json` says.

    Raises PatchkitError for a folder that is none, and for a file that was changed.
    """
    place = folder / EXPORT
    if not place.is_file():
        raise PatchkitError(
            f"holds no {EXPORT}",
            place=str(folder),
            expected="an exported series",
            hint="`patchkit export-series --output DIR` writes one",
        )
    try:
        document = json.loads(read_file(place))
        if document["schema"] != SCHEMA:
            raise PatchkitError(
                f"schema is {document['schema']!r}", place=str(place), expected=SCHEMA
            )
        for path, expected in document["contents"].items():
            found = digest(read_file(folder / path))
            if found != expected:
                raise PatchkitError(
                    f"has sha256 {found}",
                    place=str(folder / path),
                    expected=f"{expected} as in {EXPORT}",
                    hint="an export is not edited; make a new one from the repository",
                )
        files = {
            table["release"]: {f["path"]: (f["before"], f["after"]) for f in table["files"]}
            for table in document["releases"]
        }
        selections = {name: tuple(patches) for name, patches in document["selections"].items()}
        return Source(folder, tuple(document["series"]), selections, files, True)
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise PatchkitError("cannot be read", place=str(place), expected=SCHEMA) from err


def _files(root: Path, stored: Stored) -> dict[str, bytes]:
    """Return the files of one release folder, `same-as` written out, and its overlay's sources."""
    folder = release_folder(stored.folder, stored.release)
    found = {f"{folder}/{name}": data for name, data in format_series(stored.series).items()}
    for entry in stored.series.overlay.entries if stored.series.overlay else ():
        found[entry.source] = read_file(root / entry.source)
    return found


def _applied(root: Path, stored: Stored, tree: SourceTree, touched: dict[str, None]) -> SourceTree:
    overlay = stored.series.overlay
    tree, clashes = with_overlay(root, stored, tree)
    if clashes:
        raise PatchkitError(
            f"the release has {', '.join(clashes)} already", place=f"{stored.place}/overlay.toml"
        )
    touched.update(dict.fromkeys(entry.path for entry in overlay.entries) if overlay else {})
    for name, data in stored.series.patches.items():
        patch = resolve_roots(parse_patch(data, f"{stored.place}/{name}"), tree)[0]
        tree, plan = apply_shipped(patch, tree)
        for file in plan.files:
            paths = (file.section.old_path, file.section.new_path)
            touched.update(dict.fromkeys(path for path in paths if path))
    return tree


def _zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), content)
    return buffer.getvalue()


def _sha256(content: bytes | None) -> str | None:
    return None if content is None else digest(content)
