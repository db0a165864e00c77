"""The canonical form: what is written reads back, and writing it again gives the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.diff import (
    FileChange,
    FilePatch,
    Hunk,
    Line,
    Patch,
    diff_files,
    format_file,
    format_patch,
    parse_patch,
)

CANONICAL = b"""\
Description: all that git can say
Reason: a test

diff --git a/copy.py b/copied.py
similarity index 100%
copy from copy.py
copy to copied.py
diff --git a/empty.py b/empty.py
new file mode 100755
index 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391
diff --git a/gone.py b/gone.py
deleted file mode 100644
index 7898192261678a1ffd21b6e8d1ad9f9fc3d41a82..0000000000000000000000000000000000000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-a
Between two sections.
diff --git "a/q\\"\\303\\244\\t.py" "b/q\\"\\303\\244\\t.py"
index 1111111..2222222 100755
--- "a/q\\"\\303\\244\\t.py"
+++ "b/q\\"\\303\\244\\t.py"
@@ -1,2 +1,3 @@ def f(a, b) -> "it":
 a\r
-b
\\ No newline at end of file
+\x0cb\rc\xff
+d
\\ No newline at end of file
diff --git a/lib.so b/lib.so
index 1111111..2222222 100644
GIT binary patch
literal 3
Kc$@*1000aC1^@s6

literal 0
Hc$@<O00001

diff --git a/old name.py b/new name.py
old mode 100644
new mode 100755
similarity index 80%
rename from old name.py
rename to new name.py
index 1111111..2222222
--- a/old name.py\t
+++ b/new name.py\t
@@ -1 +1 @@
-a
+b
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/two words.py b/two words.py
new file mode 100644
index 0000000..7898192
--- /dev/null
+++ b/two words.py\t
@@ -0,0 +1 @@
+a
--\x20
2.39.5
"""


def test_canonical_input_is_written_as_it_was_read() -> None:
    patch = parse_patch(CANONICAL, "p.patch")

    assert format_patch(patch) == CANONICAL
    assert patch.notes == ()


def test_a_plain_diff_gets_git_headers() -> None:
    data = (
        b"--- /dev/null\t2026\n+++ b/n.py\n@@ -0,0 +1 @@\n+a\n"
        b"--- x.py\n+++ x.py\n@@ -1,1 +1 @@\n-a\n+b\n"
    )

    assert format_patch(parse_patch(data, "p")) == (
        b"diff --git a/n.py b/n.py\nnew file mode 100644\n"
        b"--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+a\n"
        b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    )


def test_headers_end_in_lf_and_bodies_as_their_file() -> None:
    data = b"diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n"

    assert format_patch(parse_patch(data, "p")) == (
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "x.py",
        "a/b.py",
        "b/a/x.py",
        "a b/c d.py",
        "/usr/x.py",
        'q"\\.py',
        "ä\n\x01.py",
        "\udcff.py",
        "-",
    ],
)
@pytest.mark.parametrize("change", [FileChange.MODIFY, FileChange.ADD, FileChange.DELETE])
def test_any_name_reads_back(name: str, change: FileChange) -> None:
    old = Line("-", b"a\n")
    new = Line("+", b"b\n")
    bare = FilePatch(name, name, change, old_mode=0o100644, new_mode=0o100755)
    with_hunk = {
        FileChange.MODIFY: replace(bare, hunks=(Hunk(1, 1, 1, 1, b"", (old, new)),)),
        FileChange.ADD: replace(
            bare, old_path=None, old_mode=None, hunks=(Hunk(0, 0, 1, 1, b"", (new,)),)
        ),
        FileChange.DELETE: replace(
            bare, new_path=None, new_mode=None, hunks=(Hunk(1, 1, 0, 0, b"", (old,)),)
        ),
    }[change]
    for file in (with_hunk, replace(with_hunk, hunks=())):
        assert parse_patch(format_file(file), "p").files == (file,)


def test_an_added_file_known_by_its_count_alone_reads_back() -> None:
    patch = parse_patch(b"--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "p")

    assert parse_patch(format_patch(patch), "p") == patch
    assert patch.files[0].new_mode is None


WORDS = [b"a", b"b", b"", b" ", b"-- ", b"++ x", b"@@ -1 +1 @@", b"diff --git a/x b/x", b"2.39.5"]
WORDS += [b"\r", b"c\rd", b"e\x0cf", b"\xff\xfe", b"\\ No newline at end of file", b"def f():"]
CONTENT = st.lists(st.sampled_from(WORDS), max_size=12)
ENDINGS = st.sampled_from([b"\n", b"\r\n"])


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Draw a file: LF or CRLF, with or without a newline at its end."""
    content = b"".join(line + draw(ENDINGS) for line in draw(CONTENT))
    return content.removesuffix(b"\n") if draw(st.booleans()) else content


TREES = st.dictionaries(st.sampled_from(["x.py", "a/b.txt", "b b.py", "ü.py"]), contents())
MODES = st.dictionaries(st.sampled_from(["x.py", "a/b.txt"]), st.just(0o100755))
TEXTS = st.sampled_from([b"", b"Description: x\n\n", b"A text.\n"])


@given(TREES, TREES, MODES, MODES, TEXTS, st.sampled_from([b"", b"-- \n2.39.5\n", b"\n"]))
def test_what_is_written_reads_back_and_is_written_the_same(
    old: dict[str, bytes],
    new: dict[str, bytes],
    modes_old: dict[str, int],
    modes_new: dict[str, int],
    preamble: bytes,
    trailer: bytes,
) -> None:
    files = diff_files(old, new, modes_old, modes_new)
    if not files:
        return
    patch = Patch("p.patch", preamble, files, trailer)
    data = format_patch(patch)
    again = parse_patch(data, "p.patch")

    assert again == patch
    assert again.notes == ()
    assert format_patch(again) == data
