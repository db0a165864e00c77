"""Rows as text: a line a case, a column a peer, in plain characters."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.kernels.cases import Case
from tests.bench.kernels.rows import Row, spread


def cell(row: Row | None) -> str:
    """Median in microseconds, spread, and the share of the copy; else what became of it."""
    if row is None:
        return "-"
    if row.status != "timed":
        return row.status
    return f"{row.us:.1f} ±{spread(row.samples_us) * 100:.0f}% {row.share * 100:.0f}%"


def table(cases: Sequence[Case], columns: Sequence[str], rows: Sequence[Row]) -> str:
    """The whole table, and below it each reason why a cell has no time."""
    found = {(row.case, row.column): row for row in rows}
    lines = [["batch", "context", "q", *columns]]
    for case in cases:
        head = [str(case.batch), str(case.context), str(case.new_tokens)]
        lines.append([*head, *(cell(found.get((case, column))) for column in columns)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    text = [
        "  ".join(value.rjust(width) for value, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join([*text, *reasons(rows)])


def reasons(rows: Sequence[Row]) -> list[str]:
    """Why cells were skipped or failed: a line for each reason, with how many cells."""
    counted: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row.status != "timed":
            counted.setdefault((row.column, row.status, row.reason), []).append(row.case.name)
    lines = []
    for (column, status, reason), names in counted.items():
        where = ", ".join(names) if len(names) < 4 else f"{len(names)} cases"
        lines.append(f"{column}: {status} ({where}): {reason}")
    return lines


def legend(copy_gbps: Sequence[float]) -> str:
    """What the figures are."""
    low, high = min(copy_gbps), max(copy_gbps)
    copied = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
    return (
        "µs a call, half the quartile range, and GB/s of the cache's bytes over those of a copy "
        f"in the same run ({copied} GB/s, bytes read + written)."
    )
