"""The tools: each gets base, patch and target, and gives an answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome
from patchkit.stacking.rebase import port
from tests.bench_rebase.cases import Case
from tests.bench_rebase.judge import Answer
from tests.bench_rebase.source import is_python

LIMIT_S = 120
_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", ""),
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@localhost",
}


def _run(
    command: Sequence[str], folder: Path, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, cwd=folder, input=stdin, env=_ENVIRONMENT, capture_output=True, check=False,
        timeout=LIMIT_S,
    )  # fmt: skip


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def _read(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def _refused(done: subprocess.CompletedProcess[bytes]) -> Answer:
    text = (done.stderr or done.stdout).decode(errors="replace").strip()
    return Answer(False, None, f"exit {done.returncode}: {text[:200]}")


def gnu_patch(case: Case, folder: Path) -> Answer:
    """GNU patch -p1 with its default fuzz."""
    _write(folder, case.target)
    done = _run(["patch", "-p1", "--forward", "--no-backup-if-mismatch"], folder, stdin=case.patch)
    files = _read(folder)
    rejects = [path for path in files if path.endswith(".rej")]
    if done.returncode or rejects:
        return _refused(done)
    return Answer(True, files)


def git_apply(case: Case, folder: Path) -> Answer:
    """git apply --3way in a repository that holds the target and the patch's base blob."""
    _write(folder, case.target)
    for arguments in (["init", "-q", "."], ["add", "-A"], ["commit", "-q", "-m", "target"]):
        _run(["git", *arguments], folder).check_returncode()
    _run(["git", "hash-object", "-w", "--stdin"], folder, stdin=case.base).check_returncode()
    done = _run(["git", "apply", "--3way", "-"], folder, stdin=case.patch)
    if done.returncode:
        return _refused(done)
    return Answer(True, _read(folder))


def git_merge_file(case: Case, folder: Path) -> Answer:
    """git merge-file of target, base and patched base."""
    sides = {"target": case.target[case.path], "base": case.base, "patched": case.authored}
    _write(folder, sides)
    done = _run(["git", "merge-file", "-p", *sides], folder)
    if done.returncode:
        return _refused(done)
    return Answer(True, {**case.target, case.path: done.stdout})


def wiggle(case: Case, folder: Path) -> Answer:
    """wiggle --merge of target, base and patched base."""
    sides = {"target": case.target[case.path], "base": case.base, "patched": case.authored}
    _write(folder, sides)
    done = _run(["wiggle", "--merge", *sides], folder)
    if done.returncode:
        return _refused(done)
    return Answer(True, {**case.target, case.path: done.stdout})


def patchkit(case: Case, folder: Path) -> Answer:  # noqa: ARG001
    """patchkit.port of the patch from base to target."""
    return patchkit_with_outcomes(case)[0]


def patchkit_with_outcomes(case: Case) -> tuple[Answer, tuple[HunkOutcome, ...]]:
    """Return patchkit's answer with what it says of each hunk."""
    try:
        result = port([case.patch], {case.path: case.base}, case.target)
    except PatchkitError as err:
        return Answer(False, None, f"error: {err}"), ()
    except Exception as err:  # a bug is counted, and the run goes on
        where = traceback.extract_tb(err.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Answer(False, None, f"crash: {type(err).__name__} in {place}: {err}"), ()
    files = {path: result.tree.files[path] for path in result.tree.files}
    if result.ok:
        return Answer(True, files), result.outcomes
    remark = "; ".join(f"{o.status}: {o.reason}" for o in result.outcomes if not o.landed)
    if not any(o.landed for o in result.outcomes) and files != dict(case.target):
        remark = "corrupt: nothing landed, yet files changed; " + remark
    elif not all(map(is_python, files.values())):
        remark = "corrupt: what landed does not parse; " + remark
    return Answer(False, files, remark), result.outcomes


OWN = "patchkit"

Tool = Callable[[Case, Path], Answer]

TOOLS: dict[str, Tool] = {
    "GNU patch": gnu_patch,
    "git apply --3way": git_apply,
    "git merge-file": git_merge_file,
    "wiggle": wiggle,
    OWN: patchkit,
}
_COMMANDS = {
    "GNU patch": "patch",
    "git apply --3way": "git",
    "git merge-file": "git",
    "wiggle": "wiggle",
}


def answer(tool: str, case: Case) -> Answer:
    """Return a tool's answer to a case; it works in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-rebase-") as folder:
        try:
            return TOOLS[tool](case, Path(folder))
        except subprocess.TimeoutExpired:
            return Answer(False, None, f"took over {LIMIT_S} s")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the version of each other tool that is installed."""
    found = {}
    for tool, command in _COMMANDS.items():
        if shutil.which(command):
            done = subprocess.run([command, "--version"], capture_output=True, check=False)
            found[tool] = (done.stdout or done.stderr).decode().splitlines()[0].strip()
    return {tool: found[tool] for tool in TOOLS if tool in found}


def missing() -> tuple[str, ...]:
    """Return the tools that are not installed."""
    return tuple(tool for tool in TOOLS if tool != OWN and tool not in versions())
