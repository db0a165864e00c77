"""The kernel of this repository, each format by the path that it chooses itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import Case
from tests.bench.kernels.peers import imported

MODULE = "kvarn_port.kernels.verify_attention"


@dataclass(frozen=True)
class Ours:
    """Verify attention over a cache of one format."""

    kv_format: str
    compiles: bool = True
    follows_lengths: bool = True
    bound: float = 4e-3

    @property
    def name(self) -> str:
        """The column's head."""
        return f"ours {self.kv_format}"

    def available(self) -> str | None:
        """Why it cannot be imported, or None."""
        return imported(MODULE)[1]

    def skips(self, case: Case, free_bytes: int) -> str | None:  # noqa: ARG002
        """None: every case is for it."""
        return None

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table; the scratch is for exactly this case."""
        module, _ = imported(MODULE)
        case, pool = inputs.case, inputs.pool
        scratch = module.Scratch.allocate(
            max_requests=case.batch,
            max_query_len=case.new_tokens,
            num_query_heads=case.num_query_heads,
            num_kv_heads=case.num_kv_heads,
            head_dim=case.head_dim,
            device=inputs.device,
        )
        output = inputs.poisoned()
        return [
            partial(
                module.verify_attention,
                inputs.query,
                pool.key,
                pool.value,
                output,
                table,
                inputs.query_start,
                inputs.seq_lens,
                max_query_len=case.new_tokens,
                softmax_scale=inputs.softmax_scale,
                scratch=scratch,
                key_scale=pool.key_scale,
                value_scale=pool.value_scale,
            )
            for table in inputs.tables
        ]
