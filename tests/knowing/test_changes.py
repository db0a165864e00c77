"""When two versions of a patch are the same change, and what is said where they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.diff import diff_files, format_files, parse_patch
from patchkit.knowing.changes import (
    DiffLine,
    Section,
    SectionPair,
    State,
    compare_sections,
    likeness,
    sections_of,
)
from patchkit.placing.plan import plan_patch
from patchkit.series.anchor import generate_anchors
from patchkit.series.contents import read_contents
from patchkit.tree import SourceTree

PATH = "vllm/pages.py"
BASE = """\
def first(blocks):
    total = blocks * 16
    check(total)
    return total


def second(blocks):
    count = blocks + 1
    check(count)
    return count
"""


def sections(
    before: str | dict[str, bytes], after: str | dict[str, bytes], *, anchored: bool = True
) -> tuple[Section, ...]:
    """What the patch from one text to the other changes, read as a stored one is."""
    old = {PATH: before.encode()} if isinstance(before, str) else before
    new = {PATH: after.encode()} if isinstance(after, str) else after
    data = format_files(diff_files(old, new))
    patch = parse_patch(data, "a.patch")
    anchors = generate_anchors(plan_patch(patch, SourceTree(old))).encode() if anchored else None
    return sections_of(patch, read_contents("a.patch", data, anchors, place="patches"))


def compare(old: tuple[Section, ...], new: tuple[Section, ...]) -> SectionPair:
    (pair,) = compare_sections(old, new)
    return pair


def edit(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


AUTHORED = edit(BASE, "    check(total)\n", "    check(total + 1)\n")
PATCH = sections(BASE, AUTHORED)


def test_other_line_numbers_are_nothing() -> None:
    above = "import math\n\n\n"
    authored = edit(BASE, "    check(count)\n", "    check(count + 1)\n")
    moved = sections(above + BASE, above + authored)
    assert compare(sections(BASE, authored), moved) == SectionPair(PATH, PATH, State.SAME)


def test_other_lines_around_are_told_apart() -> None:
    here = [edit(text, "blocks * 16", "blocks << 4") for text in (BASE, AUTHORED)]
    assert compare(PATCH, sections(*here)) == SectionPair(PATH, PATH, State.CONTEXT)
    assert State.CONTEXT.unchanged
    assert not State.MOVED.unchanged


def test_the_same_lines_in_another_definition_have_moved() -> None:
    plus = "    log()\n"
    one = edit(BASE, "    return total\n", plus + "    return total\n")
    other = edit(BASE, "    return count\n", plus + "    return count\n")
    pair = compare(sections(BASE, one), sections(BASE, other))
    assert (pair.state, pair.notes[0]) == (State.MOVED, "in second, was in first")


def test_without_anchors_the_heading_that_the_diff_has_says_where() -> None:
    base = BASE.replace("    return", "    a\n    b\n    c\n    d\n    return")
    plus = "    log()\n"
    one = edit(base, "    return total\n", plus + "    return total\n")
    other = edit(base, "    return count\n", plus + "    return count\n")
    pair = compare(sections(base, one, anchored=False), sections(base, other, anchored=False))
    assert pair.notes == ("in def second(blocks):, was in def first(blocks):",)
    assert pair.state is State.MOVED


def test_a_hunk_without_any_name_is_not_somewhere_else() -> None:
    one, other = (sections(BASE, AUTHORED, anchored=False) for _ in range(2))
    assert one[0].lines[0].definitions == ()
    assert compare(PATCH, other).state is State.SAME


def test_the_same_line_on_the_other_side_of_its_neighbour_has_moved() -> None:
    plus = "    log()\n"
    before = edit(BASE, "    check(total)\n", plus + "    check(total)\n")
    after = edit(BASE, "    check(total)\n", "    check(total)\n" + plus)
    assert compare(sections(BASE, before), sections(BASE, after)) == SectionPair(
        PATH, PATH, State.MOVED, ("at another place beside `check(total)`",)
    )


def test_a_neighbour_that_is_there_twice_proves_nothing() -> None:
    base = "a = 1\nb\nc\nb\nd\n"
    here = base.replace("c\n", "c\nx = 1\n")
    there = "a = 1\nb\nc\ne\nd\n"
    pair = compare(sections(base, here), sections(there, there.replace("c\n", "c\nx = 1\n")))
    assert pair.state is State.CONTEXT


def test_an_edit_before_another_is_not_the_same_as_after_it() -> None:
    # the same lines go and come, and no line of context is in both versions
    one = sections("a\nold\nb\nc\nd\n", "a\nb\nnew\nc\nd\n")
    other = sections("e\nold\nf\ng\nh\n", "new\ne\nf\ng\nh\n")
    assert compare(one, other).state is State.CHANGED


def test_two_edits_that_upstream_brought_together_are_the_same_edits() -> None:
    apart = sections("a = 1\nkept\nb = 1\n", "a = 2\nkept\nb = 2\n")
    together = sections("a = 1\nb = 1\n", "a = 2\nb = 2\n")
    assert compare(apart, together).state is State.CONTEXT
    assert compare(together, apart).state is State.CONTEXT


def test_two_edits_brought_together_and_two_taken_apart_are_not_said_to_be_the_same() -> None:
    one = sections("a = 1\nb = 1\n", "a = 2\nx\nb = 2\n")
    other = sections("a = 1\nk\nb = 1\n", "a = 2\nk\nx\nb = 2\nx\n")
    assert compare(one, other).state is State.CHANGED


def test_other_lines_are_shown_as_a_diff_of_the_two_diffs() -> None:
    after = sections(BASE, edit(BASE, "    check(total)\n", "    check(total + 2)\n"))
    assert compare(PATCH, after) == SectionPair(
        PATH,
        PATH,
        State.CHANGED,
        (),
        (
            DiffLine(" ", "-", "    check(total)", "first"),
            DiffLine("-", "+", "    check(total + 1)", "first"),
            DiffLine("+", "+", "    check(total + 2)", "first"),
        ),
    )


def test_a_line_that_is_removed_is_not_one_that_is_added() -> None:
    assert compare(PATCH, sections(AUTHORED, BASE)).state is State.CHANGED


def test_the_same_change_of_a_file_of_another_name_has_moved() -> None:
    other = sections({"vllm/moved.py": BASE.encode()}, {"vllm/moved.py": AUTHORED.encode()})
    assert compare(PATCH, other) == SectionPair(
        PATH, "vllm/moved.py", State.MOVED, ("vllm/pages.py -> vllm/moved.py",)
    )


def test_another_change_of_another_file_goes_and_comes() -> None:
    other = sections({"vllm/new.py": b"a\n"}, {"vllm/new.py": b"b\n"})
    assert compare_sections(PATCH, other) == [
        SectionPair(
            PATH,
            None,
            State.CHANGED,
            (),
            (
                DiffLine("-", "-", "    check(total)", "first"),
                DiffLine("-", "+", "    check(total + 1)", "first"),
            ),
        ),
        SectionPair(
            None,
            "vllm/new.py",
            State.CHANGED,
            (),
            (DiffLine("+", "-", "a", "<module>"), DiffLine("+", "+", "b", "<module>")),
        ),
    ]


def test_a_new_file_is_not_a_changed_one_with_the_same_lines() -> None:
    added = sections({}, {PATH: b"a = 1\n"})
    changed = sections({PATH: b""}, {PATH: b"a = 1\n"})
    pair = compare(added, changed)
    assert (pair.state, pair.notes) == (State.CHANGED, ("add mode 0 -> 100644, now modify",))


def test_likeness_is_the_share_of_changed_lines() -> None:
    assert likeness(PATCH, PATCH) == 1
    after = sections(BASE, edit(BASE, "    check(total)\n", "    check(total + 2)\n"))
    assert likeness(PATCH, after) == 0.5
    assert likeness(PATCH, sections({}, {"x": b"y\n"})) == 0
    assert likeness((), ()) == 0


LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=1, max_size=8)


@given(LINES, LINES, LINES, LINES)
def test_what_is_the_same_one_way_is_the_same_the_other_way(
    a: list[str], b: list[str], c: list[str], d: list[str]
) -> None:
    texts = ["".join(f"{line}\n" for line in lines) for lines in (a, b, c, d)]
    if texts[0] == texts[1] or texts[2] == texts[3]:
        return
    one = sections(texts[0], texts[1], anchored=False)
    other = sections(texts[2], texts[3], anchored=False)
    assert compare(one, other).state == compare(other, one).state


@given(LINES, LINES)
def test_a_change_that_gives_another_result_on_the_same_base_is_another_change(
    base: list[str], lines: list[str]
) -> None:
    texts = ["".join(f"{line}\n" for line in some) for some in (base, lines)]
    for other in ("x\n" + texts[1], texts[1] + "x\n", texts[0] + "x\n"):
        if len({texts[0], texts[1], other}) == 3:
            pair = compare(
                sections(texts[0], texts[1], anchored=False),
                sections(texts[0], other, anchored=False),
            )
            assert pair.state is State.CHANGED


@pytest.mark.parametrize("kind", ["-", "+"])
def test_changed_lines_are_those_that_go_or_come(kind: str) -> None:
    assert kind in {line.kind for line in PATCH[0].changed}
    assert " " not in {line.kind for line in PATCH[0].changed}


def test_a_blank_line_is_no_neighbour() -> None:
    before = sections("a\n\nb\n", "a\nx\n\nb\n")
    after = sections("a\n\nb\n", "a\n\nx\nb\n")
    assert compare(before, after).state is State.CONTEXT


def mode(path: str) -> tuple[Section, ...]:
    """What a patch says that makes a file executable."""
    data = f"diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n".encode()
    contents = read_contents("a.patch", data, None, place="patches")
    return sections_of(parse_patch(data, "a.patch"), contents)


def test_two_changes_without_lines_are_not_one_that_moved() -> None:
    pairs = compare_sections(mode("vllm/a"), mode("vllm/b"))
    assert [(pair.path_before, pair.path_after) for pair in pairs] == [
        ("vllm/a", None),
        (None, "vllm/b"),
    ]
    assert compare(mode("vllm/a"), mode("vllm/a")).state is State.SAME


def test_another_mode_is_another_change() -> None:
    plain = sections({"vllm/a": b"a\n"}, {"vllm/a": b"b\n"})
    data = (
        b"diff --git a/vllm/a b/vllm/a\nold mode 100644\nnew mode 100755\n"
        b"--- a/vllm/a\n+++ b/vllm/a\n@@ -1 +1 @@\n-a\n+b\n"
    )
    contents = read_contents("a.patch", data, None, place="patches")
    other = sections_of(parse_patch(data, "a.patch"), contents)
    pair = compare(plain, other)
    assert (pair.state, pair.notes) == (
        State.CHANGED,
        ("modify, now modify mode 100644 -> 100755",),
    )


def test_a_mode_that_stays_is_no_part_of_the_change() -> None:
    # one has the mode on its index line, the other has no index line at all
    one = sections({"vllm/a": b"a\n"}, {"vllm/a": b"b\n"})
    data = b"diff --git a/vllm/a b/vllm/a\n--- a/vllm/a\n+++ b/vllm/a\n@@ -1 +1 @@\n-a\n+b\n"
    contents = read_contents("a.patch", data, None, place="patches")
    assert compare(one, sections_of(parse_patch(data, "a.patch"), contents)).state is State.SAME


def test_blank_lines_make_no_likeness() -> None:
    blank = sections({}, {"x": b"a\n\n\n\n\n"})
    assert likeness(blank, sections({}, {"x": b"b\n\n\n\n\n"})) == 0


LONG = "def long(x):\n" + "".join(f"    step{n}(x)\n" for n in range(12)) + "    return x\n"


def test_the_same_line_at_the_other_end_of_a_definition_has_moved() -> None:
    early = sections(LONG, edit(LONG, "    step1(x)\n", "    step1(x)\n    mine(x)\n"))
    late = sections(LONG, edit(LONG, "    step9(x)\n", "    step9(x)\n    mine(x)\n"))
    for pair in (compare(early, late), compare(late, early)):
        assert (pair.state, pair.notes) == (State.MOVED, ("other lines all around `mine(x)`",))


def test_a_change_that_kept_one_neighbour_on_its_side_has_not_moved() -> None:
    other = edit(LONG, "    step0(x)\n    step1(x)\n", "    other(x)\n")
    for old, new in (("step3(x)\n", "step3(x, 1)\n"), ("step2(x)\n", "step2(x)\n    mine(x)\n")):
        one = sections(LONG, edit(LONG, old, new))
        assert compare(one, sections(other, edit(other, old, new))).state.unchanged
