"""A real terminal of 80 columns: tables fit, progress leaves nothing behind, nobody is asked."""

from __future__ import annotations

import ast
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMNS, ROWS = 80, 24
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(folder: Path, *arguments: str) -> tuple[list[str], int]:
    """The lines that a command leaves on a terminal, and its exit status."""
    handle, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    variables = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "patchkit", *arguments],
        cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**variables, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(terminal)
    printed = b""
    while True:
        try:
            part = os.read(handle, 65536)
        except OSError:  # the other side has closed
            break
        if not part:
            break
        printed += part
    os.close(handle)
    status = process.wait()
    text = _CONTROL.sub("", printed.decode()).replace("\r\n", "\n")
    # what was overwritten on its line is not there any more
    return [line.split("\r")[-1].rstrip() for line in text.split("\n")], status


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the series that this repository keeps."""
    for folder in ("patches", "tests/patches", "kvarn_port"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches"]\n')
    return tmp_path


PATCH = "patches/v0.28.0/block-promotion.patch"


@pytest.mark.network
@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        (["status"], 0, "block-promotion"),
        (["where", PATCH, "--releases", ">=0.27"], 0, "drifted"),
        (["rebase", "v0.29.0"], 0, "10 hunks: 10 placed"),
        (["exits"], 0, "go its conditions hold"),
        (["forecast", "v0.30.0"], 0, "block-promotion"),
        (["why", "block-promotion", "v0.29.0"], 0, "Description: "),
        (["check"], 0, "sound"),
        (["help", "rebase"], 0, "EXIT STATUS"),
        (["--help"], 0, "Adopt:"),
    ],
)
def test_what_is_printed_fits(
    repository: Path, arguments: list[str], status: int, shown: str
) -> None:
    lines, found = on_terminal(repository, *arguments)
    assert found == status, "\n".join(lines)
    assert any(shown in line for line in lines), "\n".join(lines)
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_no_command_asks_a_question() -> None:
    asking = {"prompt", "confirm", "getchar", "pause", "edit"}
    found = []
    for path in sorted((ROOT / "patchkit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in {"input", "getpass", *(f"click.{name}" for name in asking)}:
                    found.append(f"{path.name}:{node.lineno}: {called}")
    assert found == []
