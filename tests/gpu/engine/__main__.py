"""The engine with verify attention on and off, on this GPU: `python3 -m tests.gpu.engine`.

Imports vLLM from where PYTHONPATH says. Each run is an engine of its own, some at a time; each pair
must give the same tokens, and the control, in which scales of two pages are swapped, must not.
With --tree-hash the installed tree is held against that of a wheel that `patchkit verify` found
whole (`python -m tests.gpu.engine.tree WHEEL`), and throughput becomes a run record.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu.engine.compare import Comparison, compare, error_bound, faults_of_run
from tests.gpu.engine.model import Shape, write_checkpoint
from tests.gpu.engine.prompts import prompts
from tests.gpu.engine.table import last_lines, printed
from tests.gpu.engine.tree import tree_sha256

ROOT = Path(__file__).parents[3]
LIMIT_S = 240
INT8 = "int8_per_token_head"
SMALL, WIDE = Shape(), Shape(heads=24, kv_heads=4, head_dim=256)
SHAPES = {"8/2 heads of 128": SMALL, "24/4 heads of 256": WIDE}


@dataclass(frozen=True)
class Case:
    """A pair of runs, or the control, of which only the second run has its scales swapped."""

    backend: str
    cache: str
    graphs: bool
    shape: str = "8/2 heads of 128"
    swap: bool = False

    @property
    def name(self) -> str:
        """How it is called in the table."""
        mode = "graphs" if self.graphs else "eager"
        control = ", scales swapped" if self.swap else ""
        return f"{self.backend}, {self.cache}, {self.shape}, {mode}{control}"

    def run_options(self, *, verify: bool) -> tuple[str, ...]:
        """The options of one run; two cases that ask for the same run share it."""
        options = ["--backend", self.backend, "--cache", self.cache]
        options += ["--graphs"] if self.graphs else []
        options += ["--verify"] if verify else []
        options += ["--swap"] if self.swap and verify else []
        return tuple(options)


CASES = (
    Case("TRITON_ATTN", INT8, graphs=False),
    Case("TRITON_ATTN", INT8, graphs=True),
    Case("TRITON_ATTN", INT8, graphs=False, swap=True),
    Case("TRITON_ATTN", INT8, graphs=True, swap=True),
    Case("TRITON_ATTN", INT8, graphs=True, shape="24/4 heads of 256"),
    Case("TRITON_ATTN", "auto", graphs=True),
    Case("TRITON_ATTN", "fp8", graphs=True),
    Case("FLASH_ATTN", "auto", graphs=True),
)
TIMED_TOKENS = 300  # for each prompt
TIMED = Case("TRITON_ATTN", INT8, graphs=True, shape="24/4 heads of 256")


@dataclass(frozen=True)
class Folders:
    """Where checkpoints and caches are for a while, and where each run's file and log stay."""

    scratch: Path
    out: Path


def run(folders: Folders, shape: str, options: Sequence[str], number: int) -> dict[str, Any]:
    """What one engine makes of the prompts, or {"error": …} with the last error of its log."""
    file, log = (folders.out / f"run-{number}.{ending}" for ending in ("json", "log"))
    command = [sys.executable, "-m", "tests.gpu.engine.run"]
    command += [str(folders.scratch / shape_name(shape)), str(file.absolute()), *options]
    variables = {**os.environ, "VLLM_CACHE_ROOT": str(folders.scratch / f"cache-{number}")}
    try:
        with log.open("w") as printing:
            done = subprocess.run(
                command, env=variables, cwd=ROOT, timeout=LIMIT_S,
                stdout=printing, stderr=subprocess.STDOUT,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        said = last_lines(log.read_text(errors="replace"))
        return {"error": f"not done in {LIMIT_S} s: {said}"}
    if done.returncode or not file.exists():
        said = last_lines(log.read_text(errors="replace"))
        return {"error": f"exit status {done.returncode}: {said}"}
    return json.loads(file.read_text())


def shape_name(shape: str) -> str:
    """The name of a shape's folder."""
    return shape.replace(" ", "-").replace("/", "-")


def run_all(
    folders: Folders, cases: Sequence[Case], jobs: int, said: Callable[[str], None]
) -> dict[Any, dict[str, Any]]:
    """Every run that the cases need, by shape and options; some engines at a time.

    `said` is told of each that ended: what a run that is cut short has found is not lost.
    """
    wanted = dict.fromkeys(
        (case.shape, case.run_options(verify=verify)) for case in cases for verify in (False, True)
    )
    began = time.monotonic()

    def one(item: tuple[int, tuple[str, tuple[str, ...]]]) -> dict[str, Any]:
        number, (shape, options) = item
        found = run(folders, shape, options, number)
        end = found.get("error", "ran")
        said(f"{time.monotonic() - began:4.0f} s  {shape}, {' '.join(options)}: {end}")
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(wanted, pool.map(one, enumerate(wanted)), strict=True))


def judge(case: Case, reference: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One line of the table: what was found, and whether it is as it must be."""
    errors = [run["error"] for run in (reference, other) if "error" in run]
    if errors:
        return {"case": case.name, "ok": False, "problems": errors}
    bound = error_bound(SHAPES[case.shape], case.cache)
    try:
        found = compare(reference, other, bound)
    except ValueError as error:  # the runs are of other requests
        return {"case": case.name, "ok": False, "problems": [str(error)]}
    problems = list(found.problems)
    faults = faults_of_run(reference, verify=False, graphs=case.graphs)
    if case.swap:
        # The control: tokens must differ, and of nothing but the swapped scales.
        ok = bool(found.differences) and {d.request for d in found.differences} == {"far"}
        faults += [] if ok else [f"swapped scales went unnoticed or elsewhere: {problems}"]
        problems = []
    share = 0.0 if case.swap else 0.5
    problems += faults + faults_of_run(other, verify=True, graphs=case.graphs, share=share)
    return {
        "case": case.name, "ok": not problems, "problems": problems,
        **summary(found, bound), "induced": induced_share(reference),
        "drafting": {"off": reference["drafting"], "on": other["drafting"]},
        "path": path_taken(other),
    }  # fmt: skip


def summary(found: Comparison, bound: float) -> dict[str, Any]:
    """The figures of a comparison."""
    return {
        "equal": found.equal, "differing": len(found.differences), "behind": found.behind,
        "excluded": found.excluded, "positions": found.positions,
        "largest move": round(found.largest_move, 3), "usual move": round(found.usual_move, 3),
        "bound": round(bound, 3),
    }  # fmt: skip


def induced_share(found: dict[str, Any]) -> float:
    """How much of what was generated is what the prompts' repeats go on with."""
    pairs = [
        (token, expected)
        for name, row in found["induced"].items()
        for token, expected in zip(found["tokens"][name], row, strict=True)
    ]
    return sum(token == expected for token, expected in pairs) / len(pairs)


def path_taken(found: dict[str, Any]) -> dict[str, int]:
    """How often verify attention was called, and how many steps ran as graphs alone."""
    decoding = [step for step in found["steps"] if step["decoding"]]
    return {
        "captured": found["captured"].get("verify", 0),
        "called": sum(step.get("verify", 0) for step in found["steps"]),
        "decoding steps": len(decoding),
        "silent steps": sum(
            not any(v for k, v in step.items() if k != "decoding") for step in decoding
        ),
    }


def timed(folders: Folders, repetitions: int) -> dict[str, Any]:
    """Output tokens a second with the option off and on, warm, one engine at a time; or an error.

    Counted from when every request has its first token.
    """
    found: dict[str, Any] = {}
    for number, (name, verify) in enumerate({"off": False, "on": True}.items()):
        options = [*TIMED.run_options(verify=verify), "--repeat", str(repetitions)]
        options += ["--count", str(TIMED_TOKENS)]
        done = run(folders, TIMED.shape, options, 1000 + number)
        if "error" in done:
            return {"error": done["error"]}
        found[name] = [one["tokens"] / one["seconds"] for one in done["again"]]
    return found


def installed_site() -> Path:
    """The folder that vLLM would be imported from."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        raise SystemExit("vLLM is not on PYTHONPATH")
    return Path(spec.origin).parents[1]


def write_record(options: argparse.Namespace, sha256: str, speeds: dict[str, list[float]]) -> Path:
    """Write the throughput as a run record; the file."""
    from patchkit.records.run import Run, VerifiedTree, Workload

    lengths = [len(prompt.tokens) for prompt in prompts(SHAPES[TIMED.shape].vocabulary)]
    workload = Workload(
        context=max(lengths), new_tokens=TIMED_TOKENS, batch=len(lengths), draft_length=7,
        cached_tokens=0, kv_format=INT8, block_size=16, cache="warm",
    )  # fmt: skip
    with Run.begin(
        "verify-attention-engine", root=ROOT,
        sources=("kvarn_port/backend", "patches/v0.28.0", "tests/gpu/engine"),
        command=["python3", "-m", "tests.gpu.engine", *sys.argv[1:]],
        tree=VerifiedTree(sha256, options.release), manifest=options.manifest,
    ) as run:  # fmt: skip
        for name, samples in speeds.items():
            measured, row = (
                f"decoding of ten requests, VLLM_SPEC_DECODE_VERIFY {name}",
                f"engine-int8-{name}",
            )
            subject = "ours" if name == "on" else "vLLM"
            run.add(measured, samples, "tok/s", workload, row=row, subject=subject)
        return run.write(options.records)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the whole table."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.engine", description=__doc__)
    parser.add_argument(
        "--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 2),
        help="engines at a time; default: one for each core but two",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, help="a folder for result.json and each run's file and log"
    )
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--times", type=int, default=0, help="repetitions for tok/s; 0: none")
    parser.add_argument("--tree-hash", help="what the installed tree must be")
    parser.add_argument("--release", default="0.28.0")
    parser.add_argument("--manifest", type=Path, help="of patchkit.records.manifest")
    parser.add_argument("--records", type=Path, default=ROOT / "docs" / "records")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the table; 0 where everything is as it must be, 3 where not, 1 where it cannot run."""
    options = parse(arguments)
    sha256 = tree_sha256(installed_site())
    if options.tree_hash not in (None, sha256):
        print(f"the installed tree is {sha256}, not {options.tree_hash}", file=sys.stderr)
        return 1
    began = time.monotonic()
    cases = [case for case in CASES if options.only in case.name]
    with tempfile.TemporaryDirectory() as scratch:
        folders = Folders(Path(scratch), options.out or Path(scratch))
        folders.out.mkdir(parents=True, exist_ok=True)
        for name, shape in SHAPES.items():
            write_checkpoint(Path(scratch) / shape_name(name), shape)
        runs = run_all(folders, cases, options.jobs, lambda line: print(line, flush=True))
        table = [
            judge(case, *(runs[case.shape, case.run_options(verify=v)] for v in (False, True)))
            for case in cases
        ]
        # Kept before anything is timed, which may fail.
        result = {"tree": sha256, "table": table, "tokens a second": {}}
        keep(folders.out, result)
        speeds = timed(folders, options.times) if options.times else {}
        keep(folders.out, {**result, "tokens a second": speeds})
    print(printed(table))
    print(json.dumps({"tree": sha256, "tokens a second": speeds}))
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    if speeds and options.tree_hash and "error" not in speeds:
        print(write_record(options, sha256, speeds))
    whole = table and all(line["ok"] for line in table) and "error" not in speeds
    return 0 if whole else 3


def keep(folder: Path, result: dict[str, Any]) -> None:
    """Write result.json."""
    (folder / "result.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
