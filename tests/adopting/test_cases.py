"""Inputs that broke real patch sets, as far as they are about patch files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import FilePatch, parse_patch
from patchkit.diff.model import FileChange
from tests.adopting.odd_files import AUTHORED, EXE, FILES, NEW, PLAIN, SOUND, A, B, section

Out = pytest.CaptureFixture[str]


def take(data: bytes, folder: Path, out: Out, *args: str, status: int = 0) -> dict[str, Any]:
    """Return the document of an import of one file."""
    (folder / "odd.patch").write_bytes(data)
    assert run(["import", "odd.patch", "--json", *args]) == status
    document: dict[str, Any] = json.loads(out.readouterr().out)
    if status:
        assert not (folder / "patches").exists()
    return document


def notes(document: dict[str, Any]) -> list[str]:
    return [note for patch in document["patches"] for note in patch["notes"]]


def sections(folder: Path) -> dict[str, FilePatch]:
    data = (folder / "patches/v0.28.0/odd.patch").read_bytes()
    return {file.path: file for file in parse_patch(data, "odd.patch").files}


def test_a_count_that_is_padded_is_damage(folder: Path, capsys: Out) -> None:
    padded = section(NEW).replace(b"@@ -0,0 +1,2 @@", b"@@ -0,0 +1,     2 @@")
    error = take(SOUND["git"].replace(section(NEW), padded), folder, capsys, status=1)
    assert (error["place"], error["fact"], error["expected"]) == (
        "odd.patch:36", "hunk header has new count '     2'", "a plain number",
    )  # fmt: skip


def test_of_three_files_none_is_taken_where_the_second_is_too_long(
    folder: Path, capsys: Out
) -> None:
    long = section(B).replace(b"-def b_6(): return 6\n", b"-def b_6(): return 6\n+one\n+two\n")
    error = take(section(A) + long + section(EXE), folder, capsys, status=1)
    assert (error["place"], error["fact"], error["hint"]) == (
        "odd.patch:24",
        "hunk has 8 new lines, header says 6",
        "hunk 1 of vllm/core/b.py is 2 lines too long; its body ends before line 34 "
        "('diff --git a/vllm/run.py b/vllm/run.py')",
    )


def test_utf_16_is_converted_and_that_is_said(folder: Path, capsys: Out) -> None:
    document = take(SOUND["utf-16"], folder, capsys)
    assert notes(document) == [
        "odd.patch:1: UTF-16 (little endian) converted to UTF-8",
        "odd.patch:1: every line ends in CRLF: one CR taken off each, endings follow the target",
    ]


@pytest.mark.parametrize(
    "name", ["git", "crlf", "utf-16", "bom", "mail", "base64", "quoted", "dep3"]
)
def test_however_it_is_packed_it_is_the_same_patch(name: str, folder: Path, capsys: Out) -> None:
    take(SOUND[name], folder, capsys)
    found = sections(folder)
    assert {path: (file.change, file.hunks) for path, file in found.items()} == {
        file.path: (file.change, file.hunks) for file in parse_patch(SOUND["git"], "p").files
    }


def test_a_mail_that_is_plain_and_says_otherwise_is_read_as_it_stands(
    folder: Path, capsys: Out
) -> None:
    odd = SOUND["mail"].replace(b"Encoding: 8bit", b"Encoding: base64")
    document = take(odd, folder, capsys)
    assert notes(document)[0] == (
        "odd.patch:1: mail says it is base64, and is plain: read as it stands"
    )
    assert set(sections(folder)) == {*AUTHORED, *FILES}


@pytest.mark.parametrize(
    "name", ["plain", "stamped", "bare-paths", "package-paths", "site-packages", "svn"]
)
def test_however_its_files_are_named_they_are_the_same(
    name: str, folder: Path, capsys: Out
) -> None:
    take(SOUND[name], folder, capsys)
    wanted = {file.path: file for file in parse_patch(SOUND["git"], "p").files}
    for path, file in sections(folder).items():
        assert (path, file.hunks) == (path, wanted[path].hunks)
        assert path.startswith("vllm/")


def test_a_lone_carriage_return_and_several_new_files_in_a_row(folder: Path, capsys: Out) -> None:
    new = b"--- /dev/null\n+++ b/vllm/n%d.py\n@@ -0,0 +1,2 @@\n+a = '\r'\n+b = 1\r\n"
    odd = b"".join(new % number for number in range(3))
    take(PLAIN + odd + b"\\ No newline at end of file\n", folder, capsys)
    texts = [sections(folder)[f"vllm/n{n}.py"].hunks[0].new for n in range(3)]
    assert texts == [b"a = '\r'\nb = 1\r\n"] * 2 + [b"a = '\r'\nb = 1\r"]


def test_a_mode_is_carried_and_a_file_may_be_announced_by_its_count(
    folder: Path, capsys: Out
) -> None:
    run_it = section(EXE).replace(b"--- a", b"old mode 100644\nnew mode 100755\n--- a")
    plain = b"--- a/vllm/n.py\n+++ b/vllm/n.py\n@@ -0,0 +1 @@\n+n = 1\n"
    document = take(run_it + plain, folder, capsys)
    found = sections(folder)
    assert (found[EXE].old_mode, found[EXE].new_mode) == (0o100644, 0o100755)
    assert found["vllm/n.py"].change is FileChange.ADD
    assert any("new file announced only by the count -0,0" in note for note in notes(document))


def test_an_empty_line_is_empty_context_and_an_invented_id_is_dropped(
    folder: Path, capsys: Out
) -> None:
    data = section(A).replace(b"--- a", b"index abc..xyz 100644\n--- a")
    added = b"+more = 1\n def a_21(): return 21\n"
    assert added in data
    document = take(data, folder, capsys)
    assert notes(document) == [
        "odd.patch:2: index line with invented ids dropped: 'index abc..xyz 100644'"
    ]


def test_an_id_counts_only_where_the_file_has_it(folder: Path, capsys: Out) -> None:
    data = section(A).replace(b"--- a", b"index 1234567..89abcde 100644\n--- a")
    document = take(data, folder, capsys)
    row = document["releases"][-1]
    assert (row["release"], row["proven"], row["foreign"]) == ("0.28.0", 0, 1)
    assert document["base"]["proof"] == "lines"
    stored = (folder / "patches/v0.28.0/odd.patch").read_bytes()
    assert b"index 1234567" not in stored


def test_an_ellipsis_is_a_mismatch(folder: Path, capsys: Out) -> None:
    data = section(A).replace(b" def a_6(): return 6\n", b" ...\n")
    document = take(data, folder, capsys, status=3)
    (hunk,) = document["releases"][-1]["open"]
    assert hunk["reason"] == (
        "vllm/a.py:7: does not match 'def a_6(): return 6\\n', expected '...\\n'"
    )


def test_what_is_built_or_not_shipped_is_classed_and_kept(folder: Path, capsys: Out) -> None:
    others = b"".join(
        b"--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-a\n+b\n" % (path, path)
        for path in (b"csrc/x.cu", b"tests/x.py", b"docs/x.md", b"examples/x.py")
    )
    (patch,) = take(section(A) + others, folder, capsys)["patches"]
    assert [(u["path"], u["section"]) for u in patch["unshipped"]] == [
        ("csrc/x.cu", "built"), ("tests/x.py", "not_shipped"), ("docs/x.md", "not_shipped"),
        ("examples/x.py", "not_shipped"),
    ]  # fmt: skip
    assert list(sections(folder)) == [A, *(u["path"] for u in patch["unshipped"])]
    assert not any("not in the tree" in note for note in patch["notes"])  # that is said already


BARE = b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -5,0 +6 @@\n+between = 1\n"


def test_a_hunk_without_context_is_refused_where_only_its_number_places_it(
    folder: Path, capsys: Out
) -> None:
    error = take(BARE, folder, capsys, status=1)
    assert (error["place"], error["fact"]) == (
        "odd.patch:3",
        "hunk 1 has no context: by its line number alone it fits 0.27.0 and 0.28.0, which "
        "differ in vllm/a.py",
    )


def test_a_hunk_without_context_gets_some_on_a_base_that_is_named(
    folder: Path, capsys: Out
) -> None:
    document = take(BARE, folder, capsys, "--base", "0.28.0")
    (hunk,) = sections(folder)[A].hunks
    assert [line.kind for line in hunk.lines] == [" "] * 3 + ["+"] + [" "] * 3
    assert hunk.old_lines == FILES[A].splitlines(keepends=True)[2:8]
    assert notes(document) == [
        "odd.patch:3: hunk 1 of vllm/a.py has no context: taken to go after line 5"
    ]


def test_context_that_is_longer_above_than_below_is_evened_out(folder: Path, capsys: Out) -> None:
    lines = FILES[A].splitlines(keepends=True)
    body = b"".join(b" " + line for line in lines[4:10]) + b"-" + lines[10] + b"+new = 1\n"
    body += b"".join(b" " + line for line in lines[11:14])
    take(b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -5,10 +5,10 @@\n" + body, folder, capsys)
    (hunk,) = sections(folder)[A].hunks
    assert (hunk.old_start, hunk.old_count, hunk.new_count) == (8, 7, 7)


def test_what_is_stored_is_what_the_patch_says(folder: Path, capsys: Out) -> None:
    take(SOUND["git"], folder, capsys)
    found = sections(folder)
    assert set(found) == {*AUTHORED, *FILES}
    assert b"".join(text for hunk in found[NEW].hunks for text in hunk.new_lines) == AUTHORED[NEW]
