"""A patch taken apart: some of its hunks become a patch of their own, next to what is left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from patchkit.diff.model import FileChange, FilePatch
from patchkit.editing.draft import Draft, build, draft_of, make_data
from patchkit.editing.heading import with_field
from patchkit.editing.naming import refuse_taken
from patchkit.editing.needed import binding, declaring, needs_of
from patchkit.editing.revision import Revision, revise
from patchkit.editing.stack import Layer, Stack
from patchkit.errors import PatchkitError
from patchkit.placing.plan import PlannedFile
from patchkit.series.series import SeriesEntry
from patchkit.stacking.carry import with_hunks
from patchkit.tree import SourceTree


@dataclass(frozen=True, eq=False)
class Parted:
    """A split: the release anew, whether the new patch comes first, and what was declared for it.

    `needs` are the needs that were written into headers: later patch, earlier patch, and why.
    """

    revision: Revision
    is_first: bool
    needs: tuple[tuple[str, str, str], ...]


def hunks_of_files(layer: Layer, patterns: Sequence[str]) -> frozenset[int]:
    """Return the hunks of the files that any of some shell patterns names.

    Raises PatchkitError for a pattern that names no file of the patch.
    """
    found: set[int] = set()
    for pattern in patterns:
        hits = [n for path, n in _numbered(layer) if _matches(path, pattern)]
        if not hits:
            known = ", ".join(dict.fromkeys(path for path, _ in _numbered(layer)))
            raise PatchkitError(
                f"changes no file {pattern!r}", place=layer.place, hint=f"it changes {known}"
            )
        found.update(hits)
    return frozenset(found)


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/") + "/")


def _numbered(layer: Layer) -> list[tuple[str, int]]:
    """Return path and number of every hunk of a patch, sections that do not ship too."""
    found, number = [], 1
    for section in layer.plan.patch.files:
        for _ in range(max(1, len(section.hunks))):
            found.append((section.path, number))
            number += 1
    return found


def split(
    stack: Stack, layer: Layer, chosen: Collection[int], name: str, description: str
) -> Parted:
    """Return a release with some hunks of a patch in a new one beside it.

    The new patch comes after what is left, or before it where that needs it. Raises PatchkitError
    where each needs the other, and where the hunks are none or all.
    """
    _refuse_odd_choice(layer, chosen)
    refuse_taken(name, [one.name for one in stack.of(layer.folder)])
    place = f"{stack.stored[layer.folder].place}/{name}"
    preamble = with_field(layer.plan.patch.preamble, "Description", description, place)
    every = {number for _, number in _numbered(layer)}
    after = _ordered(layer, every - set(chosen), layer.plan.patch.preamble, chosen, preamble)
    before = _ordered(layer, chosen, preamble, every - set(chosen), layer.plan.patch.preamble)
    new = SeriesEntry(name)
    rest = replace(layer.entry, before="", after="")
    orders = ((rest, new, after), (new, rest, before))
    reasons = []
    for first, second, texts in orders:
        pair = [
            Draft(replace(first, before=layer.entry.before), texts[0], (layer,)),
            Draft(replace(second, after=layer.entry.after), texts[1], (layer,)),
        ]
        wrong = _against(stack, layer, pair, orders)
        if wrong is None:
            return _declared(stack, layer, pair, is_first=first is new)
        reasons.append(wrong)
    raise PatchkitError(
        f"cannot be split there: {reasons[0]}; and {reasons[1]}",
        place=layer.place,
        hint="nothing was changed; take the hunks that need each other together",
    )


def _refuse_odd_choice(layer: Layer, chosen: Collection[int]) -> None:
    every = [number for _, number in _numbered(layer)]
    unknown = sorted(set(chosen) - set(every))
    if unknown:
        raise PatchkitError(
            f"has no hunk {unknown[0]}", place=layer.place, expected=f"1 to {len(every)}"
        )
    if not chosen or len(set(chosen)) == len(every):
        which = "all of its hunks are" if chosen else "none of its hunks is"
        hint = "`patchkit rename` gives the whole patch another name" if chosen else None
        raise PatchkitError(f"{which} to be taken out", place=layer.place, hint=hint)
    for file in layer.plan.files:
        inside = set(file.numbers) & set(chosen)
        whole = file.section.change is not FileChange.MODIFY
        if inside and len(inside) < len(file.numbers) and whole:
            raise PatchkitError(
                f"{file.section.path} is {_VERBS[file.section.change]} as a whole",
                place=layer.place,
                expected=f"all of its hunks: {', '.join(map(str, file.numbers))}",
            )
    for section in layer.plan.unshipped:
        numbers = [n for path, n in _numbered(layer) if path == section.path]
        if 0 < len(set(numbers) & set(chosen)) < len(numbers):
            raise PatchkitError(
                f"{section.path} is not shipped, and goes as a whole",
                place=layer.place,
                expected=f"all of its hunks: {', '.join(map(str, numbers))}",
            )


_VERBS = {
    FileChange.ADD: "added",
    FileChange.DELETE: "deleted",
    FileChange.RENAME: "renamed",
    FileChange.COPY: "copied",
}


def _ordered(
    layer: Layer, first: Collection[int], head: bytes, second: Collection[int], other: bytes
) -> tuple[bytes, bytes]:
    """Return two patch files that make of the one two, in this order."""
    between = _with(layer, first)
    one = make_data(head, layer.before, between, layer.paths, _rest(layer, first))
    two = make_data(other, between, layer.after, layer.paths, _rest(layer, second))
    return one, two


def _with(layer: Layer, numbers: Collection[int]) -> SourceTree:
    """Return the tree with some hunks of a patch alone."""
    changes: dict[str, bytes | None] = {}
    modes: dict[str, int] = dict(layer.before.modes)
    for file in layer.plan.files:
        if set(numbers).isdisjoint(file.numbers):
            continue
        changes |= _changes(file, numbers)
        # the mode goes with the first hunk of its file
        if file.numbers[0] in numbers and file.section.new_mode is not None:
            modes[file.section.path] = file.section.new_mode
    tree = layer.before.with_changes(changes)
    return replace(tree, modes={p: m for p, m in modes.items() if changes.get(p, b"") is not None})


def _changes(file: PlannedFile, numbers: Collection[int]) -> dict[str, bytes | None]:
    section = file.section
    changes: dict[str, bytes | None] = {}
    if section.change in (FileChange.RENAME, FileChange.DELETE) and section.old_path:
        changes[section.old_path] = None
    if section.new_path:
        changes[section.new_path] = with_hunks(file, numbers)
    return changes


def _rest(layer: Layer, numbers: Collection[int]) -> tuple[FilePatch, ...]:
    """Return the sections that do not ship and go with some hunks."""
    wanted = {path for path, number in _numbered(layer) if number in numbers}
    return tuple(u.file for u in layer.plan.unshipped if u.path in wanted)


def _against(
    stack: Stack,
    layer: Layer,
    pair: Sequence[Draft],
    orders: Sequence[tuple[SeriesEntry, SeriesEntry, tuple[bytes, bytes]]],
) -> str | None:
    """Return why a pair of patches cannot be in this order: the first one needs the second."""
    first, second = pair
    texts = next(t for one, _, t in orders if one.name == second.name)
    turned = [Draft(second.entry, texts[0]), Draft(first.entry, texts[1])]
    built = build(stack.stored[layer.folder], layer.before, turned)
    plans = [one.plan for one in built.layers]
    for need in binding(plans, layer.before):
        return f"{first.name.removesuffix('.patch')} needs the other hunks: {need.text}"
    return None


def _declared(stack: Stack, layer: Layer, pair: Sequence[Draft], *, is_first: bool) -> Parted:
    """Return the release with two patches for the one, and every need declared that came by it."""
    layers = stack.of(layer.folder)
    drafts: list[Draft] = []
    for one in layers:
        drafts += pair if one is layer else [draft_of(one)]
    known = {n[:2] for n in needs_of(stack.layers, stack.base).undeclared()}
    declared: list[tuple[str, str, str]] = []
    names = {draft.name for draft in pair}
    while True:
        revision = revise(stack, layer.folder, drafts, change="the split")
        every = [one for f in stack.stored for one in revision.built[f].layers]
        missing = [
            need
            for need in needs_of(every, stack.base).undeclared()
            if names & {_bare(need[0]), _bare(need[1])} and need[:2] not in known
        ]
        missing = [m for m in missing if m not in declared]
        if not missing:
            return Parted(revision, is_first, tuple(declared))
        declared += missing
        drafts = declaring(drafts, layer.folder, missing)


def _bare(name: str) -> str:
    return name.rpartition("/")[2]
