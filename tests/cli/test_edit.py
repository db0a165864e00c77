"""`patchkit edit` and `patchkit record`, on real git work trees of a small release."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit import cli
from patchkit.cli import run
from patchkit.diff import diff_files, format_files, parse_patch
from patchkit.editing import worktree
from patchkit.repository import workspace
from patchkit.series.overlay import Overlay, format_overlay, overlay_entry
from patchkit.tree import SourceTree
from tests.editing.store import (
    BASE,
    FOUR,
    NEW,
    ONE,
    OTHER,
    SIZE,
    TWO,
    edited,
    header,
    lay_out,
    read,
    tree,
    write,
)

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]
WHERE = ".patchkit/edit/v0.28.0"


@pytest.fixture
def store(folder: Path, trees: Trees, capsys: Out) -> Path:
    """Return a repository with four sound patches."""
    trees["v0.28.0"] = tree()
    lay_out(folder)
    assert run(["check"]) == 0
    assert run(["check", "--frozen"]) == 0
    capsys.readouterr()
    return folder


@pytest.fixture
def opened(store: Path, capsys: Out) -> Path:
    """Return the work tree, standing at the second of the four patches."""
    assert run(["edit", "two"]) == 0
    capsys.readouterr()
    return store / WHERE


def git(path: Path, *arguments: str) -> str:
    """Return what plain git prints in a folder, as a person would run it."""
    done = subprocess.run(["git", *arguments], cwd=path, check=True, capture_output=True, text=True)
    return done.stdout


def files(path: Path) -> dict[str, bytes]:
    """Return the files of a work tree."""
    return {n: d for n, d in read(path).items() if not n.startswith(".git/")}


def change(path: Path, file: str, old: bytes, new: bytes) -> None:
    text = (path / file).read_bytes()
    assert text.count(old) == 1
    (path / file).write_bytes(text.replace(old, new))


def said(capsys: Out) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_tree_is_the_release_with_a_commit_a_patch(store: Path, capsys: Out) -> None:
    assert run(["edit"]) == 0
    assert said(capsys) == [
        f"{WHERE}: v0.28.0, on top of all patches; opened",
        "edit the files there, then: patchkit record --new NAME",
    ]
    assert files(store / WHERE) == FOUR
    log = git(store / WHERE, "log", "--format=%s|%b|%an <%ae>")
    assert log.split("\n") == [
        "four|Add a module", "|patchkit <patchkit@localhost>",
        "three|Double the volume", "|patchkit <patchkit@localhost>",
        "two|Bring in twice", "|patchkit <patchkit@localhost>",
        "one|Double the size", "|patchkit <patchkit@localhost>",
        "vllm 0.28.0|The release as it ships.", "|patchkit <patchkit@localhost>", "",
    ]  # fmt: skip
    assert git(store / WHERE, "show", "--format=", "--numstat", "HEAD~3").split() == [
        "1", "1", SIZE,
    ]  # fmt: skip
    assert git(store / WHERE, "status", "--porcelain") == ""


def test_with_a_patch_the_tree_stands_at_it(store: Path, capsys: Out) -> None:
    assert run(["edit", "one"]) == 0
    assert said(capsys) == [
        f"{WHERE}: v0.28.0, at one.patch; opened",
        "  later: two.patch",
        "  later: three.patch",
        "  later: four.patch",
        "edit the files there, then: patchkit record",
    ]
    assert files(store / WHERE) == ONE
    assert git(store / WHERE, "status", "--porcelain") == ""


def test_edit_again_says_where_the_tree_is_and_what_is_not_recorded(
    opened: Path, capsys: Out, check: Check
) -> None:
    assert run(["edit", "two"]) == 0
    assert said(capsys)[0] == f"{WHERE}: v0.28.0, at two.patch; open"
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["edit"]) == 0
    assert said(capsys) == [
        f"{WHERE}: v0.28.0, at two.patch; open",
        "  later: three.patch",
        "  later: four.patch",
        "1 file changed and not recorded",
        f"  {SIZE}",
    ]
    assert run(["edit", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document == {
        "schema": "patchkit.edit/1", "ok": True, "exit_code": 0, "state": "there", "path": WHERE,
        "release": "0.28.0", "folder": "patches", "patch": "two.patch", "changed": [SIZE],
        "later": ["three.patch", "four.patch"],
    }  # fmt: skip


def test_what_is_not_recorded_is_never_overwritten(opened: Path, capsys: Out) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    write(opened, "vllm/more.py", b"x = 1\n")
    for words in (["one"], ["--close"]):
        assert run(["edit", *words]) == 1
        assert capsys.readouterr().err == (
            f"error: {WHERE}: holds changes that are not recorded: vllm/more.py, {SIZE}\n"
            "hint: `patchkit record` stores them; --discard throws them away\n"
        )
    assert b"2 * n" in (opened / SIZE).read_bytes()
    assert run(["edit", "one", "--discard"]) == 0
    assert files(opened) == ONE
    assert git(opened, "status", "--porcelain") == ""


def test_discard_alone_brings_back_what_the_tree_was_left_at(opened: Path) -> None:
    before = files(opened)
    change(opened, SIZE, b"n + n", b"2 * n")
    git(opened, "commit", "-qam", "mine")
    write(opened, "vllm/more.py", b"x = 1\n")
    assert run(["edit", "--discard"]) == 0
    assert files(opened) == before
    assert git(opened, "log", "-1", "--format=%s") == "two\n"


def test_close_removes_the_tree_and_what_is_known_of_it(opened: Path, capsys: Out) -> None:
    assert run(["edit", "--close"]) == 0
    assert said(capsys) == [f"{WHERE} is removed"]
    assert list(opened.parent.iterdir()) == []
    assert run(["edit", "--abort"]) == 1
    assert capsys.readouterr().err == (
        "error: no work tree is open\nhint: `patchkit edit` opens one\n"
    )


def test_a_tree_can_lie_elsewhere_but_not_on_what_is_there(
    store: Path, capsys: Out, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "tree"
    write(elsewhere, "mine.txt", b"mine")
    assert run(["edit", "--path", str(elsewhere)]) == 1
    assert capsys.readouterr().err == (
        f"error: {elsewhere}: is there already, and is no work tree of patchkit's, "
        "expected a new or an empty folder\n"
    )
    assert files(elsewhere) == {"mine.txt": b"mine"}
    (elsewhere / "mine.txt").unlink()
    assert run(["edit", "--path", str(elsewhere)]) == 0
    assert files(elsewhere) == FOUR
    change(elsewhere, SIZE, b"* 32", b"* 64")
    assert run(["record", "one"]) == 0
    assert b"* 64" in read(store)["patches/v0.28.0/one.patch"]
    assert run(["edit", "--path", str(store / "third")]) == 1
    assert "v0.28.0 is open in another work tree" in capsys.readouterr().err


@pytest.mark.usefixtures("opened")
def test_recording_no_change_changes_no_byte(store: Path, capsys: Out) -> None:
    before = read(store)
    assert run(["record"]) == 0
    assert said(capsys) == [f"nothing has changed in {WHERE}: there is nothing to record"]
    assert read(store) == before


def test_a_change_goes_into_the_patch_that_is_edited(
    store: Path, opened: Path, capsys: Out, check: Check
) -> None:
    before = read(store)
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["record", "--dry-run"]) == 0
    assert said(capsys) == [
        "patches/v0.28.0: two.patch: changed",
        "patches/v0.28.0: three.patch: changed",
        "would write patches/v0.28.0",
        f"  hunk 1, {SIZE}: only adds lines, unique from 1 line of context on",
        "nothing was written: --dry-run",
    ]
    assert read(store) == before
    assert run(["record", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["hunks"] == [
        {
            "number": 1, "path": SIZE, "weak": False, "occurrences": 1, "context": 3,
            "unique_from": 1, "insert_only": True, "definitions": ["<module>"],
            "text": "only adds lines, unique from 1 line of context on",
        }
    ]  # fmt: skip
    after = read(store)
    changed = {
        name.removeprefix("patches/v0.28.0/") for name in after if after[name] != before[name]
    }
    # the patch, and the blob ids of the one that changes the same file above it
    assert changed == {"two.patch", "two.anchors.toml", "three.patch"}
    old, new = before["patches/v0.28.0/two.patch"], after["patches/v0.28.0/two.patch"]
    assert b"+    return 2 * n\n" in new
    assert new.split(b"diff --git")[0] == old.split(b"diff --git")[0]
    assert run(["check", "--frozen"]) == 0
    assert run(["record"]) == 0
    assert git(opened, "status", "--porcelain") == ""
    assert git(opened, "log", "--format=%s").split("\n")[:2] == ["two", "one"]
    assert run(["edit"]) == 0
    assert "unchanged" in said(capsys)[-1]


def test_the_later_patches_stand_on_the_recorded_change(opened: Path) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["record"]) == 0
    assert run(["edit", "four"]) == 0
    assert files(opened) == edited(FOUR, SIZE, b"n + n", b"2 * n")
    assert git(opened, "log", "--format=%s").split() == [
        "four", "three", "two", "one", "vllm", "0.28.0",
    ]  # fmt: skip


def test_what_the_person_committed_is_recorded_too(store: Path, opened: Path) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    git(opened, "commit", "-qam", "mine")
    git(opened, "rm", "-q", OTHER)
    git(opened, "commit", "-q", "--amend", "--no-edit")
    write(opened, "vllm/more.py", b"x = 1\n")
    assert run(["record"]) == 0
    patch = read(store)["patches/v0.28.0/two.patch"]
    assert b"deleted file mode 100644" in patch
    assert b"+++ b/vllm/more.py\n" in patch
    assert b"+    return 2 * n\n" in patch
    assert git(opened, "log", "--format=%s").split("\n")[:2] == ["two", "one"]
    assert run(["check", "--frozen"]) == 0


def test_an_amended_patch_is_recorded(store: Path, opened: Path) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    git(opened, "commit", "-q", "--all", "--amend", "--no-edit")
    assert run(["record"]) == 0
    assert b"+    return 2 * n\n" in read(store)["patches/v0.28.0/two.patch"]


def test_a_tree_that_stands_below_its_patch_is_not_recorded(
    store: Path, opened: Path, capsys: Out
) -> None:
    before, last = read(store), git(opened, "rev-parse", "HEAD")[:12]
    for words in (["checkout", "-q"], ["checkout", "-q"], ["reset", "-q", "--hard"]):
        git(opened, *words, "HEAD~1" if words[0] == "checkout" else "edit~1")
        assert run(["record"]) == 1
        place = opened
        assert capsys.readouterr().err == (
            f"error: {place}: stands below the patch that is edited, so that its changes would "
            f"undo others\nhint: `git -C {place} checkout -B edit {last}` goes back to it\n"
        )
    assert read(store) == before


def test_modes_are_kept_and_ignored_files_are_not_taken(store: Path, opened: Path) -> None:
    (opened / OTHER).chmod(0o755)
    write(opened, "vllm/__pycache__/size.pyc", b"\0")
    write(opened, "vllm/.gitignore", b"scratch.py\n")
    write(opened, "vllm/scratch.py", b"1\n")
    assert run(["record"]) == 0
    patch = read(store)["patches/v0.28.0/two.patch"]
    assert b"old mode 100644\nnew mode 100755\n" in patch
    assert b"scratch.py b/" not in patch
    assert b"+++ b/vllm/.gitignore\n" in patch
    assert run(["check", "--frozen"]) == 0
    assert run(["edit", "four"]) == 0
    assert (opened / OTHER).stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("path", "data", "fact"),
    [
        ("vllm/blob.py", b"a\0b", "is binary, expected text\nhint: put whole binary files in an "),
        ("tests/test_x.py", b"1\n", "is a new file that no wheel would hold, expected a file of "),
        ("vllm/repo/.git", b"", "git add failed: "),
        (SIZE, b"<<<<<<< HEAD\nx = 1\n", "line 1 is a conflict marker: <<<<<<< HEAD\nhint: edit"),
        ("vllm/new_one.py", b"x = (\n", "line 1 does not compile: '(' was never closed"),
    ],
)
def test_what_no_patch_can_hold_is_refused(
    store: Path, opened: Path, capsys: Out, path: str, data: bytes, fact: str
) -> None:
    before = read(store)
    if path.endswith(".git"):
        git(opened, "init", "-q", "vllm/repo")
    else:
        write(opened, path, data)
    assert run(["record"]) == 1
    assert fact in capsys.readouterr().err
    assert read(store) == before


def test_a_link_is_refused(opened: Path, capsys: Out) -> None:
    (opened / "vllm/link.py").symlink_to("size.py")
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        f"error: {opened}/vllm/link.py: is a link, expected a plain file\n"
    )


def test_a_new_patch_has_a_header_with_what_was_given(store: Path, capsys: Out) -> None:
    assert run(["edit"]) == 0
    change(store / WHERE, OTHER, b"def third(x):\n    y = x", b"def third(x):\n    y = x + 1")
    capsys.readouterr()
    assert run(["record", "--new", "more", "--description", "Add one", "--reason", "it lacks"]) == 0
    assert said(capsys) == [
        "patches/v0.28.0: more.patch: new",
        "wrote patches/v0.28.0",
        f"  hunk 1, {OTHER}: unique from 1 line of context on, with 0 at 3 places",
        "more.patch: to be filled in: Origin, Forwarded, Exit-Condition, Applies-To",
    ]
    stored = read(store)
    assert stored["patches/v0.28.0/series"].endswith(b"four.patch\nmore.patch\n")
    assert stored["patches/v0.28.0/more.patch"].startswith(
        b"Description: Add one\nReason: it lacks\nOrigin:\nForwarded:\nExit-Condition:\n"
        b"Applies-To:\n\ndiff --git a/vllm/other.py b/vllm/other.py\n"
    )
    assert "patches/v0.28.0/more.anchors.toml" in stored
    assert run(["check", "--frozen"]) == 3
    kinds = {line.split(": ")[1] for line in said(capsys) if "more.patch" in line}
    assert kinds == {"header"}


def test_a_new_patch_comes_after_the_one_that_the_tree_stands_at(
    store: Path, opened: Path, capsys: Out
) -> None:
    change(opened, SIZE, b"return total", b"return twice(total)")
    assert run(["record", "--new", "mid"]) == 0
    lines = said(capsys)
    assert (
        f"warning: mid.patch needs two.patch: `twice` is defined by two.patch#1 ({SIZE}:8) and "
        f"called in mid.patch#1 ({SIZE}:14)" in lines
    )
    assert "  declare in mid.patch: Depends-On: two" in lines
    series = read(store)["patches/v0.28.0/series"]
    assert series == (
        b"# mine\none.patch\ntwo.patch\nmid.patch\n# it uses twice\nthree.patch\nfour.patch\n"
    )
    assert run(["edit"]) == 0
    assert said(capsys)[0] == f"{WHERE}: v0.28.0, at mid.patch; open"


def test_needs_that_are_found_are_declared_on_request(
    store: Path, opened: Path, capsys: Out, check: Check
) -> None:
    change(opened, SIZE, b"return total", b"return twice(total)")
    assert run(["record", "--new", "mid", "--depends", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    text = f"`twice` is defined by two.patch#1 ({SIZE}:8) and called in mid.patch#1 ({SIZE}:14)"
    row = {"later": "mid.patch", "earlier": "two.patch", "text": text}
    assert (document["declared"], document["undeclared"]) == ([row], [])
    assert b"\nDepends-On: two\n" in read(store)["patches/v0.28.0/mid.patch"]
    assert git(opened, "status", "--porcelain") == ""
    three = store / "patches/v0.28.0/three.patch"
    three.write_bytes(three.read_bytes().replace(b"Depends-On: two\n", b""))
    assert run(["edit", "two"]) == 0
    change(opened, SIZE, b"n + n", b"2 * n")
    capsys.readouterr()
    assert run(["record", "--depends"]) == 0  # what needs it is declared too
    assert [line for line in said(capsys) if "declare" in line] == [
        f"declared: three.patch needs two.patch: `twice` is defined by two.patch#1 ({SIZE}:8) and "
        f"called in three.patch#1 ({SIZE}:18)"
    ]
    assert b"\nDepends-On: two\n" in three.read_bytes()


def test_needs_of_another_folder_are_declared_with_it(store: Path, capsys: Out) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    after = edited(FOUR, OTHER, b"def third(", b"def fourth(")
    data = header("Two") + format_files(diff_files(FOUR, after))
    write(store, "port/v0.28.0/two.patch", data)
    write(store, "port/v0.28.0/series", b"two.patch\n")
    assert run(["check"]) == 0
    assert run(["edit"]) == 0
    change(store / WHERE, SIZE, b"return total", b"return twice(total)")
    assert run(["record", "--new", "mid", "--series", "port", "--depends"]) == 0
    assert b"\nDepends-On: patches/two\n" in (store / "port/v0.28.0/mid.patch").read_bytes()
    assert run(["edit", "patches/two"]) == 0
    change(store / WHERE, SIZE, b"n + n", b"2 * n")
    path = store / "port/v0.28.0/mid.patch"
    path.write_bytes(path.read_bytes().replace(b"Depends-On: patches/two\n", b""))
    three = store / "patches/v0.28.0/three.patch"
    three.write_bytes(three.read_bytes().replace(b"Depends-On: two\n", b""))
    capsys.readouterr()
    assert run(["record", "--depends"]) == 0  # a header of another folder is left alone
    lines = said(capsys)
    assert "  declare in port/mid.patch: Depends-On: patches/two" in lines
    names = [line.split(" needs ")[0] for line in lines if line.startswith("declared: ")]
    assert names == ["declared: patches/three.patch"]
    assert b"\nDepends-On: two\n" in three.read_bytes()


def test_an_edit_of_a_statement_that_another_patch_edits_is_told(
    store: Path, trees: Trees, capsys: Out
) -> None:
    call = b"x = max(\n    1,\n    2,\n    3,\n    4,\n    5,\n)\n"
    trees["v0.28.0"] = tree({**BASE, "vllm/call.py": call})
    assert run(["edit"]) == 0
    at = store / WHERE
    change(at, "vllm/call.py", b" 1,", b" 10,")
    assert run(["record", "--new", "low"]) == 0
    change(at, "vllm/call.py", b" 5,", b" 50,")
    capsys.readouterr()
    assert run(["record", "--new", "high"]) == 0
    assert (
        "warning: high.patch needs low.patch: hunk 1 edits `x = max(` (vllm/call.py:1, in the "
        "module), as low.patch#1 does; fold the two, or declare `Depends-On: low.patch`"
        in said(capsys)
    )
    path = store / "patches/v0.28.0/high.patch"
    path.write_bytes(path.read_bytes().replace(b"Applies-To:\n", b"Applies-To:\nDepends-On: low\n"))
    assert run(["edit", "high"]) == 0
    change(at, "vllm/call.py", b" 50,", b" 51,")
    capsys.readouterr()
    assert run(["record"]) == 0
    assert [line for line in said(capsys) if "warning" in line] == []


def test_a_name_that_is_taken_or_is_none_is_refused(opened: Path, capsys: Out) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["record", "--new", "Four"]) == 1
    assert capsys.readouterr().err == (
        "error: there is a patch four.patch already, expected another name\n"
    )
    for name in ("a b", "../x", "#x"):
        assert run(["record", "--new", name]) in (1, 2)


def test_a_change_on_top_of_all_goes_down_into_an_earlier_patch(store: Path, capsys: Out) -> None:
    assert run(["edit"]) == 0
    at = store / WHERE
    change(at, SIZE, b"blocks * 32", b"blocks * 64")
    capsys.readouterr()
    assert run(["record"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: patchkit record: the work tree stands on top of all patches, expected the patch "
        "that takes the changes, or --new NAME\n"
    )
    assert run(["record", "one"]) == 0
    assert b"+    return blocks * 64\n" in read(store)["patches/v0.28.0/one.patch"]
    assert read(store)["patches/v0.28.0/one.patch"].startswith(header("Double the size"))
    assert run(["check", "--frozen"]) == 0
    assert files(at) == edited(FOUR, SIZE, b"* 32", b"* 64")
    assert git(at, "status", "--porcelain") == ""


def test_a_change_that_needs_a_later_patch_does_not_go_below_it(store: Path, capsys: Out) -> None:
    assert run(["edit"]) == 0
    change(store / WHERE, SIZE, b"blocks * 32", b"twice(blocks) * 16")
    before = read(store)
    assert run(["record", "one"]) == 1
    fact, hint = capsys.readouterr().err.splitlines()
    assert fact.startswith(
        "error: patches/v0.28.0: the changes cannot be brought beside one.patch: two.patch is "
        "between them, and the two do not commute: "
    )
    assert hint == (
        "hint: nothing was changed; record them in a patch that lies further up, or make them at "
        "`patchkit edit one`"
    )
    assert read(store) == before


def test_a_change_that_a_patch_below_has_is_not_brought_down_to_it(
    store: Path, capsys: Out
) -> None:
    assert run(["edit"]) == 0
    at, new = store / WHERE, ["--description", "d", "--new"]
    for name, mode in (("low", 0o755), ("mid", 0o644)):
        (at / OTHER).chmod(mode)
        change(at, SIZE, b"import math\n", f"import math\n# {name}\n".encode())
        assert run(["record", *new, name]) == 0
    (at / OTHER).chmod(0o755)
    capsys.readouterr()
    assert run(["record", "low"]) == 1
    assert "mid.patch is between them, and the two do not commute" in capsys.readouterr().err


def test_both_sides_of_a_merge_are_not_recorded(store: Path, opened: Path, capsys: Out) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    git(opened, "stash")
    change(opened, SIZE, b"n + n", b"n * 2")
    git(opened, "commit", "-qam", "other")
    popped = subprocess.run(["git", "stash", "pop"], cwd=opened, check=False, capture_output=True)
    assert popped.returncode == 1
    before = read(store)
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        f"error: {opened}/{SIZE}: holds both sides of a merge, expected the file as it is to be\n"
        f"hint: edit it, then `git -C {opened} add {SIZE}`\n"
    )
    assert read(store) == before
    git(opened, "checkout", "--theirs", SIZE)
    git(opened, "add", SIZE)
    assert run(["record"]) == 0
    assert b"+    return 2 * n\n" in (store / "patches/v0.28.0/two.patch").read_bytes()


def test_a_patch_that_the_tree_does_not_hold_cannot_take_its_changes(
    opened: Path, capsys: Out
) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["record", "four"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.28.0/four.patch: comes after the patch that the work tree stands at\n"
        "hint: `patchkit edit four` opens it there\n"
    )


def test_a_later_patch_that_cannot_be_carried_over_refuses_everything(
    store: Path, opened: Path, capsys: Out
) -> None:
    change(opened, SIZE, b"return a * b * c", b"return c * a * b")
    before, here = read(store), files(opened)
    assert run(["record"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        "error: patches/v0.28.0/three.patch: cannot be carried over the changes of two.patch: "
        "hunk 1 (volume): "
    )
    assert err.endswith(
        "hint: nothing was changed; change it so that three still finds its place, or edit three "
        "first\n"
    )
    assert read(store) == before
    assert files(opened) == here


def test_a_change_that_a_later_patch_makes_already_is_refused(
    store: Path, opened: Path, capsys: Out
) -> None:
    write(opened, NEW, b"NEW = 1\n")
    before = read(store)
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.28.0/four.patch: cannot be carried over the changes of two.patch: "
        f"hunk 1 ({NEW}): its change is there already\n"
        "hint: nothing was changed; leave that to four, or `patchkit fold` it first\n"
    )
    assert read(store) == before


def test_a_later_patch_on_ground_that_changed_needs_a_word(
    store: Path, opened: Path, capsys: Out
) -> None:
    change(opened, SIZE, b"def twice(n):", b"def twice(n, m=0):")
    change(opened, SIZE, b"n + n", b"n + m")
    assert run(["record"]) in (0, 1)
    change(opened, SIZE, b"def twice(n, m=0)", b"def twice(m, n=0)")
    before = read(store)
    assert run(["record"]) == 1
    assert "say --accept-drift where that is right all the same" in capsys.readouterr().err
    assert read(store) == before
    assert run(["record", "--accept-drift"]) == 0


def test_a_patch_of_which_nothing_is_left_is_to_be_dropped(opened: Path, capsys: Out) -> None:
    (opened / SIZE).write_bytes(ONE[SIZE])
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.28.0/two.patch: would have nothing left\n"
        "hint: `patchkit edit --close --discard`, then `patchkit drop two`\n"
    )


def test_a_patch_that_was_changed_below_the_changes_is_not_recorded_over(
    store: Path, opened: Path, capsys: Out
) -> None:
    def set_size(old: bytes, new: bytes) -> None:
        for name in ("one", "two"):
            path = store / f"patches/v0.28.0/{name}.patch"
            path.write_bytes(path.read_bytes().replace(old, new))

    set_size(b"* 32", b"* 64")
    assert run(["edit", "two"]) == 0  # nothing of the person's is in the tree: it follows
    assert f"{WHERE}: v0.28.0, at two.patch; brought there" in said(capsys)
    left_at = git(opened, "rev-parse", "HEAD")[:12]
    change(opened, SIZE, b"n + n", b"2 * n")
    git(opened, "commit", "-qam", "mine")
    write(opened, NEW, b"NEW = 2\n")
    set_size(b"* 64", b"* 32")
    assert run(["record"]) == 1
    save = f"git -C {opened} add -A && git -C {opened} diff --cached {left_at}"
    assert capsys.readouterr().err == (
        f"error: {opened}: the stored patches below the changes are not those that the work tree "
        f"was made from\nhint: save your changes (`{save} > mine.diff`), then "
        "`patchkit edit --discard`\n"
    )
    assert run(["edit", "two"]) == 1
    assert b"2 * n" in (opened / SIZE).read_bytes()
    # what the hint says saves all of it, committed or not
    diff = subprocess.run(save, shell=True, check=True, capture_output=True, cwd=store).stdout
    assert [file.path for file in parse_patch(diff, "mine.diff").files] == [NEW, SIZE]


def test_headers_and_later_patches_may_be_changed_while_the_tree_is_open(
    store: Path, opened: Path
) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    one, four = (store / f"patches/v0.28.0/{name}.patch" for name in ("one", "four"))
    one.write_bytes(one.read_bytes().replace(b"Double the size", b"Double it"))
    (opened / OTHER).chmod(0o755)
    four.write_bytes(four.read_bytes().replace(b"NEW = 1", b"NEW = 4"))
    assert run(["record"]) == 0
    assert b"Double it" in one.read_bytes()
    assert "Double it" in git(opened, "log", "--format=%b")
    assert b"NEW = 4" in four.read_bytes()
    assert b"+    return 2 * n\n" in (store / "patches/v0.28.0/two.patch").read_bytes()
    assert git(opened, "status", "--porcelain") == ""
    assert git(opened, "show", "refs/patchkit/series:vllm/new.py") == "NEW = 4\n"
    assert run(["check", "--frozen"]) == 0
    one.write_bytes(one.read_bytes().replace(b"Double it", b"Double the size"))
    change(opened, SIZE, b"2 * n", b"n * 2")
    assert run(["record"]) == 0


def test_a_patch_may_be_renamed_while_the_tree_stands_at_it(store: Path, opened: Path) -> None:
    assert run(["rename", "two", "twice"]) == 0
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["record"]) == 0
    assert b"+    return 2 * n\n" in (store / "patches/v0.28.0/twice.patch").read_bytes()
    assert git(opened, "log", "-1", "--format=%s").strip() == "twice"


def test_anchors_of_a_later_patch_follow_what_it_stands_on(store: Path) -> None:
    said_of = [f"--{name}" for name in ("description", "reason", "origin", "exit-condition")]
    new = [word for name in said_of for word in (name, "so")]
    new += ["--forwarded", "no", "--applies-to", "==0.28.0", "--new"]
    assert run(["edit"]) == 0
    (store / WHERE / OTHER).chmod(0o755)  # whose section names no blob
    assert run(["record", *new, "low"]) == 0
    low = (store / "patches/v0.28.0/low.patch").read_bytes()
    assert run(["edit", "four"]) == 0
    change(store / WHERE, OTHER, b"def third(x):\n    y = x", b"def third(x):\n    y = -x")
    assert run(["record", *new, "high"]) == 0
    assert (store / "patches/v0.28.0/low.patch").read_bytes() == low
    assert run(["check", "--frozen"]) == 0


def test_a_stopped_git_command_is_finished_first(opened: Path, capsys: Out) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    write(opened, ".git/MERGE_HEAD", b"")
    assert run(["record"]) == 1
    assert "git merge has stopped half way" in capsys.readouterr().err


def test_the_users_git_does_not_reach_the_tree(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    write(home, "hooks/pre-commit", b"#!/bin/sh\nexit 1\n")
    (home / "hooks/pre-commit").chmod(0o755)
    write(home, "template/hooks/post-checkout", b"#!/bin/sh\nexit 1\n")
    (home / "template/hooks/post-checkout").chmod(0o755)
    write(home, "ignore", b"*.py\n")
    write(home, "attributes", b"*.py text eol=crlf\n")
    config = (
        "[core]\n\tautocrlf = true\n\thooksPath = {0}/hooks\n\texcludesFile = {0}/ignore\n"
        "\tattributesFile = {0}/attributes\n[init]\n\ttemplateDir = {0}/template\n"
        "\tdefaultBranch = other\n[commit]\n\tgpgSign = true\n[user]\n\tuseConfigOnly = true\n"
    )
    write(home, ".gitconfig", config.format(home).encode())
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    outer = tmp_path_factory.mktemp("outer")
    git(outer, "init", "-q")
    for name, value in {
        "GIT_DIR": str(outer / ".git"), "GIT_WORK_TREE": str(outer), "GIT_INDEX_FILE": "nowhere",
        "GIT_OBJECT_DIRECTORY": str(outer / ".git/objects"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert run(["edit"]) == 0
    at = store / WHERE
    assert files(at) == FOUR
    write(at, "vllm/more.py", b"x = 1\n")
    assert run(["record", "--new", "more"]) == 0
    assert b"+++ b/vllm/more.py\n" in read(store)["patches/v0.28.0/more.patch"]
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    change(at, "vllm/more.py", b"1", b"2")
    git(at, "commit", "-qam", "plain git works in it")
    assert git(at, "log", "--format=%s").split("\n")[:2] == ["plain git works in it", "more"]


def test_a_removed_repository_never_sends_git_into_the_one_around(
    store: Path, opened: Path, capsys: Out
) -> None:
    git(store, "init", "-q")
    write(store, "mine.txt", b"mine")
    (opened / ".git").rename(opened / "gone")
    assert run(["edit", "--discard"]) == 1
    assert "is there already, and is no work tree of patchkit's" in capsys.readouterr().err
    assert (store / "mine.txt").read_bytes() == b"mine"


class Killed(BaseException):
    """What nothing of ours catches, as a kill."""


class Countdown:
    """Kills at the nth call of any of some functions."""

    POINTS: tuple[tuple[Any, str], ...] = (
        (worktree, "_run"), (worktree, "write_commits"), (workspace, "_settle"),
        (workspace.Workspace, "_write_journal"), (Path, "rename"),
    )  # fmt: skip

    def __init__(self, calls: int) -> None:
        self.left = calls

    def run(self, words: list[str]) -> bool:
        """Run a command line and return whether it came to its end."""
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in self.POINTS:
                patch.setattr(owner, name, self._counted(getattr(owner, name)))
            try:
                cli.patchkit.main(words, prog_name="patchkit", standalone_mode=False)
            except Killed:
                return False
        return True

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise Killed
            return function(*args, **kwargs)

        return counted


def test_killed_anywhere_edit_leaves_no_half_tree(store: Path) -> None:
    calls, ended = 0, False
    while not ended:
        calls += 1
        ended = Countdown(calls).run(["edit", "two"])
        assert not (store / WHERE).exists() or files(store / WHERE) == TWO
        assert run(["edit", "four"]) == 0
        assert files(store / WHERE) == FOUR
        assert git(store / WHERE, "status", "--porcelain") == ""
        assert run(["edit", "--close"]) == 0
    assert calls > 8
    assert [path.name for path in (store / WHERE).parent.iterdir()] == []


def test_killed_anywhere_record_stores_all_or_nothing(
    store: Path, opened: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    copies = tmp_path.parent / f"{tmp_path.name}-copies"
    wanted = None
    for calls in (0, *range(1, 80)):
        here = copies / str(calls)
        shutil.copytree(store, here, symlinks=True)
        monkeypatch.chdir(here)
        ended = Countdown(calls).run(["record"])
        assert run(["record"]) == 0  # what was begun is finished first, or begun anew
        found = {**read(here), **files(here / WHERE)}
        wanted = wanted or found
        assert found == wanted
        assert git(here / WHERE, "status", "--porcelain") == ""
        assert git(here / WHERE, "log", "--format=%s").split("\n")[:2] == ["two", "one"]
        shutil.rmtree(here)
        if ended and calls:
            break
    assert 10 < calls < 79
    assert b"2 * n" in wanted["patches/v0.28.0/two.patch"]


def test_a_kill_before_the_journal_is_as_if_nothing_had_been(
    store: Path, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    before = read(store)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(workspace.Workspace, "_write_journal", killed)
        with pytest.raises(Killed):
            cli.patchkit.main(["record"], prog_name="patchkit", standalone_mode=False)
    assert {n: d for n, d in read(store).items() if "patchkit-new" not in n} == before
    assert b"2 * n" in (opened / SIZE).read_bytes()


def test_a_damaged_repository_never_sends_git_into_the_one_around(
    store: Path, opened: Path, capsys: Out
) -> None:
    git(store, "init", "-q")
    write(store, "mine.txt", b"mine")
    (opened / ".git/HEAD").unlink()
    assert run(["edit", "one", "--discard"]) == 1
    assert "git add failed: fatal: not a git repository" in capsys.readouterr().err
    assert (store / "mine.txt").read_bytes() == b"mine"
    assert git(store, "branch", "--list", "--all") == ""
    assert run(["edit", "--close", "--discard"]) == 0
    assert not opened.exists()


def test_a_configuration_that_git_cannot_read_does_not_matter(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    write(home, ".gitconfig", b"[core\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    assert run(["edit"]) == 0
    assert files(store / WHERE) == FOUR


def test_attributes_in_the_tree_change_no_byte(store: Path, opened: Path) -> None:
    write(opened, "vllm/.gitattributes", b"* text=auto ident\n")
    write(opened, "vllm/dos.py", b"# $Id: x$\r\nx = 1\r\n")
    assert run(["record"]) == 0
    patch = read(store)["patches/v0.28.0/two.patch"]
    assert b"+# $Id: x$\r\n+x = 1\r\n" in patch
    assert run(["edit", "one"]) == 0
    assert run(["edit", "two"]) == 0
    assert (opened / "vllm/dos.py").read_bytes() == b"# $Id: x$\r\nx = 1\r\n"


def test_a_mode_can_be_taken_back(store: Path, opened: Path) -> None:
    (opened / OTHER).chmod(0o755)
    assert run(["record"]) == 0
    (opened / OTHER).chmod(0o644)
    assert run(["record"]) == 0
    assert b"mode" not in read(store)["patches/v0.28.0/two.patch"]


def test_a_file_that_a_wheel_would_not_hold_can_be_changed_where_the_tree_has_it(
    store: Path, trees: Trees
) -> None:
    trees["v0.28.0"] = tree({**BASE, "tests/test_x.py": b"x = 1\n"})
    assert run(["edit"]) == 0
    change(store / WHERE, "tests/test_x.py", b"1", b"2")
    assert run(["record", "--new", "more"]) == 0
    assert b"+x = 2\n" in read(store)["patches/v0.28.0/more.patch"]
    assert git(store / WHERE, "status", "--porcelain") == ""


def test_a_repository_that_was_moved_finds_its_work_tree(
    store: Path, opened: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Out
) -> None:
    change(opened, SIZE, b"n + n", b"2 * n")
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.copytree(store, moved, symlinks=True)
    shutil.rmtree(opened)
    monkeypatch.chdir(moved)
    assert run(["record"]) == 0
    assert said(capsys)[0] == "patches/v0.28.0: two.patch: changed"
    assert b"2 * n" in read(moved)["patches/v0.28.0/two.patch"]


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"{", "damaged state"),
        (b'{"format": 1}', "damaged state"),
        (b'{"format": 9}', "state of format 9, expected format 1"),
    ],
)
def test_a_state_that_cannot_be_read_is_refused(
    store: Path, opened: Path, capsys: Out, data: bytes, fact: str
) -> None:
    write(store, f"{WHERE}.json", data)
    assert run(["record"]) == 1
    assert fact in capsys.readouterr().err
    assert run(["edit", "--close"]) == 1
    assert opened.is_dir()
    assert run(["edit", "--close", "--discard"]) == 0
    assert list(opened.parent.iterdir()) == []


def test_an_overlay_is_a_commit_of_its_own_below_the_patches(store: Path, capsys: Out) -> None:
    write(store, "src/extra.py", b"EXTRA = 1\n")
    entry = overlay_entry("src/extra.py", "vllm/extra.py", b"EXTRA = 1\n")
    write(store, "patches/v0.28.0/overlay.toml", format_overlay(Overlay((entry,))))
    assert run(["edit"]) == 0
    at = store / WHERE
    assert files(at) == {**FOUR, "vllm/extra.py": b"EXTRA = 1\n"}
    assert git(at, "log", "--format=%s").split("\n")[-3:-1] == [
        "overlay of patches", "vllm 0.28.0",
    ]  # fmt: skip
    change(at, "vllm/extra.py", b"1", b"2")
    assert run(["record", "one"]) == 1
    assert capsys.readouterr().err == (
        f"error: {at}/vllm/extra.py: comes from the overlay of patches/v0.28.0, expected a file of "
        "the release or of a patch\n"
        "hint: edit src/extra.py instead; `patchkit overlay --refresh` writes its sha256\n"
    )
    change(at, "vllm/extra.py", b"2", b"1")
    change(at, SIZE, b"* 32", b"* 64")
    assert run(["record", "one"]) == 0
    assert read(store)["patches/v0.28.0/overlay.toml"] == format_overlay(Overlay((entry,)))
    assert run(["check", "--frozen"]) == 0


def test_a_release_that_is_the_same_as_another_is_edited_there(
    store: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.27.0"] = tree(version="0.27.0")
    write(store, "patches/v0.27.0/same-as.toml", b'same-as = "v0.28.0"\n')
    assert run(["edit", "--release", "v0.27.0"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.27.0: holds no patches: it is the same as v0.28.0\n"
        "hint: edit that one: --release v0.28.0\n"
    )
    assert run(["edit", "two"]) == 0
    change(store / WHERE, SIZE, b"n + n", b"2 * n")
    capsys.readouterr()
    assert run(["record"]) == 0
    assert "note: v0.27.0 is the same as v0.28.0, and takes the change too" in said(capsys)
    assert run(["check", "--frozen"]) == 0


def test_a_release_where_the_change_does_not_apply_keeps_what_it_had(
    store: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.27.0"] = tree({**BASE, OTHER: b"def first(x):\n    return x\n"}, "0.27.0")
    write(store, "patches/v0.27.0/same-as.toml", b'same-as = "v0.28.0"\n')
    before = read(store)
    assert run(["edit", "two"]) == 0
    change(store / WHERE, OTHER, b"def third(x):", b"def third(x, z=1):")
    capsys.readouterr()
    assert run(["record"]) == 0
    note = next(line for line in said(capsys) if line.startswith("note: v0.27.0 was"))
    assert note.endswith("move the change by `patchkit rebase v0.27.0 --from v0.28.0 --update`")
    after = read(store)
    assert "patches/v0.27.0/same-as.toml" not in after
    for name in ("series", "one.patch", "two.patch", "three.patch", "four.patch"):
        assert after[f"patches/v0.27.0/{name}"] == before[f"patches/v0.28.0/{name}"]
    run(["check", "--frozen"])
    assert [f for f in said(capsys) if "apply" in f or "anchors" in f or "export" in f] == []


def test_a_release_on_which_nothing_applied_before_is_named(
    store: Path, opened: Path, trees: Trees, capsys: Out
) -> None:
    other = edited(BASE, SIZE, b"blocks * 16", b"blocks * 8")
    trees["v0.27.0"] = tree(other, version="0.27.0")
    write(store, "patches/v0.27.0/same-as.toml", b'same-as = "v0.28.0"\n')
    change(opened, SIZE, b"n + n", b"2 * n")
    assert run(["record"]) == 1
    fact, hint = capsys.readouterr().err.splitlines()
    assert fact.startswith(
        "error: patches/v0.27.0: is the same as v0.28.0, and what is stored there does not apply: "
    )
    assert hint == "hint: `patchkit rebase v0.27.0 --from v0.28.0 --update` stores its own"


def test_a_patch_of_which_nothing_ships_stays_as_it_is(
    store: Path, opened: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.1"] = trees["v0.28.2"] = tree(version="0.28.2")
    lay_out(store, "0.28.2")
    write(store, "patches/v0.28.1/same-as.toml", b'same-as = "v0.28.2"\n')
    old, new = {"csrc/a.cu": b"1\n"}, {"csrc/a.cu": b"2\n"}
    head = header("Built", "Optional-Sections: csrc/")
    built = head + format_files(diff_files(old, new))
    name = "patches/v0.28.0/series"
    write(store, name, read(store)[name] + b"built.patch\n")
    write(store, "patches/v0.28.0/built.patch", built)
    assert run(["check"]) == 0
    assert run(["edit", "two"]) == 0
    change(opened, SIZE, b"n + n", b"2 * n")
    capsys.readouterr()
    assert run(["record"]) == 0
    assert [line for line in said(capsys) if "v0.28.1" in line] == []  # the same as another release
    assert read(store)["patches/v0.28.0/built.patch"] == built
    assert run(["check", "--frozen"]) == 0


def test_the_highest_release_with_patches_of_its_own_is_meant(
    store: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.1"] = tree(version="0.28.1")
    write(store, "patches/v0.28.1/same-as.toml", b'same-as = "v0.28.0"\n')
    assert run(["edit", "two"]) == 0
    assert said(capsys)[0] == f"{WHERE}: v0.28.0, at two.patch; opened"


def test_a_series_on_top_that_is_the_same_as_another_cannot_change(
    store: Path, trees: Trees, capsys: Out
) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    lay_out(store, "0.27.0")
    trees["v0.27.0"] = tree(version="0.27.0")
    top = edited(FOUR, SIZE, b"LIMIT = math.pi", b"LIMIT = math.e")
    write(store, "port/v0.27.0/series", b"limit.patch\n")
    limit = header("Another limit") + format_files(diff_files(FOUR, top))
    write(store, "port/v0.27.0/limit.patch", limit)
    write(store, "port/v0.28.0/same-as.toml", b'same-as = "v0.27.0"\n')
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    assert run(["edit", "two", "--release", "0.28.0"]) == 0
    before = read(store)
    change(store / WHERE, SIZE, b"n + n", b"2 * n")
    capsys.readouterr()
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        "error: port/v0.28.0: would have to change, and is the same as v0.27.0\n"
        "hint: nothing was changed; store a series of its own there first\n"
    )
    assert read(store) == before


def test_the_series_on_top_is_carried_over_as_well(store: Path, capsys: Out) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    top = edited(FOUR, SIZE, b"LIMIT = math.pi", b"LIMIT = math.e")
    write(store, "port/v0.28.0/series", b"limit.patch\n")
    limit = header("Another limit") + format_files(diff_files(FOUR, top))
    write(store, "port/v0.28.0/limit.patch", limit)
    assert run(["check"]) == 0
    assert run(["edit", "two"]) == 0
    at = store / WHERE
    assert git(at, "log", "--format=%s").split("\n")[0] == "patches/two"
    change(at, SIZE, b"n + n", b"2 * n\n\n\ndef thrice(n):\n    return n * 3")
    capsys.readouterr()
    assert run(["record"]) == 0
    assert said(capsys)[:5] == [
        "patches/v0.28.0: patches/two.patch: changed",
        "patches/v0.28.0: patches/three.patch: changed",
        "patches/v0.28.0: port/limit.patch: changed",
        "wrote patches/v0.28.0",
        "wrote port/v0.28.0",
    ]
    assert run(["check", "--frozen"]) == 0
    assert run(["edit", "limit"]) == 0
    assert b"thrice" in (at / SIZE).read_bytes()
    assert b"math.e" in (at / SIZE).read_bytes()
