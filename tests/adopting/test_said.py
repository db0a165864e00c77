from __future__ import annotations

import pytest

from patchkit.adopting.heading import heading, to_fill_in, with_needs
from patchkit.adopting.said import Said, said_by
from patchkit.diff import parse_mbox
from patchkit.diff.header import Field, format_header

PATCH = b"--- a/vllm/x.py\n+++ b/vllm/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def said(text: str, after: str = "") -> Said:
    (patch,) = parse_mbox(text.encode() + PATCH + after.encode(), "p.patch")
    return said_by(patch)


def header(text: str, **given: str) -> str:
    made = heading(said(text), origin="p.patch", release="0.28.0", given=given)
    return format_header(made).decode()


EMPTY = "Reason:\nOrigin: p.patch\nForwarded:\nExit-Condition:\nApplies-To: ==0.28.0\n"


def test_a_bare_patch_gets_a_header_with_what_is_known() -> None:
    assert header("") == f"Description:\n{EMPTY}\n"


def test_plain_text_is_the_description() -> None:
    assert header("What it does.\n\nAnd why.\n\n") == (
        f"Description: What it does.\n .\n And why.\n{EMPTY}\n"
    )


def test_a_mail_gives_description_author_and_date() -> None:
    text = (
        "From 0123456789abcdef Mon Sep 17 00:00:00 2001\n"
        "From: =?utf-8?q?J=C3=B6?= <j@example.org>\n"
        "To: list@example.org\nX-Mailer: m\nMessage-Id: <1@x>\n"
        "Date: Mon, 30 Nov 2026 10:00:00 +0000\n"
        "Subject: [RFC PATCH v3 2/4] [Core] A subject that is folded\n onto two lines\n"
        "Content-Type: text/plain\n\n"
        "Why.\n\nSigned-off-by: me\n---\nv3: shorter\n vllm/x.py | 2 +-\n"
        " 1 file changed, 1 insertion(+), 1 deletion(-)\n\n"
    )
    found = said(text)
    assert found.numbers == (2, 4)
    assert found.notes == ("p.patch: fields of the mail left out: To, X-Mailer",)
    assert header(text) == (
        "Description: [Core] A subject that is folded onto two lines\n"
        " Why.\n .\n Signed-off-by: me\n"
        f"{EMPTY}"
        "Author: Jö <j@example.org>\nDate: Mon, 30 Nov 2026 10:00:00 +0000\nMessage-Id: <1@x>\n\n"
        "v3: shorter\n\n"
    )


def test_fields_in_the_message_of_a_mail_are_fields() -> None:
    text = (
        "From: A <a@example.org>\nSubject: one\n\nWhy.\n\n"
        "Reason: too small\n by far\nForwarded: no\nAuthor: B <b@example.org>\n\n"
    )
    assert header(text) == (
        "Description: one\n Why.\nReason: too small\n by far\nOrigin: p.patch\nForwarded: no\n"
        "Exit-Condition:\nApplies-To: ==0.28.0\nAuthor: B <b@example.org>\n\n"
    )


def test_a_message_that_only_looks_like_fields_stays_a_message() -> None:
    text = "From: A <a@example.org>\nSubject: one\n\nReason: too small\nand more of it\n\n"
    found = said(text)
    assert (found.subject, found.message) == ("one", "Reason: too small\nand more of it")
    assert found.notes == (
        "p.patch:5: header line is neither a field nor a continuation: 'and more of it', expected "
        "'Name: value', or a blank and the rest of the value; the text is kept as it is",
    )


def test_a_header_that_is_broken_is_kept_as_text() -> None:
    text = "Origin: x\nno field\n\nmore\n\n"
    assert said(text).text == "Origin: x\nno field\n\nmore"
    assert header(text).startswith("Description: Origin: x\n no field\n .\n more\nReason:\n")


def test_what_git_show_writes_is_read() -> None:
    text = (
        "commit 0123456789abcdef0123456789abcdef01234567\nMerge: 1 2\n"
        "Author: A <a@example.org>\nDate:   Mon Nov 30 10:00:00 2026 +0000\n\n"
        "    Raise it\n    \n    Because.\n---\n vllm/x.py | 2 +-\n 1 file changed\n\n"
    )
    assert header(text) == (
        f"Description: Raise it\n Because.\n{EMPTY}"
        "Author: A <a@example.org>\nDate: Mon Nov 30 10:00:00 2026 +0000\n\n"
    )


DEP3 = "Subject: one\n more\nX-Ours: y\nFrom: A <a@example.org>\nOrigin: vendor\n\nText.\n---\n\n"


def test_a_dep3_header_is_kept_in_its_order_and_completed() -> None:
    assert header(DEP3) == (
        "Subject: one\n more\nX-Ours: y\nFrom: A <a@example.org>\nOrigin: vendor\n"
        "Reason:\nForwarded:\nExit-Condition:\nApplies-To: ==0.28.0\n\nText.\n\n"
    )


def test_what_a_person_gives_wins() -> None:
    text = header(DEP3, Reason="r", Origin="us", Forwarded="no", **{"Exit-Condition": "e"})
    assert "\nOrigin: us\nReason: r\nForwarded: no\nExit-Condition: e\n" in text
    assert "vendor" not in text


@pytest.mark.parametrize(
    ("after", "notes"),
    [
        ("", ()),
        ("\n\n", ()),
        ("-- \n2.39.5\n\n", ()),
        ("-- \nA Person\n", ()),
        ("\nBest,\nA\n", ("p.patch: text after the last section left out: 'Best,'",)),
        ("Only in b: c\n", ("p.patch: text after the last section left out: 'Only in b: c'",)),
        (
            "\nnow the second\n" + PATCH.decode().replace("x.py", "y.py"),
            ("p.patch:8: text before the section left out: 'now the second'",),
        ),
    ],
)
def test_text_around_the_sections_is_left_out_and_that_is_said(
    after: str, notes: tuple[str, ...]
) -> None:
    assert said("", after).notes == notes


def test_what_is_to_fill_in_is_empty_or_wrong() -> None:
    text = header("Description: d\nOrigin: o\nApplies-To: new ones\n\n")
    assert to_fill_in(text.encode(), "p") == (
        "Reason",
        "Forwarded",
        "Exit-Condition",
        "Applies-To 'new ones' is no version range, expected one like '>=0.26,<0.30'",
    )


def test_needs_are_added_to_those_that_are_declared() -> None:
    text = b"Description: d\nDepends-On: a\n b\nReason: r\n\n"
    assert with_needs(text, "p", ("c", "d")) == (
        b"Description: d\nReason: r\nDepends-On: a, b, c, d\n\n"
    )


def test_a_mail_of_ours_does_not_bring_its_placeholders_back() -> None:
    text = (
        "From: unknown <author@unknown.invalid>\nDate: Thu, 01 Jan 1970 00:00:00 +0000\n"
        "Subject: [PATCH 1/1] one\n\nReason: r\n\n"
    )
    made = heading(said(text), origin="p.patch", release="0.28.0", given={})
    assert Field("Date", "Thu, 01 Jan 1970 00:00:00 +0000") not in made.fields
    assert made.author is None
