"""Children that stand in for one that measures: a spawned process imports them from here."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection

from tests.bench.kernels.cases import Case
from tests.bench.kernels.rows import Row
from tests.bench.kernels.running import Pending

A, B = Case(1, 100, 1), Case(1, 100, 2)


def row(case: Case, column: str, status: str = "timed") -> Row:
    """A row of a cell."""
    return Row(case, column, status, "", (1.0,), 1, 1.0, 0.0)


def dies_at_two(there: Connection, _: str, todo: Pending, *__: object) -> None:
    """Measures, but for column "two" of A, at which it ends without a word."""
    for case, columns in todo:
        for column in columns:
            there.send(("begun", (case, column)))
            if (case, column) == (A, "two"):
                os._exit(7)
            there.send(("row", row(case, column)))
    there.send(("done", None))


def dies_while_timing(there: Connection, _: str, todo: Pending, *__: object) -> None:
    """All columns are ready; one row is sent, then the process ends."""
    case, columns = todo[0]
    there.send(("begun", (case, columns[-1])))
    there.send(("begun", (case, "")))
    if case == A:
        there.send(("row", row(case, columns[0])))
        os._exit(7)
    for column in columns:
        there.send(("row", row(case, column)))
    there.send(("done", None))


def ends_at_once(there: Connection, *_: object) -> None:
    """Never begins anything."""
    there.close()
    os._exit(7)


def told_before(there: Connection, _: str, todo: Pending, *__: object) -> None:
    """Sends the row of a failure, then ends, as the device is broken."""
    for case, columns in todo:
        for column in columns:
            there.send(("begun", (case, column)))
            if (case, column) == (A, "one"):
                there.send(("row", Row(case, column, "failed", "bad address")))
                os._exit(1)
            there.send(("row", row(case, column)))
    there.send(("done", None))


def hangs(there: Connection, _: str, todo: Pending, *__: object) -> None:
    """Waits for ever in column "two" of A."""
    for case, columns in todo:
        for column in columns:
            there.send(("begun", (case, column)))
            if (case, column) == (A, "two"):
                threading.Event().wait()
            there.send(("row", row(case, column)))
    there.send(("done", None))
