"""A chunk of a long prompt over a packed history: gathered, attended by FlashAttention 3, joined.

The rows of the step are rotated beforehand, as storing them takes it; `store-pack` times that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import Case
from tests.bench.kernels.peers import imported
from tests.bench.kernels.peers.flash import MODULE, VERSION, Flash
from tests.bench.kernels.peers.tiled import ROTATE, other_blocks, step

CONTINUATION = "kvarn_port.kernels.continuation"


@dataclass(frozen=True)
class Continuing:
    """Continuation over KVarN."""

    name: str = "ours k4v2 gathered"
    kv_format: str = "k4v2"
    compiles: bool = True
    follows_lengths: bool = True
    bound: float = 4e-3

    def available(self) -> str | None:
        """Why it cannot be called, or None; on a CPU plain torch stands for FlashAttention."""
        reason = imported(ROTATE)[1] or imported(CONTINUATION)[1]
        return reason or (Flash().available() if torch.cuda.is_available() else None)

    def skips(self, case: Case, free_bytes: int) -> str | None:  # noqa: ARG002
        """A case of other blocks than tiles."""
        return other_blocks(case)

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table, each with rings of its own."""
        module = imported(CONTINUATION)[0]
        case, pool, output = inputs.case, inputs.pool, inputs.poisoned()
        rotated = [torch.empty_like(x, dtype=torch.float16) for x in step(inputs)]
        imported(ROTATE)[0].rotate(*step(inputs), *rotated)
        scratch = module.Scratch.allocate(
            max_tokens=len(inputs.query),
            num_query_heads=case.num_query_heads,
            num_kv_heads=case.num_kv_heads,
            head_dim=case.head_dim,
            device=inputs.device,
        )

        def called(table: torch.Tensor, slots: torch.Tensor) -> Callable[[], Any]:
            def call() -> Any:
                return module.continuation(
                    *rotated,
                    pool.packed,
                    pool.ring_keys,
                    pool.ring_values,
                    output,
                    table,
                    inputs.query_start,
                    inputs.seq_lens,
                    slots,
                    layout=pool.layout,
                    attention=flash if inputs.device.type == "cuda" else plain,
                    max_query_len=case.new_tokens,
                    max_committed=case.context - case.new_tokens,
                    softmax_scale=inputs.softmax_scale,
                    scratch=scratch,
                )

            return call

        return [called(*each) for each in zip(inputs.tables, inputs.ring_slots, strict=True)]


def flash(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    causal: bool,
    query_start: torch.Tensor,
    key_start: torch.Tensor,
    key_lens: torch.Tensor,
    max_query_len: int,
    max_key_len: int,
    softmax_scale: float,
    output: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """FlashAttention 3 over rows.

    The step's own rows lie next to each other, and so do those of a history alone. Between those of
    several there are gaps, which it takes as pages, one a request.
    """
    where: dict[str, Any] = {"cu_seqlens_k": key_start}
    if key_start is not query_start:
        if len(key_lens) == 1:
            where["cu_seqlens_k"] = torch.nn.functional.pad(key_lens, (1, 0))
        else:
            keys, values = (x.unflatten(0, (len(key_lens), -1)) for x in (keys, values))
            pages = torch.arange(len(key_lens), dtype=torch.int32, device=query.device)
            where = {"seqused_k": key_lens, "block_table": pages[:, None]}
    module, _ = imported(MODULE)
    found = module.flash_attn_varlen_func(
        q=query,
        k=keys,
        v=values,
        out=output,
        cu_seqlens_q=query_start,
        max_seqlen_q=max_query_len,
        max_seqlen_k=max_key_len,
        softmax_scale=softmax_scale,
        causal=causal,
        return_softmax_lse=True,
        fa_version=VERSION,
        **where,
    )
    return found[0], found[1]


def plain(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    causal: bool,
    query_start: torch.Tensor,
    key_start: torch.Tensor,
    key_lens: torch.Tensor,
    softmax_scale: float,
    output: torch.Tensor,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in plain torch, for a CPU."""
    ratio = query.shape[1] // keys.shape[1]
    lse = torch.empty(query.shape[1], len(query))
    starts = query_start.tolist()
    firsts = key_start.tolist()
    for request, count in enumerate(key_lens.tolist()):
        first = firsts[request]
        rows = slice(starts[request], starts[request + 1])
        asked = query[rows].float() * softmax_scale
        key, value = (
            x[first : first + count].float().repeat_interleave(ratio, 1) for x in (keys, values)
        )
        scores = torch.einsum("qhd,khd->hqk", asked, key)
        if causal:
            own = torch.arange(len(asked))[:, None] + count - len(asked)
            scores = scores.masked_fill(torch.arange(count)[None] > own, -torch.inf)
        lse[:, rows] = scores.logsumexp(2)
        weights = torch.softmax(scores, 2).nan_to_num()
        output[rows] = torch.einsum("hqk,khd->qhd", weights, value).to(output.dtype)
    return output, lse
