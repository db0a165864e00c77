"""The square of a patch's change and upstream's: when both hold, and when they do not."""

from __future__ import annotations

import pytest

from patchkit.diff.lines import diff_lines
from patchkit.placing.commuting import commute
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import Change, Edit, lift

BASE = "while a:\n    one(a)\n    two(a)\n    three(a)\n    four(a)\n"
OURS = BASE.replace("while a:", "for a in b:")


def replaced(old: str, new: str) -> Edit:
    """The one edit between two texts."""
    lines, others = old.encode().splitlines(True), new.encode().splitlines(True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    ends = [sum(map(len, others[:n])) for n in range(len(others) + 1)]
    changes = [
        Change(starts[c.old_start], starts[c.old_end], ends[c.new_start], ends[c.new_end])
        for c in diff_lines(lines, others)
    ]
    edits = lift(parse_module(old.encode()), parse_module(new.encode()), changes)
    (edit,) = [e for e in edits if not e.is_layout]
    return edit


def both(theirs: str, result: str) -> bool:
    return commute(replaced(BASE, OURS), replaced(theirs, result))


def test_a_line_between_the_two_changes_makes_them_commute() -> None:
    theirs = BASE.replace("two(a)", "two(a, 1)")
    assert both(theirs, OURS.replace("two(a)", "two(a, 1)"))


@pytest.mark.parametrize(
    ("theirs", "result"),
    [
        (BASE.replace("one(a)", "one(a, 1)"), OURS.replace("one(a)", "one(a, 1)")),  # side by side
        (BASE.replace("two(a)", "two(a, 1)"), OURS),  # upstream's change is lost
        (BASE.replace("two(a)", "two(a, 1)"), OURS.replace("two(a)", "two(a, 2)")),
        (  # something else as well
            BASE.replace("two(a)", "two(a, 1)"),
            OURS.replace("two(a)", "two(a, 1)").replace("four(a)", "four()"),
        ),
        (BASE.replace("two(a)", "two(a, 1)"), BASE.replace("while a:", "if a:")),
    ],
)
def test_what_is_no_square_does_not_commute(theirs: str, result: str) -> None:
    assert not both(theirs, result)


def test_another_indentation_is_no_difference() -> None:
    def deeper(text: str) -> str:
        return "if x:\n" + "".join(f"    {line}" for line in text.splitlines(keepends=True))

    theirs = BASE.replace("three(a)", "three(a, 1)")
    assert both(deeper(theirs), deeper(OURS.replace("three(a)", "three(a, 1)")))


def test_a_change_in_a_line_that_is_there_twice_does_not_commute() -> None:
    twice = "    begin()\n    log(a)\n    end()\n"
    base = f"while a:\n{twice}    two(a)\n    more(a)\n{twice}"
    ours = f"for a in b:\n{twice}    two(a)\n    more(a)\n{twice}"
    head, _, tail = ours.rpartition("log(a)")
    ours = f"{head}log(b){tail}"
    edit = replaced(base, ours)
    landed = replaced(base.replace("two(a)", "two()"), ours.replace("two(a)", "two()"))
    assert not commute(edit, landed)


def test_the_same_change_in_a_like_line_elsewhere_does_not_commute() -> None:
    base = "while a:\n    begin()\n    log(a)\n    end()\n    two(a)\n    more(a)\n"
    ours = base.replace("while a:", "for a in b:").replace("log(a)", "log(b)")
    theirs = base.replace("    more(a)\n", "    more(a)\n    log(a)\n    last(a)\n")
    right = ours.replace("    more(a)\n", "    more(a)\n    log(a)\n    last(a)\n")
    assert commute(replaced(base, ours), replaced(theirs, right))
    wrong = theirs.replace("while a:", "for a in b:")
    head, _, tail = wrong.rpartition("log(a)")
    assert not commute(replaced(base, ours), replaced(theirs, f"{head}log(b){tail}"))


@pytest.mark.parametrize("theirs", ["one(a)", "three(a)"])
def test_a_blank_line_beside_a_change_parts_it_from_nothing(theirs: str) -> None:
    base = BASE.replace("    two(a)\n", "\n    two(a)\n\n")
    ours = base.replace("while a:", "for a in b:").replace("two(a)", "two(b)")
    base, ours = base.replace("while a:", "while a:\n    pass"), ours.replace("b:", "b:\n    pass")
    both = [text.replace(theirs, theirs.replace("a", "a, 1")) for text in (base, ours)]
    assert not commute(replaced(base, ours), replaced(*both))
