"""Timed rows as a run record. A tree that is not what was committed gets none, and that is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.kernels.cases import FORMATS
from tests.bench.kernels.rows import Row
from tests.bench.kernels.suites import Suite

MOST_DRAFTED = 64  # query tokens; more are a chunk of a prompt


def begin(
    suite: Suite, root: Path, command: Sequence[str], manifest: Path | None, gpu: str | None = None
) -> tuple[Any, str | None]:
    """A run that begins now and None, or None and the reason why it cannot be one of record.

    `gpu` is the device's name as torch has it: what nvidia-smi shows must be that one.
    """
    try:
        from patchkit.errors import PatchkitError
        from patchkit.records.run import Run
    except ImportError as error:
        return None, str(error)
    try:
        run = Run.begin(
            suite.name, root=root, sources=suite.sources, command=command, manifest=manifest
        )
    except PatchkitError as error:
        return None, str(error)
    named = run.gpu.name if run.gpu else "none"
    if gpu is not None and named != gpu:
        return None, f"the GPU is {gpu}, nvidia-smi and CUDA_VISIBLE_DEVICES name {named}"
    return run, None


def write(run: Any, suite: Suite, rows: Iterable[Row], folder: Path) -> Path:
    """The file of the record, with every timed row and the copy's bandwidth.

    Ours also has the bandwidth of the bytes that it must read, in rows of its own, and what that
    is of the copy's, so that a text can state both.
    """
    from patchkit.records.run import Workload

    timed = [row for row in rows if row.status == "timed"]
    for row in timed:
        subject, variant = parts(row.column)
        case = row.case
        workload = Workload(
            context=case.context,
            new_tokens=case.new_tokens,
            batch=case.batch,
            draft_length=case.new_tokens - 1 if case.new_tokens <= MOST_DRAFTED else None,
            cached_tokens=case.context - case.new_tokens,
            kv_format=suite.formats[row.column],
            block_size=case.block_size,
            cache="cold",
        )
        measured = f"{suite.name.replace('-', ' ')}, {variant}"
        run.add(measured, row.samples_us, "µs", workload, row=row_id(row), subject=subject)
        if subject == "ours":
            gbps = [row.cache_bytes / us / 1e3 for us in row.samples_us]
            share = [100 * one / row.copy_gbps for one in gbps]
            for text, samples, unit, end in (
                ("bandwidth of", gbps, "GB/s", "gbps"),
                ("share of the copy by", share, "%", "of-copy"),
            ):
                name = f"{row_id(row)}-{end}"
                run.add(f"{text} {measured}", samples, unit, workload, row=name, subject=subject)
    copies = sorted({row.copy_gbps for row in timed})
    run.add("copy on the device", copies, "GB/s", Workload(), row="copy", subject="torch")
    return run.write(folder)


def parts(column: str) -> tuple[str, str]:
    """Whose a column is, and its format with what else it says: "ours", "k4v2 pack"."""
    words = column.split()
    at = next((at for at, word in enumerate(words) if word in FORMATS), None)
    if at is None:  # a column that has one format
        return column, "bf16"
    return " ".join(words[:at]), " ".join(words[at:])


def written(run: Any, suite: Suite, rows: Iterable[Row], folder: Path) -> str:
    """Where the record is, or why there is none: say a tree that changed meanwhile."""
    from patchkit.errors import PatchkitError

    try:
        return f"record: {write(run, suite, rows, folder)}"
    except PatchkitError as error:
        return f"no record: {error}"


def row_id(row: Row) -> str:
    """The id of a row in its record: int8-131072-q8-b1 of ours is ours-int8-b1-131072-q8."""
    column = re.sub(r"[^a-z0-9]+", "-", row.column.lower())
    return f"{column}-{row.case.name}"
