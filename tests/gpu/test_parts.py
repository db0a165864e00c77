"""The GPU lane says of each part whether it is shown; what is skipped is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.outcomes import read
from tests.gpu.parts import PARTS, Result, status, summary

ROOT = Path(__file__).parents[2]
PARITY, ALLOCATIONS = PARTS
PASSED, FAILED, SKIPPED = ("passed", ""), ("failed", "off by 1"), ("skipped", "no Hopper")


@pytest.mark.parametrize(
    ("outcomes", "problem", "verdict", "code"),
    [
        ({"a": PASSED, "b": PASSED}, "", "shown", 0),
        ({"a": PASSED, "b": SKIPPED}, "", "in part", 5),
        ({"a": SKIPPED}, "", "skipped", 5),
        ({}, "", "skipped", 5),
        ({"a": PASSED, "b": FAILED}, "", "failed", 3),
        ({"a": PASSED}, "not done within 9 s", "failed", 3),
    ],
)
def test_a_part_is_shown_only_where_all_its_tests_passed(
    outcomes: dict[str, tuple[str, str]], problem: str, verdict: str, code: int
) -> None:
    result = Result(PARITY, outcomes, problem)
    assert result.verdict == verdict
    assert status([result]) == code
    assert status([Result(ALLOCATIONS, {"x": PASSED}), result]) == code


def test_the_summary_has_every_reason() -> None:
    results = [
        Result(PARITY, {"a": PASSED, "b": SKIPPED, "c": SKIPPED, "d": FAILED}),
        Result(ALLOCATIONS, {"tests/gpu/x.py": ("skipped", "vLLM is not importable")}),
    ]
    assert summary(results, "gpu H200").splitlines() == [
        "on gpu H200",
        "part         verdict  passed skipped failed",
        "parity       failed        1       2      1  kernels are within their bounds of float64",
        "    failed: d: off by 1",
        "    skipped: 2 by: no Hopper",
        "allocations  skipped       0       1      0  "
        "pages and promoted blocks in real allocations",
        "    skipped: 1 by: vLLM is not importable",
        "gpu: 1 failed, 1 skipped",
    ]


SOURCE = """
import os
import pytest
@pytest.mark.parametrize("n", range(4))
def test_passes(n): pass
def test_fails():
    assert 1 == 2
def test_skips():
    pytest.skip("no device")
@pytest.fixture
def broken():
    yield
    raise ValueError("afterwards")
def test_teardown(broken): pass
def test_ends():
    if ENDS: os._exit(9)
"""


def run(folder: Path, share: str = "0/1", finished: str = "", ends: bool = False) -> int:
    (folder / "test_it.py").write_text(SOURCE.replace("ENDS", str(ends)))
    (folder / "finished.txt").write_text(finished)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.outcomes"]
    command += ["-p", "no:cacheprovider", f"--rootdir={folder}", "-c", str(folder / "none.ini")]
    command += [f"--outcomes={folder / 'out.jsonl'}", f"--finished={folder / 'finished.txt'}"]
    (folder / "none.ini").write_text("[pytest]\n")
    done = subprocess.run([*command, f"--share={share}", str(folder)], cwd=ROOT, check=False)
    return done.returncode


def test_each_test_has_one_outcome_with_its_reason(tmp_path: Path) -> None:
    assert run(tmp_path) == 1
    assert read(tmp_path / "out.jsonl") == {
        **{f"test_it.py::test_passes[{n}]": PASSED for n in range(4)},
        "test_it.py::test_fails": ("failed", "assert 1 == 2"),
        "test_it.py::test_skips": ("skipped", "no device"),
        "test_it.py::test_teardown": ("failed", "ValueError: afterwards"),
        "test_it.py::test_ends": PASSED,
    }


def test_a_test_that_ends_the_process_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, ends=True) == 9
    found = read(tmp_path / "out.jsonl")
    assert found["test_it.py::test_ends"] == ("failed", "the process ended in this test")


def test_shares_are_all_tests_and_none_twice(tmp_path: Path) -> None:
    names = []
    for share in ("0/3", "1/3", "2/3"):
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        run(tmp_path, share)
        names += read(tmp_path / "out.jsonl")
    assert len(names) == 8
    assert len(set(names)) == 8


def test_what_is_finished_is_not_run_again(tmp_path: Path) -> None:
    done = "test_it.py::test_fails\ntest_it.py::test_teardown\n"
    assert run(tmp_path, finished=done) == 0
    assert len(read(tmp_path / "out.jsonl")) == 6
