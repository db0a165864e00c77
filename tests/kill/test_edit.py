"""Commands that write the store, killed with SIGKILL at every step: all of it is there, or nothing.

What git does in a process of its own is one step; the work tree is looked at with the next command.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from tests.editing.store import BASE, FOUR, OTHER, SIZE, edited, lay_out, read, tree, write
from tests.kill.steps import killed_at_each_step

WHERE = ".patchkit/edit/v0.28.0"
FIELDS = ["--reason", "a", "--forwarded", "no", "--exit-condition", "b"]
Store = dict[str, bytes]


@pytest.fixture(autouse=True)
def _no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process has written is there for the next one; a power cut is not tested."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def store(folder: Path, trees: dict[str, object]) -> Path:
    """Return a repository with four sound patches."""
    repository = folder / "repository"
    repository.mkdir()
    os.chdir(repository)  # `folder` puts the old one back
    trees["v0.28.0"] = trees["0.28.0"] = tree()
    lay_out(repository)
    assert run(["check"]) == 0
    return repository


def stored(folder: Path) -> Store:
    """What is stored, without what a killed commit has staged beside it."""
    found = read(folder).items()
    staged = (".patchkit-new", ".patchkit-old")
    return {n: d for n, d in found if not any(p.endswith(staged) for p in n.split("/"))}


def check_kills(store: Path, words: list[str], again: list[str] | None = None) -> None:
    """Kill a command at each step; what is stored is old or new, and once more it comes to its end.

    `again` is what a person does next where that is not the same command.
    """
    before, copy = stored(store), store.parent / "done"
    shutil.copytree(store, copy, symlinks=True)
    os.chdir(copy)
    assert run(words) == 0
    done = stored(copy)
    assert done != before
    ended = []
    for killed in killed_at_each_step(store, store.parent / "killed", lambda: run(words)):
        os.chdir(killed.folder)
        assert (
            run(["check"]) == 0
        )  # finishes what was begun, and says of what is there that it is sound
        found = stored(killed.folder)
        assert found in (before, done), killed.step
        ended.append(found == done)
        if found == before:
            assert run(again or words) == 0
            assert stored(killed.folder) == done, killed.step
        assert not list(killed.folder.glob("patches/**/*.patchkit-*"))
    assert len(ended) > 8
    assert ended[0] is False
    assert ended[-1] is True
    assert ended == sorted(ended)  # what was done is not undone by a kill that comes later


def test_record(store: Path) -> None:
    assert run(["edit", "two"]) == 0
    file = store / WHERE / SIZE
    file.write_bytes(file.read_bytes().replace(b"n + n", b"2 * n"))
    check_kills(store, ["record"])
    assert b"2 * n" in stored(store.parent / "done")["patches/v0.28.0/two.patch"]


def test_record_of_a_new_patch(store: Path) -> None:
    assert run(["edit"]) == 0
    write(store / WHERE, "vllm/more.py", b"x = 1\n")
    words = ["--description", "Add more", "--applies-to", "==0.28.0", "--origin", "us", *FIELDS]
    check_kills(store, ["record", "--new", "more", *words])


def test_drop(store: Path) -> None:
    check_kills(store, ["drop", "four", "--reason", "not needed"])


def test_fold(store: Path) -> None:
    check_kills(store, ["fold", "two", "--into", "one"])


def test_rename(store: Path) -> None:
    check_kills(store, ["rename", "two", "twice"])


def test_import(store: Path) -> None:
    after = edited(FOUR, OTHER, b"def second(x):\n    y = x", b"def second(x):\n    y = x + 1")
    patch = b"Description: Add one\n\n" + format_files(diff_files(FOUR, after))
    write(store.parent, "more.patch", patch)
    assert BASE[OTHER] == FOUR[OTHER]
    path = str(store.parent / "more.patch")
    check_kills(store, ["import", path, "--base", "v0.28.0", *FIELDS])


def test_edit(store: Path) -> None:
    for killed in killed_at_each_step(store, store.parent / "killed", lambda: run(["edit", "two"])):
        os.chdir(killed.folder)
        assert run(["edit", "two"]) == 0
        assert (killed.folder / WHERE / SIZE).read_bytes().count(b"def twice") == 1
        assert run(["edit", "--close"]) == 0
        assert list((killed.folder / WHERE).parent.iterdir()) == []
