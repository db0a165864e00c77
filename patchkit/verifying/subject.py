"""What is to be verified, and against what: an installed tree, a folder or a wheel, with a series.

The series is the one that was left beside RECORD by `apply`, or by `build-wheel` in the wheel; else
one that the caller has. Nothing is imported or run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.installed.kept import Applied, parse_provenance, read_applied
from patchkit.installed.recognise import recognise
from patchkit.installed.site import Site
from patchkit.installed.source import Source
from patchkit.installed.transaction import read_journal
from patchkit.installed.tree import InstalledFiles, installed_tree
from patchkit.tree import SourceTree
from patchkit.verifying.expected import Expected, expected_files
from patchkit.verifying.verify import FileFinding, Verified, record_findings, verify_tree
from patchkit.wheel.archive import Archive, open_archive, read_archive
from patchkit.wheel.check import check_wheel
from patchkit.wheel.names import parse_wheel_name
from patchkit.wheel.provenance import KEPT, PROVENANCE, digest
from patchkit.wheel.record import parse_rows
from patchkit.wheel.sbom import SBOM
from patchkit.wheel.tree import wheel_tree

Key = tuple[str, str]
OpenTree = Callable[[str], SourceTree]


@dataclass(frozen=True)
class Given:
    """A series that the caller has, `release` where a person named one."""

    source: Source
    release: str | None = None
    open_tree: OpenTree | None = None


@dataclass(frozen=True)
class Report:
    """What was verified, `against` which series; `note` says how a release was found."""

    kind: str
    place: str
    distribution: str | None
    version: str | None
    release: str
    against: str
    verified: Verified
    expected: Expected
    note: str | None = None


def verify_site(site: Site, given: Given | None) -> Report:
    """Return what an installed tree or a folder holds.

    Raises PatchkitError where no series is recorded and none is given, and where what was recorded
    cannot be read.
    """
    tree = installed_tree(site)
    rows = site.rows()
    applied = read_applied(site) if given is None else None
    note = None
    if applied is not None:
        release, against = applied.release, "applied" if applied.in_place else "provenance"
        if not applied.in_place:
            assert site.dist_info is not None
            info = site.dist_info
            applied = _with_contents(applied, lambda file: site.read(f"{info}/{file}"), site.place)
        expected = _recorded(applied, tree, site.place)
    else:
        release, expected, note = _given(given, tree, site.distribution or site.place, site.place)
        against = "series"
    others = list(_broken_off(site))
    if rows:
        digests = {
            path: row.digest for path, row in rows.items()
            if row.digest and path.startswith(f"{site.package}/") and not path.endswith(".pyc")
        }  # fmt: skip
        touched = frozenset((*expected.files, *expected.overlay))
        others += record_findings(digests, tree, touched)
        others += _resized(tree, {path: rows[path].size_bytes for path in digests})
    verified = verify_tree(expected, tree, tuple(others))
    kind = "installed" if site.dist_info else "folder"
    return Report(
        kind, site.place, site.distribution, tree.version, release, against, verified,
        expected, note,
    )  # fmt: skip


def verify_wheel(path: Path, given: Given | None) -> Report:
    """Return what a wheel holds, which passes the strict check of `build-wheel` first."""
    archive = open_archive(path)
    name = parse_wheel_name(path.name)
    check_wheel(archive, path.name)
    members, info = archive.by_name, name.dist_info
    record = archive.read(members[f"{info}/RECORD"])
    rows = {row.path: row for row in parse_rows(record, f"{path}: RECORD")}
    tree = wheel_tree(archive, rows, str(path))
    provenance = members.get(f"{info}/{PROVENANCE}")
    note, against = None, "provenance"
    if given is None and provenance is not None:
        applied = parse_provenance(archive.read(provenance), f"{path}: {PROVENANCE}")
        applied = _with_contents(
            applied, lambda file: _member(archive, f"{info}/{file}"), str(path)
        )
        release, expected = applied.release, _recorded(applied, tree, str(path))
    else:
        release, expected, note = _given(given, tree, name.distribution, str(path))
        against = "series"
    verified = verify_tree(expected, tree)
    return Report(
        "wheel", str(path), name.distribution.replace("_", "-"), name.version, release, against,
        verified, expected, note,
    )  # fmt: skip


def _member(archive: Archive, name: str) -> bytes | None:
    member = archive.by_name.get(name)
    return None if member is None else archive.read(member)


def _with_contents(applied: Applied, read: Callable[[str], bytes | None], place: str) -> Applied:
    """Return what a wheel's provenance says, with the files and patches that the wheel holds."""
    kept, bill = read(KEPT), read(SBOM)
    if kept is None or bill is None:
        missing = KEPT if kept is None else SBOM
        raise PatchkitError(f"{missing} is missing", place=place, hint="give the series: --series")
    archive = read_archive(kept, f"{place}: {KEPT}")
    before = {member.name: archive.read(member) for member in archive.members}
    return replace(applied, before=before, texts=_patch_texts(applied, bill, place))


def _patch_texts(applied: Applied, bill: bytes, place: str) -> dict[Key, bytes]:
    """Return the patches in a wheel's SBOM by (series, name), each of the sha256 that was noted."""
    try:
        entries = json.loads(bill)["metadata"]["component"]["pedigree"]["patches"]
        texts = {digest(t): t for t in (_text(entry) for entry in entries)}
    except (ValueError, KeyError, TypeError) as err:
        raise PatchkitError("cannot be read", place=f"{place}: {SBOM}") from err
    found: dict[Key, bytes] = {}
    for name, sha256 in applied.identity.patches:
        if sha256 not in texts:
            raise PatchkitError(
                f"holds no text of {name} with the sha256 that its provenance names",
                place=f"{place}: {SBOM}",
                hint="give the series: --series",
            )
        folder, _, patch = name.rpartition("/")
        found[folder, patch] = texts[sha256]
    return found


def _text(entry: Mapping[str, Any]) -> bytes:
    return str(entry["diff"]["text"]["content"]).encode()


def _recorded(applied: Applied, tree: SourceTree, place: str) -> Expected:
    """Return what the recorded series makes of the files as they were kept."""
    base = tree.with_changes(
        {change.path: applied.before.get(change.path) for change in applied.changes}
    )
    overlay = _overlay(applied.document)
    texts = {key: data for key, data in applied.texts.items() if data}
    expected = expected_files(texts, base, overlay, allow_offset=True)
    after = {change.path: change.after for change in applied.changes}
    for path, file in expected.files.items():
        content = file.content
        found = None if content is None else digest(content)
        if path in after and found != after[path]:
            raise PatchkitError(
                f"the recorded patches do not give the recorded {path}",
                place=place,
                expected=f"sha256 {after[path]}",
                hint="give the series: --series",
            )
    return expected


def _overlay(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (series["folder"], file["path"], file["sha256"])
        for series in document["series"]
        for file in series["overlay"]
    ]


def _given(
    given: Given | None, tree: SourceTree, name: str, place: str
) -> tuple[str, Expected, str | None]:
    """Return the release that a tree is taken for, and what the given series makes of it."""
    if given is None:
        raise PatchkitError(
            "no series is recorded in it",
            place=place,
            hint="--series or --release says what it is to be held against",
        )
    found = recognise(given.source, tree, name, given.release)
    stored = given.source.stored(found.release)
    if given.source.is_export:
        files = given.source.base(found.release)
        known = given.source.files.get(found.release, {})
        base = tree.with_changes({path: files.get(path) for path in known})
    else:
        assert given.open_tree is not None
        base = given.open_tree(f"v{found.release}")
    patches = {(s.folder, n): data for s in stored for n, data in s.series.patches.items()}
    overlay = [
        (s.folder, entry.path, entry.sha256)
        for s in stored
        for entry in (s.series.overlay.entries if s.series.overlay else ())
    ]
    return found.release, expected_files(patches, base, overlay), found.note


def _broken_off(site: Site) -> list[FileFinding]:
    journal = read_journal(site)
    if journal is None:
        return []
    text = f"{journal['name']} was broken off; `patchkit {journal['name']}` finishes it"
    return [FileFinding(site.work, "unfinished", text)]


def _resized(tree: SourceTree, sizes: Mapping[str, int | None]) -> list[FileFinding]:
    """Return the compiled files that have another size; 700 MB of CUDA are not read for it."""
    files = tree.files
    assert isinstance(files, InstalledFiles)
    return [
        FileFinding(path, "edited", f"has {found} bytes, RECORD says {sizes[path]}")
        for path, found in files.left_sizes.items()
        if sizes.get(path) is not None and sizes[path] != found
    ]
