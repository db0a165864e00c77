"""The command line: `python -m tests.bench.rebase --hunks 10,100 --repeat 3`."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from patchkit.records.run import Run, Workload
from patchkit.upstream import open_tree
from tests.bench.measure import Job, Timing, run_job
from tests.bench.report import Row, as_json, print_table
from tests.bench.series import Drawn

ROOT = Path(__file__).parents[2]
# What a rebase spends its time in, and this benchmark: with any of it changed the figures are old.
SOURCES = (
    *(f"patchkit/{p}" for p in ("diff", "syntax", "names", "placing", "surface", "stacking")),
    *(f"tests/bench/{name}.py" for name in ("rebase", "measure", "series")),
)
SIZES = (10, 30, 100, 118, 300, 1000)
_WIDTH = 120  # of the table where there is no terminal


def _timed(job: Job) -> tuple[Drawn, Timing]:
    """Do a job in a process of its own: what one run parsed is no help to the next."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run_job, job).result()


def _begin() -> Run:
    command = ["python", "-m", "tests.bench.rebase", *sys.argv[1:]]
    return Run.begin(
        "rebase-speed", root=ROOT, sources=SOURCES, command=command, uses_gpu=False
    )  # fmt: skip


def _add(run: Run, row: Row) -> None:
    """Add what a size took to a record: processor time, and where it went."""
    what, timings = f"move of {row.hunks} hunks", row.timings
    for name, unit, samples in (
        ("cpu", "s", [t.cpu_s for t in timings]),
        ("cpu-a-hunk", "ms", [1000 * t.cpu_s / row.hunks for t in timings]),
        ("placing", "%", [100 * t.placing_s / t.wall_s for t in timings]),
        ("drift", "%", [100 * t.drift_s / t.wall_s for t in timings]),
    ):
        run.add(f"{what}: {name}", samples, unit, Workload(), row=f"{name}-{row.hunks}")


def _sizes(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"`{text}` is not a list of numbers") from None
    if min(sizes) < 1:
        raise click.BadParameter("a series has one hunk at least")
    return sizes


@click.command()
@click.option("--base", default="0.28.0", show_default=True)
@click.option("--target", default="0.29.0", show_default=True)
@click.option("--later", default="0.31.0", show_default=True, help="Whose changes are the hunks.")
@click.option("--hunks", default=",".join(map(str, SIZES)), show_default=True, callback=_sizes)
@click.option("--seed", default=7, show_default=True)
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1))
@click.option("--out", type=click.Path(path_type=Path), help="File for the timings.")
@click.option("--record", type=click.Path(path_type=Path), help="Folder for a run record.")
@click.option("--json", "as_text", is_flag=True, help="Print the timings as JSON.")
def main(
    base: str,
    target: str,
    later: str,
    hunks: Sequence[int],
    seed: int,
    repeat: int,
    out: Path | None,
    record: Path | None,
    as_text: bool,
) -> None:
    """Measure how the time of a rebase grows with the series; the releases are cached first."""
    run = _begin() if record is not None else None
    for version in (base, target, later):
        open_tree(f"v{version}")
    jobs = [Job(base, target, later, size, seed) for size in hunks]
    # In turns, so that a busy spell of the machine spoils no size alone.
    turns = [job for _ in range(repeat) for job in jobs]
    console = Console(stderr=True)
    done = track(
        map(_timed, turns), "timing", len(turns), console=console, disable=not console.is_terminal
    )
    found = list(zip(turns, done, strict=True))
    rows = []
    for job in jobs:
        runs = [one for turn, one in found if turn == job]
        drawn = runs[0][0]
        timings = tuple(timing for _, timing in runs)
        rows.append(Row(drawn.hunks, drawn.files, len(drawn.patches), timings))
    text = as_json(
        {
            "releases": {"base": base, "target": target, "later": later},
            "seed": seed,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        rows,
    )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    if run is not None and record is not None:
        for row in rows:
            _add(run, row)
        Console(stderr=True).print(f"written: {run.write(record).name}")
    if as_text:
        sys.stdout.write(text)
        return
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    print_table(rows, console)


if __name__ == "__main__":
    main()
