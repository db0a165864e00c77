"""Rebase on small trees that stand for releases; the engine is the real one."""

import json
import shutil
import tomllib
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
Reason: pages are one short
Origin: written here
Forwarded: no
Exit-Condition: pages are no longer short
Applies-To: >=0.28,<0.40

"""
PAGES = "vllm/pages.py"
OTHER = "vllm/other.py"
BASE = {
    PAGES: b'''\
import math


def size(blocks):
    """Return the size."""
    total = blocks * 16
    return total


def count(size):
    return math.ceil(size / 16)
''',
    OTHER: b"def limit():\n    return 3\n",
}
AUTHORED = {
    PAGES: BASE[PAGES].replace(b"    total = blocks * 16\n", b"    total = blocks * 16 + 1\n")
}
# lines above move
SHIFTED = {**BASE, PAGES: b"import sys\n" + BASE[PAGES] + b"\n\nprint(sys)\n"}
# what the hunk replaces has gone
CHANGED = {**BASE, PAGES: BASE[PAGES].replace(b"blocks * 16", b"blocks << 4")}
EDITED = CHANGED[PAGES].replace(b"blocks << 4", b"(blocks << 4) + 1")


def tree(version: str, files: dict[str, bytes]) -> SourceTree:
    return SourceTree(files, name=f"v{version}", version=version)


def patch(before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
    old = {path: before[path] for path in after if path in before}
    return HEADER + format_files(diff_files(old, after))


def files(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {n: p.read_bytes() for n, p in found.items() if not n.startswith(".patchkit/")}


def write(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with one patch on 0.28.0; 0.29.0 is shifted, 0.30.0 conflicts."""
    trees["v0.28.0"] = tree("0.28.0", BASE)
    trees["v0.29.0"] = tree("0.29.0", SHIFTED)
    trees["v0.30.0"] = tree("0.30.0", CHANGED)
    write(folder, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches"]\n')
    write(folder, "patches/v0.28.0/series", b"# one\npages.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", patch(BASE, AUTHORED))
    return folder


def report(capsys: Out, check: Check) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(document)
    return document


def test_a_series_that_lands_is_stored_under_the_release(
    store: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    document = report(capsys, check)
    assert document["ok"] is True
    assert document["series"] == [
        {
            "folder": "patches",
            "base": "0.28.0",
            "patches": ["pages.patch"],
            "unshipped": [],
            "overlay_clashes": [],
            "overlay_drifts": [],
            "stored": {"path": "patches/v0.29.0", "state": "written", "differences": []},
        }
    ]
    assert [(o["series"], o["patch"], o["hunk"], o["status"]) for o in document["outcomes"]] == [
        ("patches", "pages.patch", 1, "placed")
    ]
    stored = files(store / "patches/v0.29.0")
    assert sorted(stored) == ["pages.anchors.toml", "pages.patch", "series"]
    assert stored["series"] == b"# one\npages.patch\n"
    after = {PAGES: SHIFTED[PAGES].replace(b"* 16\n", b"* 16 + 1\n")}
    assert stored["pages.patch"] == patch(SHIFTED, after)
    assert not (store / ".patchkit/rebase").exists()


@pytest.mark.usefixtures("store")
def test_people_see_a_line_a_hunk_and_what_was_stored(capsys: Out) -> None:
    assert run(["rebase", "v0.29.0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("pages.patch:1: placed (offset) vllm/pages.py:7 size: ")
    assert lines[1:] == [
        "1 hunk: 1 placed",
        "patches: 0.28.0 -> 0.29.0: written to patches/v0.29.0",
    ]


def test_what_is_stored_already_is_compared_and_left(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.29.0"])
    before = files(store)
    capsys.readouterr()
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    assert report(capsys, check)["series"][0]["stored"]["state"] == "unchanged"
    assert files(store) == before


def test_another_content_there_is_a_finding_and_update_replaces_it(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.29.0"])
    good = files(store)
    name = "patches/v0.29.0/pages.patch"
    write(store, name, good[name].replace(b"one short", b"too short").replace(b"+ 1\n", b"+ 2\n"))
    write(store, "patches/v0.29.0/README", b"kept")
    other = files(store)
    capsys.readouterr()
    assert run(["rebase", "v0.29.0", "--json"]) == 3
    document = report(capsys, check)
    assert document["ok"] is False
    assert document["series"][0]["stored"] == {
        "path": "patches/v0.29.0",
        "state": "differs",
        "differences": ["pages.patch: differs in header, vllm/pages.py"],
    }
    assert files(store) == other
    assert run(["rebase", "v0.29.0", "--update"]) == 0
    log = files(store)["patches/rebases.toml"]
    kept = {"patches/v0.29.0/README": b"kept", "patches/rebases.toml": log}
    assert files(store) == {**good, **kept}


@pytest.mark.usefixtures("store")
def test_the_base_is_the_nearest_lower_other_release_unless_named(
    trees: Trees, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.29.0"])
    trees["v0.31.0"] = tree("0.31.0", SHIFTED)
    capsys.readouterr()
    run(["rebase", "v0.31.0", "--json"])
    assert report(capsys, check)["series"][0]["base"] == "0.29.0"
    run(["rebase", "v0.31.0", "--from", "0.28", "--json"])
    assert report(capsys, check)["series"][0]["base"] == "0.28.0"


@pytest.mark.usefixtures("store")
def test_no_lower_release_is_refused_with_what_there_is(trees: Trees, capsys: Out) -> None:
    trees["v0.27.1"] = tree("0.27.1", BASE)
    assert run(["rebase", "v0.27.1"]) == 1
    assert capsys.readouterr().err == (
        "error: patches: holds no release below v0.27.1\n"
        "hint: name one with --from; stored are v0.28.0\n"
    )
    assert run(["rebase", "v0.27.1", "--from", "v0.26.0"]) == 1
    assert capsys.readouterr().err.startswith("error: patches: holds no v0.26.0 to move from\n")


def test_an_empty_store_is_refused(folder: Path, trees: Trees, capsys: Out) -> None:
    trees["v0.29.0"] = tree("0.29.0", BASE)
    assert run(["rebase", "v0.29.0"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: patches: no series is stored that could be moved from another release\nhint: "
    )
    assert list(folder.iterdir()) == [folder / ".patchkit"]


def test_a_conflict_lays_out_the_file_and_stores_nothing(
    store: Path, capsys: Out, check: Check
) -> None:
    before = files(store)
    assert run(["rebase", "v0.30.0", "--json"]) == 3
    document = report(capsys, check)
    assert document["series"][0]["stored"]["state"] == "withheld"
    assert document["state"] == {
        "folder": ".patchkit/rebase",
        "series": "patches",
        "patch": "pages.patch",
        "note": ".patchkit/rebase/pages.patch.conflict.md",
        "files": [{"edit": f".patchkit/rebase/files/{PAGES}", "path": PAGES, "hunks": [1]}],
        "drifted": [],
    }
    assert files(store) == before
    laid_out = files(store / ".patchkit/rebase")
    assert sorted(laid_out) == [f"files/{PAGES}", "pages.patch.conflict.md", "state.json"]
    assert laid_out[f"files/{PAGES}"] == CHANGED[PAGES]
    note = laid_out["pages.patch.conflict.md"].decode()
    assert note.startswith("# pages.patch: 1 open hunk, from 0.28.0 to 0.30.0\n\n## Hunk 1: ")
    assert "+    total = blocks * 16 + 1\n" in note
    assert "In the base, vllm/pages.py:4, `size`:\n\n```python\ndef size(blocks):\n" in note
    assert "    total = blocks << 4\n" in note


@pytest.mark.usefixtures("store")
def test_people_are_told_how_to_go_on(capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "patches: 0.28.0 -> 0.30.0: not stored",
        "stopped at patches/pages.patch; .patchkit/rebase/pages.patch.conflict.md says why",
        "  edit .patchkit/rebase/files/vllm/pages.py",
        'then: patchkit rebase --continue --reason "..."',
        "or:   patchkit rebase --skip --yes   or   patchkit rebase --abort",
    ]


@pytest.mark.usefixtures("store")
def test_a_second_rebase_is_refused_while_one_has_stopped(capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    capsys.readouterr()
    assert run(["rebase", "v0.29.0"]) == 1
    assert capsys.readouterr().err == (
        "error: .patchkit/rebase: a rebase onto v0.30.0 has stopped at patches/pages.patch\n"
        "hint: finish it with `patchkit rebase --continue`, leave the patch out with `--skip`, "
        "or drop it with `--abort`\n"
    )


def test_an_edit_becomes_an_adaptation_and_finishes_the_rebase(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "shifts now", "--json"]) == 0
    document = report(capsys, check)
    assert document["series"][0]["stored"]["state"] == "written"
    assert document["outcomes"][0]["method"] == "adaptation"
    assert document["outcomes"][0]["evidence"][0]["text"] == "stored for 0.30.0: shifts now"
    assert not (store / ".patchkit/rebase").exists()
    stored = files(store)
    assert stored["patches/v0.30.0/pages.patch"] == patch(CHANGED, {PAGES: EDITED})
    anchors = stored["patches/v0.28.0/pages.anchors.toml"].decode()
    assert '[[override.adaptation]]\nrelease = "0.30.0"\npath = "vllm/pages.py"\n' in anchors
    assert 'reason = "shifts now"\n' in anchors


def test_a_stored_adaptation_is_used_until_its_ground_changes(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    run(["rebase", "--continue", "--reason", "shifts now"])
    for path in (store / "patches/v0.30.0").iterdir():
        path.unlink()
    capsys.readouterr()
    assert run(["rebase", "v0.30.0", "--json"]) == 0
    assert report(capsys, check)["outcomes"][0]["method"] == "adaptation"
    again = {**CHANGED, PAGES: CHANGED[PAGES].replace(b"<< 4\n", b"<< 4\n    print(total)\n")}
    trees["v0.30.0"] = tree("0.30.0", again)
    assert run(["rebase", "v0.30.0", "--json"]) == 3
    assert report(capsys, check)["outcomes"][0]["status"] == "conflicted"


def test_an_unedited_file_is_refused_by_name(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "x"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/pages.patch: not settled yet: "
        "hunk 1, in .patchkit/rebase/files/vllm/pages.py\n"
        "hint: edit each file, or leave the patch out with `patchkit rebase --skip --yes`\n"
    )
    assert (store / ".patchkit/rebase/state.json").exists()


def test_an_edit_without_a_reason_is_refused_and_kept(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    capsys.readouterr()
    assert run(["rebase", "--continue"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/pages.patch: the edit needs a reason, which is stored with it\n"
        'hint: give --reason "why the patch has to be different there"\n'
    )
    assert (store / f".patchkit/rebase/files/{PAGES}").read_bytes() == EDITED


def test_a_file_that_nobody_asked_for_is_refused(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    write(store, f".patchkit/rebase/files/{OTHER}", b"")
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "x"]) == 1
    assert capsys.readouterr().err == (
        "error: .patchkit/rebase/files: vllm/other.py is not among the files to edit, "
        "expected vllm/pages.py\n"
    )


def test_a_changed_series_is_refused_on_continue(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    write(store, "patches/v0.28.0/series", b"pages.patch\n")
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "x"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: patches/v0.28.0: the stored series was changed since the rebase stopped\n"
    )


def test_abort_leaves_everything_as_it_was(store: Path, capsys: Out, check: Check) -> None:
    before = files(store)
    run(["rebase", "v0.30.0"])
    capsys.readouterr()
    assert run(["rebase", "--abort", "--json"]) == 0
    assert report(capsys, check)["aborted"] == ".patchkit/rebase"
    assert files(store) == before
    assert not (store / ".patchkit/rebase").exists()
    assert run(["rebase", "--abort"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: .patchkit/rebase: no rebase has stopped here\n"
    )


@pytest.mark.parametrize("step", [["--continue", "--reason", "x"], ["--skip", "--yes"]])
@pytest.mark.usefixtures("store")
def test_there_is_nothing_to_go_on_with(step: list[str], capsys: Out) -> None:
    assert run(["rebase", *step]) == 1
    assert capsys.readouterr().err == (
        "error: .patchkit/rebase: no rebase has stopped here\n"
        "hint: start one with `patchkit rebase VERSION`\n"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "nothing is given, expected a version, or --target, --continue, --skip or --abort"),
        (
            ["v0.29.0", "--abort"],
            "more than one thing is asked for, "
            "expected a version, or --target, --continue, --skip or --abort",
        ),
        (["--abort", "--from", "v1"], "--from is for the start of a rebase, which it remembers"),
        (["--skip"], "--skip leaves a part of the series out of the result"),
        (["v0.29.0", "--yes"], "--hunk and --yes are for --skip"),
        (["v0.29.0", "--reason", "x"], "--reason is for --continue"),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_does_not_go_together_is_usage(args: list[str], message: str, capsys: Out) -> None:
    assert run(["rebase", *args]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"error: patchkit rebase: {message}"


# Two patches, of which the first conflicts on 0.30.0 and the second stands on the first.


@pytest.fixture
def two(store: Path) -> Path:
    write(store, "patches/v0.28.0/series", b"pages.patch\nother.patch\nlimit.patch\n")
    other = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    write(store, "patches/v0.28.0/other.patch", patch(BASE, other))
    limit = {PAGES: AUTHORED[PAGES].replace(b"size / 16", b"size / 32")}
    write(store, "patches/v0.28.0/limit.patch", patch(AUTHORED, limit))
    return store


def test_a_skipped_patch_is_left_out_and_the_others_are_stored(
    two: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.30.0"]) == 3
    capsys.readouterr()
    assert run(["rebase", "--skip", "--yes", "--json"]) == 0
    document = report(capsys, check)
    assert document["left_out"] == [
        {
            "series": "patches",
            "patch": "pages.patch",
            "hunks": None,
            "why": "skipped",
            "reason": None,
        }
    ]
    stored = files(two / "patches/v0.30.0")
    assert stored["series"] == b"other.patch\nlimit.patch\n"
    after = {PAGES: CHANGED[PAGES].replace(b"size / 16", b"size / 32")}
    assert stored["limit.patch"] == patch(CHANGED, after)


def test_an_edited_first_patch_carries_the_later_ones(two: Path) -> None:
    run(["rebase", "v0.30.0"])
    write(two, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 0
    stored = files(two / "patches/v0.30.0")
    assert stored["series"] == b"pages.patch\nother.patch\nlimit.patch\n"
    after = {PAGES: EDITED.replace(b"size / 16", b"size / 32")}
    assert stored["limit.patch"] == patch({PAGES: EDITED}, after)


def test_patches_are_settled_one_after_the_other(two: Path, trees: Trees, capsys: Out) -> None:
    files_30 = {**CHANGED, PAGES: CHANGED[PAGES].replace(b"size / 16", b"size >> 4")}
    trees["v0.30.0"] = tree("0.30.0", files_30)
    assert run(["rebase", "v0.30.0"]) == 3
    first = files_30[PAGES].replace(b"blocks << 4", b"(blocks << 4) + 1")
    write(two, f".patchkit/rebase/files/{PAGES}", first)
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "one"]) == 3
    assert "stopped at patches/limit.patch; " in capsys.readouterr().out
    copy = two / f".patchkit/rebase/files/{PAGES}"
    assert copy.read_bytes() == first
    second = first.replace(b"size >> 4", b"size >> 5")
    copy.write_bytes(second)
    assert not (two / "patches/v0.28.0/pages.anchors.toml").exists()
    assert run(["rebase", "--continue", "--reason", "two"]) == 0
    stored = files(two)
    assert b'reason = "one"\n' in stored["patches/v0.28.0/pages.anchors.toml"]
    assert b'reason = "two"\n' in stored["patches/v0.28.0/limit.anchors.toml"]
    assert stored["patches/v0.30.0/limit.patch"] == patch({PAGES: first}, {PAGES: second})


def test_a_tree_is_tried_without_storing_anything(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    trees["../vllm"] = tree("0.29.1.dev3", SHIFTED)
    before = files(store)
    assert run(["rebase", "--target", "../vllm", "--json"]) == 0
    document = report(capsys, check)
    assert document["ok"] is True
    assert document["series"][0]["stored"] == {"path": None, "state": "withheld", "differences": []}
    assert files(store) == before
    trees["../vllm"] = tree("0.30.1.dev3", CHANGED)
    assert run(["rebase", "--target", "../vllm", "--json"]) == 3
    assert report(capsys, check)["state"] is None
    assert files(store) == before


def test_a_moved_tree_is_stored_where_it_is_asked_for(store: Path, trees: Trees) -> None:
    trees["../vllm"] = tree("0.29.1.dev3", SHIFTED)
    assert run(["rebase", "--target", "../vllm", "--output", "moved"]) == 0
    assert sorted(files(store / "moved")) == ["pages.anchors.toml", "pages.patch", "series"]
    write(store, "full/notes.txt", b"mine")
    assert run(["rebase", "--target", "../vllm", "--output", "full"]) == 1
    assert files(store / "full") == {"notes.txt": b"mine"}


def test_series_compose_in_their_order(store: Path, capsys: Out, check: Check) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    limit = {PAGES: AUTHORED[PAGES].replace(b"* 16 + 1\n", b"* 16 + 2\n")}
    write(store, "port/v0.28.0/series", b"more.patch\n")
    write(store, "port/v0.28.0/more.patch", patch(AUTHORED, limit))
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    document = report(capsys, check)
    assert [s["stored"]["path"] for s in document["series"]] == ["patches/v0.29.0", "port/v0.29.0"]
    first = {PAGES: SHIFTED[PAGES].replace(b"* 16\n", b"* 16 + 1\n")}
    second = {PAGES: SHIFTED[PAGES].replace(b"* 16\n", b"* 16 + 2\n")}
    assert files(store)["port/v0.29.0/more.patch"] == patch(first, second)


def test_a_patch_that_is_upstream_already_is_left_out(
    two: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    trees["v0.31.0"] = tree("0.31.0", {**BASE, OTHER: BASE[OTHER].replace(b"3", b"4")})
    assert run(["rebase", "v0.31.0", "--json"]) == 0
    document = report(capsys, check)
    assert document["left_out"] == [
        {
            "series": "patches",
            "patch": "other.patch",
            "hunks": None,
            "why": "already upstream",
            "reason": None,
        }
    ]
    assert files(two / "patches/v0.31.0")["series"] == b"pages.patch\nlimit.patch\n"


def test_a_release_that_is_the_same_as_another_serves_as_base_and_is_compared(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    trees["v0.28.1"] = tree("0.28.1", BASE)
    write(store, "patches/v0.28.1/same-as.toml", b'same-as = "v0.28.0"\n')
    assert run(["rebase", "v0.28.1", "--json"]) == 0
    assert report(capsys, check)["series"][0]["stored"]["state"] == "unchanged"
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    assert report(capsys, check)["series"][0]["base"] == "0.28.1"


def test_new_files_of_an_overlay_are_there_before_the_patches(
    store: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    write(store, "kernels/new.py", b"def extra():\n    return 1\n")
    entry = overlay_entry("kernels/new.py", "vllm/new.py", b"def extra():\n    return 1\n")
    overlay = format_overlay(Overlay((entry,)))
    write(store, "patches/v0.28.0/overlay.toml", overlay)
    imported = BASE[PAGES].replace(b"import math\n", b"import math\n\nfrom vllm.new import extra\n")
    write(store, "patches/v0.28.0/pages.patch", patch(BASE, {PAGES: imported}))
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    assert report(capsys, check)["series"][0]["overlay_clashes"] == []
    assert files(store / "patches/v0.29.0")["overlay.toml"] == overlay
    trees["v0.31.0"] = tree("0.31.0", {**SHIFTED, "vllm/new.py": b"def extra(): ...\n"})
    assert run(["rebase", "v0.31.0", "--json"]) == 3
    document = report(capsys, check)
    assert document["series"][0]["overlay_clashes"] == ["vllm/new.py"]
    assert not (store / "patches/v0.31.0").exists()
    assert run(["rebase", "v0.31.0"]) == 3
    assert "vllm/new.py: in the overlay, and in the target already\n" in capsys.readouterr().out


KERNEL = b"""from vllm.api import Base
from vllm.flags import LIMIT


class Kernel(Base):
    def shape(self, blocks):
        return blocks
"""
API = b"class Base:\n    def shape(self, blocks):\n        return 1\n"


@pytest.fixture
def overlaid(store: Path, trees: Trees) -> Path:
    """Return a repository whose overlay derives from a class and imports a name; 0.31.0 has the
    class otherwise, and 0.32.0 has no such name.
    """
    base = {**BASE, "vllm/api.py": API, "vllm/flags.py": b"LIMIT = 1\n"}
    trees["v0.28.0"] = tree("0.28.0", base)
    trees["v0.29.0"] = tree("0.29.0", {**base, **SHIFTED})
    trees["v0.31.0"] = tree("0.31.0", {**base, "vllm/api.py": API.replace(b"s)", b"s, spec)")})
    trees["v0.32.0"] = tree("0.32.0", {**base, "vllm/flags.py": b"BOUND = 1\n"})
    write(store, "kernels/kernel.py", KERNEL)
    overlay = Overlay((overlay_entry("kernels/kernel.py", "vllm/kernel.py", KERNEL),))
    write(store, "patches/v0.28.0/overlay.toml", format_overlay(overlay))
    return store


def test_an_overlay_that_fits_the_release_moves_along(
    overlaid: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    assert report(capsys, check)["series"][0]["overlay_drifts"] == []
    assert (overlaid / "patches/v0.29.0/overlay.toml").exists()


def test_a_class_of_an_overlay_is_held_to_the_protocol_of_the_release(
    overlaid: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.31.0", "--json"]) == 3
    document = report(capsys, check)
    (series,) = document["series"]
    text = (
        "`Kernel.shape(blocks)` overrides `Base.shape`, `(blocks)` in 0.28.0 (vllm/api.py:2), "
        "`(blocks, spec)` in 0.31.0 (vllm/api.py:2): it takes no `spec`; no call does that yet"
    )
    (drift,) = series["overlay_drifts"]
    assert drift.pop("surface").startswith("1:")
    assert drift == {
        "kind": "protocol",
        "name": "Kernel.shape",
        "read_at": "vllm/kernel.py:6",
        "text": text,
        "before": "Base.shape method (blocks)",
        "after": "Base.shape method (blocks, spec)",
    }
    assert (document["ok"], series["stored"]["state"]) == (False, "withheld")
    assert not (overlaid / "patches/v0.31.0").exists()
    assert run(["rebase", "v0.31.0"]) == 3
    assert f"vllm/kernel.py:6: in the overlay: {text}\n" in capsys.readouterr().out


def test_a_drift_of_an_overlay_is_accepted_by_what_is_printed(
    overlaid: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.31.0"]) == 3
    out = capsys.readouterr().out
    head, _, rest = out.partition(
        "change the file, or say in patches/v0.28.0/overlay.toml why it is right:\n"
    )
    assert head
    table = rest[: rest.index('reason = "..."\n')] + 'reason = "called by us alone"\n'
    path = overlaid / "patches/v0.28.0/overlay.toml"
    before = path.read_text()
    path.write_text(f"{before}\n{table}")
    assert run(["rebase", "v0.31.0", "--json"]) == 0
    document = report(capsys, check)
    assert document["series"][0]["overlay_drifts"] == []
    assert document["notes"][-1].startswith("accepted: `Kernel.shape(blocks)` overrides")
    assert document["notes"][-1].endswith("; called by us alone")
    assert (overlaid / "patches/v0.31.0/overlay.toml").read_text() == before
    # of another change nothing was said
    other = table.replace('surface = "1:', 'surface = "1:0')
    path.write_text(f"{before}\n{other}")
    assert run(["rebase", "v0.31.0"]) == 3


def test_an_import_of_an_overlay_that_the_release_does_not_have_is_told(
    overlaid: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.32.0", "--json"]) == 3
    assert not (overlaid / "patches/v0.32.0").exists()
    (drift,) = report(capsys, check)["series"][0]["overlay_drifts"]
    said = "imports `vllm.flags.LIMIT`, which 0.32.0 does not have"
    assert (drift["kind"], drift["read_at"], drift["text"]) == ("import", "vllm/kernel.py:2", said)


def test_a_base_class_that_is_gone_is_told_by_its_import_alone(
    overlaid: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    trees["v0.32.0"] = tree("0.32.0", {**trees["v0.29.0"].files, "vllm/api.py": b"x = 1\n"})
    assert run(["rebase", "v0.32.0", "--json"]) == 3
    assert not (overlaid / "patches/v0.32.0").exists()
    document = report(capsys, check)
    (drift,) = document["series"][0]["overlay_drifts"]
    assert drift["text"] == "imports `vllm.api.Base`, which 0.32.0 does not have"
    assert document["notes"] == []
    made = {**trees["v0.29.0"].files, "vllm/api.py": b"Base = make()\n"}
    trees["v0.33.0"] = tree("0.33.0", made)
    assert run(["rebase", "v0.33.0", "--json"]) == 0
    assert report(capsys, check)["notes"] == [
        "not checked: the protocol of `Kernel`: `Base`, its base, is not found in 0.33.0"
    ]


def test_an_import_that_may_fail_is_not_told(overlaid: Path, capsys: Out, check: Check) -> None:
    text = b"try:\n    from vllm.flags import LIMIT\nexcept ImportError:\n    LIMIT = 1\n"
    write(overlaid, "kernels/kernel.py", text)
    overlay = Overlay((overlay_entry("kernels/kernel.py", "vllm/kernel.py", text),))
    write(overlaid, "patches/v0.28.0/overlay.toml", format_overlay(overlay))
    assert run(["rebase", "v0.32.0", "--json"]) == 0
    assert report(capsys, check)["series"][0]["overlay_drifts"] == []


def test_a_file_of_upstream_in_the_place_of_an_overlays_is_told_alone(
    overlaid: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    taken = {**trees["v0.31.0"].files, "vllm/kernel.py": KERNEL}
    trees["v0.31.0"] = tree("0.31.0", taken)
    assert run(["rebase", "v0.31.0", "--json"]) == 3
    (series,) = report(capsys, check)["series"]
    assert (series["overlay_clashes"], series["overlay_drifts"]) == (["vllm/kernel.py"], [])
    assert not (overlaid / "patches/v0.31.0").exists()


def test_what_a_patch_brings_for_the_overlay_is_there(
    overlaid: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    base = {**BASE, "vllm/api.py": API, "vllm/flags.py": b"BOUND = 1\n"}
    trees["v0.28.0"], trees["v0.29.0"] = tree("0.28.0", base), tree("0.29.0", base)
    trees["v0.30.0"] = tree("0.30.0", {**base, "vllm/flags.py": b"OTHER = 1\n"})
    limit = {"vllm/flags.py": b"BOUND = 1\nLIMIT = BOUND\n"}
    write(overlaid, "patches/v0.28.0/pages.patch", patch(base, limit))
    assert run(["rebase", "v0.29.0", "--json"]) == 0
    assert report(capsys, check)["series"][0]["overlay_drifts"] == []
    # the patch waits for a person: only its hunk is told
    assert run(["rebase", "v0.30.0", "--json"]) == 3
    assert report(capsys, check)["series"][0]["overlay_drifts"] == []


@pytest.fixture
def drifting(store: Path, trees: Trees) -> Path:
    """Return a repository whose patch reads an attribute that 0.32.0 does not define."""
    spec = b"class Spec:\n    stride = 1\n    block = 2\n"
    base = {**BASE, "vllm/spec.py": spec}
    after = {
        PAGES: BASE[PAGES].replace(b"    return total\n", b"    return total + blocks.stride\n")
    }
    trees["v0.28.0"] = tree("0.28.0", base)
    trees["v0.32.0"] = tree("0.32.0", {**base, "vllm/spec.py": b"class Spec:\n    block = 2\n"})
    write(store, "patches/v0.28.0/pages.patch", patch(base, after))
    return store


def test_drift_stores_nothing_and_names_what_is_gone_and_where_it_is_read(
    drifting: Path, capsys: Out, check: Check
) -> None:
    assert run(["rebase", "v0.32.0", "--json"]) == 3
    document = report(capsys, check)
    (outcome,) = document["outcomes"]
    assert (outcome["status"], outcome["drifted"]) == ("placed", True)
    assert [(d["kind"], d["name"], d["read_at"]) for d in outcome["drifts"]] == [
        ("attribute", "stride", "vllm/pages.py:7")
    ]
    assert document["series"][0]["stored"]["state"] == "withheld"
    assert not (drifting / "patches/v0.32.0").exists()
    copy = (drifting / f".patchkit/rebase/files/{PAGES}").read_bytes()
    assert b"    return total + blocks.stride\n" in copy


def test_a_drifted_hunk_is_edited_as_it_landed(drifting: Path, capsys: Out) -> None:
    run(["rebase", "v0.32.0"])
    copy = drifting / f".patchkit/rebase/files/{PAGES}"
    good = copy.read_bytes()
    copy.write_bytes(good.replace(b"blocks.stride", b"2 * blocks.stride"))
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "still there?"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        "error: patches/pages.patch: the edit does not settle hunk 1: attribute `stride` is defined"
    )
    assert b"2 * blocks.stride" in copy.read_bytes()
    copy.write_bytes(good.replace(b"blocks.stride", b"blocks.block"))
    assert run(["rebase", "--continue", "--reason", "the stride is gone"]) == 0
    after = {PAGES: good.replace(b"blocks.stride", b"blocks.block")}
    assert files(drifting / "patches/v0.32.0")["pages.patch"] == patch(BASE, after)


def test_a_drifted_hunk_can_be_left_out(drifting: Path, capsys: Out) -> None:
    run(["rebase", "v0.32.0"])
    capsys.readouterr()
    assert run(["rebase", "--skip", "--yes"]) == 0
    assert "vllm/pages.py: left out on request" in capsys.readouterr().out
    assert files(drifting / "patches/v0.32.0")["series"] == b""


def test_people_are_told_that_a_drift_can_be_accepted(drifting: Path, capsys: Out) -> None:
    run(["rebase", "v0.32.0"])
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "  edit .patchkit/rebase/files/vllm/pages.py",
        'then: patchkit rebase --continue --reason "..."',
        'or:   patchkit rebase --continue --accept-drift --reason "..."',
        "or:   patchkit rebase --skip --yes   or   patchkit rebase --abort",
    ]
    assert run(["rebase", "--continue", "--reason", "fine"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/pages.patch: not settled yet: "
        "hunk 1, in .patchkit/rebase/files/vllm/pages.py\n"
        "hint: edit each file, say --accept-drift where what drifted is right as it landed, "
        "or leave the patch out with `patchkit rebase --skip --yes`\n"
    )
    assert run(["rebase", "--continue", "--accept-drift"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/pages.patch: accepting a drift needs a reason, which is stored with it\n"
        'hint: give --reason "why the patch is right on the changed ground"\n'
    )
    assert (drifting / ".patchkit/rebase/state.json").exists()


def test_an_accepted_drift_is_stored_with_its_reason_and_holds(
    drifting: Path, trees: Trees, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.32.0"])
    capsys.readouterr()
    accept = ["rebase", "--continue", "--accept-drift", "--reason", "set by the plugin"]
    assert run([*accept, "--json"]) == 0
    (outcome,) = report(capsys, check)["outcomes"]
    assert (outcome["drifted"], outcome["drifts"]) == (False, [])
    assert [(a["name"], a["reason"]) for a in outcome["accepted"]] == [
        ("stride", "set by the plugin")
    ]
    assert b"blocks.stride" in files(drifting / "patches/v0.32.0")["pages.patch"]
    anchors = tomllib.loads((drifting / "patches/v0.28.0/pages.anchors.toml").read_text())
    (stored,) = anchors["override"]["drift"]
    assert stored == {
        "release": "0.32.0",
        "hunk": 1,
        "base_hunk": stored["base_hunk"],
        "kind": "attribute",
        "name": "stride",
        "surface": outcome["accepted"][0]["surface"],
        "text": outcome["accepted"][0]["text"],
        "reason": "set by the plugin",
    }
    # the same again, and on a later release that lacks it as well
    shutil.rmtree(drifting / "patches/v0.32.0")
    assert run(["rebase", "v0.32.0"]) == 0
    assert "accepted: attribute `stride` is defined" in capsys.readouterr().out
    trees["v0.33.0"] = tree("0.33.0", dict(trees["v0.32.0"].files))
    assert run(["rebase", "v0.33.0", "--from", "v0.28.0"]) == 0


def test_an_acceptance_falls_with_the_hunk_that_it_was_given_for(
    drifting: Path, capsys: Out
) -> None:
    run(["rebase", "v0.32.0"])
    run(["rebase", "--continue", "--accept-drift", "--reason", "set by the plugin"])
    shutil.rmtree(drifting / "patches/v0.32.0")
    changed = drifting / "patches/v0.28.0/pages.patch"
    changed.write_bytes(changed.read_bytes().replace(b"total + blocks", b"total - blocks"))
    capsys.readouterr()
    assert run(["rebase", "v0.32.0"]) == 3
    assert "placed, drifted" in capsys.readouterr().out
    assert run(["check", "--frozen"]) == 3
    assert (
        "patches/v0.28.0/pages.anchors.toml: anchors: "
        "hunk 1 has changed since its drift of `stride` was accepted\n"
    ) in capsys.readouterr().out


def test_a_conflict_is_not_accepted_with_a_drift(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    capsys.readouterr()
    assert run(["rebase", "--continue", "--accept-drift", "--reason", "fine"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/pages.patch: no open hunk has drifted: there is nothing to accept\n"
        "hint: edit the files that are laid out, or --skip the patch\n"
    )
    assert (store / ".patchkit/rebase/state.json").exists()


def test_a_conflict_beside_a_drift_has_to_be_edited(
    drifting: Path, trees: Trees, capsys: Out
) -> None:
    other = {"vllm/other.py": b"def g():\n    return 1\n"}
    base, target = dict(trees["v0.28.0"].files), dict(trees["v0.32.0"].files)
    trees["v0.28.0"] = tree("0.28.0", {**base, **other})
    trees["v0.32.0"] = tree("0.32.0", {**target, "vllm/other.py": b"def g():\n    return 2\n"})
    after = {
        PAGES: BASE[PAGES].replace(b"    return total\n", b"    return total + blocks.stride\n"),
        "vllm/other.py": b"def g():\n    return 3\n",
    }
    write(drifting, "patches/v0.28.0/pages.patch", patch({**base, **other}, {**base, **after}))
    run(["rebase", "v0.32.0"])
    capsys.readouterr()
    accept = ["rebase", "--continue", "--accept-drift", "--reason", "fine"]
    assert run(accept) == 1
    assert "not settled yet: hunk 1, in .patchkit/rebase/files/vllm/other.py" in (
        capsys.readouterr().err
    )
    copy = drifting / ".patchkit/rebase/files/vllm/other.py"
    copy.write_bytes(b"def g():\n    return 4\n")
    assert run(accept) == 0
    anchors = tomllib.loads((drifting / "patches/v0.28.0/pages.anchors.toml").read_text())
    assert [(len(v), k) for k, v in anchors["override"].items()] == [
        (1, "adaptation"),
        (1, "drift"),
    ]


def test_accepting_is_a_way_to_go_on(capsys: Out) -> None:
    assert run(["rebase", "v0.32.0", "--accept-drift"]) == 2
    assert "--accept-drift is for --continue" in capsys.readouterr().err
