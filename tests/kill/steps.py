"""A command killed with SIGKILL before each of its calls that change the disk.

Each run is a fork, so that nothing is imported again and what a test has replaced stays replaced.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_STEPS = 1000
_CHANGING = frozenset(
    (
        "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod",
        "os.utime", "os.truncate", "ctypes.dlsym", "subprocess.Popen",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Killed:
    """A folder as a run left it: killed before its `step`-th change, or run to its end."""

    step: int
    folder: Path
    to_the_end: bool


def killed_at_each_step(folder: Path, copies: Path, act: Callable[[], object]) -> Iterator[Killed]:
    """Yield a copy of a folder for each step of `act`, which runs in the copy and is killed there.

    The last one is of a run that was not killed. An `act` that raises fails the test.
    """
    for step in range(MOST_STEPS):
        copy = copies / str(step)
        shutil.copytree(folder, copy, symlinks=True)
        ended = _run_killed(copy, step, act)
        if ended == 0:
            yield Killed(step, copy, True)
            return
        assert os.WIFSIGNALED(ended), f"step {step}: the run failed"
        assert os.WTERMSIG(ended) == signal.SIGKILL
        yield Killed(step, copy, False)
        shutil.rmtree(copy)
    raise AssertionError(f"more than {MOST_STEPS} steps")


def _run_killed(copy: Path, steps: int, act: Callable[[], object]) -> int:
    """Return how a run ended that is killed before its change number `steps`, from 0."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        os.chdir(copy)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        sys.addaudithook(_Count(steps))
        act()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


class _Count:
    """Counts what changes the disk, and kills when none is left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        flags = args[2] if event == "open" and isinstance(args[2], int) else 0
        if event in _CHANGING or flags & (os.O_WRONLY | os.O_RDWR):
            self.left -= 1
            if self.left == -1:
                os.kill(os.getpid(), signal.SIGKILL)
