"""Reformatting, by ruff at another line length."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from random import Random

from tests.bench_rebase.refactors.ground import Ground, InapplicableError

LINE_LENGTH = 120


@lru_cache(maxsize=1)
def ruff() -> str:
    """Return the path of ruff: beside this Python, else on the search path."""
    beside = Path(sys.executable).with_name("ruff")
    found = str(beside) if beside.exists() else shutil.which("ruff")
    if found is None:
        raise FileNotFoundError("ruff is not installed; it belongs to the dependency group `lint`")
    return found


@lru_cache(maxsize=64)
def formatted(text: bytes) -> bytes:
    """Return a Python file as ruff formats it, with no configuration but the line length."""
    command = [ruff(), "format", "--isolated", "--no-cache", "--line-length", str(LINE_LENGTH)]
    done = subprocess.run(
        [*command, "--stdin-filename", "module.py", "-"],
        input=text,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise InapplicableError(f"ruff: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def reformat(ground: Ground, rng: Random) -> Ground:  # noqa: ARG001
    """Format both sides for another line length."""
    target, truth = (formatted(source.text) for source in ground.sources)
    if target == ground.target[ground.path]:
        raise InapplicableError("already formatted so")
    return ground.with_texts(target, truth, f"reformat at line length {LINE_LENGTH}")
