"""A pytest plugin that runs one share of the tests and writes what became of each as it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where outcomes go, which tests are done, and which of the others are this process's."""
    group = parser.getgroup("outcomes")
    group.addoption("--outcomes", type=Path, help="a line of JSON a test is appended to this file")
    group.addoption("--finished", type=Path, help="a file with a test id a line: not run again")
    group.addoption("--share", default="0/1", help="every Nth of the other tests, from the Ith")


def pytest_configure(config: pytest.Config) -> None:
    """Write only where that is asked for."""
    if config.getoption("--outcomes"):
        config.pluginmanager.register(Outcomes(config), "outcomes-of-a-share")


class Outcomes:
    """The share of one process."""

    def __init__(self, config: pytest.Config) -> None:
        self.file = config.getoption("--outcomes")
        finished = config.getoption("--finished")
        lines = finished.read_text(encoding="utf-8").splitlines() if finished else []
        self.finished = set(lines)
        self.own, self.parts = (int(word) for word in config.getoption("--share").split("/"))

    def write(self, test: str, outcome: str, reason: str = "") -> None:
        """Append one outcome."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "outcome": outcome, "reason": reason}) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the share, dealt in turn: neighbours take alike long."""
        left = [item for item in items if item.nodeid not in self.finished]
        kept = left[self.own :: self.parts]
        if len(kept) < len(items):
            chosen = {item.nodeid for item in kept}
            config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in chosen])
        items[:] = kept

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test that ends the process has begun and has no outcome."""
        self.write(nodeid, "begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One outcome a test: of its call, or of what came before or after where that failed."""
        if report.failed:
            self.write(report.nodeid, "failed", last_line(report))
        elif report.skipped:
            self.write(report.nodeid, "skipped", skip_reason(report))
        elif report.when == "call":
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
    """The outcome and reason of each test in a file; one that began and did not end has failed.

    A failure stays one, whatever came after it.
    """
    found: dict[str, tuple[str, str]] = {}
    for entry in _lines(path):
        test, outcome = entry["test"], entry["outcome"]
        if outcome == "begun":
            found[test] = ("failed", "the process ended in this test")
        elif found.get(test, ("", ""))[0] != "failed" or _begun(found[test]):
            found[test] = (outcome, entry["reason"])
    return found


def _begun(outcome: tuple[str, str]) -> bool:
    return outcome[1] == "the process ended in this test"


def _lines(path: Path) -> Iterator[dict[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # cut off as it was written
            continue
