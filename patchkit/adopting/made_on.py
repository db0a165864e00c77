"""What a set of patches was made on: which release, in which order, on top of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from packaging.version import Version

from patchkit.adopting.gather import Found, Gathered
from patchkit.adopting.order import applying_order, numbered
from patchkit.config import Config
from patchkit.diff import format_patch
from patchkit.errors import PatchkitError
from patchkit.repository.applied import apply_series
from patchkit.repository.store import Stored, read_stored, stored_releases
from patchkit.stacking.rebase import PatchInput
from patchkit.surveying.base import Base, NoBase, Proof, find_base
from patchkit.surveying.fit import Fit, fit_patches
from patchkit.surveying.survey import open_releases, where_it_holds
from patchkit.tree import SourceTree

_ORDERED_ON = 3  # releases; a search without success takes a second on each (2026-11-30, 2 cores)

Opener = Callable[[str], SourceTree]


class Way(StrEnum):
    """How the patches fit: each on those before it; each on the bare release; all on that."""

    STACK = "stack"
    APART = "apart"
    BELOW = "below"


class Ground:
    """The releases as patches meet them: bare, and with the series that are stored for them."""

    def __init__(self, config: Config, folder: str, opener: Opener) -> None:
        below = config.series
        if folder in below:
            below = below[: below.index(folder)]
        self._root, self._folders = config.root, (*below, folder)
        self.bare = opener
        self.full = cache(self._full)

    def is_built_on(self, release: str) -> bool:
        """Return whether a release has a stored series that comes before what is imported."""
        return any(release in stored_releases(self._root, name) for name in self._folders)

    def _full(self, release: str) -> SourceTree:
        tree = self.bare(release)
        for name in self._folders:
            if release in stored_releases(self._root, name):
                tree = self._with_series(read_stored(self._root, name, release), tree)
        return tree

    def _with_series(self, stored: Stored, tree: SourceTree) -> SourceTree:
        try:
            return apply_series(self._root, stored, tree)
        except PatchkitError as error:
            raise PatchkitError(
                f"the stored series does not apply: {error}",
                place=stored.place,
                hint="`patchkit check` says more",
            ) from error


@dataclass(frozen=True)
class MadeOn:
    """The answer, with the table that it comes from.

    `patches` are in the order in which they apply; `order` says in words where that is not the
    given one. `fits` has each release that was looked at, the lowest first; `unopened` says why
    others were not.
    """

    base: Base | NoBase
    way: Way
    patches: tuple[Found, ...]
    fits: Mapping[str, Fit]
    order: str | None = None
    unopened: Mapping[str, str] | None = None


def made_on(gathered: Gathered, ground: Ground, versions: Sequence[str]) -> MadeOn:
    """Return what patches were made on, of some releases.

    They are tried as they come, then in other orders unless theirs is said, then on the releases
    without what is stored for those, and last each by itself. Raises PatchkitError as `find_base`
    does, and where no release can be opened.
    """
    trees, unopened = open_releases(versions, ground.full)
    if not trees:
        first, reason = next(iter(unopened.items()))
        raise PatchkitError(f"no release can be opened; {first}: {reason}")
    first_try = _stacked(gathered.patches, trees)
    for found in _tries(gathered, ground, trees, first_try):
        if isinstance(found.base, Base):
            settled = _where_stored(_settled(found, ground, trees), gathered, ground, trees)
            return replace(settled, unopened=unopened)
    return replace(first_try, unopened=unopened)


def _where_stored(
    found: MadeOn, gathered: Gathered, ground: Ground, trees: Mapping[str, SourceTree]
) -> MadeOn:
    """Return the answer, or that of the bare releases where they name one that has a series.

    The files of two releases may be the same: then the one that patches are kept for is meant,
    though what is kept there is in the way of the patch as it is.
    """
    assert isinstance(found.base, Base)
    if ground.is_built_on(found.base.name) or not any(map(ground.is_built_on, trees)):
        return found
    bare = _below(gathered.patches, ground, trees)
    if not isinstance(bare.base, Base):
        return found
    bare = _settled(bare, ground, trees)
    assert isinstance(bare.base, Base)
    return bare if ground.is_built_on(bare.base.name) else found


def made_on_given(gathered: Gathered, ground: Ground, name: str) -> MadeOn:
    """Return how patches fit the one tree that a person names.

    Raises PatchkitError that names every hunk which does not fit it.
    """
    trees = {name: ground.full(name)}
    first_try = _stacked(gathered.patches, trees)
    for found in _tries(gathered, ground, trees, first_try):
        if isinstance(found.base, Base):
            return replace(found, base=Base(name, Proof.GIVEN, "as given"))
    fit = first_try.fits[name]
    if fit.error is not None:
        raise fit.error
    open_hunks = [hunk for hunk in fit.hunks if hunk.offset is None]
    rows = "".join(f"\n  {hunk.place}: hunk {hunk.number}: {hunk.reason}" for hunk in open_hunks)
    raise PatchkitError(
        f"{len(open_hunks)} of {len(fit.hunks)} hunks do not fit {name}:{rows}",
        hint="without --base the release that they fit is looked for",
    )


def inputs_of(patches: Sequence[Found]) -> list[PatchInput]:
    """Return patches as a run takes them."""
    return [PatchInput(found.patch.name, format_patch(found.patch)) for found in patches]


def _tries(
    gathered: Gathered, ground: Ground, trees: Mapping[str, SourceTree], first: MadeOn
) -> Iterator[MadeOn]:
    """Yield the ways to take the patches, the plainest first."""
    yield first
    patches = gathered.patches
    if len(patches) > 1 and not gathered.ordered:
        yield from _other_orders(patches, trees, first.fits)
    if any(ground.is_built_on(release) for release in trees):
        yield _below(patches, ground, trees)
    if len(patches) > 1:
        fits = {release: _apart(patches, tree) for release, tree in trees.items()}
        yield MadeOn(find_base(fits), Way.APART, patches, fits)


def _stacked(patches: Sequence[Found], trees: Mapping[str, SourceTree]) -> MadeOn:
    parsed = [found.patch for found in patches]
    fits = {release: fit_patches(parsed, tree) for release, tree in trees.items()}
    return MadeOn(find_base(fits), Way.STACK, tuple(patches), fits)


def _below(patches: Sequence[Found], ground: Ground, trees: Mapping[str, SourceTree]) -> MadeOn:
    """Return how patches fit the releases without what is stored for them."""
    bare = {release: ground.bare(release) for release in trees}
    return replace(_stacked(patches, bare), way=Way.BELOW)


def _other_orders(
    patches: Sequence[Found], trees: Mapping[str, SourceTree], fits: Mapping[str, Fit]
) -> Iterator[MadeOn]:
    """Yield the patches in the order of their subjects, then in one that a release takes.

    Looked at are the releases to which the most hunks apply as the patches come, the newest first.
    """
    if (order := numbered(patches)) is not None:
        yield _reordered(patches, order, trees, "in the order of their subjects")
    newest_first = list(trees)[::-1]
    nearest = sorted(newest_first, key=lambda release: -fits[release].applying)
    for release in nearest[:_ORDERED_ON]:
        if (order := applying_order(patches, trees[release])) is not None:
            yield _reordered(patches, order, trees, "in the order in which they apply")
            return


def _reordered(
    patches: Sequence[Found], order: Sequence[int], trees: Mapping[str, SourceTree], text: str
) -> MadeOn:
    ordered = [patches[at] for at in order]
    names = ", ".join(found.source for found in ordered)
    return replace(_stacked(ordered, trees), order=f"{text}: {names}")


def _apart(patches: Sequence[Found], tree: SourceTree) -> Fit:
    """Return how patches fit a tree, each by itself."""
    fits = [fit_patches([found.patch], tree) for found in patches]
    return Fit(
        hunks=tuple(hunk for fit in fits for hunk in fit.hunks),
        proven=sum(fit.proven for fit in fits),
        foreign=sum(fit.foreign for fit in fits),
        says_nothing=all(fit.says_nothing for fit in fits),
        unshipped=tuple(section for fit in fits for section in fit.unshipped),
        notes=tuple(note for fit in fits for note in fit.notes),
        error=next((fit.error for fit in fits if fit.error is not None), None),
    )


def _settled(found: MadeOn, ground: Ground, trees: Mapping[str, SourceTree]) -> MadeOn:
    """Return the answer with one of the releases that fit alike: where it holds, or is stored."""
    base = found.base
    if not isinstance(base, Base) or not base.alike:
        return found
    if found.way is Way.STACK:
        base = where_it_holds(base, inputs_of(found.patches), trees)
    stored = [r for r in (*base.alike, base.name) if ground.is_built_on(r)]
    if stored and base.name not in stored:
        others = sorted({*base.alike, base.name} - {stored[-1]}, key=Version)
        text = f"{base.text}; a series is stored for it"
        base = replace(base, name=stored[-1], alike=tuple(others), text=text)
    return replace(found, base=base)
