"""Import, edit and record killed at every step: all or nothing, and the next call goes on."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchkit.cli import import_, run
from patchkit.diff import diff_files, format_files
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Pins, Release
from tests.editing.store import (
    FOUR,
    OTHER,
    SIZE,
    TWO,
    edited,
    header,
    lay_out,
    read,
    tree,
    write,
)
from tests.kill.steps import killed_at_each_step

State = dict[str, bytes]
WHERE = ".patchkit/edit/v0.28.0"
NEW = {**FOUR, OTHER: b"import os\n" + FOUR[OTHER]}


@pytest.fixture
def store(folder: Path, trees: dict[str, SourceTree], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a series folder of four patches, and one of one above it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a power cut is not tested
    monkeypatch.setattr(import_, "read_pins", lambda _: Pins((Release("0.28.0", ()),)))
    trees["v0.28.0"] = trees["0.28.0"] = tree()
    top = edited(FOUR, OTHER, b"def third(x):\n    y = x", b"def third(x):\n    y = -x")
    write(folder, "new.patch", header("New") + format_files(diff_files(FOUR, NEW)))
    repository = folder / "repository"
    lay_out(repository)
    write(repository, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    write(repository, "port/v0.28.0/series", b"top.patch\n")
    data = header("Top") + format_files(diff_files(FOUR, top))
    write(repository, "port/v0.28.0/top.patch", data)
    os.chdir(repository)  # `folder` puts the old one back
    assert run(["check"]) == 0
    return repository


def stored(folder: Path) -> State:
    """Return what is stored, without what the next commit sweeps up."""
    found = read(folder)
    return {n: d for n, d in found.items() if ".patchkit-new" not in n and "-old/" not in n}


def changes(folder: Path) -> str:
    """Return what git says is changed in the work tree."""
    words = ["git", "status", "--porcelain"]
    path = folder / WHERE
    return subprocess.run(words, cwd=path, check=True, capture_output=True, text=True).stdout


def files(folder: Path) -> State:
    return {n: d for n, d in read(folder / WHERE).items() if not n.startswith(".git/")}


def at_each_step(store: Path, words: list[str], look: Callable[[Path, bool], None]) -> int:
    """Kill a command at each of its steps, look at what it left, and return their number."""
    for killed in killed_at_each_step(store, store.parent / "killed", lambda: run(words)):
        os.chdir(killed.folder)
        look(killed.folder, killed.to_the_end)
        os.chdir(store)
        shutil.rmtree(killed.folder, ignore_errors=not killed.to_the_end)
        killed.folder.mkdir()  # what yields it removes it
    return killed.step


def test_an_import_with_a_folder_above_is_whole_or_not_there(store: Path) -> None:
    before = stored(store)
    words = ["import", "../../../new.patch", "--base", "0.28.0"]
    os.chdir(store.parent)
    shutil.copytree(store, store.parent / "deep/er/done")
    os.chdir(store.parent / "deep/er/done")
    assert run(words) == 0
    done = stored(Path.cwd())
    os.chdir(store)
    assert done["patches/v0.28.0/series"].endswith(b"four.patch\nnew.patch\n")
    assert done["port/v0.28.0/top.patch"] != before["port/v0.28.0/top.patch"]
    ended = []

    def look(folder: Path, to_the_end: bool) -> None:
        run(["rebase", "--status"])  # the next call finishes what was begun, or sweeps up
        run(["edit", "--close"])
        ended.append(stored(folder) == done)
        assert stored(folder) in (before, done)
        assert not list(folder.rglob("*.patchkit-*"))
        assert ended[-1] or not to_the_end
        if not ended[-1]:
            assert run(words) == 0
            assert stored(folder) == done

    shutil.move(store, store.parent / "deep/repository")
    assert at_each_step(store.parent / "deep/repository", words, look) > 20
    assert ended == sorted(ended)
    assert set(ended) == {False, True}


def test_a_tree_is_opened_whole_or_not_at_all(store: Path) -> None:
    def look(folder: Path, to_the_end: bool) -> None:
        path = folder / WHERE
        assert path.exists() or not to_the_end
        assert not path.exists() or files(folder) == TWO
        assert run(["edit", "two"]) == 0
        assert files(folder) == TWO
        assert changes(folder) == ""
        assert run(["edit", "--close"]) == 0
        assert list(path.parent.iterdir()) == []

    assert at_each_step(store, ["edit", "two"], look) > 20


@pytest.mark.parametrize(("one", "other", "wanted"), [("two", "four", FOUR), ("four", "two", TWO)])
def test_a_tree_that_is_brought_to_another_patch_gets_there(
    store: Path, one: str, other: str, wanted: State
) -> None:
    assert run(["edit", one]) == 0
    write(store, f"{WHERE}/vllm/more.py", b"x = 1\n")
    before, seen = stored(store), set()

    def look(folder: Path, to_the_end: bool) -> None:
        run(["record", "--dry-run"])
        seen.add(to_the_end)
        assert run(["edit", other, "--discard"]) == 0
        assert files(folder) == wanted
        assert changes(folder) == ""
        assert run(["record"]) == 0
        assert stored(folder) == before

    assert at_each_step(store, ["edit", other, "--discard"], look) > 10
    assert seen == {False, True}


def test_what_was_left_is_not_taken_for_changes(store: Path) -> None:
    assert run(["edit", "four"]) == 0
    before = stored(store)

    def look(folder: Path, to_the_end: bool) -> None:
        assert run(["record"]) == 0  # nothing has changed
        assert stored(folder) == before
        assert changes(folder) == ""
        assert files(folder) == (TWO if to_the_end else files(folder))

    assert at_each_step(store, ["edit", "two"], look) > 10


def test_changes_in_a_tree_that_was_half_moved_are_kept(store: Path) -> None:
    assert run(["edit", "four"]) == 0
    before, refused = stored(store), []

    def look(folder: Path, to_the_end: bool) -> None:  # noqa: ARG001
        path = folder / WHERE / SIZE
        path.write_bytes(path.read_bytes().replace(b"math.pi", b"math.e"))
        work = files(folder)
        status = run(["record"])
        assert files(folder) == work
        refused.append(status)
        if status:
            assert stored(folder) == before
        else:
            assert b"math.e" in b"".join(stored(folder).values())
            assert run(["check", "--frozen"]) == 0

    assert at_each_step(store, ["edit", "two"], look) > 10
    assert 1 in refused


def test_a_record_is_whole_or_not_there_and_no_change_is_lost(store: Path) -> None:
    assert run(["edit", "two"]) == 0
    path = store / WHERE / SIZE
    path.write_bytes(path.read_bytes().replace(b"n + n", b"2 * n"))
    work, before = files(store), stored(store)
    wanted: list[State] = []

    def look(folder: Path, to_the_end: bool) -> None:
        assert files(folder) == work
        assert run(["record"]) == 0
        wanted.append(stored(folder))
        assert wanted[-1] == wanted[0] != before
        assert (files(folder), changes(folder)) == (work, "")
        assert not to_the_end or run(["check", "--frozen"]) == 0

    assert at_each_step(store, ["record"], look) > 20
