"""What holds on a CUDA device: `python -m tests.gpu [PART …]`.

Needs torch, Triton and pytest, no network and no installed patchkit; what needs a vLLM is skipped
where none is installed, and said to be. Kernel tests run in one process a core, so that kernels
compile at once into Triton's cache, which all share. What fails is told at once. Near its limit a
part begins no more tests, and says what it did not run. Tests that passed are not run again until
sources, GPU or versions change. Exit status: 0 all is shown, 3 something failed, 5 something is not
shown, of which each reason is listed, or was not asked for (-k).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.kernels.__main__ import missing
from tests.bench.kernels.rows import digest
from tests.bench.kernels.running import cores, facts
from tests.gpu.outcomes import read
from tests.gpu.parts import PARTS, Part, Result, status, summary
from tests.gpu.shares import Ended, run_shares

Outcomes = Mapping[str, tuple[str, str]]

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
    parser.add_argument("--log", type=Path, metavar="FILE", help="what is printed goes there too")
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


def pytest_command(part: Part, asked: argparse.Namespace) -> list[str]:
    """The pytest of each process, which reads no conftest file but those of its own folder."""
    marked = part.marked if asked.device == "cuda" else f"({part.marked}) and not gpu"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.outcomes", "-m", marked]
    command += ["-p", "no:cacheprovider", f"--confcutdir={part.folder}", "--no-header", "-rN"]
    command += ["-k", asked.expression] if asked.expression else []
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


def say(line: str, log: Path | None) -> None:
    """Print a line at once, and append it to the log."""
    print(line, flush=True)
    if log:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def passed_before(folder: Path) -> list[str]:
    """The tests that have passed, those of a run that was cut off among them."""
    earlier = folder / "passed.txt"
    done = earlier.read_text(encoding="utf-8").splitlines() if earlier.exists() else []
    return sorted({*done, *passed_of(read(folder / "outcomes.jsonl"))})


def run_part(part: Part, asked: argparse.Namespace, known: dict[str, Any]) -> Result:
    """Run what has not passed yet, and give the outcome of every test."""
    folder = folder_of(part, asked, known)
    done = passed_before(folder)
    write_passed(folder, done)
    start = time.monotonic()

    def run(finished: Sequence[str], many: int) -> tuple[Ended, Outcomes]:
        (folder / "outcomes.jsonl").unlink(missing_ok=True)
        ended = run_shares(
            pytest_command(part, asked), folder, environment(asked), ROOT, done=finished,
            many=many, limit=asked.limit - (time.monotonic() - start),
            tell=lambda line: say(line, asked.log),
        )  # fmt: skip
        return ended, read(folder / "outcomes.jsonl")

    many = jobs(part, asked)
    ended, outcomes = run(done, many)
    wrong = problem(ended, outcomes, asked.limit)
    crowded = [name for name, (_, why) in outcomes.items() if "out of memory" in why.lower()]
    if crowded and many > 1 and not ended.left and None not in ended.codes:
        # not all at once, then: alone
        kept = {name: found for name, found in outcomes.items() if name not in crowded}
        write_passed(folder, [*done, *passed_of(kept)])
        ended, again = run([*done, *kept], 1)
        wrong = wrong or problem(ended, again, asked.limit)
        outcomes = kept | again
    outcomes = dict.fromkeys(done, ("passed", "")) | outcomes
    write_passed(folder, passed_of(outcomes))
    return Result(part, outcomes, wrong, ended.left, asked.expression or "")


def passed_of(outcomes: Outcomes) -> list[str]:
    """The tests that passed."""
    return [name for name, (found, _) in outcomes.items() if found == "passed"]


def write_passed(folder: Path, names: Sequence[str]) -> None:
    """Keep which tests have passed, what was kept before until this is written."""
    text = "".join(f"{name}\n" for name in sorted(names))
    (folder / "passed.txt.new").write_text(text, encoding="utf-8")
    (folder / "passed.txt.new").replace(folder / "passed.txt")


def environment(asked: argparse.Namespace) -> dict[str, str]:
    """The environment of each process, a thread each: the cores are shared by as many of them."""
    found = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if asked.device == "cpu":
        found["TRITON_INTERPRET"] = "1"
    return found | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def problem(ended: Ended, outcomes: Outcomes, limit: int) -> str:
    """What kept tests from their end, if anything did.

    pytest ends with 0, with 5 where there is no test, and with 1 where one failed; so does Python
    where it cannot even begin.
    """
    failed = any(found == "failed" for found, _ in outcomes.values())
    expected = (None, 0, 1, 5) if failed else (None, 0, 5)
    odd = sorted({code for code in ended.codes if code is not None and code not in expected})
    if odd:
        return f"pytest ended with {odd[0]}: see share-*.log"
    if None in ended.codes or ended.left:
        return f"not done within {limit} s; run it again, and it goes on"
    if ended.collected is None:
        return "no process has collected any test: see share-*.log"
    lost = set(ended.collected) - set(outcomes)
    return f"{len(lost)} tests have no outcome, as {min(lost)}" if lost else ""


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
        say(f"{part.name}: {time.monotonic() - start:.0f} s", asked.log)
    place = ", ".join(f"{name} {value}" for name, value in known.items())
    say(summary(results, place), asked.log)
    return status(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
