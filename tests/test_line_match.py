"""Which lines are the same, and where a block of new lines is said to start."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.diff import Change, diff_lines, match_lines, split_lines


def added(old: str, new: str) -> list[str]:
    """Return the text of each inserted block."""
    new_lines = split_lines(new.encode())
    changes = diff_lines(split_lines(old.encode()), new_lines)
    assert all(change.old_start == change.old_end for change in changes)
    return [b"".join(new_lines[c.new_start : c.new_end]).decode() for c in changes]


def test_changes_are_gaps_between_matched_lines() -> None:
    assert diff_lines([b"a", b"b", b"c"], [b"a", b"x", b"c", b"d"]) == (
        Change(1, 2, 1, 2),
        Change(3, 3, 3, 4),
    )
    assert diff_lines([], []) == ()
    assert diff_lines([], [b"a"]) == (Change(0, 0, 0, 1),)
    assert diff_lines([b"a"], []) == (Change(0, 1, 0, 0),)


def test_a_unique_line_anchors_before_frequent_ones() -> None:
    assert match_lines([b"a", b"a", b"u"], [b"u", b"a", b"a"]) == [(2, 0)]


def test_a_new_function_starts_at_its_def() -> None:
    old = "def a():\n    return 1\n\n\ndef c():\n    return 3\n"
    new = "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\ndef c():\n    return 3\n"

    assert added(old, new) == ["def b():\n    return 2\n\n\n"]


def test_a_new_function_with_the_same_body_starts_at_its_def() -> None:
    old = "def a():\n    return 1\n\n\ndef c():\n    return 1\n"
    new = "def a():\n    return 1\n\n\ndef b():\n    return 1\n\n\ndef c():\n    return 1\n"

    assert added(old, new) == ["def b():\n    return 1\n\n\n"]


def test_a_new_method_starts_at_its_decorator() -> None:
    method = "    @p\n    def %s(self):\n        pass\n"
    old = "class A:\n" + method % "a" + "\n" + method % "c"
    new = old.replace(
        "    @p\n    def c", "    @p\n    def b(self):\n        pass\n\n    @p\n    def c"
    )

    assert added(old, new) == ["    @p\n    def b(self):\n        pass\n\n"]


def test_a_new_function_starts_at_its_comment() -> None:
    old = "x = 1\n\n# About.\ndef a():\n    pass\n\n# About.\ndef c():\n    pass\n"
    new = old.replace("# About.\ndef c", "# About.\ndef b():\n    pass\n\n# About.\ndef c")

    assert added(old, new) == ["# About.\ndef b():\n    pass\n\n"]


def test_a_new_branch_starts_at_its_test() -> None:
    old = "def f(a):\n    if a == 1:\n        return 0\n    return 1\n"
    new = old.replace("    return 1", "    if a == 2:\n        return 0\n    return 1")

    assert added(old, new) == ["    if a == 2:\n        return 0\n"]


def test_repeated_lines_are_added_below() -> None:
    old = [b"x\n", b"a\n", b"a\n"]

    assert diff_lines(old, [*old, b"a\n"]) == (Change(3, 3, 3, 4),)
    assert diff_lines(old, old[:-1]) == (Change(2, 3, 2, 2),)


def test_a_rewritten_stretch_without_anchors_ends_soon() -> None:
    rng = random.Random(7)
    old = [rng.choice(b"ab").to_bytes(1, "big") for _ in range(3000)]
    new = [rng.choice(b"cdef").to_bytes(1, "big") * 2 for _ in range(3000)]

    assert match_lines([*old, b"x"], [*new, b"x"]) == [(3000, 3000)]


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"    c\n", b"\n", b"def f():\n"]), max_size=25)


@given(LINES, LINES)
def test_changes_turn_old_into_new(old: list[bytes], new: list[bytes]) -> None:
    result: list[bytes] = []
    at = 0
    for change in diff_lines(old, new):
        assert at <= change.old_start <= change.old_end
        result += old[at : change.old_start]
        assert len(result) == change.new_start
        result += new[change.new_start : change.new_end]
        at = change.old_end
    assert result + old[at:] == new


@given(LINES, LINES)
def test_matches_rise_on_both_sides(old: list[bytes], new: list[bytes]) -> None:
    pairs = match_lines(old, new)

    assert all(old[i] == new[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))


@pytest.mark.parametrize("seed", range(5))
def test_a_small_edit_of_a_long_text_is_found(seed: int) -> None:
    rng = random.Random(seed)
    old = [b"%d\n" % rng.randrange(50) for _ in range(400)]
    at = rng.randrange(400)
    new = [*old[:at], b"new\n", *old[at + 1 :]]

    assert diff_lines(old, new) == (Change(at, at + 1, at, at + 1),)
