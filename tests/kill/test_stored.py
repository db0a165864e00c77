"""Commands that change stored patches, killed at every step: all of it is there, or nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from patchkit.cli import run
from tests.editing.store import lay_out, read, tree, write
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
        assert run(["check"]) == 0  # finishes what was begun; what is there is sound
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
