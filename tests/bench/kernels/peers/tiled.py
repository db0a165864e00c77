"""Attention over packed tiles and the ring, as a layer calls it: rotated before and back after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kvarn_port.layout import tile_layout
from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import PRESETS, Case
from tests.bench.kernels.peers import imported

ROTATE = "kvarn_port.kernels.rotate"
ATTENTION = "kvarn_port.kernels.tile_attention"


@dataclass(frozen=True)
class Tiled:
    """Tile attention over KVarN; what rotates query, key and value of the step is in its time."""

    name: str = "ours k4v2"
    kv_format: str = "k4v2"
    compiles: bool = True
    follows_lengths: bool = True
    bound: float = 4e-3

    def available(self) -> str | None:
        """Why it cannot be imported, or None."""
        return imported(ROTATE)[1] or imported(ATTENTION)[1]

    def skips(self, case: Case, free_bytes: int) -> str | None:  # noqa: ARG002
        """A case of other blocks than tiles."""
        return other_blocks(case)

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table, each with rings of its own; the scratch is for exactly this case."""
        rotate, attention = imported(ROTATE)[0].rotate, imported(ATTENTION)[0]
        case, pool, output = inputs.case, inputs.pool, inputs.poisoned()
        rotated = [torch.empty_like(x, dtype=torch.float16) for x in step(inputs)]
        scratch = attention.allocate_scratch(
            max_requests=case.batch,
            max_query_len=case.new_tokens,
            num_query_heads=case.num_query_heads,
            num_kv_heads=case.num_kv_heads,
            head_dim=case.head_dim,
            device=inputs.device,
        )

        def called(table: torch.Tensor, slots: torch.Tensor) -> Callable[[], Any]:
            def call() -> Any:
                rotate(*step(inputs), *rotated)
                return attention.tile_attention(
                    rotated[0],
                    pool.packed,
                    pool.ring_keys,
                    pool.ring_values,
                    output,
                    table,
                    inputs.query_start,
                    inputs.seq_lens,
                    slots,
                    layout=pool.layout,
                    max_query_len=case.new_tokens,
                    softmax_scale=inputs.softmax_scale,
                    scratch=scratch,
                )

            return call

        return [called(*each) for each in zip(inputs.tables, inputs.ring_slots, strict=True)]


def other_blocks(case: Case) -> str | None:
    """Why KVarN has no cache for a case, or None."""
    group = tile_layout(PRESETS["k4v2"], case.head_dim).group
    return None if case.block_size == group else f"a block is a tile of {group} tokens"


def step(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key and value of the step."""
    return inputs.query, inputs.key, inputs.value
