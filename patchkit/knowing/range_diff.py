"""Two series compared patch by patch: what is the same, changed, came, went or has another name.

Patches are paired by name, what is left of them by what they change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit.diff.header import Header
from patchkit.diff.sequence import longest_increasing
from patchkit.errors import PatchkitError
from patchkit.knowing.changes import SectionPair, State, compare_sections, likeness
from patchkit.knowing.sides import Side, SidePatch

# From here on two patches of different names are one that was renamed. Two one-line patches of the
# same line have half of their lines in common, and nothing else.
_ALIKE = 0.6


@dataclass(frozen=True)
class FieldChange:
    """One header field in two versions, None where one does not have it; "" is the free text."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class PatchPair:
    """One patch in two series; a name is None where that series does not have it.

    `likeness` is set for a renamed one: the share of the changed lines that both have. `reason` is
    what the later series says of a patch that it does not have. `sections` are those that differ.
    """

    before: str | None
    after: str | None
    state: State
    header: tuple[FieldChange, ...] = ()
    sections: tuple[SectionPair, ...] = ()
    likeness: float | None = None
    reason: str | None = None
    subject: str = ""

    @property
    def name(self) -> str:
        """What it is called, in the later series where that has it."""
        name = self.after if self.after is not None else self.before
        assert name is not None
        return name

    @property
    def unchanged(self) -> bool:
        """Whether patch and header say the same under the same name."""
        return self.before == self.after and self.state.unchanged and not self.header


@dataclass(frozen=True)
class RangeDiff:
    """How one series differs from another.

    `pairs` are in the order of the later series, each dropped patch behind those that were before
    it. `reordered` are patches of both that come at another place among the others; `overlay` says
    of whole new files what differs.
    """

    before: str
    after: str
    pairs: tuple[PatchPair, ...]
    reordered: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether there is anything but other numbers and other context."""
        return bool(self.reordered or self.overlay) or not all(p.unchanged for p in self.pairs)


def range_diff(before: Side, after: Side, only: Sequence[str] = ()) -> RangeDiff:
    """Return how two series differ, or what `only` names of them.

    Raises PatchkitError for a name that neither has.
    """
    partners = _pair_up(before.patches, after.patches)
    pairs = _in_order(before, after, partners)
    chosen = _chosen(pairs, only, before, after)
    if only:
        return RangeDiff(before.name, after.name, tuple(chosen))
    overlay = tuple(_overlay(before.overlay, after.overlay))
    return RangeDiff(
        before.name, after.name, tuple(pairs), tuple(_reordered(before, after, partners)), overlay
    )


def _pair_up(olds: Mapping[str, SidePatch], news: Mapping[str, SidePatch]) -> dict[str, str]:
    """Return the earlier name of each later patch that has one."""
    partners = {name: name for name in news if name in olds}
    free = [patch for name, patch in olds.items() if name not in partners]
    fresh = [patch for name, patch in news.items() if name not in partners]
    alike = [
        (likeness(old.sections, new.sections), -i, -j, old.name, new.name)
        for i, old in enumerate(free)
        for j, new in enumerate(fresh)
    ]
    for share, _, _, old_name, new_name in sorted(alike, reverse=True):
        if share >= _ALIKE and new_name not in partners and old_name not in partners.values():
            partners[new_name] = old_name
    return partners


def _in_order(before: Side, after: Side, partners: Mapping[str, str]) -> list[PatchPair]:
    later = {old: new for new, old in partners.items()}
    dropped: dict[str | None, list[PatchPair]] = {}
    above: str | None = None
    for name in before.patches:
        if name in later:
            above = later[name]
            continue
        subject = before.patches[name].contents.subject
        pair = PatchPair(name, None, State.CHANGED, subject=subject, reason=after.why_not(name))
        dropped.setdefault(above, []).append(pair)
    pairs = dropped.pop(None, [])
    for name, patch in after.patches.items():
        old = partners.get(name)
        if old is None:
            pairs.append(PatchPair(None, name, State.CHANGED, subject=patch.contents.subject))
        else:
            pairs.append(compare_patches(before.patches[old], patch))
        pairs += dropped.pop(name, [])
    return pairs


def compare_patches(before: SidePatch, after: SidePatch) -> PatchPair:
    """Return how two versions of a patch differ."""
    sections = compare_sections(before.sections, after.sections)
    state = max((pair.state for pair in sections), default=State.SAME)
    renamed = before.name != after.name
    share = likeness(before.sections, after.sections) if renamed else None
    return PatchPair(
        before.name,
        after.name,
        state,
        tuple(_header(before.contents.header, after.contents.header)),
        tuple(pair for pair in sections if pair.state is not State.SAME),
        share,
        subject=after.contents.subject,
    )


def _header(before: Header, after: Header) -> Iterator[FieldChange]:
    """Yield the fields that differ, however often each is there."""
    names = list(dict.fromkeys(field.name for field in (*before.fields, *after.fields)))
    for name in names:
        old, new = (
            "\n".join(field.value for field in header.fields if field.name == name) or None
            for header in (before, after)
        )
        if old != new:
            yield FieldChange(name, old, new)
    if before.text != after.text:
        yield FieldChange("", before.text or None, after.text or None)


def _reordered(before: Side, after: Side, partners: Mapping[str, str]) -> Iterator[str]:
    order = {name: number for number, name in enumerate(before.patches)}
    both = [name for name in after.patches if name in partners]
    places = [(at, order[partners[name]]) for at, name in enumerate(both)]
    kept = {at for at, _ in longest_increasing(places)}
    return (name for at, name in enumerate(both) if at not in kept)


def _overlay(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for path in sorted({*before, *after}):
        if path not in after:
            yield f"{path}: dropped"
        elif path not in before:
            yield f"{path}: added"
        elif before[path] != after[path]:
            yield f"{path}: other content"


def _chosen(
    pairs: Sequence[PatchPair], only: Sequence[str], before: Side, after: Side
) -> list[PatchPair]:
    found: dict[int, PatchPair] = {}
    for word in only:
        hits = [
            (at, pair)
            for at, pair in enumerate(pairs)
            if word in {form for n in (pair.before, pair.after) if n for form in _forms(n)}
        ]
        if not hits:
            known = ", ".join(_stem(pair.name) for pair in pairs) or "none"
            raise PatchkitError(
                f"there is no patch {word!r}", place=f"{before.name}, {after.name}",
                hint=f"they have: {known}",
            )  # fmt: skip
        found.update(hits)
    return [found[at] for at in sorted(found)]


def _forms(name: str) -> set[str]:
    bare = name.rpartition("/")[2]
    return {name, _stem(name), bare, _stem(bare)}


def _stem(name: str) -> str:
    return name.removesuffix(".patch").removesuffix(".diff")
