"""Status: every patch on every release, on small series; what is open; what other releases make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import fitting, forecast, run
from patchkit.cli.fitting import filled, table
from patchkit.repository.log import format_log, read_log
from patchkit.repository.store import read_stored
from patchkit.repository.verdicts import read_tests, source_digest
from patchkit.series.overlay import Overlay, format_overlay, overlay_entry
from patchkit.series.proof_digest import digest_tests
from patchkit.series.resolutions import format_resolutions
from patchkit.series.verdict import Colour, StoredVerdict, Verdict, format_verdicts
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Artifact, Pins, Release
from tests.cli.test_rebase import (
    AUTHORED,
    BASE,
    CHANGED,
    EDITED,
    HEADER,
    OTHER,
    PAGES,
    patch,
    tree,
    write,
)
from tests.cli.test_rebase import store as store
from tests.test_replay import resolution

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
Trees = dict[str, SourceTree]

LIMIT = patch(BASE, {OTHER: BASE[OTHER].replace(b"3", b"4")})


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PATCHKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def loop(store: Path, trees: Trees) -> Path:
    """Return a repository after some releases: moved, settled by hand, one patch left out."""
    write(store, "patches/v0.28.0/series", b"limit.patch\npages.patch\n")
    write(store, "patches/v0.28.0/limit.patch", LIMIT)
    trees["v0.31.0"] = tree("0.31.0", {**CHANGED, OTHER: b"def limit():\n    return 4\n"})
    assert run(["rebase", "v0.29.0"]) == 0
    assert run(["rebase", "v0.30.0"]) == 3
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 0
    assert run(["rebase", "v0.31.0"]) == 0
    assert run(["check"]) == 0
    return store


def document(capsys: Out, check: Check, *args: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["status", *args, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(found)
    return found


def states(found: dict[str, Any]) -> dict[str, list[str]]:
    return {
        row["patch"]: [cell["state"] for cell in row["cells"]] for row in found["matrix"]["rows"]
    }


def test_people_see_every_patch_on_every_release(loop: Path, capsys: Out) -> None:
    days = [entry.date.isoformat() for entry in read_log(loop, "patches")]
    capsys.readouterr()
    assert run(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "      0.28.0 0.29.0 0.30.0 0.31.0",
        "pages new    =      hand   =",
        "limit new    =      =      out",
        "new the lowest release that has it;",
        "= removes and adds what it does in the release below;",
        "hand adapted by hand for the release; out left out",
    ]
    assert lines[6] == f"patches/limit: left out of 0.31.0: already upstream, {days[2]}"
    assert lines[7].startswith(f"patches: 0.28.0 -> 0.29.0 on {days[0]}, 0.")
    by_hand = f"{lines[8]} {lines[9].strip()}"  # which is longer than a line
    assert len(lines[8]) <= 80
    assert by_hand.startswith(f"patches: 0.29.0 -> 0.30.0 on {days[1]}, 0.")
    assert by_hand.endswith(" s from stop to end")
    assert ", 1 hunk by hand, " in by_hand
    assert lines[10].startswith(f"patches: 0.30.0 -> 0.31.0 on {days[2]}, 0.")
    assert lines[11:] == ["2 patches, 4 releases: sound"]


def test_a_program_gets_the_same_with_the_days(loop: Path, capsys: Out, check: Check) -> None:
    found = document(capsys, check)
    assert found["matrix"]["releases"] == ["0.28.0", "0.29.0", "0.30.0", "0.31.0"]
    assert states(found) == {
        "pages.patch": ["new", "as_below", "by_hand", "as_below"],
        "limit.patch": ["new", "as_below", "as_below", "left_out"],
    }
    days = [entry.date.isoformat() for entry in read_log(loop, "patches")]
    cells = found["matrix"]["rows"][1]["cells"]
    assert [cell["rebased"] for cell in cells] == [None, *days]
    assert cells[3]["reason"] == f"already upstream, {days[2]}"
    assert cells[2]["reason"] is None
    assert [(r["base"], r["target"], r["by_hand"]) for r in found["rebases"]] == [
        ("0.28.0", "0.29.0", 0),
        ("0.29.0", "0.30.0", 1),
        ("0.30.0", "0.31.0", 0),
    ]
    assert found["open"] == {"rebase": None, "edits": []}
    assert found["forecasts"] is None
    assert found["releases"][3]["left_out"] == [{"patch": "limit.patch", "why": None}]


def test_by_hand_is_known_when_the_base_has_gone(loop: Path, capsys: Out, check: Check) -> None:
    for file in (loop / "patches/v0.29.0").iterdir():
        file.unlink()
    (loop / "patches/v0.29.0").rmdir()
    assert states(document(capsys, check))["pages.patch"] == ["new", "by_hand", "as_below"]


def test_by_hand_is_known_without_a_log(loop: Path, capsys: Out, check: Check) -> None:
    (loop / "patches/rebases.toml").unlink()
    found = document(capsys, check)
    assert states(found)["pages.patch"] == ["new", "as_below", "by_hand", "as_below"]
    assert found["matrix"]["rows"][1]["cells"][3]["reason"] is None
    capsys.readouterr()
    assert run(["status"]) == 0
    assert "patches/limit: left out of 0.31.0: no reason is kept\n" in capsys.readouterr().out


def test_another_text_is_told_from_other_lines_around_it(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.29.0"])
    first = {PAGES: BASE[PAGES].replace(b"* 16\n", b"* 16 + 2\n")}
    write(store, "patches/v0.28.0/pages.patch", patch(BASE, first))
    run(["check"])
    found = document(capsys, check)
    assert states(found) == {"pages.patch": ["new", "changed"]}


def test_other_context_alone_is_no_other_text(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    other = {**BASE, PAGES: BASE[PAGES].replace(b"Return the", b"Return a")}
    trees["v0.29.0"] = tree("0.29.0", other)
    assert run(["rebase", "v0.29.0"]) == 0
    assert b"Return a size" in (store / "patches/v0.29.0/pages.patch").read_bytes()
    run(["check"])
    assert states(document(capsys, check)) == {"pages.patch": ["new", "as_below"]}


def test_a_reason_holds_until_the_patch_is_back(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    for release in ("0.29.0", "0.30.0", "0.31.0"):
        trees[f"v{release}"] = tree(release, BASE)
    write(store, "patches/v0.29.0/series", b"# pages: not there\n")
    write(store, "patches/v0.30.0/series", b"pages.patch\n")
    write(store, "patches/v0.30.0/pages.patch", patch(BASE, AUTHORED))
    write(store, "patches/v0.31.0/series", b"\n")
    run(["check"])
    (row,) = document(capsys, check)["matrix"]["rows"]
    assert [(cell["state"], cell["reason"]) for cell in row["cells"]] == [
        ("new", None),
        ("left_out", "not there"),
        ("as_below", None),
        ("left_out", None),
    ]


def test_the_last_rebase_onto_a_release_counts(store: Path, capsys: Out, check: Check) -> None:
    run(["rebase", "v0.29.0"])
    run(["check"])
    (made,) = read_log(store, "patches")
    old = replace(made, date=date(2020, 1, 1))
    new = replace(made, date=date(2030, 1, 1), seconds=7.5)
    write(store, "patches/rebases.toml", format_log([old, new]))
    found = document(capsys, check)
    assert found["matrix"]["rows"][0]["cells"][1]["rebased"] == "2030-01-01"
    assert [(entry["date"], entry["seconds"]) for entry in found["rebases"]] == [
        ("2030-01-01", 7.5)
    ]


def test_a_release_that_is_the_same_as_another_is_said_to_be(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["check", "--series", "patches"])
    write(store, "patches/v0.28.1/same-as.toml", b'same-as = "v0.28.0"\n')
    write(store, "patches/v0.27.0/series", b"\n")
    found = document(capsys, check, "--series", "patches")
    assert states(found) == {"pages.patch": ["not_yet", "new", "same_as"]}
    assert run(["status"]) == 0
    out = capsys.readouterr().out
    assert "pages .      new    same\n" in out
    assert "patches/v0.28.1 is the same as v0.28.0\n" in out


def test_why_a_patch_is_out_is_said_by_the_series_file_first_and_holds_for_later_releases(
    loop: Path, capsys: Out
) -> None:
    name = "patches/v0.31.0/series"
    write(loop, name, b"# limit: in upstream as 4\n" + (loop / name).read_bytes())
    write(loop, "patches/v0.32.0/same-as.toml", b'same-as = "v0.31.0"\n')
    capsys.readouterr()
    assert run(["status"]) == 0
    assert "patches/limit: left out of 0.31.0 to 0.32.0: in upstream as 4\n" in (
        capsys.readouterr().out
    )


def test_a_skipped_patch_is_said_to_be(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    run(["rebase", "--skip", "--yes"])
    day = read_log(store, "patches")[0].date
    run(["check"])
    capsys.readouterr()
    assert run(["status"]) == 0
    assert f"patches/pages: left out of 0.30.0: skipped, {day}\n" in capsys.readouterr().out


def test_problems_are_marked_and_told_below(loop: Path, capsys: Out, check: Check) -> None:
    (loop / "patches/v0.29.0/limit.anchors.toml").unlink()
    write(loop, "patches/v0.31.0/series", b"gone.patch\n")
    found = document(capsys, check, status=3)
    assert states(found) == {
        "pages.patch": ["new", "as_below", "by_hand", "problem"],
        "limit.patch": ["new", "problem", "as_below", "problem"],
    }
    assert run(["status"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[1:3]) == ["limit new    !      =      !", "pages new    =      hand   !"]
    assert lines[-3:] == [
        "problem: patches/v0.29.0/limit.anchors.toml: is missing",
        "problem: patches/v0.31.0/series:1: patch gone.patch is missing",
        "2 patches, 4 releases: 2 problems",
    ]


def test_new_files_whose_source_changed_or_is_gone_are_problems(loop: Path, capsys: Out) -> None:
    entry = overlay_entry("kernels/new.py", "vllm/new.py", b"x = 1\n")
    write(loop, "patches/v0.29.0/overlay.toml", format_overlay(Overlay((entry,))))
    write(loop, "kernels/new.py", b"x = 1\n")
    assert run(["status"]) == 0
    write(loop, "kernels/new.py", b"x = 2\n")
    assert run(["status"]) == 3
    said = capsys.readouterr().out
    assert "problem: patches/v0.29.0/overlay.toml: source kernels/new.py has sha256 " in said
    (loop / "kernels/new.py").unlink()
    assert run(["status"]) == 3
    said = "".join(capsys.readouterr().out.split())  # a long path is filled into lines
    assert "kernels/new.py:nosuchfileordirectory" in said


@pytest.mark.parametrize("name", ["rebases.toml", "verdicts.toml"])
def test_a_damaged_file_beside_the_releases_is_a_problem(
    store: Path, capsys: Out, check: Check, name: str
) -> None:
    run(["check"])
    write(store, f"patches/{name}", b"format = 7\n")
    found = document(capsys, check, status=3)
    assert found["problems"] == [f"patches/{name}: is of format 7, expected format 1"]
    assert found["ok"] is False


def test_a_second_series_folder_stands_below_its_name(loop: Path, capsys: Out) -> None:
    write(loop, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "more"]\n')
    write(loop, "more/v0.29.0/series", b"extra.patch\n")
    write(loop, "more/v0.29.0/extra.patch", LIMIT)
    capsys.readouterr()
    assert run(["status"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "patches:",
        "      0.28.0 0.29.0 0.30.0 0.31.0",
        "pages new    =      hand   =",
        "limit new    =      =      out",
        "more:",
        "      0.28.0 0.29.0 0.30.0 0.31.0",
    ]
    assert lines[6] == "extra        !"
    assert run(["status", "--series", "more"]) == 3
    assert capsys.readouterr().out.splitlines()[:2] == ["      0.29.0", "extra !"]


# Verdicts of tests -------------------------------------------------------------------------------


def verdict(folder: Path, release: str, patch: str, what: Verdict, base: str) -> StoredVerdict:
    stored = read_stored(folder, "patches", base)
    digest = source_digest(stored, patch)
    tests = ("tests/test_pages.py",)
    of_tests = digest_tests(tests, read_tests(folder, tests, "p"))
    return StoredVerdict(
        release, patch, what, Colour.RED, None, "it said so", base, tests, digest, digest, of_tests
    )


def test_what_tests_said_stands_behind_the_sign(loop: Path, capsys: Out, check: Check) -> None:
    write(loop, "tests/test_pages.py", b"def test(): assert 0\n")
    header = b"Test: tests/test_pages.py\nApplies-To:"
    for release in ("0.28.0", "0.29.0", "0.30.0", "0.31.0"):
        path = loop / f"patches/v{release}/pages.patch"
        path.write_bytes(path.read_bytes().replace(b"Applies-To:", header, 1))
    stale = verdict(loop, "0.31.0", "pages.patch", Verdict.NEEDED, "0.31.0")
    verdicts = [
        verdict(loop, "0.28.0", "pages.patch", Verdict.NEEDED, "0.28.0"),
        verdict(loop, "0.29.0", "pages.patch", Verdict.SUPERSEDED, "0.29.0"),
        verdict(loop, "0.30.0", "pages.patch", Verdict.BROKEN, "0.30.0"),
        StoredVerdict(**{**stale.__dict__, "test_sha256": "0" * 64}),
    ]
    write(loop, "patches/verdicts.toml", format_verdicts(verdicts))
    found = document(capsys, check)
    cells = found["matrix"]["rows"][0]["cells"]
    assert [(cell["test"], cell["test_stale"]) for cell in cells] == [
        ("needed", False),
        ("superseded", False),
        ("broken", False),
        ("needed", True),
    ]
    assert run(["status"]) == 0
    out = capsys.readouterr().out
    assert "pages new+   =-     handx  =?\n" in out
    assert (
        "+ needed, by its tests; - superseded: its tests pass without it; "
        "x its tests fail with it, too, or are broken; ? the verdict of its tests is stale "
    ) in " ".join(out.split())


def test_tests_that_prove_nothing_have_one_sign(loop: Path, capsys: Out) -> None:
    write(loop, "tests/test_pages.py", b"def test(): assert 0\n")
    for release in ("0.28.0", "0.29.0"):
        path = loop / f"patches/v{release}/pages.patch"
        field = b"Test: tests/test_pages.py\nApplies-To:"
        path.write_bytes(path.read_bytes().replace(b"Applies-To:", field, 1))
    verdicts = [
        verdict(loop, "0.28.0", "pages.patch", Verdict.NOT_EFFECTIVE, "0.28.0"),
        verdict(loop, "0.29.0", "pages.patch", Verdict.BROKEN, "0.29.0"),
    ]
    write(loop, "patches/verdicts.toml", format_verdicts(verdicts))
    capsys.readouterr()
    assert run(["status"]) == 0
    out = capsys.readouterr().out
    assert "pages newx   =x     hand   =\n" in out
    assert out.count("x its tests fail with it, too, or are broken") == 1


def test_a_verdict_is_held_against_what_is_stored_for_its_release(
    loop: Path, capsys: Out, check: Check
) -> None:
    write(loop, "tests/test_pages.py", b"def test(): assert 0\n")
    for release in ("0.28.0", "0.29.0"):
        path = loop / f"patches/v{release}/pages.patch"
        field = b"Test: tests/test_pages.py\nApplies-To:"
        path.write_bytes(path.read_bytes().replace(b"Applies-To:", field, 1))
    made = verdict(loop, "0.29.0", "pages.patch", Verdict.NEEDED, "0.28.0")
    gone = replace(made, release="0.31.0", patch="limit.patch", base="0.27.0")
    write(loop, "patches/verdicts.toml", format_verdicts([made, gone]))

    def stale() -> list[bool]:
        rows = document(capsys, check, status=3 if changed else 0)["matrix"]["rows"]
        return [rows[0]["cells"][1]["test_stale"], rows[1]["cells"][3]["test_stale"]]

    changed = False
    (loop / "patches/v0.28.0/limit.patch").rename(loop / "patches/v0.28.0/l.patch")
    write(loop, "patches/v0.28.0/series", b"l.patch\npages.patch\n")
    (loop / "patches/v0.28.0/limit.anchors.toml").rename(loop / "patches/v0.28.0/l.anchors.toml")
    assert stale() == [False, False]  # what limit was moved from is not stored any more
    changed = True
    path.write_bytes(path.read_bytes().replace(b"* 16 + 1", b"* 16 + 3"))
    assert stale() == [True, False]


def test_a_patch_that_its_tests_supersede_is_out_for_that_reason(loop: Path, capsys: Out) -> None:
    write(loop, "tests/test_pages.py", b"def test(): assert 0\n")
    (loop / "patches/rebases.toml").unlink()
    made = verdict(loop, "0.31.0", "limit.patch", Verdict.SUPERSEDED, "0.28.0")
    write(loop, "patches/verdicts.toml", format_verdicts([made]))
    capsys.readouterr()
    assert run(["status"]) == 0
    out = capsys.readouterr().out
    assert "limit new    =      =      out?\n" in out  # the patch names no test any more
    assert "patches/limit: left out of 0.31.0: superseded: it said so\n" in out


# What is begun -----------------------------------------------------------------------------------


def test_a_stopped_rebase_and_open_work_trees_are_told(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["check"])
    assert run(["rebase", "v0.30.0"]) == 3
    write(store, ".patchkit/edit/v0.28.0.json", b'{"path": "/w/t", "patch": "pages.patch"}')
    write(store, ".patchkit/edit/v0.29.0.json", b'{"path": "/w/u", "patch": null}')
    found = document(capsys, check)
    assert found["open"] == {
        "rebase": {"target": "v0.30.0", "series": "patches", "patch": "pages.patch", "hunks": [1]},
        "edits": [
            {"release": "0.28.0", "path": "/w/t", "patch": "pages.patch"},
            {"release": "0.29.0", "path": "/w/u", "patch": None},
        ],
    }
    assert run(["status"]) == 0
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "open: a rebase onto v0.30.0 has stopped at patches/pages.patch, hunk 1",
        "  patchkit rebase --continue, --skip or --abort",
        "open: a work tree of v0.28.0 in /w/t, at pages.patch",
        "open: a work tree of v0.29.0 in /w/u",
        "1 patch, 1 release: sound",
    ]


def test_damaged_state_is_a_problem(store: Path, capsys: Out, check: Check) -> None:
    run(["check"])
    write(store, ".patchkit/rebase/state.json", b"{")
    write(store, ".patchkit/edit/v0.28.0.json", b"[]")
    found = document(capsys, check, status=3)
    assert found["problems"] == [
        ".patchkit/rebase/state.json: damaged state",
        ".patchkit/edit/v0.28.0.json: damaged state",
    ]


# Releases that are not stored --------------------------------------------------------------------


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the releases that are pinned, to be changed."""
    versions: list[str] = []

    def pins(*_: object, **__: object) -> Pins:
        def artifact(version: str) -> Artifact:
            name = f"vllm-{version}-cp38-abi3-manylinux1_x86_64.whl"
            return Artifact(name, 1, "0" * 64, version)

        return Pins(tuple(Release(v, (artifact(v),)) for v in versions))

    monkeypatch.setattr("patchkit.cli.options.read_pins", pins)
    monkeypatch.setattr("patchkit.cli.forecast.read_pins", pins)
    versions += ["0.27.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0"]
    return versions


@pytest.fixture
def asked(store: Path, trees: Trees, pinned: list[str]) -> Path:
    """Return a repository with one stored release and four that are pinned besides."""
    assert len(pinned) == 5
    write(store, "patches/v0.28.0/series", b"limit.patch\npages.patch\n")
    exit_when = HEADER.replace(b"Applies-To", b"Exit-When: release >=0.31\nApplies-To")
    write(store, "patches/v0.28.0/limit.patch", LIMIT.replace(HEADER, exit_when))
    trees["v0.27.0"] = tree("0.27.0", BASE)
    trees["v0.31.0"] = tree("0.31.0", {**CHANGED, OTHER: b"def limit():\n    return 4\n"})
    assert run(["check"]) == 0
    return store


def test_all_asks_the_releases_that_are_not_stored(asked: Path, capsys: Out, check: Check) -> None:
    capsys.readouterr()
    assert run(["status", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("not stored, and what a rebase from the nearest stored release would come to:")
    assert lines[at + 1] == "      0.27.0 0.29.0 0.30.0   0.31.0    time"
    assert lines[at + 2].startswith("limit clean  clean  clean    upstream> 0.")
    assert lines[at + 3].startswith("pages clean  clean  conflict conflict  0.")
    assert lines[at + 4].startswith("time  0.")
    assert lines[at + 5 : at + 8] == [
        "clean lands as it is; upstream the release has it;",
        "conflict some hunks are to be settled by hand; > its exit condition holds",
        "`patchkit forecast RELEASE`, or --why, says what is in the way",
    ]
    assert not (asked / "patches/v0.29.0").exists()
    found = document(capsys, check, "--all")
    assert [f["target"] for f in found["forecasts"]] == ["0.27.0", "0.29.0", "0.30.0", "0.31.0"]
    last = found["forecasts"][3]
    assert (last["version"], last["kept"], last["lands"], last["error"]) == (
        "0.31.0",
        True,
        False,
        None,
    )
    (series,) = last["series"]
    assert (series["folder"], series["base"], series["notes"]) == ("patches", "0.28.0", [])
    limit, pages = series["patches"]
    assert limit["seconds"] >= 0
    assert {**limit, "seconds": 0} == {
        "patch": "limit.patch",
        "outlook": "upstream",
        "hunks": 1,
        "by_hand": 0,
        "upstream": 1,
        "reason": None,
        "seconds": 0,
        "exit": "the release is 0.31.0",
        "lands": True,
    }
    assert (pages["outlook"], pages["by_hand"], pages["lands"]) == ("conflicts", 1, False)
    assert pages["reason"].startswith("#1 ")


@pytest.mark.usefixtures("asked")
def test_why_says_what_is_in_the_way(capsys: Out) -> None:
    capsys.readouterr()
    assert run(["status", "--releases", "0.31.0", "--why"]) == 0
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert lines[0] == "2 patches, 1 release: sound"
    assert lines[1].startswith("0.31.0 pages: conflicts, 1 of 1 by hand, 0.")
    assert " s: #1 " in lines[1]
    assert lines[2:] == [
        "0.31.0 already upstream: limit",
        "0.31.0 limit: exit condition holds: the release is 0.31.0",
    ]


def test_an_answer_is_kept_until_something_that_it_was_made_from_changes(
    asked: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    def kept() -> list[bool]:
        found = document(capsys, check, "--releases", ">=0.29,<0.31")
        return [forecast["kept"] for forecast in found["forecasts"]]

    assert kept() == [False, False]
    assert kept() == [True, True]
    path = asked / "patches/v0.28.0/pages.patch"
    path.write_bytes(path.read_bytes().replace(b"Add one", b"Add 1"))
    assert kept() == [False, False]
    assert kept() == [True, True]
    write(asked, "tests/test_pages.py", b"def test(): assert 0\n")
    made = verdict(asked, "0.30.0", "pages.patch", Verdict.SUPERSEDED, "0.28.0")
    write(asked, "patches/verdicts.toml", format_verdicts([made]))
    assert kept() == [True, False]
    assert kept() == [True, True]
    remembered = resolution()
    write(asked, "patches/resolutions.toml", format_resolutions([remembered]))
    assert kept() == [False, False]
    # where it was used since makes no difference
    used = replace(remembered, used_on=("0.30.0",))
    write(asked, "patches/resolutions.toml", format_resolutions([used]))
    assert kept() == [True, True]
    trees.clear()  # nothing is opened
    assert kept() == [True, True]


@pytest.mark.usefixtures("asked", "unanswered")
def test_a_release_that_cannot_be_asked_is_told(capsys: Out, check: Check) -> None:
    capsys.readouterr()
    assert run(["status", "--all"]) == 3
    assert "0.30.0 could not be asked: the index: no answer: timed out\n" in capsys.readouterr().out
    found = document(capsys, check, "--all", status=3)
    assert [f["error"] for f in found["forecasts"]] == [
        None,
        None,
        "the index: no answer: timed out",
        None,
    ]
    assert [f["kept"] for f in found["forecasts"]] == [True, True, False, True]


@pytest.mark.usefixtures("loop")
def test_what_is_not_in_the_nearest_release_is_out(
    trees: Trees, pinned: list[str], capsys: Out
) -> None:
    pinned.append("0.32.0")
    trees["v0.32.0"] = tree("0.32.0", dict(trees["v0.31.0"].files))
    capsys.readouterr()
    assert run(["status", "--releases", "0.32.0"]) == 0
    out = capsys.readouterr().out
    assert "\nlimit out    0.00s\n" in out
    assert "out not in the nearest stored release" in out


def test_a_folder_that_holds_a_release_is_not_asked_of_it(
    asked: Path, capsys: Out, check: Check
) -> None:
    write(asked, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "more"]\n')
    for release in ("0.28.0", "0.29.0"):
        write(asked, f"more/v{release}/series", b"other.patch\n")
        data = patch({}, {"vllm/more.py": b"x = 1\n"})
        write(asked, f"more/v{release}/other.patch", data)
    assert run(["check"]) == 0
    found = document(capsys, check, "--releases", "0.29.0,0.30.0")
    shown = [(f["target"], s["folder"], s["base"]) for f in found["forecasts"] for s in f["series"]]
    assert shown == [
        ("0.29.0", "patches", "0.28.0"),
        ("0.30.0", "patches", "0.28.0"),
        ("0.30.0", "more", "0.29.0"),
    ]
    found = document(capsys, check, "--releases", "0.29.0", "--series", "more")
    assert found["forecasts"] == []


def test_a_store_without_patches_is_sound(folder: Path, pinned: list[str], capsys: Out) -> None:
    write(folder, "patches/v0.28.0/series", b"")
    pinned[:] = ["0.28.0"]
    assert run(["status", "--all"]) == 0
    assert capsys.readouterr().out == "0 patches, 1 release: sound\n"


def test_a_series_with_nothing_to_move_is_no_error(
    store: Path,
    pinned: list[str],
    capsys: Out,
    check: Check,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(["rebase", "v0.30.0"])
    run(["rebase", "--skip", "--yes"])
    run(["check"])
    write(store, "patches/v0.31.0/series", b"\n")
    pinned[:] = ["0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0"]
    trees = {"v0.32.0": tree("0.32.0", BASE), "v0.31.0": tree("0.31.0", BASE)}
    monkeypatch.setattr(forecast, "tree_opener", lambda *_: trees.__getitem__)
    found = document(capsys, check, "--releases", "0.32.0")
    assert [(f["target"], f["series"], f["error"]) for f in found["forecasts"]] == [
        ("0.32.0", [], None)
    ]


@pytest.mark.parametrize("option", [["--why"], ["--jobs", "2"]])
def test_what_is_for_other_releases_needs_them(
    option: list[str], folder: Path, capsys: Out
) -> None:
    write(folder, "patches/v0.28.0/series", b"")
    assert run(["status", *option]) == 2
    assert capsys.readouterr().err == (
        "error: patchkit status: --why and --jobs are for --all\n"
        "hint: `patchkit status --help` has examples\n"
    )


# The layout --------------------------------------------------------------------------------------


def test_twenty_patches_on_fifteen_releases_fit_eighty_columns() -> None:
    releases = [f"0.{number}.0" for number in range(20, 35)]
    rows = [(f"a-patch-with-a-name-{n:02}", ["hand+"] * 15) for n in range(20)]
    lines = table(releases, rows, 80)
    assert max(map(len, lines)) <= 80
    assert lines.count("") == 1  # two blocks
    assert len(lines) == 2 * 21 + 1
    assert lines[0].split() == releases[:8]
    assert lines[22].split() == releases[8:]
    assert lines[21] == ""


def test_a_block_takes_as_many_columns_as_fit_and_no_more() -> None:
    rows = [("n", ["x", "y"])]
    assert table(["aaaa", "bbbb"], rows, 11) == ["  aaaa bbbb", "n x    y"]
    assert table(["aaaa", "bbbb"], rows, 10) == ["  aaaa", "n x", "", "  bbbb", "n y"]


def test_a_column_that_is_wider_than_the_line_stands_alone() -> None:
    assert table(["long title", "b"], [("name", ["x", "y"])], 8) == [
        "     long title",
        "name x",
        "",
        "     b",
        "name y",
    ]


def test_names_are_filled_into_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "line_width", lambda: 20)
    assert list(filled("0.31.0: ", ["alpha", "beta", "gamma", "delta"])) == [
        "0.31.0: alpha, beta,",
        "  gamma, delta",
    ]
    assert list(filled("0.31.0: ", [])) == []


def test_long_names_of_patches_are_cut(folder: Path, capsys: Out) -> None:
    write(folder, "patches/v0.28.0/series", b"a-name-that-is-much-too-long-for-a-column.patch\n")
    write(folder, "patches/v0.28.0/a-name-that-is-much-too-long-for-a-column.patch", LIMIT)
    assert run(["status"]) == 3
    assert capsys.readouterr().out.splitlines()[1] == "a-name-that-is-much-too-l... !"


@pytest.mark.usefixtures("loop")
def test_signs_have_a_colour_on_a_terminal(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    capsys.readouterr()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["status"]) == 0
    out = capsys.readouterr().out
    assert "limit new    =      =      \x1b[2mout\x1b[0m\n" in out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["status"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_status_needs_no_engine() -> None:
    script = (
        "import sys\nfrom patchkit.cli import run\nrun(['status', '--json'])\n"
        "heavy = ('rich', 'git', 'tomlkit', 'rapidfuzz', 'filelock', 'patchkit.stacking', "
        "'patchkit.placing.landing', 'patchkit.upstream.source')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == "[]\n"
    assert json.loads(done.stdout)["schema"] == "patchkit.status/1"
