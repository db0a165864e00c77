"""A move of everything that a repository stores: each series folder onto the target, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import monotonic

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.outcome import Drift, HunkOutcome
from patchkit.placing.drift import OpenMadeOn
from patchkit.placing.resolution import Resolution
from patchkit.repository.applied import apply_series, with_overlay
from patchkit.repository.memory import read_memory
from patchkit.repository.overlaid import overlay_drifts, split_accepted_files
from patchkit.repository.retired import exit_notes
from patchkit.repository.session import Settled, Skip, decided
from patchkit.repository.store import (
    Stored,
    nearest_base,
    read_stored,
    stored_releases,
)
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.series.anchoring import series_inputs
from patchkit.series.verdict import StoredVerdict, Verdict
from patchkit.stacking.rebase import PatchInput, Progress, RebasedPatch, RebaseResult, rebase_series
from patchkit.tree import SourceTree
from patchkit.upstream.pins import normalise_version

OpenTree = Callable[[str], SourceTree]


@dataclass(frozen=True)
class Request:
    """What a person asked for; `base` is the release named by --from, `is_release` says whether the
    target was given as a release to store under, not as a tree to try. `stopped_at` is when it
    first stopped, in seconds since 1970. `backwards` moves a series down from the lowest release
    that is stored, where none is stored below the target.
    """

    target: str
    is_release: bool
    base: str | None = None
    output: Path | None = None
    update: bool = False
    skips: tuple[Skip, ...] = ()
    settled: tuple[Settled, ...] = ()
    stopped_at: float | None = None
    backwards: bool = False

    @property
    def release(self) -> str | None:
        """The release that the result is stored under, None for a tree that has no such name."""
        return normalise_version(self.target) if self.is_release else None


@dataclass(frozen=True)
class SeriesMove:
    """One series folder, moved.

    `clashes` are overlay files that the target has already, `drifts` is what others of them rely on
    and the target has otherwise. `superseded` are the verdicts by which
    patches were left out: their tests pass on the target without them. `notes` tell of verdicts
    that do not hold any more or that speak against a patch. `seconds` is how long placing took.
    """

    stored: Stored
    inputs: tuple[PatchInput, ...]
    result: RebaseResult
    skips: tuple[Skip, ...] = ()
    clashes: tuple[str, ...] = ()
    superseded: tuple[StoredVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to a person: no hunk, and no file of the overlay."""
        return not (self.open or self.clashes or self.drifts)

    @property
    def open(self) -> tuple[HunkOutcome, ...]:
        """The hunks that a person has to settle, in order."""
        return tuple(o for o in self.result.outcomes if is_open(o) and not self.is_skipped(o))

    @property
    def kept(self) -> tuple[RebasedPatch, ...]:
        """The patches of which something is left to store."""
        gone = {skip.patch for skip in self.skips if skip.hunks is None}
        gone |= {verdict.patch for verdict in self.superseded}
        return tuple(p for p in self.result.patches if p.data and p.name not in gone)

    def is_skipped(self, outcome: HunkOutcome) -> bool:
        """Return whether this hunk was left out, by a person or for a verdict."""
        if any(verdict.patch == outcome.patch for verdict in self.superseded):
            return True
        return any(
            skip.patch == outcome.patch and (skip.hunks is None or outcome.hunk in skip.hunks)
            for skip in self.skips
        )


def is_open(outcome: HunkOutcome) -> bool:
    """Return whether a person has to settle a hunk: it did not land, or on ground that drifted."""
    return not outcome.landed or outcome.drifted


def move_all(
    config: Config, request: Request, open_tree: OpenTree, progress: Progress | None = None
) -> tuple[SeriesMove, ...]:
    """Return every series folder moved onto the target, each on top of those before it."""
    target = pristine = open_tree(request.target)
    moves: list[SeriesMove] = []
    for folder, release in choose_bases(config, request, target.version).items():
        stored = read_stored(config.root, folder, release)
        base = open_tree(f"v{release}")
        for move in moves:
            below = move.stored.folder
            if release in stored_releases(config.root, below):
                base = apply_series(config.root, read_stored(config.root, below, release), base)
        plain = base, target
        base, _ = with_overlay(config.root, stored, base)
        target, clashes = with_overlay(config.root, stored, target)
        superseded, notes = _read_verdicts(config, request, stored)
        gone = {verdict.patch for verdict in superseded}
        inputs = _inputs(stored, request, gone, read_memory(config.root, folder))
        lower, began = _below(moves, release), monotonic()
        made_on = _made_on(config, folder, open_tree)
        result = rebase_series(
            inputs, base, target, below=lower, made_on=made_on, progress=progress
        )
        took = monotonic() - began
        skips = tuple(skip for skip in request.skips if skip.series == folder)
        found = overlay_drifts(stored.series.overlay, *plain, result)
        drifts, accepted = split_accepted_files(found.drifts, stored.series.overlay)
        notes += tuple(f"not checked: {doubt}" for doubt in found.not_checked)
        notes += tuple(f"accepted: {a.drift.text}; {a.reason}" for a in accepted)
        notes += exit_notes(stored, pristine)
        moves.append(
            SeriesMove(stored, inputs, result, skips, clashes, superseded, notes, drifts, took)
        )
        target = result.tree
    return tuple(moves)


def _made_on(config: Config, folder: str, open_tree: OpenTree) -> OpenMadeOn:
    """Return what opens the releases that adaptations were made for, with what is stored there.

    What a person wrote relies on the patches of the release as well.
    """

    @cache
    def opened(release: str) -> SourceTree | None:
        try:
            version = normalise_version(release)
            tree = open_tree(f"v{version}")
            for below in config.series[: config.series.index(folder) + 1]:
                if version in stored_releases(config.root, below):
                    stored = read_stored(config.root, below, version)
                    tree = apply_series(config.root, stored, tree)
        except PatchkitError:
            return None
        return tree

    return opened


def _below(moves: Sequence[SeriesMove], release: str) -> tuple[str, RebaseResult] | None:
    """Return the series that the next one is on top of, where all came from its own release."""
    if not moves or any(move.stored.release != release for move in moves):
        return None
    return moves[-1].stored.folder, moves[-1].result


def choose_bases(config: Config, request: Request, version: str | None) -> dict[str, str]:
    """Return the release to move from, for each series folder that holds any."""
    asked = normalise_version(request.base) if request.base else None
    bases: dict[str, str] = {}
    for folder in config.series:
        releases = [r for r in stored_releases(config.root, folder) if r != request.release]
        if not releases:
            continue
        base = nearest_base(releases, version) if asked is None else asked
        if base is None and request.backwards:
            base = releases[0]
        if base is None:
            raise _no_base(folder, releases, f"no release below v{version}")
        if base not in releases:
            raise _no_base(folder, releases, f"no v{base} to move from")
        bases[folder] = base
    if not bases:
        other = " from another release" if request.release else ""
        raise PatchkitError(
            f"no series is stored that could be moved{other}",
            place=", ".join(config.series),
            hint="`patchkit init --from v0.28.0` starts one; `patchkit port` takes plain files",
        )
    return bases


def _read_verdicts(
    config: Config, request: Request, stored: Stored
) -> tuple[tuple[StoredVerdict, ...], tuple[str, ...]]:
    """Return the verdicts by which patches stay out of the series of the target's release, and
    notes on those that speak against a patch without that.

    A verdict counts while patch and tests are what it was made from: the patch that is moved, or
    the one that is stored for the release already.
    """
    release = request.release
    if release is None:
        return (), ()
    superseded, notes = [], []
    for verdict in read_verdicts(config.root, stored.folder):
        if verdict.release != release or verdict.patch not in stored.series.patches:
            continue
        said = f"{verdict.patch}: {verdict.verdict.value} on v{release} by its tests"
        if not (is_fresh(config.root, stored, verdict) or _is_fresh_there(config, stored, verdict)):
            again = f"`patchkit test v{release}` makes that anew"
            notes.append(f"{said}, but patch or tests have changed since; {again}")
        elif verdict.verdict is Verdict.SUPERSEDED:
            superseded.append(verdict)
        elif verdict.verdict is not Verdict.NEEDED:
            notes.append(f"{said}: {verdict.reason}")
    return tuple(superseded), tuple(notes)


def _is_fresh_there(config: Config, stored: Stored, verdict: StoredVerdict) -> bool:
    """Return whether a verdict was made from what is stored for its own release already."""
    if verdict.release not in stored_releases(config.root, stored.folder):
        return False
    there = read_stored(config.root, stored.folder, verdict.release)
    return is_fresh(config.root, there, verdict)


def _inputs(
    stored: Stored,
    request: Request,
    superseded: Collection[str],
    memory: tuple[Resolution, ...],
) -> tuple[PatchInput, ...]:
    """Return the patches with what was decided on them, before and in this move."""
    skips = [skip for skip in request.skips if skip.series == stored.folder]
    gone = {skip.patch for skip in skips if skip.hunks is None} | {*superseded}
    left_out: dict[str, frozenset[int]] = {}
    for skip in skips:
        left_out[skip.patch] = left_out.get(skip.patch, frozenset()).union(skip.hunks or ())
    return series_inputs(
        stored.series,
        stored.place,
        chosen=[name for name in stored.series.patches if name not in gone],
        left_out=left_out,
        added=decided(request.settled, stored.folder),
        memory=memory,
    )


def _no_base(folder: str, releases: list[str], fact: str) -> PatchkitError:
    stored = ", ".join(f"v{release}" for release in releases)
    hint = f"name one with --from; stored are {stored}"
    return PatchkitError(f"holds {fact}", place=folder, hint=hint)
