"""Says which test catches each of the mutations of `mutations*.py`: python -m tests.kernels.mutate

Each is made in a copy of the kernels, and tests are run on it, the quick ones before the rest,
until one fails: through Triton's interpreter, or with --gpu, on a Hopper GPU, several at a time,
those of what the interpreter does not run. Names of mutations may be given; --plan prints what
would be run.

What is caught fails a comparison, overflows, kills its process or never ends. The exit status is 1
where one survives; where one does not run at all, which shows nothing; and where the text that it
replaces is gone, so that the list stays true. 5: there is no Hopper GPU.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.kernels.hopper_mutations import HANDFUL, HOPPER_MUTATIONS
from tests.kernels.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
TIMEOUT_S = {"cpu": 900, "gpu": 90}
AT_ONCE_ON_GPU = 15


def _tables(pattern: str, name: str) -> tuple[Mutation, ...]:
    """Return the mutations of a name in the files of a pattern: each part has one of its own."""
    return tuple(
        mutation
        for path in sorted(Path(__file__).parent.glob(pattern))
        for mutation in getattr(importlib.import_module(f"tests.kernels.{path.stem}"), name)
    )


KVARN_MUTATIONS = _tables("mutations_kvarn_*.py", "MUTATIONS")
GPU_MUTATIONS = (*HOPPER_MUTATIONS, *_tables("mutations_gpu_*.py", "MUTATIONS"))
REFERENCE = "tests/kernels/test_verify_reference.py"
PARITY = "tests/kernels/test_verify_attention.py"
# Heads of 64, few to a key head: most mistakes show in these within seconds.
QUICK = "short_call and D64 and not 80heads"
# A comparison, no refusal, a number that overflows, a crash, no end.
CAUGHT = re.compile(
    r"assert|AssertionError|Failed: DID NOT RAISE|.*RuntimeWarning|exit status|not done"
)
# With --gpu, beside the mutations: what fails without any of them shows nothing.
UNCHANGED = (
    Mutation("nothing changed", "kvarn_port/__init__.py", "", "", count=0, gpu=True),
    *_tables("mutations_gpu_*.py", "UNCHANGED"),
)


@dataclass(frozen=True)
class Found:
    """What became of a mutation: which test said what of it, if any."""

    test: str | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Return "caught", "survived", or "broken" where it did not run."""
        if self.test is None:
            return "survived"
        return "caught" if CAUGHT.match(self.reason) else "broken"


def mutated(source: str, mutation: Mutation) -> str:
    """Return the source with the mutation; raises ValueError where its text is not there once."""
    count = source.count(mutation.old) if mutation.old else 0
    if count != mutation.count:
        raise ValueError(f"{mutation.name}: its text is {count} times in {mutation.file}")
    return source.replace(mutation.old, mutation.new) if mutation.old else source


def stages(mutation: Mutation) -> list[tuple[str, ...]]:
    """Return what pytest is asked for on a mutation, one after the other until a test fails."""
    if mutation.gpu:
        return [("-m", "kernel", *(mutation.tests or [f"{PARITY}::{name}" for name in HANDFUL]))]
    marked = ("-m", "kernel and not gpu")
    if mutation.tests:
        return [(*marked, file) for file in mutation.tests]
    if mutation.file.startswith("kvarn_port/reference/"):
        return [(*marked, REFERENCE)]
    first = (mutation.caught_by,) if mutation.caught_by else (QUICK,)
    return [*((*marked, "-k", names, PARITY) for names in first), (*marked, PARITY)]


def copy_with(mutation: Mutation, folder: Path) -> None:
    """Write the kernels, mutated, and their tests into a folder."""
    for part in ("kvarn_port", "tests/kernels"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    target = folder / mutation.file
    target.write_text(mutated(target.read_text(encoding="utf-8"), mutation), encoding="utf-8")


def trial(mutation: Mutation) -> Found:
    """Return which test catches a mutation."""
    with tempfile.TemporaryDirectory() as folder:
        copy_with(mutation, Path(folder))
        for asked in stages(mutation):
            found = first_failure(Path(folder), asked, gpu=mutation.gpu)
            if found.test is not None:
                return found
    return Found(None)


def first_failure(folder: Path, asked: Sequence[str], *, gpu: bool) -> Found:
    """Return the first failure of some tests in a copy; a crash of the process is one."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
    command += ["--confcutdir", "tests/kernels", *asked]
    # a line of the summary is cut off at the width of the terminal
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "1000"}
    environment |= {"OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(folder / "triton")}
    environment.pop("TRITON_INTERPRET", None)
    if not gpu:
        environment["TRITON_INTERPRET"] = "1"
    limit = TIMEOUT_S["gpu" if gpu else "cpu"]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Found("some test", f"not done in {limit} s")
    return parsed(done.returncode, done.stdout)


def parsed(status: int, output: str) -> Found:
    """Return what pytest's exit status and output say."""
    if status == 0:
        ran = re.search(r"^(\d+) passed", output, re.MULTILINE)
        return Found(None) if ran else Found("no test", "everything was skipped")
    line = re.search(r"^(?:FAILED|ERROR) (?:\S*?::)?(.*?)(?: - (.*))?$", output, re.MULTILINE)
    if line is None:
        crashed = status < 0 or status > 127
        return Found("some test", f"exit status {status}" if crashed else output[-300:])
    return Found(line[1], line[2] or "no reason")


def is_hopper() -> bool:
    """Return whether there is a GPU that path "int8" takes."""
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.mutate", description=__doc__)
    parser.add_argument("names", nargs="*", help="of mutations; all where none is given")
    parser.add_argument("--gpu", action="store_true", help="those that take a Hopper GPU")
    parser.add_argument("--plan", action="store_true", help="print what would be run")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Try the mutations of these names, or all; return the exit status."""
    asked = arguments(argv)
    chosen = [
        mutation
        for mutation in (*MUTATIONS, *GPU_MUTATIONS, *KVARN_MUTATIONS)
        if mutation.gpu == asked.gpu and (not asked.names or mutation.name in asked.names)
    ]
    for mutation in chosen:
        mutated((ROOT / mutation.file).read_text(encoding="utf-8"), mutation)
    if asked.plan:
        for mutation in chosen:
            print(mutation.name, *stages(mutation), sep="\n    ")
        return 0
    if asked.gpu and not is_hopper():
        print("there is no Hopper GPU; nothing was shown")
        return 5
    many = min(AT_ONCE_ON_GPU, os.cpu_count() or 1) if asked.gpu else os.cpu_count()
    right = {unchanged.name: "survived" for unchanged in UNCHANGED}
    failed = 0
    with ThreadPoolExecutor(many) as pool:
        tried = [*UNCHANGED, *chosen] if asked.gpu else chosen
        trials = {pool.submit(trial, mutation): mutation for mutation in tried}
        for done in as_completed(trials):
            name, found = trials[done].name, done.result()
            failed += found.verdict != right.get(name, "caught")
            print(f"{found.verdict:8} {name}: {found.test} {found.reason[:120]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
