"""Rebase killed at every step: nothing is half-written, and there is a way on and a way back."""

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from patchkit.cli import run
from patchkit.repository import workspace
from tests.cli.test_rebase import (
    AUTHORED,
    BASE,
    CHANGED,
    PAGES,
    SHIFTED,
    Trees,
    patch,
    tree,
    write,
)
from tests.kill.steps import Killed, killed_at_each_step

BOTH = {**CHANGED, PAGES: CHANGED[PAGES].replace(b"size / 16", b"size >> 4")}
LIMIT = {PAGES: AUTHORED[PAGES].replace(b"size / 16", b"size / 32")}
FIRST = BOTH[PAGES].replace(b"blocks << 4", b"(blocks << 4) + 1")
SECOND = FIRST.replace(b"size >> 4", b"size >> 5")
COPY = f".patchkit/rebase/files/{PAGES}"
GO_ON = ["rebase", "--continue", "--reason", "shifts now"]
ROOT = Path(__file__).parents[2]
State = dict[str, bytes]


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with two patches, both of which conflict on 0.30.0."""
    repository = folder / "repository"
    repository.mkdir()
    os.chdir(repository)  # `folder` puts the old one back
    trees["v0.28.0"] = tree("0.28.0", BASE)
    trees["v0.29.0"] = tree("0.29.0", SHIFTED)
    trees["v0.30.0"] = tree("0.30.0", BOTH)
    write(repository, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches"]\n')
    write(repository, "patches/v0.28.0/series", b"pages.patch\nlimit.patch\n")
    write(repository, "patches/v0.28.0/pages.patch", patch(BASE, AUTHORED))
    write(repository, "patches/v0.28.0/limit.patch", patch({**BASE, **AUTHORED}, LIMIT))
    return repository


def state(folder: Path) -> State:
    """Return all files but the lock; the git folder too."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {n: p.read_bytes() for n, p in found.items() if n != ".patchkit/lock"}


def plain(found: State) -> State:
    """Return a state without what the next commit sweeps up, and the state folder's own file."""
    staged = (".patchkit-new", ".patchkit-old")
    return {
        name: timeless(data)
        for name, data in found.items()
        if name != ".patchkit/.gitignore"
        and not any(part.endswith(staged) for part in name.split("/"))
    }


def timeless(data: bytes) -> bytes:
    """Return a file without the lines that say how long something took."""
    return b"".join(line for line in data.splitlines(True) if b"seconds = " not in line)


@pytest.fixture(autouse=True)
def _no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process has written is there for the next one; a power cut is not tested.

    Nor does time pass: two runs that do the same write the same.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)


def is_stopped(folder: Path) -> bool:
    return (folder / ".patchkit/rebase").exists()


def stored(found: State, release: str = "v0.30.0") -> State:
    return {name: data for name, data in found.items() if name.startswith(f"patches/{release}/")}


def finish(folder: Path) -> None:
    """Go on from wherever a rebase onto 0.30.0 is until it is stored."""
    for _ in range(4):
        if (folder / "patches/v0.30.0/series").exists():
            return
        if not is_stopped(folder):
            run(["rebase", "v0.30.0"])
            continue
        limit = (folder / ".patchkit/rebase/limit.patch.conflict.md").exists()
        write(folder, COPY, SECOND if limit else FIRST)
        run(GO_ON)
    raise AssertionError("it does not come to an end")


@pytest.fixture
def whole(store: Path) -> State:
    """Return what is stored for 0.30.0 when all is resolved; the repository is left as it was."""
    copy = store.parent / "finished"
    shutil.copytree(store, copy)
    os.chdir(copy)
    finish(copy)
    os.chdir(store)
    return stored(state(copy))


def check_kills(repository: Path, args: list[str], whole: State, least: int) -> None:
    """Kill a command at each of its steps; check what that leaves, then go back and on."""
    before = plain(state(repository))
    copy = repository.parent / "done"
    shutil.copytree(repository, copy)
    os.chdir(copy)
    run(args)
    done = plain(state(copy))
    assert done != before
    ended = []
    seen = set()
    for killed in killed_at_each_step(repository, repository.parent / "killed", lambda: run(args)):
        os.chdir(killed.folder)
        for name, data in plain(state(killed.folder)).items():  # the old file or the new one
            if name not in (".patchkit/journal.json", ".patchkit/staging.json"):
                assert data in (before.get(name), done.get(name)), (killed.step, name)
        assert run(["rebase", "--status"]) == 0
        ended.append(plain(state(killed.folder)))
        assert ended[-1] in (before, done), killed.step
        # from the same bytes everything goes on alike
        left = killed.step % 2, frozenset(state(killed.folder).items())
        if left not in seen:
            seen.add(left)
            go_back_and_on(killed, whole)
    assert len(ended) > least
    assert ended[0] == before
    assert ended[-1] == done
    # what was done is not undone by a kill that comes later
    assert ended == sorted(ended, key=lambda found: found == done)


def go_back_and_on(killed: Killed, whole: State) -> None:
    """Give a stopped rebase up, every other time, and come to its end."""
    folder = killed.folder
    if is_stopped(folder) and killed.step % 2:
        kept = {n: d for n, d in plain(state(folder)).items() if not n.startswith(".patchkit/")}
        assert run(["rebase", "--abort"]) == 0
        assert plain(state(folder)) == kept
    finish(folder)
    assert stored(state(folder)) == whole
    assert not list(folder.rglob("*.patchkit-*"))
    assert sorted(p.name for p in (folder / ".patchkit").iterdir()) == [".gitignore", "lock"]


def test_a_start_that_stops(store: Path, whole: State) -> None:
    check_kills(store, ["rebase", "v0.30.0"], whole, 40)


def test_a_start_that_stores(store: Path, whole: State) -> None:
    check_kills(store, ["rebase", "v0.29.0"], whole, 15)


def test_a_continue_that_stops_again(store: Path, whole: State) -> None:
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    check_kills(store, GO_ON, whole, 40)


def test_a_continue_that_stores(store: Path, whole: State) -> None:
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    run(GO_ON)
    write(store, COPY, SECOND)
    check_kills(store, GO_ON, whole, 40)


def test_a_continue_where_names_cannot_be_exchanged(
    store: Path, whole: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_exchange", lambda *_: False)
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    check_kills(store, GO_ON, whole, 40)


def test_a_skip(store: Path, whole: State) -> None:
    run(["rebase", "v0.30.0"])
    skipped = ["rebase", "--skip", "--hunk", "1", "--yes"]
    before, seen = plain(state(store)), set()
    for killed in killed_at_each_step(store, store.parent / "killed", lambda: run(skipped)):
        os.chdir(killed.folder)
        assert run(["rebase", "--status"]) == 0
        found = plain(state(killed.folder))
        left = frozenset(state(killed.folder).items())
        if left in seen:
            continue
        seen.add(left)
        if found == before:
            go_back_and_on(killed, whole)
        else:  # at the next patch, with the first one left out
            assert (killed.folder / ".patchkit/rebase/limit.patch.conflict.md").exists()
            assert run(["rebase", "--abort"]) == 0
            finish(killed.folder)
            assert stored(state(killed.folder)) == whole
    assert killed.to_the_end
    assert found != before


def test_an_abort(store: Path, whole: State) -> None:
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    check_kills(store, ["rebase", "--abort"], whole, 20)


def test_forgetting_a_resolution(store: Path, whole: State) -> None:
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    run(GO_ON)
    run(["rebase", "--abort"])
    check_kills(store, ["resolutions", "--forget", "1"], whole, 3)


# Two at once -------------------------------------------------------------------------------------

FIRST_PROCESS = """
    import sys
    from pathlib import Path
    from patchkit.repository.workspace import Workspace

    with Workspace(Path(".patchkit")).locked():
        print("held", flush=True)
        sys.stdin.read()
"""


def test_a_second_process_is_refused_while_the_first_is_at_work(store: Path) -> None:
    run(["rebase", "v0.30.0"])
    before = state(store)
    python = [sys.executable, "-c", textwrap.dedent(FIRST_PROCESS)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        python, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        for args in (
            ["v0.29.0"],
            ["--abort"],
            ["--continue", "--reason", "x"],
            ["--skip", "--yes"],
        ):
            second = subprocess.run(
                [sys.executable, "-m", "patchkit", "rebase", *args],
                env=env, capture_output=True, text=True,
            )  # fmt: skip
            assert second.returncode == 1
            assert second.stderr.splitlines() == [
                f"error: {store}/.patchkit/lock: another patchkit is at work in this repository",
                "hint: wait until it has finished, then repeat the command",
            ]
        status = subprocess.run(
            [sys.executable, "-m", "patchkit", "rebase", "--status"],
            env=env, capture_output=True, text=True,
        )  # fmt: skip
        assert status.returncode == 0
        assert status.stdout.startswith("stopped at patches/pages.patch")
        assert state(store) == before
        first.communicate("")
    aborted = subprocess.run([sys.executable, "-m", "patchkit", "rebase", "--abort"], env=env)
    assert aborted.returncode == 0
    assert not is_stopped(store)


def test_of_many_processes_that_begin_at_once_one_after_the_other_or_one_alone_works(
    store: Path,
) -> None:
    gate, let_go = os.pipe()
    children = []
    for _ in range(6):
        child = os.fork()
        if not child:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.close(let_go)
            os.read(gate, 1)  # all at once, when the parent closes its end
            os._exit(run(["rebase", "v0.30.0"]))
        children.append(child)
    os.close(gate)
    os.close(let_go)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    # one stops at the conflict; the others are refused, by its lock or by what it left
    assert sorted(ended) == [1, 1, 1, 1, 1, 3]
    found = plain(state(store))
    os.chdir(store)
    assert run(["rebase", "--abort"]) == 0
    assert run(["rebase", "v0.30.0"]) == 3
    assert plain(state(store)) == found
