"""Patch files as people write, mail and damage them, read or refused."""

from __future__ import annotations

import re

import pytest
import unidiff

from patchkit.diff import FileChange, Hunk, Line, Note, Patch, format_patch, parse_patch
from patchkit.errors import PatchkitError

GIT = b"""\
Description: say so

diff --git a/vllm/x.py b/vllm/x.py
index 1111111..2222222 100755
--- a/vllm/x.py
+++ b/vllm/x.py
@@ -1,3 +1,4 @@ def f(a, b):
 a
-b
+B
+c
 d
@@ -10 +11 @@ class Long Name:
-last
\\ No newline at end of file
+last
--\x20
2.39.5

"""

THREE_FILES = b"""\
--- a/vllm/a.py
+++ b/vllm/a.py
@@ -1,2 +1,3 @@
 a
+b
 c
--- a/vllm/b.py
+++ b/vllm/b.py
@@ -1,2 +1,3 @@
 a
+b
 c
--- a/vllm/c.py
+++ b/vllm/c.py
@@ -1,2 +1,3 @@
 a
+b
 c
"""


def refusal(data: bytes) -> tuple[str, str | None]:
    with pytest.raises(PatchkitError) as caught:
        parse_patch(data, "p.patch")
    return str(caught.value), caught.value.hint


def notes(patch: Patch) -> list[tuple[int, str]]:
    return [(note.lineno, note.text) for note in patch.notes]


def section(names: bytes, body: bytes = b"@@ -1 +1 @@\n-a\n+b\n") -> bytes:
    return names + body


def test_a_git_patch_is_read_whole() -> None:
    patch = parse_patch(GIT, "p.patch")

    assert patch.preamble == b"Description: say so\n\n"
    assert patch.trailer == b"-- \n2.39.5\n\n"
    assert patch.notes == ()
    (file,) = patch.files
    assert (file.old_path, file.new_path, file.path) == ("vllm/x.py",) * 3
    assert (file.change, file.lineno) == (FileChange.MODIFY, 3)
    assert (file.old_mode, file.new_mode) == (0o100755, 0o100755)
    assert (file.old_id, file.new_id, file.similarity) == ("1111111", "2222222", None)
    first = Hunk(
        1,
        3,
        1,
        4,
        b"def f(a, b):",
        (
            Line(" ", b"a\n"),
            Line("-", b"b\n"),
            Line("+", b"B\n"),
            Line("+", b"c\n"),
            Line(" ", b"d\n"),
        ),
    )
    last = Hunk(10, 1, 11, 1, b"class Long Name:", (Line("-", b"last"), Line("+", b"last\n")))
    assert file.hunks == (first, last)
    assert [hunk.lineno for hunk in file.hunks] == [7, 13]
    assert (first.old, first.new) == (b"a\nb\nd\n", b"a\nB\nc\nd\n")
    assert (last.old, last.new) == (b"last", b"last\n")


def test_a_padded_count_is_damage_with_line_and_field() -> None:
    data = b"--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,     3 @@\n+a\n+b\n+c\n"

    assert refusal(data) == (
        "p.patch:3: hunk header has new count '     3', expected a plain number",
        None,
    )
    assert len(unidiff.PatchSet(data.decode())[0]) == 0  # what it is refused for


@pytest.mark.parametrize(
    ("header", "fact"),
    [
        ("@@ -1,x +1,2 @@", "hunk header has old count 'x', expected a plain number"),
        ("@@ -,2 +1,2 @@", "hunk header has old start '', expected a plain number"),
        ("@@ -1,2 +1.5,2 @@", "hunk header has new start '1.5', expected a plain number"),
        (
            "@@ -1,2 +1,9999999999 @@",
            "hunk header has new count '9999999999', expected a plain number",
        ),
        ("@@ -0,2 +1,2 @@", "hunk header has old start 0 and old count 2"),
        ("@@ -1,2 +0,2 @@", "hunk header has new start 0 and new count 2"),
        ("@@ -1,0 +1,0 @@", "hunk header has no old and no new lines"),
        (
            "@@ -1,2 +1,2",
            "hunk header is damaged: '@@ -1,2 +1,2', expected @@ -START,COUNT +START,COUNT @@",
        ),
        (
            "@@ ... @@",
            "hunk header is damaged: '@@ ... @@', expected @@ -START,COUNT +START,COUNT @@",
        ),
        ("@@@ -1,2 -1,2 +1,2 @@@", "combined diff of a merge, expected a diff against one parent"),
    ],
)
def test_a_damaged_hunk_header_names_its_field(header: str, fact: str) -> None:
    data = f"--- a/x.py\n+++ b/x.py\n{header}\n a\n-b\n+c\n".encode()

    assert refusal(data)[0] == f"p.patch:3: {fact}"


def test_a_hunk_that_was_extended_by_hand_is_refused_before_any_file_is_used() -> None:
    data = THREE_FILES.replace(
        b"b.py\n@@ -1,2 +1,3 @@\n a\n", b"b.py\n@@ -1,2 +1,3 @@\n a\n+x\n+y\n"
    )

    assert refusal(data) == (
        "p.patch:9: hunk has 5 new lines, header says 3",
        "hunk 1 of vllm/b.py is 2 lines too long; its body ends before line 15 ('--- a/vllm/c.py')",
    )


@pytest.mark.parametrize("stray", [b" stray\n", b"+stray\n", b"-stray\n", b"\n+stray\n"])
def test_lines_with_markers_after_a_hunk_are_refused(stray: bytes) -> None:
    message, hint = refusal(THREE_FILES + stray)

    assert message.startswith("p.patch:15: hunk has ")
    assert hint is not None
    assert hint.startswith("hunk 1 of vllm/c.py is ")
    assert hint.endswith("too long; its body ends before the end of the file")


def test_a_file_that_ends_inside_a_hunk_is_refused_with_both_counts() -> None:
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1,6 +1,7 @@\n a\n b\n+new\n c\n d\n e\n"

    assert refusal(data) == (
        "p.patch:3: hunk has 5 old and 6 new lines, header says 6 and 7",
        "hunk 1 of x.py is 1 line too short; its body ends before the end of the file",
    )


def test_one_side_alone_may_disagree() -> None:
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1,6 +1,5 @@\n a\n b\n-old\n c\n d\n"

    assert refusal(data) == (
        "p.patch:3: hunk has 5 old and 4 new lines, header says 6 and 5",
        "hunk 1 of x.py is 1 line too short; its body ends before the end of the file",
    )
    assert refusal(data.replace(b"+1,5", b"+1,4"))[0] == (
        "p.patch:3: hunk has 5 old lines, header says 6"
    )


def test_a_short_hunk_does_not_swallow_the_names_of_the_next_file() -> None:
    data = THREE_FILES.replace(b"a.py\n@@ -1,2 +1,3 @@", b"a.py\n@@ -1,3 +1,4 @@")

    assert refusal(data) == (
        "p.patch:3: hunk has 2 old and 3 new lines, header says 3 and 4",
        "hunk 1 of vllm/a.py is 1 line too short; its body ends before line 7 ('--- a/vllm/b.py')",
    )


def test_a_short_hunk_does_not_swallow_a_mail_signature() -> None:
    data = GIT.replace(b"@@ -10 +11 @@", b"@@ -10,2 +11 @@")

    assert refusal(data)[0] == "p.patch:13: hunk has 1 old lines, header says 2"


def test_a_short_hunk_does_not_swallow_the_next_hunk() -> None:
    data = GIT.replace(b"@@ -1,3 +1,4 @@", b"@@ -1,4 +1,5 @@")

    assert refusal(data)[0] == "p.patch:7: hunk has 3 old and 4 new lines, header says 4 and 5"


def test_counts_decide_over_lines_that_look_like_names() -> None:
    body = b"@@ -1,2 +1,2 @@\n--- a comment of SQL\n+++ b\n x\n"
    patch = parse_patch(b"diff --git a/x.sql b/x.sql\n--- a/x.sql\n+++ b/x.sql\n" + body, "p.patch")

    assert patch.files[0].hunks[0].old == b"-- a comment of SQL\nx\n"
    assert patch.files[0].hunks[0].new == b"++ b\nx\n"


def test_a_removed_line_of_two_dashes_is_no_signature() -> None:
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1 @@\n-- \n 2.39.5\n"

    assert parse_patch(data, "p.patch").files[0].hunks[0].old == b"- \n2.39.5\n"


def test_a_version_without_two_dashes_is_no_signature() -> None:
    patch = parse_patch(THREE_FILES + b"2.39.5\n", "p.patch")

    assert patch.files[2].hunks[0].old == b"a\nc\n"
    assert patch.trailer == b"2.39.5\n"


def test_an_empty_line_in_a_hunk_is_empty_context_and_noted() -> None:
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,5 @@\n a\n\n+b\n c\n\n"
    patch = parse_patch(data, "p.patch")

    assert patch.files[0].hunks[0].old == b"a\n\nc\n\n"
    assert patch.trailer == b""
    assert notes(patch) == [
        (5, "empty line in a hunk read as empty context"),
        (8, "empty line in a hunk read as empty context"),
    ]


def test_an_empty_line_after_a_full_hunk_is_no_context() -> None:
    patch = parse_patch(THREE_FILES + b"\n\n", "p.patch")

    assert patch.files[2].hunks[0].old == b"a\nc\n"
    assert (patch.trailer, patch.notes) == (b"\n\n", ())


def test_an_empty_line_between_hunks_is_passed_over_and_noted() -> None:
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n\n@@ -9 +9 @@\n-c\n+d\n"
    patch = parse_patch(data, "p.patch")

    assert [hunk.old_start for hunk in patch.files[0].hunks] == [1, 9]
    assert notes(patch) == [(6, "blank line between hunks passed over")]


def test_a_last_line_without_its_ending_is_completed_and_noted() -> None:
    patch = parse_patch(b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b", "p.patch")

    assert patch.files[0].hunks[0].new == b"b\n"
    assert notes(patch) == [(5, "patch file ends without a newline")]


@pytest.mark.parametrize(
    ("codec", "title"),
    [
        ("utf-16-le", "UTF-16 (little endian)"),
        ("utf-16-be", "UTF-16 (big endian)"),
        ("utf-32-le", "UTF-32 (little endian)"),
        ("utf-32-be", "UTF-32 (big endian)"),
    ],
)
def test_utf_16_with_crlf_is_converted_and_noted(codec: str, title: str) -> None:
    text = "\ufeff" + THREE_FILES.decode().replace("+b", "+é").replace("\n", "\r\n")
    patch = parse_patch(text.encode(codec), "p.patch")

    assert [file.path for file in patch.files] == ["vllm/a.py", "vllm/b.py", "vllm/c.py"]
    assert patch.files[0].hunks[0].new == "a\né\nc\n".encode()
    assert notes(patch) == [
        (1, f"{title} converted to UTF-8"),
        (1, "every line ends in CRLF: one CR taken off each, endings follow the target"),
    ]


def test_utf_16_that_does_not_decode_is_named() -> None:
    assert refusal(b"\xff\xfe-\x00-")[0] == (
        "p.patch:1: has a UTF-16 (little endian) byte order mark and does not decode: "
        "truncated data"
    )


def test_utf_16_without_a_mark_is_named() -> None:
    message, hint = refusal(THREE_FILES.decode().encode("utf-16-le"))

    assert message == "p.patch:1: no patch found, expected a unified diff"
    assert hint == "it looks like UTF-16 without a byte order mark, or like no text at all"


def test_a_utf_8_mark_is_dropped_and_noted() -> None:
    patch = parse_patch(b"\xef\xbb\xbf" + THREE_FILES, "p.patch")

    assert patch.files[0].path == "vllm/a.py"
    assert notes(patch) == [(1, "UTF-8 byte order mark dropped")]


def test_a_patch_in_crlf_throughout_loses_one_cr_a_line() -> None:
    data = GIT.split(b"-- \n")[0].replace(b"\n", b"\r\n")
    patch = parse_patch(data, "p.patch")

    (file,) = patch.files
    assert (file.path, file.crlf, file.hunks[0].section) == ("vllm/x.py", True, b"def f(a, b):")
    assert file.hunks == parse_patch(GIT, "p.patch").files[0].hunks
    assert notes(patch) == [
        (1, "every line ends in CRLF: one CR taken off each, endings follow the target")
    ]


def test_crlf_content_in_an_lf_patch_is_kept() -> None:
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"
    patch = parse_patch(data, "p.patch")

    assert patch.files[0].hunks[0].new == b"a\r\nc\r\n"
    assert (patch.files[0].crlf, patch.notes) == (False, ())


def test_crlf_headers_over_lf_bodies_are_read_and_noted() -> None:
    data = b"--- a/x.py\r\n+++ b/x.py\r\n@@ -1,2 +1,2 @@\r\n a\n-b\n+c\r\n"
    patch = parse_patch(data, "p.patch")

    assert patch.files[0].path == "x.py"
    assert patch.files[0].hunks[0].new == b"a\nc\r\n"
    assert notes(patch) == [
        (1, "headers end in CRLF, hunks do not throughout: hunks kept as they are")
    ]


def test_a_lone_cr_a_form_feed_and_other_separators_do_not_end_a_line() -> None:
    text = "a\rb\x0cc\x0bd\x85e\u2028f".encode()
    data = b"--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n " + text + b"\n+g\xff\n"

    assert parse_patch(data, "p.patch").files[0].hunks[0].new == text + b"\ng\xff\n"


def test_no_newline_markers_belong_to_the_line_before_them() -> None:
    data = (
        b"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n"
        b"+c\n\\ Kein Zeilenumbruch am Dateiende.\n"
    )
    hunk = parse_patch(data, "p.patch").files[0].hunks[0]

    assert (hunk.old, hunk.new) == (b"a\nb", b"a\nc")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-b\n+c\n+d\n",
            "p.patch:3: hunk goes on after the old line without a newline",
        ),
        (
            b"@@ -1,2 +1,2 @@\n-a\n-b\n+c\n\\ No newline at end of file\n+d\n",
            "p.patch:3: hunk goes on after the new line without a newline",
        ),
        (
            b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+c\n@@ -9 +9 @@\n-d\n+e\n",
            "p.patch:7: hunk comes after one whose last old line has no newline",
        ),
        (
            b"@@ -1 +1 @@\n-a\n+b\n" + 2 * b"\\ No newline at end of file\n",
            "p.patch:3: hunk is damaged: the counts agree with its header, the lines do not",
        ),
        (
            b"@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
            "p.patch:3: hunk is damaged: the counts agree with its header, the lines do not",
        ),
    ],
)
def test_a_file_cannot_go_on_after_its_end(body: bytes, message: str) -> None:
    assert refusal(b"--- a/x.py\n+++ b/x.py\n" + body)[0] == message


def test_several_new_files_in_a_row() -> None:
    new = b"--- /dev/null\n+++ b/vllm/%d.py\n@@ -0,0 +1 @@\n+%d\n"
    patch = parse_patch(b"".join(new % (n, n) for n in range(3)), "p.patch")

    assert [(f.old_path, f.new_path, f.change, f.new_mode) for f in patch.files] == [
        (None, "vllm/0.py", FileChange.ADD, 0o100644),
        (None, "vllm/1.py", FileChange.ADD, 0o100644),
        (None, "vllm/2.py", FileChange.ADD, 0o100644),
    ]
    assert [f.hunks[0].new for f in patch.files] == [b"0\n", b"1\n", b"2\n"]


def test_a_new_file_announced_only_by_its_count() -> None:
    patch = parse_patch(b"--- a/vllm/x.py\n+++ b/vllm/x.py\n@@ -0,0 +1 @@\n+a\n", "p.patch")

    (file,) = patch.files
    assert (file.change, file.old_path, file.new_path) == (FileChange.ADD, None, "vllm/x.py")
    assert file.new_mode is None
    assert notes(patch) == [(1, "new file announced only by the count -0,0")]


def test_the_first_lines_of_an_empty_file_are_no_new_file() -> None:
    data = (
        b"diff --git a/x.py b/x.py\nindex e69de29..7898192 100644\n"
        b"--- a/x.py\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n"
    )

    assert parse_patch(data, "p.patch").files[0].change is FileChange.MODIFY


def test_a_deleted_file_announced_only_by_the_epoch() -> None:
    names = b"--- x/a.py\t2026-01-01 10:00:00 +0000\n+++ y/a.py\t1970-01-01 00:00:00 +0000\n"
    patch = parse_patch(names + b"@@ -1 +0,0 @@\n-a\n", "p.patch")

    (file,) = patch.files
    assert (file.change, file.old_path, file.new_path) == (FileChange.DELETE, "a.py", None)
    assert "deleted file announced only by its timestamp" in [text for _, text in notes(patch)]


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (b"--- a/vllm/x.py\n+++ b/vllm/x.py\n", "vllm/x.py"),
        (b"--- vllm/x.py\n+++ vllm/x.py\n", "vllm/x.py"),
        (b"--- v1/core/x.py\n+++ v1/core/x.py\n", "v1/core/x.py"),
        (b"--- i/vllm/x.py\n+++ w/vllm/x.py\n", "vllm/x.py"),
        (b"--- vllm-0.28.0.orig/vllm/x.py\n+++ vllm-0.28.0/vllm/x.py\n", "vllm/x.py"),
        (b"--- ./vllm//x.py\n+++ ./vllm/x.py\n", "vllm/x.py"),
        (
            b"--- /usr/lib/site-packages/vllm/x.py\n+++ /usr/lib/site-packages/vllm/x.py\n",
            "/usr/lib/site-packages/vllm/x.py",
        ),
        (b'--- "a/q\\"\\303\\244\\t.py"\n+++ "b/q\\"\\303\\244\\t.py"\n', 'q"ä\t.py'),
        (b"--- a/two words.py\n+++ b/two words.py\n", "two words.py"),
        (b"--- a/two words.py\t\n+++ b/two words.py\t\n", "two words.py"),
        ("--- a/ä.py\n+++ b/ä.py\n".encode(), "ä.py"),
        (b"--- a/\xff.py\n+++ b/\xff.py\n", "\udcff.py"),
        (b"--- vllm/x.py.orig\n+++ vllm/x.py\n", "vllm/x.py"),
        (b"--- a/a/x.py\n+++ b/a/x.py\n", "a/x.py"),
        (
            b"diff --git a/two words.py b/two words.py\n"
            b"--- a/two words.py\t\n+++ b/two words.py\t\n",
            "two words.py",
        ),
        (b"diff --git x.py x.py\n--- x.py\n+++ x.py\n", "x.py"),
        (b"diff -ruN old/x.py new/x.py\n--- old/x.py\n+++ new/x.py\n", "x.py"),
        (b"Index: x.py\n" + b"=" * 67 + b"\n--- x.py\n+++ x.py\n", "x.py"),
    ],
)
def test_names_have_one_normal_form(names: bytes, path: str) -> None:
    patch = parse_patch(section(names), "p.patch")

    assert [file.path for file in patch.files] == [path]
    assert patch.preamble == b""


@pytest.mark.parametrize(
    "remark",
    [
        b"\t2026-01-31 10:11:12.123456789 +0100",
        b" 2026-01-31 10:11:12 +0100",
        b"\t(revision 12)",
        b"\tafter tuning",
    ],
)
def test_a_remark_after_a_name_is_dropped_and_noted(remark: bytes) -> None:
    patch = parse_patch(section(b"--- a/x.py" + remark + b"\n+++ b/x.py\n"), "p.patch")

    assert patch.files[0].path == "x.py"
    assert notes(patch) == [(1, f"remark after the file name dropped: {remark.strip().decode()!r}")]


@pytest.mark.parametrize(
    ("names", "fact"),
    [
        (b"--- a/../x.py\n+++ b/../x.py\n", "file name '../x.py' leads out of its tree"),
        (b'--- "a/x.py\n+++ b/x.py\n', "quoted file name does not end"),
        (b'--- "a/\\q.py"\n+++ b/x.py\n', "quoted file name 'a/\\\\q.py' has an unknown escape"),
        (b"--- a/x\x00.py\n+++ b/x\x00.py\n", "file name holds a NUL byte"),
        (b"--- a/\n+++ b/\n", "file name is empty"),
    ],
)
def test_a_name_that_no_tree_can_hold_is_refused(names: bytes, fact: str) -> None:
    assert refusal(section(names))[0] == f"p.patch:1: {fact}"


def test_lines_of_diff_programs_are_dropped_and_noted() -> None:
    data = THREE_FILES.replace(
        b"--- a/vllm/b.py", b"Only in vllm: z\ndiff -u b.py\n--- a/vllm/b.py"
    )
    patch = parse_patch(data, "p.patch")

    assert patch.files[1].lead == b""
    assert notes(patch) == [
        (7, "file that has no content here dropped: 'Only in vllm: z'"),
        (8, "line of a diff program dropped: 'diff -u b.py'"),
    ]


def test_text_between_sections_is_kept() -> None:
    data = THREE_FILES.replace(b"--- a/vllm/b.py", b"And now the second:\n--- a/vllm/b.py")
    patch = parse_patch(data, "p.patch")

    assert [file.lead for file in patch.files] == [b"", b"And now the second:\n", b""]


def test_modes_moves_and_empty_files() -> None:
    data = b"""\
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/empty.py b/empty.py
new file mode 100755
index 0000000..e69de29
diff --git a/gone.py b/gone.py
deleted file mode 100644
index e69de29..0000000
diff --git a/old name.py b/new name.py
similarity index 90%
rename from old name.py
rename to new name.py
index 1111111..2222222 100644
--- a/old name.py\t
+++ b/new name.py\t
@@ -1 +1 @@
-a
+b
diff --git a/one.py b/two.py
similarity index 100%
copy from one.py
copy to two.py
"""
    patch = parse_patch(data, "p.patch")

    assert [(f.change, f.old_path, f.new_path, f.old_mode, f.new_mode) for f in patch.files] == [
        (FileChange.MODIFY, "run.sh", "run.sh", 0o100644, 0o100755),
        (FileChange.ADD, None, "empty.py", None, 0o100755),
        (FileChange.DELETE, "gone.py", None, 0o100644, None),
        (FileChange.RENAME, "old name.py", "new name.py", 0o100644, 0o100644),
        (FileChange.COPY, "one.py", "two.py", None, None),
    ]
    assert [f.similarity for f in patch.files] == [None, None, None, 90, 100]
    assert patch.notes == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            b"old mode 10064\nnew mode 100755\n",
            "p.patch:2: mode is '10064', expected six octal digits",
        ),
        (
            b"old mode 100644\nnew mode 040000\n",
            "p.patch:3: mode 40000 is of no file that a tree can hold",
        ),
        (
            b"old mode 100644\n",
            "p.patch:1: section says only one half of a mode change, "
            "expected old mode and new mode",
        ),
        (
            b"rename from x.py\n",
            "p.patch:1: section says only one half of a rename, expected from and to",
        ),
        (
            b"new file mode 100644\ndeleted file mode 100644\n",
            "p.patch:1: section says two of: new file, deleted file, moved file",
        ),
        (
            b"new file mode 100644\nrename from x.py\nrename to y.py\n",
            "p.patch:1: section says two of: new file, deleted file, moved file",
        ),
    ],
)
def test_a_damaged_git_header_is_refused(lines: bytes, message: str) -> None:
    assert refusal(b"diff --git a/x.py b/x.py\n" + lines)[0] == message


def test_a_mode_of_old_git_is_read_as_the_nearest_and_noted() -> None:
    patch = parse_patch(
        b"diff --git a/x b/x\nnew file mode 100664\nindex 0000..e69de29\n", "p.patch"
    )

    assert patch.files[0].new_mode == 0o100644
    assert notes(patch) == [(2, "mode 100664 read as 100644")]


def test_an_index_line_with_no_hex_ids_is_dropped_and_noted() -> None:
    data = (
        b"diff --git a/x b/x\nindex abc123..xyz789 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    )
    patch = parse_patch(data, "p.patch")

    assert (patch.files[0].old_id, patch.files[0].new_id) == (None, None)
    assert notes(patch) == [
        (2, "index line with invented ids dropped: 'index abc123..xyz789 100644'")
    ]


def test_a_section_that_names_two_files_is_refused() -> None:
    data = b"diff --git a/x.py b/x.py\n--- a/y.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n"

    assert refusal(data)[0] == ("p.patch:1: section names another file below its first line: y.py")


def test_whole_file_sections_have_one_side_only() -> None:
    new = b"--- /dev/null\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    gone = b"--- a/x.py\n+++ /dev/null\n@@ -1,2 +1 @@\n-a\n b\n"

    assert refusal(new)[0] == "p.patch:1: new file x.py has old lines"
    assert refusal(gone)[0] == "p.patch:1: deleted file x.py keeps lines"


@pytest.mark.parametrize(
    "body",
    [
        b"Binary files a/x.so and b/x.so differ\n",
        b"GIT binary patch\nliteral 3\nKcmZQzVB}+9\n\nliteral 0\nHcmV?d00001\n\n",
    ],
)
def test_a_binary_section_is_read_with_its_body(body: bytes) -> None:
    data = b"diff --git a/x.so b/x.so\nindex 1111111..2222222 100644\n" + body
    patch = parse_patch(data + THREE_FILES, "p.patch")

    assert patch.files[0].binary == body
    assert [file.path for file in patch.files] == ["x.so", "vllm/a.py", "vllm/b.py", "vllm/c.py"]


def test_a_binary_change_that_a_plain_diff_only_mentions_is_noted() -> None:
    patch = parse_patch(b"Binary files a/x.so and b/x.so differ\n" + THREE_FILES, "p.patch")

    assert notes(patch) == [
        (
            1,
            "binary change without its content passed over: "
            "'Binary files a/x.so and b/x.so differ'",
        )
    ]


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "p.patch:1: file is empty, expected a unified diff", None),
        (b" \n\n", "p.patch:1: file is empty, expected a unified diff", None),
        (b"hello\n", "p.patch:1: no patch found, expected a unified diff", None),
        (b"\x1f\x8b\x08", "p.patch:1: no patch found, expected a unified diff", "it is compressed"),
        (
            b"*** a/x\n--- b/x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n",
            "p.patch:1: no patch found, expected a unified diff",
            "it is a context diff; make it with diff -u",
        ),
        (b"--- a/x.py\n+++ b/x.py\n", "p.patch:1: section for x.py has no hunks", None),
        (
            b"diff --git a/x.py b/x.py\nindex 1111111..2222222 100644\n",
            "p.patch:1: section for x.py has no hunks",
            None,
        ),
        (
            b"diff --git a/x.py b/x.py\nnew file mode 100644\n--- /dev/null\n+++ b/x.py\n",
            "p.patch:1: section for x.py has no hunks",
            None,
        ),
        (
            b"@@ -1 +1 @@\n-a\n+b\n",
            "p.patch:1: hunk belongs to no file, expected --- and +++ lines before it",
            "the lines that name the file are missing or damaged",
        ),
        (
            b"--- a/x.py\n@@ -1 +1 @@\n-a\n+b\n",
            "p.patch:2: hunk belongs to no file, expected --- and +++ lines before it",
            "the lines that name the file are missing or damaged",
        ),
        (
            b"diff --git a/x.py b/x.py\n@@ -1 +1 @@\n-a\n+b\n",
            "p.patch:2: hunk belongs to no file, expected --- and +++ lines before it",
            "the lines that name the file are missing or damaged",
        ),
        (
            b"diff --cc x.py\nindex 1,2..3\n--- a/x.py\n+++ b/x.py\n@@@ -1 -1 +1 @@@\n--a\n++b\n",
            "p.patch:1: combined diff of a merge, expected a diff against one parent",
            None,
        ),
        (
            b"diff --git a/x b/y c/z\nold mode 100644\nnew mode 100755\n",
            "p.patch:1: `diff --git` line has two names that cannot be told apart",
            None,
        ),
    ],
)
def test_what_is_no_patch_is_never_an_empty_patch(
    data: bytes, message: str, hint: str | None
) -> None:
    assert refusal(data) == (message, hint)


def test_odd_but_clear_hunks_are_read_and_noted() -> None:
    data = (
        b"--- a/x.py\n+++ b/x.py\n@@ -10,2 +10,2 @@\n a\n-b\n+c\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n"
        b"@@ -20,2 +25,2 @@\n a\n b\n"
    )

    assert notes(parse_patch(data, "p.patch")) == [
        (7, "hunk starts before the end of the one above it"),
        (11, "hunk changes nothing"),
        (11, "new start does not follow from the hunks above"),
    ]


def test_hunks_may_touch_and_not_overlap() -> None:
    touching = b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n"
    overlapping = touching.replace(b"-3,2 +3,2", b"-2,2 +2,2")

    assert notes(parse_patch(touching, "p.patch")) == []
    assert notes(parse_patch(overlapping, "p.patch")) == [
        (7, "hunk starts before the end of the one above it")
    ]


def test_starts_that_follow_from_counts_of_zero_are_not_odd() -> None:
    data = b"--- a/x\n+++ b/x\n@@ -1,2 +0,0 @@\n-a\n-b\n@@ -5,0 +4,1 @@\n+c\n@@ -8 +6,0 @@\n-d\n"

    assert parse_patch(data, "p.patch").notes == ()


def test_two_sections_for_one_file_are_noted() -> None:
    assert notes(parse_patch(THREE_FILES + THREE_FILES[: len(THREE_FILES) // 3], "p.patch")) == [
        (19, "vllm/a.py has more than one section; each applies after the one before")
    ]


def test_statistics_agree_with_unidiff() -> None:
    text = re.sub(rb"-- \n.*", b"", GIT, flags=re.DOTALL) + THREE_FILES
    theirs = unidiff.PatchSet(text.decode())
    ours = parse_patch(text, "p.patch")

    assert [file.path for file in ours.files] == [file.path for file in theirs]
    for file, other in zip(ours.files, theirs, strict=True):
        lines = [line for hunk in file.hunks for line in hunk.lines]
        assert sum(line.kind == "+" for line in lines) == other.added
        assert sum(line.kind == "-" for line in lines) == other.removed
        assert [(h.old_start, h.old_count, h.new_start, h.new_count) for h in file.hunks] == [
            (h.source_start, h.source_length, h.target_start, h.target_length) for h in other
        ]


def test_comparison_leaves_out_where_it_was_read_and_what_was_tolerated() -> None:
    patch = parse_patch(b"\n\n\n" + THREE_FILES, "p.patch")
    again = parse_patch(format_patch(patch), "p.patch")

    assert again == patch
    assert Note(1, "a") != Note(2, "a")
    assert patch.files == parse_patch(THREE_FILES, "p.patch").files
