"""lint on what is stored and on plain files, and what --fix writes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]

DIFF = "diff --git a/vllm/a.py b/vllm/a.py\n--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-a\n+b\n"
HEADER = """\
Description: Give pages their size
Reason: they have none
Origin: written here
Forwarded: no
Exit-Condition: 0.31.0 or later
Applies-To: >=0.28,<0.28.1
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def store(folder: Path) -> Path:
    """Return a repository with a right patch and one with an error and a warning."""
    write(
        folder,
        {
            "pyproject.toml": '[tool.patchkit]\nseries = ["patches"]\n',
            "patches/v0.28.0/series": "a.patch\nb.patch\n",
            "patches/v0.28.0/a.patch": f"{HEADER}\n{DIFF}",
            "patches/v0.28.0/b.patch": (
                f"{HEADER}Depends-On: c \nOwner: TODO\n\n{DIFF}".replace("0.28.1", "0.29")
            ),
        },
    )
    return folder


@pytest.mark.usefixtures("store")
def test_what_is_stored_is_looked_at_line_by_line(capsys: Out) -> None:
    assert run(["lint"]) == 3
    assert (
        capsys.readouterr().out
        == """\
patches/v0.28.0/b.patch:7: error: unknown-dependency: there is no patch 'c'
  hint: the series has: a, b
patches/v0.28.0/b.patch:7: warning: trailing-blank: the line ends with a blank
patches/v0.28.0/b.patch:8: warning: placeholder: Owner still says TODO
2 patches: 1 error, 2 warnings
"""
    )


@pytest.mark.usefixtures("store")
def test_the_document_is_what_its_schema_says(capsys: Out, check: Check) -> None:
    assert run(["lint", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["errors"], document["warnings"], document["patches"]) == (1, 2, 2)
    assert document["findings"][2] == {
        "place": "patches/v0.28.0/b.patch",
        "line": 8,
        "rule": "placeholder",
        "severity": "warning",
        "text": "Owner still says TODO",
        "hint": None,
    }


@pytest.mark.usefixtures("store")
def test_a_warning_is_a_finding_where_that_is_asked_for(capsys: Out) -> None:
    name = "patches/v0.28.0/a.patch"
    assert run(["lint", name, "--strict"]) == 0
    assert capsys.readouterr().out == "1 patch: nothing to say against their headers\n"
    Path(name).write_text(f"{HEADER}Owner: TODO\n\n{DIFF}")
    assert run(["lint", name]) == 0
    assert run(["lint", name, "--strict"]) == 3


def test_a_file_of_a_stored_release_is_held_against_its_series(store: Path, capsys: Out) -> None:
    assert run(["lint", "patches/v0.28.0/b.patch"]) == 3
    assert "unknown-dependency" in capsys.readouterr().out
    plain = store / "plain.patch"
    plain.write_bytes((store / "patches/v0.28.0/b.patch").read_bytes())
    assert run(["lint", "plain.patch"]) == 0
    assert "unknown-dependency" not in capsys.readouterr().out


def test_fix_writes_what_is_mechanical_and_says_it(store: Path, capsys: Out, check: Check) -> None:
    path = store / "patches/v0.28.0/b.patch"
    before = path.read_text()
    other = (store / "patches/v0.28.0/a.patch").stat().st_mtime_ns
    assert run(["lint", "--fix", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["fixed"] == [
        {
            "place": "patches/v0.28.0/b.patch",
            "line": 7,
            "rule": "trailing-blank",
            "text": "blanks at the end taken off",
        }
    ]
    assert [found["rule"] for found in document["findings"]] == [
        "unknown-dependency",
        "placeholder",
    ]
    assert path.read_text() == before.replace("c \n", "c\n")
    assert (store / "patches/v0.28.0/a.patch").stat().st_mtime_ns == other


def test_fix_mends_a_plain_file_too(folder: Path, capsys: Out) -> None:
    write(folder, {"a.patch": f"{HEADER.replace('Reason', 'Reson')}\n{DIFF}"})
    assert run(["lint", "--fix", "a.patch"]) == 0
    assert capsys.readouterr().out == (
        "a.patch:2: fixed: Reson is called Reason now\n"
        "1 patch: nothing to say against their headers\n"
    )
    assert (folder / "a.patch").read_text() == f"{HEADER}\n{DIFF}"
    assert {path.name for path in folder.iterdir()} == {"a.patch"}


def test_a_release_that_cannot_be_read_is_a_finding(store: Path, capsys: Out) -> None:
    write(store, {"patches/v0.29.0/series": "a.patch\n"})
    assert run(["lint", "--release", "0.29"]) == 3
    assert capsys.readouterr().out == (
        "patches/v0.29.0/series:1: error: unreadable: patch a.patch is missing\n"
        "0 patches: 1 error\n"
    )


def test_a_verdict_that_a_patch_is_needed_proves_its_range(store: Path, capsys: Out) -> None:
    path = store / "patches/v0.28.0/a.patch"
    path.write_text(path.read_text().replace("<0.28.1", "<0.30"))
    assert run(["lint", "--release", "v0.28.0", "--json"]) == 3
    rules = [found["rule"] for found in json.loads(capsys.readouterr().out)["findings"]]
    assert rules[0] == "range-too-wide"
    digest = '"' + "0" * 64 + '"'
    (store / "patches/verdicts.toml").write_text(
        'format = 1\n\n[[verdict]]\nrelease = "0.29.0"\npatch = "a.patch"\nverdict = "needed"\n'
        'pristine = "red"\npatched = "green"\nreason = "x"\nbase = "0.28.0"\ntests = ["a.py"]\n'
        f"patch_sha256 = {digest}\nmoved_sha256 = {digest}\ntest_sha256 = {digest}\n"
    )
    assert run(["lint", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)["findings"]
    assert "range-too-wide" not in [one["rule"] for one in found if "a.patch" in one["place"]]


@pytest.mark.usefixtures("store")
def test_what_makes_no_sense_is_refused(capsys: Out) -> None:
    assert run(["lint", "a.patch", "--release", "v0.28.0"]) == 2
    assert run(["lint", "--release", "v0.31.0"]) == 1
    assert capsys.readouterr().err == (
        "error: patchkit lint: --release and --series are for stored series\n"
        "hint: `patchkit lint --help` has examples\n"
        "error: patches: no patch is stored for v0.31.0\n"
        "hint: `patchkit status` lists what is stored\n"
    )


def test_the_shipped_patches_break_no_rule(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["lint", "--strict"]) == 0
    assert capsys.readouterr().out.endswith(": nothing to say against their headers\n")


def test_what_two_releases_share_is_looked_at_once(store: Path, capsys: Out) -> None:
    write(store, {"patches/v0.28.1/same-as.toml": 'same-as = "v0.28.0"\n'})
    assert run(["lint"]) == 3
    assert capsys.readouterr().out.endswith("2 patches: 1 error, 2 warnings\n")


def test_a_verdict_that_it_is_not_needed_proves_no_range(store: Path, capsys: Out) -> None:
    path = store / "patches/v0.28.0/a.patch"
    path.write_text(path.read_text().replace("<0.28.1", "<0.30"))
    digest = '"' + "0" * 64 + '"'
    (store / "patches/verdicts.toml").write_text(
        'format = 1\n\n[[verdict]]\nrelease = "0.29.0"\npatch = "a.patch"\n'
        'verdict = "superseded"\npristine = "green"\nreason = "x"\nbase = "0.28.0"\n'
        f'tests = ["a.py"]\npatch_sha256 = {digest}\nmoved_sha256 = {digest}\n'
        f"test_sha256 = {digest}\n"
    )
    assert run(["lint", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)["findings"]
    assert "range-too-wide" in [one["rule"] for one in found if "a.patch" in one["place"]]


def test_standard_input_is_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    del folder
    text = f"{HEADER}\n{DIFF}".replace("Reason: they have none\n", "")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["lint", "-"]) == 3
    assert capsys.readouterr().out == (
        "standard input:1: error: missing-field: header has no Reason\n1 patch: 1 error\n"
    )
    assert run(["lint", "-", "--fix"]) == 2
    assert (
        capsys.readouterr().err
        == "error: patchkit lint: --fix needs files\nhint: `patchkit lint --help` has examples\n"
    )
