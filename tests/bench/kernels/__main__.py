"""Benchmarks of kernels: `python -m tests.bench.kernels [SUITE …]`, on one CUDA device.

Needs torch and Triton, no network and no installed patchkit. What is compared with is imported from
an installed vLLM; where it is absent, its column says so. A run that was cut short goes on where it
was, unless sources, GPU or versions have changed. Exit status: 0 timed, 3 something failed, 5
something of ours could not be timed here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tests.bench.kernels import recording, running
from tests.bench.kernels.cases import Case
from tests.bench.kernels.rows import Row, Rows, digest
from tests.bench.kernels.suites import SUITES, Suite, suite
from tests.bench.kernels.table import legend, table

ROOT = Path(__file__).parents[3]
STATE = ROOT / ".gpu" / "bench"
NO_RECORD = "through the interpreter on a CPU: nothing here is a figure"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kernels", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--list", action="store_true", help="name the cells and end")
    parser.add_argument("--only", metavar="TEXT", help='cells whose name has it: "int8: b1-131072"')
    parser.add_argument("--quick", action="store_true", help="a few cases, no record")
    parser.add_argument(
        "--shard", metavar="I/N", default="1/1", help="every Nth case, from the Ith"
    )
    parser.add_argument("--no-resume", dest="resume", action="store_false", help="measure all anew")
    parser.add_argument("--resume", action="store_true", default=True, help="the default")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--block-size", type=int, metavar="TOKENS", help="of every case")
    parser.add_argument("--replays", type=int, metavar="N", help="of each captured graph, 20")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="tables and rows go there too")
    parser.add_argument("--state", type=Path, default=STATE, metavar="FOLDER", help="kept rows")
    parser.add_argument("--records", type=Path, metavar="FOLDER", help="default: docs/records")
    parser.add_argument("--manifest", type=Path, metavar="FILE", help="where there is no .git")
    parser.add_argument("--no-record", dest="record", action="store_false")
    return parser.parse_args(argv)


def chosen(whole: Suite, asked: argparse.Namespace) -> tuple[list[Case], list[str]]:
    """The cases and columns that are asked for."""
    cases = list(whole.cases)
    if asked.device == "cpu":
        cases = list(whole.tiny)
    elif asked.quick:
        cases = list(whole.quick)
    if asked.block_size:
        cases = [replace(case, block_size=asked.block_size) for case in cases]
    shard = re.fullmatch(r"(\d{1,4})/(\d{1,4})", asked.shard)
    own, parts = (int(shard[1]), int(shard[2])) if shard else (0, 0)
    if not 1 <= own <= parts:
        raise SystemExit(f"--shard {asked.shard}: it is I/N, and I is one of 1 to N")
    cases = cases[own - 1 :: parts]
    columns = list(whole.columns)
    if asked.device == "cpu":
        columns = [c for c in columns if c.startswith("ours") or c == "SDPA"]
    if asked.only:
        cells = [(k, c) for k in cases for c in columns if asked.only in f"{c}: {k.name}"]
        cases = [case for case in cases if any(case == k for k, _ in cells)]
        columns = [column for column in columns if any(column == c for _, c in cells)]
    return cases, columns


def missing(device: str) -> str | None:
    """Why nothing can be measured here, or None."""
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed for {sys.executable}"
    if device == "cpu":
        return None if os.environ.get("TRITON_INTERPRET") == "1" else "set TRITON_INTERPRET=1"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "TRITON_INTERPRET=1 is set: kernels would run on the CPU"
    import torch

    return None if torch.cuda.is_available() else "torch finds no CUDA device"


def run(whole: Suite, asked: argparse.Namespace) -> int:
    """Measure one suite, show it, and give the exit status."""
    cases, columns = chosen(whole, asked)
    if asked.list:
        print("\n".join(f"{column}: {case.name}" for case in cases for column in columns))
        return 0
    # of record is a whole run on a GPU; shards are joined by a last run that resumes
    wanted = asked.record and asked.device == "cuda" and not asked.quick and asked.shard == "1/1"
    record, refused = None, NO_RECORD if asked.device == "cpu" else "not asked for"
    if wanted:
        command = ["python", "-m", "tests.bench.kernels", *sys.argv[1:]]
        gpu = running.facts(asked.device)["gpu"]
        record, refused = recording.begin(whole, ROOT, command, asked.manifest, gpu)
    rows = measured(whole, asked, cases, columns)
    text = shown(whole, asked.device, cases, columns, rows)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / f"{whole.name}.txt").write_text(text + "\n", encoding="utf-8")
        lines = "".join(json.dumps(asdict(row)) + "\n" for row in rows)
        (asked.out / f"{whole.name}.jsonl").write_text(lines, encoding="utf-8")
    print(text)
    if record is not None and any(row.status == "timed" for row in rows):
        folder = asked.records or ROOT / "docs" / "records"
        print(recording.written(record, whole, rows, folder))
    else:
        print(f"no record: {refused or 'nothing was timed'}")
    return status(rows)


def measured(
    whole: Suite, asked: argparse.Namespace, cases: list[Case], columns: list[str]
) -> list[Row]:
    """The row of every cell, those of an earlier run among them."""
    facts = running.facts(asked.device)
    key = digest(ROOT, whole.sources, facts)
    rows = Rows(asked.state / f"{whole.name}-{asked.device}.jsonl", key, resume=asked.resume)
    todo = running.pending(cases, columns, rows)
    cells = sum(len(left) for _, left in todo)
    print(f"{whole.name}: {cells} cells to measure, {len(rows.kept)} kept; {facts}", flush=True)
    if asked.device == "cuda":
        start = time.monotonic()
        compiled = [column for column in columns if column.startswith(("ours", "unified"))]
        problems = running.warm(whole.name, todo, compiled, "cuda", running.cores())
        for problem in problems[:8]:
            print(f"compiling: {problem}")
        if len(problems) > 8:
            print(f"compiling: and {len(problems) - 8} more")
        print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
    replays = asked.replays or (2 if asked.device == "cpu" else 20)
    running.measured(whole.name, cases, columns, rows, asked.device, replays)
    found = (rows.get(case, column) for case in cases for column in columns)
    return [row for row in found if row is not None]


def shown(whole: Suite, device: str, cases: list[Case], columns: list[str], rows: list[Row]) -> str:
    """The table with what it means, the targets, and how much was timed."""
    parts = [table(cases, columns, rows)]
    timed = [row for row in rows if row.status == "timed"]
    if timed:
        parts.append(legend([row.copy_gbps for row in timed]))
    if device == "cpu":
        parts.append(NO_RECORD)
    else:
        import torch

        judged = whole.judged_on in torch.cuda.get_device_name()
        parts.append("\n".join(target.verdict(rows, judged=judged) for target in whole.targets))
    counts = {
        kind: sum(row.status == kind for row in rows) for kind in ("timed", "skipped", "failed")
    }
    parts.append(f"{whole.name}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return "\n\n".join(parts)


def status(rows: Sequence[Row]) -> int:
    """3 where something failed, 5 where something of ours, or all, was skipped, else 0."""
    if any(row.status == "failed" for row in rows):
        return 3
    ours = [row for row in rows if row.column.startswith("ours")]
    if not any(row.status == "timed" for row in rows) or any(r.status == "skipped" for r in ours):
        return 5
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the suites that are named, or all."""
    asked = arguments(argv)
    unknown = [n for n in asked.suites if n.replace("-", "_") not in SUITES]
    if unknown:
        print(f"no suite {unknown[0]}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    reason = None if asked.list else missing(asked.device)
    if reason:
        print(f"skipped: {reason}. Nothing was measured.")
        return 5
    return max(run(suite(name), asked) for name in asked.suites or SUITES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
