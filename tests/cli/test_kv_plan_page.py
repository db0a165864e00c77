"""docs/kv-plan.md, the README and the help of `kv-plan`: they show what the command does."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from patchkit import cli
from patchkit.cli.kv_plan import command
from tests.walk.console import Step, is_said, read_steps

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kv-plan.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
STEPS = list(read_steps(PAGE))
# Folders as the pages name them, and which config.json of the tests lies in each.
MODELS = {
    "Qwen3-8B": "qwen3-8b",
    "gpt-oss-20b": "gpt-oss-20b",
    "gemma-3-27b": "gemma-3-27b",
    "Qwen3-Next-80B-A3B": "qwen3-next-80b-a3b",
    "Qwen3.8-27B": "qwen3.8-27b",
    "DFlash2": "drafter-dflash2-window",
}
Out = pytest.CaptureFixture[str]


@pytest.fixture
def models(folder: Path) -> Path:
    """Return the working folder, with the models of the pages and the files that they show."""
    for name, config in MODELS.items():
        (folder / name).mkdir()
        shutil.copy(ROOT / "tests" / "kv" / "configs" / f"{config}.json",
                    folder / name / "config.json")  # fmt: skip
    shutil.copy(folder / "Qwen3-Next-80B-A3B" / "config.json", folder)
    for step in STEPS:
        if step.command.startswith("cat "):
            (folder / step.command.removeprefix("cat ")).write_text("\n".join(step.said) + "\n")
    return folder


def words(line: str) -> list[str]:
    """The words of a command line, after `patchkit`."""
    tool, *found = shlex.split(line.replace("\\\n", ""), comments=True)
    assert tool == "patchkit"
    assert found[0] == "kv-plan"
    return found


@pytest.mark.parametrize(
    "step", [step for step in STEPS if not step.command.startswith("cat ")],
    ids=lambda step: f"line {step.lineno}",
)  # fmt: skip
@pytest.mark.usefixtures("models")
def test_the_page_shows_what_the_command_prints(step: Step, capsys: Out) -> None:
    status = cli.run(words(step.command))
    out, err = capsys.readouterr()
    printed = (out + err).removesuffix("\n").split("\n")
    printed += [f"[{status}]"] if status else []
    assert is_said(step.said, printed), "\n".join(printed)


def test_no_command_of_the_page_is_passed_over() -> None:
    assert len(STEPS) == PAGE.count("\n$ ") > 8


def examples() -> list[str]:
    """The command lines of the README and of the help that plan a cache."""
    assert command.help is not None
    lines = re.findall(r"^ *(patchkit kv-plan .*)$", f"{README}\n{command.help}", re.MULTILINE)
    assert len(lines) > 7
    return lines


@pytest.mark.parametrize("line", examples())
@pytest.mark.usefixtures("models")
def test_examples_run(line: str, capsys: Out) -> None:
    if "--plot" in line:
        pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    status = cli.run(words(line))
    out, err = capsys.readouterr()
    assert (status, err) in ((0, ""), (3, "")), out


def test_the_page_names_files_that_there_are() -> None:
    named = re.findall(r"`((?:patchkit|docs|tests)/[\w/.-]+)`", PAGE)
    assert len(named) > 6
    for name in named:
        assert (ROOT / name).exists(), name


def test_the_page_explains_every_word_of_a_format_and_no_other() -> None:
    table = PAGE.split("## A format of your own")[1].split("```")[0]
    first = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    explained = {word for row in first for cell in row for word in re.findall(r"`(\w+)`", cell)}
    shipped = tomllib.loads((ROOT / "patchkit" / "kv" / "formats.toml").read_text("utf-8"))
    rows = list(shipped["formats"].values())
    used = {word for row in rows for word in row}
    used |= {word for row in rows for side in ("key", "value") for word in row.get(side, ())}
    assert explained == used | {"until"}
