"""What a release would make of everything that is stored: each patch's verdict, and its time.

Nothing is written. The stored series are moved as `rebase` would move them, from the nearest stored
release; onto a release below all of them from the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome, Status
from patchkit.repository.move import Request, SeriesMove, choose_bases, move_all
from patchkit.repository.retired import stored_exits
from patchkit.repository.store import read_stored, stored_releases
from patchkit.series.exits import Exit, Holding
from patchkit.surveying import standing
from patchkit.surveying.workers import spread
from patchkit.tree import SourceTree

Opener = Callable[[str], SourceTree]
Progress = Callable[[str, int, int | None], None]

# As in a survey of plain files: below this many landings two processes do not start in time.
WORTH_SPREADING = 60


class Outlook(StrEnum):
    """What would become of one patch."""

    CLEAN = "clean"
    DRIFTED = "drifted"
    UPSTREAM = "upstream"
    PARTLY_UPSTREAM = "partly_upstream"
    CONFLICTS = "conflicts"
    ORPHANED = "orphaned"
    BLOCKED = "blocked"  # it waits for patches before it
    SUPERSEDED = "superseded"  # its tests pass on the release without it


@dataclass(frozen=True)
class PatchForecast:
    """One patch on the target.

    `by_hand` counts the hunks that a person would have to settle, `upstream` those that the target
    has. `reason` is the first thing that speaks against it. `exit` is what shows that its exit
    condition holds, None where it does not or none is named.
    """

    patch: str
    outlook: Outlook
    hunks: int
    by_hand: int = 0
    upstream: int = 0
    reason: str | None = None
    seconds: float = 0.0
    exit: str | None = None

    @property
    def lands(self) -> bool:
        """Whether nothing of it is left to a person."""
        return not self.by_hand and self.outlook is not Outlook.BLOCKED


@dataclass(frozen=True)
class SeriesForecast:
    """One series folder on the target; `notes` tell what concerns no single patch."""

    folder: str
    base: str
    patches: tuple[PatchForecast, ...]
    notes: tuple[str, ...] = ()
    lands: bool = True  # nothing of it, new files included, is left to a person


@dataclass(frozen=True)
class Forecast:
    """All that is stored on one target.

    `made` is the time at which this was found, `kept` says that it was found by an earlier run.
    `error` is why there is no answer.
    """

    target: str
    version: str | None
    series: tuple[SeriesForecast, ...] = ()
    seconds: float = 0.0
    made: str = ""
    error: str | None = None
    kept: bool = field(default=False, compare=False)

    @property
    def lands(self) -> bool:
        """Whether a rebase would be done without a person."""
        return self.error is None and all(series.lands for series in self.series)


def forecast(
    config: Config,
    target: str,
    opener: Opener,
    *,
    is_release: bool = True,
    now: datetime | None = None,
) -> Forecast:
    """Return what a target would make of all that is stored; an error becomes a part of it."""
    began = monotonic()
    made = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    clock = _Clock()
    try:
        spec = spelled(target, is_release=is_release)
        tree = opener(spec)
        request = Request(spec, is_release, backwards=True)
        chosen = replace(config, series=movable(config, request, tree.version))
        moves = move_all(chosen, request, opener, clock) if chosen.series else ()
        series = tuple(
            _series(move, clock.seconds[n] if n < len(clock.seconds) else {}, tree)
            for n, move in enumerate(moves)
        )
    except PatchkitError as error:
        return Forecast(target, None, made=made, error=str(error))
    return Forecast(target, tree.version, series, round(monotonic() - began, 2), made)


def spelled(target: str, *, is_release: bool) -> str:
    """Return how a target is named where it is opened."""
    return f"v{target}" if is_release else target


def movable(config: Config, request: Request, version: str | None) -> tuple[str, ...]:
    """Return the series folders of which there is something to move."""
    bases = choose_bases(config, request, version)
    return tuple(
        folder
        for folder, release in bases.items()
        if read_stored(config.root, folder, release).series.patches
    )


def stored_hunks(config: Config) -> int:
    """Return about how many hunks are stored of each release."""
    count = 0
    for folder in config.series:
        releases = stored_releases(config.root, folder)
        patches = read_stored(config.root, folder, releases[-1]).series.patches if releases else {}
        count += sum(data.count(b"\n@@ ") for data in patches.values())
    return count


class _Clock:
    """Hears of each patch that was placed, and notes how long it took; one table a series."""

    def __init__(self) -> None:
        self.seconds: list[dict[str, float]] = []
        self._last = monotonic()

    def __call__(self, patch: str, number: int, total: int) -> None:  # noqa: ARG002
        now = monotonic()
        if number == 0:
            self.seconds.append({})
        else:
            self.seconds[-1][patch] = now - self._last
        self._last = now


def _series(move: SeriesMove, seconds: dict[str, float], tree: SourceTree) -> SeriesForecast:
    exits = stored_exits(move.stored, tree)
    superseded = {verdict.patch: verdict.reason for verdict in move.superseded}
    patches = []
    for name in move.stored.series.patches:
        outcomes = tuple(o for o in move.result.outcomes if o.patch == name)
        found = judge_patch(name, outcomes)
        if name in superseded:
            found = PatchForecast(name, Outlook.SUPERSEDED, len(outcomes), reason=superseded[name])
        time = round(seconds.get(name, 0.0), 3)
        patches.append(replace(found, seconds=time, exit=_held(exits.get(name))))
    notes = [f"{path}: in the overlay, and in the target already" for path in move.clashes]
    notes += [f"{drift.read_at}: in the overlay: {drift.text}" for drift in move.drifts]
    return SeriesForecast(
        move.stored.folder, move.stored.release, tuple(patches), tuple(notes), move.is_settled
    )


def _held(found: Exit | None) -> str | None:
    return found.text if found is not None and found.holding is Holding.HELD else None


def judge_patch(name: str, outcomes: tuple[HunkOutcome, ...]) -> PatchForecast:
    """Return what the outcomes of a patch's hunks amount to."""
    found = standing.judge("", outcomes, None, is_base=False)
    outlook = Outlook(found.verdict.value)
    left = [outcome for outcome in outcomes if not outcome.landed]
    if left and all(outcome.status is Status.BLOCKED for outcome in left):
        outlook = Outlook.BLOCKED
    by_hand = [o for o in outcomes if o.drifted or (o in left and o.status is not Status.BLOCKED)]
    upstream = sum(outcome.status is Status.ALREADY_UPSTREAM for outcome in outcomes)
    return PatchForecast(name, outlook, len(outcomes), len(by_hand), upstream, found.reason)


@dataclass(frozen=True)
class Look:
    """What a worker needs to forecast: it opens its own trees."""

    config: Config
    opener: Opener
    is_release: bool = True

    def at(self, target: str) -> Forecast:
        """Return the forecast for one target."""
        return forecast(self.config, target, self.opener, is_release=self.is_release)


def forecasts(
    config: Config,
    targets: Sequence[str],
    openers: tuple[Opener, Opener],
    jobs: int,
    progress: Progress,
    *,
    is_release: bool = True,
) -> Iterator[Forecast]:
    """Yield the forecast for each target, in order.

    `openers` are the one for this process and the one for others, which is picklable. What cannot
    be opened is found here, so that what is fetched is fetched once and reported.
    """
    failed: dict[str, Forecast] = {}
    for target in targets:
        try:
            openers[0](spelled(target, is_release=is_release))
        except PatchkitError as error:
            made = datetime.now(UTC).isoformat(timespec="seconds")
            failed[target] = Forecast(target, None, made=made, error=str(error))
    opened = [target for target in targets if target not in failed]
    looked = _looked(config, opened, openers, jobs, progress, is_release=is_release)
    for target in targets:
        yield failed[target] if target in failed else next(looked)


def _looked(
    config: Config,
    targets: Sequence[str],
    openers: tuple[Opener, Opener],
    jobs: int,
    progress: Progress,
    *,
    is_release: bool,
) -> Iterator[Forecast]:
    count = len(targets)
    processes = min(jobs, count)

    def done(number: int) -> None:
        progress("targets", number, count)

    if processes < 2 or stored_hunks(config) * count < WORTH_SPREADING:
        for number, target in enumerate(targets, start=1):
            found = Look(config, openers[0], is_release).at(target)
            done(number)
            yield found
    else:
        yield from spread(Look(config, openers[1], is_release).at, targets, processes, done)
