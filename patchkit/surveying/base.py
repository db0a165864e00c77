"""Which release a patch was made on: told by blob ids, else by exact lines; never by a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from patchkit.errors import PatchkitError
from patchkit.report import counted
from patchkit.surveying.fit import Fit


class Proof(StrEnum):
    """What says that a patch was made on a release, from the strongest to none."""

    GIVEN = "given"
    IDS = "ids"
    LINES = "lines"
    BEFORE = "before"
    OFFSET = "offset"
    NONE = "none"


@dataclass(frozen=True)
class Base:
    """The release that a patch is taken to be made on.

    `alike` are the releases for which just as much speaks, `as_well` the others to which every hunk
    applies.
    """

    name: str
    proof: Proof
    text: str
    alike: tuple[str, ...] = ()
    as_well: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoBase:
    """That a patch fits no release: those to which the most hunks apply, and what follows."""

    nearest: tuple[str, ...]
    text: str


def given_base(name: str, fit: Fit) -> Base:
    """Return the base that a person names; raises PatchkitError where the patch does not fit it."""
    _check_judged({name: fit})
    for hunk in fit.hunks:
        if hunk.offset is None:
            raise PatchkitError(
                f"hunk {hunk.number} does not fit {name}: {hunk.reason}",
                place=hunk.place,
                hint="without --base the release that the patch fits is looked for",
            )
    return Base(name, Proof.GIVEN, "as given")


def find_base(fits: Mapping[str, Fit]) -> Base | NoBase:
    """Return the release that a patch was made on; `fits` has one a release, the lowest first.

    A release qualifies if every hunk applies to it exactly. Of those the blob ids decide, then a
    patch that applies without any offset, then the release before the first that holds the patch's
    result, then the smallest offset, and last the newest. Raises PatchkitError where hunks have no
    context and the releases that qualify differ in their files.
    """
    _check_judged(fits)
    total = max(len(fit.hunks) for fit in fits.values())
    fitting = [r for r, fit in fits.items() if fit.fits and len(fit.hunks) == total]
    if not fitting:
        return _nearest(fits, total)
    alike, proof = _strongest(fits, fitting)
    _check_grounds(fits, alike)
    chosen = alike[-1]
    as_well = tuple(r for r in fitting if r not in alike)
    text = _reason(fits, chosen, proof)
    return Base(chosen, proof, text, tuple(alike[:-1]), as_well)


def _check_judged(fits: Mapping[str, Fit]) -> None:
    """Raise where no release has anything to say of the patch."""
    errors = [fit.error for fit in fits.values() if fit.error is not None]
    if len(errors) == len(fits):
        raise errors[-1]
    judged = [fit for fit in fits.values() if fit.error is None]
    if any(fit.hunks for fit in judged):
        return
    first = judged[-1].unshipped[0]
    raise PatchkitError(
        f"changes only files that are built from source or not shipped: {first.path}",
        place=f"{first.patch}:{first.file.lineno}",
        expected="a file that the package holds",
        hint="a checkout has them: `patchkit port PATCH --base git:REPO@REF --target git:REPO@REF`",
    )


def _strongest(fits: Mapping[str, Fit], fitting: Sequence[str]) -> tuple[list[str], Proof]:
    """The releases for which the most speaks, and what that is."""
    if all(fits[release].says_nothing for release in fitting):
        return list(fitting), Proof.NONE
    proven = max(fits[release].proven for release in fitting)
    chosen = [r for r in fitting if fits[r].proven == proven]
    least = min(fits[release].lines_off for release in chosen)
    if proven:
        return [r for r in chosen if fits[r].lines_off == least], Proof.IDS
    order = list(fits)
    holding = next((at for at, release in enumerate(order) if fits[release].is_there), 0)
    if least and holding and order[holding - 1] in chosen:
        return [order[holding - 1]], Proof.BEFORE
    proof = Proof.OFFSET if least else Proof.LINES
    return [r for r in chosen if fits[r].lines_off == least], proof


def _check_grounds(fits: Mapping[str, Fit], alike: Sequence[str]) -> None:
    """Raise where a line number alone says where a hunk goes, and it says several things."""
    for at, hunk in enumerate(fits[alike[-1]].hunks):
        grounds = {fits[release].hunks[at].ground for release in alike}
        if hunk.ground is not None and len(grounds) > 1:
            raise PatchkitError(
                f"hunk {hunk.number} has no context: by its line number alone it fits "
                f"{said_ranges(alike, list(fits))}, which differ in {hunk.path}",
                place=hunk.place,
                hint="name what the patch was made on with --base",
            )


def _reason(fits: Mapping[str, Fit], chosen: str, proof: Proof) -> str:
    fit = fits[chosen]
    if proof is Proof.NONE:
        return "no line of a file is in the patch that says what it was made on"
    if proof is Proof.IDS:
        if fit.foreign:
            total = counted(fit.proven + fit.foreign, "file")
            return f"the blob ids of {fit.proven} of {total} are its own, and every hunk applies"
        return f"the patch names the very {_these(fit.proven)} that it has, by blob id"
    off = f"every hunk applies, {counted(fit.lines_off, 'line')} off in all"
    if proof is Proof.BEFORE:
        order = list(fits)
        return f"{off}, and {order[order.index(chosen) + 1]} holds the result of all"
    return "every hunk applies at its own line" if proof is Proof.LINES else off


def _these(number: int) -> str:
    return "file" if number == 1 else f"{number} files"


def _nearest(fits: Mapping[str, Fit], total: int) -> NoBase:
    """What there is to say of a patch that fits no release."""
    order = list(fits)
    best = max(fit.applying + fit.present for fit in fits.values())
    nearest = [r for r, fit in fits.items() if fit.applying + fit.present == best]
    pairs = [pair for pair in pairwise(order) if _applies_somewhere(fits, *pair)]
    if pairs:
        older, newer = max(pairs, key=lambda p: (fits[p[0]].applying, order.index(p[0])))
        text = f"each hunk fits {older} or {newer}: it was made on a commit between the two"
        return NoBase((older, newer), text)
    if all(fits[release].is_there for release in nearest):
        return NoBase(tuple(nearest), f"its result is in {said_ranges(nearest, order)} already")
    if best == 0:
        return NoBase((), "no hunk applies to any of them")
    most = f"the most hunks, {best} of {total}, fit {said_ranges(nearest, order)}"
    return NoBase(tuple(nearest), most + _beyond(fits, nearest))


def _applies_somewhere(fits: Mapping[str, Fit], older: str, newer: str) -> bool:
    """Whether of two releases each hunk applies to one at least, or the newer has its result."""
    before, after = fits[older], fits[newer]
    if not before.applying or len(before.hunks) != len(after.hunks):
        return False
    pairs = zip(before.hunks, after.hunks, strict=True)
    return all(a.offset is not None or b.offset is not None or b.there for a, b in pairs)


def _beyond(fits: Mapping[str, Fit], nearest: Sequence[str]) -> str:
    """Where the patch was probably made, as far as the releases that come nearest say so."""
    order = list(fits)
    first, last = order.index(nearest[0]), order.index(nearest[-1])
    ends = (0, len(order) - 1)
    if first == last and first in ends:
        side = "after" if first else "before"
        return f"; it was probably made {side} {order[first]}" if first or len(order) > 1 else ""
    if first == last:
        older, newer = (fits[order[first + step]] for step in (-1, 1))
        ahead = newer.applying + newer.present - older.applying - older.present
        first, last = (first - (ahead < 0), last + (ahead > 0))
    elif first in ends or last in ends:
        return ""  # as well it may lie beyond
    if last != first + 1:
        return ""
    return f"; it was probably made between {order[first]} and {order[last]}"


def said_ranges(releases: Sequence[str], order: Sequence[str]) -> str:
    """Return releases in words, those in a row as a range: `0.21.0, 0.25.0 to 0.27.1`."""
    rows: list[list[str]] = []
    for release in sorted(releases, key=order.index):
        follows = rows and order.index(rows[-1][-1]) + 1 == order.index(release)
        if follows:
            rows[-1].append(release)
        else:
            rows.append([release])
    parts = []
    for row in rows:
        parts += row if len(row) < 3 else [f"{row[0]} to {row[-1]}"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
