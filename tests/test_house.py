"""What a newcomer runs first, and what CI runs, are the same lines."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
SETUP = "[ -x .venv/bin/nox ] || { python3 -m venv .venv && .venv/bin/pip install -q nox; } && "


def test_the_readme_opens_with_two_lines_that_set_up_everything() -> None:
    assert COMMANDS[0] == f"{SETUP}.venv/bin/nox -s rebase -- v0.29.0\n"
    assert COMMANDS[1] == f"{SETUP}.venv/bin/nox -s tests\n"


def test_ci_runs_the_readmes_test_command_as_it_is_written() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert COMMANDS[1].strip() in lines
    assert ".venv/bin/nox -s e2e" in lines
    assert ".venv/bin/nox -s lint format types" in lines
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_every_session_of_the_readme_and_of_ci_is_there() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = re.findall(r"@nox\.session(?:\(name=\"([\w-]+)\"\))?\ndef (\w+)", noxfile)
    names = [given or function for given, function in sessions]
    assert names == [
        "rebase",
        "tests",
        "engine",
        "kernels",
        "e2e",
        "gpu",
        "bench",
        "bench-rebase",
        "history",
        "lint",
        "types",
        "format",
    ]
    listed = re.search(r"`nox -l` lists what can be run: ([^.]*)\. ", README)
    assert listed is not None
    assert sorted(re.findall(r"`([\w-]+)`", listed[1])) == sorted(names)


@pytest.mark.parametrize("path", ["README.md", ".ci/run", "noxfile.py"])
def test_no_figure_and_no_host_is_claimed(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "://" not in text
    assert re.findall(r"\b\d+(?:\.\d+)? ?(?:%|x faster|times|seconds|tokens/s|GB/s|MB)", text) == []


def test_the_wheel_holds_the_pins() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"upstream_pins.toml": "patchkit/upstream/upstream_pins.toml"}
