"""Which files an interpreter really loaded, and what in it still holds code without the patches.

The interpreter of an environment is started with the probe on its path, and asked; so are those
that it starts. A request holds both texts of every file that a series changes, so that what was
loaded is judged by what it is, not by what lies on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.verifying import probe
from patchkit.verifying.loaded import Imported, Wanted, read_process

SITECUSTOMIZE = "sitecustomize.py"
# After it was asked, a process has this long to report: it may be loading a model.
ANSWER_S = 30.0
STOP_S = 20.0
_STDERR = 2


def import_in(python: str, root: Path, wanted: Sequence[Wanted], names: Sequence[str]) -> Imported:
    """Return what an interpreter loads when it imports modules: the given ones, else all wanted.

    `root` is put first on its path, so that a plain folder is what it imports.
    """
    modules = [w.module for w in wanted if w.patched is not None or w.sha256 is not None]
    with _folder(wanted, names or modules) as folder:
        command = [python, "-c", _RUN, str(folder / "probe.py")]
        variables = {**os.environ, probe.FOLDER: str(folder), "PYTHONPATH": _path(root)}
        try:
            done = subprocess.run(
                command, env=variables, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True
            )
        except OSError as err:
            raise PatchkitError("is no Python that runs", place=python) from err
        problems = []
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            problems = [f"the interpreter ended with {done.returncode}: {said}"]
        return _judged(folder, root, wanted, problems)


def interpreter_of(root: Path) -> str:
    """Return the interpreter of the environment that a folder of packages is in, else our own."""
    for folder in (root, *root.parents[:4]):
        python = folder / "bin" / "python"
        if (folder / "pyvenv.cfg").is_file() and python.exists():
            return str(python)
    return sys.executable


# The probe as `__main__`, its folder not on the path.
_RUN = "import runpy, sys; path = sys.argv.pop(); runpy.run_path(path, run_name='__main__')"


def watch_command(
    command: Sequence[str],
    root: Path,
    wanted: Sequence[Wanted],
    after_s: float | None,
    *,
    quiet: bool = False,
) -> Imported:
    """Return what the interpreters of a command loaded.

    With `after_s` they are asked after that many seconds, and the command is stopped then. Else
    they report when they end, and its exit status is known. `quiet` sends what the command says to
    standard error.
    """
    with _folder(wanted, ()) as folder:
        variables = {**os.environ, probe.FOLDER: str(folder)}
        found = [str(folder / "start"), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables["PYTHONPATH"] = os.pathsep.join(found)
        try:
            process = subprocess.Popen(
                list(command),
                env=variables,
                start_new_session=True,
                stdout=_STDERR if quiet else None,
            )
        except OSError as err:
            fact = f"cannot be run: {(err.strerror or str(err)).lower()}"
            raise PatchkitError(fact, place=command[0]) from err
        status: int | None = None
        try:
            status = process.wait(after_s)
        except subprocess.TimeoutExpired:
            _ask(folder)
        finally:
            _stop(process)
        return replace(_judged(folder, root, wanted, []), command_status=status)


def _ask(folder: Path) -> None:
    """Have every process of the command report, and wait until no more come."""
    (folder / probe.ASK).touch()
    deadline, seen, still = time.monotonic() + ANSWER_S, -1, 0
    while time.monotonic() < deadline and still < 5:
        time.sleep(probe.POLL_S * 2)
        count = len(list(folder.glob("*.json")))
        still = still + 1 if count == seen and count > 1 else 0  # the request is one
        seen = count


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it has left behind


class _folder(tempfile.TemporaryDirectory[str]):  # noqa: N801
    """The folder of a request, while it is needed."""

    def __init__(self, wanted: Sequence[Wanted], names: Sequence[str]) -> None:
        super().__init__(prefix="patchkit-probe-")
        folder = Path(self.name)
        entries = [
            {"module": w.module, "path": w.path, "pristine": w.pristine, "patched": w.patched}
            for w in wanted
        ]
        text = json.dumps({"modules": entries, "import": list(names)})
        (folder / probe.REQUEST).write_text(text, encoding="utf-8")
        source = Path(probe.__file__)
        shutil.copyfile(source, folder / "probe.py")
        (folder / "start").mkdir()
        shutil.copyfile(source, folder / "start" / SITECUSTOMIZE)

    def __enter__(self) -> Path:  # type: ignore[override]
        return Path(super().__enter__())


def _path(root: Path) -> str:
    known = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.pathsep.join([str(root), *known])


def _judged(
    folder: Path, root: Path, wanted: Sequence[Wanted], problems: Sequence[str]
) -> Imported:
    reports = [path for path in folder.glob("*.json") if path.name != probe.REQUEST]
    documents = sorted((json.loads(p.read_bytes()) for p in reports), key=lambda d: int(d["pid"]))
    failed = [f"process {p.stem}: {p.read_text()}" for p in sorted(folder.glob("*.failed"))]
    found = [*problems, *failed]
    if not documents and not found:
        found.append(
            "no interpreter that loaded the package reported; "
            "one that is started with -I, -E or -S cannot"
        )
    return Imported(tuple(read_process(d, root, wanted) for d in documents), tuple(found))
