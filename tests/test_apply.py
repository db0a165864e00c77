"""Hunks onto files: exact lines at the stated place, or one unique place, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.diff import (
    Applied,
    FilePatch,
    HunkRange,
    Note,
    Patch,
    apply_exact,
    apply_patch,
    blob_id,
    diff_files,
    find_lines,
    format_patch,
    parse_patch,
    reverse_file_patch,
    split_lines,
    verify_blob_ids,
)
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree

EIGHT = b"a\nb\nc\nd\ne\nf\ng\nh\n"


def section(body: str, names: str = "--- a/x.py\n+++ b/x.py\n") -> FilePatch:
    return parse_patch((names + body).encode(), "p.patch").files[0]


def refusal(file: FilePatch, content: bytes | None, *, allow_offset: bool = False) -> PatchkitError:
    with pytest.raises(PatchkitError) as caught:
        apply_exact(file, content, allow_offset=allow_offset)
    return caught.value


def test_hunks_land_where_they_say() -> None:
    file = section("@@ -2,3 +2,4 @@\n b\n-c\n+C\n+c2\n d\n@@ -7,2 +8,1 @@\n g\n-h\n")

    assert apply_exact(file, EIGHT) == Applied(
        b"a\nb\nC\nc2\nd\ne\nf\ng\n",
        (HunkRange((1, 4), (1, 5)), HunkRange((6, 8), (7, 8))),
    )


def test_eight_single_letter_lines_and_a_header_one_line_off() -> None:
    right = section("@@ -4 +4 @@\n-d\n+D\n")
    off = section("@@ -5 +5 @@\n-d\n+D\n")

    assert apply_exact(right, EIGHT).content == b"a\nb\nc\nD\ne\nf\ng\nh\n"
    error = refusal(off, EIGHT)
    assert (
        str(error) == "x.py:5: hunk 1 does not match here; its old lines are at line 4, "
        "expected them at line 5"
    )
    moved = apply_exact(off, EIGHT, allow_offset=True)
    assert moved.content == b"a\nb\nc\nD\ne\nf\ng\nh\n"
    assert moved.hunk_ranges == (HunkRange((3, 4), (3, 4), offset=-1),)
    assert moved.notes == (Note(3, "hunk 1 of x.py landed -1 lines off"),)


def test_lines_that_occur_twice_land_only_where_they_say() -> None:
    content = b"x\na\nb\nx\na\nb\n"
    second = section("@@ -5,2 +5,2 @@\n a\n-b\n+c\n")
    neither = section("@@ -4,2 +4,2 @@\n a\n-b\n+c\n")

    for allow_offset in (False, True):
        applied = apply_exact(second, content, allow_offset=allow_offset)
        assert applied.content == b"x\na\nb\nx\na\nc\n"
        assert str(refusal(neither, content, allow_offset=allow_offset)) == (
            "x.py:4: hunk 1 does not match here; its old lines are at line 2, 5, "
            "expected them at line 4"
        )


def test_there_is_no_fuzz_for_the_outermost_context_line() -> None:
    file = section("@@ -3,5 +3,5 @@\n c\n d\n-e\n+E\n f\n x\n")

    assert str(refusal(file, EIGHT, allow_offset=True)) == (
        "x.py:7: hunk 1 does not match 'g\\n', expected 'x\\n'"
    )


@pytest.mark.parametrize(
    ("body", "content", "message", "hint"),
    [
        (
            "@@ -1,3 +1,3 @@\n a\n ...\n-c\n+C\n",
            EIGHT,
            "x.py:2: hunk 1 does not match 'b\\n', expected '...\\n'",
            "a line that is only '...' stands for itself; write out what it leaves out",
        ),
        (
            "@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
            b"a\nb\r\n",
            "x.py:2: hunk 1 does not match 'b\\r\\n', expected 'b\\n'",
            "only the line ending differs",
        ),
        (
            "@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
            b"a\nb",
            "x.py:2: hunk 1 does not match 'b', expected 'b\\n'",
            "only the line ending differs",
        ),
        (
            "@@ -1,2 +1,2 @@\n a\n-    b\n+B\n",
            b"a\n\tb\n",
            "x.py:2: hunk 1 does not match '\\tb\\n', expected '    b\\n'",
            "only blanks differ",
        ),
        (
            "@@ -8,2 +8,2 @@\n h\n-i\n+I\n",
            EIGHT,
            "x.py:9: hunk 1 is past the end of the file, expected 'i\\n'",
            None,
        ),
    ],
)
def test_a_mismatch_says_where_and_why(
    body: str, content: bytes, message: str, hint: str | None
) -> None:
    error = refusal(section(body), content, allow_offset=True)

    assert (str(error), error.hint) == (message, hint)


def test_an_ellipsis_that_is_in_the_file_is_a_line_like_any_other() -> None:
    file = section("@@ -1,2 +1,2 @@\n ...\n-b\n+B\n")

    assert apply_exact(file, b"...\nb\n").content == b"...\nB\n"


def test_an_insertion_without_context_goes_where_it_says_and_is_noted() -> None:
    file = section("@@ -3,0 +4,1 @@\n+new\n")

    applied = apply_exact(file, EIGHT, allow_offset=True)
    assert applied.content == b"a\nb\nc\nnew\nd\ne\nf\ng\nh\n"
    assert applied.notes == (Note(3, "hunk 1 of x.py has no context: taken to go after line 3"),)
    assert str(refusal(file, b"a\nb\n", allow_offset=True)) == (
        "x.py:4: hunk 1 goes after line 3, which is not there"
    )


def test_six_leading_and_three_trailing_lines_of_context() -> None:
    lines = [f"{n}\n" for n in range(1, 21)]
    body = "".join(
        [*(f" {t}" for t in lines[3:9]), "-10\n", "+ten\n", *(f" {t}" for t in lines[10:13])]
    )
    file = section(f"@@ -4,10 +4,10 @@\n{body}")
    content = "".join(lines).encode()

    applied = apply_exact(file, content)
    assert applied.content == content.replace(b"10\n", b"ten\n")
    (canonical,) = diff_files({"x.py": content}, {"x.py": applied.content or b""})
    (hunk,) = canonical.hunks
    assert (hunk.old_start, hunk.old_count, hunk.old) == (7, 7, b"7\n8\n9\n10\n11\n12\n13\n")


def test_hunks_that_overlap_are_refused() -> None:
    file = section("@@ -2,2 +2,2 @@\n b\n-c\n+C\n@@ -3,2 +3,2 @@\n c\n-d\n+D\n")

    assert str(refusal(file, EIGHT)) == "x.py:3: hunk 2 overlaps the hunk above it"


def test_a_line_is_never_glued_to_one_without_a_newline() -> None:
    marker = "\\ No newline at end of file\n"
    ends_file = section(f"@@ -2 +2 @@\n-b\n+B\n{marker}")
    after_end = section("@@ -2,0 +3 @@\n+c\n")

    assert str(refusal(ends_file, EIGHT)) == (
        "x.py:3: hunk 1 puts a line after one that has no newline"
    )
    assert str(refusal(after_end, b"a\nb")) == (
        "x.py:3: hunk 1 puts a line after one that has no newline"
    )
    assert apply_exact(ends_file, b"a\nb\n").content == b"a\nB"


def test_a_section_that_changes_nothing_is_refused() -> None:
    file = section("@@ -2,2 +2,2 @@\n b\n c\n")

    assert str(refusal(file, EIGHT)) == "x.py: patch changes nothing"


def test_presence_and_absence_are_as_the_section_says() -> None:
    new = section("@@ -0,0 +1 @@\n+a\n", "--- /dev/null\n+++ b/x.py\n")
    gone = section("@@ -1 +0,0 @@\n-a\n", "--- a/x.py\n+++ /dev/null\n")

    assert apply_exact(new, None).content == b"a\n"
    assert apply_exact(gone, b"a\n").content is None
    assert str(refusal(new, b"")) == "x.py: file to add is there already"
    assert str(refusal(gone, None)) == "x.py: file to delete is not there"
    assert str(refusal(gone, b"a\nb\n")) == (
        "x.py: file to delete has lines that the patch does not name"
    )
    assert (
        str(refusal(section("@@ -1 +1 @@\n-a\n+b\n"), None)) == "x.py: file to modify is not there"
    )


def test_a_binary_section_is_refused() -> None:
    file = parse_patch(
        b"diff --git a/x.so b/x.so\nindex 1111..2222 100644\n"
        b"Binary files a/x.so and b/x.so differ\n",
        "p",
    ).files[0]
    error = refusal(file, b"")

    assert str(error) == "x.so: binary change cannot be applied"
    assert error.hint == "put whole binary files in an overlay"


def test_line_endings_are_those_of_the_file() -> None:
    body = "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n"
    lf = section(body)
    crlf = parse_patch(
        ("--- a/x.py\n+++ b/x.py\n" + body).replace("\n", "\r\n").encode(), "p"
    ).files[0]

    for file in (lf, crlf):
        assert apply_exact(file, b"a\nb\n").content == b"a\nB\nc\n"
        applied = apply_exact(file, b"a\r\nb\r\n")
        assert applied.content == b"a\r\nB\r\nc\r\n"
        assert [note.text for note in applied.notes] == [
            "x.py has CRLF line endings; its hunks were given them"
        ]


def test_crlf_lines_in_an_lf_patch_want_crlf_lines() -> None:
    file = section("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n")

    assert apply_exact(file, b"a\r\nb\r\n").content == b"a\r\nB\r\n"
    assert refusal(file, b"a\nb\n").hint == "only the line ending differs"


def test_a_patch_that_changes_line_endings_is_left_alone() -> None:
    file = section("@@ -1,2 +1,2 @@\n-a\r\n-b\r\n+a\n+b\n")

    assert apply_exact(file, b"a\r\nb\r\n").content == b"a\nb\n"


def test_moves_modes_and_empty_files_are_applied_to_a_tree() -> None:
    patch = parse_patch(
        b"""\
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/empty.py b/empty.py
new file mode 100755
index 0000000..e69de29
diff --git a/gone.py b/gone.py
deleted file mode 100644
index e69de29..0000000
diff --git a/old.py b/sub/new.py
similarity index 50%
rename from old.py
rename to sub/new.py
--- a/old.py
+++ b/sub/new.py
@@ -1 +1 @@
-a
+b
diff --git a/one.py b/two.py
similarity index 100%
copy from one.py
copy to two.py
""",
        "p.patch",
    )
    files = {"run.sh": b"r\n", "gone.py": b"", "old.py": b"a\n", "one.py": b"1\n"}
    tree = apply_patch(patch, SourceTree(files, modes={"old.py": 0o100755, "one.py": 0o100755}))

    assert dict(tree.files) == {
        "run.sh": b"r\n",
        "empty.py": b"",
        "sub/new.py": b"b\n",
        "one.py": b"1\n",
        "two.py": b"1\n",
    }
    assert dict(tree.modes) == dict.fromkeys(
        ["run.sh", "empty.py", "sub/new.py", "one.py", "two.py"], 0o100755
    )


def test_a_move_onto_a_file_is_refused() -> None:
    patch = parse_patch(b"diff --git a/a b/b\nrename from a\nrename to b\n", "p.patch")

    with pytest.raises(PatchkitError) as caught:
        apply_patch(patch, SourceTree({"a": b"", "b": b""}))
    assert str(caught.value) == "b: file is there already"


def test_two_sections_for_one_file_apply_one_after_the_other() -> None:
    one = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    patch = parse_patch((one + one.replace("+b\n", "+c\n").replace("-a\n", "-b\n")).encode(), "p")

    assert dict(apply_patch(patch, SourceTree({"x": b"a\n"})).files) == {"x": b"c\n"}


def test_ids_are_trusted_only_if_the_file_hashes_to_them() -> None:
    content = b"a\n"
    head = "diff --git a/x b/x\nindex %s..2222222 100644\n"
    body = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    right = parse_patch((head % blob_id(content)[:7] + body).encode(), "p")
    invented = parse_patch((head % "1234567" + body).encode(), "p")

    assert blob_id(content) == "78981922613b2afb6025042ff6bd878ac1994e85"
    assert verify_blob_ids(right, SourceTree({"x": content})) == ()
    assert verify_blob_ids(invented, SourceTree({"x": content})) == (
        Note(1, "x is not blob 1234567 but 7898192: ids not trusted"),
    )
    assert verify_blob_ids(invented, SourceTree({})) == ()


def test_nothing_depends_on_the_folder_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "x.py").write_bytes(b"z\n")
    monkeypatch.chdir(tmp_path)
    file = section("@@ -4 +4 @@\n-d\n+D\n", "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n")

    assert apply_exact(file, EIGHT).content == b"a\nb\nc\nD\ne\nf\ng\nh\n"
    assert (tmp_path / "x.py").read_bytes() == b"z\n"


def test_a_reversed_copy_or_binary_section_is_refused() -> None:
    copied = parse_patch(b"diff --git a/a b/b\ncopy from a\ncopy to b\n", "p").files[0]

    with pytest.raises(PatchkitError) as caught:
        reverse_file_patch(copied)
    assert str(caught.value) == "b: a copy cannot be turned round"
    with pytest.raises(PatchkitError) as caught:
        reverse_file_patch(replace(section("@@ -1 +1 @@\n-a\n+b\n"), binary=b"x"))
    assert str(caught.value) == "x.py: a binary change cannot be turned round"


def test_lines_are_found_wherever_they_occur() -> None:
    lines = [b"a", b"a", b"a", b"b"]

    assert find_lines(lines, [b"a", b"a"]) == [0, 1]
    assert find_lines(lines, [b"a", b"b"]) == [2]
    assert find_lines(lines, [b"b", b"a"]) == []
    assert find_lines(lines, []) == []


def test_only_a_newline_ends_a_line() -> None:
    content = b"a\rb\x0c\r\nc\x0b\n\n"

    assert split_lines(content) == [b"a\rb\x0c\r\n", b"c\x0b\n", b"\n"]
    assert split_lines(b"") == []
    assert split_lines(b"a") == [b"a"]


WORDS = st.sampled_from([b"a", b"b", b"c", b"", b"x = 1", b"\r", b"d\re", b"\x0c", b"\xff", b"-- "])


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Draw a file of a few frequent lines, LF or CRLF, with or without a newline at its end."""
    ending = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    content = b"".join(line + ending for line in draw(st.lists(WORDS, max_size=15)))
    return content.removesuffix(ending) if draw(st.booleans()) else content


TREES = st.dictionaries(st.sampled_from(["x.py", "a/b.txt", "b b.py", "ü.py"]), contents())
MODES = st.dictionaries(st.sampled_from(["x.py", "a/b.txt"]), st.just(0o100755))


@given(TREES, TREES, MODES, MODES)
def test_applied_and_reverted_gives_the_tree_back(
    old: dict[str, bytes],
    new: dict[str, bytes],
    modes_old: dict[str, int],
    modes_new: dict[str, int],
) -> None:
    modes_old = {path: mode for path, mode in modes_old.items() if path in old}
    modes_new = {path: mode for path, mode in modes_new.items() if path in new}
    files = diff_files(old, new, modes_old, modes_new)
    there = apply_patch(Patch("p", b"", files), SourceTree(old, modes=modes_old))
    assert (dict(there.files), dict(there.modes)) == (new, modes_new)

    undo = Patch("undo", b"", tuple(reverse_file_patch(file) for file in reversed(files)))
    if files:
        undo = parse_patch(format_patch(undo), "undo")
    back = apply_patch(undo, there)
    assert (dict(back.files), dict(back.modes)) == (old, modes_old)
