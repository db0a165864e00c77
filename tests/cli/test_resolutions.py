"""Resolutions remembered by a rebase, replayed by later ones, listed and taken back."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from tests.cli.test_rebase import (
    AUTHORED,
    BASE,
    CHANGED,
    EDITED,
    PAGES,
    Check,
    Out,
    Trees,
    files,
    patch,
    report,
    tree,
    write,
)

MEMORY = "patches/resolutions.toml"
# a later release, in which the definition is otherwise beside what was resolved
LATER = {**CHANGED, PAGES: CHANGED[PAGES].replace(b"return total", b"return total or 1")}
RESOLVE = ["rebase", "--continue", "--reason", "shifts now"]


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with one patch on 0.28.0, which conflicts on 0.30.0 and on 0.33.0."""
    trees["v0.28.0"] = tree("0.28.0", BASE)
    trees["v0.30.0"] = tree("0.30.0", CHANGED)
    trees["v0.33.0"] = tree("0.33.0", LATER)
    write(folder, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches"]\n')
    write(folder, "patches/v0.28.0/series", b"pages.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", patch(BASE, AUTHORED))
    return folder


@pytest.fixture
def resolved(store: Path, capsys: Out) -> Path:
    """Return the repository with the conflict on 0.30.0 resolved."""
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(RESOLVE) == 0
    capsys.readouterr()
    return store


def replayed(document: dict[str, Any]) -> list[tuple[str, str] | None]:
    found = [outcome["replayed"] for outcome in document["outcomes"]]
    return [(r["release"], r["how"]) if r else None for r in found]


def test_what_is_resolved_once_is_not_asked_again_on_a_later_release(
    resolved: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.33.0", "--from", "v0.28.0", "--json"]) == 0
    document = report(capsys, check)
    assert replayed(document) == [("0.30.0", "carried")]
    after = {PAGES: LATER[PAGES].replace(b"blocks << 4", b"(blocks << 4) + 1")}
    assert files(resolved)["patches/v0.33.0/pages.patch"] == patch(LATER, after)
    assert b'used_on = ["0.30.0", "0.33.0"]\n' in files(resolved)[MEMORY]
    write(resolved, "patches/v0.33.0/pages.patch", patch(LATER, {PAGES: b"x = 1\n"}))
    assert run(["rebase", "v0.33.0", "--from", "v0.28.0", "--update"]) == 0
    assert b'used_on = ["0.30.0", "0.33.0"]\n' in files(resolved)[MEMORY]


def test_people_are_told_what_was_replayed(resolved: Path, capsys: Out) -> None:
    del resolved
    run(["rebase", "v0.33.0", "--from", "v0.28.0"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "patches/pages.patch, hunk 1: replayed, carried: resolved for 0.30.0: shifts now",
        "patches: 0.28.0 -> 0.33.0: written to patches/v0.33.0",
    ]


def test_a_resolution_outlives_the_rebase_that_is_given_up(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    both = {**CHANGED, PAGES: CHANGED[PAGES].replace(b"size / 16", b"size >> 4")}
    trees["v0.30.0"] = tree("0.30.0", both)
    limit = {PAGES: AUTHORED[PAGES].replace(b"size / 16", b"size / 32")}
    write(store, "patches/v0.28.0/series", b"pages.patch\nlimit.patch\n")
    write(store, "patches/v0.28.0/limit.patch", patch(AUTHORED, limit))
    run(["rebase", "v0.30.0"])
    first = both[PAGES].replace(b"blocks << 4", b"(blocks << 4) + 1")
    write(store, f".patchkit/rebase/files/{PAGES}", first)
    assert run(RESOLVE) == 3
    assert run(["rebase", "--abort"]) == 0
    assert not (store / "patches/v0.30.0").exists()
    assert b'reason = "shifts now"\n' in files(store)[MEMORY]
    assert b"used_on = []\n" in files(store)[MEMORY]
    capsys.readouterr()
    assert run(["rebase", "v0.30.0", "--json"]) == 3
    document = report(capsys, check)
    assert replayed(document) == [("0.30.0", "exact"), None]
    assert document["state"]["patch"] == "limit.patch"
    # what was replayed is in the copy to edit
    assert files(store / ".patchkit/rebase")[f"files/{PAGES}"] == first


def test_what_was_replayed_is_in_the_copy_to_edit(store: Path, trees: Trees) -> None:
    tail = b"\n\ndef far():\n    return 1\n"
    both = {PAGES: AUTHORED[PAGES] + tail.replace(b"1", b"2")}
    trees["v0.28.0"] = tree("0.28.0", {PAGES: BASE[PAGES] + tail})
    trees["v0.30.0"] = tree("0.30.0", {PAGES: CHANGED[PAGES] + tail})
    trees["v0.31.0"] = tree("0.31.0", {PAGES: CHANGED[PAGES] + tail.replace(b"1", b"3")})
    write(store, "patches/v0.28.0/pages.patch", patch({PAGES: BASE[PAGES] + tail}, both))
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED + tail.replace(b"1", b"2"))
    assert run(RESOLVE) == 0
    (store / "patches/v0.28.0/pages.anchors.toml").unlink()  # or it would be an adaptation
    assert run(["rebase", "v0.31.0", "--from", "v0.28.0"]) == 3
    assert files(store / ".patchkit/rebase")[f"files/{PAGES}"] == (
        EDITED + tail.replace(b"1", b"3")
    )


def test_a_renamed_patch_on_another_base_is_known_by_its_hunk(
    resolved: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    shutil.rmtree(resolved / "patches/v0.28.0")
    shutil.rmtree(resolved / "patches/v0.30.0")
    trees["v0.29.0"] = tree("0.29.0", {**BASE, PAGES: b"import sys\n" + BASE[PAGES]})
    write(resolved, "patches/v0.29.0/series", b"sizes.patch\n")
    moved = {PAGES: b"import sys\n" + AUTHORED[PAGES]}
    write(resolved, "patches/v0.29.0/sizes.patch", patch(dict(trees["v0.29.0"].files), moved))
    # its lines are the same three lines below
    assert run(["rebase", "v0.30.0", "--json"]) == 0
    assert replayed(report(capsys, check)) == [("0.30.0", "exact")]


def test_what_is_remembered_of_a_patch_goes_by_its_new_name(
    resolved: Path, capsys: Out, check: Check
) -> None:
    assert (resolved / MEMORY).is_file()
    assert run(["rename", "pages", "blocks"]) == 0
    assert "patches/resolutions.toml: 1 resolution" in capsys.readouterr().out.splitlines()
    assert run(["resolutions"]) == 0
    assert capsys.readouterr().out.startswith("1. patches/blocks.patch, hunk 1: made for 0.30.0\n")
    assert run(["rebase", "v0.33.0", "--from", "v0.28.0", "--json"]) == 0
    assert replayed(report(capsys, check)) == [("0.30.0", "carried")]
    assert run(["resolutions", "--forget", "blocks"]) == 0


def test_a_new_name_under_which_the_same_is_remembered_is_refused(
    resolved: Path, capsys: Out
) -> None:
    text = files(resolved)[MEMORY].decode()
    _, row = text.split("[[resolution]]")
    other = f"{text}\n[[resolution]]{row.replace('pages.patch', 'blocks.patch')}"
    write(resolved, MEMORY, other.encode())
    assert run(["rename", "pages", "blocks"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/resolutions.toml: remembers the same resolution of blocks.patch already, "
        "expected another name\n"
        "hint: `patchkit resolutions --forget blocks` if it is of another patch\n"
    )
    assert files(resolved)[MEMORY].decode() == other


def test_what_does_not_hold_any_more_is_in_the_note(
    resolved: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    other = {**BASE, PAGES: BASE[PAGES].replace(b"blocks * 16", b"shift(blocks)")}
    trees["v0.34.0"] = tree("0.34.0", other)
    assert run(["rebase", "v0.34.0", "--from", "v0.28.0", "--json"]) == 3
    (outcome,) = report(capsys, check)["outcomes"]
    assert (
        "a resolution made for 0.30.0 is remembered, and does not hold: `size` in the target "
        in (outcome["reason"])
    )
    note = (resolved / ".patchkit/rebase/pages.patch.conflict.md").read_text()
    assert "What was made of it for 0.30.0 (shifts now):\n\n```diff\n@@ " in note
    assert "+    total = (blocks << 4) + 1\n" in note


def test_a_later_resolution_of_the_same_release_takes_the_place_of_the_first(
    resolved: Path, trees: Trees
) -> None:
    shutil.rmtree(resolved / "patches/v0.30.0")
    (resolved / "patches/v0.28.0/pages.anchors.toml").unlink()
    other = CHANGED[PAGES].replace(b"blocks << 4", b"blocks << 5")
    trees["v0.30.0"] = tree("0.30.0", {**CHANGED, PAGES: other})
    run(["rebase", "v0.30.0"])
    write(resolved, f".patchkit/rebase/files/{PAGES}", other.replace(b"<< 5", b"<< 6"))
    assert run(["rebase", "--continue", "--reason", "again"]) == 0
    text = files(resolved)[MEMORY].decode()
    assert text.count("[[resolution]]") == 1
    assert 'reason = "again"\n' in text


def test_resolutions_are_listed_shown_and_forgotten(
    resolved: Path, capsys: Out, check: Check
) -> None:
    assert run(["resolutions"]) == 0
    assert capsys.readouterr().out == (
        "1. patches/pages.patch, hunk 1: made for 0.30.0\n"
        "   vllm/pages.py size\n"
        "   shifts now\n"
        "   used on 0.30.0\n"
        "1 resolution\n"
    )
    assert run(["resolutions", "--json"]) == 0
    (entry,) = report(capsys, check)["resolutions"]
    assert (entry["definitions"], entry["can_be_carried"]) == (["size"], True)
    assert run(["resolutions", "--show", "1"]) == 0
    assert "+    total = (blocks << 4) + 1\n" in capsys.readouterr().out
    assert run(["resolutions", "--forget", "pages", "--json"]) == 0
    assert report(capsys, check)["forgotten"] is True
    assert not (resolved / MEMORY).exists()
    assert run(["rebase", "v0.33.0", "--from", "v0.28.0"]) == 3
    capsys.readouterr()
    assert run(["resolutions"]) == 0
    assert capsys.readouterr().out == "no resolution is remembered\n"


def test_one_of_two_is_forgotten_by_its_number(resolved: Path, trees: Trees, capsys: Out) -> None:
    other = CHANGED[PAGES].replace(b"blocks << 4", b"blocks | 4")
    trees["v0.31.0"] = tree("0.31.0", {**CHANGED, PAGES: other})
    run(["rebase", "v0.31.0", "--from", "v0.28.0"])
    write(resolved, f".patchkit/rebase/files/{PAGES}", other.replace(b"| 4", b"| 5"))
    assert run(["rebase", "--continue", "--reason", "or"]) == 0
    capsys.readouterr()
    assert run(["resolutions", "--forget", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "forgotten: 1 resolution; what is stored already was not changed"
    )
    text = files(resolved)[MEMORY].decode()
    assert 'reason = "or"\n' in text
    assert 'reason = "shifts now"\n' not in text


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["--show", "2"], 1, "there is no resolution 2, expected a number up to 1"),
        (["--forget", "0"], 1, "there is no resolution 0, expected a number up to 1"),
        (["--forget", "x"], 1, "no resolution of x is remembered, expected pages.patch"),
        (
            ["--show", "1", "--forget", "1"],
            2,
            "patchkit resolutions: --show and --forget are two things",
        ),
    ],
)
def test_what_is_not_there_is_refused(
    resolved: Path, args: list[str], status: int, message: str, capsys: Out
) -> None:
    before = files(resolved)
    assert run(["resolutions", *args]) == status
    assert capsys.readouterr().err.splitlines()[0] == f"error: {message}"
    assert files(resolved) == before


def test_a_damaged_memory_is_named_with_its_place(resolved: Path, capsys: Out) -> None:
    good = files(resolved)[MEMORY]
    rows = good.split(b"[[resolution]]")[1]
    damages = {
        b"format = 2\n": "is of format 2, expected format 1",
        b"format": (
            "is not TOML: Expected '=' after a key in a key/value pair (at end of document)"
        ),
        b"format = 1\nother = 1\n": "unknown field `other`",
        b"format = 1\nresolution = 1\n": "resolution is no list, expected [[resolution]] tables",
        good + b"[[resolution]]" + rows: "has one resolution twice",
        good.replace(b'reason = "shifts now"', b'reason = " "'): (
            "resolution 1: the reason is empty"
        ),
        good.replace(b'used_on = ["0.30.0"]', b"used_on = [1]"): (
            "resolution 1: `used_on` holds something that is not a text"
        ),
        good.replace(b'patch = "pages.patch"\n', b""): (
            "resolution 1: field `patch` is missing or not a str"
        ),
    }
    for data, text in damages.items():
        write(resolved, MEMORY, data)
        assert run(["rebase", "v0.33.0", "--from", "v0.28.0"]) == 1
        told = capsys.readouterr().err.splitlines()[0]
        assert told == f"error: {MEMORY}: {text}"
    write(resolved, MEMORY, good.replace(b"@@ -", b"@@ x", 1))
    assert run(["resolutions"]) == 1
    assert f"{MEMORY}: resolution 1: `diff` is no unified diff: " in capsys.readouterr().err


def test_a_memory_survives_being_written_and_read(resolved: Path) -> None:
    from patchkit.series.resolutions import format_resolutions, parse_resolutions

    data = files(resolved)[MEMORY]
    assert format_resolutions(parse_resolutions(data, MEMORY)) == data
    assert [line.partition(" ")[0] for line in data.decode().splitlines()[:5]] == [
        "#",
        "#",
        "format",
        "",
        "[[resolution]]",
    ]


def test_a_dry_move_onto_a_tree_replays_and_writes_nothing(
    resolved: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    trees["../vllm"] = tree("0.33.1.dev1", LATER)
    before = files(resolved)
    assert run(["rebase", "--target", "../vllm", "--from", "v0.28.0", "--json"]) == 0
    assert replayed(report(capsys, check)) == [("0.30.0", "carried")]
    assert files(resolved) == before


CALLS = "vllm/calls.py"


def test_a_replay_is_held_against_the_release_that_it_was_made_for(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    def shifted(callee: bytes) -> dict[str, bytes]:
        return {**CHANGED, CALLS: callee}

    there = b"def shift(blocks, by=4, more=0):\n    return blocks << by\n"
    trees["v0.30.0"] = tree("0.30.0", shifted(there))
    trees["v0.31.0"] = tree("0.31.0", shifted(there.replace(b"by=4", b"up=True, by=4")))
    trees["v0.32.0"] = tree("0.32.0", shifted(there.replace(b"<<", b"*")))
    run(["rebase", "v0.30.0"])
    edited = b"from vllm.calls import shift\n" + CHANGED[PAGES].replace(
        b"blocks << 4", b"shift(blocks, 5, 1)"
    )
    write(store, f".patchkit/rebase/files/{PAGES}", edited)
    assert run(RESOLVE) == 0
    assert run(["rebase", "v0.32.0", "--from", "v0.28.0"]) == 0
    capsys.readouterr()
    assert run(["rebase", "v0.31.0", "--from", "v0.28.0", "--json"]) == 3
    (outcome,) = report(capsys, check)["outcomes"]
    assert [drift["text"] for drift in outcome["drifts"]] == [
        "argument 2 of `shift` binds to `by` in 0.30.0 (vllm/calls.py:1) and to `up` in 0.31.0 "
        "(vllm/calls.py:1); argument 3 of `shift` binds to `more` in 0.30.0 (vllm/calls.py:1) and "
        "to `by` in 0.31.0 (vllm/calls.py:1)"
    ]
    run(["rebase", "--abort"])
