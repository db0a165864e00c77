"""A set of foreign patches as part of a stored series: placed, made canonical, given a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.adopting.canonical import Canonical, canonical
from patchkit.adopting.gather import Found, Gathered
from patchkit.adopting.heading import heading, to_fill_in
from patchkit.adopting.lost_names import lost_names
from patchkit.adopting.made_on import Ground, MadeOn, Way, inputs_of, made_on, made_on_given
from patchkit.adopting.naming import free_names
from patchkit.diff import Patch, format_patch, parse_patch
from patchkit.diff.header import format_header
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome
from patchkit.placing.plan import Unshipped, plan_patch
from patchkit.series.anchoring import renewed
from patchkit.stacking.rebase import RebaseResult, rebase_series
from patchkit.surveying.base import Base
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Wanted:
    """What a person asks for.

    `base` is the tree that the patches were made on and `release` the one they are stored for,
    where they are given; `fields` are set in the header of every patch.
    """

    base: str | None = None
    release: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Adopted:
    """One patch as it is to be stored, with what was tolerated and what a person has to fill in."""

    name: str
    source: str
    data: bytes
    anchors: bytes
    paths: tuple[str, ...]
    hunks: int
    fill_in: tuple[str, ...]
    unshipped: tuple[Unshipped, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Adoption:
    """What becomes of the patches: those to store for a release, or why there are none.

    `moved` is what became of each hunk where they were moved to the release from what they were
    made on. `lost` says which public names go where a whole file is replaced.
    """

    made_on: MadeOn
    release: str | None = None
    patches: tuple[Adopted, ...] = ()
    moved: tuple[HunkOutcome, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every hunk has its place in the release."""
        return bool(self.patches)


def adopt(gathered: Gathered, ground: Ground, versions: Sequence[str], wanted: Wanted) -> Adoption:
    """Return patches as they are to be stored for a release.

    Raises PatchkitError for a base that does not take them, and for a patch without effect.
    """
    if wanted.base is None:
        found = made_on(gathered, ground, versions)
    else:
        found = made_on_given(gathered, ground, wanted.base)
    if not isinstance(found.base, Base):
        return Adoption(found, lost=_lost_in_nearest(found, ground))
    release = wanted.release or found.base.name
    base, target = ground.bare(found.base.name), ground.full(release)
    lost = tuple(text for p in found.patches for text in lost_names(p.patch, base))
    made, moved = _Placer(found, ground, release).run(target)
    if made is None:
        return Adoption(found, release, moved=moved, lost=lost)
    names = free_names(one.stem for one in found.patches)
    adopted: list[Adopted] = []
    tree = target
    for name, one, result in zip(names, found.patches, made, strict=True):
        adopted.append(_stored(name, one, result, tree, release, wanted.fields))
        tree = result.after
    return Adoption(found, release, tuple(adopted), moved, lost)


class _Placer:
    """The patches on the release that they are stored for, each after those before it."""

    def __init__(self, found: MadeOn, ground: Ground, release: str) -> None:
        assert isinstance(found.base, Base)
        self._found, self._ground = found, ground
        self._moves = release != found.base.name
        self._base = found.base.name

    def run(self, tree: SourceTree) -> tuple[list[Canonical] | None, tuple[HunkOutcome, ...]]:
        """Return the patches made anew, None where a hunk has no place; and how hunks came there.

        At their own lines where they fit the release, else moved and proven as in a rebase.
        """
        if self._found.way is Way.APART:
            return self._one_by_one(tree)
        if self._moves or self._found.way is Way.BELOW:
            base = self._ground.full if self._found.way is Way.STACK else self._ground.bare
            result = rebase_series(inputs_of(self._found.patches), base(self._base), tree)
            return _made(self._found.patches, result, tree), result.outcomes
        made: list[Canonical] = []
        for one in self._found.patches:
            made.append(canonical(one.patch, tree, strip=one.strip))
            tree = made[-1].after
        return made, ()

    def _one_by_one(
        self, tree: SourceTree
    ) -> tuple[list[Canonical] | None, tuple[HunkOutcome, ...]]:
        """Return patches that were each made on the bare release, moved onto those before them."""
        base = self._ground.full(self._base)
        made: list[Canonical] = []
        outcomes: list[HunkOutcome] = []
        whole = True
        for one in self._found.patches:
            result = rebase_series(inputs_of([one]), base, tree)
            outcomes += result.outcomes
            found = _made([one], result, tree)
            whole = whole and found is not None
            if found is not None:
                made += found
                tree = found[-1].after
        return (made if whole else None), tuple(outcomes)


def _made(
    patches: Sequence[Found], result: RebaseResult, tree: SourceTree
) -> list[Canonical] | None:
    """Return moved patches as made anew on a tree, None unless all of them landed, undrifted."""
    if not result.ok or result.drifted or len(result.patches) != len(patches):
        return None
    made: list[Canonical] = []
    for one, moved in zip(patches, result.patches, strict=True):
        if not moved.data:
            return None
        found = canonical(parse_patch(moved.data, one.patch.name), tree)
        made.append(replace(found, notes=_notes_of(one, result)))
        tree = found.after
    return made


def _notes_of(one: Found, result: RebaseResult) -> tuple[str, ...]:
    name = one.patch.name
    return tuple(note for note in result.notes if note.startswith((f"{name}:", f"{name}#")))


def _stored(
    name: str,
    one: Found,
    made: Canonical,
    before: SourceTree,
    release: str,
    fields: Mapping[str, str],
) -> Adopted:
    """Return a patch as it is stored, with its anchors."""
    header = heading(one.said, origin=_origin(one), release=release, given=fields)
    data = format_patch(Patch(name, format_header(header), made.patch.files))
    patch = parse_patch(data, name)
    return Adopted(
        name=name,
        source=one.source,
        data=data,
        anchors=renewed(None, plan_patch(patch, before), name),
        paths=tuple(file.path for file in patch.files),
        hunks=sum(max(1, len(file.hunks)) for file in patch.files),
        fill_in=to_fill_in(patch.preamble, name),
        unshipped=made.unshipped,
        notes=(*made.notes, *one.said.notes),
    )


def _origin(one: Found) -> str:
    """Return where a patch came from, less the folders of this machine."""
    return one.source if one.source.startswith("commit ") else one.source.rpartition("/")[2]


def _lost_in_nearest(found: MadeOn, ground: Ground) -> tuple[str, ...]:
    """Return which names go in the release that the patches fit best, or the newest of all."""
    base = found.base
    assert not isinstance(base, Base)
    nearest = base.nearest[-1:] or tuple(found.fits)[-1:]
    trees = []
    for release in nearest:
        try:
            trees.append(ground.bare(release))
        except PatchkitError:
            continue
    return tuple(
        text for tree in trees for p in found.patches for text in lost_names(p.patch, tree)
    )
