"""Patches as they are to be stored, and the release folder that they make, proven and canonical."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.diff import FilePatch, Patch, format_patch, parse_patch
from patchkit.editing.decisions import Decided, move_decisions
from patchkit.editing.stack import Layer
from patchkit.placing.plan import PatchPlan
from patchkit.repository.applied import apply_shipped, canonical_sections
from patchkit.repository.store import Stored
from patchkit.series.anchor import format_anchors, generate_anchors
from patchkit.series.anchoring import renewed, stored_overrides
from patchkit.series.overlay import format_overlay
from patchkit.series.series import (
    ANCHORS_SUFFIX,
    OVERLAY,
    SAME_AS,
    SERIES,
    SeriesEntry,
    anchors_name,
    format_series_file,
)
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Draft:
    """One patch to store. `origins` are the stored patches that decisions on it come from."""

    entry: SeriesEntry
    data: bytes
    origins: tuple[Layer, ...] = ()

    @property
    def name(self) -> str:
        """The name of the patch."""
        return self.entry.name

    def with_preamble(self, preamble: bytes) -> Draft:
        """Return the patch under another header."""
        patch = parse_patch(self.data, self.name)
        return replace(self, data=format_patch(replace(patch, preamble=preamble)))

    @property
    def preamble(self) -> bytes:
        """The header of the patch, as bytes."""
        return parse_patch(self.data, self.name).preamble


@dataclass(frozen=True)
class Built:
    """A series folder as it will be: its files, the patches on their trees, the tree on top.

    `lost` are the decisions of people that are about hunks which are there no more.
    """

    folder: str
    files: Mapping[str, bytes]
    layers: tuple[Layer, ...]
    tree: SourceTree
    lost: tuple[str, ...] = ()


def draft_of(layer: Layer) -> Draft:
    """Return a stored patch as it is."""
    return Draft(layer.entry, layer.data, (layer,))


def make_data(
    preamble: bytes,
    before: SourceTree,
    after: SourceTree,
    paths: Collection[str],
    rest: Sequence[FilePatch] = (),
) -> bytes:
    """Return the patch file that turns one tree into another, in the canonical form.

    `rest` are sections for what no wheel holds; they go along as they are.
    """
    return format_patch(Patch("", preamble, (*canonical_sections(before, after, paths), *rest)))


def build(stored: Stored, ground: SourceTree, drafts: Sequence[Draft], comments: str = "") -> Built:
    """Return the folder of a series, each patch applied to the one before it at its own lines.

    `comments` go to the end of the series file. Raises PatchkitError where a patch does not apply.
    """
    tree, layers = ground, []
    for draft in drafts:
        layers.append(_layer(stored, draft, tree))
        tree = layers[-1].after
    layers, lost = _anchored(drafts, layers)
    entries = _with_comments([replace(d.entry, strip=1) for d in drafts], comments)
    files = _others(stored.files)
    files[SERIES] = format_series_file(entries) if entries else comments.encode()
    for layer in layers:
        files[layer.name] = layer.data
        files[anchors_name(layer.name)] = layer.anchors or b""
    if stored.series.overlay is not None:
        known = stored.files.get(OVERLAY)
        files[OVERLAY] = known if known is not None else format_overlay(stored.series.overlay)
    return Built(stored.folder, files, tuple(layers), tree, lost)


def _layer(stored: Stored, draft: Draft, before: SourceTree) -> Layer:
    """Return a draft in the canonical form, as a layer that has no anchors yet."""
    place = f"{stored.place}/{draft.name}"
    patch = parse_patch(draft.data, place)
    after, plan = apply_shipped(patch, before)
    rest = tuple(section.file for section in plan.unshipped)
    data = make_data(patch.preamble, before, after, plan.paths, rest)
    if data != draft.data:
        _, plan = apply_shipped(parse_patch(data, place), before)
    plan = _named(plan, draft.name)
    return Layer(stored.folder, draft.entry, data, plan, before, after, None, place)


def _named(plan: PatchPlan, name: str) -> PatchPlan:
    return replace(plan, patch=replace(plan.patch, name=name))


def _anchored(
    drafts: Sequence[Draft], layers: Sequence[Layer]
) -> tuple[list[Layer], tuple[str, ...]]:
    """Return the layers with their anchors, and the decisions that are lost."""
    origins = dict.fromkeys(o for draft in drafts for o in draft.origins)
    decided = []
    for origin in origins:
        heirs = tuple(n for n, draft in enumerate(drafts) if origin in draft.origins)
        if origin.overrides and [layers[n].data for n in heirs] != [origin.data]:
            decided.append(Decided(origin.name, origin.overrides, heirs))
    moved, lost = move_decisions(decided, [layer.plan for layer in layers])
    open_ = {n for patch in decided for n in patch.heirs}
    found = []
    for number, (draft, layer) in enumerate(zip(drafts, layers, strict=True)):
        known = draft.origins[0].anchors if draft.origins else None
        place = anchors_name(layer.place)
        if number in open_ and stored_overrides(known, place) != moved[number]:
            anchors = format_anchors(generate_anchors(layer.plan), moved[number])
        else:  # of a patch that stays as it is too: the definitions around it may be others now
            anchors = renewed(known, layer.plan, place)
        found.append(replace(layer, anchors=anchors))
    return found, lost


def _with_comments(entries: list[SeriesEntry], comments: str) -> list[SeriesEntry]:
    if not entries or not comments:
        return entries
    return [*entries[:-1], replace(entries[-1], after=entries[-1].after + comments)]


def _others(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what lies in a release folder beside the series."""
    ours = (SERIES, SAME_AS, OVERLAY)
    suffixes = (".patch", ".diff", ANCHORS_SUFFIX)
    return {n: d for n, d in files.items() if n not in ours and not n.endswith(suffixes)}
