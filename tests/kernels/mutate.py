"""Says which test catches each of the mutations of `mutations.py`: python -m tests.kernels.mutate

Each is made in a copy of the kernels, and the tests of this folder are run on it through Triton's
interpreter until one fails: -- [NAME …]. The exit status is 1 where a mutation survives, or where
the text that it replaces is not there once, so that the list stays true.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kernels.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300


def mutated(source: str, mutation: Mutation) -> str:
    """Return the source with the mutation; raises ValueError where its text is not there once."""
    count = source.count(mutation.old)
    if count != mutation.count:
        raise ValueError(f"{mutation.name}: its text is {count} times in {mutation.file}")
    return source.replace(mutation.old, mutation.new)


def copy_with(mutation: Mutation, folder: Path) -> None:
    """Write the kernels, mutated, and their tests into a folder."""
    for part in ("kvarn_port", "tests/kernels"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    target = folder / mutation.file
    target.write_text(mutated(target.read_text(encoding="utf-8"), mutation), encoding="utf-8")


def first_failure(folder: Path, *tests: str) -> str | None:
    """Return the test that fails first in a copy, or None; a crash of the interpreter is one."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["--confcutdir", "tests/kernels", "-m", "kernel and not gpu", "--tb=line"]
    command += tests or ["tests/kernels/test_verify_attention.py"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"no end within {TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (?:\S*::)?(.*?)(?: - |$)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"exit status {done.returncode}"


def main(names: list[str]) -> int:
    """Try the mutations of these names, or all; return the exit status."""
    survived = 0
    for mutation in MUTATIONS:
        if names and mutation.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy_with(mutation, Path(folder))
            caught = first_failure(Path(folder))
        survived += caught is None
        print(f"{mutation.name}: {caught or 'SURVIVED'}", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
