"""Block promotion, on layers and specs that come from the release's own code.

A layer's spec is what the release's worker makes of `Attention.get_kv_cache_spec`: the layer
chooses its block size, the backend its packing. The backend is handed to the layer as an argument
because the platform of a machine without a GPU would select another one; nothing is replaced in
vLLM but the model registry, which is asked for the state shape of a model that only exists here.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.attention import Attention
    from vllm.model_executor.layers.mamba.abstract import MambaBase
    from vllm.model_executor.models import ModelRegistry
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
    from vllm.v1.kv_cache_interface import KVCacheSpec, SlidingWindowSpec
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

pytestmark = pytest.mark.engine

WINDOW = 2048
IN_FLIGHT = 4096  # two batches of 2,048 tokens under asynchronous scheduling
MODEL_LEN = 32768
TENSORS = 8  # layers that share a page number where 16 + 48 + 5 layers make groups of 8
GIB = 1 << 30


class State(torch.nn.Module, MambaBase):
    """A gated delta net layer: 48 heads of 128 x 128, and a convolution over 10,240 channels."""

    mamba_type = MambaAttentionBackendEnum.GDN_ATTN

    def __init__(self, draft_tokens: int) -> None:
        super().__init__()
        self.draft_tokens = draft_tokens

    def get_state_shape(self):
        return ((10240, 3 + self.draft_tokens), (48, 128, 128))

    def get_state_dtype(self):
        return (torch.float16, torch.float16)


def engine_config(cache_dtype: str) -> VllmConfig:
    config = VllmConfig(device_config=DeviceConfig(device="cpu"))
    config.cache_config.cache_dtype = cache_dtype
    config.cache_config.block_size = 16
    return config


def align_to_state(config: VllmConfig, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the release choose the primary block, as it does for a hybrid model at start."""
    model = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: state.get_state_shape(),
        get_mamba_state_dtype_from_config=lambda _: state.get_state_dtype(),
    )
    monkeypatch.setattr(ModelRegistry, "resolve_model_cls", lambda *_, **__: (model, "hybrid"))
    target = SimpleNamespace(
        dtype=torch.bfloat16,
        use_mla=False,
        architecture="hybrid",
        get_num_kv_heads=lambda _: 4,
        get_head_size=lambda: 256,
    )
    monkeypatch.setattr(config, "model_config", target)
    Platform._align_hybrid_block_size(config, TritonAttentionBackend)
    monkeypatch.undo()
    config.cache_config.mamba_block_size = config.cache_config.block_size


def attention(config: VllmConfig, name: str, heads: int, size: int, window: int | None) -> None:
    with set_current_vllm_config(config):
        Attention(
            num_heads=heads,
            head_size=size,
            scale=1.0,
            num_kv_heads=heads,
            cache_config=config.cache_config,
            per_layer_sliding_window=window,
            prefix=name,
            attn_backend=TritonAttentionBackend,
        )


def hybrid_specs(
    cache_dtype: str, monkeypatch: pytest.MonkeyPatch, *, draft_tokens: int = 7
) -> dict[str, KVCacheSpec]:
    """16 full layers of 4 x 256, 48 state layers, and a drafter's 5 of 8 x 128 with a window."""
    config = engine_config(cache_dtype)
    state = State(draft_tokens)
    align_to_state(config, state, monkeypatch)
    for index in range(16):
        attention(config, f"target.full.{index}", 4, 256, None)
    for index in range(48):
        config.compilation_config.static_forward_context[f"target.state.{index}"] = state
    for index in range(5):
        attention(config, f"drafter.{index}", 8, 128, WINDOW)
    return get_kv_cache_spec(config)


def drafter_blocks(specs: dict[str, KVCacheSpec]) -> int:
    """Blocks that one request holds in a layer of the drafter."""
    spec = specs["drafter.0"]
    assert isinstance(spec, SlidingWindowSpec)
    return spec.max_admission_blocks_per_request(IN_FLIGHT, MODEL_LEN)


def shape(spec: KVCacheSpec) -> tuple[int, int]:
    return spec.block_size, spec.page_size_bytes


@pytest.fixture
def int8_specs(monkeypatch: pytest.MonkeyPatch) -> dict[str, KVCacheSpec]:
    return hybrid_specs("int8_per_token_head", monkeypatch)


def test_the_release_creates_the_window_layer_at_the_smallest_block(int8_specs) -> None:
    assert len(int8_specs) == 69
    assert shape(int8_specs["target.full.0"]) == (864, 1_797_120)
    assert shape(int8_specs["target.state.0"]) == (864, 1_797_120)
    assert shape(int8_specs["drafter.0"]) == (16, 33_792)


def test_without_the_patch_sixteen_tokens_take_a_whole_page(release, int8_specs) -> None:
    before = release.pristine.unify_kv_cache_spec_page_size(int8_specs)
    assert {shape(before[f"drafter.{index}"]) for index in range(5)} == {(16, 1_797_120)}
    assert drafter_blocks(before) == 385
    assert before["drafter.0"].unpadded_page_size_bytes == 33_792
    assert round(100 * 33_792 / 1_797_120, 2) == 1.88
    assert before["target.full.0"] is int8_specs["target.full.0"]


def test_the_window_layer_is_promoted_from_16_to_864(release, int8_specs) -> None:
    after = release.patched.unify_kv_cache_spec_page_size(int8_specs)
    assert list(after) == list(int8_specs)
    assert {shape(spec) for spec in after.values()} == {(864, 1_824_768)}
    assert drafter_blocks(after) == 9
    for name, spec in after.items():
        padded = None if name.startswith("drafter") else 1_824_768
        born = int8_specs[name]
        assert spec == replace(born, block_size=864, page_size_padded=padded)
    assert round(100 * (1_824_768 / 1_797_120 - 1), 2) == 1.54


def test_a_request_keeps_5_gib_less_in_groups_of_eight(release, int8_specs) -> None:
    before = release.pristine.unify_kv_cache_spec_page_size(int8_specs)["drafter.0"]
    after = release.patched.unify_kv_cache_spec_page_size(int8_specs)["drafter.0"]
    sizes = [
        spec.max_admission_blocks_per_request(IN_FLIGHT, MODEL_LEN)
        * spec.page_size_bytes
        * TENSORS
        / GIB
        for spec in (before, after)
    ]
    assert [round(size, 3) for size in sizes] == [5.155, 0.122]


def test_the_release_groups_the_promoted_specs_as_before(release, int8_specs) -> None:
    for module in (release.pristine, release.patched):
        specs = module.unify_kv_cache_spec_page_size(int8_specs)
        groups = module._get_kv_cache_groups_uniform_page_size(specs)
        assert [len(group.layer_names) for group in groups] == [4] * 4 + [5] * 8 + [4] * 2 + [5]


@pytest.mark.parametrize(
    ("cache_dtype", "draft_tokens", "primary", "promoted", "page"),
    [
        ("int8_per_token_head", 7, (864, 1_797_120), 864, 1_824_768),
        ("int8_per_token_head", 15, (944, 1_963_520), 944, 1_993_728),
        ("fp8_per_token_head", 3, (816, 1_697_280), 816, 1_723_392),
        ("int4_per_token_head", 7, (1696, 1_790_976), 1648, 1_793_024),
    ],
)
def test_promotion_per_cache_dtype(
    release, monkeypatch, cache_dtype, draft_tokens, primary, promoted, page
) -> None:
    specs = hybrid_specs(cache_dtype, monkeypatch, draft_tokens=draft_tokens)
    assert shape(specs["target.full.0"]) == primary
    after = release.patched.unify_kv_cache_spec_page_size(specs)
    assert shape(after["drafter.0"]) == (promoted, page)
    assert shape(after["target.full.0"]) == (primary[0], page)
    assert shape(after["target.state.0"]) == (primary[0], page)


@pytest.mark.parametrize(
    ("cache_dtype", "block", "page", "blocks"),
    [("bfloat16", 448, 1_835_008, 15), ("fp8", 880, 1_802_240, 8)],
)
def test_integer_ratios_are_left_to_the_release(
    release, monkeypatch, cache_dtype, block, page, blocks
) -> None:
    specs = hybrid_specs(cache_dtype, monkeypatch)
    after = release.patched.unify_kv_cache_spec_page_size(specs)
    assert after == release.pristine.unify_kv_cache_spec_page_size(specs)
    assert shape(after["drafter.0"]) == (block, page)
    assert drafter_blocks(after) == blocks
    for name, spec in specs.items():
        if not name.startswith("drafter"):
            assert after[name] is spec


def test_specs_of_one_page_size_are_returned_as_they_are(release, int8_specs) -> None:
    specs = {name: spec for name, spec in int8_specs.items() if name.startswith("target")}
    assert release.patched.unify_kv_cache_spec_page_size(specs) is specs
