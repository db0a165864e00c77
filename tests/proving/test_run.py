"""Real runs of pytest on small trees: which colour each kind of ending has."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

from patchkit.proving.judge import TreeRun
from patchkit.proving.run import Runner, lay_out
from patchkit.series.verdict import Colour
from patchkit.tree import EXECUTABLE, SourceTree

RED, GREEN, BROKEN = Colour.RED, Colour.GREEN, Colour.BROKEN
MODULE = b"""\
def size(blocks):
    return blocks * 16


def checked(blocks):
    assert blocks == 3, "the tree's own"
    return blocks


def called(function):
    return function()
"""
TREE = SourceTree({"vllm/__init__.py": b"", "vllm/pages.py": MODULE})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    lay_out(TREE, tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose configuration, conftest.py and modules would spoil every run."""
    root = tmp_path / "repository"
    (root / "tests/patches").mkdir(parents=True)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (root / "tests/conftest.py").write_text("raise SystemExit('not mine')\n")
    (root / "vllm").mkdir()
    (root / "vllm/__init__.py").write_text("raise SystemExit('not the tree')\n")
    return root


def run(repository: Path, tree: Path, text: str, *, timeout_s: float = 60) -> TreeRun:
    name = "tests/patches/test_size.py"
    (repository / name).write_text(text)
    return Runner(Path(sys.executable), repository, "vllm", {}, timeout_s).run([name], tree)


IMPORT = "import pytest\nfrom vllm.pages import called, checked, size\n\n\n"


@pytest.mark.parametrize(
    ("text", "colour", "reason"),
    [
        ("def test_size():\n    assert size(2) == 32\n", GREEN, ""),
        (
            "def test_size():\n    assert size(2) == 33\n",
            RED,
            "test_size: AssertionError: assert 32 == 33",
        ),
        (
            "def test_size():\n    pytest.fail('too small')\n",
            RED,
            "test_size: Failed: too small",
        ),
        (
            "def test_size():\n    with pytest.raises(ValueError):\n        size(2)\n",
            RED,
            "test_size: Failed: DID NOT RAISE ValueError",
        ),
        (
            "import unittest\nclass TestSize(unittest.TestCase):\n"
            "    def test_size(self):\n        self.assertEqual(size(2), 33)\n",
            RED,
            "test_size: AssertionError: 32 != 33",
        ),
        (
            # what the tree calls is the test's own all the same
            "def check():\n    assert size(2) == 33\ndef test_size():\n    called(check)\n",
            RED,
            "test_size: AssertionError: assert 32 == 33",
        ),
        (
            "def test_size():\n    assert checked(2)\n",
            BROKEN,
            "test_size raised: AssertionError: the tree's own",
        ),
        (
            "def test_size():\n    size()\n",
            BROKEN,
            "test_size raised: TypeError: size() missing 1 required positional argument: 'blocks'",
        ),
        (
            "from vllm.pages import gone\ndef test_size():\n    assert False\n",
            BROKEN,
            "cannot be collected: ImportError: cannot import name 'gone' from 'vllm.pages'",
        ),
        (
            "assert size(2) == 33\ndef test_size():\n    assert False\n",
            BROKEN,
            "cannot be collected: assert 32 == 33",
        ),
        (
            "@pytest.fixture\ndef two():\n    assert size(2) == 33\n"
            "def test_size(two):\n    assert False\n",
            BROKEN,
            "test_size has no fixture: AssertionError: assert 32 == 33",
        ),
        (
            "def test_size(no_such_fixture):\n    assert False\n",
            BROKEN,
            "test_size has no fixture: ",
        ),
        (
            "@pytest.fixture\ndef two():\n    yield 2\n    assert False\n"
            "def test_size(two):\n    assert size(two) == 33\n",
            BROKEN,
            "test_size did not clean up: AssertionError: assert False",
        ),
        (
            "def test_size():\n    pytest.skip('not here')\n",
            BROKEN,
            "test_size was skipped: Skipped: not here",
        ),
        (
            "pytest.skip('not here', allow_module_level=True)\n",
            BROKEN,
            "cannot be collected: ",
        ),
        (
            "@pytest.mark.xfail\ndef test_size():\n    assert False\n",
            BROKEN,
            "test_size was skipped: AssertionError: assert False",
        ),
        (
            "@pytest.mark.xfail\ndef test_size():\n    pass\n",
            BROKEN,
            "test_size was expected to fail:",
        ),
        (
            "import os\ndef test_one():\n    assert False\ndef test_size():\n    os.abort()\n",
            BROKEN,
            "the interpreter ended with signal 6 in test_size",
        ),
        (
            "import os\ndef test_size():\n    os._exit(0)\n",
            BROKEN,
            "the interpreter ended with exit status 0 in test_size",
        ),
        ("def size_is_two():\n    pass\n", BROKEN, "tests/patches/test_size.py names no test"),
        ("def test_size(:\n", BROKEN, "cannot be collected: "),
    ],
)
def test_how_a_test_ends(
    repository: Path, tree: Path, text: str, colour: Colour, reason: str
) -> None:
    found = run(repository, tree, IMPORT + text)
    assert found.colour is colour, found.output
    assert found.reason.startswith(reason)
    assert reason or not found.reason


def test_a_run_that_hangs_is_stopped_with_what_it_started(repository: Path, tree: Path) -> None:
    held = repository / "held"
    child = (
        f"import fcntl, time; f = open({str(held)!r}, 'w'); fcntl.flock(f, 2); print(flush=True)"
    )
    text = (
        "import subprocess, sys\ndef test_size():\n"
        f"    child = [sys.executable, '-c', {child!r} + '; time.sleep(600)']\n"
        "    subprocess.Popen(child, stdout=subprocess.PIPE).stdout.read()\n"
    )
    found = run(repository, tree, text, timeout_s=5)
    assert found.colour is BROKEN
    assert found.reason == "was stopped after 5 seconds in test_size"
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # waits for as long as the child lives


def test_a_conftest_beside_the_test_is_used(repository: Path, tree: Path) -> None:
    conftest = "import pytest\n@pytest.fixture\ndef two():\n    return 2\n"
    conftest += (
        "def enough(n):\n    assert n > 40\n@pytest.fixture\ndef check():\n    return enough\n"
    )
    (repository / "tests/patches/conftest.py").write_text(conftest)
    text = IMPORT + "def test_size(two, check):\n    check(size(two))\n"
    assert run(repository, tree, text).reason == "test_size: AssertionError: assert 32 > 40"


def test_torch_is_the_one_that_was_imported(repository: Path, tree: Path) -> None:
    (tree / "torch.py").write_text("__version__ = '2.13.0+cpu'\n")
    assert run(repository, tree, "def test_a():\n    pass\n").torch is None
    assert run(repository, tree, "import torch\ndef test_a():\n    pass\n").torch == "2.13.0+cpu"


def test_the_users_environment_has_no_say(
    repository: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    text = IMPORT + "import os\ndef test_a():\n    assert os.environ['X'] == '1'\n"
    (repository / "tests/patches/test_x.py").write_text(text)
    runner = Runner(Path(sys.executable), repository, "vllm", {"X": "1"})
    assert runner.run(["tests/patches/test_x.py::test_a"], tree).colour is GREEN


def test_tests_in_several_folders_are_one_result(repository: Path, tree: Path) -> None:
    (repository / "more").mkdir()
    (repository / "more/test_red.py").write_text("def test_r():\n    assert False\n")
    (repository / "tests/patches/test_green.py").write_text("def test_g():\n    pass\n")
    (repository / "tests/patches/test_broken.py").write_text("def test_b():\n    1 / 0\n")
    runner = Runner(Path(sys.executable), repository, "vllm")
    green, red, broken = (
        "tests/patches/test_green.py",
        "more/test_red.py",
        "tests/patches/test_broken.py",
    )
    assert runner.run([green, red], tree).colour is RED
    assert runner.run([red, broken], tree).colour is BROKEN


def test_a_tree_is_laid_out_with_its_bytes_and_modes(tmp_path: Path) -> None:
    files = {"vllm/a/b.py": b"\xff\r\n", "vllm/run.sh": b"#!/bin/sh\n"}
    lay_out(SourceTree(files, {"vllm/run.sh": EXECUTABLE}), tmp_path)
    assert (tmp_path / "vllm/a/b.py").read_bytes() == b"\xff\r\n"
    assert (tmp_path / "vllm/run.sh").stat().st_mode & 0o111
    assert not (tmp_path / "vllm/a/b.py").stat().st_mode & 0o111
