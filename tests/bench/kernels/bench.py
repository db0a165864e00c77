"""A suite measured on one device, in one process: each case by all its columns in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from tests.bench.kernels import timing
from tests.bench.kernels.caches import Inputs, Pool, make_inputs, make_pool
from tests.bench.kernels.cases import ROTATED_BYTES, Case, pool_blocks, pool_slots
from tests.bench.kernels.columns import PEERS
from tests.bench.kernels.oracle import relative_error
from tests.bench.kernels.peers import Judge, Peer
from tests.bench.kernels.rows import Row
from tests.bench.kernels.suites import Suite
from tests.bench.kernels.tile_pools import TilePool

TINY_ROTATED_BYTES = 10_000  # on a CPU, where nothing that is timed means anything
TINY_COPIED_BYTES = 1 << 16
SHORT_KEYS = 8
SHORT = 1e-2  # one key of so few is some ten times that


class Bench:
    """The pools that all cases share, the copy's bandwidth, and what is measured with them."""

    def __init__(
        self, suite: Suite, cases: Sequence[Case], device: str, *, replays: int = timing.REPLAYS
    ) -> None:
        self.suite, self.cases, self.device, self.replays = suite, cases, device, replays
        self.rotated = TINY_ROTATED_BYTES if device == "cpu" else ROTATED_BYTES
        self.pools: dict[str, Pool | TilePool] = {}
        self.broken = False  # an error left the device unusable for this process

    @cached_property
    def copy_gbps(self) -> float:
        """The bandwidth of a copy, measured once a process."""
        copied = TINY_COPIED_BYTES if self.device == "cpu" else timing.COPIED_BYTES
        return timing.copy_gbps(self.device, copied)

    def pool(self, kv_format: str) -> Pool | TilePool:
        """The pool of a format, large enough for every case."""
        if kv_format not in self.pools:
            blocks = pool_blocks(self.cases, kv_format, self.rotated)
            slots = pool_slots(self.cases, kv_format, self.rotated)
            self.pools[kv_format] = make_pool(self.cases[0], kv_format, blocks, slots, self.device)
        return self.pools[kv_format]

    def warm(self, case: Case, column: str) -> str | None:
        """Call a column once on a small pool, so that it is compiled; what went wrong, or None.

        Shapes, strides and so what is compiled are those of the case; its requests share blocks.
        """
        peer = PEERS[column]
        if peer.available():
            return None
        key = f"{peer.kv_format} {case.context} {case.batch}"
        if key not in self.pools:
            blocks = 1 + case.blocks // case.batch
            pool = make_pool(case, peer.kv_format, blocks, case.batch, self.device)
            self.pools = {key: pool}
        inputs = make_inputs(case, self.pools[key], self.rotated, shared=True)
        try:
            peer.prepare(inputs)[0]()
            self._settle()
        except Exception as error:  # told, and met again where it is measured
            return f"{type(error).__name__}: {_first_line(error)}"
        return None

    def measure(
        self, case: Case, columns: Sequence[str], begun: Callable[[Case, str], None]
    ) -> Iterator[Row]:
        """A row for each column: who is absent or wrong is not timed.

        `begun` hears of each column before it is called, should it end the process.
        """
        ready: dict[str, timing.Replay] = {}
        errors: dict[str, float] = {}
        for column in columns:
            begun(case, column)
            made = self._ready(case, PEERS[column])
            if isinstance(made, Row):
                yield made
                if self.broken:
                    raise SystemExit(f"{column}: {made.reason}")
            else:
                errors[column], ready[column] = made
        begun(case, "")
        times = timing.interleaved(ready, self.replays)
        for column, samples in times.items():
            peer = PEERS[column]
            read = case.cache_bytes(peer.kv_format)
            if isinstance(peer, Judge):
                read = peer.moved_bytes(case)
            yield Row(
                case, column, "timed", "", tuple(samples), read, self.copy_gbps, errors[column]
            )

    def _ready(self, case: Case, peer: Peer) -> Row | tuple[float, timing.Replay]:
        """The error of a column that is right, and its captured calls; else why not."""
        reason = peer.available() or peer.skips(case, self._free_bytes())
        if reason:
            return Row(case, peer.name, "skipped", reason)
        try:
            inputs = make_inputs(case, self.pool(peer.kv_format), self.rotated)
            calls = peer.prepare(inputs)
            judged = isinstance(peer, Judge)
            error = peer.error(inputs, calls[0]) if judged else self._error(inputs, calls)
            if not error <= peer.bound:
                fact = f"relative error {error:.2g}, at most {peer.bound:g} is right"
                return Row(case, peer.name, "failed", fact, error=error)
            if peer.follows_lengths and not (short := self._short_error(inputs, calls[0])) <= SHORT:
                fact = f"relative error {short:.2g} of few tokens, at most {SHORT:g} is right"
                return Row(case, peer.name, "failed", fact, error=short)
            return error, timing.Replay(calls, self.device)
        except torch.cuda.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            return Row(case, peer.name, "skipped", _first_line(error))
        except Exception as error:  # a peer's failure is a row of the table
            self.broken = self._is_broken()
            return Row(case, peer.name, "failed", f"{type(error).__name__}: {_first_line(error)}")

    def _error(self, inputs: Inputs, calls: Sequence[Callable[[], Any]]) -> float:
        """The error of the first and the last call, each into a poisoned output."""
        worst = 0.0
        for table in sorted({0, len(calls) - 1}):
            output = calls[table]()
            output.fill_(float("nan"))
            output = calls[table]()
            self._settle()
            worst = max(worst, relative_error(output, inputs, table))
        return worst

    def _short_error(self, inputs: Inputs, call: Callable[[], Any]) -> float:
        """The error with only 8 keys before the queries, by the call that is timed.

        Of 131,072 keys one more or less is 3e-3 of the output, which is within the bound.
        """
        case = inputs.case
        context = min(case.context, case.new_tokens + SHORT_KEYS)
        blocks = -(-context // case.block_size)
        few = replace(
            inputs, case=replace(case, context=context), tables=inputs.tables[..., :blocks]
        )
        inputs.seq_lens.fill_(context)
        try:
            call().fill_(float("nan"))
            output = call()
            self._settle()
            return relative_error(output, few, 0)
        finally:
            inputs.seq_lens.fill_(case.context)

    def _free_bytes(self) -> int:
        if self.device == "cpu":
            return 1 << 40
        torch.cuda.empty_cache()  # what earlier cases had counts as free
        return torch.cuda.mem_get_info()[0]

    def _is_broken(self) -> bool:
        """Whether the device still answers: after a bad address nothing does, in this process."""
        try:
            self._settle()
        except RuntimeError:
            return True
        return False

    def _settle(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def warm_one(job: tuple[str, Case, str, str]) -> str | None:
    """What went wrong as one column was called once, in a process that is told all by name."""
    from tests.bench.kernels.suites import suite

    name, case, column, device = job
    problem = _WARM.setdefault(name, Bench(suite(name), (case,), device)).warm(case, column)
    return f"{column}, {case.name}: {problem}" if problem else None


_WARM: dict[str, Bench] = {}


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]
