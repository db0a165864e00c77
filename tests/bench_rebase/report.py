"""The counts of a run: as a table for people and as a file that is the same for the same run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.bench_rebase.cases import Case, Generated
from tests.bench_rebase.judge import Judgement, Verdict

MOST_DROPPED = 0.30


@dataclass
class Count:
    """Verdicts of one tool on one kind."""

    right: int = 0
    wrong: int = 0
    refused: int = 0
    exact: int = 0

    def add(self, judgement: Judgement) -> None:
        """Count one verdict."""
        self.right += judgement.verdict is Verdict.RIGHT
        self.wrong += judgement.verdict is Verdict.WRONG
        self.refused += judgement.verdict is Verdict.REFUSED
        self.exact += judgement.exact

    def __add__(self, other: Count) -> Count:
        return Count(
            self.right + other.right,
            self.wrong + other.wrong,
            self.refused + other.refused,
            self.exact + other.exact,
        )


@dataclass
class Kind:
    """All counts of one kind: cases (units are those of several hunks), dropped, and by tool."""

    cases: int = 0
    units: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    tools: dict[str, Count] = field(default_factory=dict)

    @property
    def dropped_share(self) -> float:
        """The share of dropped cases among all that the kind could have had."""
        dropped = self.dropped.total()
        return dropped / (dropped + self.cases) if dropped else 0.0


@dataclass
class Summary:
    """A run: what was asked for, and the counts by kind."""

    settings: Mapping[str, Any]
    kinds: dict[str, Kind] = field(default_factory=dict)
    pairs: dict[str, dict[str, Count]] = field(default_factory=dict)

    def add_generated(self, generated: Generated) -> None:
        """Count the cases of a kind, and those that were dropped."""
        kind = self.kinds.setdefault(generated.kind, Kind())
        kind.cases += len(generated.cases)
        kind.units += sum(case.hunks > 1 for case in generated.cases)
        kind.dropped.update(generated.dropped)

    def add_judgement(self, case: Case, tool: str, judgement: Judgement) -> None:
        """Count a verdict."""
        self.kinds[case.kind].tools.setdefault(tool, Count()).add(judgement)
        pair = self.pairs.setdefault(":".join(case.releases), {})
        pair.setdefault(tool, Count()).add(judgement)

    def total(self, tool: str) -> Count:
        """Return a tool's counts over all kinds."""
        return sum((k.tools.get(tool, Count()) for k in self.kinds.values()), Count())

    @property
    def cases(self) -> int:
        """The number of cases."""
        return sum(kind.cases for kind in self.kinds.values())


def as_json(summary: Summary) -> str:
    """Return the summary as text; nothing in it depends on time or machine."""
    tools: Sequence[str] = summary.settings["tools"]
    report = {
        "format": 1,
        **summary.settings,
        "kinds": {
            name: {
                "cases": kind.cases,
                "units": kind.units,
                "dropped": dict(sorted(kind.dropped.items())),
                "dropped_share": round(kind.dropped_share, 3),
                "tools": _by_tool(kind.tools, tools),
            }
            for name, kind in summary.kinds.items()
        },
        "pairs": {pair: _by_tool(counts, tools) for pair, counts in summary.pairs.items()},
        "total": {"cases": summary.cases, "tools": {t: vars(summary.total(t)) for t in tools}},
    }
    return json.dumps(report, indent=2) + "\n"


def _by_tool(counts: Mapping[str, Count], tools: Sequence[str]) -> dict[str, dict[str, int]]:
    return {tool: vars(counts[tool]) for tool in tools if tool in counts}


def print_table(summary: Summary, console: Console) -> None:
    """Print right / wrong / refused by kind and tool, and what was dropped."""
    tools: Sequence[str] = summary.settings["tools"]
    table = Table(
        title="right / wrong / refused (byte-exact)", title_justify="left", box=SIMPLE_HEAD
    )
    table.add_column("kind", no_wrap=True)
    for heading in ("cases", "dropped", *tools):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, kind in summary.kinds.items():
        cells = [_cell(kind.tools.get(tool)) for tool in tools]
        dropped = f"{kind.dropped.total()} ({kind.dropped_share:.0%})"
        table.add_row(name, str(kind.cases), dropped, *cells)
    table.add_section()
    if len(summary.pairs) > 1:
        for pair, counts in summary.pairs.items():
            cells = [_cell(counts.get(tool)) for tool in tools]
            count = max(c.right + c.wrong + c.refused for c in counts.values())
            table.add_row(pair, str(count), "", *cells)
        table.add_section()
    dropped = str(sum(kind.dropped.total() for kind in summary.kinds.values()))
    table.add_row("all", str(summary.cases), dropped, *(_cell(summary.total(t)) for t in tools))
    console.print(table)
    for line in dropped_lines(summary):
        console.print(line, highlight=False, soft_wrap=True)


def _cell(count: Count | None) -> str:
    if count is None:
        return "-"
    return f"{count.right} / {count.wrong} / {count.refused} ({count.exact})"


def dropped_lines(summary: Summary) -> Iterable[str]:
    """Yield what was dropped by reason, and which kinds lost more than is good."""
    for name, kind in summary.kinds.items():
        if kind.dropped:
            reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(kind.dropped.items()))
            yield f"dropped of {name}: {reasons}"
        if kind.dropped_share > MOST_DROPPED:
            yield f"{name}: more than {MOST_DROPPED:.0%} of the cases were dropped"
