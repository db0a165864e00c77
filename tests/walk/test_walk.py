"""docs/walk.md, from the first line to the last, on real releases and a real wheel."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.walk.console import Step, is_said, read_steps, run_step

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "walk.md"


@pytest.mark.network
def test_the_walk_goes_as_it_is_told(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "walk", tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "vllm-patches"
    folder.mkdir()
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    tool = bin_folder / "patchkit"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m patchkit "$@"\n')
    tool.chmod(0o755)
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "COLUMNS": "80",
    }
    for step in read_steps(PAGE.read_text(encoding="utf-8")):
        printed = run_step(step, folder, variables)
        assert is_said(step.said, printed), "\n".join(
            [f"docs/walk.md:{step.lineno}: $ {step.command}", *printed]
        )


def test_no_command_of_the_page_is_passed_over() -> None:
    text = PAGE.read_text(encoding="utf-8")
    steps = list(read_steps(text))
    shown = [line for line in text.split("\n") if line.startswith("$ ")]
    assert len(steps) == len(shown)
    assert len(steps) > 15


def test_a_page_that_says_otherwise_is_caught() -> None:
    printed = ["one", "two 2", "[3]"]
    assert is_said(("one", "two 2", "[3]"), printed)
    assert is_said(("one", "two...", "[3]"), printed)
    assert is_said(("...", "[3]"), printed)
    assert is_said(("one", "...", "[3]"), printed)
    assert not is_said(("one", "two 2"), printed)
    assert not is_said(("one", "[3]"), printed)
    assert not is_said(("one", "two 3", "[3]"), printed)
    assert not is_said((), printed)
    assert not is_said(("one",), [])


def test_commands_are_run_as_they_stand(tmp_path: Path) -> None:
    page = "```console\n$ echo a \\\n    b\na b\n$ cat <<'END'\nx\nEND\nx\n$ exit 3\n[3]\n```\n"
    steps = list(read_steps(page))
    assert steps == [
        Step("echo a \\\n    b", ("a b",), 2),
        Step("cat <<'END'\nx\nEND", ("x",), 5),
        Step("exit 3", ("[3]",), 9),
    ]
    for step in steps:
        assert run_step(step, tmp_path, os.environ) == list(step.said)
