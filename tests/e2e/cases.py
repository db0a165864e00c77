"""The engines that a planner is held against: tiny models, and how they are started.

Sizes are such that each rule shows: pages that must be scaled, padded or promoted, groups that
must be filled up, windows below and above the context, starts that memory does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Fields = Mapping[str, Any]

LINEAR, FULL, WINDOW = "linear_attention", "full_attention", "sliding_attention"
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
QWEN3 = {
    **TINY,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
# Seven layers with a state and three without: three to a group, and two places of a group empty.
# A CPU engine computes gated delta nets in bfloat16 alone. Experts are there because vLLM's model
# demands them; nothing of them is cached.
HYBRID = {
    **TINY,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_hidden_layers": 10,
    "layer_types": [LINEAR, LINEAR, LINEAR, FULL] * 2 + [LINEAR, FULL],
    "num_key_value_heads": 1,
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
}
# As with Gemma 3, window and full layers keep the same for a token; here nine and four of them.
GEMMA3 = {
    **TINY,
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_hidden_layers": 13,
    "layer_types": [WINDOW, WINDOW, FULL] * 4 + [WINDOW],
    "sliding_window": 200,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
# A window layer of 160 values a head beside a full one of 128: with the smallest block of a window
# layer on a CPU, 32 tokens, and 128 for the full one, the ratio of the pages is 3.2.
GEMMA4 = {
    **TINY,
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "num_hidden_layers": 5,
    "layer_types": [WINDOW, WINDOW, FULL, WINDOW, FULL],
    "sliding_window": 200,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_global_key_value_heads": 1,
    "head_dim": 160,
    "global_head_dim": 128,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "attention_k_eq_v": False,
    "enable_moe_block": False,
}


@dataclass(frozen=True)
class Case:
    """A config.json, how an engine is started with it, and on which releases that is tried."""

    config: Fields
    memory_bytes: int
    max_model_len: int  # tokens
    releases: tuple[str, ...] = ("v0.28.0", "v0.29.0")
    format: str = "auto"
    dtype: str = "bfloat16"
    prefix_caching: bool = True
    block_size: int | None = None  # tokens
    # Of recurrent states; what "auto" comes to on 0.29.0 depends on the machine.
    state_dtype: str = "auto"
    max_num_batched_tokens: int = 512
    backend: str | None = None  # of attention, named
    wheel: str = "patched"

    @property
    def arguments(self) -> dict[str, Any]:
        """What `LLM` is called with."""
        given = {"block_size": self.block_size, "attention_backend": self.backend}
        return {
            "dtype": self.dtype,
            "kv_cache_dtype": self.format,
            "kv_cache_memory_bytes": self.memory_bytes,
            "mamba_ssm_cache_dtype": self.state_dtype,
            "max_model_len": self.max_model_len,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": 4,
            "enable_prefix_caching": self.prefix_caching,
            **{name: value for name, value in given.items() if value is not None},
        }


MIB = 1 << 20
CPU = "CPU_ATTN"
OLD, NEW = ("v0.28.0",), ("v0.29.0",)
CASES = {
    "one kind, fp8": Case(QWEN3, 5 * MIB, 1000, OLD, "fp8"),
    "hybrid": Case(HYBRID, 16 * MIB, 1000),
    "hybrid, fp8, no prefix caching": Case(
        HYBRID, 16 * MIB, 3000, OLD, "fp8", prefix_caching=False, state_dtype="float32"
    ),
    "hybrid, block of 32": Case(HYBRID, 16 * MIB, 1000, OLD, block_size=32, state_dtype="float32"),
    "hybrid, block of 640": Case(
        HYBRID, 16 * MIB, 1000, OLD, block_size=640, state_dtype="float32"
    ),
    "hybrid, too little memory": Case(HYBRID, 3 * MIB, 4000, state_dtype="float32"),
    "window": Case(GEMMA3, 16 * MIB, 1000, OLD, dtype="float32"),
    "window, context below it": Case(GEMMA3, 16 * MIB, 150, OLD, "fp8", prefix_caching=False),
    "window, block of 64": Case(GEMMA3, 16 * MIB, 1000, OLD, block_size=64),
    "window, too little memory": Case(GEMMA3, 4 * MIB, 4000, OLD),
    # A CPU engine can only mix such layers from 0.29.0 on, and blocks are only promoted where the
    # backend that is named reads them whole; where none is, vLLM names TRITON_ATTN for this model.
    "mixed": Case(GEMMA4, 16 * MIB, 1000, dtype="float32", backend=CPU),
    "mixed, upstream": Case(
        GEMMA4, 16 * MIB, 1000, NEW, dtype="float32", backend=CPU, wheel="upstream"
    ),
    "mixed, fp8": Case(GEMMA4, 16 * MIB, 1000, NEW, "fp8_e5m2", backend=CPU),
    "mixed, no backend named": Case(GEMMA4, 16 * MIB, 1000, NEW, dtype="float32"),
    "mixed, another backend": Case(GEMMA4, 16 * MIB, 1000, NEW, "fp8", backend="FLASH_ATTN"),
    "mixed, too little memory": Case(GEMMA4, 4 * MIB, 4000, NEW, backend=CPU),
}
