"""Stored series by one spelling: a release, a folder, or a folder of a git commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from patchkit.config import Config
from patchkit.diff import parse_patch
from patchkit.errors import PatchkitError
from patchkit.knowing.changes import Section, sections_of
from patchkit.repository.log import Fate, LoggedRebase, read_log
from patchkit.repository.store import held_releases, not_stored, read_stored, stored_releases
from patchkit.repository.workspace import read_folder
from patchkit.series.contents import PatchContents, read_contents
from patchkit.series.overlay import Overlay
from patchkit.series.series import SAME_AS, SERIES, Series, left_out_reason, read_series
from patchkit.upstream.pins import normalise_version

_GIT = "git:"
_FORMS = "a stored release, a folder with a `series`, or git:REPO@REF:FOLDER"
ReadGit = Callable[[str], Mapping[str, bytes]]


@dataclass(frozen=True)
class SidePatch:
    """One patch of a series: what it holds, and what it changes."""

    name: str
    contents: PatchContents
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Side:
    """One of two series to be compared.

    A name has its series folder in front where several folders make up the release. `comments` are
    those of the series files, which may say why a patch is not there; `left_out` is what the log of
    rebases says of that.
    """

    name: str
    patches: Mapping[str, SidePatch]
    overlay: Mapping[str, str]
    comments: str
    left_out: Mapping[str, str] = field(default_factory=dict)

    def why_not(self, patch: str) -> str | None:
        """Return why a patch is not there, None where nothing says so."""
        said = left_out_reason(patch.rpartition("/")[2], self.comments)
        return said if said is not None else self.left_out.get(patch)


def read_side(config: Config, folders: tuple[str, ...], spec: str, read_git: ReadGit) -> Side:
    """Return the series that a spelling names.

    `folders` are the series folders that a release is looked for in; `read_git` gives the files of
    a commit. Raises PatchkitError where there is no series of that name.
    """
    if spec.startswith(_GIT):
        return _from_git(spec, read_git)
    release = _release(spec)
    if release is None:
        return _from_folder(Path(spec))
    held = [f for f in folders if release in stored_releases(config.root, f)]
    if not held:
        raise not_stored(release, held_releases(config.root, folders), ", ".join(folders))
    parts, left_out = [], {}
    for folder in held:
        front = f"{folder}/" if len(held) > 1 else ""
        for name, reason in logged_reasons(read_log(config.root, folder), release).items():
            left_out[front + name] = reason
        stored = read_stored(config.root, folder, release)
        comments = stored.files.get(SERIES, b"").decode("utf-8", "replace")
        parts.append((front, stored.place, stored.series, comments))
    return replace(_side(f"v{release}", parts), left_out=left_out)


_FATES = {Fate.UPSTREAM: "upstream had all of it", Fate.SKIPPED: "skipped by a person"}


def logged_reasons(log: Iterable[LoggedRebase], release: str) -> dict[str, str]:
    """Return for the patches that the last rebase to a release left out why that was."""
    found: dict[str, str] = {}
    for rebase in log:
        for patch in rebase.patches if rebase.target == release else ():
            found.pop(patch.name, None)
            if patch.fate in _FATES:
                found[patch.name] = f"{_FATES[patch.fate]} in the rebase of {rebase.date}"
    return found


def _release(spec: str) -> str | None:
    """The version that a spelling names; what has a slash, and every other word, names a folder."""
    try:
        return normalise_version(spec)
    except PatchkitError:
        return None


def _from_folder(path: Path) -> Side:
    if not path.is_dir():
        raise PatchkitError("there is no series of that name", place=str(path), expected=_FORMS)

    def beside(name: str) -> Mapping[str, bytes]:
        other = path.parent / name
        return read_folder(other) if other.is_dir() else {}

    return _followed(str(path), read_folder(path), beside)


def _from_git(spec: str, read_git: ReadGit) -> Side:
    commit, _, folder = spec.removeprefix(_GIT).rpartition(":")
    if not commit or not folder.strip("/"):
        raise PatchkitError("names no folder of a commit", place=spec, expected=_FORMS)
    files = read_git(commit)

    def below(name: str) -> dict[str, bytes]:
        start = f"{name}/"
        paths = [path for path in files if path.startswith(start)]
        return {path.removeprefix(start): files[path] for path in paths}

    place = PurePosixPath(folder.strip("/"))
    found = below(str(place))
    if not found:
        raise PatchkitError("the commit has no such folder", place=spec)
    return _followed(spec, found, lambda name: below(str(place.parent / name)))


def _followed(
    place: str, files: Mapping[str, bytes], beside: Callable[[str], Mapping[str, bytes]]
) -> Side:
    """Return the series of a folder's files or, with `same-as`, of the folder beside it."""
    if SERIES not in files and SAME_AS not in files:
        raise PatchkitError("holds no series", place=place, expected=f"a file {SERIES}")
    series = read_series(files, version="0", place=place)
    if series.same_as is not None:
        version = normalise_version(series.same_as)
        other = beside(f"v{version}")
        if not other:
            raise PatchkitError(f"same-as names v{version}, which is not beside it", place=place)
        series = read_series(other, version=version, place=f"{place} (v{version})")
        if series.same_as is not None:
            raise PatchkitError(f"same-as names v{version}, which has a same-as", place=place)
    comments = files.get(SERIES, b"").decode("utf-8", "replace")
    return _side(place, [("", place, series, comments)])


def _side(name: str, parts: list[tuple[str, str, Series, str]]) -> Side:
    patches: dict[str, SidePatch] = {}
    overlay: dict[str, str] = {}
    for prefix, place, series, _ in parts:
        for patch, data in series.patches.items():
            called = prefix + patch
            patches[called] = read_patch(called, patch, data, series.anchors.get(patch), place)
        overlay |= _files(series.overlay)
    return Side(name, patches, overlay, "".join(comments for *_, comments in parts))


def read_patch(called: str, name: str, data: bytes, anchors: bytes | None, place: str) -> SidePatch:
    """Return a stored patch as a side has it, by the name that it is called there."""
    contents = read_contents(name, data, anchors, place=place)
    return SidePatch(called, contents, sections_of(parse_patch(data, f"{place}/{name}"), contents))


def _files(overlay: Overlay | None) -> dict[str, str]:
    return {entry.path: entry.sha256 for entry in overlay.entries} if overlay is not None else {}
