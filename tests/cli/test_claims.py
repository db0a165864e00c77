"""`patchkit claims` from the command line: what is read, said, filled in and left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit import cli
from patchkit.repository.workspace import Workspace
from tests.records.made import row, store

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
MARKED = "It takes <!-- record: verify-h200#a -->{}<!-- /record -->.\n"


@pytest.fixture
def project(folder: Path) -> Path:
    """A project with a record, a page, and a stored patch."""
    (folder / "pyproject.toml").write_text("[tool.patchkit]\n")
    (folder / "kernels").mkdir()
    (folder / "kernels" / "verify.py").write_text("")
    store(folder, "verify-h200", row("a", 100.0))
    (folder / "docs" / "deep").mkdir()
    (folder / "docs" / "deep" / "page.md").write_text(MARKED.format("100 µs"))
    (folder / "README.md").write_text("No figure.\n")
    (folder / "patches" / "v0.28.0").mkdir(parents=True)
    (folder / "patches" / "v0.28.0" / "fix.patch").write_text(
        "Description: Halve it\n It takes 100 µs [record: verify-h200#a].\n\n"
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-5 ms\n+4 ms\n"
    )
    return folder


@pytest.mark.usefixtures("project")
def test_where_all_is_backed_the_counts_are_said(capsys: Out, check: Check) -> None:
    assert cli.run(["claims"]) == 0
    assert capsys.readouterr().out == "3 files: 2 of record; all backed\n"
    assert cli.run(["claims", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["ok"], document["files"], document["unmarked"]) == (True, 3, 0)
    assert document["marks"] == {"record": 2, "ratio": 0, "published": 0, "arithmetic": 0}


def test_findings_have_their_line_and_status_3(project: Path, capsys: Out, check: Check) -> None:
    (project / "README.md").write_text("\nUnder 8 minutes.\n" + MARKED.format("92 µs"))
    assert cli.run(["claims"]) == 3
    assert capsys.readouterr().out == (
        "README.md:2: unmarked: 8 minutes says nothing of its source\n"
        "README.md:3: mismatched: the figure is 92, the record gives 100 µs\n"
        "  hint: `patchkit claims --fill` writes it\n"
        "3 files: 3 of record; 2 findings\n"
    )
    assert cli.run(["claims", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["exit_code"], document["unmarked"], document["filled"]) == (3, 1, [])


def test_fill_writes_what_is_known_and_leaves_the_rest(
    project: Path, capsys: Out, check: Check
) -> None:
    page, patch = project / "docs/deep/page.md", project / "patches/v0.28.0/fix.patch"
    whole = patch.read_bytes()
    page.write_bytes(MARKED.format("92 µs").encode() + b"and 5 ms\r\n\xff\n")
    patch.write_bytes(whole.replace("100 µs".encode(), "92 µs".encode()))
    assert cli.run(["claims", "--fill", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert [f["place"] for f in document["filled"]] == [
        "docs/deep/page.md", "patches/v0.28.0/fix.patch",
    ]  # fmt: skip
    assert [(f["rule"], f["line"]) for f in document["findings"]] == [("unmarked", 2)]
    assert page.read_bytes() == MARKED.format("100 µs").encode() + b"and 5 ms\r\n\xff\n"
    assert patch.read_bytes() == whole


def test_fill_writes_all_files_or_none(
    project: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, patch = project / "docs/deep/page.md", project / "patches/v0.28.0/fix.patch"
    page.write_text(MARKED.format("92 µs"))
    patch.write_text(patch.read_text().replace("100 µs", "92 µs"))
    before = page.read_bytes(), patch.read_bytes()
    stage = Workspace._stage

    def full(self: Workspace, replacement: Any) -> dict[str, Any]:
        if replacement.path.name == "fix.patch":
            raise OSError(28, "No space left on device")
        return stage(self, replacement)

    monkeypatch.setattr(Workspace, "_stage", full)
    assert cli.run(["claims", "--fill"]) == 1
    assert "no space left on device" in capsys.readouterr().err
    assert (page.read_bytes(), patch.read_bytes()) == before


def test_an_edited_record_is_a_finding_where_nothing_quotes_it(project: Path, capsys: Out) -> None:
    path = project / "docs/records/verify-h200.json"
    path.write_text(path.read_text().replace("NVIDIA H200", "NVIDIA B200"))
    (project / "docs/deep/page.md").write_text("")
    (project / "patches/v0.28.0/fix.patch").unlink()
    assert cli.run(["claims"]) == 3
    assert capsys.readouterr().out == (
        "docs/records/verify-h200.json:1: edited-record: was edited: its content is not what its "
        "digest says\n  hint: measure again\n2 files: no figure is marked; 1 finding\n"
    )


def test_files_and_folders_are_read_where_they_are_named(
    project: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "notes.txt").write_text("It takes 5 ms.\n")
    monkeypatch.chdir(project / "docs")
    assert cli.run(["claims", "deep", "../notes.txt", "deep"]) == 3
    assert capsys.readouterr().out == (
        "notes.txt:1: unmarked: 5 ms says nothing of its source\n2 files: 1 of record; 1 finding\n"
    )
    assert cli.run(["claims", "records"]) == 1
    assert capsys.readouterr().err == "error: records: holds no Markdown and no patch\n"
    assert cli.run(["claims", "gone.md"]) == 1
    assert "gone.md: no such file or directory" in capsys.readouterr().err


def test_the_configuration_names_other_files_and_another_folder(project: Path, capsys: Out) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.patchkit]\nrecords = "runs"\nclaims = ["*.rst", "docs/**/*.md"]\n'
    )
    (project / "docs/records").rename(project / "runs")
    (project / "README.md").write_text("5 ms\n")
    (project / "a.rst").write_text("7 ms\n")
    assert cli.run(["claims"]) == 3
    assert capsys.readouterr().out == (
        "a.rst:1: unmarked: 7 ms says nothing of its source\n3 files: 2 of record; 1 finding\n"
    )
