"""Adopted patches at the end of a stored series: the folder as it is to be, and what needs what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.adopting.adopt import Adopted
from patchkit.adopting.heading import with_needs
from patchkit.config import Config
from patchkit.diff import format_patch, parse_patch
from patchkit.errors import PatchkitError
from patchkit.repository.needs import plan_stored
from patchkit.repository.store import Stored, read_stored, release_folder, stored_releases
from patchkit.repository.workspace import read_folder
from patchkit.series.series import (
    SAME_AS,
    SERIES,
    Series,
    SeriesEntry,
    format_series,
    parse_series_file,
    read_series,
)
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Merged:
    """A release folder with the adopted patches in it; `needs` are what each was found to need."""

    place: str
    content: Mapping[str, bytes]
    needs: Mapping[str, tuple[str, ...]]


def merge(
    config: Config, folder: str, release: str, adopted: Sequence[Adopted], tree: SourceTree
) -> Merged:
    """Return a release folder with patches appended to its series, and declared what they need.

    `tree` is the bare release. Raises PatchkitError where a name is taken, and where the folder
    holds no series of its own.
    """
    place = release_folder(folder, release)
    path = config.root / place
    there = read_folder(path) if path.is_dir() else {}
    series = _appended(_there(there, release, place), adopted, place)
    needs = _needs(config, Stored(folder, release, there, series), adopted, tree)
    for name, needed in needs.items():
        series = replace(series, patches={**series.patches, name: _declaring(series, name, needed)})
    content = {**there, **format_series(series)}
    content[SERIES] = _opening(there) + content[SERIES]
    return Merged(place, content, needs)


def _there(there: Mapping[str, bytes], release: str, place: str) -> Series:
    if SAME_AS in there:
        raise PatchkitError(
            f"holds only {SAME_AS}: the series of another release applies here",
            place=place,
            hint="import into that release, or remove the file first",
        )
    return read_series(there, version=release, place=place) if there else Series(release)


def _opening(there: Mapping[str, bytes]) -> bytes:
    """Return the comments of a series file that lists nothing yet."""
    data = there.get(SERIES, b"")
    return b"" if parse_series_file(data, SERIES) else data


def _appended(series: Series, adopted: Sequence[Adopted], place: str) -> Series:
    stored = {name.casefold() for name in series.patches}
    for patch in adopted:
        if patch.name.casefold() in stored:
            raise PatchkitError(
                f"a patch {patch.name} is stored already",
                place=f"{place}/{SERIES}",
                hint="give the file another name; what is stored is never replaced by an import",
            )
    return replace(
        series,
        entries=(*series.entries, *(SeriesEntry(patch.name) for patch in adopted)),
        patches={**series.patches, **{patch.name: patch.data for patch in adopted}},
        anchors={**series.anchors, **{patch.name: patch.anchors for patch in adopted}},
    )


def _needs(
    config: Config, stored: Stored, adopted: Sequence[Adopted], tree: SourceTree
) -> dict[str, tuple[str, ...]]:
    """Return what each adopted patch needs of earlier ones and does not declare."""
    stack = [read_stored(config.root, name, stored.release) for name in _below(config, stored)]
    planned = plan_stored(config.root, [*stack, stored], tree)
    graph = planned.graph()
    undeclared = {(link.later, link.earlier) for link in graph.undeclared}
    pairs = {(pair.later.patch, pair.earlier.patch) for pair in planned.same_statements()}
    found: dict[str, tuple[str, ...]] = {}
    for patch in adopted:
        called = planned.names[stored.folder, patch.name]
        needed = {one for one in graph.parents(called) if (called, one) in undeclared}
        needed |= {earlier for later, earlier in pairs if later == called}
        if needed:
            order = [name for name in planned.names.values() if name in needed]
            found[patch.name] = tuple(name.removesuffix(".patch") for name in order)
    return found


def _below(config: Config, stored: Stored) -> list[str]:
    """Return the series folders that come before one and hold the release."""
    folders = list(config.series)
    if stored.folder in folders:
        folders = folders[: folders.index(stored.folder)]
    return [name for name in folders if stored.release in stored_releases(config.root, name)]


def _declaring(series: Series, name: str, needed: Sequence[str]) -> bytes:
    patch = parse_patch(series.patches[name], name)
    return format_patch(replace(patch, preamble=with_needs(patch.preamble, name, needed)))
