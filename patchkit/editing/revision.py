"""A release as it is to be stored after an edit: every series folder that the edit reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.editing.carried import carry
from patchkit.editing.draft import Built, Draft, build, draft_of
from patchkit.editing.stack import Layer, Stack
from patchkit.errors import PatchkitError
from patchkit.repository.store import Stored
from patchkit.stacking.rebase import Progress
from patchkit.tree import SourceTree


@dataclass(frozen=True, eq=False)
class Revision:
    """What is to be written for one release, and what people should know of it.

    `changes` say of each patch what becomes of it; a patch that stays as it is, is not there.
    """

    stack: Stack
    built: Mapping[str, Built]
    changes: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    others: Mapping[str, Mapping[str, bytes]] | None = None  # folders of other releases

    @property
    def lost(self) -> tuple[str, ...]:
        """The decisions of people that go with the hunks that they were on."""
        return tuple(text for built in self.built.values() for text in built.lost)

    @property
    def tree(self) -> SourceTree:
        """The release with all that is stored then."""
        return self.built[list(self.stack.stored)[-1]].tree

    def files(self) -> dict[str, Mapping[str, bytes]]:
        """Return each release folder that changes, with all that it is to hold."""
        found = {}
        for folder, built in self.built.items():
            stored = self.stack.stored[folder]
            if dict(built.files) != dict(stored.files) and stored.same_as is None:
                found[stored.place] = built.files
        return {**found, **(self.others or {})}


def revise(
    stack: Stack,
    folder: str,
    drafts: Sequence[Draft],
    *,
    change: str,
    comments: str = "",
    pointed: Callable[[Draft, Stored], Draft] = lambda draft, _: draft,
    accept_drift: bool = False,
    progress: Progress | None = None,
) -> Revision:
    """Return a release with the patches of one folder replaced, the folders above carried over.

    `pointed` returns a patch of a folder above with what its header names brought up to date.
    """
    built = {folder: build(stack.stored[folder], stack.grounds[folder], drafts, comments)}
    for above in stack.above(folder):
        stored = stack.stored[above]
        below = list(built)[-1]
        old, new = stack.grounds[above], _with_overlay(stack, above, built[below].tree)
        layers = stack.of(above)
        if same_on(_touched(stack, built, above), old, new):
            same = [draft_of(layer) for layer in layers]
            drafts = [pointed(draft, stored) for draft in same]
            if drafts == same:
                built[above] = _as_it_is(stack, above)
                continue
        else:
            moved, _ = carry(
                stored, layers, old, new,
                change=change, accept_drift=accept_drift, progress=progress,
            )  # fmt: skip
            drafts = [pointed(draft, stored) for draft in moved]
        built[above] = build(stored, new, drafts)
        if stored.same_as is not None and texts(built[above].layers) != texts(layers):
            raise PatchkitError(
                f"would have to change, and is the same as v{stored.same_as}",
                place=stored.place,
                hint="nothing was changed; store a series of its own there first",
            )
    for below in reversed(list(stack.stored)):
        if below not in built:
            built[below] = _as_it_is(stack, below)
    return Revision(stack, built, _changes(stack, built))


def _as_it_is(stack: Stack, folder: str) -> Built:
    return Built(folder, stack.stored[folder].files, stack.of(folder), stack.top(folder))


def _touched(stack: Stack, built: Mapping[str, Built], above: str) -> set[str]:
    """The files that what lies below a folder changes, as it was or as it will be."""
    layers = [one for one in stack.layers if one.folder not in stack.above(above)]
    layers += [one for each in built.values() for one in each.layers]
    return {path for layer in layers for path in layer.paths}


def same_on(paths: Iterable[str], one: SourceTree, other: SourceTree) -> bool:
    """Return whether two trees have the same files, with the same modes, at some paths."""
    return all(
        one.files.get(path) == other.files.get(path)
        and (path not in one.files or one.mode(path) == other.mode(path))
        for path in paths
    )


def with_layers(
    stack: Stack, folder: str, drafts: Sequence[Draft]
) -> tuple[Stack, tuple[str, ...]]:
    """Return a stack with the patches of one folder replaced, and the decisions that are lost.

    What is above the folder is not looked at.
    """
    built = build(stack.stored[folder], stack.grounds[folder], drafts)
    layers: list[Layer] = []
    for name in stack.stored:
        layers += built.layers if name == folder else stack.of(name)
    return replace(stack, layers=tuple(layers)), built.lost


def texts(layers: Iterable[Layer]) -> list[bytes]:
    """Return the patch files of some layers."""
    return [layer.data for layer in layers]


def _with_overlay(stack: Stack, folder: str, tree: SourceTree) -> SourceTree:
    """Return a tree with the new files of a folder, as the stack has them."""
    overlay = stack.stored[folder].series.overlay
    ground = stack.grounds[folder]
    paths = [entry.path for entry in overlay.entries] if overlay is not None else []
    taken = [path for path in paths if path in tree.files]
    if taken:
        place = f"{stack.stored[folder].place}/overlay.toml"
        raise PatchkitError(f"{', '.join(taken)} would be there already", place=place)
    return tree.with_changes({path: ground.files[path] for path in paths})


def _changes(stack: Stack, built: Mapping[str, Built]) -> tuple[tuple[str, str], ...]:
    """Return what becomes of each patch, in words, where it does not stay as it is."""
    several = len(stack.stored) > 1
    found = []
    for folder in stack.stored:
        before = {layer.name: layer.data for layer in stack.of(folder)}
        after = {layer.name: layer.data for layer in built[folder].layers}
        for name in (*after, *(name for name in before if name not in after)):
            if name not in before:
                what = "new"
            elif name not in after:
                what = "gone"
            elif before[name] != after[name]:
                what = "changed"
            else:
                continue
            found.append((f"{folder}/{name}" if several else name, what))
    return tuple(found)
