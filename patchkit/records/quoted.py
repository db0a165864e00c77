"""Lengths in tokens that a sentence states, held against the rows that its figures are from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from patchkit.records.record import Row

_LENGTH = re.compile(
    r"(?<![\w.,])(?P<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)[ \u00a0]?(?P<k>[kK]?)[\s\u00a0-]+"
    r"(?:(?P<what>new|generated|cached|context|prompt|draft)\s+)?(?:tokens?\b|(?P<bare>context\b))"
)
_FIELDS = {
    "new": ("new_tokens",), "generated": ("new_tokens",), "cached": ("cached_tokens",),
    "context": ("context",), "prompt": ("context",), "draft": ("draft_length",),
    None: ("context", "new_tokens", "cached_tokens", "draft_length", "block_size"),
}  # fmt: skip
_END = re.compile(r"[.!?](?=\s)|\n[ \t]*\r?\n|\n(?=\s*(?:[-*+]|\d+[.)])\s)|\n(?=[^\n]*\|)")


def sentence(text: str, at: int) -> tuple[int, int]:
    """Return the span of the sentence, list item or table row that an offset lies in."""
    start, end = 0, len(text)
    for match in _END.finditer(text):
        if match.end() <= at:
            start = match.end()
        elif match.start() >= at:
            end = match.start()
            break
    return start, end


def contradictions(text: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lengths that a sentence states and none of the rows has, with what they have."""
    for match in _LENGTH.finditer(text):
        fields = _FIELDS["context" if match["bare"] else match["what"]]
        number = float(match["number"].replace(",", ""))
        meant = {number * 1000, number * 1024} if match["k"] else {number}
        there = [getattr(row.workload, field) for row in rows for field in fields]
        if not meant & {value for value in there if value is not None}:
            said = " ".join(match[0].split())
            yield f"the text says {said}, the record has {_listed(rows, fields)}"


def _listed(rows: Sequence[Row], fields: Sequence[str]) -> str:
    """Return what the rows have of some fields, as `context 32768`."""
    parts = dict.fromkeys(
        f"{field} {getattr(row.workload, field)}"
        for row in rows
        for field in fields
        if getattr(row.workload, field) is not None
    )
    return ", ".join(parts) or "no length"
