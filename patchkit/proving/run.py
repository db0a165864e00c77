"""Named tests in an interpreter of their own, on one tree that lies in a folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.proving.judge import Ended, TreeRun, judge_run, read_report
from patchkit.series.verdict import Colour
from patchkit.tree import EXECUTABLE, SourceTree

PLUGIN = "patchkit_reporter"
REPORTER = Path(__file__).with_name("reporter.py")
DEFAULT_TIMEOUT_S = 600.0
OUTPUT_LINES = 40
# What a user's environment says of Python or pytest is about other code than this.
_NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")


@dataclass(frozen=True)
class Runner:
    """How tests are run: the interpreter, what it finds in its environment, and for how long.

    `package` is what the tree under test is imported as; `root` the repository that holds the
    tests. A run that takes longer than `timeout_s` seconds is stopped.
    """

    python: Path
    root: Path
    package: str
    variables: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = DEFAULT_TIMEOUT_S

    def run(self, names: Sequence[str], tree: Path) -> TreeRun:
        """Return what the named tests say of the tree in a folder.

        Neither the configuration of the repository nor a conftest.py above a test has a say, so
        that the result depends on the test alone; one beside the test does.
        """
        with tempfile.TemporaryDirectory(prefix="patchkit-test-") as name:
            work = Path(name).resolve()
            shutil.copyfile(REPORTER, work / f"{PLUGIN}.py")
            (work / "pytest.ini").write_text("[pytest]\n")
            report, output = work / "report.jsonl", work / "output.txt"
            runs = [self._one(group, tree, work, report, output) for group in _by_folder(names)]
        return _together(runs)

    def _one(
        self, names: Sequence[str], tree: Path, work: Path, report: Path, output: Path
    ) -> TreeRun:
        report.unlink(missing_ok=True)
        folder = self.root / Path(names[0].partition("::")[0]).parent
        command = [
            *(str(self.python), "-m", "pytest", "-c", str(work / "pytest.ini"), "-p", PLUGIN),
            *("--rootdir", str(self.root), "--confcutdir", str(folder)),
            *("--import-mode", "importlib", "-p", "no:cacheprovider", "--tb", "short", "-q"),
            *(str(self.root / name) for name in names),
        ]
        variables = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        variables |= {
            **self.variables,
            "PYTHONPATH": os.pathsep.join((str(tree), str(work))),
            "PYTHONNOUSERSITE": "1",
            "PATCHKIT_REPORT": str(report),
            "PATCHKIT_TREE": str(tree),
            "PATCHKIT_PACKAGE": self.package,
        }
        with output.open("wb") as file:
            ended = self._end(command, variables, work, file.fileno())
        text = report.read_text(encoding="utf-8") if report.exists() else ""
        run = judge_run(read_report(text), ended, names, str(tree))
        said = output.read_text(encoding="utf-8", errors="replace")
        tail = "\n".join(said.rstrip().split("\n")[-OUTPUT_LINES:])
        return replace(run, output=tail)

    def _end(
        self, command: Sequence[str], variables: Mapping[str, str], work: Path, output: int
    ) -> Ended:
        """Run to the end or to the limit; what the tests started is stopped with them."""
        try:
            process = subprocess.Popen(
                command, cwd=work, env=dict(variables), stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        except OSError as err:
            raise PatchkitError(
                f"cannot be run: {(err.strerror or str(err)).lower()}", place=str(self.python),
                expected="a Python interpreter",
            ) from err  # fmt: skip
        try:
            return Ended(process.wait(self.timeout_s))
        except subprocess.TimeoutExpired:
            return Ended(None, self.timeout_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def lay_out(tree: SourceTree, folder: Path) -> None:
    """Write the files of a tree below a folder that is not there yet."""
    made: set[Path] = set()
    for path, content in tree.files.items():
        target = folder / path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        target.write_bytes(content)
        if tree.mode(path) == EXECUTABLE:
            target.chmod(0o755)


def _by_folder(names: Sequence[str]) -> list[list[str]]:
    """Return the names grouped by folder, since each run has one folder for its conftest.py."""
    groups: dict[Path, list[str]] = {}
    for name in names:
        groups.setdefault(Path(name.partition("::")[0]).parent, []).append(name)
    return list(groups.values())


def _together(runs: Sequence[TreeRun]) -> TreeRun:
    """Return several runs as one: broken if any is, else red if any is."""
    for colour in (Colour.BROKEN, Colour.RED):
        for run in runs:
            if run.colour is colour:
                return run
    return runs[0]
