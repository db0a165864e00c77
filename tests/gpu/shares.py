"""Processes that share the tests of a part: what failed is told as it happens, and what is not
begun when time is nearly up is left.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.gpu.outcomes import append, claim_of, entries

MARGIN_S = 40  # before the limit no test is begun any more, so that those that run can end
EVERY_S = 30  # how far a run has come is told
COUNTED = ("passed", "skipped", "failed")

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """The exit status of each process, None of one that ran into the limit; tests not begun.

    collected: the tests that there were to run; None where no process came so far
    """

    codes: Sequence[int | None]
    left: Sequence[str]
    collected: Sequence[str] | None


@dataclass
class Progress:
    """What the file of outcomes says, read as it grows."""

    path: Path
    tell: Tell
    at: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    told: float = field(default_factory=time.monotonic)
    start: float = field(default_factory=time.monotonic)

    def read(self) -> None:
        """Tell each failure that is new, and now and then how far it is."""
        with self.path.open("rb") as file:
            file.seek(self.at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self.at += len(whole)
        for entry in entries(whole.decode()):
            outcome = entry["outcome"]
            self.counts[outcome] = self.counts.get(outcome, 0) + 1
            if outcome == "failed":
                self.tell(f"failed: {entry['test']}: {entry['reason']}")
        if time.monotonic() - self.told >= EVERY_S:
            self.told = time.monotonic()
            done = ", ".join(
                f"{self.counts.get(x, 0)} {x}" for x in ("passed", "skipped", "failed")
            )
            self.tell(f"after {self.told - self.start:.0f} s: {done}")


def run_shares(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], root: Path,
    *, done: Sequence[str], many: int, limit: float, tell: Tell,
) -> Ended:  # fmt: skip
    """Run a pytest's tests in `many` processes, and again what is left where all have died.

    done: tests that are not run
    limit: in seconds; none is begun in the last MARGIN_S of it, or in its last third
    """
    end = time.monotonic() + limit
    until = time.time() + limit - min(MARGIN_S, limit / 3)
    claims = folder / "claims"
    shutil.rmtree(claims, ignore_errors=True)
    claims.mkdir()
    (folder / "finished.txt").write_text("".join(f"{name}\n" for name in done), encoding="utf-8")
    (folder / "outcomes.jsonl").touch()
    progress = Progress(folder / "outcomes.jsonl", tell)
    options = [f"--outcomes={folder / 'outcomes.jsonl'}", f"--finished={folder / 'finished.txt'}"]
    options += [f"--claims={claims}", f"--until={until}"]
    codes: list[int | None] = []
    left = -1
    while True:
        processes = []
        for number in range(many):
            with (folder / f"share-{number}.log").open("a", encoding="utf-8") as log:
                process = subprocess.Popen(
                    [*command, *options], cwd=root, env=environment, stdout=log, stderr=log
                )
                processes.append(process)
        codes += _wait(processes, end, progress)
        collected, unbegun = _collected(claims), unclaimed(claims)
        if not unbegun or time.time() > until or len(unbegun) in (left, len(collected or ())):
            return Ended(codes, unbegun, collected)
        left = len(unbegun)


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], end: float, progress: Progress
) -> list[int | None]:
    """The exit status of each process; those that still run at the end are ended."""
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        progress.read()
        time.sleep(0.2)
    codes: list[int | None] = []
    for process in processes:
        codes.append(process.poll())
        if codes[-1] is None:
            process.kill()
            process.wait()
        append(progress.path, {"outcome": "ended", "process": process.pid, "code": codes[-1]})
    progress.read()
    return codes


def _collected(claims: Path) -> list[str] | None:
    found = claims / "collected"
    return found.read_text(encoding="utf-8").splitlines() if found.exists() else None


def unclaimed(claims: Path) -> list[str]:
    """The tests that no process has taken."""
    return [test for test in _collected(claims) or () if not claim_of(claims, test).exists()]
