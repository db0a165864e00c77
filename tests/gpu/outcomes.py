"""A pytest plugin for one of several processes that share tests: it takes one that none has taken,
and writes what became of it as it ends.

Tests are taken in an order without a pattern, and a kernel is compiled by one process while others
that need the same one wait: neighbours mostly need the same, and would each compile it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import importlib.util
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

# After such an error every launch of the process fails, which would say nothing of other tests.
SPOILED = re.compile(r"CUDA error|illegal memory|misaligned address|unspecified launch failure")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where outcomes go, which tests are done, and where it is told which are taken."""
    group = parser.getgroup("outcomes")
    group.addoption("--outcomes", type=Path, help="a line of JSON a test is appended to this file")
    group.addoption("--finished", type=Path, help="a file with a test id a line: not run again")
    group.addoption("--claims", type=Path, help="a folder with an empty file for each taken test")
    group.addoption("--until", type=float, help="seconds since 1970 after which no test is begun")


def pytest_configure(config: pytest.Config) -> None:
    """Write only where that is asked for."""
    if config.getoption("--outcomes"):
        config.pluginmanager.register(Outcomes(config), "outcomes-of-a-share")
        if config.getoption("--claims") and importlib.util.find_spec("triton"):
            compiler = importlib.import_module("triton.compiler")
            folder = config.getoption("--claims")
            compiler.compile = alone(compiler.compile, folder)


def alone(compile_kernel: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Return a compile of Triton's that waits where another process compiles the same kernel."""

    def waiting(src: Any, *args: Any, **named: Any) -> Any:
        text = f"{src.hash()} {args} {named.get('target')} {named.get('options')}"
        with (folder / f"compile-{_short(text)}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return compile_kernel(src, *args, **named)

    return waiting


def claim_of(folder: Path, test: str) -> Path:
    """Return the file that says that a test is taken."""
    return folder / f"test-{_short(test)}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Outcomes:
    """The tests of one process."""

    def __init__(self, config: pytest.Config) -> None:
        self.file = config.getoption("--outcomes")
        finished = config.getoption("--finished")
        lines = finished.read_text(encoding="utf-8").splitlines() if finished else []
        self.finished = set(lines)
        self.claims = config.getoption("--claims")
        self.until = config.getoption("--until")
        self.spoiled = False
        self.called = False

    def write(self, test: str, outcome: str, reason: str = "") -> None:
        """Append one outcome."""
        entry = {"test": test, "outcome": outcome, "reason": reason, "process": os.getpid()}
        append(self.file, entry)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what is finished; the others in the same order in every process."""
        kept = [item for item in items if item.nodeid not in self.finished]
        if len(kept) < len(items):
            gone = [item for item in items if item.nodeid in self.finished]
            config.hook.pytest_deselected(items=gone)
        if self.claims:
            kept.sort(key=lambda item: _short(item.nodeid))
            names = "".join(f"{item.nodeid}\n" for item in kept)
            (self.claims / "collected").write_text(names, encoding="utf-8")
        items[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leave a test alone that another process has taken, or any once time is up."""
        if self.spoiled or (self.until and time.time() > self.until) or not self.take(item.nodeid):
            return True
        # tests left alone have torn nothing down
        item.session._setupstate.teardown_exact(item)
        return None

    def take(self, test: str) -> bool:
        """Return whether a test is this process's from now on."""
        if not self.claims:
            return True
        try:
            claim_of(self.claims, test).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test that ends the process has begun and has no outcome."""
        self.called = False
        self.write(nodeid, "begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One outcome a test; it has passed once what it set up is torn down."""
        if report.when == "call":
            self.called = report.passed
        if report.failed:
            self.spoiled |= bool(SPOILED.search(last_line(report)))
            self.write(report.nodeid, "failed", last_line(report))
        elif report.skipped:
            self.write(report.nodeid, "skipped", skip_reason(report))
        elif report.when == "teardown" and self.called:
            self.write(report.nodeid, "passed")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be collected, or skips itself as a whole."""
        if report.failed:
            self.write(report.nodeid, "failed", last_line(report))
        elif report.skipped:
            self.write(report.nodeid, "skipped", skip_reason(report))


def skip_reason(report: Any) -> str:
    """Why something was skipped, without file and line."""
    found = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return found.removeprefix("Skipped: ")


def last_line(report: Any) -> str:
    """The error of a failure: its first line that pytest marks, else its last."""
    lines = str(report.longrepr).splitlines()
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (marked or lines or [""])[0][:300]


def read(path: Path) -> dict[str, tuple[str, str]]:
    """The last outcome and reason of each test; one that began and did not end has failed.

    So has the last that a process passed before it ended in no way of pytest's, or was not seen to
    end. Where it is known to have crashed, what it passed earlier has no outcome: any of it may be
    the cause.
    """
    found: dict[str, tuple[str, str]] = {}
    taken: dict[int, list[str]] = {}
    codes: dict[int, int | None] = {}
    for entry in entries(path.read_text(encoding="utf-8") if path.exists() else ""):
        outcome, process = entry["outcome"], entry["process"]
        if outcome == "ended":
            codes[process] = entry["code"]
        elif outcome == "begun":
            taken.setdefault(process, []).append(entry["test"])
            found[entry["test"]] = ("failed", "the process ended in this test")
        else:
            found[entry["test"]] = (outcome, entry["reason"])
    for process, tests in taken.items():
        doubt(found, tests, codes.get(process))
    return found


def doubt(found: dict[str, tuple[str, str]], tests: Sequence[str], code: int | None) -> None:
    """Take back what a process passed, where neither pytest nor its last test explains its end."""
    ran = [test for test in tests if test in found and found[test][0] != "skipped"]
    passed = [test for test in ran if found[test][0] == "passed"]
    if code in (0, 5) or (code == 1 and len(passed) < len(ran)):
        return
    if not passed or passed[-1] != ran[-1]:
        return
    if code is None:
        found[passed[-1]] = ("failed", "its process did not end after it")
        return
    for test in passed[:-1]:
        del found[test]
    why = f"its process ended with {code} after it; what it had passed is run again"
    found[passed[-1]] = ("failed", why)


def append(path: Path, entry: Mapping[str, Any]) -> None:
    """Append a line to a file of outcomes."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def entries(text: str) -> Iterator[dict[str, str]]:
    """What lines of outcomes say."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # cut off as it was written
            continue
