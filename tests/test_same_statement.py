"""Two patches that edit one statement, expression or entry, and those that only stand close."""

from __future__ import annotations

import pytest

from patchkit.stacking.same_statement import same_statements
from tests.test_dependencies import F, Step, X, plans

CALL = """\
import os


def f(x):
    y = run(
        x,
        one=1,
        two=2,
    )
    return y
"""


def told(base: str, *steps: str, context: int = 3) -> list[str]:
    files: list[Step] = [{X: step} for step in steps]
    return [pair.text for pair in same_statements(plans({X: base}, *files, context=context)[0])]


def test_a_statement_that_both_replace() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    assert told(F, one, one.replace("b(x, 1)", "b(x, 2)")) == [
        "hunk 1 edits `b(x, 1)` (vllm/x.py:3, in f), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]


def test_a_statement_that_the_earlier_one_added() -> None:
    one = F.replace("    b(x)\n", "    b(x)\n    mine(x)\n")
    assert told(F, one, one.replace("    mine(x)\n", "")) == [
        "hunk 1 edits `mine(x)` (vllm/x.py:4, in f), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]


def test_different_lines_of_one_call() -> None:
    one = CALL.replace("one=1", "one=11")
    assert told(CALL, one, one.replace("two=2", "two=22")) == [
        "hunk 1 edits `y = run(` (vllm/x.py:5, in f), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]


def test_an_argument_added_to_a_call_in_which_one_was_removed() -> None:
    one = CALL.replace("        one=1,\n", "")
    assert told(CALL, one, one.replace("two=2,\n", "two=2,\n        three=3,\n")) == [
        "hunk 1 edits `y = run(` (vllm/x.py:5, in f), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]


def test_lines_added_in_one_gap() -> None:
    one = F.replace("    b(x)\n", "    b(x)\n    one(x)\n")
    assert told(F, one, one.replace("    one(x)\n", "    one(x)\n    two(x)\n")) == [
        "hunk 1 adds lines beside `one(x)` (vllm/x.py:4, in f), which A#1 adds there; "
        "fold the two, or declare `Depends-On: A`"
    ]


def test_the_header_of_a_block() -> None:
    base = "def f(\n    x,\n    y=1,\n    z=2,\n):\n    return x\n"
    one = base.replace("y=1", "y=11")
    assert told(base, one, one.replace("z=2", "z=22"), context=0) == [
        "hunk 1 edits `def f(` (vllm/x.py:1, in f), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]


@pytest.mark.parametrize(
    ("base", "first", "second"),
    [
        (F, ("b(x)", "b(x, 1)"), ("c(x)", "c(x, 1)")),  # statements beside each other
        (F, ("b(x)", "b(x, 1)"), ("    c(x)\n", "    new(x)\n    c(x)\n")),
        ("A = [\n    1,\n    2,\n    3,\n]\n", ("    1,", "    11,"), ("    3,", "    33,")),
        ("A = {\n    1: 1,\n    2: 2,\n}\n", ("1: 1,", "1: 11,"), ("2: 2,", "2: 22,")),
        (
            "from a import (\n    b,\n    c,\n    d,\n)\n",
            ("    b,", "    bb,"),
            ("    d,", "    dd,"),
        ),
        ("class K:\n    a = 1\n    b = 2\n", ("a = 1", "a = 11"), ("b = 2", "b = 22")),
        ("if x:\n    a()\nelse:\n    b()\n", ("a()", "a(1)"), ("b()", "b(1)")),
        ("if x:\n    a()\n    c()\n", ("if x", "if x or y"), ("c()", "c(1)")),
        ("f(\n    1,\n    2,\n)\n", ("    1,", "    1,  # why"), ("", "")),
        ("if x:\n    a()\n    c()\n", ("c()", "c(1)"), ("if x", "if x or y")),
        ("if x:\n    a()\nelif y:\n    b()\n", ("if x", "if x or z"), ("elif y", "elif y or z")),
        (F, ("def f(x)", "def f(x, y=1)"), ("    c(x)\n", "    new(x)\n    c(x)\n")),
        (CALL, ("one=1", "one=11"), ("two=2,\n", "two=2\n")),  # layout alone
        (CALL, ("        one=1,\n", "        # why\n        one=1,\n"), ("two=2", "two=22")),
    ],
)
def test_other_statements_and_other_entries_are_nobodys_business(
    base: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    one = base.replace(*first)
    assert told(base, one, one.replace(*second) if second[0] else one + "\n\nz = 1\n") == []


def test_an_entry_that_both_edit() -> None:
    base = "A = [\n    g(\n        1,\n        2,\n    ),\n    3,\n]\n"
    one = base.replace("        1,", "        11,")
    assert told(base, one, one.replace("        2,", "        22,")) == [
        "hunk 1 edits `g(` (vllm/x.py:2, in the module), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]


def test_a_third_patch_is_told_of_each_that_it_meets() -> None:
    one = CALL.replace("one=1", "one=11")
    two = one.replace("import os\n", "import re\n")
    three = two.replace("two=2", "two=22")
    assert [t.partition(" as ")[2] for t in told(CALL, one, two, three, context=0)] == [
        "A#1 does; fold the two, or declare `Depends-On: A`"
    ]


def test_a_long_statement_is_cut() -> None:
    base = f"def f(x):\n    b(x, {', '.join(map(str, range(40)))})\n"
    one = base.replace("b(x, 0,", "b(x, 1,")
    (text,) = told(base, one, one.replace("b(x, 1,", "b(x, 2,"))
    assert text.startswith(
        "hunk 1 edits `b(x, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,…` (vllm/x.py:2"
    )


def test_what_is_no_python_is_told_by_its_line() -> None:
    base, path = "a: 1\nb: 2\nc: 3\n", "vllm/config.yaml"
    one = base.replace("b: 2\n", "b: 3\n")
    steps: list[Step] = [{path: one}, {path: one.replace("b: 3\n", "b: 4\n")}]
    assert [pair.text for pair in same_statements(plans({path: base}, *steps)[0])] == [
        "hunk 1 edits `b: 3` (vllm/config.yaml:2), as A#1 does; "
        "fold the two, or declare `Depends-On: A`"
    ]
