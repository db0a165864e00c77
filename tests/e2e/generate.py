"""Runs a tiny model in a real engine and prints one JSON line: `python generate.py MODEL`.

It runs in the interpreter that has vLLM, which has no patchkit. The weights are drawn by vLLM from
a fixed seed (`load_format="dummy"`), so that two engines with the same code give the same tokens.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path

VARIABLES = {
    # The engine in this process, so that its modules and its pages can be looked at.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Threads stay where the system puts them: a container may not let them be bound.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "torch_dtype": "float32",
}
MODELS = {
    # Every layer has the same page: there is nothing to promote.
    "qwen3": {
        **SMALL,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
    },
    # A window layer of 160 values a head beside a full one of 128: with the smallest block of a
    # window layer on a CPU, 32 tokens, and 128 for the full one, 40,960 and 131,072 bytes.
    "window": {
        **SMALL,
        "architectures": ["Gemma4ForCausalLM"],
        "model_type": "gemma4_text",
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 64,
        "num_key_value_heads": 1,
        "num_global_key_value_heads": 1,
        "head_dim": 160,
        "global_head_dim": 128,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "attention_k_eq_v": False,
        "enable_moe_block": False,
    },
}
PROMPTS = [[7, 11, 13, 17], [(5 * n) % 500 + 3 for n in range(300)]]
TOKENS = 24


def prepare() -> None:
    """Set what an engine is told by its environment and how much it logs, before it is imported."""
    os.environ.update(VARIABLES)
    logging.getLogger("vllm").setLevel(logging.INFO)


def enlarge_dummy_weights() -> None:
    """Draw dummy weights from [-0.5, 0.5] instead of [-0.001, 0.001].

    With those that small a token is decided by the embedding of the one before it: an engine whose
    attention read the wrong pages would not be noticed.
    """
    from vllm.model_executor.model_loader import weight_utils

    low, high, *rest = weight_utils.initialize_dummy_weights.__defaults__
    assert (low, high) == (-1e-3, 1e-3)
    weight_utils.initialize_dummy_weights.__defaults__ = (-0.5, 0.5, *rest)


def generate(model: str) -> dict[str, object]:
    """The tokens of a model, and what is known of the engine that made them."""
    from vllm import LLM, SamplingParams, __version__
    from vllm.v1.core import kv_cache_utils

    enlarge_dummy_weights()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODELS[model]))
        llm = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            # Named, so that it is known to read blocks whole; otherwise none may be promoted.
            attention_backend="CPU_ATTN",
            dtype="float32",
            max_model_len=512,
            max_num_seqs=2,
            kv_cache_memory_bytes=64 << 20,
            disable_log_stats=True,
            seed=0,
        )
        groups = llm.llm_engine.engine_core.engine_core.scheduler.kv_cache_config.kv_cache_groups
        sampling = SamplingParams(
            temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False
        )
        outputs = llm.generate([{"prompt_token_ids": p} for p in PROMPTS], sampling, use_tqdm=False)
    return {
        "version": __version__,
        "module": kv_cache_utils.__file__,
        "promotes": hasattr(kv_cache_utils, "_promote_small_blocks"),
        "blocks": [group.kv_cache_spec.block_size for group in groups],
        "pages": [group.kv_cache_spec.page_size_bytes for group in groups],
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
    }


if __name__ == "__main__":
    prepare()
    print("RESULT " + json.dumps(generate(sys.argv[1])), flush=True)
