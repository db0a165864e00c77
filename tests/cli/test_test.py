"""`patchkit test`, and what a rebase makes of its verdicts; the tests run for real."""

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

HEADER = """\
Description: {name}
Reason: it is too small
Origin: written here
Forwarded: no
Exit-Condition: it is large enough
Applies-To: >=0.28,<0.40
"""
PAGES, LIMIT = "vllm/pages.py", "vllm/limit.py"
BASE = {
    "vllm/__init__.py": b"",
    PAGES: b"import math\n\n\ndef size(blocks):\n    return blocks * 16\n\n\nx = math.pi\n",
    LIMIT: b"from vllm.pages import size\n\n\ndef limit():\n    return size(1)\n",
}
LARGER = {PAGES: BASE[PAGES].replace(b"* 16", b"* 32")}
TWICE = {LIMIT: BASE[LIMIT].replace(b"size(1)", b"size(1) + size(1)")}
TEST = "from vllm.pages import size\n\n\ndef test_size():\n    assert size(2) >= 64\n"
LIMIT_TEST = "from vllm.limit import limit\n\n\ndef test_limit():\n    assert limit() >= 64\n"
PYTHON = ["--python", sys.executable]


def tree(version: str, files: dict[str, bytes]) -> SourceTree:
    return SourceTree(files, name=f"v{version}", version=version)


def patch(name: str, after: dict[str, bytes], *more: str) -> bytes:
    old = {path: BASE[path] for path in after}
    head = "".join([HEADER.format(name=name), *(f"{line}\n" for line in more), "\n"])
    return head.encode() + format_files(diff_files(old, after))


def write(folder: Path, name: str, data: bytes | str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with one patch on 0.28.0 and a test of it."""
    trees["v0.28.0"] = tree("0.28.0", BASE)
    trees["v0.29.0"] = tree("0.29.0", {**BASE, PAGES: b"import os\n" + BASE[PAGES]})
    # solved otherwise, where the patch still fits
    solved = BASE[PAGES] + b"\n\ndef size(blocks, f=size):\n    return max(64, f(blocks))\n"
    trees["v0.30.0"] = tree("0.30.0", {**BASE, PAGES: solved})
    # what it replaces has gone, and the trouble with it
    gone = BASE[PAGES].replace(b"blocks * 16", b"blocks << 6")
    trees["v0.31.0"] = tree("0.31.0", {**BASE, PAGES: gone})
    # what it replaces has gone, the trouble has not
    worse = BASE[PAGES].replace(b"blocks * 16", b"blocks << 3")
    trees["v0.32.0"] = tree("0.32.0", {**BASE, PAGES: worse})
    # it fits and does not help
    small = BASE[PAGES] + b"\n\ndef size(blocks):\n    return blocks\n"
    trees["v0.27.0"] = tree("0.27.0", {**BASE, PAGES: small})
    write(folder, "pyproject.toml", "[tool.patchkit]\n")
    write(folder, "patches/v0.28.0/series", "pages.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", patch("pages", LARGER, "Test: tests/pages.py"))
    write(folder, "tests/pages.py", TEST)
    return folder


def report(capsys: Out, check: Check) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(document)
    return document


def verdict_on(release: str, capsys: Out, check: Check, *more: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the one verdict of a run."""
    status = run(["test", release, *PYTHON, "--json", *more])
    document = report(capsys, check)
    assert document["exit_code"] == status
    assert document["ok"] == (status == 0)
    (verdict,) = document["verdicts"]
    return status, verdict


@pytest.mark.parametrize(
    ("release", "status", "verdict", "pristine", "patched", "reason"),
    [
        ("v0.28.0", 0, "needed", "red", "green", "without it: test_size: AssertionError: "),
        ("v0.29.0", 0, "needed", "red", "green", "without it: test_size: AssertionError: "),
        ("v0.30.0", 0, "superseded", "green", "green", "green without it"),
        (
            "v0.31.0", 0, "superseded", "green", None,
            "green without it; it does not land on v0.31.0: hunk 1 is conflicted",
        ),
        (
            "v0.32.0", 3, "broken", "red", None,
            "it does not land on v0.32.0: hunk 1 is conflicted",
        ),
        ("v0.27.0", 3, "not effective", "red", "red", "with it: test_size: AssertionError: "),
    ],
)  # fmt: skip
def test_each_release_has_the_verdict_of_its_own_code(
    store: Path,
    capsys: Out,
    check: Check,
    release: str,
    status: int,
    verdict: str,
    pristine: str,
    patched: str | None,
    reason: str,
) -> None:
    found, entry = verdict_on(release, capsys, check)
    assert (entry["verdict"], entry["pristine"], entry["patched"]) == (verdict, pristine, patched)
    assert entry["reason"].startswith(reason)
    assert (found, entry["base"], entry["torch"]) == (status, "0.28.0", None)
    assert (store / "patches/verdicts.toml").read_text().count("[[verdict]]") == 1


def test_a_verdict_speaks_of_the_new_files_of_the_series_too(
    store: Path, capsys: Out, check: Check
) -> None:
    _, without = verdict_on("v0.28.0", capsys, check)
    write(store, "src/new.py", "y = 1\n")
    table = '[[file]]\nsource = "src/new.py"\npath = "vllm/new.py"\n'
    write(store, "patches/v0.28.0/overlay.toml", f'format = 1\n{table}sha256 = "{"0" * 64}"\n')
    assert run(["overlay", "--refresh"]) == 0
    assert run(["check"]) == 0  # writes the anchors
    capsys.readouterr()
    assert run(["check", "--frozen"]) == 3
    assert "the one on pages.patch on v0.28.0 is stale" in capsys.readouterr().out
    _, first = verdict_on("v0.28.0", capsys, check)
    assert run(["check", "--frozen"]) == 0
    capsys.readouterr()
    # the patch lands on its own release as it is, among the same new files
    assert first["moved_sha256"] == first["patch_sha256"] != without["patch_sha256"]
    _, moved = verdict_on("v0.29.0", capsys, check)
    assert moved["moved_sha256"] == first["moved_sha256"]
    write(store, "src/new.py", "y = 2\n")
    assert run(["overlay", "--refresh"]) == 0
    capsys.readouterr()
    _, second = verdict_on("v0.28.0", capsys, check)
    assert second["patch_sha256"] != first["patch_sha256"]


def test_the_same_runs_give_the_same_file(store: Path, capsys: Out, check: Check) -> None:
    for release in ("v0.30.0", "v0.28.0"):
        verdict_on(release, capsys, check)
    first = (store / "patches/verdicts.toml").read_bytes()
    (store / "patches/verdicts.toml").unlink()
    for release in ("v0.28.0", "v0.30.0", "v0.28.0"):
        verdict_on(release, capsys, check)
    assert (store / "patches/verdicts.toml").read_bytes() == first
    assert str(store).encode() not in first


def test_a_broken_run_shows_what_pytest_said(store: Path, capsys: Out, check: Check) -> None:
    write(store, "tests/pages.py", TEST.replace("import size", "import sizes"))
    status, entry = verdict_on("v0.28.0", capsys, check)
    assert (status, entry["verdict"]) == (3, "broken")
    assert "cannot import name 'sizes' from 'vllm.pages'" in entry["output"]
    assert entry["reason"].startswith("without it: cannot be collected: ImportError: cannot")
    assert run(["test", "v0.28.0", *PYTHON]) == 3
    out, err = capsys.readouterr()
    assert out.split("\n")[0] == "patches/pages.patch of v0.28.0 on v0.28.0: broken"
    assert "cannot import name 'sizes'" in err


@pytest.mark.usefixtures("store")
def test_people_see_verdict_colours_and_reason(capsys: Out) -> None:
    assert run(["test", "v0.30.0", "pages", *PYTHON]) == 0
    assert capsys.readouterr().out == (
        "patches/pages.patch of v0.28.0 on v0.30.0: superseded\n"
        "  green without it, green with it: green without it\n"
        "stored in patches/verdicts.toml\n"
    )


def test_a_superseded_patch_is_left_out_with_the_reason(
    store: Path, capsys: Out, check: Check
) -> None:
    write(store, "patches/v0.28.0/series", "pages.patch\nlimit.patch\n")
    write(store, "patches/v0.28.0/limit.patch", patch("limit", TWICE))
    assert run(["test", "v0.30.0", *PYTHON, "--json"]) == 0
    assert report(capsys, check)["untested"] == ["patches/v0.28.0/limit.patch"]
    assert run(["rebase", "v0.30.0", "--json"]) == 0
    document = report(capsys, check)
    assert document["left_out"] == [
        {
            "series": "patches", "patch": "pages.patch", "hunks": None, "why": "superseded",
            "reason": "green without it",
        }
    ]  # fmt: skip
    assert (store / "patches/v0.30.0/series").read_bytes() == b"limit.patch\n"
    assert not (store / "patches/v0.30.0/pages.patch").exists()
    assert run(["rebase", "v0.30.0"]) == 0
    out = capsys.readouterr().out
    assert "patches/pages.patch: left out, superseded: green without it\n" in out
    assert "unchanged in patches/v0.30.0" in out


@pytest.mark.usefixtures("store")
def test_a_superseded_patch_does_not_stop_a_rebase_that_it_would_conflict_in(
    capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.31.0"]) == 3
    assert run(["rebase", "--abort"]) == 0
    before = capsys.readouterr()
    assert before.out
    verdict_on("v0.31.0", capsys, check)
    assert run(["rebase", "v0.31.0"]) == 0


@pytest.mark.parametrize("what", ["patch", "test", "name", "conftest", "gone"])
def test_a_verdict_on_something_else_is_no_reason_to_leave_out(
    store: Path, capsys: Out, check: Check, what: str
) -> None:
    verdict_on("v0.30.0", capsys, check)
    name = "patches/v0.28.0/pages.patch"
    if what == "patch":
        larger = {PAGES: BASE[PAGES].replace(b"* 16", b"* 64")}
        write(store, name, patch("pages", larger, "Test: tests/pages.py"))
    elif what == "test":
        write(store, "tests/pages.py", TEST.replace("64", "128"))
    elif what == "name":
        write(store, name, patch("pages", LARGER, "Test: tests/pages.py::test_size"))
    elif what == "conftest":
        write(store, "tests/conftest.py", "")
    else:
        (store / "tests/pages.py").unlink()
    assert run(["rebase", "v0.30.0", "--json"]) == 0
    document = report(capsys, check)
    assert document["left_out"] == []
    assert document["notes"] == [
        "pages.patch: superseded on v0.30.0 by its tests, but patch or tests have changed since; "
        "`patchkit test v0.30.0` makes that anew"
    ]


def test_a_verdict_holds_when_the_patch_is_only_described_better(
    store: Path, capsys: Out, check: Check
) -> None:
    verdict_on("v0.30.0", capsys, check)
    name = "patches/v0.28.0/pages.patch"
    write(store, name, (store / name).read_bytes().replace(b"too small", b"much too small"))
    assert run(["rebase", "v0.30.0", "--json"]) == 0
    assert [left["why"] for left in report(capsys, check)["left_out"]] == ["superseded"]


@pytest.mark.usefixtures("store")
def test_a_verdict_for_one_release_says_nothing_of_another(capsys: Out, check: Check) -> None:
    verdict_on("v0.30.0", capsys, check)
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    assert report(capsys, check)["left_out"] == []


@pytest.mark.usefixtures("store")
def test_a_rebase_tells_of_verdicts_that_speak_against_a_patch(
    trees: Trees, capsys: Out, check: Check
) -> None:
    trees["v0.33.0"] = tree("0.33.0", dict(trees["v0.27.0"].files))
    verdict_on("v0.33.0", capsys, check)
    assert run(["rebase", "v0.33.0", "--json"]) == 0
    (note,) = report(capsys, check)["notes"]
    assert note.startswith("pages.patch: not effective on v0.33.0 by its tests: with it: test_size")


def test_rebase_makes_the_verdicts_that_are_missing(
    store: Path, capsys: Out, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["rebase", "v0.30.0", "--test", *PYTHON, "--json"]) == 0
    assert [left["why"] for left in report(capsys, check)["left_out"]] == ["superseded"]
    from patchkit.proving.run import Runner

    monkeypatch.setattr(Runner, "run", None)  # what holds is not made again
    assert run(["rebase", "v0.30.0", "--test", *PYTHON, "--json"]) == 0
    capsys.readouterr()
    write(store, "tests/pages.py", TEST + "\n")
    assert run(["rebase", "v0.30.0", "--test", *PYTHON]) == 70


def test_what_a_patch_depends_on_is_there_without_it_too(
    store: Path, capsys: Out, check: Check
) -> None:
    write(store, "patches/v0.28.0/series", "pages.patch\nlimit.patch\n")
    more = ("Test: tests/limit.py", "Depends-On: pages")
    write(store, "patches/v0.28.0/limit.patch", patch("limit", TWICE, *more))
    write(store, "tests/limit.py", LIMIT_TEST)
    _, entry = verdict_on("v0.28.0", capsys, check, "limit.patch")
    assert (entry["verdict"], entry["pristine"], entry["patched"]) == ("needed", "red", "green")
    assert entry["reason"] == "without it: test_limit: AssertionError: assert 32 >= 64"
    write(store, "patches/v0.28.0/limit.patch", patch("limit", TWICE, more[0]))
    _, entry = verdict_on("v0.28.0", capsys, check, "limit.patch")
    assert entry["verdict"] == "not effective"
    assert entry["reason"] == "with it: test_limit: AssertionError: assert 32 >= 64"


def test_a_verdict_falls_with_what_its_patch_depends_on(
    store: Path, capsys: Out, check: Check
) -> None:
    write(store, "patches/v0.28.0/series", "pages.patch\nlimit.patch\n")
    more = ("Test: tests/limit.py", "Depends-On: pages")
    write(store, "patches/v0.28.0/limit.patch", patch("limit", TWICE, *more))
    write(store, "tests/limit.py", LIMIT_TEST.replace("64", "0"))
    verdict_on("v0.29.0", capsys, check, "limit.patch")
    larger = {PAGES: BASE[PAGES].replace(b"* 16", b"* 64")}
    write(store, "patches/v0.28.0/pages.patch", patch("pages", larger, "Test: tests/pages.py"))
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    document = report(capsys, check)
    assert document["left_out"] == []
    assert document["notes"][0].startswith("limit.patch: superseded on v0.29.0 by its tests, but")


@pytest.mark.usefixtures("store")
def test_the_patch_of_the_release_itself_is_tested_where_it_is_stored(
    capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.29.0"]) == 0
    capsys.readouterr()
    assert verdict_on("v0.29.0", capsys, check)[1]["base"] == "0.29.0"
    assert verdict_on("v0.30.0", capsys, check)[1]["base"] == "0.29.0"
    assert verdict_on("v0.27.0", capsys, check)[1]["base"] == "0.28.0"


@pytest.mark.parametrize(
    ("args", "header", "message"),
    [
        (["pages"], (), "error: patches/v0.28.0/pages.patch: names no test, expected a header"),
        ([], (), "error: patches/v0.28.0/pages.patch: names no test, expected a header field"),
        (["pages"], ("Test: /a.py",), "error: patches/v0.28.0/pages.patch:7: Test names '/a.py'"),
        (["pages"], ("Test: ../a.py",), "error: patches/v0.28.0/pages.patch:7: Test names '../a"),
        (["pages"], ("Test: a.txt",), "error: patches/v0.28.0/pages.patch:7: Test names 'a.txt'"),
        (["pages"], ("Test: a.py::",), "error: patches/v0.28.0/pages.patch:7: Test names 'a.py::"),
        (["pages"], ("Test: t/a.py",), "error: patches/v0.28.0/pages.patch: names the test t/a.py"),
        (["other"], (), "error: patches: there is no patch 'other'\nhint: stored are: pages\n"),
    ],
)
def test_what_cannot_be_tested_is_refused(
    store: Path, capsys: Out, args: list[str], header: tuple[str, ...], message: str
) -> None:
    write(store, "patches/v0.28.0/pages.patch", patch("pages", LARGER, *header))
    assert run(["test", "v0.28.0", *args, *PYTHON]) == 1
    assert capsys.readouterr().err.startswith(message)
    assert not (store / "patches/verdicts.toml").exists()


@pytest.mark.usefixtures("store")
def test_usage(capsys: Out) -> None:
    assert run(["test", "v0.28.0", *PYTHON, "--torch-index", "x"]) == 2
    assert run(["rebase", "--target", "../vllm", "--test"]) == 2
    assert run(["rebase", "v0.29.0", *PYTHON]) == 2
    assert run(["test", "v0.28.0", "--python", "no/such"]) == 1
    assert (
        "error: no/such: there is no such file, expected an interpreter" in capsys.readouterr().err
    )


def test_a_frozen_check_finds_stale_verdicts_and_those_against_a_stored_patch(
    store: Path, capsys: Out, check: Check
) -> None:
    assert run(["check"]) == 0
    capsys.readouterr()
    verdict_on("v0.28.0", capsys, check)
    assert run(["check", "--frozen"]) == 0
    write(store, "tests/pages.py", TEST.replace("64", "0"))
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    (series,) = report(capsys, check)["series"]
    assert series["findings"] == [
        {
            "kind": "verdict",
            "place": "patches/verdicts.toml",
            "text": "the one on pages.patch on v0.28.0 is stale; `patchkit test v0.28.0` makes it "
            "anew",
        }
    ]
    verdict_on("v0.28.0", capsys, check)
    assert run(["check", "--frozen"]) == 3
    assert capsys.readouterr().out.startswith(
        "patches/verdicts.toml: verdict: pages.patch on v0.28.0 is superseded and in the series: "
        "green without it\n"
    )
