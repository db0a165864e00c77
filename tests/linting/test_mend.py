"""What --fix changes, and that it changes nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.diff import parse_patch
from patchkit.diff.header import parse_header
from patchkit.linting.mend import mend_patch
from patchkit.linting.rule import Repair

DIFF = b"""\
diff --git a/vllm/a.py b/vllm/a.py
--- a/vllm/a.py
+++ b/vllm/a.py
@@ -1 +1,2 @@
 a \t
+b \t
"""


def mend(header: bytes) -> tuple[bytes, list[tuple[str, int, str]]]:
    data, repairs = mend_patch(header + b"\n" + DIFF, "a.patch")
    assert data.endswith(b"\n" + DIFF)
    return data.removesuffix(b"\n" + DIFF), [(r.rule, r.lineno, r.text) for r in repairs]


def test_what_is_right_stays_as_it_is() -> None:
    header = b"Description: It\n does\n .\n more\nReason: so\n\nfree text  \n"
    assert mend(header) == (header, [])


def test_names_are_spelt() -> None:
    assert mend(b"description: It\nreson: so\nX-mine: 1\n") == (
        b"Description: It\nReason: so\nX-mine: 1\n",
        [
            ("field-case", 1, "description is called Description now"),
            ("misspelt-field", 2, "reson is called Reason now"),
        ],
    )


def test_a_guessed_name_that_is_there_already_is_left_alone() -> None:
    header = b"Description: It\nReason: so\nReson: or so\n"
    assert mend(header) == (header, [])


def test_a_guess_is_made_once_for_two_fields() -> None:
    mended, repairs = mend(b"Description: It\nReson: so\nReaso: or so\n")
    assert mended == b"Description: It\nReason: so\nReaso: or so\n"
    assert len(repairs) == 1


def test_a_header_whose_first_field_nothing_knew_is_mended_as_a_whole() -> None:
    assert mend(b"Reson: so \nDescription: It\n") == (
        b"Description: It\nReason: so\n",
        [
            ("misspelt-field", 1, "Reson is called Reason now"),
            ("trailing-blank", 1, "blanks at the end taken off"),
            ("field-order", 2, "sorted: Description, Reason"),
        ],
    )


def test_blanks_go_from_the_lines_of_fields_alone() -> None:
    assert mend(b"Description: It \n does \t\nReason: so\n\nfree text \n") == (
        b"Description: It\n does\nReason: so\n\nfree text \n",
        [
            ("trailing-blank", 1, "blanks at the end taken off"),
            ("trailing-blank", 2, "blanks at the end taken off"),
        ],
    )


def test_fields_are_sorted_with_the_lines_that_they_go_on_in() -> None:
    assert mend(
        b"Reason: so\n it is\nX-Mine: 1\nBug-B: 2\nDescription: It\n .\n does\nBug: 1\n"
    ) == (
        b"Description: It\n .\n does\nReason: so\n it is\nBug-B: 2\nBug: 1\nX-Mine: 1\n",
        [("field-order", 5, "sorted: Description, Reason, Bug-B, Bug, X-Mine")],
    )


def test_a_mail_keeps_its_order() -> None:
    mail = (
        b"Date: Mon, 2 Jan 2023 10:00:00 +0000\nSubject: It\nReason: so\nFrom: me\nOrigin: here\n"
    )
    assert mend(mail) == (mail, [])


def test_fields_in_two_paragraphs_keep_their_order() -> None:
    header = b"Subject: It\nOrigin: here\n\nReason: so\n"
    assert mend(header) == (header, [])


def test_line_endings_stay() -> None:
    mended, repairs = mend_patch(
        (b"reason: so  \nDescription: It\n\n" + DIFF).replace(b"\n", b"\r\n"), "a.patch"
    )
    assert mended.startswith(b"Description: It\r\nReason: so\r\n\r\ndiff")
    assert mended.count(b"\r\n") == mended.count(b"\n")
    assert [repair.rule for repair in repairs] == ["field-case", "trailing-blank", "field-order"]


@pytest.mark.parametrize(
    "data",
    [
        b"Description: It\nno field\n\n" + DIFF,
        b"reason: so\n\n" + DIFF.replace(b"-1 +1,2", b"-1 +1,9"),
        (b"reason: so \n\n" + DIFF).decode().encode("utf-16"),
        b"\xef\xbb\xbfreason: so \n\n" + DIFF,
    ],
)
def test_what_cannot_be_read_as_it_is_is_left_alone(data: bytes) -> None:
    assert mend_patch(data, "a.patch") == (data, ())


NAMES = st.sampled_from(
    ["Description", "reason", "Orign", "Forwarded", "bug", "X-A", "Team", "Test"]
)
VALUES = st.lists(st.sampled_from(["a", "b ", "c\t", "."]), min_size=1, max_size=3)


@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=6))
def test_mending_says_the_same_in_the_end_and_needs_no_second_time(
    fields: list[tuple[str, list[str]]],
) -> None:
    text = "Subject: It\n" + "".join(f"{name}: {chr(10).join(v).replace(chr(10), chr(10) + ' ')}\n"
                                     for name, v in fields)  # fmt: skip
    data = text.encode() + b"\n" + DIFF
    mended, repairs = mend_patch(data, "a.patch")
    before, after = (parse_header(parse_patch(d, "a").preamble, "a") for d in (data, mended))
    assert sorted(f.value for f in before.fields) == sorted(f.value for f in after.fields)
    assert mended.endswith(b"\n" + DIFF)
    assert (mended == data) is (repairs == ())
    assert mend_patch(mended, "a.patch") == (mended, ())


def test_a_repair_names_its_rule() -> None:
    _, repairs = mend_patch(b"subject: It\n\n" + DIFF, "a.patch")
    assert repairs == (Repair("field-case", 1, "subject is called Subject now"),)
