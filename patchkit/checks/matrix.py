"""Every stored patch on every stored release: what it is there, and what its tests and the log say.

Made from what `stored_status` read, the verdicts and the log of rebases; no tree is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path

from packaging.version import Version

from patchkit.checks.status import Held, Status
from patchkit.errors import PatchkitError
from patchkit.outcome import Method
from patchkit.repository.log import Fate, LoggedPatch, LoggedRebase, read_log
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.series.verdict import StoredVerdict, Verdict


class State(StrEnum):
    """What a patch is on one release."""

    NEW = "new"  # the lowest release that has it
    AS_BELOW = "as below"  # removes and adds what it does in the release below
    CHANGED = "changed"
    BY_HAND = "by hand"  # a person adapted it for this release
    SAME_AS = "same as"  # the folder says only that it is the same as another
    LEFT_OUT = "left out"
    NOT_YET = "not yet"  # no lower release has it either
    NOT_STORED = "not stored"  # the series folder does not hold the release
    PROBLEM = "problem"


@dataclass(frozen=True)
class Cell:
    """One patch on one release.

    `reason` says why it is left out, where anything does. `test` is the verdict of its tests, which
    `is_stale` where patch or tests have changed since. `rebased` is the day of the last rebase that
    stored it, where the log knows one.
    """

    release: str
    state: State
    reason: str | None = None
    test: Verdict | None = None
    is_stale: bool = False
    rebased: date | None = None


@dataclass(frozen=True)
class Row:
    """One patch of a series folder on all releases of the matrix."""

    folder: str
    patch: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Matrix:
    """All patches on all stored releases, lowest first; `problems` are those of no single patch."""

    releases: tuple[str, ...]
    rows: tuple[Row, ...]
    rebases: Mapping[str, tuple[LoggedRebase, ...]]  # by series folder
    problems: tuple[str, ...] = ()


def build_matrix(root: Path, folders: Sequence[str], found: Sequence[Status]) -> Matrix:
    """Return the matrix of what was found in some series folders."""
    releases = tuple(sorted({status.release for status in found}, key=Version))
    rows: list[Row] = []
    problems: list[str] = []
    rebases = {}
    for folder in folders:
        own = {status.release: status for status in found if status.folder == folder}
        known = _Known(root, own)
        try:
            known.read_files(folder)
        except PatchkitError as error:
            problems.append(str(error))
        rebases[folder] = known.log
        rows += [Row(folder, name, known.cells(name, releases)) for name in _names(own.values())]
    return Matrix(releases, tuple(rows), rebases, tuple(problems))


def _names(found: Iterable[Status]) -> Iterator[str]:
    """The patches of a folder in the order of its newest series, then those of older ones."""
    seen: dict[str, None] = {}
    for status in sorted(found, key=lambda status: Version(status.release), reverse=True):
        seen.update(dict.fromkeys(held.patch for held in status.held))
    yield from seen


class _Known:
    """What is known of one series folder."""

    def __init__(self, root: Path, found: Mapping[str, Status]) -> None:
        self._root = root
        self._found = found
        self._verdicts: dict[tuple[str, str], StoredVerdict] = {}
        self._held = {
            (release, held.patch): held for release, status in found.items() for held in status.held
        }
        self.log: tuple[LoggedRebase, ...] = ()

    def read_files(self, folder: str) -> None:
        """Take in what lies beside the releases; raises PatchkitError where that is damaged."""
        self.log = read_log(self._root, folder)
        verdicts = read_verdicts(self._root, folder)
        self._verdicts = {(verdict.release, verdict.patch): verdict for verdict in verdicts}

    def cells(self, patch: str, releases: Sequence[str]) -> tuple[Cell, ...]:
        """Return what a patch is on each release."""
        adapted = {
            release
            for (_, name), held in self._held.items()
            for release in held.adapted_for
            if name == patch
        }
        cells: list[Cell] = []
        below: Held | None = None
        reason: str | None = None
        for release in releases:
            held = self._held.get((release, patch))
            state = self._state(release, held, below, release in adapted)
            if held is None and below is not None and state is State.NOT_YET:
                state = State.LEFT_OUT
            if state is State.LEFT_OUT:
                reason = self._reason(release, patch) or reason
            elif held is not None:
                below, reason = held, None
            cells.append(self._cell(release, patch, state, reason))
        return tuple(cells)

    def _state(self, release: str, held: Held | None, below: Held | None, adapted: bool) -> State:
        status = self._found.get(release)
        if status is None:
            return State.NOT_STORED
        if status.stored is None or (held is not None and held.is_problem):
            return State.PROBLEM
        if held is None:
            return State.NOT_YET
        if status.same_as is not None:
            return State.SAME_AS
        if adapted or self._was_adapted(release, held.patch):
            return State.BY_HAND
        if below is None:
            return State.NEW
        return State.AS_BELOW if held.changes == below.changes else State.CHANGED

    def _was_adapted(self, release: str, patch: str) -> bool:
        """Whether the log says so; the adaptation itself goes with the release it is stored at."""
        logged = self._logged(release, patch)
        return logged is not None and Method.ADAPTATION.value in logged[1].methods

    def _logged(self, release: str, patch: str) -> tuple[date, LoggedPatch] | None:
        """The last rebase onto a release that was about a patch."""
        for rebase in reversed(self.log):
            for logged in rebase.patches:
                if rebase.target == release and logged.name == patch:
                    return rebase.date, logged
        return None

    def _cell(self, release: str, patch: str, state: State, reason: str | None) -> Cell:
        verdict = self._verdicts.get((release, patch))
        logged = self._logged(release, patch)
        return Cell(
            release,
            state,
            reason if state is State.LEFT_OUT else None,
            verdict.verdict if verdict else None,
            verdict is not None and not self._is_fresh(verdict),
            logged[0] if logged else None,
        )

    def _is_fresh(self, verdict: StoredVerdict) -> bool:
        """Whether a verdict holds: of what is stored there, else of what it was moved from."""
        for release in (verdict.release, verdict.base):
            stored = self._found[release].stored if release in self._found else None
            if stored is not None and verdict.patch in stored.series.patches:
                try:
                    return is_fresh(self._root, stored, verdict)
                except PatchkitError:  # told as a problem of the patch
                    return False
        return True  # what it was made from is not stored any more

    def _reason(self, release: str, patch: str) -> str | None:
        """Why a patch is not in a release, as the series file, its tests or the log say."""
        for left in self._found[release].left_out:
            if left.patch == patch and left.why:
                return left.why
        verdict = self._verdicts.get((release, patch))
        if verdict is not None and verdict.verdict is Verdict.SUPERSEDED:
            return f"superseded: {verdict.reason}"
        logged = self._logged(release, patch)
        if logged is None or logged[1].fate is Fate.MOVED:
            return None
        said = {Fate.UPSTREAM: "already upstream", Fate.SKIPPED: "skipped"}
        why = said.get(logged[1].fate) or f"superseded: {logged[1].reason}"
        return f"{why}, {logged[0]}"
