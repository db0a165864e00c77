"""The same work on many items, in processes of their own; the results come in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from patchkit.errors import PatchkitError

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerError(Exception):
    """An exception in a worker, with its traceback as text: it cannot always be carried over."""


def cpu_count() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def spread(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    processes: int,
    done: Callable[[int], None],
) -> Iterator[Result]:
    """Yield the result of each item, in order; `done` is told how many are ready.

    The processes are started anew (spawned), so that `work` and the items must be picklable. Raises
    WorkerError for an exception in one of them. They end with the iterator, however that ends.
    """
    deal = _Deal(len(items), processes)
    results: dict[int, Result] = {}
    yielded = 0
    with _started(work, processes) as connections:
        busy = {
            connection: index
            for hand, connection in enumerate(connections)
            if (index := _hand_out(deal, hand, connection, items)) is not None
        }
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                index = busy.pop(ready)
                results[index] = _receive(ready)
                done(len(results))
                following = _hand_out(deal, connections.index(ready), ready, items)
                if following is not None:
                    busy[ready] = following
            while yielded in results:
                yield results[yielded]
                yielded += 1


class _Deal:
    """Who does what next: each process goes through a run of neighbours.

    Neighbouring releases have most of their files in common, which a process parses once. One that
    is done with its own run takes the last of the longest run that is left.
    """

    def __init__(self, count: int, hands: int) -> None:
        edges = [count * hand // hands for hand in range(hands + 1)]
        self._runs = [list(range(*edges[hand : hand + 2])) for hand in range(hands)]

    def take(self, hand: int) -> int | None:
        """Return the index of the next item for a process, or None where all are taken."""
        if self._runs[hand]:
            return self._runs[hand].pop(0)
        longest = max(self._runs, key=len)
        return longest.pop() if longest else None


def _hand_out(deal: _Deal, hand: int, connection: Connection, items: Sequence[Item]) -> int | None:
    """Give a process its next item; return the item's index, or None where there is none left."""
    index = deal.take(hand)
    if index is not None:
        with _broken_off():
            connection.send(items[index])
    return index


def _receive(connection: Connection) -> Any:
    with _broken_off():
        failed, result = connection.recv()
    if failed:
        raise WorkerError(f"in a worker process\n{result}")
    return result


@contextmanager
def _broken_off() -> Iterator[None]:
    try:
        yield
    except (EOFError, BrokenPipeError, ConnectionResetError) as err:
        raise PatchkitError(
            "a worker process was ended from outside",
            hint="where memory is short, `--jobs 1` needs least",
        ) from err


@contextmanager
def _started(work: Callable[[Item], Result], count: int) -> Iterator[list[Connection]]:
    """Give the connections to some processes, which end afterwards, whatever they are at."""
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    connections: list[Connection] = []
    try:
        with _deaf_to_interrupts():
            for _ in range(count):
                ours, theirs = context.Pipe()
                processes.append(context.Process(target=_serve, args=(theirs, work), daemon=True))
                connections.append(ours)
                processes[-1].start()
                theirs.close()
        yield connections
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            if process.pid is not None:  # it was started
                process.terminate()
                process.join()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ignore an interrupt, so that the processes started here do for good: it is ours to end them.

    What is ignored stays so in a new program, and is ignored from its first instruction on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what becomes of signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """Do the work on each item that comes, until no more come."""
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        try:
            answer = (False, work(item))
        except Exception:
            answer = (True, traceback.format_exc())
        try:
            connection.send(answer)
        except BrokenPipeError:
            return
