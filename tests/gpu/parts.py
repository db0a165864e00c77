"""What the GPU lane shows, part by part. Another kernel's tests are found in tests/kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """Tests that show one thing."""

    name: str
    shows: str
    folder: str  # below which conftest files count: others need more than a GPU machine has
    tests: tuple[str, ...]
    marked: str
    sources: tuple[str, ...]  # whose change makes outcomes stale
    shared: bool  # whether they run in one process a core


PARTS = (
    Part(
        name="parity",
        shows="kernels are within their bounds of float64",
        folder="tests/kernels",
        tests=("tests/kernels",),
        marked="kernel or gpu",
        sources=("kvarn_port", "tests/kernels"),
        shared=True,
    ),
    Part(
        name="allocations",
        shows="pages and promoted blocks in real allocations",
        folder="tests/gpu",
        tests=("tests/gpu/test_kv_allocations.py",),
        marked="engine",
        sources=("tests/gpu", "patches"),
        shared=False,
    ),
)


@dataclass(frozen=True)
class Result:
    """What became of a part's tests; `problem` where it did not come to its end, `left` unrun.

    only: the expression that chose some of the tests, where one did
    """

    part: Part
    outcomes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    problem: str = ""
    left: Sequence[str] = ()
    only: str = ""

    def count(self, outcome: str) -> int:
        """How many tests had an outcome."""
        return sum(found == outcome for found, _ in self.outcomes.values())

    @property
    def verdict(self) -> str:
        """One of "shown", "failed", "skipped", or "in part" where not all tests were run."""
        if self.problem or self.count("failed"):
            return "failed"
        if not self.count("passed"):
            return "skipped"
        return "in part" if self.count("skipped") or self.only else "shown"

    def reasons(self) -> list[str]:
        """Why tests failed, each, and why they were skipped, each reason once."""
        lines = [f"failed: {self.problem}"] if self.problem else []
        for test, (outcome, reason) in self.outcomes.items():
            if outcome == "failed":
                lines.append(f"failed: {test}: {reason}")
        unrun = Counter(test.partition("[")[0] for test in self.left)
        lines += [f"not run: {count} of {test}" for test, count in sorted(unrun.items())]
        skipped = Counter(why for found, why in self.outcomes.values() if found == "skipped")
        lines += [f"skipped: {count} by: {reason}" for reason, count in skipped.items()]
        if self.only:
            lines.append(f"not asked for: any test but those by -k '{self.only}'")
        if not self.outcomes and not self.problem:
            lines.append("skipped: no test was found")
        return lines


def summary(results: Sequence[Result], place: str) -> str:
    """A line a part, the reasons below it, and what all comes to."""
    lines = [f"on {place}", f"{'part':12} {'verdict':8} passed skipped failed"]
    for result in results:
        counts = [result.count(outcome) for outcome in ("passed", "skipped", "failed")]
        lines.append(
            f"{result.part.name:12} {result.verdict:8} {counts[0]:6} {counts[1]:7} {counts[2]:6}"
            f"  {result.part.shows}"
        )
        lines += [f"    {reason}" for reason in result.reasons()]
    totals = Counter(result.verdict for result in results)
    return "\n".join(
        [*lines, "gpu: " + ", ".join(f"{n} {verdict}" for verdict, n in totals.items())]
    )


def status(results: Sequence[Result]) -> int:
    """0 where all is shown, 3 where something failed, 5 where something is not shown."""
    verdicts = {result.verdict for result in results}
    if "failed" in verdicts:
        return 3
    return 0 if verdicts == {"shown"} else 5
