"""Cases measured in a child process, which may die or hang without taking the rest along."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.records.machine import Gpu, read_gpu
from tests.bench.kernels.cases import Case
from tests.bench.kernels.rows import Row, Rows

SILENCE_S = 180  # of a child, after which it hangs
ENDED = "the process ended"
WARM_S = 240  # for all that is compiled beforehand
SPAWN = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA

Pending = list[tuple[Case, list[str]]]


def pending(cases: Sequence[Case], columns: Sequence[str], rows: Rows) -> Pending:
    """The cases that have a column without a row, with those columns."""
    found = []
    for case in cases:
        missing = [column for column in columns if rows.get(case, column) is None]
        if missing:
            found.append((case, missing))
    return found


def warm(name: str, todo: Pending, compiled: Sequence[str], device: str, cores: int) -> list[str]:
    """Compile over the cores what the cases call, into Triton's cache, which all processes share.

    What does not compile is told, and met again where it is measured. Columns of different
    queries come first, since they differ in what is compiled; contexts mostly do not.
    """
    from tests.bench.kernels.bench import warm_one

    jobs = [(name, case, column, device) for case, columns in todo for column in columns]
    jobs = [job for job in jobs if job[2] in compiled]
    if not jobs:
        return []
    jobs.sort(key=lambda job: (job[1].context, job[1].batch))
    with SPAWN.Pool(min(cores, len(jobs))) as pool:
        waiting = pool.map_async(warm_one, jobs, chunksize=1)
        try:
            return [problem for problem in waiting.get(WARM_S) if problem]
        except multiprocessing.TimeoutError:
            return [f"compiling took longer than {WARM_S} s: the rest is compiled as it is called"]


def child(connection: Connection, name: str, todo: Pending, device: str, replays: int) -> None:
    """Measure cases and send what was begun and each row."""
    from tests.bench.kernels.suites import suite

    whole = suite(name)
    cases = [case for case, _ in todo]
    bench = whole.bench(cases, device, replays=replays)
    for case, columns in todo:
        for row in bench.measure(case, columns, lambda *begun: connection.send(("begun", begun))):
            connection.send(("row", row))
    connection.send(("done", None))
    connection.close()


def measured(
    name: str,
    cases: Sequence[Case],
    columns: Sequence[str],
    rows: Rows,
    device: str,
    replays: int,
    measure: Callable[..., None] = child,
) -> None:
    """Add a row for every cell that has none. A child that ends early costs what it had begun."""
    while todo := pending(cases, columns, rows):
        here, there = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=measure, args=(there, name, todo, device, replays))
        process.start()
        there.close()
        begun, why = _listened(here, rows)
        if why is None:
            process.join()
            assert pending(cases, columns, rows) != todo, "a child was done and had no row"
            continue
        process.join(30 if why == ENDED else 0)
        if process.is_alive():
            process.kill()
            process.join()
        case, column = begun or (todo[0][0], "")
        # while columns are timed in turn, any of them may be the one
        lost = [c for c in ([column] if column else dict(todo)[case]) if rows.get(case, c) is None]
        for column in lost:
            said = why if process.exitcode in (None, -9) else f"{why} (exit {process.exitcode})"
            rows.add(Row(case, column, "failed", said))


def _listened(here: Connection, rows: Rows) -> tuple[tuple[Case, str] | None, str | None]:
    """What was begun last, and why nothing more came; None where all was done."""
    begun = None
    started = time.monotonic()
    while True:
        try:
            if not here.poll(SILENCE_S):
                return begun, f"nothing was heard for {SILENCE_S} s"
            kind, value = here.recv()
        except EOFError:
            return begun, ENDED
        if kind == "done":
            return begun, None
        if kind == "begun":
            begun = value
            if begun[1] == "":
                _say(f"{begun[0].name} {time.monotonic() - started:.0f} s")
        else:
            rows.add(value)


def _say(text: str) -> None:
    print(text, flush=True)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def facts(device: str) -> dict[str, Any]:
    """What measured rows depend on beside the sources: the device and the versions."""
    import torch

    from tests.bench.kernels.peers import versions

    if device == "cpu":
        return {"gpu": "cpu", **versions()}
    return {"gpu": torch.cuda.get_device_name(), **lasting(read_gpu), **versions()}


def lasting(read: Callable[[], Gpu | None]) -> dict[str, Any]:
    """What of a GPU a record states once for all rows, so that rows kept under another are none."""
    try:
        gpu = read()
    except PatchkitError:  # an nvidia-smi of other words; no record is written there
        gpu = None
    if gpu is None:
        return {"driver": "unknown", "power_limit_w": None}
    return {"driver": gpu.driver, "power_limit_w": gpu.power_limit_w}
