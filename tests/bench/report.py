"""The timings of a run: as a table for people and as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.bench.measure import Timing


@dataclass(frozen=True)
class Row:
    """One size: the series, and its timings in the order in which they were taken."""

    hunks: int
    files: int
    patches: int
    timings: tuple[Timing, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the row as JSON holds it: seconds to the hundredth, shares to the hundredth."""
        walls = [t.wall_s for t in self.timings]
        wall = median(walls)
        placing = median(t.placing_s / t.wall_s for t in self.timings)
        drift = median(t.drift_s / t.wall_s for t in self.timings)
        return {
            "hunks": self.hunks,
            "files": self.files,
            "patches": self.patches,
            "n": len(self.timings),
            "wall_s": round(wall, 2),
            "wall_s_least": round(min(walls), 2),
            "wall_s_most": round(max(walls), 2),
            "cpu_s": round(median(t.cpu_s for t in self.timings), 2),
            "ms_a_hunk": round(1000 * wall / self.hunks, 1),
            "placing_share": round(placing, 2),
            "drift_share": round(drift, 2),
            "outcomes": dict(self.timings[0].outcomes),
        }


def as_json(settings: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return the whole run as text."""
    record = {**settings, "rows": [row.as_record() for row in rows]}
    return json.dumps(record, indent=1, sort_keys=True) + "\n"


def print_table(rows: Sequence[Row], console: Console) -> None:
    """Print a line a size."""
    table = Table(box=SIMPLE_HEAD)
    heads = ("hunks", "files", "patches", "n", "seconds", "spread", "CPU", "ms/hunk", "placing")
    for head in (*heads, "drift"):
        table.add_column(head, justify="right")
    for row in rows:
        r = row.as_record()
        table.add_row(
            str(r["hunks"]), str(r["files"]), str(r["patches"]), str(r["n"]), f"{r['wall_s']:.2f}",
            f"{r['wall_s_least']:.2f} to {r['wall_s_most']:.2f}", f"{r['cpu_s']:.2f}",
            f"{r['ms_a_hunk']:.1f}", f"{r['placing_share']:.0%}", f"{r['drift_share']:.0%}",
        )  # fmt: skip
    console.print(table)
