"""Block promotion, on layers and specs that come from the release's own code.

A layer's spec is what the release's worker makes of `Attention.get_kv_cache_spec`: the layer
chooses its block size, the backend its packing. The backend is handed to the layer as an argument
because the platform of a machine without a GPU would select another one; nothing is replaced in
vLLM but the model registry, which is asked for the state shape of a model that only exists here.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine.conftest import stored_versions

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)
if not stored_versions("block-promotion.patch"):
    pytest.skip("no block-promotion.patch is stored for this release", allow_module_level=True)

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
    from vllm.v1.kv_cache_interface import KVCacheGroupSpec, KVCacheSpec
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

    from tests.engine.kv_cases import Case, groups, needed_bytes, shapes

pytestmark = pytest.mark.engine

WINDOW = 2048
IN_FLIGHT = 4096  # two batches of 2,048 tokens under asynchronous scheduling
MODEL_LEN = 32768
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
    # some releases ask the model whether it is one whose layers cannot have windows
    monkeypatch.setattr(config, "model_config", SimpleNamespace(use_mla=False))
    return {
        # with a speculative configuration the layer would say so itself
        name: replace(spec, num_speculative_blocks=draft_tokens) if "state" in name else spec
        for name, spec in get_kv_cache_spec(config).items()
    }


def shape(spec: KVCacheSpec) -> tuple[int, int]:
    return spec.block_size, spec.page_size_bytes


def model(specs: dict[str, KVCacheSpec], **fields: Any) -> Case:
    """The model with its drafter, for requests of 32,768 tokens."""
    drawn = {"max_model_len": MODEL_LEN, "in_flight": IN_FLIGHT, "drafter": True}
    return Case([specs], **{**drawn, **fields})


def by_layer(made: list[Any]) -> dict[str, KVCacheSpec]:
    """The spec of each layer, as its group has it."""
    return {name: group.kv_cache_spec for group in made for name in group.layer_names}


def drafter_blocks(specs: dict[str, KVCacheSpec]) -> int:
    """Blocks that one request holds in a layer of the drafter."""
    spec = specs["drafter.0"]
    return spec.max_memory_usage_bytes(model(specs).config()) // spec.page_size_bytes


def skip_unpacked(cache_dtype: str, specs: dict[str, KVCacheSpec]) -> None:
    if cache_dtype.startswith("int4") and shape(specs["drafter.0"]) == (16, 33_792):
        pytest.skip("up to 0.27.1 a window's int4 takes the bytes of int8, 53 pages of which fit")


@pytest.fixture
def int8_specs(monkeypatch: pytest.MonkeyPatch) -> dict[str, KVCacheSpec]:
    return hybrid_specs("int8_per_token_head", monkeypatch)


@pytest.fixture
def _pads_states(release: Any) -> None:
    if release.version.startswith("0.25."):
        pytest.skip("0.25 cannot pad a state layer, so that nothing is promoted beside one")


pads_states = pytest.mark.usefixtures("_pads_states")


def in_eights(specs: dict[str, KVCacheSpec]) -> list[KVCacheGroupSpec]:
    """Groups of eight layers that share a page number: two full ones, six of states, a drafter.

    The release makes groups of five of these layers; the published figures are for eight.
    """
    full = [f"target.full.{index}" for index in range(16)]
    states = [f"target.state.{index}" for index in range(48)]
    drafter = [f"drafter.{index}" for index in range(5)]
    parts = [*(full[i::2] for i in range(2)), *(states[i::6] for i in range(6)), drafter]
    return [KVCacheGroupSpec(names, specs[names[0]]) for names in parts]


def test_the_release_creates_the_window_layer_at_the_smallest_block(int8_specs) -> None:
    assert len(int8_specs) == 69
    assert shape(int8_specs["target.full.0"]) == (864, 1_797_120)
    assert shape(int8_specs["target.state.0"]) == (864, 1_797_120)
    assert shape(int8_specs["drafter.0"]) == (16, 33_792)


def test_without_the_patch_sixteen_tokens_take_a_whole_page(release, int8_specs) -> None:
    before = by_layer(groups(release.pristine, model(int8_specs)))
    assert {shape(before[f"drafter.{index}"]) for index in range(5)} == {(16, 1_797_120)}
    assert drafter_blocks(before) == 385
    assert round(100 * 33_792 / 1_797_120, 2) == 1.88
    assert before["target.full.0"] == int8_specs["target.full.0"]


@pads_states
def test_the_window_layer_is_promoted_from_16_to_864(release, int8_specs) -> None:
    after = by_layer(groups(release.patched, model(int8_specs)))
    assert set(after) == set(int8_specs)
    assert {shape(spec) for spec in after.values()} == {(864, 1_824_768)}
    assert drafter_blocks(after) == 9
    for name, spec in after.items():
        padded = None if name.startswith("drafter") else 1_824_768
        born = int8_specs[name]
        assert spec == replace(born, block_size=864, page_size_padded=padded)
    assert round(100 * (1_824_768 / 1_797_120 - 1), 2) == 1.54


def test_beside_a_state_layer_0_25_promotes_nothing(release, int8_specs) -> None:
    if not release.version.startswith("0.25."):
        pytest.skip("from 0.26 on a state layer can be padded")
    case = model(int8_specs)
    assert shapes(groups(release.patched, case)) == shapes(groups(release.pristine, case))
    attention = {name: spec for name, spec in int8_specs.items() if "state" not in name}
    after = by_layer(groups(release.patched, model(attention)))
    assert {shape(spec) for spec in after.values()} == {(864, 1_824_768)}


@pads_states
def test_a_request_of_32768_tokens_takes_5_gib_less_in_groups_of_eight(release, int8_specs) -> None:
    case = model(int8_specs)
    unified = release.pristine.unify_kv_cache_spec_page_size(int8_specs)
    before = in_eights(unified)
    after = release.patched._promote_small_blocks(case.config(), int8_specs, before)
    sizes = [needed_bytes(release.pristine, case, made, MODEL_LEN) for made in (before, after)]
    assert sizes == [509 * 8 * 1_797_120, (2 * 38 + 6 * 8 + 9) * 8 * 1_824_768]
    assert round(sizes[0] / GIB, 3) == 6.815
    window = [drafter_blocks(by_layer(made)) for made in (before, after)]
    pages = [1_797_120, 1_824_768]
    held = [blocks * page * 8 / GIB for blocks, page in zip(window, pages, strict=True)]
    assert [round(size, 3) for size in held] == [5.155, 0.122]
    # The longest request that the memory of 280 such pages holds, in an error at start
    memory = 280 * 8 * 1_797_120
    longest = [
        release.pristine._estimate_max_model_len_from_groups(case.config(262_144), made, memory)
        for made in (before, after)
    ]
    assert longest == [3536, 94_176]


def test_bf16_is_untouched_at_46592_tokens_in_groups_of_eight(release, monkeypatch) -> None:
    specs = hybrid_specs("bfloat16", monkeypatch)
    case = model(specs)
    before = in_eights(release.pristine.unify_kv_cache_spec_page_size(specs))
    assert release.patched._promote_small_blocks(case.config(), specs, before) is before
    memory = 271 * 8 * 1_835_008
    estimate = release.pristine._estimate_max_model_len_from_groups
    assert estimate(case.config(262_144), before, memory) == 46_592


def test_the_groups_are_the_release_s_own(release, int8_specs) -> None:
    for module in (release.pristine, release.patched):
        made = groups(module, model(int8_specs))
        assert [len(group.layer_names) for group in made] == [4] * 4 + [5] * 8 + [4] * 2 + [5]


@pads_states
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
    skip_unpacked(cache_dtype, specs)
    after = by_layer(groups(release.patched, model(specs)))
    assert shape(after["drafter.0"]) == (promoted, page)
    assert shape(after["target.full.0"]) == (primary[0], page)
    assert shape(after["target.state.0"]) == (primary[0], page)


@pads_states
@pytest.mark.parametrize(
    ("cache_dtype", "match_unit", "block"),
    [
        ("int8_per_token_head", None, 864),
        # prefixes would be hashed in units that the window's block is no part of
        ("int8_per_token_head", 16, 16),
        # the least common multiple of 1,696 and 1,648 is 174,688: no prefix is that long
        ("int4_per_token_head", None, 16),
    ],
)
def test_promotion_with_prefix_caching_in_align_mode(
    release, monkeypatch, cache_dtype, match_unit, block
) -> None:
    specs = {
        name: replace(spec, mamba_cache_mode="align") if "state" in name else spec
        for name, spec in hybrid_specs(cache_dtype, monkeypatch).items()
    }
    skip_unpacked(cache_dtype, specs)
    case = model(specs, prefix_caching=True, match_unit=match_unit, mamba_mode="align")
    assert by_layer(groups(release.patched, case))["drafter.0"].block_size == block


@pytest.mark.parametrize(
    ("cache_dtype", "block", "page", "blocks"),
    [("bfloat16", 448, 1_835_008, 15), ("fp8", 880, 1_802_240, 8)],
)
def test_integer_ratios_are_left_to_the_release(
    release, monkeypatch, cache_dtype, block, page, blocks
) -> None:
    specs = hybrid_specs(cache_dtype, monkeypatch)
    made = groups(release.patched, model(specs))
    assert shapes(made) == shapes(groups(release.pristine, model(specs)))
    after = by_layer(made)
    assert shape(after["drafter.0"]) == (block, page)
    assert drafter_blocks(after) == blocks
    for name, spec in specs.items():
        if not name.startswith("drafter"):
            assert after[name] == spec


def test_a_larger_page_adds_no_line_to_the_log(release, int8_specs, caplog) -> None:
    lines = []
    for module in (release.pristine, release.patched):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            groups(module, model(int8_specs))
        lines.append([record.getMessage() for record in caplog.records])
    assert lines[0] == lines[1]
