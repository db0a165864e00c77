"""The GPU lane says of each part whether it is shown; what is skipped is never shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.outcomes import append, read
from tests.gpu.parts import PARTS, Result, status, summary
from tests.gpu.shares import Ended, run_shares

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


def test_tests_that_an_expression_chose_are_not_all() -> None:
    result = Result(PARITY, {"a": PASSED}, only="attention and not gather")
    assert (result.verdict, status([result])) == ("in part", 5)
    wanted = "    not asked for: any test but those by -k 'attention and not gather'"
    assert wanted in summary([result], "gpu H200").splitlines()


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


def command_in(folder: Path, source: str = SOURCE, *, ends: bool = False) -> list[str]:
    (folder / "test_it.py").write_text(source.replace("ENDS", str(ends)))
    (folder / "none.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.outcomes"]
    command += ["-p", "no:cacheprovider", f"--rootdir={folder}", "-c", str(folder / "none.ini")]
    return [*command, str(folder)]


def run(folder: Path, finished: str = "", ends: bool = False) -> int:
    (folder / "finished.txt").write_text(finished)
    command = command_in(folder, ends=ends)
    command += [f"--outcomes={folder / 'out.jsonl'}", f"--finished={folder / 'finished.txt'}"]
    process = subprocess.Popen(command, cwd=ROOT)
    code = process.wait()
    append(folder / "out.jsonl", {"outcome": "ended", "process": process.pid, "code": code})
    return code


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


def shared(
    folder: Path, command: list[str], many: int, limit: float = 60
) -> tuple[Ended, list[str], list[str]]:
    """What became of a run in several processes, the tests in their order, and what was told."""
    told: list[str] = []
    ended = run_shares(
        command, folder, dict(os.environ), ROOT, done=[], many=many, limit=limit, tell=told.append
    )
    lines = (folder / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
    begun = [found["test"] for found in map(json.loads, lines) if found["outcome"] == "begun"]
    return ended, begun, told


def test_processes_run_all_tests_and_none_twice(tmp_path: Path) -> None:
    ended, begun, told = shared(tmp_path, command_in(tmp_path), 3)
    assert len(ended.codes) == 3
    assert ended.left == []
    assert len(begun) == len(set(begun)) == 8
    assert sorted(told) == [
        "failed: test_it.py::test_fails: assert 1 == 2",
        "failed: test_it.py::test_teardown: ValueError: afterwards",
    ]


def test_what_is_left_where_a_process_dies_is_run_by_another(tmp_path: Path) -> None:
    ended, begun, _ = shared(tmp_path, command_in(tmp_path, ends=True), 1)
    assert 9 in ended.codes
    assert ended.left == []
    assert len(begun) == 8


SPOILS = """
import pytest
@pytest.mark.parametrize("n", range(6))
def test_spoils(n): raise RuntimeError("CUDA error: an illegal memory access")
"""


def test_a_process_whose_device_is_lost_takes_no_more_tests(tmp_path: Path) -> None:
    ended, begun, _ = shared(tmp_path, command_in(tmp_path, SPOILS), 2)
    assert len(ended.codes) == 6  # two processes three times, with a test each
    assert len(begun) == 6


SLOW = """
import time
import pytest
@pytest.mark.parametrize("n", range(40))
def test_slow(n): time.sleep(1)
"""


def test_near_the_limit_no_test_is_begun_and_what_is_left_is_known(tmp_path: Path) -> None:
    ended, begun, _ = shared(tmp_path, command_in(tmp_path, SLOW), 2, limit=12)
    assert set(ended.codes) <= {0, 5}
    assert len(ended.left) == 40 - len(begun)
    assert 0 < len(begun) < 40
    result = Result(PARITY, read(tmp_path / "outcomes.jsonl"), "not done", ended.left)
    assert f"not run: {len(ended.left)} of test_it.py::test_slow" in result.reasons()


KERNEL = """
import pytest
from pathlib import Path
from tests.gpu.outcomes import alone
class Source:
    def hash(self): return "kernel"
@pytest.mark.parametrize("n", range(4))
def test_compiles(n):
    compiled = Path(__file__).with_name("compiled")
    def compile_kernel(src, options):
        import time
        if compiled.exists(): return
        time.sleep(1)  # the others begin meanwhile
        assert not compiled.exists()
        compiled.touch()
    alone(compile_kernel, Path(__file__).parent / "claims")(Source(), options={})
"""


def test_a_kernel_that_several_tests_need_is_compiled_once(tmp_path: Path) -> None:
    ended, begun, told = shared(tmp_path, command_in(tmp_path, KERNEL), 4)
    assert len(begun) == 4
    assert told == []
    assert not ended.left


def test_what_is_finished_is_not_run_again(tmp_path: Path) -> None:
    done = "test_it.py::test_fails\ntest_it.py::test_teardown\n"
    assert run(tmp_path, finished=done) == 0
    assert len(read(tmp_path / "out.jsonl")) == 6
