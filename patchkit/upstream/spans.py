"""Spans of a file's bytes, and how many requests they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_SPANS = 10


@dataclass(frozen=True, order=True)
class Span:
    """Bytes `start` to `end`, 0-based and half-open."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """How many bytes it is."""
        return self.end - self.start


def coalesce(spans: Iterable[Span], limit: int = MAX_SPANS) -> list[Span]:
    """Return at most `limit` spans that cover the given ones with the fewest bytes between them."""
    ordered = sorted(spans)
    gaps = []
    end = 0
    for number, span in enumerate(ordered):
        if number and span.start > end:
            gaps.append((span.start - end, number))
        end = max(end, span.end)
    cuts = sorted(number for _, number in sorted(gaps, reverse=True)[: limit - 1])
    bounds = zip([0, *cuts], [*cuts, len(ordered)], strict=True)
    return [
        Span(ordered[a].start, max(span.end for span in ordered[a:b])) for a, b in bounds if a < b
    ]
