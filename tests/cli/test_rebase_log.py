"""What a finished rebase leaves in the log, and that nothing else does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.repository import deliver, stop
from patchkit.repository.log import Fate, LoggedPatch, read_log
from patchkit.series.verdict import Verdict, format_verdicts
from patchkit.tree import SourceTree
from tests.cli.test_rebase import (
    AUTHORED,
    BASE,
    CHANGED,
    EDITED,
    OTHER,
    PAGES,
    patch,
    tree,
    write,
)
from tests.cli.test_rebase import drifting as drifting
from tests.cli.test_rebase import store as store
from tests.cli.test_status import verdict

Out = pytest.CaptureFixture[str]
Trees = dict[str, SourceTree]


def logged(folder: Path, series: str = "patches") -> list[tuple[str, str, bool, LoggedPatch]]:
    """Every patch of every entry: base, target, whether updated, and what became of it."""
    return [
        (entry.base, entry.target, entry.updated, one)
        for entry in read_log(folder, series)
        for one in entry.patches
    ]


OFFSET = LoggedPatch("pages.patch", Fate.MOVED, {"offset": 1})


def test_a_rebase_that_is_stored_is_logged_once(store: Path) -> None:
    assert run(["rebase", "v0.29.0"]) == 0
    assert logged(store) == [("0.28.0", "0.29.0", False, OFFSET)]
    (entry,) = read_log(store, "patches")
    assert entry.stopped_seconds is None
    assert 0 <= entry.seconds < 60
    before = (store / "patches/rebases.toml").read_bytes()
    assert re.search(rb'\ndate = "\d{4}-\d\d-\d\d"\n', before)
    assert run(["rebase", "v0.29.0"]) == 0  # unchanged
    name = store / "patches/v0.29.0/pages.patch"
    name.write_bytes(name.read_bytes().replace(b"+ 1\n", b"+ 2\n"))
    assert run(["rebase", "v0.29.0"]) == 3  # differs
    assert (store / "patches/rebases.toml").read_bytes() == before
    assert run(["rebase", "v0.29.0", "--update"]) == 0
    assert logged(store) == [
        ("0.28.0", "0.29.0", False, OFFSET),
        ("0.28.0", "0.29.0", True, OFFSET),
    ]


def test_what_is_stored_elsewhere_is_not_logged(store: Path) -> None:
    assert run(["rebase", "v0.29.0", "--output", "moved"]) == 0
    assert (store / "moved/pages.patch").exists()
    assert not (store / "patches/rebases.toml").exists()
    assert not (store / "moved/rebases.toml").exists()


def test_a_rebase_that_stopped_says_what_took_a_person_and_how_long(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000_000.0]
    monkeypatch.setattr(stop.time, "time", lambda: clock[0])
    assert run(["rebase", "v0.30.0"]) == 3
    assert not (store / "patches/rebases.toml").exists()

    class Later(deliver.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(1_005_400.5, tz)

    monkeypatch.setattr(deliver, "datetime", Later)
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 0
    by_hand = LoggedPatch("pages.patch", Fate.MOVED, {"adaptation": 1}, settled=(1,))
    assert logged(store) == [("0.28.0", "0.30.0", False, by_hand)]
    (entry,) = read_log(store, "patches")
    assert entry.date.isoformat() == "1970-01-12"
    assert entry.stopped_seconds == 5400
    # with the stored adaptation it takes nobody
    for file in (store / "patches/v0.30.0").iterdir():
        file.unlink()
    assert run(["rebase", "v0.30.0"]) == 0
    again = LoggedPatch("pages.patch", Fate.MOVED, {"adaptation": 1})
    assert logged(store)[-1] == ("0.28.0", "0.30.0", False, again)
    assert read_log(store, "patches")[-1].stopped_seconds is None


def test_the_time_counts_from_the_first_stop(
    store: Path, trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    write(store, "patches/v0.28.0/series", b"pages.patch\nother.patch\n")
    write(store, "patches/v0.28.0/other.patch", patch(BASE, other))
    trees["v0.30.0"] = tree("0.30.0", {**CHANGED, OTHER: b"def limit():\n    return 5\n"})
    times = iter([100.0, 200.0])
    monkeypatch.setattr(stop.time, "time", lambda: next(times))
    assert run(["rebase", "v0.30.0"]) == 3
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 3
    assert b'"stopped_at": 100.0' in (store / ".patchkit/rebase/state.json").read_bytes()


def test_a_clock_that_was_set_back_gives_no_negative_time(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop.time, "time", lambda: 4e9)
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 0
    assert read_log(store, "patches")[0].stopped_seconds == 0


def test_a_skipped_patch_is_logged_with_its_hunks(store: Path) -> None:
    run(["rebase", "v0.30.0"])
    assert run(["rebase", "--skip", "--yes"]) == 0
    skipped = LoggedPatch("pages.patch", Fate.SKIPPED, skipped=(1,))
    assert logged(store) == [("0.28.0", "0.30.0", False, skipped)]


def test_an_accepted_drift_is_logged_with_its_hunk(drifting: Path) -> None:
    run(["rebase", "v0.32.0"])
    assert run(["rebase", "--continue", "--accept-drift", "--reason", "set elsewhere"]) == 0
    (entry,) = logged(drifting)
    assert entry[3] == LoggedPatch("pages.patch", Fate.MOVED, {"exact": 1}, accepted=(1,))


def test_a_patch_that_upstream_has_is_logged_as_such(store: Path, trees: Trees) -> None:
    trees["v0.30.0"] = tree("0.30.0", {**BASE, **AUTHORED})
    assert run(["rebase", "v0.30.0"]) == 0
    assert logged(store) == [
        ("0.28.0", "0.30.0", False, LoggedPatch("pages.patch", Fate.UPSTREAM, upstream=1))
    ]


def test_each_series_folder_has_a_log_of_its_own(store: Path) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "more"]\n')
    other = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    write(store, "more/v0.28.0/series", b"other.patch\n")
    write(store, "more/v0.28.0/other.patch", patch(BASE, other))
    assert run(["rebase", "v0.29.0"]) == 0
    assert logged(store) == [("0.28.0", "0.29.0", False, OFFSET)]
    assert logged(store, "more") == [
        ("0.28.0", "0.29.0", False, LoggedPatch("other.patch", Fate.MOVED, {"exact": 1}))
    ]


def test_a_damaged_log_stops_the_rebase_before_anything_is_written(
    store: Path, capsys: Out
) -> None:
    write(store, "patches/rebases.toml", b"format = 9\n")
    assert run(["rebase", "v0.29.0"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/rebases.toml: is of format 9, expected format 1\n"
    )
    assert not (store / "patches/v0.29.0").exists()


def test_check_finds_a_damaged_log_once(
    store: Path, capsys: Out, check: Callable[[dict[str, Any]], None]
) -> None:
    assert run(["rebase", "v0.29.0"]) == 0
    write(store, "patches/rebases.toml", b"format = 1\nrebase = 1\n")
    capsys.readouterr()
    assert run(["check"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "rebases.toml" in line] == [
        "patches/rebases.toml: log: rebase is no list of tables"
    ]
    assert run(["check", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    check(found)
    assert [len(entry["findings"]) for entry in found["series"]] == [1, 0]


def test_a_patch_that_its_tests_supersede_is_logged_with_the_reason_and_took_nobody(
    store: Path,
) -> None:
    write(store, "tests/test_pages.py", b"def test(): assert 0\n")
    path = store / "patches/v0.28.0/pages.patch"
    field = b"Test: tests/test_pages.py\nApplies-To:"
    path.write_bytes(path.read_bytes().replace(b"Applies-To:", field, 1))
    made = verdict(store, "0.29.0", "pages.patch", Verdict.SUPERSEDED, "0.28.0")
    write(store, "patches/verdicts.toml", format_verdicts([made]))
    assert run(["rebase", "v0.29.0"]) == 0
    superseded = LoggedPatch("pages.patch", Fate.SUPERSEDED, reason="it said so")
    assert logged(store) == [("0.28.0", "0.29.0", False, superseded)]


def test_other_patches_took_nobody_whatever_their_name(store: Path) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "more"]\n')
    other = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    write(store, "patches/v0.28.0/series", b"pages.patch\nother.patch\n")
    write(store, "patches/v0.28.0/other.patch", patch(BASE, other))
    other = {OTHER: other[OTHER].replace(b"4", b"5")}
    write(store, "more/v0.28.0/series", b"pages.patch\n")
    before = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    write(store, "more/v0.28.0/pages.patch", patch(before, other))
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 0
    assert [entry[3].settled for entry in logged(store)] == [(1,), ()]
    assert [entry[3].settled for entry in logged(store, "more")] == [()]
