import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from patchkit.tree import SourceTree

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]

PATH = "vllm/config/cache.py"
BASE = {PATH: b"import math\n\n\ndef size(blocks):\n    return blocks * 16\n"}
AUTHORED = {PATH: BASE[PATH].replace(b"* 16", b"* 32")}
TARGET = {PATH: b"import sys\n" + BASE[PATH]}
MOVED = {PATH: TARGET[PATH].replace(b"* 16", b"* 32")}
GONE = {PATH: BASE[PATH].replace(b"* 16", b"<< 4")}
PATCH = format_files(diff_files(BASE, AUTHORED))
MAIL = b"""\
From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001
From: A <a@b>
Date: Mon, 1 Jan 2024 00:00:00 +0000
Subject: [PATCH %d/2] %s

---
%s--
2.39.2

"""


@pytest.fixture(autouse=True)
def _trees(trees: Trees) -> None:
    trees["v0.28.0"] = SourceTree(BASE, name="v0.28.0", version="0.28.0")
    trees["v0.29.0"] = SourceTree(TARGET, name="v0.29.0", version="0.29.0")
    trees["v0.30.0"] = SourceTree(GONE, name="v0.30.0", version="0.30.0")


def report(capsys: Out, check: Check) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(document)
    return document


def port(*args: str, target: str = "v0.29.0") -> int:
    return run(["port", *args, "--base", "v0.28.0", "--target", target])


def test_a_patch_is_moved_and_nothing_is_written(folder: Path, capsys: Out, check: Check) -> None:
    (folder / "fix.patch").write_bytes(PATCH)
    assert port("fix.patch", "--json") == 0
    document = report(capsys, check)
    assert document["ok"] is True
    assert document["output"] is None
    assert document["files"] == [PATH]
    assert [(o["patch"], o["status"], o["target_lines"]) for o in document["outcomes"]] == [
        ("fix.patch", "placed", [6, 6])
    ]
    assert [path.name for path in folder.iterdir()] == ["fix.patch"]


def test_moved_patches_are_written_as_a_series(folder: Path, capsys: Out) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "fix.patch").write_bytes(PATCH)
    assert port("a/fix.patch", "--output", "out") == 0
    out = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    assert out == {
        "series": b"fix.patch\n",
        "fix.patch": format_files(diff_files(TARGET, MOVED)),
    }
    assert capsys.readouterr().out.endswith("1 hunk: 1 placed\nwritten to out\n")
    assert port("a/fix.patch", "--output", "out") == 0  # the same again is no clash
    assert sorted(path.name for path in folder.iterdir()) == ["a", "out"]


def test_an_output_that_holds_something_else_is_left_alone(folder: Path, capsys: Out) -> None:
    (folder / "fix.patch").write_bytes(PATCH)
    (folder / "out").mkdir()
    (folder / "out" / "mine").write_bytes(b"x")
    assert port("fix.patch", "--output", "out") == 1
    assert capsys.readouterr().err == (
        "error: out: is there already, and holds something else, "
        "expected an empty or a new folder\n"
    )
    assert [path.name for path in (folder / "out").iterdir()] == ["mine"]


def test_a_conflict_writes_nothing_and_says_so(folder: Path, capsys: Out) -> None:
    (folder / "fix.patch").write_bytes(PATCH)
    assert port("fix.patch", "--output", "out", target="v0.30.0") == 3
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("fix.patch:1: conflicted (-) vllm/config/cache.py")
    assert out.endswith(
        "1 hunk: 1 conflicted\n"
        "nothing was written to out: not every hunk landed on ground that held\n"
    )
    assert [path.name for path in folder.iterdir()] == ["fix.patch"]


def test_what_drifted_is_written_only_when_that_is_accepted(
    folder: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    spec = {"vllm/spec.py": b"class Spec:\n    stride = 1\n"}
    trees["v0.28.0"] = SourceTree({**BASE, **spec}, name="v0.28.0", version="0.28.0")
    spec = {"vllm/spec.py": b"class Spec:\n    size = 1\n"}
    trees["v0.29.0"] = SourceTree({**BASE, **spec}, name="v0.29.0", version="0.29.0")
    after = {PATH: BASE[PATH].replace(b"* 16", b"* blocks.stride")}
    (folder / "fix.patch").write_bytes(format_files(diff_files(BASE, after)))
    assert port("fix.patch", "--output", "moved") == 3
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "nothing was written to moved: not every hunk landed on ground that held",
        "--accept-drift writes what drifted as it landed",
    ]
    assert not (folder / "moved").exists()
    assert port("fix.patch", "--output", "moved", "--accept-drift", "--json") == 0
    document = report(capsys, check)
    assert (document["ok"], document["outcomes"][0]["drifted"]) == (True, True)
    assert b"+    return blocks * blocks.stride\n" in (folder / "moved/fix.patch").read_bytes()


def test_standard_input_is_a_patch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out, check: Check
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PATCH)))
    assert port("-", "--output", "out", "--json") == 0
    assert report(capsys, check)["outcomes"][0]["patch"] == "standard input"
    assert (folder / "out" / "series").read_bytes() == b"standard-input.patch\n"


def test_a_mailbox_is_a_series(folder: Path, capsys: Out, check: Check) -> None:
    second = {PATH: AUTHORED[PATH].replace(b"import math\n", b"import math\nimport os\n")}
    mails = MAIL % (1, b"one", PATCH) + MAIL % (
        2, b"two", format_files(diff_files(AUTHORED, second))
    )  # fmt: skip
    (folder / "all.mbox").write_bytes(mails)
    assert port("all.mbox", "--output", "out", "--json") == 0
    patches = [outcome["patch"] for outcome in report(capsys, check)["outcomes"]]
    assert patches == ["all.mbox#1", "all.mbox#2"]
    assert (folder / "out" / "series").read_bytes() == b"all.mbox-1.patch\nall.mbox-2.patch\n"


def test_two_files_of_one_name_stay_two(folder: Path) -> None:
    second = {PATH: AUTHORED[PATH].replace(b"* 32", b"* 64")}
    for name, data in (("a", PATCH), ("b", format_files(diff_files(AUTHORED, second)))):
        (folder / name).mkdir()
        (folder / name / "fix.patch").write_bytes(data)
    assert port("a/fix.patch", "b/fix.patch", "--output", "out") == 0
    assert (folder / "out" / "series").read_bytes() == b"fix.patch\nfix-2.patch\n"


def test_a_missing_patch_is_refused(folder: Path, capsys: Out) -> None:  # noqa: ARG001
    assert port("fix.patch") == 1
    assert capsys.readouterr().err == (
        "error: fix.patch: no such file or directory, expected a readable file\n"
    )


def test_a_patch_that_does_not_fit_its_base_is_refused(folder: Path, capsys: Out) -> None:
    (folder / "fix.patch").write_bytes(PATCH)
    assert run(["port", "fix.patch", "--base", "v0.30.0", "--target", "v0.29.0"]) == 1
    assert capsys.readouterr().err.startswith("error: fix.patch:")


def test_what_was_tolerated_is_said(folder: Path, capsys: Out) -> None:
    (folder / "fix.patch").write_bytes(b"\xff\xfe" + PATCH.decode().encode("utf-16-le"))
    assert port("fix.patch") == 0
    assert "\nnote: fix.patch:" in capsys.readouterr().out
