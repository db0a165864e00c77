"""Show on small trees that stand for releases: what is stored, and the move that led to it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from patchkit.series.overlay import Overlay, format_overlay, overlay_entry
from patchkit.tree import SourceTree

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]

HEADER = b"""\
Description: Add one to every page
 It is short.
Reason: pages are one short
Origin: written here
Forwarded: no
Exit-Condition: pages are no longer short,
 or gone
Applies-To: >=0.28,<0.40

"""
PAGES = "vllm/pages.py"
BASE = b'''\
import math


def size(blocks):
    """Return the size."""
    total = blocks * 16
    check(total)
    return total


def count(size):
    return math.ceil(size / 16)
'''
AUTHORED = BASE.replace(b"    total = blocks * 16\n", b"    total = blocks * 16 + 1\n")
RENAMED = BASE.replace(b"total", b"pages")
CHANGED = BASE.replace(b"blocks * 16", b"blocks << 4")
PATCH = HEADER + format_files(diff_files({PAGES: BASE}, {PAGES: AUTHORED}))


def write(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def store(folder: Path, trees: Trees, capsys: Out) -> Path:
    """Return a repository with one patch on 0.28.0, moved to 0.29.0; on 0.30.0 it conflicts."""
    for version, content in (("0.28.0", BASE), ("0.29.0", RENAMED), ("0.30.0", CHANGED)):
        trees[f"v{version}"] = SourceTree({PAGES: content}, name=f"v{version}", version=version)
    write(folder, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches"]\n')
    write(folder, "patches/v0.28.0/series", b"pages.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", PATCH)
    assert run(["rebase", "v0.29.0"]) == 0
    capsys.readouterr()
    return folder


def report(capsys: Out, check: Check) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(document)
    return document


def only(document: dict[str, Any]) -> dict[str, Any]:
    (series,) = document["series"]
    (patch,) = series["patches"]
    (file,) = patch["files"]
    (hunk,) = file["hunks"]
    return dict(hunk)


HEAD = """\
pages.patch: Add one to every page
  for >=0.28,<0.40
  forwarded no
  until pages are no longer short, or gone
  vllm/pages.py
"""


@pytest.mark.usefixtures("store")
def test_the_highest_release_is_shown_patch_by_patch(capsys: Out) -> None:
    assert run(["show"]) == 0
    assert capsys.readouterr().out == (
        f"patches/v0.29.0: 1 patch, 1 hunk\n{HEAD}    #1 line 3, +1 -1 in size: operand replaced\n"
    )


@pytest.mark.usefixtures("store")
def test_a_named_patch_comes_with_its_whole_header(capsys: Out) -> None:
    assert run(["show", "0.28.0", "pages"]) == 0
    assert capsys.readouterr().out.splitlines()[1:10] == [
        "pages.patch: Add one to every page",
        "  It is short.",
        "  reason: pages are one short",
        "  origin: written here",
        "  for: >=0.28,<0.40",
        "  forwarded: no",
        "  until: pages are no longer short,",
        "  or gone",
        "  vllm/pages.py",
    ]


@pytest.mark.usefixtures("store")
def test_without_fresh_anchors_the_diff_itself_names_the_definition(
    capsys: Out, check: Check
) -> None:
    # 0.28.0 was never checked, so that no anchors lie beside its patch
    assert run(["show", "v0.28.0", "--json"]) == 0
    document = report(capsys, check)
    hunk = only(document)
    assert (hunk["definitions"], hunk["edits"], hunk["outcome"]) == ([], [], None)
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["show", "v0.28.0", "--json"]) == 0
    hunk = only(report(capsys, check))
    assert (hunk["definitions"], hunk["edits"]) == (["size"], ["operand replaced"])


def test_anchors_of_another_text_say_nothing_of_this_one(
    store: Path, capsys: Out, check: Check
) -> None:
    path = store / "patches/v0.29.0/pages.patch"
    path.write_bytes(path.read_bytes().replace(b"+ 1", b"+ 2"))
    assert run(["show", "--json"]) == 0
    assert only(report(capsys, check))["edits"] == []


def test_why_makes_the_move_again_and_writes_nothing(store: Path, capsys: Out) -> None:
    before = {p: p.read_bytes() for p in store.rglob("*") if p.is_file()}
    assert run(["show", "v0.29.0", "--why"]) == 0
    assert capsys.readouterr().out == (
        "patches/v0.29.0, moved from v0.28.0: 1 patch, 1 hunk, stored as the move makes it\n"
        f"{HEAD}    #1 line 3, +1 -1\n"
        "       placed by renamed\n"
        "         from       vllm/pages.py, size\n"
        "         to         vllm/pages.py:6, size\n"
        "         renamed    total -> pages in size: taken back, and made again on the result\n"
        "         because    with upstream's rename taken back, all 7 old lines stand at line 3\n"
        "                    `total` in `size` is called `pages` in the target\n"
        "                    operand replaced in `size`: what it replaces is unchanged there\n"
    )
    assert {p: p.read_bytes() for p in store.rglob("*") if p.is_file()} == before


@pytest.mark.usefixtures("store")
def test_why_as_json_holds_each_outcome(capsys: Out, check: Check) -> None:
    assert run(["show", "v0.29.0", "pages#1", "--why", "--json"]) == 0
    document = report(capsys, check)
    (series,) = document["series"]
    assert (series["base"], series["target"], series["differences"]) == ("0.28.0", "v0.29.0", [])
    outcome = only(document)["outcome"]
    assert outcome["renames"] == [
        {"kind": "variable", "scope": "size", "old": "total", "new": "pages"}
    ]
    assert outcome["rejected"] == []


def test_what_is_stored_otherwise_is_said_and_is_a_finding(store: Path, capsys: Out) -> None:
    path = store / "patches/v0.29.0/pages.patch"
    path.write_bytes(path.read_bytes().replace(b"+ 1", b"+ 2"))
    assert run(["show", "--why"]) == 3
    assert capsys.readouterr().out.startswith(
        "patches/v0.29.0, moved from v0.28.0: 1 patch, 1 hunk; "
        "what is stored is not what the move makes:\n"
        "  pages.patch: differs in vllm/pages.py\n"
    )


def test_evidence_is_of_the_trees_of_now(store: Path, trees: Trees, capsys: Out) -> None:
    # nothing of the earlier move is kept: another target gives another reason
    del store
    trees["v0.29.0"] = SourceTree({PAGES: CHANGED}, name="v0.29.0", version="0.29.0")
    assert run(["show", "--why"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("patches/v0.29.0, moved from v0.28.0: 1 patch, 1 hunk; the move would")
    assert "rejected   offset: its 7 old lines stand nowhere in the file as they are\n" in out
    line = "line 6 of the base, `total = blocks * 16`, has no counterpart in its place"
    assert f"merge3: {line}\n" in out


@pytest.mark.usefixtures("store")
def test_a_stopped_rebase_is_the_one_that_why_shows(capsys: Out, check: Check) -> None:
    assert run(["rebase", "v0.30.0"]) == 3
    capsys.readouterr()
    assert run(["show", "--why"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "patches, stopped on its way from v0.29.0 to v0.30.0: 1 patch, 1 hunk"
    assert run(["show", "v0.30.0", "--why", "--json"]) == 3
    (series,) = report(capsys, check)["series"]
    assert (series["stopped"], series["differences"]) == (True, None)
    assert run(["show", "v0.29.0", "--why"]) == 0  # another release is not what has stopped


def test_an_overlay_file_that_the_target_has_is_a_finding(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    path, source = "vllm/new.py", b"x = 1\n"
    write(store, "overlay/new.py", source)
    overlay = Overlay((overlay_entry("overlay/new.py", path, source),))
    write(store, "patches/v0.28.0/overlay.toml", format_overlay(overlay))
    own = {PAGES: RENAMED, path: b"x = 2\n"}
    trees["v0.29.0"] = SourceTree(own, name="v0.29.0", version="0.29.0")
    assert run(["show", "v0.29.0", "--why", "--json"]) == 3
    (series,) = report(capsys, check)["series"]
    assert (series["overlay_clashes"], series["differences"]) == ([path], None)
    assert run(["show", "v0.29.0", "--why"]) == 3
    assert f"\n{path}: in the overlay, and in the target already\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ["v0.28.0", "--why"],
            1,
            "error: patches/v0.28.0: was not moved from another release: none below it is stored\n"
            "hint: `patchkit show v0.28.0` shows what is in it; `patchkit show v0.29.0 --why` how "
            "it was moved on\n",
        ),
        (
            ["v0.31.0"],
            1,
            "error: patches: no series is stored for v0.31.0\n"
            "hint: stored are: v0.28.0, v0.29.0; `patchkit rebase v0.31.0` moves one there\n",
        ),
        (
            ["pages#2"],
            1,
            "error: patches/v0.29.0: there is no pages#2\n"
            "hint: `patchkit show v0.29.0` lists the patches and their hunks\n",
        ),
        (
            ["v0.29.0", "pages", "more"],
            2,
            "error: patchkit show: 'more' is one too many, expected a release, a patch or "
            "PATCH#HUNK, in this order\nhint: `patchkit show --help` has examples\n",
        ),
        (
            ["--from", "v0.28.0"],
            2,
            "error: patchkit show: --from is for --why\n"
            "hint: `patchkit show --help` has examples\n",
        ),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_cannot_be_shown_is_refused(
    words: list[str], status: int, message: str, capsys: Out
) -> None:
    assert run(["show", *words]) == status
    assert capsys.readouterr().err == message


@pytest.mark.usefixtures("store")
def test_port_prints_the_same_facts_on_request(capsys: Out) -> None:
    args = ["patches/v0.28.0/pages.patch", "--base", "v0.28.0", "--target", "v0.29.0"]
    assert run(["port", *args, "--why"]) == 0
    assert capsys.readouterr().out == (
        "patches/v0.28.0/pages.patch:1: placed by renamed\n"
        "  from       vllm/pages.py, size\n"
        "  to         vllm/pages.py:6, size\n"
        "  renamed    total -> pages in size: taken back, and made again on the result\n"
        "  because    with upstream's rename taken back, all 7 old lines stand at line 3\n"
        "             `total` in `size` is called `pages` in the target\n"
        "             operand replaced in `size`: what it replaces is unchanged there\n"
        "1 hunk: 1 placed\n"
    )
