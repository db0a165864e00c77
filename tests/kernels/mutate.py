"""Says which test catches each of the mutations of `mutations.py`: python -m tests.kernels.mutate

Each is made in a copy of the kernels, and the tests of this folder are run on it through Triton's
interpreter until one fails; names of mutations may be given. The exit status is 1 where a mutation
survives, and where the text that it replaces is gone, so that the list stays true.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.kernels.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 900
# Heads of 64, few to a key head: most mistakes show in these within seconds.
QUICK = "short_call and D64 and not 80heads"


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


def first_failure(folder: Path) -> str | None:
    """Return the test that fails first in a copy, the quick ones before the rest, or None."""
    return _failure(folder, "-k", QUICK) or _failure(folder)


def _failure(folder: Path, *chosen: str) -> str | None:
    """Return the first failure of some tests, or None; a crash of the interpreter is one."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *chosen]
    command += ["--confcutdir", "tests/kernels", "-m", "kernel and not gpu", "--tb=line"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [*command, "tests/kernels/test_verify_attention.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (?:\S*?::)?(.*?)(?: - |$)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"exit status {done.returncode}"


def trial(mutation: Mutation) -> str | None:
    """Return which test catches a mutation, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy_with(mutation, Path(folder))
        return first_failure(Path(folder))


def main(names: list[str]) -> int:
    """Try the mutations of these names, or all; return the exit status."""
    chosen = [mutation for mutation in MUTATIONS if not names or mutation.name in names]
    survived = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        trials = {pool.submit(trial, mutation): mutation for mutation in chosen}
        for done in as_completed(trials):
            survived += done.result() is None
            print(f"{trials[done].name}: {done.result() or 'SURVIVED'}", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
