"""How long one run takes, and where the time goes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from patchkit.stacking import rebase
from patchkit.stacking.rebase import rebase_series
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree
from tests.bench.series import Drawn, draw_series

_PATCHES = {118: 15}  # others get a patch for every eight hunks


@dataclass(frozen=True)
class Timing:
    """One run: wall clock and processor time in seconds, and how many hunks came to what.

    `placing_s` and `drift_s` are wall clock, parts of `wall_s`.
    """

    wall_s: float
    cpu_s: float
    placing_s: float
    drift_s: float
    outcomes: Mapping[str, int]


def time_rebase(series: Drawn, base: SourceTree, target: SourceTree) -> Timing:
    """Return how long the series takes from base to target in this process.

    What was parsed before counts as known: a fair run is the first of its process.
    """
    spent: Counter[str] = Counter()
    with _clocked(rebase, "land_remembering", spent), _clocked(rebase, "drifts_of", spent):
        wall, cpu = time.perf_counter(), time.process_time()
        result = rebase_series(series.patches, base, target)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    outcomes = Counter(outcome.status.value for outcome in result.outcomes)
    return Timing(
        wall, cpu, spent["land_remembering"], spent["drifts_of"], dict(sorted(outcomes.items()))
    )


@contextmanager
def _clocked(owner: Any, name: str, spent: Counter[str]) -> Iterator[None]:
    """Add up the seconds that a function takes."""
    function: Callable[..., Any] = getattr(owner, name)

    def clocked(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[name] += time.perf_counter() - start  # type: ignore[assignment]

    with patch.object(owner, name, clocked):
        yield


@dataclass(frozen=True)
class Job:
    """One run: from base to target, with hunks that the later release made."""

    base: str
    target: str
    later: str
    hunks: int
    seed: int


def _tree(version: str) -> SourceTree:
    return open_tree(f"v{version}")


def run_job(job: Job) -> tuple[Drawn, Timing]:
    """Return the series of a job and how long it took."""
    base, target, later = (_tree(v) for v in (job.base, job.target, job.later))
    series = draw_series(
        base, later, target, hunks=job.hunks, seed=job.seed, patches=_PATCHES.get(job.hunks)
    )
    # Read anew: what was looked up for drawing is not known to the run.
    return series, time_rebase(series, _tree(job.base), _tree(job.target))
