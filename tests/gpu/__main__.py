"""What holds on a CUDA device: `python -m tests.gpu [PART …]`.

Needs torch, Triton and pytest, no network and no installed patchkit; what needs a vLLM is skipped
where none is installed, and said to be. Kernel tests run in one process a core, so that kernels
compile at once into Triton's cache, which all share. Tests that passed are not run again until
sources, GPU or versions change. Exit status: 0 all is shown, 3 something failed, 5 something is not
shown, of which each reason is listed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.kernels.__main__ import missing
from tests.bench.kernels.rows import digest
from tests.bench.kernels.running import cores, facts
from tests.gpu.outcomes import read
from tests.gpu.parts import PARTS, Part, Result, status, summary

ROOT = Path(__file__).parents[2]
STATE = ROOT / ".gpu" / "tests"
LIMIT_S = 450  # of a part; what is left is for the next run
SHARE_GB = 6  # of GPU memory for one process: float64 of a long context takes most of it


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What was asked for."""
    names = ", ".join(part.name for part in PARTS)
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {names}")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; default: one a core")
    parser.add_argument("-k", dest="expression", metavar="EXPRESSION", help="as of pytest")
    parser.add_argument("--no-resume", dest="resume", action="store_false", help="run all anew")
    parser.add_argument("--state", type=Path, default=STATE, metavar="FOLDER", help="kept outcomes")
    parser.add_argument("--limit", type=int, default=LIMIT_S, metavar="SECONDS", help="of a part")
    return parser.parse_args(argv)


def jobs(part: Part, asked: argparse.Namespace) -> int:
    """How many processes share a part's tests."""
    if not part.shared:
        return 1
    if asked.jobs:
        return max(1, asked.jobs)
    if asked.device == "cpu":
        return cores()
    import torch

    free_gb = torch.cuda.mem_get_info()[0] / 1e9
    return max(1, min(cores(), int(free_gb // SHARE_GB)))


def pytest_command(part: Part, asked: argparse.Namespace, folder: Path, share: str) -> list[str]:
    """The pytest of one share, which reads no conftest file but those of its own folder."""
    marked = part.marked if asked.device == "cuda" else f"({part.marked}) and not gpu"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.outcomes", "-m", marked]
    command += ["-p", "no:cacheprovider", f"--confcutdir={part.folder}", "--no-header", "-rN"]
    command += [f"--outcomes={folder / 'outcomes.jsonl'}", f"--finished={folder / 'finished.txt'}"]
    command += [f"--share={share}", *(["-k", asked.expression] if asked.expression else [])]
    return [*command, *part.tests]


def folder_of(part: Part, asked: argparse.Namespace, known: dict[str, Any]) -> Path:
    """The folder of what was found with these sources, device and versions; others are removed."""
    key = digest(ROOT, part.sources, known)[:16]
    above = asked.state / f"{part.name}-{asked.device}"
    for other in above.iterdir() if above.exists() else ():
        if other.name != key or not asked.resume:
            shutil.rmtree(other)
    (above / key).mkdir(parents=True, exist_ok=True)
    return above / key


def run_part(part: Part, asked: argparse.Namespace, known: dict[str, Any]) -> Result:
    """Run what has not passed yet, and give the outcome of every test."""
    folder = folder_of(part, asked, known)
    earlier = folder / "passed.txt"
    done = earlier.read_text(encoding="utf-8").splitlines() if earlier.exists() else []
    (folder / "outcomes.jsonl").unlink(missing_ok=True)
    many = jobs(part, asked)
    codes = run_shares(part, asked, folder, done, [f"{n}/{many}" for n in range(many)])
    outcomes = read(folder / "outcomes.jsonl")
    crowded = [name for name, (_, why) in outcomes.items() if "out of memory" in why.lower()]
    if crowded and many > 1 and None not in codes:  # not all at once, then: alone
        kept = {name: found for name, found in outcomes.items() if name not in crowded}
        (folder / "outcomes.jsonl").unlink()
        codes = run_shares(part, asked, folder, [*done, *kept], ["0/1"])
        outcomes = kept | read(folder / "outcomes.jsonl")
    outcomes = dict.fromkeys(done, ("passed", "")) | outcomes
    passed = sorted(name for name, (found, _) in outcomes.items() if found == "passed")
    earlier.write_text("".join(f"{name}\n" for name in passed), encoding="utf-8")
    return Result(part, outcomes, problem(codes, asked.limit))


def run_shares(
    part: Part, asked: argparse.Namespace, folder: Path, done: Sequence[str], shares: Sequence[str]
) -> list[int | None]:
    """The exit status of each share's process; None of one that ran into the limit."""
    (folder / "finished.txt").write_text("".join(f"{name}\n" for name in done), encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if asked.device == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    processes = []
    for number, share in enumerate(shares):
        with (folder / f"share-{number}.log").open("w", encoding="utf-8") as log:
            command = pytest_command(part, asked, folder, share)
            processes.append(
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
            )
    end = time.monotonic() + asked.limit
    codes: list[int | None] = []
    for process in processes:
        try:
            codes.append(process.wait(max(0.1, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            codes.append(None)
    return codes


def problem(codes: Sequence[int | None], limit: int) -> str:
    """What kept shares from their end, if anything did: pytest ends with 0, 1, or 5 (no test)."""
    if None in codes:
        return f"not done within {limit} s; run it again, and it goes on"
    odd = sorted({code for code in codes if code not in (0, 1, 5)})
    return f"pytest ended with {odd[0]}: see share-*.log" if odd else ""


def main(argv: Sequence[str]) -> int:
    """Run the parts that are named, or all."""
    asked = arguments(argv)
    chosen = [part for part in PARTS if not asked.parts or part.name in asked.parts]
    unknown = set(asked.parts) - {part.name for part in PARTS}
    if unknown:
        print(
            f"no part {min(unknown)}; there are {', '.join(p.name for p in PARTS)}", file=sys.stderr
        )
        return 2
    if asked.list:
        print("\n".join(f"{part.name}: {part.shows}" for part in PARTS))
        return 0
    reason = missing(asked.device)
    if reason:
        print(f"skipped: {reason}. Nothing was shown.")
        return 5
    known = facts(asked.device)
    results = []
    for part in chosen:
        start = time.monotonic()
        results.append(run_part(part, asked, known))
        print(f"{part.name}: {time.monotonic() - start:.0f} s", flush=True)
    print(summary(results, ", ".join(f"{name} {value}" for name, value in known.items())))
    return status(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
