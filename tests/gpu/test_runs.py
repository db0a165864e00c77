"""A part is shown only by tests that were run to their end, whatever became of their processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import __main__ as lane
from tests.gpu.outcomes import append, read
from tests.gpu.parts import Part, Result, status
from tests.gpu.shares import Ended

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a module's tests as a part; a second run goes on where the first ended."""

    def of(source: str, *more: str, many: int = 1) -> Result:
        (tmp_path / "test_it.py").write_text(source.replace("FOLDER", repr(str(tmp_path))))
        part = Part("some", "something", str(tmp_path), (str(tmp_path),), "not gpu", (), many > 1)
        options = ["--device", "cpu", "--jobs", str(many), "--state", str(tmp_path / "state")]
        return lane.run_part(part, lane.arguments([*options, "--limit", "60", *more]), {})

    return of


def kept(folder: Path) -> list[str]:
    """The tests that are kept as passed, by their names."""
    (file,) = folder.glob("state/*/*/passed.txt")
    return [line.rpartition("::")[2] for line in file.read_text().splitlines()]


def test_a_run_that_cannot_begin_shows_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python itself ends with 1, as pytest does where a test failed."""
    run("def test_passes(): pass")
    monkeypatch.setattr(lane, "pytest_command", lambda *_: [sys.executable, "-m", "no_such_module"])
    found = run("def test_passes(): pass")
    assert (found.problem, status([found])) == ("pytest ended with 1: see share-*.log", 3)


def test_a_run_that_collects_nothing_shows_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("def test_passes(): pass")
    monkeypatch.setattr(lane, "pytest_command", lambda *_: [sys.executable, "-c", ""])
    found = run("def test_passes(): pass")
    assert found.problem == "no process has collected any test: see share-*.log"


def test_what_passed_before_is_shown_without_being_run(run: Run) -> None:
    assert status([run("def test_passes(): pass")]) == 0
    assert status([run("def test_passes(): assert False")]) == 0


def test_a_subset_by_an_expression_is_not_all(run: Run) -> None:
    found = run("def test_one(): pass\ndef test_two(): pass", "-k", "one")
    assert (found.only, found.count("passed"), status([found])) == ("one", 1, 5)


TORN_DOWN = """
import os, pytest
@pytest.fixture
def device():
    yield
    os.kill(os.getpid(), 11)
def test_crashes(device): pass
"""
TORN_DOWN_TO_AN_EARLY_END = TORN_DOWN.replace("os.kill(os.getpid(), 11)", "os._exit(0)")
TORN_DOWN_AFTER_ALL = TORN_DOWN.replace("fixture", "fixture(scope='module')")
EXITS = """
import atexit, os
def test_one(): pass
def test_two(): atexit.register(os.kill, os.getpid(), 11)
def test_three(): pass
"""
EXITS_AS_PYTEST_DOES = """
import atexit, os
def test_one(): atexit.register(os._exit, 1)
"""


CRASHES = {
    "in a teardown": TORN_DOWN,
    "in a teardown, with 0": TORN_DOWN_TO_AN_EARLY_END,
    "in a teardown after all": TORN_DOWN_AFTER_ALL,
    "at the exit": EXITS,
    "at the exit, with 1": EXITS_AS_PYTEST_DOES,
}


@pytest.mark.parametrize("source", CRASHES.values(), ids=CRASHES)
def test_a_crash_outside_of_a_test_is_not_forgotten(run: Run, tmp_path: Path, source: str) -> None:
    """Whichever test it is that made it, none of that process has passed."""
    for _ in range(2):
        found = run(source)
        assert status([found]) == 3
        assert found.count("failed") == 1
        assert kept(tmp_path) == []


def test_of_a_process_not_seen_to_end_the_last_test_has_not_passed(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    for test in ("a", "b"):
        for outcome in ("begun", "passed"):
            append(file, {"test": test, "outcome": outcome, "reason": "", "process": 7})
    last = ("failed", "its process did not end after it")
    assert read(file) == {"a": ("passed", ""), "b": last}
    append(file, {"outcome": "ended", "process": 7, "code": 0})
    assert read(file) == {"a": ("passed", ""), "b": ("passed", "")}


CROWDED = """
import os, time
from pathlib import Path
import pytest
here = Path(FOLDER)
def test_passes(): pass
def test_needs_all_memory():
    if not (here / "crowded").exists():
        (here / "crowded").touch()
        raise RuntimeError("CUDA out of memory")
"""
CRASH = """
@pytest.fixture(autouse=True, scope="session")
def crash():
    yield
    try:
        (here / "crashed").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), 11)
"""


def test_what_lacked_memory_is_run_again_alone(run: Run) -> None:
    assert status([run(CROWDED, many=2)]) == 0


def test_a_crash_is_still_known_after_a_run_for_lack_of_memory(run: Run) -> None:
    found = run(CROWDED + CRASH, many=2)
    assert (found.problem, status([found])) == ("pytest ended with -11: see share-*.log", 3)


def test_what_passed_is_kept_where_the_run_for_lack_of_memory_is_killed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, runs = lane.run_shares, []

    def killed(*args: Any, **named: Any) -> Ended:
        runs.append(named["many"])
        if len(runs) > 1:
            raise KeyboardInterrupt
        return whole(*args, **named)

    monkeypatch.setattr(lane, "run_shares", killed)
    with pytest.raises(KeyboardInterrupt):
        run(CROWDED, many=2)
    assert runs == [2, 1]
    assert kept(tmp_path) == ["test_passes"]


@pytest.mark.parametrize(
    ("codes", "outcomes", "collected", "problem"),
    [
        ([0, 5], {"a": "passed"}, ["a"], ""),
        ([1], {"a": "failed"}, ["a"], ""),
        ([1, 0], {"a": "passed"}, ["a"], "pytest ended with 1: see share-*.log"),
        ([0], {"a": "passed"}, ["a", "b"], "1 tests have no outcome, as b"),
        ([5], {}, [], ""),
    ],
)
def test_what_kept_tests_from_their_end_is_known(
    codes: Sequence[int], outcomes: dict[str, str], collected: list[str], problem: str
) -> None:
    found = {name: (outcome, "") for name, outcome in outcomes.items()}
    assert lane.problem(Ended(codes, [], collected), found, 9) == problem
