"""What is to be reached: ratios of two measured times or of a time and the copy, or a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.kernels.rows import Row

TIME = "µs"  # in place of a column: nothing is divided by


@dataclass(frozen=True)
class Target:
    """A ratio of one cell (batch, context, query tokens), and the bound that it is to keep."""

    name: str
    column: str
    cell: tuple[int, int, int]
    over: str | None  # the column whose time this one's is divided by; None: its share of the copy;
    # TIME: its time itself in microseconds
    bound: float
    at_least: bool = False

    def ratio(self, rows: Sequence[Row]) -> float | str:
        """The ratio, or why there is none."""
        found = []
        for column in (self.column, self.over):
            if column in (None, TIME):
                continue
            row = find(rows, column, self.cell)
            if row is None or row.status != "timed":
                why = "not measured" if row is None else f"{row.status}: {row.reason}"
                return f"{column}: {why}"
            found.append(row)
        if self.over == TIME:
            return found[0].us
        return found[0].us / found[1].us if self.over else found[0].share

    def verdict(self, rows: Sequence[Row], *, judged: bool) -> str:
        """One line: the target, the ratio, and whether it is met."""
        ratio = self.ratio(rows)
        sign = ">=" if self.at_least else "<="
        wanted = f"{self.name} {sign} {self.bound:g}"
        if isinstance(ratio, str):
            return f"not shown  {wanted} ({ratio})"
        if not judged:
            return f"not judged {wanted}: {ratio:.3g}"
        met = ratio >= self.bound if self.at_least else ratio <= self.bound
        return f"{'met' if met else 'MISSED':10} {wanted}: {ratio:.3g}"


def find(rows: Sequence[Row], column: str, cell: tuple[int, int, int]) -> Row | None:
    """The row of a column and (batch, context, query tokens), or None."""
    for row in rows:
        case = row.case
        if row.column == column and (case.batch, case.context, case.new_tokens) == cell:
            return row
    return None
