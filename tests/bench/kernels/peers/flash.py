"""FlashAttention 3 of the installed vLLM, called as its backend calls it in a CUDA graph.

The keywords are those of flash_attn.py in 0.28.0, which 0.29.0 to 0.33.0 keep: a paged cache,
metadata made ahead for the step and used by all layers, and no more splits than graphs may have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import Case
from tests.bench.kernels.peers import imported

MODULE = "vllm.vllm_flash_attn"
VERSION = 3
SPLITS = 32  # flash_attn_max_num_splits_for_cuda_graph of vllm/config/attention.py
GRAPH_TOKENS = 512  # of the largest batch that vLLM captures; longer ones are split as it likes
QUERY_SCALE = 0.25  # of queries in fp8; no scale is 1, so that one that is left out is found


@dataclass(frozen=True)
class Flash:
    """FlashAttention 3 over a cache in bf16, or in fp8 with queries in fp8.

    In fp8 queries and weights have 3 bits of mantissa: some 3 % of error each. The query is
    quantised beforehand, which vLLM does outside of the attention: it is not in the time.
    """

    kv_format: str = "bf16"
    compiles: bool = False
    follows_lengths: bool = False  # its schedule is made for them

    @property
    def name(self) -> str:
        """The column's head."""
        return "FlashAttention 3" + ("" if self.kv_format == "bf16" else f" {self.kv_format}")

    @property
    def bound(self) -> float:
        """Of what leaves out a head of 24, or a scale, the error is larger."""
        return 1e-2 if self.kv_format == "bf16" else 0.12

    def available(self) -> str | None:
        """Why it cannot be called, or None."""
        module, reason = imported(MODULE)
        if reason:
            return reason
        if not module.is_fa_version_supported(VERSION):
            why = getattr(module, "fa_version_unsupported_reason", lambda _: "not supported")
            return f"{MODULE}: {why(VERSION)}"
        return None

    def skips(self, case: Case, free_bytes: int) -> str | None:  # noqa: ARG002
        """None: every case is for it."""
        return None

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table, all with the metadata of one step."""
        module, _ = imported(MODULE)
        output = inputs.poisoned()
        schedule = scheduled(module, inputs)
        fixed = {**keywords(inputs, output), "scheduler_metadata": schedule}

        def called(table: torch.Tensor) -> Callable[[], Any]:
            def call() -> torch.Tensor:
                module.flash_attn_varlen_func(**fixed, block_table=table)
                return output

            return call

        return [called(table) for table in inputs.tables]


def scheduled(module: Any, inputs: Inputs) -> torch.Tensor:
    """The metadata in a buffer of the largest batch, zero behind what is used."""
    made = module.get_scheduler_metadata(**schedule_keywords(inputs))
    kept = torch.zeros(1 + 4 * 512, dtype=torch.int32, device=inputs.device)
    kept[: made.shape[0]] = made
    return kept[: made.shape[0]]


def schedule_keywords(inputs: Inputs) -> dict[str, Any]:
    """What `_get_scheduler_metadata` of the backend gives."""
    case = inputs.case
    return {
        "batch_size": case.batch,
        "max_seqlen_q": case.new_tokens,
        "max_seqlen_k": case.context,
        "num_heads_q": case.num_query_heads,
        "num_heads_kv": case.num_kv_heads,
        "headdim": case.head_dim,
        "cache_seqlens": inputs.seq_lens,
        "qkv_dtype": inputs.pool.packed.dtype,
        "cu_seqlens_q": inputs.query_start,
        "page_size": case.block_size,
        "causal": True,
        "window_size": (-1, -1),
        "num_splits": splits(inputs),
    }


def splits(inputs: Inputs) -> int:
    """The most splits: 0, FlashAttention's own choice, where vLLM captures no graph."""
    return SPLITS if len(inputs.query) <= GRAPH_TOKENS else 0


def keywords(inputs: Inputs, output: torch.Tensor) -> dict[str, Any]:
    """What `forward` of the backend gives beside the table and the metadata."""
    case = inputs.case
    query, scales = inputs.query, [torch.ones(1, device=inputs.device)] * 2
    query_scale = None
    if inputs.pool.kv_format == "fp8":
        query = (inputs.query.float() / QUERY_SCALE).to(inputs.pool.packed.dtype)
        scales = [inputs.pool.key_scale, inputs.pool.value_scale]
        query_scale = torch.full((1,), QUERY_SCALE, device=inputs.device)
    shape = (case.batch, case.num_kv_heads)
    return {
        "q": query,
        "k": inputs.pool.key,
        "v": inputs.pool.value,
        "out": output,
        "cu_seqlens_q": inputs.query_start,
        "max_seqlen_q": case.new_tokens,
        "seqused_k": inputs.seq_lens,
        "max_seqlen_k": case.context,
        "softmax_scale": inputs.softmax_scale,
        "causal": True,
        "alibi_slopes": None,
        "window_size": [-1, -1],
        "softcap": 0,
        "fa_version": VERSION,
        "q_descale": None if query_scale is None else query_scale.expand(shape),
        "k_descale": scales[0].expand(shape),
        "v_descale": scales[1].expand(shape),
        "dynamic_causal": None,
        "num_splits": splits(inputs),
        "s_aux": None,
        "mask_mod": None,
        "aux_tensors": None,
    }
