"""Mixes of layers drawn for the properties of block promotion, and what a release makes of them.

A configuration is a plain namespace: the functions that are called ask it for a dozen values, and
a real one would take longer to make than all that is done with it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    HiddenStateCacheSpec,
    KVCacheSpec,
    KVQuantMode,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

TOKEN_HEAD, PLAIN = KVQuantMode.INT8_PER_TOKEN_HEAD, KVQuantMode.NONE
# 0.29.0 has no such field: it pads every attention layer but MLA.
HAS_STRIDE = "indexes_kv_by_block_stride" in AttentionSpec.__dataclass_fields__


def attention(
    kind: type[AttentionSpec],
    block: int,
    heads: int,
    head_size: int,
    mode: KVQuantMode = TOKEN_HEAD,
    **fields: Any,
) -> AttentionSpec:
    """The spec of an attention layer, its scales counted as the release counts them."""
    if HAS_STRIDE:
        fields = {"indexes_kv_by_block_stride": True, **fields}
    dtype = torch.int8 if mode is TOKEN_HEAD else torch.bfloat16
    spec = kind(
        block_size=block,
        num_kv_heads=heads,
        head_size=head_size,
        dtype=dtype,
        kv_quant_mode=mode,
        **fields,
    )
    if hasattr(TritonAttentionBackend, "customize_spec"):
        spec = TritonAttentionBackend.customize_spec(spec)
    return spec


def state(page: int, block: int, mode: str = "none", draft_blocks: int = 0) -> MambaSpec:
    """The spec of a state layer of `page` bytes."""
    return MambaSpec(
        block_size=block,
        shapes=((page,),),
        dtypes=(torch.int8,),
        mamba_cache_mode=mode,
        num_speculative_blocks=draft_blocks,
    )


def hidden_states(heads: int, head_size: int) -> HiddenStateCacheSpec:
    """The spec of a layer that keeps hidden states: its block is made from the common page."""
    return HiddenStateCacheSpec(
        block_size=16, num_kv_heads=heads, head_size=head_size, dtype=torch.bfloat16
    )


@dataclass(frozen=True)
class Case:
    """The layers of each pipeline stage, and what of the configuration is asked for."""

    stages: Sequence[dict[str, KVCacheSpec]]
    max_model_len: int = 32768  # tokens
    in_flight: int = 4096  # tokens
    backend: str | None = None
    kind_backends: dict[str, str] = field(default_factory=dict)
    drafter: bool = False
    prefix_caching: bool = False
    match_unit: int | None = None  # tokens
    blocks_override: int | None = None
    auto_fit: bool = False
    mamba_mode: str = "none"

    @property
    def layers(self) -> dict[str, KVCacheSpec]:
        """The layers of all stages."""
        return {name: spec for stage in self.stages for name, spec in stage.items()}

    def config(self, max_model_len: int | None = None) -> Any:
        """What the release's functions ask for."""
        named = SimpleNamespace(name=self.backend) if self.backend else None
        cache = {
            "enable_prefix_caching": self.prefix_caching,
            "prefix_match_unit": self.match_unit,
            "hash_block_size": self.match_unit,
            "num_gpu_blocks_override": self.blocks_override,
            "mamba_cache_mode": self.mamba_mode,
            "block_size": 16,
            "kv_cache_layout": "LBNHC",
            "prefix_cache_retention_interval": None,
        }
        cache_config = SimpleNamespace(**cache)
        cache_config.get_resolved_kv_cache_layout = lambda: _layout(cache_config)
        return SimpleNamespace(
            model_config=SimpleNamespace(
                max_model_len=max_model_len or self.max_model_len,
                original_max_model_len=-1 if self.auto_fit else self.max_model_len,
            ),
            cache_config=cache_config,
            scheduler_config=SimpleNamespace(
                disable_hybrid_kv_cache_manager=False, max_num_batched_tokens=self.in_flight
            ),
            parallel_config=SimpleNamespace(
                decode_context_parallel_size=1,
                prefill_context_parallel_size=1,
                pipeline_parallel_size=len(self.stages),
            ),
            attention_config=SimpleNamespace(backend=named, backend_per_kind=self.kind_backends),
            speculative_config=_Drafter() if self.drafter else None,
            kv_transfer_config=None,
            max_in_flight_tokens=self.in_flight,
        )


class _Drafter:
    """A speculative configuration: no draft model of the kinds that are asked for."""

    num_speculative_tokens = 7

    def use_eagle(self) -> bool:
        return False

    def use_multi_module_mtp(self) -> bool:
        return False


def _layout(cache_config: Any) -> Any:
    from vllm.v1.kv_cache_layout import KVCacheLayout  # since 0.29.0

    return KVCacheLayout[cache_config.kv_cache_layout]


def groups(module: ModuleType, case: Case) -> list[Any]:
    """The release's groups for the layers of all stages."""
    return module.get_kv_cache_groups(case.config(), dict(case.layers))


def refused(module: ModuleType, case: Case) -> bool:
    """Whether the release cannot bring the layers to one page."""
    try:
        groups(module, case)
    except (NotImplementedError, AssertionError):
        return True
    return False


def needed_bytes(module: ModuleType, case: Case, made: list[Any], tokens: int) -> int:
    """What a request of so many tokens needs in groups, by the release's own function."""
    return module._max_memory_usage_bytes_from_groups(case.config(tokens), made)


def stage_groups(module: ModuleType, case: Case, made: list[Any]) -> list[list[Any]]:
    """The groups as each stage has them."""
    return [module._project_kv_cache_groups_to_worker(made, stage) for stage in case.stages]


def block_row_bytes(made: list[Any]) -> int:
    """Bytes of one block over the layers that share it."""
    return max(len(group.layer_names) * group.kv_cache_spec.page_size_bytes for group in made)


def started(module: ModuleType, case: Case, memory: list[int]) -> tuple[int, int, float] | None:
    """(tokens of the longest request, tokens in the cache, requests), or None: it does not start.

    The release's own functions say so, from the layers of each stage and its bytes.
    """
    config = case.config()
    try:
        made = module.get_kv_cache_configs(config, copy.deepcopy(list(case.stages)), memory)
    except ValueError:
        return None
    if not hasattr(module, "get_kv_cache_capacity"):
        raise AssertionError("the release has no get_kv_cache_capacity")
    tokens, requests = module.get_kv_cache_capacity(config, made[0])
    return config.model_config.max_model_len, tokens, requests


def pages(made: Iterable[Any]) -> set[int]:
    """The page sizes of groups, in bytes."""
    return {group.kv_cache_spec.page_size_bytes for group in made}


def unpadded_bytes(spec: KVCacheSpec) -> int:
    """The bytes that a page holds without its padding."""
    return replace(spec, page_size_padded=None).page_size_bytes


def shapes(made: Iterable[Any]) -> list[tuple[tuple[str, ...], KVCacheSpec]]:
    """What can be compared of groups."""
    return [(tuple(group.layer_names), group.kv_cache_spec) for group in made]


@st.composite
def cases(draw: st.DrawFn, **fixed: Any) -> Case:
    """Layers as models have them, most of them with a window whose page does not divide."""
    mode = draw(st.sampled_from([TOKEN_HEAD] * 5 + [PLAIN]))
    primary_block = 16 * draw(st.one_of(st.integers(1, 128), st.integers(8, 64)))
    sizes = st.sampled_from([(1, 256), (2, 128), (2, 256), (4, 64), (4, 128), (4, 256), (8, 128)])
    model_len = draw(st.sampled_from([64, 500, 2048, 4096, 8192, 32768, 131_072, 1_000_003]))
    primary = attention(FullAttentionSpec, primary_block, *draw(sizes), mode)
    page = primary.page_size_bytes
    kinds: list[KVCacheSpec] = [primary]
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 2, 3]))):
        # The mode of the drafter is that of the target but for some, and so is its block.
        own = draw(st.sampled_from([mode] * 6 + [PLAIN]))
        padded = {"page_size_padded": page} if draw(st.integers(0, 9)) == 0 else {}
        block = draw(st.sampled_from([16] * 5 + [32, 64, primary_block]))
        window = draw(st.sampled_from([64, 128, 512, 1024, 2048, 4096]))
        spec = attention(SlidingWindowSpec, block, *draw(sizes), own, sliding_window=window)
        if padded and spec.page_size_bytes < page:
            spec = replace(spec, **padded)
        kinds.append(spec)
    if draw(st.integers(0, 3)) == 0:
        kinds.append(attention(FullAttentionSpec, 16, *draw(sizes), mode))
    mamba_mode = draw(st.sampled_from(["none", "all", "align", "align"]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        block = model_len if mamba_mode == "none" else primary_block
        held = page if draw(st.booleans()) else draw(st.integers(1, page))
        kinds.append(state(held, block, mamba_mode, draw(st.sampled_from([0, 0, 3, 7]))))
    rare = draw(st.integers(0, 19))
    if rare == 0:
        kinds.append(
            MLAAttentionSpec(block_size=16, num_kv_heads=1, head_size=512, dtype=torch.int8)
        )
    elif rare == 1:
        kinds.append(
            attention(ChunkedLocalAttentionSpec, 16, 4, 128, mode, attention_chunk_size=1024)
        )
    elif rare == 2 and HAS_STRIDE:
        kinds[-1] = (
            replace(kinds[-1], indexes_kv_by_block_stride=False)
            if isinstance(kinds[-1], AttentionSpec)
            else kinds[-1]
        )
    elif rare == 3:
        kinds.append(hidden_states(draw(st.sampled_from([1, 4])), 1024))
    counts = [draw(st.integers(1, 8)) for _ in kinds]
    layers = {
        f"{kind}.{index}": spec
        for kind, (spec, count) in enumerate(zip(kinds, counts, strict=True))
        for index in range(count)
    }
    stages = [layers]
    if draw(st.integers(0, 3)) == 0 and len(layers) > 1:
        cut = draw(st.integers(1, len(layers) - 1))
        names = list(layers)
        stages = [{n: layers[n] for n in names[:cut]}, {n: layers[n] for n in names[cut:]}]
    caching = draw(st.booleans())
    drawn = {
        "stages": stages,
        "max_model_len": model_len,
        "in_flight": draw(st.sampled_from([1, 256, 2048, 4096, 16384])),
        "backend": draw(st.sampled_from([None, None, "TRITON_ATTN", "CPU_ATTN", "FLASHINFER"])),
        "kind_backends": draw(st.sampled_from([{}, {}, {}, {"full_attention": "FLASHINFER"}])),
        "drafter": draw(st.booleans()),
        "prefix_caching": caching,
        "match_unit": draw(st.sampled_from([None, None, 16])) if caching else None,
        "auto_fit": draw(st.integers(0, 4)) == 0,
        "blocks_override": draw(st.sampled_from([None] * 9 + [5000])),
        "mamba_mode": mamba_mode,
    }
    return Case(**{**drawn, **fixed})
