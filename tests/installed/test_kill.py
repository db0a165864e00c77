"""Apply and revert killed with SIGKILL, at every step and at random moments."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import PatchkitError
from patchkit.installed.transaction import read_journal

Place = Any

# Forks a child for each run, so that nothing is imported again. With "steps" the child is killed
# before the n-th call that changes the disk; with "times" some time after the first of them: a
# share of what the first run took, which is not killed.
KILLED = """
    import os, signal, sys, time
    from pathlib import Path
    from patchkit.config import find_config
    from patchkit.installed.apply import plan_apply
    from patchkit.installed.kept import read_applied
    from patchkit.installed.revert import plan_revert
    from patchkit.installed.site import find_site
    from patchkit.installed.source import repository_source
    from patchkit.installed.transaction import Transaction
    from patchkit.series.selection import select_patches

    repository, name, way = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    steps_left, seconds, began = -1, None, None

    def kill_after(seconds):
        if os.fork() == 0:
            time.sleep(seconds)
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)

    def kill_when_none_are_left(event, args):
        global steps_left, seconds, began
        flags = args[2] if event == "open" and isinstance(args[2], int) else 0
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        changing = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.utime")
        if event in changing or writes:
            began = began or time.monotonic()
            if seconds is not None:
                delay, seconds = seconds, None
                kill_after(delay)
            steps_left -= 1
            if steps_left == -1:
                os.kill(os.getpid(), signal.SIGKILL)

    def choose(stored):
        return select_patches({(s.folder, n): d for s in stored
                               for n, d in s.series.patches.items()})

    def run(packages):
        site = find_site(str(packages))
        transaction = Transaction(site)
        with transaction.locked():
            applied = read_applied(site)
            if name == "apply":
                source = repository_source(find_config(repository))
                plan = plan_apply(site, source, choose, applied)
                if plan.steps:
                    transaction.commit("apply", plan.steps)
            else:
                undo = plan_revert(site, applied)
                transaction.commit("revert", undo.steps, undo.emptied)

    whole = repository / "whole"
    sys.addaudithook(kill_when_none_are_left)
    for number, argument in enumerate(sys.argv[4:]):
        packages = repository / "runs" / str(number)
        child = os.fork()
        if child == 0:
            if way == "steps":
                steps_left = int(argument)
            elif number:
                seconds = float(argument) * float(whole.read_text())
            run(packages)
            if not number:
                took = time.monotonic() - (began or 0)
                whole.write_text(str(took))
            os._exit(0)
        ended = os.waitpid(child, 0)[1]
        print("done" if ended == 0 else os.WTERMSIG(ended))
"""


def killed(place: Place, name: str, way: str, arguments: list[str]) -> list[str]:
    """Run apply or revert on copies of the site; return how each ended."""
    (place.root / "runs").mkdir()
    for number in range(len(arguments)):
        copy = ["cp", "-a", str(place.packages), str(place.root / "runs" / str(number))]
        subprocess.run(copy, check=True)
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(place.root), name, way]
    done = subprocess.run(
        [*script, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


class Run:
    """One copy of the site, as a killed run left it."""

    def __init__(self, place: Place, number: int) -> None:
        self.place = type(place)(place.root)
        self.folder = place.root / "runs" / str(number)
        # the makers look for site-packages below the root
        self.packages = place.root / "site-packages"

    def take(self) -> None:
        """Put the copy in the place of the site."""
        subprocess.run(["rm", "-rf", str(self.packages)], check=True)
        self.folder.rename(self.packages)


def check_whole(place: Place, before: Any, after: Any, name: str) -> str:
    """Check what a killed run left, and that the next calls bring it to one of two states."""
    there = {p: c for p, c in place.everything().items() if ".patchkit-work" not in p}
    for path, content in there.items():  # each file is the old one or the new one
        assert content in (before.get(path), after.get(path)), path
    for path in set(before) | set(after):
        assert path in there or path not in before or path not in after, path
    finished = read_journal(place.site()) is not None
    try:
        report = place.verify()
        assert not finished or [f.kind for f in report.verified.files if f.kind == "unfinished"]
        if report.verified.ok:
            assert there == (after if name == "apply" else before)
    except PatchkitError:  # nothing is recorded: not begun, or all but done
        pass
    if name == "apply":
        place.apply()
        assert place.everything() == after
        place.revert()
        assert place.everything() == before
    else:
        done = not finished and there == after
        refused = pytest.raises(PatchkitError, match="no series is applied to it")
        with refused if finished or done else nullcontext():
            place.revert()
        assert place.everything() == after
        place.apply()
        assert place.everything() == before
    assert not list(place.packages.rglob("*.patchkit-work"))
    return "finished" if finished else "as it was"


@pytest.fixture
def states(place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the site before and after an apply; it is left as before, its times kept."""
    place.install({"vllm/__pycache__/size.cpython-311.pyc": b"compiled"})
    (place.packages / "vllm/__pycache__/old.cpython-312.pyc").write_bytes(b"compiled later")
    place.apply()
    after = place.everything()
    place.revert()
    return place.everything(), after


@pytest.mark.parametrize("name", ["apply", "revert"])
def test_a_kill_at_any_step_leaves_a_whole_tree(place: Place, states: Any, name: str) -> None:
    before, after = states
    if name == "revert":
        place.apply()
        before, after = after, before
    ends = killed(place, name, "steps", [str(step) for step in range(70)])
    assert ends[0] == "9"
    assert ends[-1] == "done"
    steps = ends.index("done")
    assert steps > 30
    found = []
    for number in range(steps + 1):
        run = Run(place, number)
        run.take()
        found.append(check_whole(run.place, before, after, name))
    assert {"as it was", "finished"} == set(found)


@pytest.mark.parametrize("name", ["apply", "revert"])
def test_a_kill_at_a_random_moment_leaves_a_whole_tree(
    place: Place, states: Any, name: str
) -> None:
    before, after = states
    if name == "revert":
        place.apply()
        before, after = after, before
    draw = random.Random(name)
    ends = killed(place, name, "times", ["0", *(f"{draw.uniform(0, 1):.5f}" for _ in range(50))])
    assert len(ends) == 51
    for number in range(1, 51):
        run = Run(place, number)
        run.take()
        check_whole(run.place, before, after, name)


def test_a_file_edited_after_a_kill_is_named(place: Place, states: Any) -> None:
    before, after = states
    ends = killed(place, "apply", "steps", [str(step) for step in range(70)])
    for number in range(ends.index("done")):
        run = Run(place, number)
        run.take()
        path = run.packages / "vllm/size.py"
        if read_journal(run.place.site()) is None or path.read_bytes() != before["vllm/size.py"][0]:
            continue
        path.write_bytes(b"mine = 1\n")
        with pytest.raises(PatchkitError) as caught:
            run.place.apply()
        assert str(caught.value) == f"{path}: was changed after a run was broken off there"
        assert path.read_bytes() == b"mine = 1\n"
        path.write_bytes(before["vllm/size.py"][0])
        run.place.apply()
        assert run.place.everything() == after
        return
    pytest.fail("no kill left the journal with the file as it was")
