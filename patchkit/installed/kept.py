"""What an applied series leaves beside RECORD: what was done, and all that is needed to undo it.

`applied.json`, in the shape of docs/schema/applied-1.json, and `kept.zip` with the files as they
were before and the patches as they were applied. The same inputs give the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.installed.site import Site
from patchkit.wheel.provenance import PROVENANCE, digest

SCHEMA = "patchkit.applied/1"
APPLIED = "applied.json"
KEPT = "kept.zip"
_BEFORE, _PATCHES = "before/", "patches/"
# The earliest time that a zip archive can hold: the bytes must not depend on the clock.
_TIME = (1980, 1, 1, 0, 0, 0)
Key = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """One file of the site; digests are sha256 in hex, None where there is no file.

    `mode` and `mtime_ns` are those of the file before.
    """

    path: str
    before: str | None
    after: str | None
    mode: int | None = None
    mtime_ns: int | None = None


@dataclass(frozen=True)
class Identity:
    """Which patches and overlay files went in, each with the sha256 of its stored text."""

    patches: tuple[tuple[str, str], ...]
    overlay: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Applied:
    """A series that is in a site.

    `document` is the whole `applied.json` or, where the wheel was patched before it was installed,
    `provenance.json`; `in_place` tells them apart. `folders` were made for new files. `before`
    holds the files as they were, `texts` the patches by (series folder, name).
    """

    document: Mapping[str, Any]
    in_place: bool
    release: str
    changes: tuple[Change, ...]
    identity: Identity
    folders: tuple[str, ...] = ()
    before: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    texts: Mapping[Key, bytes] = field(default_factory=dict, repr=False)


def pack(before: Mapping[str, bytes], texts: Mapping[Key, bytes]) -> bytes:
    """Return the archive of what is kept."""
    buffer = io.BytesIO()
    members = {f"{_BEFORE}{path}": content for path, content in before.items()}
    members |= {f"{_PATCHES}{folder}/{name}": data for (folder, name), data in texts.items()}
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            # stored: no two zlibs promise the same bytes, and a series touches little
            archive.writestr(zipfile.ZipInfo(name, _TIME), content)
    return buffer.getvalue()


def unpack(content: bytes, place: str) -> tuple[dict[str, bytes], dict[Key, bytes]]:
    """Return the files and the patches in an archive of `pack`."""
    before: dict[str, bytes] = {}
    texts: dict[Key, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                if name.startswith(_BEFORE):
                    before[name.removeprefix(_BEFORE)] = archive.read(name)
                elif name.startswith(_PATCHES):
                    folder, _, patch = name.removeprefix(_PATCHES).rpartition("/")
                    texts[folder, patch] = archive.read(name)
    except (zipfile.BadZipFile, ValueError, KeyError, NotImplementedError) as err:
        raise PatchkitError("cannot be read", place=place, expected="what patchkit kept") from err
    return before, texts


def read_applied(site: Site) -> Applied | None:
    """Return the series that is in a site, by what lies beside RECORD; None where none is.

    Raises PatchkitError where that was damaged.
    """
    place = f"{site.state}/{APPLIED}"
    content = site.read(place)
    if content is not None:
        return _in_place(site, content, str(site.root / place))
    if site.dist_info is None:
        return None
    place = f"{site.dist_info}/{PROVENANCE}"
    content = site.read(place)
    return None if content is None else parse_provenance(content, str(site.root / place))


def parse_provenance(content: bytes, place: str) -> Applied:
    """Return what the provenance of a patched wheel says, without the files and the patches."""
    document = _parse(content, place, "patchkit.provenance/1")
    try:
        releases = {series["release"] for series in document["series"]}
        release = releases.pop()
        changes = tuple(Change(f["path"], f["before"], f["after"]) for f in document["files"])
        return Applied(document, False, release, changes, identity_of(document["series"]))
    except (KeyError, TypeError) as err:
        raise _damaged(place, "patchkit.provenance/1") from err


def _in_place(site: Site, content: bytes, place: str) -> Applied:
    document = _parse(content, place, SCHEMA)
    kept_place = f"{site.state}/{KEPT}"
    kept = site.read(kept_place)
    try:
        if kept is None or digest(kept) != document["kept"]:
            fact = "is missing" if kept is None else f"has sha256 {digest(kept)}"
            raise PatchkitError(
                fact,
                place=str(site.root / kept_place),
                expected=f"{document['kept']}, as {APPLIED} says",
                hint="it was changed; only a new install brings the original files back",
            )
        before, texts = unpack(kept, str(site.root / kept_place))
        changes = tuple(
            Change(f["path"], f["before"], f["after"], f["mode"], f["mtime_ns"])
            for f in document["files"]
        )
        return Applied(
            document, True, document["release"], changes, identity_of(document["series"]),
            tuple(document["folders"]), before, texts,
        )  # fmt: skip
    except (KeyError, TypeError) as err:
        raise _damaged(place, SCHEMA) from err


def identity_of(series: list[dict[str, Any]]) -> Identity:
    """Return which patches a document's `series` names."""
    patches, overlay = [], []
    for entry in series:
        patches += [(f"{entry['folder']}/{p['name']}", p["sha256"]) for p in entry["patches"]]
        overlay += [(file["path"], file["sha256"]) for file in entry["overlay"]]
    return Identity(tuple(patches), tuple(overlay))


def _parse(content: bytes, place: str, schema: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as err:
        raise _damaged(place, schema) from err
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise _damaged(place, schema)
    return document


def _damaged(place: str, schema: str) -> PatchkitError:
    return PatchkitError("cannot be read", place=place, expected=schema)
