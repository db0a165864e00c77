"""Spans: few requests, few bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.upstream.spans import Span, coalesce


@pytest.mark.parametrize(
    ("limit", "spans"),
    [
        (4, [Span(0, 10), Span(15, 20), Span(50, 60), Span(61, 70)]),
        (3, [Span(0, 10), Span(15, 20), Span(50, 70)]),
        (2, [Span(0, 20), Span(50, 70)]),
        (1, [Span(0, 70)]),
    ],
)
def test_widest_gaps_are_left_out(limit, spans):
    given_spans = [Span(61, 70), Span(0, 10), Span(15, 20), Span(50, 60)]
    assert coalesce(given_spans, limit) == spans


def test_neighbours_are_one():
    assert coalesce([Span(0, 5), Span(5, 9), Span(2, 3), Span(1, 8)]) == [Span(0, 9)]
    assert coalesce([Span(3, 4)]) == [Span(3, 4)]
    assert coalesce([]) == []


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9))), st.integers(1, 12))
def test_every_byte_is_covered_by_few_spans(pairs, limit):
    spans = [Span(start, start + size) for start, size in pairs]
    found = coalesce(spans, limit)
    assert len(found) <= limit
    assert found == sorted(found)
    assert all(a.end < b.start for a, b in pairwise(found))
    assert all(any(f.start <= s.start and s.end <= f.end for f in found) for s in spans)
