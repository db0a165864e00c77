"""Which release a patch was made on, and what each makes of it: on small trees, tie by tie."""

from __future__ import annotations

import operator
import os
import time

import pytest

from patchkit.diff import diff_files, format_files, parse_patch
from patchkit.diff.model import blob_id
from patchkit.errors import PatchkitError
from patchkit.outcome import Drift, HunkOutcome, Status
from patchkit.stacking.rebase import PatchInput
from patchkit.surveying.base import Base, NoBase, find_base, given_base, said_ranges
from patchkit.surveying.fit import Fit, fit_patches
from patchkit.surveying.standing import Standing, Verdict, judge, judge_fit
from patchkit.surveying.survey import begin, standings
from patchkit.surveying.workers import WorkerError, _Deal, spread
from patchkit.tree import SourceTree
from tests.moves import diff

PATH = "vllm/mod.py"
OTHER = "vllm/other.py"
BODY = "def f(a):\n    b = a\n    c = b\n    return c\n\n\ndef g():\n    return 1\n"
CHANGED = BODY.replace("c = b", "c = b + 1")
ABOVE = "import os\n"


def trees(**contents: str | dict[str, str]) -> dict[str, SourceTree]:
    """Releases by name, `r1` and so on; a text is that of the one file."""
    found = {}
    for name, files in contents.items():
        texts = {PATH: files} if isinstance(files, str) else files
        found[name] = SourceTree({p: t.encode() for p, t in texts.items()}, name=name)
    return found


def fits(patch: bytes, releases: dict[str, SourceTree]) -> dict[str, Fit]:
    parsed = [parse_patch(patch, "fix.patch")]
    return {name: fit_patches(parsed, tree) for name, tree in releases.items()}


def base_of(patch: bytes, **contents: str | dict[str, str]) -> Base | NoBase:
    return find_base(fits(patch, trees(**contents)))


def with_ids(old: str, new: str, path: str = PATH) -> bytes:
    return format_files(diff_files({path: old.encode()}, {path: new.encode()}))


# The base ----------------------------------------------------------------------------------------


def test_a_release_that_has_the_very_blob_is_the_base_though_others_fit_at_their_own_lines() -> (
    None
):
    longer = BODY + "\n\nx = 1\n"
    found = base_of(with_ids(BODY, CHANGED), r1=BODY, r2=longer)
    assert found == Base(
        "r1", "ids", "the patch names the very file that it has, by blob id", (), ("r2",)
    )
    found = base_of(diff(BODY, CHANGED), r1=BODY, r2=longer)  # the same patch without ids
    assert found == Base("r2", "lines", "every hunk applies at its own line", ("r1",), ())


def test_the_newest_of_those_that_have_the_blob_is_taken_and_the_others_are_said() -> None:
    found = base_of(with_ids(BODY, CHANGED), r1=BODY, r2=BODY, r3=ABOVE + BODY)
    assert isinstance(found, Base)
    assert (found.name, found.alike, found.as_well) == ("r2", ("r1",), ("r3",))


def test_invented_ids_prove_nothing() -> None:
    patch = with_ids(BODY, CHANGED)
    start = patch.index(b"index ") + 6
    patch = patch[:start] + b"1234567" + patch[start + 40 :]
    found = base_of(patch, r1=ABOVE + BODY, r2=BODY, r3=ABOVE + BODY)
    assert found == Base("r2", "lines", "every hunk applies at its own line", (), ("r1", "r3"))


def test_more_files_named_by_their_ids_count_more() -> None:
    old, new = {PATH: BODY, OTHER: BODY}, {PATH: CHANGED, OTHER: CHANGED}
    encoded = [{p: t.encode() for p, t in files.items()} for files in (old, new)]
    patch = format_files(diff_files(*encoded))
    longer = BODY + "\n\nx = 1\n"
    found = base_of(
        patch, r1={PATH: BODY, OTHER: longer}, r2={PATH: longer, OTHER: longer}
    )  # fmt: skip
    assert found == Base(
        "r1",
        "ids",
        "the blob ids of 1 of 2 files are its own, and every hunk applies",
        (),
        ("r2",),
    )


def test_no_offset_goes_before_an_offset_in_a_newer_release() -> None:
    found = base_of(diff(BODY, CHANGED), r1=BODY, r2=ABOVE + BODY)
    assert found == Base("r1", "lines", "every hunk applies at its own line", (), ("r2",))


def test_the_smallest_offset_goes_before_the_newest() -> None:
    patch = diff(ABOVE * 3 + BODY, ABOVE * 3 + CHANGED)
    found = base_of(patch, r1=ABOVE * 6 + BODY, r2=ABOVE * 2 + BODY, r3=ABOVE + BODY)
    assert found == Base("r2", "offset", "every hunk applies, 1 line off in all", (), ("r1", "r3"))


def test_the_offsets_of_all_hunks_count() -> None:
    gap = "".join(f"x{n} = {n}\n" for n in range(9))
    old, new = BODY + gap + "last = 1\n", CHANGED + gap + "last = 2\n"
    # one hunk three lines off, the other none; both one line off in the newer release
    found = base_of(
        diff(ABOVE * 2 + old, ABOVE * 2 + new),
        r1=ABOVE * 2 + BODY + ABOVE * 3 + gap + "last = 1\n",
        r2=ABOVE + old,
    )
    assert isinstance(found, Base)
    assert (found.name, found.text) == ("r2", "every hunk applies, 2 lines off in all")


def test_of_equals_the_newest_is_taken() -> None:
    found = base_of(diff(BODY, CHANGED), r1=BODY, r2=BODY, r3=BODY)
    assert isinstance(found, Base)
    assert (found.name, found.alike) == ("r3", ("r1", "r2"))


def test_upstreams_own_change_was_made_on_the_release_before_the_one_that_has_it() -> None:
    patch = diff(ABOVE * 2 + BODY, ABOVE * 2 + CHANGED)  # on a commit between r2 and r3
    found = base_of(patch, r1=ABOVE + BODY, r2=ABOVE * 4 + BODY, r3=ABOVE * 3 + CHANGED)
    text = "every hunk applies, 2 lines off in all, and r3 holds the result of all"
    assert found == Base("r2", "before", text, (), ("r1",))


def test_a_release_that_has_the_result_is_no_base_though_the_old_lines_stand_in_it() -> None:
    grown = BODY + "\n\ndef h():\n    return 2\n"
    patch = diff(BODY, grown)  # nothing follows the added lines: they fit behind themselves
    assert b"@@ -6,3 +6,7 @@" in patch
    found = base_of(patch, r1=BODY, r2=grown)
    assert found == Base("r1", "lines", "every hunk applies at its own line", (), ())
    assert fits(patch, trees(r2=grown))["r2"].is_there


def test_only_new_files_say_nothing_of_their_base() -> None:
    added = {PATH: BODY, "vllm/new.py": "x = 1\n"}
    patch = format_files(
        diff_files({}, {"vllm/new.py": b"x = 1\n"})
    )  # fmt: skip
    found = base_of(patch, r1=BODY, r2=ABOVE + BODY, r3=added)
    text = "no line of a file is in the patch that says what it was made on"
    assert found == Base("r2", "none", text, ("r1",), ())


@pytest.mark.parametrize(
    "section",
    [
        b"similarity index 100%\nrename from vllm/mod.py\nrename to vllm/new.py\n",
        b"old mode 100644\nnew mode 100755\n",
    ],
)
def test_a_section_without_lines_says_nothing_of_its_base(section: bytes) -> None:
    new = b"new.py" if b"rename" in section else b"mod.py"
    patch = b"diff --git a/vllm/mod.py b/vllm/" + new + b"\n" + section
    found = base_of(patch, r1=BODY, r2=ABOVE + BODY)
    assert isinstance(found, Base)
    assert (found.name, found.proof, found.alike) == ("r2", "none", ("r1",))


LOOSE = b"--- a/vllm/mod.py\n+++ b/vllm/mod.py\n@@ -5,0 +6,2 @@\n+def new():\n+    pass\n"


def test_a_line_number_alone_is_no_base() -> None:
    with pytest.raises(PatchkitError) as caught:
        base_of(LOOSE, r1=BODY, r2=ABOVE + BODY)
    assert str(caught.value) == (
        "fix.patch:3: hunk 1 has no context: by its line number alone it fits r1 and r2, "
        "which differ in vllm/mod.py"
    )
    assert caught.value.hint == "name what the patch was made on with --base"


def test_a_line_number_alone_is_enough_where_there_is_one_file_to_count_in() -> None:
    found = base_of(LOOSE, r1=BODY, r2=BODY)
    assert isinstance(found, Base)
    assert found.name == "r2"
    assert base_of(LOOSE, r1=BODY, r2="x = 1\n") == Base(
        "r1", "lines", "every hunk applies at its own line"
    )


def test_old_lines_that_stand_twice_do_not_fit() -> None:
    patch = diff(ABOVE + BODY, ABOVE + CHANGED)
    twice = "y = 1\n" + BODY + "\n\n" + BODY
    hunk = fits(diff(BODY, CHANGED, context=1), trees(r1=twice))["r1"].hunks[0]
    assert (hunk.offset, hunk.there) == (None, False)
    assert hunk.reason == (
        "vllm/mod.py:2: does not match here; its old lines are at line 3, 13, "
        "expected them at line 2"
    )
    assert isinstance(base_of(patch, r1=ABOVE + BODY), Base)


def test_a_series_fits_as_a_whole_each_patch_on_the_one_before() -> None:
    again = CHANGED.replace("return 1", "return 2")
    parsed = [
        parse_patch(with_ids(BODY, CHANGED), "1.patch"),
        parse_patch(with_ids(CHANGED, again), "2.patch"),
    ]
    found = fit_patches(parsed, trees(r=BODY)["r"])
    assert [(h.patch, h.number, h.offset) for h in found.hunks] == [
        ("1.patch", 1, 0),
        ("2.patch", 1, 0),
    ]
    assert (found.proven, found.foreign) == (2, 0)


@pytest.mark.parametrize(
    ("written", "is_there"),
    [
        (BODY.replace("    c = b\n", ""), True),
        (BODY, False),
        (BODY.replace("c = b", "c = 2"), False),
    ],
)
def test_a_removal_is_there_where_its_neighbours_stand_side_by_side(
    written: str, is_there: bool
) -> None:
    patch = diff(BODY, BODY.replace("    c = b\n", ""))
    assert fits(patch, trees(r=written))["r"].is_there is is_there


@pytest.mark.parametrize(
    ("old", "new", "there"),
    [
        ({OTHER: "x = 1\n"}, {}, {PATH: BODY}),  # deleted
        ({OTHER: "x = 1\n"}, {"vllm/moved.py": "x = 1\n"}, {"vllm/moved.py": "x = 1\n"}),
        ({}, {OTHER: "x = 1\n"}, {OTHER: "x = 1\n"}),
    ],
)
def test_whole_files_are_there_or_fit(
    old: dict[str, str], new: dict[str, str], there: dict[str, str]
) -> None:
    encoded = [{p: t.encode() for p, t in files.items()} for files in (old, new)]
    patch = format_files(diff_files(*encoded))
    found = fits(patch, trees(before={PATH: BODY, **old}, after={PATH: BODY, **there}))
    assert (found["before"].fits, found["before"].is_there) == (True, False)
    assert (found["after"].fits, found["after"].is_there) == (False, True)


def test_old_lines_that_stand_twice_are_not_there_by_their_result_elsewhere() -> None:
    patch = diff("p\na\nq\n", "p\nb\nq\n")
    mixed = "p\na\nq\n" * 2 + "p\nb\nq\n"
    hunk = fits(patch.replace(b"@@ -1,", b"@@ -2,"), trees(r=mixed))["r"].hunks[0]
    assert (hunk.offset, hunk.there) == (None, False)
    removal = diff("p\na\nq\n", "p\nq\n")
    twice = "p\na\nq\n" * 2 + "p\nq\n"
    hunk = fits(removal.replace(b"@@ -1,", b"@@ -2,"), trees(r=twice))["r"].hunks[0]
    assert (hunk.offset, hunk.there) == (None, False)


def test_a_removal_at_the_end_is_not_there_by_what_stands_before_it() -> None:
    patch = diff(BODY + "x = 1\n", BODY)
    assert not fits(patch, trees(r=BODY + "x = 2\n"))["r"].is_there


def test_the_very_blob_says_more_than_a_result_that_looks_as_if_it_were_there() -> None:
    old, new = "x\n" * 5, "x\n" * 6
    assert fits(diff(old, new), trees(r=old))["r"].is_there
    head = f"diff --git a/{PATH} b/{PATH}\nindex {blob_id(old.encode())}..{'1' * 40} 100644\n"
    assert fits(head.encode() + diff(old, new), trees(r=old))["r"].fits


def test_hunks_that_fit_one_by_one_but_not_in_their_order_do_not_fit() -> None:
    parts = ["".join(f"{name}{n}\n" for n in range(9)) for name in "pq"]
    old = "".join(parts)
    patch = diff(old, old.replace("p4", "p").replace("q4", "q"))
    found = fits(patch, trees(r="".join(reversed(parts))))["r"]
    assert (found.fits, found.applying) == (False, 0)
    assert found.hunks[0].reason == "vllm/mod.py:2: hunk 2 overlaps the hunk above it"


def test_an_id_of_no_blob_is_no_file_that_was_another() -> None:
    patch = (
        b"diff --git a/vllm/n.py b/vllm/n.py\nindex 0000000..1234567\n"
        b"--- a/vllm/n.py\n+++ b/vllm/n.py\n@@ -0,0 +1 @@\n+x\n"
    )
    found = fits(patch, trees(r=BODY))["r"]
    assert (found.fits, found.proven, found.foreign) == (True, 0, 0)


def test_a_release_in_which_less_can_be_judged_is_no_base() -> None:
    header = "vllm/x.h"  # built from source where the tree does not have it
    patch = diff(BODY, CHANGED) + diff("int a;\n", "int b;\n", header)
    found = base_of(patch, r1={PATH: BODY, header: "int a;\n"}, r2=BODY)
    assert found == Base("r1", "lines", "every hunk applies at its own line")


def test_of_those_that_the_ids_speak_for_the_smallest_offset_is_taken() -> None:
    patch = with_ids(BODY, CHANGED) + diff(BODY, CHANGED, OTHER)
    found = base_of(patch, r1={PATH: BODY, OTHER: BODY}, r2={PATH: BODY, OTHER: ABOVE + BODY})
    assert isinstance(found, Base)
    assert (found.name, found.proof, found.as_well) == ("r1", "ids", ("r2",))


def test_a_mode_is_there_where_the_file_is() -> None:
    patch = b"diff --git a/vllm/mod.py b/vllm/mod.py\nold mode 100755\nnew mode 100644\n"
    found = fits(patch, trees(r1=BODY, r2={OTHER: BODY}))
    assert found["r1"].is_there
    assert not found["r2"].is_there
    assert found["r2"].hunks[0].reason == "vllm/mod.py: file to modify is not there"


# No base -----------------------------------------------------------------------------------------

GAP = "".join(f"x{n} = {n}\n" for n in range(9))
TWO_OLD = BODY + GAP + "last = 1\n"
TWO = diff(TWO_OLD, CHANGED + GAP + "last = 2\n")
FIRST = TWO_OLD.replace("last = 1", "last = 0")  # only the first hunk fits
LAST = TWO_OLD.replace("c = b", "c = d")
NEITHER = FIRST.replace("c = b", "c = d")


def test_each_hunk_fits_one_of_two_neighbours() -> None:
    found = base_of(TWO, r1=NEITHER, r2=FIRST, r3=LAST, r4=NEITHER)
    text = "each hunk fits r2 or r3: it was made on a commit between the two"
    assert found == NoBase(("r2", "r3"), text)


def test_what_the_newer_neighbour_has_already_fits_as_well() -> None:
    found = base_of(TWO, r1=FIRST, r2=LAST.replace("last = 1", "last = 2"), r3=NEITHER)
    assert isinstance(found, NoBase)
    assert found.text == "each hunk fits r1 or r2: it was made on a commit between the two"


def test_two_that_are_no_neighbours_say_nothing_of_what_is_between() -> None:
    found = base_of(TWO, r1=NEITHER, r2=FIRST, r3=NEITHER, r4=LAST, r5=NEITHER)
    text = "the most hunks, 1 of 2, fit r2 and r4"
    assert found == NoBase(("r2", "r4"), text)


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (
            {"r1": NEITHER, "r2": NEITHER, "r3": FIRST},
            "the most hunks, 1 of 2, fit r3; it was probably made after r3",
        ),
        (
            {"r1": FIRST, "r2": NEITHER, "r3": NEITHER},
            "the most hunks, 1 of 2, fit r1; it was probably made before r1",
        ),
        ({"r1": NEITHER, "r2": FIRST, "r3": NEITHER}, "the most hunks, 1 of 2, fit r2"),
        (
            {"r1": NEITHER, "r2": FIRST, "r3": FIRST, "r4": NEITHER},
            "the most hunks, 1 of 2, fit r2 and r3; it was probably made between r2 and r3",
        ),
        ({"r1": NEITHER, "r2": FIRST, "r3": FIRST}, "the most hunks, 1 of 2, fit r2 and r3"),
        ({"r1": FIRST}, "the most hunks, 1 of 2, fit r1"),
        ({"r1": FIRST, "r2": FIRST}, "the most hunks, 1 of 2, fit r1 and r2"),
        ({"r1": NEITHER, "r2": NEITHER}, "no hunk applies to any of them"),
        (
            {"r1": CHANGED + GAP + "last = 2\n", "r2": CHANGED + GAP + "last = 2\n"},
            "its result is in r1 and r2 already",
        ),
    ],
)
def test_what_fits_no_release_is_said_to_be_near_some(contents: dict[str, str], text: str) -> None:
    found = base_of(TWO, **contents)
    assert isinstance(found, NoBase)
    assert found.text == text


def test_the_better_of_two_neighbours_says_on_which_side_a_patch_was_made() -> None:
    old = TWO_OLD + "".join(f"y{n} = {n}\n" for n in range(9)) + "end = 1\n"
    patch = diff(old, old.replace("c = b", "c = 0").replace("last = 1", "last = 2") + "z = 1\n")
    none = (
        old.replace("c = b", "c = d").replace("last = 1", "last = 0").replace("end = 1", "end = 0")
    )
    one, two = none.replace("end = 0", "end = 1"), old.replace("c = b", "c = d")
    most = "the most hunks, 2 of 3, fit r2"
    for contents, text in [
        ((none, two, one, none), f"{most}; it was probably made between r2 and r3"),
        ((one, two, none, none), f"{most}; it was probably made between r1 and r2"),
        ((one, two, one, none), most),
    ]:
        found = base_of(patch, **{f"r{n}": text for n, text in enumerate(contents, start=1)})
        assert found == NoBase(("r2",), text)


def test_the_verdict_without_a_base_names_the_first_hunk_that_does_not_fit() -> None:
    found = judge_fit("r1", fits(TWO, trees(r1=FIRST))["r1"])
    assert found.verdict is Verdict.NEVER_FITTED
    assert found.reason == "#2 vllm/mod.py:18: does not match 'last = 0\\n', expected 'last = 1\\n'"
    done = judge_fit("r1", fits(TWO, trees(r1=CHANGED + GAP + "last = 2\n"))["r1"])
    assert (done.verdict, done.reason, done.lands) == (Verdict.UPSTREAM, None, True)


def test_a_patch_for_files_that_no_wheel_holds_is_refused() -> None:
    patch = with_ids("int a;\n", "int b;\n", "csrc/x.cu") + with_ids("a\n", "b\n", "docs/x.md")
    with pytest.raises(PatchkitError) as caught:
        base_of(patch, r1=BODY)
    assert str(caught.value) == (
        "fix.patch:1: changes only files that are built from source or not shipped: "
        "csrc/x.cu, expected a file that the package holds"
    )


def test_a_base_that_is_given_has_to_fit() -> None:
    given = fits(diff(BODY, CHANGED), trees(r1=BODY, r2=CHANGED))
    assert given_base("r1", given["r1"]) == Base("r1", "given", "as given")
    with pytest.raises(PatchkitError) as caught:
        given_base("r2", given["r2"])
    assert str(caught.value) == (
        "fix.patch:3: hunk 1 does not fit r2: vllm/mod.py: the tree has the hunk's result"
    )


def test_releases_in_a_row_are_a_range() -> None:
    order = ["r1", "r2", "r3", "r4", "r5", "r6"]
    assert said_ranges(["r1"], order) == "r1"
    assert said_ranges(["r1", "r2"], order) == "r1 and r2"
    assert said_ranges(["r5", "r1", "r2", "r3"], order) == "r1 to r3 and r5"
    assert said_ranges(["r1", "r3", "r5", "r6"], order) == "r1, r3, r5 and r6"


# The verdict -------------------------------------------------------------------------------------

P, U, Q = Status.PLACED, Status.ALREADY_UPSTREAM, Status.PARTLY_UPSTREAM
C, O, B = Status.CONFLICTED, Status.ORPHANED, Status.BLOCKED  # noqa: E741
GONE = Drift("attribute", "size", "vllm/mod.py:2", "attribute `size` is gone")


def outcome(number: int, status: Status, *, drifted: bool = False) -> HunkOutcome:
    return HunkOutcome(
        "a.patch",
        number,
        status,
        PATH,
        drifts=(GONE,) if drifted else (),
        reason=f"why {number}" if status in (C, O) else None,
        blocked_by=("a.patch#9",) if status is B else (),
    )


@pytest.mark.parametrize(
    ("statuses", "drifted", "verdict", "reason", "lands"),
    [
        ((P, P), False, Verdict.CLEAN, None, True),
        ((P, P), True, Verdict.DRIFTED, "#1 attribute `size` is gone", False),
        ((P, U), True, Verdict.DRIFTED, "#1 attribute `size` is gone", False),
        ((U, U), False, Verdict.UPSTREAM, None, True),
        ((P, U), False, Verdict.PARTLY_UPSTREAM, None, True),
        ((P, Q), False, Verdict.PARTLY_UPSTREAM, "#2 partly upstream", False),
        ((P, Q), True, Verdict.PARTLY_UPSTREAM, "#2 partly upstream", False),
        ((P, C), True, Verdict.CONFLICTS, "#2 why 2", False),
        ((U, C), False, Verdict.CONFLICTS, "#2 why 2", False),
        ((B, C), False, Verdict.CONFLICTS, "#2 why 2 (and 1 other)", False),
        ((P, B), False, Verdict.CONFLICTS, "#2 blocked by a.patch#9", False),
        ((P, O), False, Verdict.CONFLICTS, "#2 why 2", False),
        ((O, O), False, Verdict.ORPHANED, "#1 why 1 (and 1 other)", False),
    ],
)
def test_the_outcomes_of_the_hunks_amount_to_a_verdict(
    statuses: tuple[Status, ...], drifted: bool, verdict: Verdict, reason: str | None, lands: bool
) -> None:
    outcomes = tuple(
        outcome(n, status, drifted=drifted and n == 1) for n, status in enumerate(statuses, 1)
    )
    found = judge("r1", outcomes, None, is_base=False)
    assert (found.verdict, found.reason, found.lands) == (verdict, reason, lands)


def test_hunks_of_several_patches_are_named_with_their_patch() -> None:
    other = HunkOutcome("b.patch", 1, C, PATH, reason="why")
    assert judge("r1", (outcome(1, P), other), None, is_base=False).reason == "b.patch#1 why"


# The run -----------------------------------------------------------------------------------------


def survey_of(
    patch: bytes, releases: dict[str, SourceTree], wanted: list[str], closed: tuple[str, ...] = ()
) -> tuple[Base | NoBase, list[Standing], list[str]]:
    opened: list[str] = []

    def opener(name: str) -> SourceTree:
        opened.append(name)
        if name in closed:
            raise PatchkitError("the index cannot be reached", place=name)
        return releases[name]

    survey = begin([PatchInput("fix.patch", patch)], wanted, list(releases), opener, None)
    rows = standings(survey, wanted, (opener, opener), 1, lambda *_: None)
    return survey.base, list(rows), list(dict.fromkeys(opened))


def test_the_base_is_looked_for_in_releases_that_were_not_asked_for() -> None:
    releases = trees(r1=BODY, r2=ABOVE + BODY, r3=ABOVE * 2 + BODY)
    base, rows, opened = survey_of(diff(BODY, CHANGED), releases, ["r3"])
    assert isinstance(base, Base)
    assert base.name == "r1"
    assert [(row.release, row.verdict, row.is_base) for row in rows] == [("r3", "clean", False)]
    assert opened == ["r3", "r1", "r2"]


def test_no_other_release_is_opened_where_the_ids_prove_one_that_was_asked_for() -> None:
    releases = trees(r1=BODY, r2=ABOVE + BODY)
    base, _, opened = survey_of(with_ids(BODY, CHANGED), releases, ["r1"])
    assert isinstance(base, Base)
    assert (base.name, opened) == ("r1", ["r1"])


def test_other_releases_are_looked_at_where_the_ids_do_not_prove_all() -> None:
    both = {PATH: BODY, OTHER: BODY}
    new = {PATH: CHANGED.encode(), OTHER: CHANGED.encode()}
    patch = format_files(diff_files({p: t.encode() for p, t in both.items()}, new))
    releases = trees(r1=both, r2={PATH: BODY, OTHER: ABOVE + BODY})
    base, _, _ = survey_of(patch, releases, ["r2"])
    assert isinstance(base, Base)
    assert base.name == "r1"


def test_a_release_that_cannot_be_opened_is_a_row() -> None:
    releases = trees(r1=BODY, r2=BODY, r3=ABOVE + BODY)
    _, rows, _ = survey_of(diff(BODY, CHANGED), releases, ["r1", "r2", "r3"], closed=("r2",))
    assert [(row.release, row.verdict, row.reason) for row in rows] == [
        ("r1", "clean", None),
        ("r2", "unavailable", "the index cannot be reached (r2)"),
        ("r3", "clean", None),
    ]


def test_where_none_can_be_opened_the_first_reason_is_given() -> None:
    with pytest.raises(PatchkitError) as caught:
        survey_of(diff(BODY, CHANGED), trees(r1=BODY, r2=BODY), ["r2"], closed=("r1", "r2"))
    assert str(caught.value) == ("no release can be opened; r2: the index cannot be reached (r2)")


# Processes ---------------------------------------------------------------------------------------


def test_results_come_in_order_and_are_counted() -> None:
    done: list[int] = []
    found = list(spread(operator.neg, [1, 2, 3, 4, 5], 2, done.append))
    assert found == [-1, -2, -3, -4, -5]
    assert done == [1, 2, 3, 4, 5]


def test_each_process_goes_through_neighbours_and_then_helps_the_other() -> None:
    deal = _Deal(6, 2)
    assert [deal.take(0) for _ in range(4)] == [0, 1, 2, 5]
    assert [deal.take(1) for _ in range(3)] == [3, 4, None]
    assert deal.take(0) is None


def test_an_exception_in_a_process_comes_with_its_traceback() -> None:
    with pytest.raises(WorkerError) as caught:
        list(spread(int, ["1", "x"], 2, lambda _: None))
    text = str(caught.value)
    assert text.startswith("in a worker process\nTraceback (most recent call last):\n")
    assert text.endswith("ValueError: invalid literal for int() with base 10: 'x'\n")


def test_a_process_that_is_ended_from_outside_is_no_bug() -> None:
    with pytest.raises(PatchkitError) as caught:
        list(spread(os._exit, [3], 1, lambda _: None))
    assert str(caught.value) == "a worker process was ended from outside"


def test_the_processes_end_with_the_iterator() -> None:
    results = spread(time.sleep, [0, 1000, 0], 2, lambda _: None)
    assert next(results) is None
    results.close()  # waits for them: this would take a quarter of an hour
