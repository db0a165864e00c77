"""Times of calls on a device: replays of captured graphs, and a copy as what is possible."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Call = Callable[[], Any]
REPLAYS = 20
FEWEST_REPLAYS = 5  # of what takes so long that 20 would pass the budget
BUDGET_S = 4.0  # of one column of one case
COPIED_BYTES = 1 << 30
COPIES = 30


def eager_us(call: Call, device: str) -> float:
    """The time of one call in microseconds, between two events; on a CPU by the clock."""
    if device == "cpu":
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e6
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    call()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e3


def copy_gbps(device: str, copied_bytes: int = COPIED_BYTES) -> float:
    """Bytes read and written a second, in GB, by a copy within the device; the median of 30.

    Called as it is: a copy in a captured graph runs on the copy engine, at some two thirds of the
    bandwidth that kernels have (2.7 of 4.2 TB/s, H200, 2026-11-30).
    """
    source = torch.randint(-127, 128, (copied_bytes,), dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    times = [eager_us(lambda: target.copy_(source), device) for _ in range(COPIES)]
    return 2 * copied_bytes / statistics.median(times) / 1e3


class Replay:
    """Calls captured once, which are then timed together as often as wanted."""

    def __init__(self, calls: Sequence[Call], device: str) -> None:
        """Run every call once, then capture all of them; on a CPU they are kept as they are."""
        self.calls, self.device = calls, device
        self.graph: Any = None
        if device == "cpu":
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for call in calls:
                call()

    def run(self) -> None:
        """All calls, in turn."""
        if self.graph is None:
            for call in self.calls:
                call()
        else:
            self.graph.replay()

    def us(self) -> float:
        """The time of one call, over one run of all, in microseconds."""
        return eager_us(self.run, self.device) / len(self.calls)


def interleaved(replays: Mapping[str, Replay], most: int = REPLAYS) -> dict[str, list[float]]:
    """Times of each column in microseconds, all columns in turn, so that a drift is everybody's.

    Each has two runs before the first that counts. What would pass its budget gets fewer, but 5.
    """
    wanted: dict[str, int] = {}
    for name, replay in replays.items():
        replay.run()
        taken_s = replay.us() * len(replay.calls) / 1e6
        wanted[name] = max(min(FEWEST_REPLAYS, most), min(most, int(BUDGET_S / taken_s)))
    times: dict[str, list[float]] = {name: [] for name in replays}
    for number in range(most):
        for name, replay in replays.items():
            if number < wanted[name]:
                times[name].append(replay.us())
    return times
