"""A pytest plugin that writes down what became of each test, a JSON object a line.

It is copied next to the tests' interpreter, which has no patchkit: nothing but pytest is imported,
and the oldest Python that vLLM runs on must read it. What it has written when the interpreter
crashes or is killed is on the disk.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import _pytest
import pytest
from _pytest.outcomes import Failed

# Set by whoever runs the tests: the file to write, the tree under test, and its package.
REPORT = "PATCHKIT_REPORT"
TREE = "PATCHKIT_TREE"
PACKAGE = "PATCHKIT_PACKAGE"

_PYTEST = {Path(module.__file__ or "").parent for module in (pytest, _pytest)}
# Where libraries keep assertions that are made for tests: torch.testing, numpy.testing, unittest.
_ASSERTING = {"testing", "unittest"}


def _write(**line: Any) -> None:
    with Path(os.environ[REPORT]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def is_own_assertion(excinfo: Any, test: Path) -> bool:
    """Return whether a test's own assertion failed: in its file, in one beside it, or in a function
    made for assertions that it called. One that fails within the tree under test is none.
    """
    if not isinstance(excinfo.value, (AssertionError, Failed)):
        return False
    paths = [Path(str(entry.path)) for entry in excinfo.traceback]
    paths = [path for path in paths if _PYTEST.isdisjoint(path.parents)]
    own = [number for number, path in enumerate(paths) if path.parent == test.parent]
    if not own:
        return False
    beyond = paths[own[-1] + 1 :]
    tree = Path(os.environ[TREE])
    if any(tree in path.parents for path in beyond):
        return False
    return not beyond or any(_ASSERTING & set(path.parts) for path in beyond)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write which test is about to run, for the case that it never ends."""
    _write(kind="start", nodeid=nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Write how a phase of a test ended."""
    report = yield
    expected = hasattr(report, "wasxfail")
    own = call.excinfo is not None and is_own_assertion(call.excinfo, Path(str(item.path)))
    text = "" if call.excinfo is None else call.excinfo.exconly()
    _write(
        kind="phase",
        nodeid=item.nodeid,
        when=report.when,
        outcome=f"x{report.outcome}" if expected else report.outcome,
        own=own,
        text=text,
    )
    return report


def pytest_collectreport(report: Any) -> None:
    """Write what could not be collected, or was skipped as a whole."""
    if report.failed or report.skipped:
        _write(kind="collect", nodeid=report.nodeid, text=str(report.longrepr))


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write that the run came to its end, and what was imported in it."""
    torch = sys.modules.get("torch")
    package = sys.modules.get(os.environ[PACKAGE])
    _write(
        kind="end",
        exit=int(exitstatus),
        torch=str(torch.__version__) if torch is not None else None,
        origin=getattr(package, "__file__", None),
    )
