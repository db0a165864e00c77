"""vLLM's unified attention, called as the Triton backend of the installed release calls it.

The keywords are those of triton_attn.py in 0.28.0, which 0.29.0 to 0.33.0 keep. Since 0.33.0 it
splits up to 8 query tokens, if its scratch has a row for each of them: so it has here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import Case
from tests.bench.kernels.peers import imported

MODULE = "vllm.v1.attention.ops.triton_unified_attention"
INTERFACE = "vllm.v1.kv_cache_interface"
TRITON = "vllm.triton_utils"
LAUNCH_GRID = 128  # MIN_LAUNCH_GRID_SIZE_2D of triton_attn.py
SEGMENTS = 16  # NUM_PAR_SOFTMAX_SEGMENTS of triton_attn.py
MOST_SPLIT_QUERIES = 8  # MAX_3D_QUERY_LEN of 0.33.0
# What does not change from call to call: no ALiBi, soft cap, sinks, prefix or chunks.
CONSTANT = {
    "causal": True,
    "alibi_slopes": None,
    "use_alibi_sqrt": False,
    "window_size": (-1, -1),
    "softcap": 0,
    "q_descale": None,
    "sinks": None,
    "output_scale": None,
    "mm_prefix_range": None,
    "rswa_prefix_lens": None,
    "rswa_window": None,
    "chunk_lookback": -1,
    "use_td": False,
    "mm_prefix_clamp_sliding_window": False,
}


@dataclass(frozen=True)
class Unified:
    """Unified attention over a cache of one format."""

    kv_format: str
    compiles: bool = True
    follows_lengths: bool = True

    @property
    def name(self) -> str:
        """The column's head."""
        return f"unified {self.kv_format}"

    @property
    def bound(self) -> float:
        """int4 rotates queries and outputs, and rounds both to bf16 once more."""
        return 2e-2 if self.kv_format == "int4" else 1e-2

    def available(self) -> str | None:
        """Why it cannot be imported, or None."""
        reason = imported(MODULE)[1] or imported(INTERFACE)[1]
        if reason or imported(TRITON)[0].HAS_TRITON:
            return reason
        return "vLLM takes Triton for absent: it finds no driver, or no vllm-*.dist-info of its own"

    def skips(self, case: Case, free_bytes: int) -> str | None:  # noqa: ARG002
        """None: every case is for it."""
        return None

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table, all with the scratch of one metadata builder."""
        module, _ = imported(MODULE)
        output = inputs.poisoned()
        fixed = {**keywords(inputs, output), **self._cache(inputs), **CONSTANT}

        def called(table: Any) -> Callable[[], Any]:
            def call() -> Any:
                module.unified_attention(**fixed, block_table=table)
                return output

            return call

        return [called(table) for table in inputs.tables]

    def _cache(self, inputs: Inputs) -> dict[str, Any]:
        """The cache as the backend's forward splits it, with what says how to read it."""
        modes = imported(INTERFACE)[0].KVQuantMode
        packed, pool = inputs.pool.packed, inputs.pool
        key, value = packed.split(packed.shape[-1] // 2, dim=-1)  # codes: the scale at each end
        if self.kv_format in ("int8", "int4"):
            mode = f"{self.kv_format.upper()}_PER_TOKEN_HEAD"
            return {
                "k": key,
                "v": value,
                "k_descale": None,
                "v_descale": None,
                "kv_quant_mode": getattr(modes, mode),
                "k_scale_cache": pool.key_scale,
                "v_scale_cache": pool.value_scale,
            }
        one = torch.ones(1, device=inputs.device)
        scale = one.expand(inputs.case.batch, inputs.case.num_kv_heads)
        return {
            "k": key,
            "v": value,
            "k_descale": scale,
            "v_descale": scale,
            "kv_quant_mode": modes.NONE,
            "k_scale_cache": None,
            "v_scale_cache": None,
        }


def keywords(inputs: Inputs, output: Any) -> dict[str, Any]:
    """What follows from the shapes of a case: lengths, and the scratch of the split path."""
    case = inputs.case
    threshold = LAUNCH_GRID // case.num_kv_heads  # requests; a size that graphs are captured for
    rows = threshold * min(case.new_tokens, MOST_SPLIT_QUERIES)
    padded = 1 << (case.head_dim - 1).bit_length()
    scratch = (rows, case.num_query_heads, SEGMENTS)
    empty = partial(torch.empty, dtype=torch.float32, device=inputs.device)
    return {
        "q": inputs.query,
        "out": output,
        "cu_seqlens_q": inputs.query_start,
        "max_seqlen_q": case.new_tokens,
        "seqused_k": inputs.seq_lens,
        "max_seqlen_k": case.context,
        "softmax_scale": inputs.softmax_scale,
        "seq_threshold_3D": threshold,
        "num_par_softmax_segments": SEGMENTS,
        "softmax_segm_output": empty((*scratch, padded)),
        "softmax_segm_max": empty(scratch),
        "softmax_segm_expsum": empty(scratch),
    }
