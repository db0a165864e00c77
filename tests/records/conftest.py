"""A small project under git, and machines as nvidia-smi shows them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchkit.records import machine, run

H200 = (
    "0, GPU-5a1c6f8e-0d7e-4b1f-9c53-1f0c7c1f2a11, NVIDIA H200, 580.95.05, 700.00, 345, 3201, P0, "
    "76.42, 31\n"
)
H200_BUSY = (
    "0, GPU-5a1c6f8e-0d7e-4b1f-9c53-1f0c7c1f2a11, NVIDIA H200, 580.95.05, 700.00, 1980, 3201, P0, "
    "612.10, 58\n"
)
H200_LIMITED = H200_BUSY.replace("700.00", "500.00")


def git(folder: Path, *words: str) -> str:
    """Run git, apart from what this machine's user has configured."""
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    done = subprocess.run(
        ["git", *identity, "-c", "commit.gpgsign=false", *words],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a kernel and its benchmark, committed."""
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    (root / "kernels" / "verify.py").write_text("SPLITS = 8\n")
    (root / "bench.py").write_text("print('timed')\n")
    (root / ".gitignore").write_text("__pycache__/\n*.so\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have nvidia-smi say one text after the other; the last stays."""

    def say(*texts: str) -> None:
        left = list(texts)

        def answer() -> machine.Gpu | None:
            text = left.pop(0) if len(left) > 1 else left[0]
            return machine.choose_gpu(text, None)

        monkeypatch.setattr(run, "read_gpu", answer)

    say("")
    return say
