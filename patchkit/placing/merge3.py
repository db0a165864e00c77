"""Three-way placing by lines: a changed run goes where its lines and both neighbours are unchanged.

This is what a merge does with a conflict-free hunk, kept to one region (a definition and its
correspondent), so that nothing outside can attract the change.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Changed lines: base lines [start, end), 0-based and half-open, and the new lines."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def place_run(
    run: Run, base: tuple[int, int], target: tuple[int, int], mapping: dict[int, int]
) -> tuple[int, int] | None:
    """Return the target lines [start, end) that a run replaces, None where that is not clean.

    `base` and `target` are the regions, `mapping` the alignment, all in whole-file line numbers.
    """
    lines = [mapping.get(i) for i in range(run.start, run.end)]
    if run.start > base[0]:
        left = mapping.get(run.start - 1)
        start = None if left is None else left + 1
    else:
        start = target[0]
    end = mapping.get(run.end) if run.end < base[1] else target[1]
    if start is None or end is None or lines != list(range(start, end)):
        return None
    return start, end
