"""A series of patches on every release: opened, fitted, and landed from the base on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from patchkit.diff import parse_patch
from patchkit.errors import PatchkitError
from patchkit.stacking.rebase import PatchInput, rebase_series
from patchkit.surveying.base import Base, NoBase, find_base, given_base, said_ranges
from patchkit.surveying.fit import Fit, fit_patches, said_notes
from patchkit.surveying.standing import Standing, Verdict, judge, judge_fit
from patchkit.surveying.workers import spread
from patchkit.tree import SourceTree

Opener = Callable[[str], SourceTree]
Progress = Callable[[str, int, int | None], None]

# Two processes take half a second to start. 300 landings, 20 hunks on 15 releases, take 8 s in one
# (2026-11-30, Python 3.11, 2 cores); below this many one process is done as soon.
WORTH_SPREADING = 60


@dataclass(frozen=True)
class Task:
    """What a worker needs to land patches on a release: it opens its own trees."""

    patches: tuple[PatchInput, ...]
    base: str
    opener: Opener

    @cached_property
    def _base_tree(self) -> SourceTree:
        return self.opener(self.base)

    def land(self, release: str) -> Standing:
        """Return the verdict of one release."""
        try:
            result = rebase_series(self.patches, self._base_tree, self.opener(release))
        except PatchkitError as error:
            return unavailable(release, str(error))
        return judge(release, result.outcomes, None, is_base=False)


def unavailable(release: str, reason: str) -> Standing:
    """Return the row of a release that could not be opened."""
    return Standing(release, Verdict.UNAVAILABLE, reason=reason)


def open_releases(
    versions: Sequence[str], opener: Opener
) -> tuple[dict[str, SourceTree], dict[str, str]]:
    """Return the trees of releases, and why the others cannot be had."""
    trees: dict[str, SourceTree] = {}
    closed: dict[str, str] = {}
    for version in versions:
        try:
            trees[version] = opener(version)
        except PatchkitError as error:
            # what is wrong first: the place is the same for all, and long
            closed[version] = f"{error.fact} ({error.place})" if error.place else error.fact
    return trees, closed


@dataclass(frozen=True)
class Survey:
    """A series of patches with its base, or with what there is to say instead, before it lands.

    `fits` has the releases that were looked at for the base, or the one that was given. `unopened`
    are those that could not be, with the reason. `notes` says what was tolerated.
    """

    patches: tuple[PatchInput, ...]
    base: Base | NoBase
    fits: Mapping[str, Fit]
    trees: Mapping[str, SourceTree]
    unopened: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def base_fit(self) -> Fit:
        """How the patches fit their base, or the release that comes nearest to one."""
        nearest = self.base.name if isinstance(self.base, Base) else (*self.base.nearest, "")[-1]
        return self.fits.get(nearest) or max(self.fits.values(), key=lambda fit: len(fit.hunks))


def begin(
    patches: Sequence[PatchInput],
    wanted: Sequence[str],
    pinned: Sequence[str],
    opener: Opener,
    given: str | None,
) -> Survey:
    """Return the survey of patches over the `wanted` releases.

    Their base is the tree that is `given`, else looked for in all `pinned` releases. Raises
    PatchkitError where the given one does not fit, and where no release can be opened.
    """
    parsed = [parse_patch(patch.data, patch.name) for patch in patches]
    trees, unopened = open_releases(wanted, opener)
    if given is not None:
        fit = fit_patches(parsed, opener(given))
        base: Base | NoBase = given_base(given, fit)
        fits = {given: fit}
    else:
        others: Mapping[str, SourceTree] = {}
        fits = {release: fit_patches(parsed, tree) for release, tree in trees.items()}
        if not any(fit.is_proven for fit in fits.values()):
            others, closed = open_releases([r for r in pinned if r not in wanted], opener)
            unopened = {**unopened, **closed}
            fits |= {release: fit_patches(parsed, tree) for release, tree in others.items()}
        if not fits:
            first, reason = next(iter(unopened.items()))
            raise PatchkitError(f"no release can be opened; {first}: {reason}")
        fits = {release: fits[release] for release in pinned if release in fits}
        base = find_base(fits)
        if isinstance(base, Base) and base.alike:
            base = where_it_holds(base, patches, {**trees, **others})
    notes: list[str] = []
    if isinstance(base, Base):
        notes += fits[base.name].notes
    else:  # where the paths lie depends on the tree
        notes += [note for patch in parsed for note in said_notes(patch.name, patch.notes)]
    if given is None:
        notes += _not_looked_at(unopened, pinned)
    return Survey(tuple(patches), base, fits, trees, unopened, tuple(notes))


def where_it_holds(
    base: Base, patches: Sequence[PatchInput], trees: Mapping[str, SourceTree]
) -> Base:
    """Return the newest of releases that fit alike which still has what the new code relies on.

    Lines tell nothing between releases that have the same files. But what an earlier one defines
    and the next one no longer does, the patch cannot have been made for on the later.
    """
    alike = [*base.alike, base.name]
    for earlier, later in reversed(list(pairwise(alike))):
        result = rebase_series(patches, trees[earlier], trees[later])
        gone = next((d for o in result.outcomes for d in o.drifts if not d.after), None)
        if gone is not None:
            at = alike.index(earlier)
            text = f"{base.text}; {later} no longer has `{gone.name}`"
            later_ones = (*alike[at + 1 :], *base.as_well)
            return replace(
                base, name=earlier, text=text, alike=tuple(alike[:at]), as_well=later_ones
            )
    return base


def _not_looked_at(unopened: Mapping[str, str], order: Sequence[str]) -> list[str]:
    """A note for each reason why releases were not looked at for the base."""
    found = []
    for reason in dict.fromkeys(unopened.values()):
        releases = [release for release, why in unopened.items() if why == reason]
        found.append(f"not looked at for the base: {said_ranges(releases, order)}: {reason}")
    return found


def standings(
    survey: Survey,
    wanted: Sequence[str],
    openers: tuple[Opener, Opener],
    jobs: int,
    progress: Progress,
) -> Iterator[Standing]:
    """Yield the verdict of each wanted release, in order.

    `openers` are the one for this process and the one for others, which is picklable.
    """
    fits = survey.fits
    if isinstance(survey.base, NoBase):
        for release in wanted:
            closed = survey.unopened.get(release)
            yield unavailable(release, closed) if closed else judge_fit(release, fits[release])
        return
    base = survey.base.name
    opened = [release for release in wanted if release in survey.trees]
    landed = _landed(survey, base, opened, openers, jobs, progress)
    for release in wanted:
        if release in survey.trees:
            found = next(landed)
            yield replace(found, is_base=release == base, fit=fits.get(release))
        else:
            yield unavailable(release, survey.unopened[release])


def _landed(
    survey: Survey,
    base: str,
    releases: Sequence[str],
    openers: tuple[Opener, Opener],
    jobs: int,
    progress: Progress,
) -> Iterator[Standing]:
    count = len(releases)
    processes = min(jobs, count)

    def done(number: int) -> None:
        progress("releases", number, count)

    if processes < 2 or len(survey.base_fit.hunks) * count < WORTH_SPREADING:
        task = Task(survey.patches, base, openers[0])
        for number, release in enumerate(releases, start=1):
            yield task.land(release)
            done(number)
    else:
        yield from spread(Task(survey.patches, base, openers[1]).land, releases, processes, done)
