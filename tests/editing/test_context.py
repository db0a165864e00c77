"""What is said of a hunk's context: how sure its place is in the file that it is made on."""

import pytest

from patchkit.diff import Patch, diff_files
from patchkit.editing.context import Context, contexts_of
from patchkit.placing.plan import plan_patch
from patchkit.tree import SourceTree

PATH = "vllm/a.py"
REPEATED = "".join(
    f"def f{n}(x):\n    a = x\n    b = a\n    c = b\n    d = c\n    return d\n\n\n" for n in "123"
)


def contexts(before: str, after: str, path: str = PATH) -> tuple[Context, ...]:
    old, new = {path: before.encode()}, {path: after.encode()}
    patch = Patch("p", b"", diff_files(old, new))
    return contexts_of(plan_patch(patch, SourceTree(old)))


def second(text: str, old: str, new: str) -> str:
    """Return the text with the second of several equal parts replaced."""
    parts = text.split(old)
    return old.join(parts[:2]) + new + old.join(parts[2:])


@pytest.mark.parametrize(
    ("before", "after", "text", "weak"),
    [
        ("a = 1\nb = 2\nc = 3\n", "a = 1\nb = 4\nc = 3\n", "unique by its own lines", False),
        (
            "a = 1\nb = 2\nc = 3\n",
            "a = 1\nb = 2\nx = 9\nc = 3\n",
            "only adds lines, unique from 1 line of context on",
            False,
        ),
        (
            REPEATED,
            second(REPEATED, "    a = x\n", "    a = y\n"),
            "unique from 1 line of context on, with 0 at 3 places",
            False,
        ),
        (
            REPEATED,
            second(REPEATED, "    c = b\n", "    c = 0\n"),
            "unique from 3 lines of context on, with 2 at 3 places, would fit in 3 definitions",
            True,
        ),
        (
            REPEATED,
            second(REPEATED, "    d = c\n", "    d = 0\n"),
            "has 4 lines of context, to be the only one of its kind, "
            "unique from 4 lines of context on, with 3 at 3 places, would fit in 3 definitions",
            True,
        ),
        (
            REPEATED,
            second(REPEATED, "    c = b\n", "    c = b\n    more()\n"),
            "only adds lines, has 4 lines of context, to be the only one of its kind, "
            "unique from 4 lines of context on, with 3 at 3 places, would fit in 3 definitions",
            True,
        ),
        (
            "a\nb\nc\nd\ne\n",
            "x\na\nb\nc\nd\ne\n",
            "only adds lines, unique from 1 line of context on",
            False,
        ),
        ("a = 1\n", "b = 1\n", "no context, unique by its own lines", True),
    ],
)
def test_a_hunk_says_how_sure_its_place_is(before: str, after: str, text: str, weak: bool) -> None:
    (found,) = contexts(before, after)
    assert found.text == text
    assert found.is_weak is weak


def test_the_definitions_are_those_that_hold_the_change() -> None:
    before = REPEATED
    (one,) = contexts(before, second(before, "    c = b\n", "    c = 0\n"))
    assert one.definitions == ("f1", "f2", "f3")
    assert one.occurrences == 1
    assert one.thinner == ((0, 3), (1, 3), (2, 3))
    (other,) = contexts(
        before, second(before, "    return d\n", "    return d\n\n\ndef g(): ...\n")
    )
    assert other.insert_only
    assert other.definitions == ("<module>",)  # the new function stands between two others


def test_what_is_no_python_has_no_definitions() -> None:
    (found,) = contexts("a\nb\na\nb\nc\n", "a\nb\na\nB\nc\n", "vllm/a.txt")
    assert found.definitions == ()
    assert found.text == "unique from 1 line of context on, with 0 at 2 places"


def test_whole_files_are_as_sure_as_can_be() -> None:
    old: dict[str, bytes] = {"vllm/gone.py": b"x\n"}
    patch = Patch("p", b"", diff_files(old, {"vllm/new.py": b"y\n"}))
    found = contexts_of(plan_patch(patch, SourceTree(old)))
    assert [(one.number, one.path, one.text, one.is_weak) for one in found] == [
        (1, "vllm/gone.py", "the whole file", False),
        (2, "vllm/new.py", "the whole file", False),
    ]
