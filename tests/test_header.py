"""DEP-3 headers: read, written in one form, and checked for what a stored patch must say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from patchkit.diff.header import Field, Header, format_header, parse_header, validate_header
from patchkit.errors import PatchkitError

CANONICAL = b"""\
Description: raise small KV blocks to the block of the largest page
 A sliding-window layer born at block 16 pays a whole page per 16 tokens.
 .
   Indented, after an empty line.
Reason: 385 blocks where 9 do
Origin: vendor, https://example.org/patches/1
Forwarded: not-needed
Exit-Condition: upstream raises the block itself
Applies-To: >=0.26,<0.30
Author: J\xc3\xa4ne <j@example.org>
Last-Update: 2026-01-31
Optional-Sections: csrc/*, docs/x.md
X-Ours:
 kept as it is

Free text after it.

In two paragraphs.

"""


def test_every_field_is_read() -> None:
    header = parse_header(CANONICAL, "p.patch")

    assert header.description == (
        "raise small KV blocks to the block of the largest page\n"
        "A sliding-window layer born at block 16 pays a whole page per 16 tokens.\n"
        "\n"
        "  Indented, after an empty line."
    )
    assert header.reason == "385 blocks where 9 do"
    assert header.origin == "vendor, https://example.org/patches/1"
    assert header.forwarded == "not-needed"
    assert header.exit_condition == "upstream raises the block itself"
    assert header.applies_to == SpecifierSet(">=0.26,<0.30")
    assert header.author == "Jäne <j@example.org>"
    assert header.last_update == "2026-01-31"
    assert header.optional_sections == ("csrc/*", "docs/x.md")
    assert header.get("x-ours") == "\nkept as it is"
    assert header.text == "Free text after it.\n\nIn two paragraphs."
    assert [(item.name, item.lineno) for item in header.fields] == [
        ("Description", 1),
        ("Reason", 5),
        ("Origin", 6),
        ("Forwarded", 7),
        ("Exit-Condition", 8),
        ("Applies-To", 9),
        ("Author", 10),
        ("Last-Update", 11),
        ("Optional-Sections", 12),
        ("X-Ours", 13),
    ]


def test_the_canonical_form_is_written_as_it_was_read() -> None:
    header = parse_header(CANONICAL, "p.patch")

    assert format_header(header) == CANONICAL
    assert validate_header(header, "p.patch") == ()


def test_other_spellings_get_one_form() -> None:
    written = b"\r\nSubject:   a title  \r\n\tand more \r\nupstream-state: no\r\n\r\n"
    header = parse_header(written, "p")

    assert (header.description, header.forwarded) == ("a title\nand more", "no")
    assert format_header(header) == b"Subject: a title\n and more\nupstream-state: no\n\n"


def test_free_text_alone_has_no_fields() -> None:
    text = b"Fix: a thing that broke\nand some more words\n\n"
    header = parse_header(text, "p")

    assert header == Header((), "Fix: a thing that broke\nand some more words")
    assert format_header(header) == text
    assert parse_header(b"", "p") == Header()
    assert format_header(Header()) == b""


def test_a_mail_gives_its_fields_and_those_in_its_message() -> None:
    mail = b"""\
From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001
From: A Person <a@example.org>
Date: Sat, 31 Jan 2026 10:00:00 +0100
Subject: [PATCH] raise small KV blocks

It was too small.

Reason: 385 blocks
Applies-To: ==0.28.0

More words.
---
 x.py | 2 +-
"""
    header = parse_header(mail, "p")

    assert header.author == "A Person <a@example.org>"
    assert header.description == "[PATCH] raise small KV blocks"
    assert header.reason == "385 blocks"
    assert header.covers("0.28.0")
    assert header.text == "It was too small.\n\n\nMore words.\n---\n x.py | 2 +-"
    assert [item.lineno for item in header.fields] == [2, 3, 4, 8, 9]


def test_a_line_that_is_no_field_is_placed() -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_header(b"\nDescription: x\nForwarded no\n", "p.patch")
    assert str(caught.value) == (
        "p.patch:3: header line is neither a field nor a continuation: 'Forwarded no', "
        "expected 'Name: value', or a blank and the rest of the value"
    )


def test_missing_fields_are_all_named() -> None:
    assert validate_header(Header(), "p.patch") == (
        "p.patch:1: header has no Description (or Subject)",
        "p.patch:1: header has no Reason",
        "p.patch:1: header has no Origin",
        "p.patch:1: header has no Forwarded (or Upstream-State)",
        "p.patch:1: header has no Exit-Condition",
        "p.patch:1: header has no Applies-To",
    )


@pytest.mark.parametrize(
    ("line", "with_", "problem"),
    [
        (b"Reason: 385 blocks where 9 do", b"Reason:", "p.patch:5: Reason is empty"),
        (
            b"Applies-To: >=0.26,<0.30",
            b"Applies-To: >=0.26,<0.3x",
            "p.patch:9: Applies-To '>=0.26,<0.3x' is no version range, "
            "expected one like '>=0.26,<0.30'",
        ),
        (
            b"Applies-To: >=0.26,<0.30",
            b"Applies-To: 0.28 to 0.30",
            "p.patch:9: Applies-To '0.28 to 0.30' is no version range, "
            "expected one like '>=0.26,<0.30'",
        ),
        (
            b"Last-Update: 2026-01-31",
            b"Last-Update: 31.1.2026",
            "p.patch:11: Last-Update '31.1.2026' is no date, expected one like '2026-01-31'",
        ),
        (
            b"Author: J\xc3\xa4ne <j@example.org>",
            b"Subject: twice",
            "p.patch:10: Subject is there twice",
        ),
    ],
)
def test_a_wrong_value_is_placed(line: bytes, with_: bytes, problem: str) -> None:
    header = parse_header(CANONICAL.replace(line, with_), "p.patch")

    assert validate_header(header, "p.patch") == (problem,)


def test_a_range_covers_versions() -> None:
    header = parse_header(b"Applies-To: >=0.26,<0.30\n", "p")

    covered = {
        v: header.covers(v) for v in ("0.25.9", "0.26", "0.29.1", "0.29.0rc1", "0.30.0", "x")
    }
    assert covered == {
        "0.25.9": False,
        "0.26": True,
        "0.29.1": True,
        "0.29.0rc1": True,
        "0.30.0": False,
        "x": False,
    }
    assert not Header().covers("0.28.0")
    assert parse_header(b"Applies-To: nonsense\n", "p").applies_to is None


def test_bytes_that_are_not_utf_8_are_kept() -> None:
    written = b"Author: J\xe4ne\n\n"

    assert format_header(parse_header(written, "p")) == written


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
LINES = WORDS.filter(lambda text: text != "." and text.strip() == text)
VALUES = st.lists(st.one_of(LINES, st.just("")), min_size=1, max_size=4).map(
    lambda lines: "\n".join([*lines, "end"])
)
FIELDS = st.lists(
    st.builds(Field, st.sampled_from(["Description", "Reason", "Bug-Ours", "Odd-One"]), VALUES),
    min_size=1,
    max_size=5,
)
TEXTS = st.lists(LINES.map(lambda text: f"text {text}"), max_size=3).map("\n".join)


@given(FIELDS, TEXTS)
def test_what_is_written_reads_back(fields: list[Field], text: str) -> None:
    header = Header((Field("Origin", "o"), *fields), text)
    written = format_header(header)

    assert parse_header(written, "p") == header
    assert format_header(parse_header(written, "p")) == written


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("tests/a.py", None),
        ("tests/a.py::TestX::test_y, b.py::test_z[1-a]\n c.py", None),
        ("/tests/a.py", "'/tests/a.py'"),
        ("../a.py", "'../a.py'"),
        ("tests/./a.py", "'tests/./a.py'"),
        ("tests//a.py", "'tests//a.py'"),
        ("tests\\a.py", "'tests\\\\a.py'"),
        ("C:a.py", "'C:a.py'"),
        ("tests/a.txt", "'tests/a.txt'"),
        ("a.py::", "'a.py::'"),
        ("on two cards", "'on'"),
        ("", "empty"),
    ],
)
def test_tests_are_files_of_the_repository(value: str, problem: str | None) -> None:
    header = parse_header(CANONICAL.replace(b"X-Ours:", f"Test: {value}\nX-Ours:".encode()), "p")
    found = [text for text in validate_header(header, "p") if "Test" in text]
    if problem is None:
        assert found == []
        assert all(name.partition("::")[0].endswith(".py") for name in header.tests)
    else:
        expected = "expected tests like 'tests/test_kv.py::test_pages'"
        assert found == [f"p:13: Test is {problem}, {expected}"]
