"""A git work tree of a release with its series as commits; the one module that writes with git.

Plain `git` through pipes: the 4,800 files of vLLM are one `fast-import`. Nothing of the user's git
reaches what is done here: no configuration, hooks, templates, attributes, and none of the GIT_
variables. The tree has its own configuration, so that plain git in it does what `record` will see.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from patchkit.diff.model import blob_id
from patchkit.diff.paths import encode_path, quote_name
from patchkit.errors import PatchkitError
from patchkit.tree import REGULAR, SourceTree
from patchkit.upstream.progress import Progress, silent

BRANCH = "edit"
SERIES_REF = "refs/patchkit/series"  # with every patch, also those after the one that is edited
NEXT_REF = "refs/patchkit/next"
_WHO = b"patchkit <patchkit@localhost> 946684800 +0000"  # the same series gives the same commits
_CONFIG = {
    "user.name": "patchkit",
    "user.email": "patchkit@localhost",
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.fileMode": "true",
    "core.hooksPath": os.devnull,
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "core.fsmonitor": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
}
# What editors and runs leave behind is no part of a patch.
_EXCLUDED = b"__pycache__/\n*.py[cod]\n*~\n.*.sw[a-p]\n.DS_Store\n.idea/\n.vscode/\n.venv/\n"
_ATTRIBUTES = b"* -text -filter -ident -working-tree-encoding !eol\n"


@dataclass(frozen=True)
class Commit:
    """One commit to make: its message, and the files that differ, None for those that go."""

    message: str
    files: Mapping[str, bytes | None]
    modes: Mapping[str, int]


@dataclass(frozen=True)
class Changed:
    """One path that two trees have otherwise: what it is in the new one, zeros where it is gone."""

    path: str
    new_mode: str
    new_blob: str


def create(
    path: Path,
    commits: Sequence[Commit],
    number: int,
    ready: Callable[[tuple[str, ...]], None],
    progress: Progress = silent,
) -> tuple[str, ...]:
    """Write a work tree that is not there yet, and return the ids of its commits.

    It stands at the commit of the given number, and appears as a whole or not at all. `ready` is
    called with the ids when all that is left is to give it its name.
    """
    staged = path.with_name(f".{path.name}.patchkit-new")
    for left_over in (staged, _gone(path)):
        shutil.rmtree(left_over, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    _init(staged)
    ids = write_commits(staged, None, commits, progress)
    _git(staged, "update-ref", SERIES_REF, ids[-1])
    _git(staged, "update-ref", f"refs/heads/{BRANCH}", ids[number])
    _git(staged, "reset", "--quiet", "--hard")
    ready(ids)
    try:
        staged.rename(path)  # onto an empty folder too, but never onto a full one
    except OSError as err:
        shutil.rmtree(staged, ignore_errors=True)
        raise PatchkitError(
            f"cannot be written: {(err.strerror or str(err)).lower()}", place=str(path)
        ) from err
    return ids


def _init(folder: Path) -> None:
    """Write an empty repository that goes by its own settings alone."""
    command = [_program(), "init", "--quiet", "--template=", f"--initial-branch={BRANCH}"]
    _run([*command, str(folder)], "init", _environment())
    names = (key.split(".") for key in _CONFIG)
    settings = [f"[{part}]\n\t{name} = {_CONFIG[f'{part}.{name}']}\n" for part, name in names]
    with (folder / ".git" / "config").open("a", encoding="utf-8") as file:
        file.writelines(settings)
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "exclude").write_bytes(_EXCLUDED)
    (info / "attributes").write_bytes(_ATTRIBUTES)


def discard(path: Path) -> None:
    """Remove a work tree, in one step as far as anybody can see."""
    gone = _gone(path)
    shutil.rmtree(gone, ignore_errors=True)
    if path.exists():
        path.rename(gone)
        shutil.rmtree(gone)


def _gone(path: Path) -> Path:
    return path.with_name(f".{path.name}.patchkit-old")


def write_commits(
    path: Path, parent: str | None, commits: Sequence[Commit], progress: Progress = silent
) -> tuple[str, ...]:
    """Write commits on top of one, to no branch, and return their ids."""
    if not commits:
        return ()
    total = sum(len(c or b"") for commit in commits for c in commit.files.values())
    label, done = "writing the work tree", 0
    marks = path / ".git" / "patchkit-marks"
    # vLLM's 96 MB in 0.9 s of CPU and 17 MB; with deltas and git's own level 2.1 s and 13 MB
    options = ["--quiet", "--force", "--done", "--depth=0", f"--export-marks={marks}"]
    command = _command(path, "-c", "core.compression=1", "fast-import", *options)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=_environment(),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):  # what it died of is on its standard error
            for part in _stream(parent, commits):
                process.stdin.write(part)
                done += len(part)
                progress(label, min(done, total), total)
            process.stdin.close()
        said = process.stderr.read().decode("utf-8", "replace")
        if process.wait() != 0:
            raise _failed("fast-import", said)
    rows = [row.split() for row in marks.read_text("ascii").splitlines()]
    marks.unlink()
    by_mark = {int(mark[1:]): name for mark, name in rows}
    return tuple(by_mark[number] for number in range(1, len(commits) + 1))


def _stream(parent: str | None, commits: Sequence[Commit]) -> Iterator[bytes]:
    """Yield the input of fast-import for a chain of commits."""
    yield b"feature done\nreset %s\n" % NEXT_REF.encode()
    yield b"from %s\n\n" % parent.encode() if parent is not None else b"\n"
    for number, commit in enumerate(commits, start=1):
        message = commit.message.encode("utf-8", "surrogateescape")
        yield b"commit %s\nmark :%d\n" % (NEXT_REF.encode(), number)
        yield b"author %s\ncommitter %s\n" % (_WHO, _WHO)
        yield b"data %d\n%s\n" % (len(message), message)
        for path, content in commit.files.items():
            name = quote_name(encode_path(path))
            if content is None:
                yield b"D %s\n" % name
            else:
                mode = commit.modes.get(path, REGULAR)
                yield b"M %o inline %s\ndata %d\n%s\n" % (mode, name, len(content), content)
        yield b"\n"
    yield b"done\n"


def tree_of(path: Path, commit: str) -> str:
    """Return the id of the content of a commit."""
    return _git(path, "rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()


def head(path: Path) -> str:
    """Return the id of the commit that the work tree stands at."""
    return _git(path, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()


def chain(path: Path, last: str) -> tuple[str, ...]:
    """Return the ids of the commits up to one, the first of all first."""
    return tuple(_git(path, "rev-list", "--reverse", last).decode().split())


def is_on_top(path: Path, commit: str) -> bool:
    """Return whether the work tree stands at a commit or at one after it."""
    command = _command(path, "merge-base", "--is-ancestor", commit, "HEAD")
    done = subprocess.run(command, capture_output=True, env=_environment(), check=False)
    return done.returncode == 0


def is_busy(path: Path) -> str | None:
    """Return the git command that has stopped half way in the work tree, None where none has."""
    stopped = {
        "rebase": ("rebase-merge", "rebase-apply"),
        "merge": ("MERGE_HEAD",),
        "cherry-pick": ("CHERRY_PICK_HEAD",),
        "revert": ("REVERT_HEAD",),
    }
    for command, names in stopped.items():
        if any((path / ".git" / name).exists() for name in names):
            return command
    return None


def unmerged(path: Path) -> tuple[str, ...]:
    """Return the files that a merge left with both sides in them, and nobody has settled."""
    listing = _git(path, "diff", "--name-only", "--diff-filter=U", "-z")
    return tuple(os.fsdecode(name) for name in listing.split(b"\0")[:-1])


def snapshot(path: Path) -> str:
    """Return the id of the content of the work tree, untracked files that git does not ignore too.

    The user's own index is left as it is.
    """
    index, own = path / ".git" / "patchkit-index", path / ".git" / "index"
    if own.exists():
        shutil.copy2(own, index)  # with its time: git takes a file for unchanged by comparing that
    try:
        _git(path, "add", "--all", "--", ".", index=index)
        return _git(path, "write-tree", index=index).decode().strip()
    finally:
        index.unlink(missing_ok=True)


def changed(path: Path, old: str, new: str) -> tuple[Changed, ...]:
    """Return the paths that two trees have otherwise; a moved file is one that went and one new."""
    listing = _git(path, "diff-tree", "-r", "-z", "--no-renames", old, new)
    parts = listing.split(b"\0")
    found = []
    for head_, name in zip(parts[0::2], parts[1::2], strict=False):
        _, new_mode, _, new_blob, _ = head_.decode().split()
        found.append(Changed(os.fsdecode(name), new_mode, new_blob))
    return tuple(found)


def holds(path: Path, commit: str, tree: SourceTree) -> bool:
    """Return whether a commit has the very files of a tree, and no others."""
    found: dict[str, tuple[int, str]] = {}
    for row in _git(path, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        about, _, name = row.partition(b"\t")
        mode, _, blob = about.decode("ascii").split()
        found[os.fsdecode(name)] = (int(mode, 8), blob)
    return found == {p: (tree.mode(p), blob_id(data)) for p, data in tree.files.items()}


def read_blob(path: Path, blob: str) -> bytes:
    """Return the content of a file in the object database."""
    return _git(path, "cat-file", "blob", blob)


def stand_at(path: Path, commit: str, series: str) -> None:
    """Move the branch to a commit and tell git so; no file of the work tree is touched."""
    _git(path, "symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
    _git(path, "reset", "--quiet", "--mixed", commit)
    _git(path, "update-ref", SERIES_REF, series)


def check_out(path: Path, commit: str) -> None:
    """Bring branch and files to a commit; what was changed is lost, ignored files stay.

    HEAD is moved last: while it is where it was, not all files are as they are to be.
    """
    _git(path, "clean", "--quiet", "--force", "-d")
    _git(path, "checkout", "--quiet", "--force", "-B", BRANCH, commit)


def _git(path: Path, *arguments: str, index: Path | None = None) -> bytes:
    """Return what a git command in the work tree prints."""
    return _run(_command(path, *arguments), arguments[0], _environment(index))


def _run(command: Sequence[str], name: str, environment: Mapping[str, str]) -> bytes:
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    if done.returncode != 0:
        raise _failed(name, done.stderr.decode("utf-8", "replace"))
    return done.stdout


def _command(path: Path, *arguments: str) -> list[str]:
    """Return a git command on the work tree, and on no repository around it."""
    where = ["-C", str(path), f"--git-dir={path / '.git'}", f"--work-tree={path}"]
    return [_program(), *where, *arguments]


def _program() -> str:
    git = shutil.which("git")
    if git is None:
        raise PatchkitError("git is not installed", hint="install git")
    return git


def _environment(index: Path | None = None) -> dict[str, str]:
    """Return the environment of a git that knows of this work tree alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }
    return {**kept, "GIT_INDEX_FILE": str(index)} if index is not None else kept


def _failed(name: str, said: str) -> PatchkitError:
    last = said.strip().split("\n")[-1] or "no word of why"
    return PatchkitError(f"git {name} failed: {last}", place="the work tree")
