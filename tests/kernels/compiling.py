"""Code that compiles kernels, run where Triton's interpreter is off: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed(code: str, *arguments: str) -> str:
    """Return what a Python program prints; it has to end well."""
    variables = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    made = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, env=variables, text=True, capture_output=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout
