"""Two series side by side: what is paired, what came and went, and what the headers say."""

from __future__ import annotations

from datetime import date

import pytest

from patchkit.diff import diff_files, format_files
from patchkit.errors import PatchkitError
from patchkit.knowing.changes import State
from patchkit.knowing.range_diff import FieldChange, PatchPair, RangeDiff, range_diff
from patchkit.knowing.sides import Side, logged_reasons, read_patch
from patchkit.repository.log import Fate, LoggedPatch, LoggedRebase

TEN = "".join(f"line {number}\n" for number in range(10))


def patch(old: str, new: str, header: str = "") -> bytes:
    """A patch that changes one line of ten."""
    before, after = {"vllm/a.py": TEN.encode()}, {"vllm/a.py": TEN.replace(old, new).encode()}
    return header.encode() + format_files(diff_files(before, after))


def side(
    patches: dict[str, bytes], *, comments: str = "", overlay: dict[str, str] | None = None
) -> Side:
    read = {
        name: read_patch(name, name.rpartition("/")[2], data, None, "patches")
        for name, data in patches.items()
    }
    return Side("v1" if not comments else "v2", read, overlay or {}, comments)


ONE, TWO, SIX = patch("line 1", "one"), patch("line 2", "two"), patch("line 6", "six")


def pairs(found: RangeDiff) -> list[tuple[str | None, str | None]]:
    return [(pair.before, pair.after) for pair in found.pairs]


def test_two_series_of_the_same_patches_do_not_differ() -> None:
    found = range_diff(side({"a": ONE, "b": TWO}), side({"a": ONE, "b": TWO}))
    assert found.pairs == (PatchPair("a", "a", State.SAME), PatchPair("b", "b", State.SAME))
    assert not found.differ


def test_what_is_dropped_stands_where_it_was_with_the_reason_of_the_series_file() -> None:
    before = side({"a.patch": ONE, "b.patch": TWO, "c.patch": SIX})
    found = range_diff(before, side({"c.patch": SIX}, comments="# b: upstream has it\n"))
    assert found.pairs == (
        PatchPair("a.patch", None, State.CHANGED),
        PatchPair("b.patch", None, State.CHANGED, reason="upstream has it"),
        PatchPair("c.patch", "c.patch", State.SAME),
    )
    assert found.differ


def test_a_dropped_patch_stands_behind_the_one_before_it() -> None:
    found = range_diff(side({"a": ONE, "b": TWO, "c": SIX}), side({"a": ONE, "c": SIX}))
    assert pairs(found) == [("a", "a"), ("b", None), ("c", "c")]


def test_the_reason_of_a_patch_in_a_folder_is_found_by_its_bare_name() -> None:
    found = range_diff(side({"k/b.patch": TWO}), side({}, comments="# b.patch: gone\n"))
    assert found.pairs[0].reason == "gone"


def test_what_is_added_has_no_earlier_name() -> None:
    found = range_diff(side({}), side({"a": ONE}))
    assert found.pairs == (PatchPair(None, "a", State.CHANGED),)


def test_a_renamed_patch_is_found_by_what_it_changes() -> None:
    found = range_diff(side({"a": ONE, "b": TWO}), side({"x": TWO, "a": ONE}))
    assert found.pairs == (
        PatchPair("b", "x", State.SAME, likeness=1.0),
        PatchPair("a", "a", State.SAME),
    )
    assert not found.pairs[0].unchanged


def test_the_likest_patch_is_the_one_that_was_renamed() -> None:
    both = patch("line 1\nline 2", "one\ntwo")
    found = range_diff(side({"a": ONE, "b": both}), side({"x": both, "y": ONE}))
    assert sorted(pairs(found)) == [("a", "y"), ("b", "x")]


def test_patches_with_half_in_common_are_not_one() -> None:
    other = patch("line 1", "uno")
    assert pairs(range_diff(side({"a": ONE}), side({"x": other}))) == [("a", None), (None, "x")]


def test_a_patch_is_renamed_to_one_name_only() -> None:
    found = range_diff(side({"a": ONE}), side({"x": ONE, "y": ONE}))
    assert pairs(found) == [("a", "x"), (None, "y")]


def test_header_changes_are_told_apart_from_changes_of_the_patch() -> None:
    before = patch("line 1", "one", "Description: One\nBug: 1\nBug: 2\n\n")
    after = patch("line 1", "one", "Description: One\nBug: 1\nOwner: me\n\nsome text\n\n")
    (pair,) = range_diff(side({"a": before}), side({"a": after})).pairs
    assert pair.state is State.SAME
    assert pair.header == (
        FieldChange("Bug", "1\n2", "1"),
        FieldChange("Owner", None, "me"),
        FieldChange("", None, "some text"),
    )
    assert not pair.unchanged


def test_a_patch_that_changed_places_is_named() -> None:
    before = side({"a": ONE, "b": TWO, "c": SIX})
    found = range_diff(before, side({"c": SIX, "a": ONE, "b": TWO}))
    assert found.reordered == ("c",)
    assert found.differ
    assert range_diff(before, side({"a": ONE, "c": SIX})).reordered == ()


def test_whole_new_files_are_compared_by_their_digest() -> None:
    found = range_diff(
        side({}, overlay={"a": "1", "b": "2", "c": "3"}),
        side({}, overlay={"b": "2", "c": "4", "d": "5"}),
    )
    assert found.overlay == ("a: dropped", "c: other content", "d: added")
    assert found.differ


def test_only_the_named_patches_are_compared() -> None:
    before = side({"k/a.patch": ONE, "b.patch": TWO}, overlay={"x": "1"})
    found = range_diff(before, side({"b.patch": SIX, "k/a.patch": ONE}), ["a"])
    assert pairs(found) == [("k/a.patch", "k/a.patch")]
    assert not found.differ
    for word in ("k/a", "k/a.patch", "a.patch"):
        assert pairs(range_diff(before, before, [word])) == [("k/a.patch", "k/a.patch")]


def test_a_renamed_patch_goes_by_both_names() -> None:
    before, after = side({"a": ONE, "b": TWO}), side({"x": ONE, "b": TWO})
    assert pairs(range_diff(before, after, ["x"])) == [("a", "x")]
    assert pairs(range_diff(before, after, ["a"])) == [("a", "x")]


def test_a_name_that_neither_has_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        range_diff(side({"a.patch": ONE}), side({"a.patch": ONE}), ["z"])
    assert str(caught.value) == "v1, v1: there is no patch 'z'"
    assert caught.value.hint == "they have: a"


def test_a_patch_that_came_back_is_left_out_no_more() -> None:
    def rebase(target: str, fate: Fate) -> LoggedRebase:
        return LoggedRebase(date(2026, 1, 2), "1", target, 1.0, (LoggedPatch("a.patch", fate),))

    log = [rebase("2", Fate.SKIPPED), rebase("3", Fate.UPSTREAM)]
    assert logged_reasons(log, "2") == {
        "a.patch": "skipped by a person in the rebase of 2026-01-02"
    }
    assert logged_reasons([*log, rebase("2", Fate.MOVED)], "2") == {}
    assert logged_reasons(log, "4") == {}
