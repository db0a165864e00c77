"""Everything that is stored for one release, patch by patch, on the tree that each was made on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchkit.config import Config
from patchkit.diff import parse_patch
from patchkit.diff.header import Header, parse_header
from patchkit.errors import PatchkitError, UsageError
from patchkit.placing.plan import PatchPlan
from patchkit.repository.applied import apply_shipped, with_overlay
from patchkit.repository.move import OpenTree
from patchkit.repository.store import (
    Stored,
    held_releases,
    not_stored,
    read_stored,
    stored_releases,
)
from patchkit.series.anchoring import stored_overrides
from patchkit.series.override import Overrides
from patchkit.series.selection import same_patch
from patchkit.series.series import SeriesEntry, anchors_name
from patchkit.tree import SourceTree
from patchkit.upstream.pins import normalise_version


@dataclass(frozen=True, eq=False)
class Layer:
    """One stored patch with the trees before and after it; sections that do not ship are left."""

    folder: str
    entry: SeriesEntry
    data: bytes
    plan: PatchPlan
    before: SourceTree
    after: SourceTree
    anchors: bytes | None
    place: str

    @property
    def name(self) -> str:
        """The name of the patch in its folder."""
        return self.entry.name

    @property
    def header(self) -> Header:
        """The header of the patch."""
        return parse_header(self.plan.patch.preamble, self.place)

    @property
    def overrides(self) -> Overrides:
        """What people decided on the patch."""
        return stored_overrides(self.anchors, anchors_name(self.place))

    @property
    def paths(self) -> frozenset[str]:
        """The files that the patch changes."""
        return self.plan.paths


@dataclass(frozen=True, eq=False)
class Stack:
    """The series folders of one release in the order in which they compose.

    `grounds` are the trees that the patches of each folder begin on: the release, with the folders
    before it and the folder's own overlay.
    """

    release: str
    pristine: SourceTree
    stored: Mapping[str, Stored]
    grounds: Mapping[str, SourceTree]
    layers: tuple[Layer, ...]

    def of(self, folder: str) -> tuple[Layer, ...]:
        """Return the layers of one folder."""
        return tuple(layer for layer in self.layers if layer.folder == folder)

    @property
    def base(self) -> SourceTree:
        """The release with the new files of all overlays, and no patch."""
        files: dict[str, bytes | None] = {}
        for folder, stored in self.stored.items():
            overlay = stored.series.overlay
            paths = [entry.path for entry in overlay.entries] if overlay is not None else []
            files |= {path: self.grounds[folder].files[path] for path in paths}
        return self.pristine.with_changes(files)

    def top(self, folder: str) -> SourceTree:
        """Return the tree with a folder, and those before it, applied."""
        layers = self.of(folder)
        return layers[-1].after if layers else self.grounds[folder]

    def above(self, folder: str) -> tuple[str, ...]:
        """Return the folders that come after one."""
        names = list(self.stored)
        return tuple(names[names.index(folder) + 1 :])


def open_stack(config: Config, release: str, open_tree: OpenTree) -> Stack:
    """Return what all series folders store for a release.

    Raises PatchkitError where a patch does not apply at the very lines that it names.
    """
    pristine = open_tree(f"v{release}")
    tree = pristine
    stored, grounds = {}, {}
    layers: list[Layer] = []
    for folder in config.series:
        if release not in stored_releases(config.root, folder):
            continue
        stored[folder] = read_stored(config.root, folder, release)
        tree, clashes = with_overlay(config.root, stored[folder], tree)
        if clashes:
            raise PatchkitError(
                f"the release has {', '.join(clashes)} already",
                place=f"{stored[folder].place}/overlay.toml",
            )
        grounds[folder] = tree
        for entry in stored[folder].series.entries:
            layers.append(_layer(stored[folder], entry, tree))
            tree = layers[-1].after
    return Stack(release, pristine, stored, grounds, tuple(layers))


def _layer(stored: Stored, entry: SeriesEntry, before: SourceTree) -> Layer:
    place = f"{stored.place}/{entry.name}"
    data = stored.series.patches[entry.name]
    patch = parse_patch(data, place)
    try:
        after, plan = apply_shipped(patch, before)
    except PatchkitError as err:
        raise PatchkitError(
            f"does not apply: {err}",
            place=place,
            hint="`patchkit check` says what is wrong, and writes what only needs to be renewed",
        ) from err
    plan = replace(plan, patch=replace(plan.patch, name=entry.name))
    anchors = stored.series.anchors.get(entry.name)
    return Layer(stored.folder, entry, data, plan, before, after, anchors, place)


def find_patch(word: str, stored: Mapping[str, Stored]) -> tuple[str, str]:
    """Return the folder and name of the patch that a word means.

    Raises PatchkitError where none or several have that name.
    """
    every = [(folder, entry.name) for folder in stored for entry in stored[folder].series.entries]
    hits = [key for key in every if same_patch(word, *key)]
    if len(hits) == 1:
        return hits[0]
    places = ", ".join(one.place for one in stored.values())
    if hits:
        named = " and ".join("/".join(hit) for hit in hits)
        raise PatchkitError(f"{word!r} names {named}", place=places, expected="one patch")
    known = ", ".join(name for _, name in every) or "none"
    raise PatchkitError(f"has no patch {word!r}", place=places, hint=f"stored are: {known}")


def read_release(config: Config, folders: tuple[str, ...], release: str) -> dict[str, Stored]:
    """Return what some series folders hold for a release, which has to be something."""
    held = [name for name in folders if release in stored_releases(config.root, name)]
    if not held:
        raise not_stored(release, held_releases(config.root, folders), ", ".join(folders))
    return {name: read_stored(config.root, name, release) for name in held}


def choose_release(
    config: Config, folders: tuple[str, ...], asked: str | None, words: tuple[str, ...] = ()
) -> str:
    """Return the release that is meant: the given one, or the highest that holds all the patches.

    A release that is only the same as another one has no patches of its own.
    """
    if asked is not None:
        return normalise_version(asked)
    found: PatchkitError | None = None
    for release in reversed(held_releases(config.root, folders)):
        stored = read_release(config, folders, release)
        if all(one.same_as is not None for one in stored.values()):
            continue
        try:
            for word in words:
                find_patch(word, stored)
        except PatchkitError as err:
            found = found or err
            continue
        return release
    raise found or UsageError("no release holds patches", place=", ".join(folders))


def find_layer(config: Config, stack: Stack, folders: tuple[str, ...], word: str) -> Layer:
    """Return the patch that a word means, in one of some folders that hold their own patches."""
    stored = read_release(config, folders, stack.release)
    folder, name = find_patch(word, stored)
    own_folder(stored, folder)
    return next(layer for layer in stack.of(folder) if layer.name == name)


def own_folder(stored: Mapping[str, Stored], folder: str) -> Stored:
    """Return a stored release that holds its own patches; refuse one that borrows them."""
    one = stored[folder]
    if one.same_as is not None:
        raise PatchkitError(
            f"holds no patches: it is the same as v{one.same_as}",
            place=one.place,
            hint=f"edit that one: --release v{one.same_as}",
        )
    return one
