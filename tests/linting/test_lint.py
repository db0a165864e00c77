"""Each rule of lint on the smallest header that breaks it, and on one beside it that does not."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from patchkit.linting.lint import Context, InSeries, lint_patch
from patchkit.linting.rule import RULES, Finding, Severity

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 30)
DIFF = b"""\
diff --git a/vllm/a.py b/vllm/a.py
--- a/vllm/a.py
+++ b/vllm/a.py
@@ -1 +1 @@
-a
+b
"""
GOOD = """\
Description: Give pages their size
 All of it.
Reason: they have none, and the scheduler divides by it
Origin: written here
Forwarded: no
Bug: https://example.org/1
Exit-Condition: 0.31.0 or later
Applies-To: >=0.28,<0.30
Test: tests/test_a.py
Author: somebody
Owner: the kernel team
Last-Update: 2026-11-30
"""


def lint(header: str | bytes, context: Context | None = None) -> list[tuple[str, int]]:
    """The rules that a header breaks, with their lines."""
    return [(found.rule, found.lineno) for found in findings(header, context)]


def findings(header: str | bytes, context: Context | None = None) -> tuple[Finding, ...]:
    text = header.encode() if isinstance(header, str) else header
    return lint_patch(text + b"\n" + DIFF, "a.patch", context or Context(TODAY))


def put(old: str, new: str) -> str:
    """The good header with something in the place of something else."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_good_header_breaks_no_rule() -> None:
    assert lint(GOOD) == []


@pytest.mark.parametrize(
    ("header", "broken"),
    [
        (put("Origin: written here\n", ""), [("missing-field", 1)]),
        (put("Origin: written here\n", "Origin:\n"), [("empty-field", 4)]),
        (put("Forwarded: no\n", "Forwarded: no\nForwarded: no\n"), [("doubled-field", 6)]),
        (put("Applies-To: >=0.28,<0.30", "Applies-To: new ones"), [("bad-value", 8)]),
        (put("Test: tests/test_a.py", "Test: all"), [("bad-value", 9)]),
        (put("2026-11-30", "yesterday"), [("bad-value", 12)]),
        (put("Author: ", "Auther: "), [("misspelt-field", 10)]),
        (put("Owner: ", "Team: "), [("unknown-field", 11)]),
        (put("Owner: ", "X-Team: "), []),
        (put("Bug: ", "Bug-Debian: "), []),
        (put("Author: ", "author: "), [("field-case", 10)]),
        (put("Author: ", "Last-update: 2026-01-01\nAuthor: "), [
            ("field-case", 10), ("field-order", 11),
        ]),
        (put(" All of it.\n", " TODO: say more\n"), [("placeholder", 2)]),
        (put("Owner: the", "Owner: FIXME"), [("placeholder", 11)]),
        (put("All of it", "All of TODOs and xxxl"), []),
        (put("Give pages their size", "x" * 72), []),
        (put("Give pages their size", "[PATCH v2 1/2] " + "x" * 72), []),
        (put("Give pages their size", "x" * 69 + " [a]"), [("long-subject", 1)]),
        (put("Give pages their size", "x" * 73), [("long-subject", 1)]),
        (put("Give pages their size", "Give pages their size."), [("subject-period", 1)]),
        (put("Give pages their size", "Give pages their size ..."), []),
        (put("they have none, and the scheduler divides by it", "give pages, their size!"),
         [("reason-repeats", 3)]),
        (put("they have none, and the scheduler divides by it",
             "Give pages their size\n all of it"), [("reason-repeats", 3)]),
        (put("Forwarded: no", "Forwarded: yes"), [("unclear-forwarded", 5)]),
        (put("Forwarded: no", "Forwarded: not-needed, it is ours"), []),
        (put("Forwarded: no", "Forwarded: https://example.org/pull/1"), []),
        (put("Forwarded: no", "Forwarded: yes\n as #12"), []),
        (put("Forwarded: no", "Forwarded: pull request 7"), []),
        (put("Forwarded: no", "Forwarded: 53499, open"), []),
        (put("Forwarded: no", "Forwarded: nowhere"), [("unclear-forwarded", 5)]),
        (put("0.31.0 or later", "when upstream has it"), [("untestable-exit", 7)]),
        (put("0.31.0 or later", "upstream merges #12"), []),
        (put("0.31.0 or later", "page_size is gone"), []),
        (put("0.31.0 or later", "when `sized` is gone"), []),
        (put("0.31.0 or later\n", "upstream has it\nExit-When: release >=0.31\n"),
         []),
        (put("/1\n", "/1\nBug-Ubuntu: https://example.org/1\n"), [("repeated-bug", 7)]),
        (put("/1\n", "/1\nBug: https://example.org/2\n"), []),
        (put("2026-11-30", "2026-12-01"), [("future-date", 12)]),
        (put("All of it.", "word " * 19 + "word"), []),
        (put("All of it.", "word " * 19 + "words"), [("long-line", 2)]),
        (put("Forwarded: no", "Forwarded: https://example.org/" + "x" * 90), []),
        (put("Applies-To", 'Exit-When: text vllm.a "' + "word " * 20 + '"\nApplies-To'), []),
        (put("Applies-To", "Exit-When: release >=0.31\n nonsense x\nApplies-To"),
         [("bad-value", 9)]),
        (put("All of it.", "All\tof it."), [("tab", 2)]),
        (put(" All of it.", "\tAll of it."), [("tab", 2)]),
        (put("All of it.", "All of it. "), [("trailing-blank", 2)]),
        (put("All of it.", "All of it.\t"), [("trailing-blank", 2)]),
        (put("Forwarded: no\n", "") + "Forwarded: no\n", [("field-order", 12)]),
        ("", [("no-header", 1)]),
        ("Some text about it.\n", [("no-header", 1)]),
        ("\nReson: x\n", [("misspelt-field", 2)]),
        ("Note: x\n", [("no-header", 1)]),
        ("Description: x\nno field\n", [("unreadable", 2)]),
    ],
)  # fmt: skip
def test_a_rule_is_broken_at_its_line(header: str, broken: list[tuple[str, int]]) -> None:
    assert lint(header) == broken


def test_crlf_ends_no_line_with_a_blank() -> None:
    assert lint(GOOD.replace("\n", "\r\n")) == []


def test_what_is_said_names_the_place_and_how_to_put_it_right() -> None:
    assert findings(put("Author: ", "Auther: ")) == (
        Finding(
            "misspelt-field", "a.patch", 10, "there is no field Auther", "did you mean Author?"
        ),
    )
    assert findings(put("Owner: ", "Team: "))[0].hint == "X-Team where it is a field of your own"
    assert findings("\nReson: x\n") == (
        Finding(
            "misspelt-field",
            "a.patch",
            2,
            "no field is called Reson, so that nothing is taken for a header",
            "did you mean Reason?",
        ),
    )


def test_a_mail_has_its_own_fields_and_order() -> None:
    mail = (
        "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
        "From: A <a@example.org>\nDate: Mon, 2 Jan 2023 10:00:00 +0000\n"
        "Subject: [PATCH] Give pages their size\n\nReason: they have none\n"
        "Origin: written here\nForwarded: #12\nExit-Condition: 0.31.0\nApplies-To: >=0.28,<0.30\n"
        "\n---\n vllm/a.py | 2 +-\n 1 file changed  \n"
    )
    assert lint(mail) == []


def test_bytes_that_are_no_text_are_found_and_can_be_printed() -> None:
    header = GOOD.encode().replace(b"Forwarded: no", b"Forwarded: caf\xe9")
    rules = {found.rule: found for found in findings(header)}
    assert rules["not-utf8"].text == "byte 0xe9 in column 15 is not UTF-8"
    assert rules["not-utf8"].lineno == 5
    for found in rules.values():
        found.text.encode()


def test_a_file_in_another_encoding_is_found_once() -> None:
    data = (GOOD.encode() + b"\n" + DIFF).decode().encode("utf-16")
    assert [(f.rule, f.text) for f in lint_patch(data, "a.patch", Context(TODAY))] == [
        ("not-utf8", "the file is not in UTF-8")
    ]


def test_a_damaged_patch_is_found_at_its_line() -> None:
    data = GOOD.encode() + b"\n" + DIFF.replace(b"@@ -1 +1 @@", b"@@ -1,3 +1 @@")
    (found,) = lint_patch(data, "a.patch", Context(TODAY))
    assert (found.rule, found.lineno > 13) == ("unreadable", True)


def test_of_a_mailbox_the_first_header_is_looked_at() -> None:
    mail = (
        b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
        b"From: A <a@example.org>\nSubject: [PATCH] One.\n\n---\n" + DIFF + b"-- \n2.40\n\n"
    )
    rules = [found.rule for found in lint_patch(mail + mail, "a.mbox", Context(TODAY))]
    assert "subject-period" in rules


# In a series -------------------------------------------------------------------------------------


def stored(
    header: str = GOOD, *, release: str = "0.28.0", proven: tuple[str, ...] = ("0.28.0", "0.29.0")
) -> list[tuple[str, str, str | None]]:
    """The findings on the second of three patches, with their texts and hints."""
    data = header.encode() + b"\n" + DIFF
    patches = {
        ("below", "first.patch"): DIFF, ("patches", "one.patch"): DIFF,
        ("patches", "a.patch"): data, ("patches", "last.patch"): DIFF,
    }  # fmt: skip
    series = InSeries(
        ("patches", "a.patch"), release, patches, frozenset(proven), ("0.28.0", "0.29.0", "0.30.0")
    )
    context = Context(TODAY, lambda path: path == "tests/test_a.py", series)
    return [(f.rule, f.text, f.hint) for f in lint_patch(data, "patches/a.patch", context)]


def test_a_stored_patch_that_is_right_breaks_nothing() -> None:
    assert stored() == []


def test_a_range_must_hold_the_release() -> None:
    assert stored(release="0.30.0") == [
        (
            "range-excludes-release",
            "Applies-To <0.30,>=0.28 does not hold 0.30.0",
            "the patch is stored for v0.30.0: widen the range, or leave it out there",
        )
    ]


def test_a_range_must_not_reach_further_than_what_is_stored() -> None:
    assert stored(proven=("0.28.0",)) == [
        (
            "range-too-wide",
            "Applies-To <0.30,>=0.28 holds v0.29.0, for which it is not stored",
            "move it there with `patchkit rebase v0.29.0`, or narrow the range",
        )
    ]


def test_a_range_without_an_end_is_too_wide() -> None:
    open_end = put(">=0.28,<0.30", ">=0.28")
    assert stored(open_end, proven=("0.28.0", "0.29.0", "0.30.0")) == [
        (
            "range-too-wide",
            "Applies-To >=0.28 has no upper end",
            "end it behind the last release that the patch was tried on",
        )
    ]
    assert [rule for rule, *_ in stored(open_end)] == ["range-too-wide"]


@pytest.mark.parametrize("word", ["one", "one.patch", "patches/one", "below/first", "first"])
def test_an_earlier_patch_may_be_needed(word: str) -> None:
    assert stored(put("Test: ", f"Depends-On: {word}\nTest: ")) == []


def test_a_later_or_unknown_patch_may_not() -> None:
    header = put("Test: ", "Depends-On: one,\n last\n nope\n a\nTest: ")
    found = stored(header)
    assert [(rule, text) for rule, text, _ in found] == [
        ("late-dependency", "last does not come before this patch"),
        ("unknown-dependency", "there is no patch 'nope'"),
        ("late-dependency", "a does not come before this patch"),
    ]
    assert found[1][2] == "the series has: first, one, a, last"


def test_the_line_of_a_dependency_is_the_one_that_names_it() -> None:
    header = put("Test: ", "Depends-On: one,\n nope\nTest: ")
    data = header.encode() + b"\n" + DIFF
    series = InSeries(("p", "a"), "0.28.0", {("p", "one"): DIFF, ("p", "a"): data})
    (found,) = lint_patch(data, "p/a", Context(TODAY, series=series))
    assert (found.rule, found.lineno) == ("unknown-dependency", 10)


def test_a_named_test_must_be_a_file() -> None:
    header = put("tests/test_a.py", "tests/test_a.py::test_one tests/test_b.py")
    assert stored(header) == [
        (
            "missing-test",
            "there is no file tests/test_b.py",
            "the path counts from the root of the repository",
        )
    ]


# The page ----------------------------------------------------------------------------------------


def test_the_page_lists_the_rules_as_they_are() -> None:
    page = (ROOT / "docs/lint.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \| (\w+) \| (.*?) \|(?: (yes) \|| \|)$", page, re.MULTILINE
    )
    assert [(name, severity, breaks, fixed == "yes") for name, severity, breaks, fixed in rows] == [
        (name, rule.severity.value, rule.breaks, rule.fixed) for name, rule in RULES.items()
    ]


def test_a_finding_is_as_bad_as_its_rule() -> None:
    assert Finding("tab", "a", 1, "x").severity is Severity.WARNING
    assert Finding("no-header", "a", 1, "x").severity is Severity.ERROR


def test_a_patch_of_the_own_folder_is_meant_rather_than_another_of_its_name() -> None:
    data = put("Test: ", "Depends-On: one\nTest: ").encode() + b"\n" + DIFF
    patches = {("below", "one.patch"): DIFF, ("patches", "a.patch"): data,
               ("patches", "one.patch"): DIFF}  # fmt: skip
    series = InSeries(("patches", "a.patch"), "0.28.0", patches)
    context = Context(TODAY, series=series)
    assert [found.rule for found in lint_patch(data, "a.patch", context)] == ["late-dependency"]


def test_the_order_of_a_mail_is_not_ours() -> None:
    lines = "Date: Mon, 2 Jan 2023 10:00:00 +0000\nFrom: A <a@example.org>\nSubject: It\n"
    rules = [rule for rule, _ in lint(lines + "Reason: so\n")]
    assert "field-order" not in rules
    # two paragraphs: nobody would want them to be mixed
    assert "field-order" not in [rule for rule, _ in lint("From: me\nSubject: It\n\nReason: so\n")]
