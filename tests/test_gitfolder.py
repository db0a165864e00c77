"""A git repository made without git is one that git takes."""

import os
import subprocess
from pathlib import Path

import pytest

from patchkit.repository.gitfolder import git_folder
from patchkit.repository.workspace import write_new_folder

FILES = {"a.b": b"1\n", "a/x": b"2\n", "a-b": b"3\n", "a/c/y": b"crlf\r\n", "a0": b""}
LATER = {**FILES, "a/x": b"4\n"}


def git(folder: Path, *args: str, **more: str) -> str:
    """Return what git prints in a folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env = {**kept, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **more}
    done = subprocess.run(
        ["git", *args], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a work tree as the last of two commits has it."""
    made = git_folder([("One", FILES), ("Two", LATER)], "rebase")
    write_new_folder(tmp_path / "git", made)
    write_new_folder(tmp_path / "work", {**LATER, ".git": b"gitdir: ../git\n"})
    return tmp_path / "work"


def test_git_finds_no_fault_and_both_commits(work: Path) -> None:
    assert git(work, "fsck", "--strict", "--no-dangling") == ""
    assert git(work, "log", "--format=%s") == "Two\nOne\n"
    assert git(work, "status", "--porcelain") == ""
    assert git(work, "ls-tree", "-r", "--name-only", "HEAD").split() == [
        "a-b",
        "a.b",
        "a/c/y",
        "a/x",
        "a0",
    ]
    assert git(work, "ls-files").split() == ["a-b", "a.b", "a/c/y", "a/x", "a0"]
    assert git(work, "show", "--format=", "--stat", "HEAD").split()[0] == "a/x"


def test_what_is_taken_back_is_as_it_was_whatever_the_user_has_configured(
    work: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("[core]\n\tautocrlf = true\n\teol = crlf\n")
    for name in LATER:
        (work / name).unlink()
    git(work, "checkout", "-q", ".", GIT_CONFIG_GLOBAL=str(config))
    assert {name: (work / name).read_bytes() for name in LATER} == LATER


def test_the_same_files_give_the_same_bytes() -> None:
    one = git_folder([("One", FILES)], "rebase")
    assert one == git_folder([("One", dict(reversed(FILES.items())))], "rebase")
