"""Records for tests, as a benchmark would have written them, and a project that holds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from patchkit.records.checkout import source_sha256
from patchkit.records.library import Library
from patchkit.records.record import Row, Workload, format_record

LONG = Workload(
    context=131072, new_tokens=8, batch=1, draft_length=7, cached_tokens=131064,
    kv_format="int8_per_token_head", block_size=448, cache="cold",
)  # fmt: skip
BF16 = replace(LONG, kv_format="bf16")


def row(name: str, value: float, workload: Workload = LONG, **options: Any) -> Row:
    """One row; the options are fields of it."""
    made = Row(
        name, "ours", "verify attention", "µs", value, 30, 0.4, value - 1, value + 9, workload
    )
    return replace(made, **options)


def header(root: Path, **options: Any) -> dict[str, Any]:
    """What holds for all rows: an H200, the kernels of the project as they are."""
    state = {
        "sm_clock_mhz": 1980.0, "memory_clock_mhz": 3201.0, "power_state": "P0",
        "power_draw_w": 600.0, "temperature_c": 50.0,
    }  # fmt: skip
    versions = {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "vllm": "0.28.0"}
    made: dict[str, Any] = {
        "schema": "patchkit.run-record/1",
        "name": "verify",
        "began": "2026-11-30T10:00:00+00:00",
        "ended": "2026-11-30T10:05:00+00:00",
        "command": ["bench.py"],
        "commit": "ab" * 20,
        "sources": {"kernels": source_sha256(root, "kernels")},
        "engine": False,
        "tree": None,
        "gpu": {
            "name": "NVIDIA H200", "driver": "580.95.05", "power_limit_w": 700.0,
            "before": state, "after": state,
        },
        "machine": {"cpu": "Xeon", "cores": 16, "versions": versions},
    }  # fmt: skip
    return made | options


def store(root: Path, name: str, *rows: Row, **options: Any) -> Path:
    """Write a record of the project; the options are fields of its header."""
    folder = root / "docs" / "records"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(format_record(header(root, **options), {r.row: r for r in rows}))
    return path


def library(root: Path) -> Library:
    """The records of the project."""
    return Library(root, root / "docs" / "records")
