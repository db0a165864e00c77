"""Forecast: what newer releases make of a stored series, and that nothing is written for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from patchkit.cli import forecast, run
from patchkit.errors import PatchkitError
from patchkit.surveying import forecast as surveying
from patchkit.tree import SourceTree
from patchkit.upstream import index, pinning
from patchkit.upstream.pins import Artifact, Pins, Release
from tests.cli.test_rebase import BASE, CHANGED, HEADER, OTHER, PAGES, files, patch, tree, write
from tests.cli.test_rebase import drifting as drifting
from tests.cli.test_rebase import store as store

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
Trees = dict[str, SourceTree]

LIMIT = patch(BASE, {OTHER: BASE[OTHER].replace(b"3", b"4")})


def release(version: str) -> Release:
    name = f"vllm-{version}-cp38-abi3-manylinux1_x86_64.whl"
    return Release(version, (Artifact(name, 1, "0" * 64, version),))


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the versions that the index has; 0.27.0 to 0.30.0 are pinned."""
    versions: list[str] = []
    pins = Pins(tuple(map(release, ("0.27.0", "0.28.0", "0.29.0", "0.30.0"))))
    monkeypatch.setattr("patchkit.cli.forecast.read_pins", lambda *_, **__: pins)
    monkeypatch.setattr(index, "Index", lambda: "the index")
    monkeypatch.setattr(pinning, "offered_versions", lambda _: list(map(Version, versions)))
    monkeypatch.setattr(pinning, "pin_release", lambda version, *_: release(version))
    return versions


@pytest.fixture
def loop(
    store: Path,
    trees: Trees,
    offered: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return a repository with two patches on 0.28.0; 0.31.0 and its candidate are not pinned."""
    monkeypatch.setenv("PATCHKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    exit_when = HEADER.replace(b"Applies-To", b"Exit-When: release >=0.30\nApplies-To")
    write(store, "patches/v0.28.0/series", b"limit.patch\npages.patch\n")
    write(store, "patches/v0.28.0/limit.patch", LIMIT.replace(HEADER, exit_when))
    after = {**CHANGED, OTHER: b"def limit():\n    return 4\n"}
    trees["v0.27.0"] = tree("0.27.0", BASE)
    trees["v0.31.0"] = tree("0.31.0", after)
    trees["v0.32.0rc1"] = tree("0.32.0rc1", after)
    trees["../vllm"] = SourceTree(after, name="../vllm")
    offered += ["0.20.0", "0.30.0", "0.31.0", "0.32.0rc1"]
    return store


def document(capsys: Out, check: Check, *args: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["forecast", *args, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(found)
    return found


def targets(found: dict[str, Any]) -> list[tuple[str, str | None, bool]]:
    return [(one["target"], one["version"], one["lands"]) for one in found["targets"]]


def test_newer_releases_are_those_pinned_and_those_on_the_index(
    loop: Path, capsys: Out, check: Check
) -> None:
    before = files(loop)
    found = document(capsys, check)
    assert targets(found) == [
        ("0.29.0", "0.29.0", True),
        ("0.30.0", "0.30.0", False),
        ("0.31.0", "0.31.0", False),
    ]
    assert found["unpinned"] == ["0.31.0"]
    assert (found["ok"], found["exit_code"], found["notes"]) == (True, 0, [])
    assert files(loop) == before
    assert not (loop / ".patchkit").exists()


@pytest.mark.usefixtures("loop")
def test_people_see_a_line_a_target_and_what_is_in_the_way(capsys: Out) -> None:
    assert run(["forecast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:7] for line in lines[:4]] == [
        ["target", "verdict", "clean", "drift", "upstream", "open", "by"],
        ["0.29.0", "lands", "2", "0", "0", "0", "0"],
        ["0.30.0", "stops", "1", "0", "0", "1", "1"],
        ["0.31.0", "stops", "0", "0", "1", "1", "1"],
    ]
    assert [line.split()[-1] for line in lines[1:4]] == ["0.28.0"] * 3
    assert lines[4].startswith("0.30.0 pages: conflicts, 1 of 1 by hand, 0.")
    assert lines[4].endswith("...")
    assert len(lines[4]) == 80
    assert lines[5] == "0.30.0 may go by their exit conditions: limit"
    assert lines[6].startswith("0.31.0 pages: conflicts, 1 of 1 by hand, 0.")
    assert lines[7:] == [
        "0.31.0 already upstream: limit",
        "0.31.0 may go by their exit conditions: limit",
        "note: not pinned, and looked at for this forecast only: 0.31.0",
    ]
    assert run(["forecast", "0.31.0", "--why"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " s*  0.28.0" in lines[1]
    assert "#1 " in lines[2]
    assert len(lines[2]) > 80
    assert lines[4:] == [
        "0.31.0 limit: exit condition holds: the release is 0.31.0",
        "* found by an earlier run, and nothing has changed since",
        "note: not pinned, and looked at for this forecast only: 0.31.0",
    ]


@pytest.mark.usefixtures("loop")
def test_pre_releases_are_looked_at_on_request(capsys: Out, check: Check) -> None:
    found = document(capsys, check, "--pre")
    assert [one["target"] for one in found["targets"]][-1] == "0.32.0rc1"
    assert found["unpinned"] == ["0.31.0", "0.32.0rc1"]


@pytest.mark.usefixtures("loop")
def test_the_index_is_left_alone_on_request(
    capsys: Out, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "Index", None)
    found = document(capsys, check, "--pinned")
    assert [one["target"] for one in found["targets"]] == ["0.29.0", "0.30.0"]
    assert found["unpinned"] == []


@pytest.mark.usefixtures("loop")
def test_an_index_that_gives_no_answer_is_a_note(
    capsys: Out, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PatchkitError("no answer: timed out", place="the index")

    monkeypatch.setattr(pinning, "offered_versions", refuse)
    found = document(capsys, check)
    assert [one["target"] for one in found["targets"]] == ["0.29.0", "0.30.0"]
    assert found["notes"] == ["the index was not asked: the index: no answer: timed out"]


@pytest.mark.usefixtures("loop")
def test_a_release_that_cannot_be_pinned_is_a_note_unless_it_was_named(
    capsys: Out, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(version: str, *_: object) -> None:
        raise PatchkitError(f"the index has no vllm {version}")

    monkeypatch.setattr(pinning, "pin_release", refuse)
    found = document(capsys, check)
    assert [one["target"] for one in found["targets"]] == ["0.29.0", "0.30.0"]
    assert found["notes"] == ["0.31.0 was not asked: the index has no vllm 0.31.0"]
    assert run(["forecast", "0.31.0"]) == 1
    assert capsys.readouterr().err == "error: the index has no vllm 0.31.0\n"


@pytest.mark.usefixtures("loop")
def test_releases_and_patches_can_be_named(capsys: Out, check: Check) -> None:
    found = document(capsys, check, "v0.30.0", "limit", "v0.27.0")
    assert [one["target"] for one in found["targets"]] == ["0.30.0", "0.27.0"]
    names = [[p["patch"] for s in one["series"] for p in s["patches"]] for one in found["targets"]]
    assert names == [["limit.patch"], ["limit.patch"]]
    assert [one["lands"] for one in found["targets"]] == [True, True]
    found = document(capsys, check, "0.30.0", "pages.patch", "--must-land", status=3)
    assert (found["ok"], found["targets"][0]["lands"]) == (False, False)
    assert document(capsys, check, "0.30.0", "limit", "--must-land")["ok"] is True


@pytest.mark.usefixtures("loop")
def test_a_tree_is_looked_at_instead_of_releases(capsys: Out, check: Check) -> None:
    found = document(capsys, check, "--target", "../vllm")
    assert targets(found) == [("../vllm", None, False)]
    outlooks = [p["outlook"] for s in found["targets"][0]["series"] for p in s["patches"]]
    assert outlooks == ["upstream", "conflicts"]
    assert found["targets"][0]["series"][0]["patches"][0]["exit"] is None
    assert found["targets"][0]["kept"] is False
    both = document(capsys, check, "0.29.0", "--target", "../vllm", "--must-land", status=3)
    assert [one["target"] for one in both["targets"]] == ["0.29.0", "../vllm"]
    capsys.readouterr()
    assert run(["forecast", "--target", "../vllm", "--must-land"]) == 3
    assert capsys.readouterr().out.splitlines()[-1] == "does not land as it is on ../vllm"


def test_what_waits_for_another_patch_is_blocked(
    loop: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    base = {**BASE, PAGES: BASE[PAGES].replace(b"import math\n", b"import math\n\n\nWIDTH = 1\n")}
    first = {PAGES: base[PAGES].replace(b"WIDTH = 1\n", b"WIDTH = step()\n\n\ndef step():\n    "
                                        b"return 2\n")}  # fmt: skip
    second = {PAGES: first[PAGES].replace(b"size / 16", b"size / step()")}
    trees["v0.28.0"] = tree("0.28.0", base)
    trees["v0.29.0"] = tree("0.29.0", {**BASE, PAGES: base[PAGES].replace(b"WIDTH = 1", b"X = 0")})
    write(loop, "patches/v0.28.0/series", b"pages.patch\nlimit.patch\n")
    write(loop, "patches/v0.28.0/pages.patch", patch(base, first))
    write(loop, "patches/v0.28.0/limit.patch", patch(first, second))
    found = document(capsys, check, "0.29.0")
    pages, limit = found["targets"][0]["series"][0]["patches"]
    assert (pages["outlook"], pages["by_hand"], pages["lands"]) == ("conflicts", 1, False)
    assert (limit["outlook"], limit["by_hand"], limit["lands"]) == ("blocked", 0, False)


@pytest.mark.usefixtures("drifting")
def test_drift_is_left_to_a_person(
    capsys: Out, check: Check, offered: list[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    monkeypatch.setenv("PATCHKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    offered.append("0.32.0")
    found = document(capsys, check, "0.32.0")
    (pages,) = found["targets"][0]["series"][0]["patches"]
    assert (pages["outlook"], pages["by_hand"], pages["lands"]) == ("drifted", 1, False)
    assert pages["reason"].startswith("#1 attribute `stride` is defined")
    assert found["targets"][0]["lands"] is False


def test_what_a_patch_brings_does_not_let_it_go(loop: Path, capsys: Out, check: Check) -> None:
    exit_when = HEADER.replace(b"Applies-To", b"Exit-When: file vllm/new.py\nApplies-To")
    data = patch({}, {"vllm/new.py": b"x = 1\n"}).replace(HEADER, exit_when)
    write(loop, "patches/v0.28.0/limit.patch", data)
    limit = document(capsys, check, "0.29.0")["targets"][0]["series"][0]["patches"][0]
    assert (limit["outlook"], limit["exit"]) == ("clean", None)


@pytest.mark.usefixtures("offered")
def test_nothing_newer_is_said(loop: Path, capsys: Out) -> None:
    write(loop, "patches/v0.40.0/series", b"")
    assert run(["forecast"]) == 0
    assert capsys.readouterr().out == "no newer release is known than those that are stored\n"


def test_a_store_of_which_nothing_is_left_has_nothing_to_move(loop: Path, capsys: Out) -> None:
    write(loop, "patches/v0.29.0/series", b"")
    assert run(["forecast", "0.30.0"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["0.30.0", "nothing", "to", "move"]


@pytest.mark.usefixtures("loop", "unanswered")
def test_a_release_that_cannot_be_opened_has_no_answer(capsys: Out, check: Check) -> None:
    found = document(capsys, check, "--pinned", "--must-land", status=3)
    assert targets(found) == [("0.29.0", "0.29.0", True), ("0.30.0", None, False)]
    assert found["targets"][1]["error"] == "the index: no answer: timed out"
    capsys.readouterr()
    assert run(["forecast", "--pinned"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["0.30.0", "unavailable"]
    assert "0.30.0: the index: no answer: timed out" in lines
    assert run(["forecast", "0.30.0"]) == 1  # one that is named is refused
    assert capsys.readouterr().err == "error: the index: no answer: timed out\n"


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (
            ["nonsense"],
            2,
            "error: patchkit forecast: 'nonsense' is neither a release nor a stored patch, "
            "expected 0.33.0, or one of limit.patch, pages.patch\n",
        ),
        *(
            (
                args,
                2,
                "error: patchkit forecast: --pre and --pinned choose among all newer releases, "
                "and what to look at is named\n",
            )
            for args in (["--pre", "0.30.0"], ["--pinned", "--target", "../vllm"])
        ),
        (["--jobs", "0"], 2, "error: patchkit forecast: invalid value for '--jobs'"),
    ],
)
@pytest.mark.usefixtures("loop")
def test_what_is_not_understood_is_refused(
    args: list[str], status: int, message: str, capsys: Out
) -> None:
    assert run(["forecast", *args]) == status
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.usefixtures("folder")
def test_an_empty_store_is_refused(capsys: Out) -> None:
    assert run(["forecast"]) == 1
    assert capsys.readouterr().err.startswith("error: patches: no series is stored\n")


@pytest.mark.usefixtures("loop")
def test_many_hunks_are_spread_over_processes_in_order(
    capsys: Out, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[str], int]] = []

    def spread(work: Any, items: Any, processes: int, done: Any) -> Any:
        calls.append((list(items), processes))
        look = surveying.Look(work.__self__.config, forecast.tree_opener(None, None))  # type: ignore[arg-type]
        for number, item in enumerate(items, start=1):
            yield look.at(item)
            done(number)

    monkeypatch.setattr(surveying, "spread", spread)
    monkeypatch.setattr(surveying, "WORTH_SPREADING", 4)
    found = document(capsys, check, "0.30.0", "0.29.0", "--jobs", "3")
    assert calls == [(["0.30.0", "0.29.0"], 2)]
    assert [one["target"] for one in found["targets"]] == ["0.30.0", "0.29.0"]
    calls.clear()
    monkeypatch.setattr(surveying, "WORTH_SPREADING", 5)
    document(capsys, check, "0.31.0", "0.27.0", "--jobs", "3")
    document(capsys, check, "0.31.0", "0.27.0", "--jobs", "1")
    assert calls == []
