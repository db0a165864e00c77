"""Exit conditions of stored patches on releases: `exits`, and what check and rebase say of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Pins, Release
from tests.cli.test_rebase import BASE, HEADER, OTHER, PAGES, SHIFTED, patch, tree, write
from tests.cli.test_rebase import store as store

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
Trees = dict[str, SourceTree]

LIMIT = patch(BASE, {OTHER: BASE[OTHER].replace(b"3", b"4")})


def with_exit(data: bytes, *lines: str) -> bytes:
    field = "Exit-When: " + "\n ".join(lines) + "\nApplies-To"
    return data.replace(b"Applies-To", field.encode(), 1)


@pytest.fixture
def waiting(store: Path, trees: Trees, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of which one patch waits for a symbol that comes with 0.29.0."""
    write(store, "patches/v0.28.0/series", b"limit.patch\npages.patch\n")
    data = with_exit(LIMIT, "symbol vllm.pages:Pool", "release >=0.28")
    write(store, "patches/v0.28.0/limit.patch", data)
    pool = SHIFTED[PAGES] + b"\n\nclass Pool:\n    pass\n"
    trees["v0.29.0"] = tree("0.29.0", {**SHIFTED, PAGES: pool})
    trees["main"] = SourceTree({PAGES: pool}, name="main")
    pins = Pins(tuple(Release(v, ()) for v in ("0.28.0", "0.29.0", "0.30.0")))
    monkeypatch.setattr("patchkit.cli.exits.read_pins", lambda *_: pins)
    assert run(["check"]) == 0
    return store


def document(capsys: Out, check: Check, *args: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["exits", *args, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(found)
    return found


@pytest.mark.usefixtures("waiting")
def test_every_patch_that_names_conditions_is_tried_on_every_pinned_release(
    capsys: Out, check: Check
) -> None:
    found = document(capsys, check)
    assert found["targets"] == ["0.28.0", "0.29.0", "0.30.0"]
    (row,) = found["patches"]
    assert (row["folder"], row["patch"]) == ("patches", "limit.patch")
    assert [(c["stored"], c["holding"], c["text"]) for c in row["targets"]] == [
        ("0.28.0", "not held", "vllm/pages.py has no `Pool`"),
        ("0.28.0", "held", "vllm/pages.py:18: `Pool` is defined; the release is 0.29.0"),
        ("0.28.0", "not held", "vllm/pages.py has no `Pool`"),
    ]
    assert row["targets"][1]["conditions"] == [
        {
            "condition": "symbol vllm.pages:Pool",
            "holding": "held",
            "text": "`Pool` is defined",
            "place": "vllm/pages.py:18",
        },
        {
            "condition": "release >=0.28",
            "holding": "held",
            "text": "the release is 0.29.0",
            "place": None,
        },
    ]


@pytest.mark.usefixtures("waiting")
def test_people_see_a_table_and_where_a_patch_may_go_first(capsys: Out) -> None:
    capsys.readouterr()
    assert run(["exits"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "      0.28.0 0.29.0 0.30.0",
        "limit .      go     .",
        "go its conditions hold; . they do not; ? the tree does not say",
        "limit: may go on 0.29.0",
        "  vllm/pages.py:18: `Pool` is defined; the release is 0.29.0",
    ]
    assert run(["exits", "v0.29.0", "--target", "main", "--why"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "      0.29.0 main",
        "limit go     ?",
        "go its conditions hold; . they do not; ? the tree does not say",
        "0.29.0 limit: held",
        "  symbol vllm.pages:Pool: held: vllm/pages.py:18: `Pool` is defined",
        "  release >=0.28: held: the release is 0.29.0",
        "main limit: cannot say",
        "  symbol vllm.pages:Pool: held: vllm/pages.py:18: `Pool` is defined",
        "  release >=0.28: cannot say: main has no release number",
    ]
    assert run(["exits", "--target", "main"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "limit: main does not say",
        "  main has no release number",
    ]


@pytest.mark.usefixtures("waiting")
def test_all_must_hold_on_request(capsys: Out, check: Check) -> None:
    assert document(capsys, check, "0.29.0", "--must-hold")["ok"] is True
    assert document(capsys, check, "--must-hold", status=3)["ok"] is False
    document(capsys, check, "--target", "main", "--must-hold", status=3)


def test_the_header_is_that_of_the_release_or_of_the_nearest_that_has_the_patch(
    waiting: Path, capsys: Out, check: Check
) -> None:
    write(waiting, "patches/v0.29.0/series", b"limit.patch\n")
    write(waiting, "patches/v0.29.0/limit.patch", with_exit(LIMIT, "file vllm/other.py"))
    write(waiting, "patches/v0.30.0/series", b"")
    (row,) = document(capsys, check)["patches"]
    assert [(c["stored"], c["holding"]) for c in row["targets"]] == [
        ("0.28.0", "not held"),
        ("0.29.0", "held"),
        ("0.29.0", "held"),
    ]


def test_a_release_below_all_that_is_stored_takes_the_lowest_header(
    waiting: Path, capsys: Out, check: Check
) -> None:
    (waiting / "patches/v0.28.0").rename(waiting / "patches/v0.29.0")
    write(waiting, "patches/v0.30.0/series", b"limit.patch\n")
    write(waiting, "patches/v0.30.0/limit.patch", with_exit(LIMIT, "file vllm/other.py"))
    (row,) = document(capsys, check, "0.28.0")["patches"]
    assert [(c["stored"], c["holding"]) for c in row["targets"]] == [("0.29.0", "not held")]


@pytest.mark.usefixtures("waiting", "unanswered")
def test_a_release_that_cannot_be_opened_does_not_say(capsys: Out, check: Check) -> None:
    (row,) = document(capsys, check)["patches"]
    assert row["targets"][2] == {
        "target": "0.30.0",
        "stored": None,
        "holding": "cannot say",
        "text": "the index: no answer: timed out",
        "conditions": [],
    }
    capsys.readouterr()
    assert run(["exits", "0.30.0", "--why"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "0.30.0 limit: cannot say",
        "  the index: no answer: timed out",
    ]


@pytest.mark.usefixtures("store")
def test_no_conditions_are_said_to_be_none(capsys: Out) -> None:
    assert run(["exits", "0.28.0"]) == 0
    assert capsys.readouterr().out == (
        "no patch names a condition that can be tried; the header's field is Exit-When\n"
    )


def test_a_wrong_condition_is_refused_with_its_line(waiting: Path, capsys: Out) -> None:
    write(waiting, "patches/v0.28.0/limit.patch", with_exit(LIMIT, "file vllm/a.py", "soon"))
    assert run(["exits"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: patches/v0.28.0/limit.patch:7: Exit-When begins with 'soon', expected one of "
    )
    write(waiting, "patches/v0.27.0/same-as.toml", b'same-as = "v0.28.0"\n')
    assert run(["exits"]) == 1
    assert capsys.readouterr().err.startswith("error: patches/v0.28.0/limit.patch:7: ")


# What check and rebase say -----------------------------------------------------------------------


def test_a_rebase_says_which_patches_may_go(waiting: Path, capsys: Out) -> None:
    capsys.readouterr()
    assert run(["rebase", "v0.29.0"]) == 0
    assert (
        "note: exit condition of limit.patch holds on 0.29.0: vllm/pages.py:18: `Pool` is defined; "
        "the release is 0.29.0; drop it with `patchkit drop limit`\n"
    ) in capsys.readouterr().out
    assert run(["rebase", "--target", "main"]) in (0, 3)
    assert "exit condition" not in capsys.readouterr().out
    write(waiting, "patches/v0.28.0/limit.patch", with_exit(LIMIT, "soon"))
    assert run(["rebase", "v0.29.0", "--update"]) == 0
    assert (
        "note: exit conditions were not looked at: patches/v0.28.0/limit.patch:6: Exit-When begins"
    ) in capsys.readouterr().out


def test_what_a_series_below_brings_lets_no_patch_go(
    waiting: Path, trees: Trees, capsys: Out
) -> None:
    write(waiting, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "more"]\n')
    write(waiting, "patches/v0.28.0/pages.patch", patch({}, {"vllm/new.py": b"x = 1\n"}))
    write(waiting, "more/v0.28.0/series", b"limit.patch\n")
    other = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    data = patch(other, {OTHER: other[OTHER].replace(b"4", b"5")})
    write(waiting, "more/v0.28.0/limit.patch", with_exit(data, "file vllm/new.py"))
    trees["v0.30.0"] = tree("0.30.0", BASE)
    capsys.readouterr()
    assert run(["rebase", "v0.30.0"]) == 0
    assert "exit condition" not in capsys.readouterr().out


def test_check_finds_a_stored_patch_whose_own_release_lets_it_go(
    waiting: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.29.0"]) == 0
    trees["v0.29.1"] = tree("0.29.1", {**trees["v0.29.0"].files})
    write(waiting, "patches/v0.29.1/same-as.toml", b'same-as = "v0.29.0"\n')
    capsys.readouterr()
    assert run(["check", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    check(found)
    kinds = [[finding["kind"] for finding in entry["findings"]] for entry in found["series"]]
    assert kinds == [[], ["exit"], ["exit"]]
    assert found["series"][2]["findings"][0]["place"] == "patches/v0.29.0/limit.patch:6"
    assert found["series"][1]["findings"] == [
        {
            "kind": "exit",
            "place": "patches/v0.29.0/limit.patch:6",
            "text": "its Exit-When holds on v0.29.0: vllm/pages.py:18: `Pool` is defined; "
            "the release is 0.29.0",
        }
    ]


def test_check_tells_a_wrong_condition_once(waiting: Path, capsys: Out) -> None:
    write(waiting, "patches/v0.28.0/limit.patch", with_exit(LIMIT, "soon"))
    capsys.readouterr()
    assert run(["check"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "Exit-When" in line] == [
        "patches/v0.28.0/limit.patch:6: header: Exit-When begins with 'soon', expected one of "
        "symbol, file, text, release, no-symbol, no-file, no-text"
    ]


def test_an_exit_that_holds_keeps_nothing_from_being_written(
    waiting: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.0"] = tree("0.28.0", {**BASE, PAGES: BASE[PAGES] + b"\n\nclass Pool: ...\n"})
    (waiting / "patches/v0.28.0/limit.anchors.toml").unlink()
    capsys.readouterr()
    assert run(["check"]) == 3
    assert "wrote patches/v0.28.0/limit.anchors.toml\n" in capsys.readouterr().out
    assert HEADER in (waiting / "patches/v0.28.0/pages.patch").read_bytes()
