"""torch's scaled_dot_product_attention over gathered, contiguous keys and values.

It knows no pages: what it would cost to gather them is not in its time. A query sees the keys up
to its own: torch's lower-right causal bias, which its flash path takes as it is; where torch
refuses it, a mask of booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import Case, tables_to_rotate


@dataclass(frozen=True)
class Sdpa:
    """SDPA over keys and values in bf16."""

    name: str = "SDPA"
    kv_format: str = "bf16"
    compiles: bool = False
    follows_lengths: bool = False
    bound: float = 1e-2

    def available(self) -> str | None:
        """None: torch is here."""
        return None

    def skips(self, case: Case, free_bytes: int) -> str | None:
        """A case whose gathered copies, repeated for each query head, do not fit into memory."""
        ratio = case.num_query_heads // case.num_kv_heads
        read = case.cache_bytes("bf16")
        needed = read * (tables_to_rotate(case, "bf16") + 1 + 2 * ratio)
        if needed <= free_bytes:
            return None
        return (
            f"its gathered copies need up to {needed / 1e9:.1f} GB, {free_bytes / 1e9:.1f} are free"
        )

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call for the gathered keys and values of each table."""
        case = inputs.case
        shape = (case.batch, case.new_tokens, case.num_query_heads, case.head_dim)
        query = inputs.query.view(shape).transpose(1, 2)
        sides = [self._gathered(inputs, table) for table in inputs.tables]
        mask = self._mask(query, *sides[0])

        def called(key: torch.Tensor, value: torch.Tensor) -> Callable[[], Any]:
            def call() -> torch.Tensor:
                out = attended(query, key, value, mask)
                return out.transpose(1, 2).flatten(0, 1)

            return call

        return [called(key, value) for key, value in sides]

    def _gathered(self, inputs: Inputs, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all requests: `[batch, num_kv_heads, context, head_dim]`."""
        case = inputs.case
        return tuple(
            side[table.long()].flatten(1, 2)[:, : case.context].transpose(1, 2).contiguous()
            for side in (inputs.pool.key, inputs.pool.value)
        )

    def _mask(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
        """None for one query token; torch's bias where it is taken; else booleans."""
        queries, keys = query.shape[2], key.shape[2]
        if queries == 1:
            return None
        from torch.nn.attention.bias import causal_lower_right

        bias = causal_lower_right(queries, keys)
        try:
            attended(query, key, value, bias)
        except (RuntimeError, TypeError, ValueError):
            seen = torch.ones(queries, keys, dtype=torch.bool, device=query.device)
            return seen.tril(keys - queries)
        return bias


def attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any
) -> torch.Tensor:
    """torch's attention, with fewer heads of keys than of queries."""
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(query, key, value, attn_mask=mask, enable_gqa=True)
