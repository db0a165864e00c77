"""Patches merged into another one: neighbours, or those that can be brought beside it, proven."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from patchkit.editing.carried import in_the_way, moved
from patchkit.editing.draft import Draft, draft_of, make_data
from patchkit.editing.heading import joined, with_needs
from patchkit.editing.needed import binding
from patchkit.editing.revision import same_on, with_layers
from patchkit.editing.stack import Layer, Stack
from patchkit.errors import PatchkitError
from patchkit.repository.store import Stored
from patchkit.series.selection import same_patch
from patchkit.series.series import SeriesEntry
from patchkit.stacking.dependencies import Dependency
from patchkit.stacking.rebase import RebaseResult
from patchkit.tree import SourceTree


@dataclass(frozen=True, eq=False)
class Folded:
    """The patches of a folder with one merged into another.

    `lost_fields` is what the header could not take, `lost` are decisions on hunks that are gone.
    """

    stack: Stack
    drafts: tuple[Draft, ...]
    lost_fields: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def fold(stack: Stack, folder: str, names: Sequence[str], into: str) -> Folded:
    """Return the patches of a folder with some merged into one, nearest first.

    Raises PatchkitError where a patch does not commute with one that lies between.
    """
    order = [layer.name for layer in stack.of(folder)]
    at = order.index(into)
    fields: list[str] = []
    lost: list[str] = []
    folded = Folded(stack, tuple(draft_of(one) for one in stack.of(folder)))
    for name in sorted(names, key=lambda name: abs(order.index(name) - at)):
        folded = fold_one(folded.stack, folder, name, into)
        fields += folded.lost_fields
        lost += folded.lost
    return replace(folded, lost_fields=tuple(fields), lost=tuple(lost))


def fold_one(stack: Stack, folder: str, name: str, into: str, *, header: bool = True) -> Folded:
    """Return the patches of a folder with one merged into another.

    Without `header` that of the other is not touched.
    """
    layers = stack.of(folder)
    order = [layer.name for layer in layers]
    source, target = layers[order.index(name)], layers[order.index(into)]
    if order.index(name) > order.index(into):
        between = layers[order.index(into) + 1 : order.index(name)]
        merged, passed = _brought_down(stack, target, between, source)
        middle = [merged, *passed]
    else:
        between = layers[order.index(name) + 1 : order.index(into)]
        merged, passed = _brought_up(stack, source, between, target)
        middle = [*passed, merged]
    fields: tuple[str, ...] = ()
    if header:
        preamble, fields = joined(merged.preamble, source.plan.patch.preamble, name, target.place)
        merged_head = merged.with_preamble(preamble)
        middle = [merged_head if one is merged else one for one in middle]
    first = min(order.index(name), order.index(into))
    last = max(order.index(name), order.index(into))
    below = [draft_of(layer) for layer in layers[:first]]
    above = [draft_of(layer) for layer in layers[last + 1 :]]
    drafts = _comments_kept([*below, *middle, *above], source.entry, order.index(name))
    drafts = [_pointed(draft, folder, name, into) for draft in drafts]
    new, lost = with_layers(stack, folder, drafts)
    return Folded(new, tuple(drafts), fields, lost)


def _merged(target: Layer, source: Layer, before: SourceTree, after: SourceTree) -> Draft:
    paths = target.paths | source.paths
    rest = tuple(u.file for one in (target, source) for u in one.plan.unshipped)
    twice = {file.path for file in rest if sum(file.path == other.path for other in rest) > 1}
    if twice:
        raise PatchkitError(
            f"{sorted(twice)[0]} is not shipped, and both patches change it",
            place=target.place,
            hint="nothing was changed; such sections cannot be merged without the file",
        )
    preamble = target.plan.patch.preamble
    data = make_data(preamble, before, after, paths, rest)
    if data == preamble:
        raise PatchkitError(
            f"{source.name} undoes all of it: nothing would be left",
            place=target.place,
            hint="drop both with `patchkit drop`",
        )
    origins = (target, source) if source.anchors is not None else (target,)
    return Draft(target.entry, data, origins)


def _brought_down(
    stack: Stack, target: Layer, between: Sequence[Layer], source: Layer
) -> tuple[Draft, list[Draft]]:
    """Return a patch with a later one in it, and those between as they are on top of that."""
    if not between:
        return _merged(target, source, target.before, source.after), []
    stored = stack.stored[target.folder]
    for need in _needs([*between, source]):
        if need.later.patch == source.name:
            raise _does_not_commute(source, target, need.earlier.patch, need.text)
    own = moved(stored, [source], source.before, target.after)
    _refuse_unless_commuting(own, source, target, between)
    others = moved(stored, between, target.after, own.tree)
    _refuse_unless_commuting(others, source, target, between)
    _refuse_other_tree(others.tree, source.after, [source, *between], source, target)
    merged = _merged(target, source, target.before, own.tree)
    return merged, _drafts(between, others)


def _brought_up(
    stack: Stack, source: Layer, between: Sequence[Layer], target: Layer
) -> tuple[Draft, list[Draft]]:
    """Return a patch with an earlier one in it, and those between as they are without that."""
    if not between:
        return _merged(target, source, source.before, target.after), []
    stored = stack.stored[target.folder]
    for need in _needs([source, *between]):
        if need.earlier.patch == source.name:
            raise _does_not_commute(source, target, need.later.patch, need.text)
    others = moved(stored, between, source.after, source.before)
    _refuse_unless_commuting(others, source, target, between)
    own = moved(stored, [source], source.before, others.tree)
    _refuse_unless_commuting(own, source, target, between)
    _refuse_other_tree(own.tree, between[-1].after, [source, *between], source, target)
    return _merged(target, source, others.tree, target.after), _drafts(between, others)


def _drafts(layers: Sequence[Layer], result: RebaseResult) -> list[Draft]:
    pairs = zip(layers, result.patches, strict=True)
    return [Draft(layer.entry, patch.data or layer.data, (layer,)) for layer, patch in pairs]


def _needs(layers: Sequence[Layer]) -> list[Dependency]:
    """Return what patches that follow each other cannot be without."""
    return binding([layer.plan for layer in layers], layers[0].before)


def _refuse_unless_commuting(
    result: RebaseResult, source: Layer, target: Layer, between: Sequence[Layer]
) -> None:
    problems = in_the_way(result)
    if not problems:
        return
    outcome = problems[0]
    other = outcome.patch if outcome.patch != source.name else between[-1].name
    drift = "; ".join(drift.text for drift in outcome.drifts)
    why = outcome.reason or drift or outcome.status.value.replace("_", " ")
    raise _does_not_commute(source, target, other, f"hunk {outcome.hunk}: {why}")


def _refuse_other_tree(
    found: SourceTree, wanted: SourceTree, layers: Sequence[Layer], source: Layer, target: Layer
) -> None:
    paths = {path for layer in layers for path in layer.paths}
    if not same_on(paths, found, wanted):
        names = ", ".join(layer.name for layer in layers if layer is not source)
        raise _does_not_commute(source, target, names, "the other order gives other files")


def _does_not_commute(source: Layer, target: Layer, other: str, why: str) -> PatchkitError:
    stem = other.removesuffix(".patch")
    return PatchkitError(
        f"cannot be brought beside {target.name}: {other} is between them, "
        f"and the two do not commute: {why}",
        place=source.place,
        hint=f"nothing was changed; fold {stem} as well",
    )


def _comments_kept(drafts: list[Draft], gone: SeriesEntry, at: int) -> list[Draft]:
    """Return the drafts with the comments that stood around the line that is gone."""
    if not gone.before and not gone.after:
        return drafts
    if at < len(drafts) and gone.before:
        entry = drafts[at].entry
        drafts[at] = replace(drafts[at], entry=replace(entry, before=gone.before + entry.before))
        gone = replace(gone, before="")
    last = drafts[-1].entry
    text = last.after + gone.before + gone.after
    return [*drafts[:-1], replace(drafts[-1], entry=replace(last, after=text))]


def _pointed(draft: Draft, folder: str, name: str, into: str) -> Draft:
    """Return a patch that depends on the merged one where it depended on the one that is gone."""
    stem = _stem(into)

    def renamed(word: str) -> str | None:
        if draft.name == into and (
            same_patch(word, folder, into) or same_patch(word, folder, name)
        ):
            return None
        return stem if same_patch(word, folder, name) else word

    return _needing(draft, renamed)


def pointed_elsewhere(
    draft: Draft, own: Stored, folder: str, names: Collection[str], into: str
) -> Draft:
    """Return a patch of another series folder, `own`, that depends on the merged one where it
    depended on one that is gone.
    """
    taken = [entry.name for entry in own.series.entries]

    def renamed(word: str) -> str:
        meant = any(same_patch(word, folder, name) for name in names)
        if not meant or any(same_patch(word, own.folder, name) for name in taken):
            return word
        return f"{folder}/{_stem(into)}"

    return _needing(draft, renamed)


def _needing(draft: Draft, renamed: Callable[[str], str | None]) -> Draft:
    preamble = draft.preamble
    changed = with_needs(preamble, renamed, draft.name)
    return draft if changed == preamble else draft.with_preamble(changed)


def _stem(name: str) -> str:
    return name.removesuffix(".patch").removesuffix(".diff")
