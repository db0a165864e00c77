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


@dataclass(frozen=True)
class Flash:
    """FlashAttention 3 over a cache in bf16."""

    name: str = "FlashAttention 3"
    kv_format: str = "bf16"
    compiles: bool = False
    follows_lengths: bool = False  # its schedule is made for them
    bound: float = 1e-2

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
        "qkv_dtype": torch.bfloat16,
        "cu_seqlens_q": inputs.query_start,
        "page_size": case.block_size,
        "causal": True,
        "window_size": (-1, -1),
        "num_splits": SPLITS,
    }


def keywords(inputs: Inputs, output: torch.Tensor) -> dict[str, Any]:
    """What `forward` of the backend gives beside the table and the metadata."""
    case = inputs.case
    scale = torch.ones(1, device=inputs.device).expand(case.batch, case.num_kv_heads)
    return {
        "q": inputs.query,
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
        "q_descale": None,
        "k_descale": scale,
        "v_descale": scale,
        "dynamic_causal": None,
        "num_splits": SPLITS,
        "s_aux": None,
        "mask_mod": None,
        "aux_tensors": None,
    }
