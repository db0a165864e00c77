"""How long `patchkit where` takes over all pinned releases: `python -m tests.bench.where`.

Two patches of the same size: one that a person could keep, whole files of upstream's later changes
that stand on the base, and one of single hunks drawn at random, most of which conflict somewhere.
The whole command is timed, from the start of the interpreter to its end, with trees in the cache.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from patchkit.diff import diff_files, format_files
from patchkit.diff.model import FilePatch
from patchkit.errors import PatchkitError
from patchkit.stacking.rebase import PatchInput, rebase_series
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree, shipped_pins
from tests.bench.series import draw_series


def draw_standing(base: SourceTree, later: SourceTree, *, hunks: int, seed: int) -> bytes:
    """Return a patch of exactly so many hunks that lands on its own base, hunk by hunk.

    It holds all that the later release changed in some files. Raises PatchkitError where there is
    not enough of that.
    """
    chosen: list[FilePatch] = []
    left = hunks
    for file in _changed(base, later, random.Random(seed)):
        if len(file.hunks) > left or not _stands([*chosen, file], base):
            continue
        chosen.append(file)
        left -= len(file.hunks)
        if not left:
            return format_files(tuple(sorted(chosen, key=lambda f: f.path)))
    raise PatchkitError(f"there are {hunks - left} hunks that stand, {hunks} are wanted")


def _changed(base: SourceTree, later: SourceTree, rng: random.Random) -> Iterator[FilePatch]:
    """What the later release changed in files of several hunks, in a random order."""
    paths = [p for p in sorted(base.files) if p.endswith(".py") and p in later.files]
    rng.shuffle(paths)
    for path in paths:
        for file in diff_files({path: base.files[path]}, {path: later.files[path]}):
            if 2 <= len(file.hunks) <= 6:
                yield file


def _stands(files: list[FilePatch], base: SourceTree) -> bool:
    result = rebase_series([PatchInput("drawn", format_files(tuple(files)))], base, base)
    return all(outcome.status == "placed" for outcome in result.outcomes)


@dataclass(frozen=True)
class Run:
    """One run of the command: wall clock, and the time of all its processors together."""

    wall_s: float
    cpu_s: float
    report: dict[str, Any]


def time_where(patch: Path, *options: str) -> Run:
    """Return how long the command takes, with its report."""
    command = [sys.executable, "-m", "patchkit", "where", str(patch), "--json", *options]
    start, before = time.perf_counter(), _children_cpu_s()
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise PatchkitError(f"exit status {done.returncode}", place=" ".join(command))
    return Run(seconds, _children_cpu_s() - before, json.loads(done.stdout))


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.option("--base", default="0.28.0", show_default=True)
@click.option("--later", default="0.31.0", show_default=True, help="Whose changes are the hunks.")
@click.option("--hunks", default=20, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=7, show_default=True)
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1))
def main(base: str, later: str, hunks: int, seed: int, repeat: int) -> None:
    """Time the command with as many processes as there are processors, and with one."""
    trees = {version: open_tree(version) for version in shipped_pins().versions}
    drawn = draw_series(
        trees[base], trees[later], trees[base], hunks=hunks, seed=seed, patches=1
    )  # fmt: skip
    standing = draw_standing(trees[base], trees[later], hunks=hunks, seed=seed)
    patches = {"whole files": standing, "single hunks": drawn.patches[0].data}
    print(f"{hunks} hunks, {len(trees)} releases, {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in patches.items():
            path = Path(folder, f"{name.replace(' ', '-')}.patch")
            path.write_bytes(data)
            time_where(path)  # compiles Python files, warms the disk
            for jobs in (os.cpu_count() or 1, 1):
                runs = [time_where(path, "--jobs", str(jobs)) for _ in range(repeat)]
                wall, cpu = (median(getattr(r, unit) for r in runs) for unit in ("wall_s", "cpu_s"))
                each = ", ".join(f"{run.wall_s:.1f}" for run in runs)
                print(f"{name}, {jobs} at once: {wall:.1f} s ({each}), processors {cpu:.1f} s")
            report = runs[-1].report
            verdicts = Counter(row["verdict"] for row in report["releases"])
            counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
            print(f"  base {report['base']['name']}; {counts}", flush=True)


if __name__ == "__main__":
    main()
