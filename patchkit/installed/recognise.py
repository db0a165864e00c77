"""Which stored release a tree is: decided by the content of the files that its series changes.

A version says where to look first and no more: `0.28.0+cu129` and a nightly have no release of
their name, and a local build can have any. What a series changes it names by git blob ids, those
before its first patch and those after its last, so that no release has to be fetched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from patchkit.diff import blob_id, parse_patch
from patchkit.diff.model import FileChange
from patchkit.errors import PatchkitError
from patchkit.installed.source import Source
from patchkit.profile import Section
from patchkit.repository.store import Stored, not_stored
from patchkit.tree import SourceTree
from patchkit.vllm.profile import VLLM


@dataclass(frozen=True)
class Likeness:
    """How a tree compares with one stored release.

    `pristine` are the files that are as they were before the series, `patched` those that are as
    they are after it, `other` the rest.
    """

    release: str
    pristine: tuple[str, ...]
    patched: tuple[str, ...]
    other: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the series goes onto the tree, as it is."""
        return not self.other and not self.patched


@dataclass(frozen=True)
class Recognised:
    """The release that a tree is taken for, how far it is that, and what to say of it."""

    likeness: Likeness
    note: str | None = None

    @property
    def release(self) -> str:
        """The release."""
        return self.likeness.release


def recognise(source: Source, tree: SourceTree, place: str, asked: str | None = None) -> Recognised:
    """Return the stored release that a tree is nearest to; `asked` is one that a person named.

    The release of the tree's own version is taken where one is stored. Else the one with the most
    files in common, and of equals the highest that is not above the version. Raises PatchkitError
    where none is stored, and where the version is that of a release for which none is.
    """
    releases = source.releases()
    if not releases:
        raise PatchkitError("no series is stored", place=source.place)
    if asked is not None:
        if asked not in releases:
            raise not_stored(asked, releases, source.place)
        return Recognised(compare(source.stored(asked), tree))
    version = _parsed(tree.version)
    name = f"{place} is {tree.version}" if tree.version else f"{place} does not say its version"
    if version is not None and str(version) in releases:
        likeness = compare(source.stored(str(version)), tree)
        note = None if likeness.fits else f"{name}, but {_unlike(likeness)} not that release's"
        return Recognised(likeness, note)
    found = [compare(source.stored(release), tree) for release in releases]
    best = max(found, key=lambda one: _rank(one, version))
    is_release = version is not None and not version.local and not version.is_devrelease
    if is_release and not best.fits:
        raise not_stored(str(version), releases, source.place)
    if not best.fits:
        note = f"{name}; v{best.release} is nearest to it, but {_unlike(best)} not that release's"
    elif len(best.pristine) == 1:
        note = f"{name}; the one file that the series changes is that of v{best.release}"
    else:
        count = len(best.pristine)
        note = f"{name}; all {count} files that the series changes are those of v{best.release}"
    return Recognised(best, note)


def _unlike(likeness: Likeness) -> str:
    paths = (*likeness.other, *likeness.patched)
    return f"{', '.join(paths)} {'is' if len(paths) == 1 else 'are'}"


def compare(stored: Sequence[Stored], tree: SourceTree) -> Likeness:
    """Return how a tree compares with what stored series make of their release."""
    groups: dict[str, list[str]] = {"pristine": [], "patched": [], "other": []}
    for path, (before, after) in touched(stored).items():
        content = tree.files.get(path)
        if _is(content, before):
            groups["pristine"].append(path)
        elif _is(content, after):
            groups["patched"].append(path)
        else:
            groups["other"].append(path)
    return Likeness(stored[0].release, *(tuple(group) for group in groups.values()))


def touched(stored: Sequence[Stored]) -> dict[str, tuple[str | None, str | None]]:
    """Return the files that series change: their blob ids before and after, None for no file.

    An overlay's file is known by its sha256 instead. An id is "" where a patch names none.
    """
    found: dict[str, tuple[str | None, str | None]] = {}

    def note(path: str, before: str | None, after: str | None) -> None:
        found[path] = (found[path][0] if path in found else before, after)

    for series in stored:
        overlay = series.series.overlay
        for entry in overlay.entries if overlay else ():
            note(entry.path, None, entry.sha256)
        for name, data in series.series.patches.items():
            for file in parse_patch(data, f"{series.place}/{name}").files:
                if not _is_shipped(file.path, file.old_path):
                    continue
                old_id, new_id = file.old_id or "", file.new_id or ""
                if file.old_path is not None and file.change is not FileChange.COPY:
                    gone = file.new_path != file.old_path
                    note(file.old_path, old_id, None if gone else new_id)
                if file.new_path is not None and file.new_path != file.old_path:
                    note(file.new_path, None, new_id)
    return found


def _is_shipped(*paths: str | None) -> bool:
    return any(path and VLLM.classify(path) is Section.SHIPPED for path in paths)


def _is(content: bytes | None, wanted: str | None) -> bool:
    """Return whether a content is that of an id; "" is not known, and so is any content's."""
    if content is None or wanted is None:
        return content is None and wanted is None
    if len(wanted) == 64:
        return hashlib.sha256(content).hexdigest() == wanted
    return blob_id(content).startswith(wanted)


def _rank(one: Likeness, version: Version | None) -> tuple[bool, int, bool, Version]:
    release = Version(one.release)
    below = version is not None and release <= version
    order = release if below or version is None else Version("0")
    return one.fits, len(one.pristine) - len(one.other), below, order


def _parsed(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None


def check_pristine(
    likeness: Likeness, expected: Mapping[str, tuple[str | None, str | None]], tree: SourceTree
) -> None:
    """Raise unless each file is what an export says that it is before its series."""
    for path, (before, _) in expected.items():
        content = tree.files.get(path)
        found = None if content is None else hashlib.sha256(content).hexdigest()
        if found != before:
            raise PatchkitError(
                f"has sha256 {found}" if found else "is missing",
                place=path,
                expected=f"{before}, that of v{likeness.release}" if before else "no such file",
                hint="without the repository a series goes only onto the files it was made on",
            )
