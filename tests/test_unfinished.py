"""What shows that an edited file was saved too early."""

import pytest

from patchkit.syntax.unfinished import is_layout, unfinished

CODE = b"def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CODE, CODE.replace(b"1", b"2")),
        (None, CODE),
        (None, CODE.replace(b"\n", b"\r\n")),
        (CODE.replace(b"\n", b"\r\n"), CODE.replace(b"\n", b"\r\n") + b"x = 1\n"),
        (b"<<<<<<< HEAD\nx\n", b"<<<<<<< HEAD\ny\n"),  # of a test of upstream's, say
        (b"\xef\xbb\xbf" + CODE, b"\xef\xbb\xbf" + CODE + CODE),
        (b"a = (\n", b"b = (\n"),  # a newer Python's, for all that is known
        (CODE, CODE + b"# =======\n"),
        (CODE, CODE + b'"""\nTitle\n=======\n"""\n'),
    ],
)
def test_what_was_so_before_and_what_is_sound_is_right(before: bytes | None, after: bytes) -> None:
    assert unfinished("vllm/a.py", before, after) is None


@pytest.mark.parametrize(
    ("path", "before", "after", "text"),
    [
        ("a.yaml", b"a: 1\n", b"||||||| base\na: 1\n", "line 1 is a conflict marker: ||||||| base"),
        ("a.py", None, b"x = (\n", "line 1 does not compile: '(' was never closed"),
        (
            "a.py",
            CODE.replace(b"\n", b"\r\n"),
            CODE,
            "the lines end in LF, and did in CR LF before",
        ),
    ],
)
def test_what_is_new_and_wrong_is_named(
    path: str, before: bytes | None, after: bytes, text: str
) -> None:
    assert unfinished(path, before, after) == text


def test_layout_is_blank_lines_and_line_ends_and_no_indentation() -> None:
    assert is_layout(CODE, b"\n" + CODE.replace(b"\n", b" \r\n").rstrip())
    assert not is_layout(CODE, CODE.replace(b"    ", b"  "))
    assert not is_layout(CODE, CODE + b"# a\n")
