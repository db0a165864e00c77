"""A rebase that stops, where later patches of the series wait for what did not land."""

from pathlib import Path

import pytest

from patchkit.cli import run
from tests.cli.test_rebase import (
    AUTHORED,
    BASE,
    CHANGED,
    EDITED,
    OTHER,
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

TWO = {PAGES: AUTHORED[PAGES].replace(b"* 16 + 1\n", b"* 16 + 2\n")}
LIMIT = {OTHER: BASE[OTHER].replace(b"3", b"4")}
TOP = {PAGES: TWO[PAGES].replace(b"* 16 + 2\n", b"* 16 + 3\n")}


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return two series: pages, two (on what pages adds) and limit; and one more on top of two."""
    trees["v0.28.0"] = tree("0.28.0", BASE)
    trees["v0.30.0"] = tree("0.30.0", CHANGED)
    write(folder, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    write(folder, "patches/v0.28.0/series", b"pages.patch\ntwo.patch\nlimit.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", patch(BASE, AUTHORED))
    write(folder, "patches/v0.28.0/two.patch", patch({**BASE, **AUTHORED}, TWO))
    write(folder, "patches/v0.28.0/limit.patch", patch(BASE, LIMIT))
    write(folder, "port/v0.28.0/series", b"top.patch\n")
    write(folder, "port/v0.28.0/top.patch", patch({**BASE, **TWO}, TOP))
    return folder


def told(out: Out, check: Check) -> list[tuple[str, str, list[str]]]:
    document = report(out, check)
    return [(o["patch"], o["status"], o["blocked_by"]) for o in document["outcomes"]]


def test_what_waits_is_told_over_series_folders(store: Path, capsys: Out, check: Check) -> None:
    del store
    assert run(["rebase", "v0.30.0", "--json"]) == 3
    assert told(capsys, check) == [
        ("pages.patch", "conflicted", []),
        ("two.patch", "blocked", ["pages.patch#1"]),
        ("limit.patch", "placed", []),
        ("top.patch", "blocked", ["patches/two.patch#1"]),
    ]


def test_what_waits_lands_once_the_first_one_is_edited(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "shifts now", "--json"]) == 0
    assert {status for _, status, _ in told(capsys, check)} == {"placed"}
    top = files(store / "port/v0.30.0")["top.patch"]
    assert b"-    total = (blocks << 4) + 2\n+    total = (blocks << 4) + 3\n" in top


def test_what_needs_a_skipped_patch_has_to_be_settled_as_well(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.30.0"])
    capsys.readouterr()
    assert run(["rebase", "--skip", "--yes", "--json"]) == 3
    document = report(capsys, check)
    assert document["outcomes"][1]["reason"] == (
        f"two.patch#1 changes lines that pages.patch#1 adds ({PAGES}:6); "
        "pages.patch#1 is left out on request"
    )
    assert document["state"]["patch"] == "two.patch"
    assert run(["rebase", "--skip", "--yes"]) == 3
    assert run(["rebase", "--skip", "--yes"]) == 0
    assert files(store / "patches/v0.30.0")["series"] == b"limit.patch\n"
    assert not (store / "port/v0.30.0/top.patch").exists()


def test_what_needs_a_skipped_patch_can_be_edited_in_its_place(store: Path) -> None:
    run(["rebase", "v0.30.0"])
    assert run(["rebase", "--skip", "--yes"]) == 3
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED.replace(b"+ 1", b"+ 2"))
    assert run(["rebase", "--continue", "--reason", "without pages"]) == 0
    assert files(store / "patches/v0.30.0")["series"] == b"two.patch\nlimit.patch\n"
    two = files(store / "patches/v0.30.0")["two.patch"]
    assert b"-    total = blocks << 4\n+    total = (blocks << 4) + 2\n" in two
    top = files(store / "port/v0.30.0")["top.patch"]
    assert b"-    total = (blocks << 4) + 2\n+    total = (blocks << 4) + 3\n" in top
