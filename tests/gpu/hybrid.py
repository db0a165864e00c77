"""A hybrid model with a drafter's window in int8, as the release plans and allocates its cache.

Two layers of full attention (4 heads of 256, blocks of 864), four of state padded to their page,
and two with a window (8 heads of 128, blocks of 16): pages of 1,797,120 and 33,792 bytes, which do
not divide. Imports the installed vLLM, on any device.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl
from vllm.v1.attention.backends.utils import set_kv_cache_layout
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    KVQuantMode,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.worker.utils import AttentionGroup, prepare_kernel_block_sizes

FORMAT = "int8_per_token_head"
PRIMARY_PAGE = 1_797_120  # bytes: 864 tokens of 4 x 2(256 + 4)
STATE = 1_700_000  # bytes of one state, before it is padded to that page
MAX_MODEL_LEN = 4096


def attention(kind: type[AttentionSpec], block: int, heads: int, size: int, **fields: Any) -> Any:
    """The spec of an attention layer, with the bytes of its scales counted by the backend."""
    spec = kind(
        block_size=block,
        num_kv_heads=heads,
        head_size=size,
        dtype=torch.int8,
        kv_quant_mode=KVQuantMode.INT8_PER_TOKEN_HEAD,
        indexes_kv_by_block_stride=True,
        **fields,
    )
    return TritonAttentionBackend.customize_spec(spec)


def layers() -> dict[str, Any]:
    """The spec of each layer as the model asks for it."""
    full = attention(FullAttentionSpec, 864, 4, 256)
    window = attention(SlidingWindowSpec, 16, 8, 128, sliding_window=2048)
    state = MambaSpec(
        block_size=MAX_MODEL_LEN,
        shapes=((STATE,),),
        dtypes=(torch.int8,),
        page_size_padded=PRIMARY_PAGE,
        mamba_cache_mode="none",
    )
    return {
        **{f"full.{i}": full for i in range(2)},
        **{f"state.{i}": state for i in range(4)},
        **{f"window.{i}": window for i in range(2)},
    }


def config() -> Any:
    """What the release's functions ask of its configuration."""
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=MAX_MODEL_LEN, original_max_model_len=MAX_MODEL_LEN
        ),
        cache_config=SimpleNamespace(
            enable_prefix_caching=False,
            prefix_match_unit=None,
            hash_block_size=None,
            num_gpu_blocks_override=None,
            mamba_cache_mode="none",
            block_size=16,
            prefix_cache_retention_interval=None,
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=False, max_num_batched_tokens=4096
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=1,
        ),
        attention_config=SimpleNamespace(backend=None, backend_per_kind={}),
        speculative_config=None,
        kv_transfer_config=None,
        max_in_flight_tokens=4096,
    )


@dataclass(frozen=True)
class Cache:
    """The plan, the bytes that were allocated for it, and each layer's view of them."""

    plan: Any  # KVCacheConfig
    raw: dict[str, torch.Tensor]  # int8, one tensor for the layers that share it
    views: dict[str, torch.Tensor]  # attention: [blocks, heads, tokens, content]
    group_of: dict[str, int]

    def spec(self, layer: str) -> Any:
        """The spec of a layer, as it was planned."""
        return self.plan.kv_cache_groups[self.group_of[layer]].kv_cache_spec


def allocate(utils: ModuleType, memory_bytes: int, device: str, layout: str) -> Cache:
    """The cache of the model in so many bytes, made by the release's own functions alone."""
    from vllm.v1.worker.gpu.attn_utils import _allocate_kv_cache, _reshape_kv_cache

    set_kv_cache_layout(layout)
    plan = utils.get_kv_cache_configs(config(), [layers()], [memory_bytes])[0]
    groups = [
        [AttentionGroup(TritonAttentionBackend, group.layer_names, group.kv_cache_spec, number)]
        for number, group in enumerate(plan.kv_cache_groups)
    ]
    raw = _allocate_kv_cache(plan, {}, torch.device(device))
    sizes = prepare_kernel_block_sizes(plan, groups)
    flat = [group for each in groups for group in each]
    views = _reshape_kv_cache(flat, raw, FORMAT, sizes, {}, plan)
    group_of = {
        name: n for n, group in enumerate(plan.kv_cache_groups) for name in group.layer_names
    }
    return Cache(plan, raw, views, group_of)


def scale_views(view: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The backend's views of the scales of keys and values: `[blocks, tokens, heads]` float32."""
    backend = SimpleNamespace(_k_scale_cache=None, _v_scale_cache=None)
    TritonAttentionImpl._ensure_scale_caches(backend, view)
    return backend._k_scale_cache, backend._v_scale_cache
