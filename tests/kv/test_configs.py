"""config.json files as models: layers, windows, states, types, and what was filled in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.configs import read_model
from patchkit.kv.layers import AttentionLayer, Layer, Model

CONFIGS = Path(__file__).with_name("configs")


def config(name: str, **changed: Any) -> dict[str, Any]:
    """A stored config.json with some fields changed; None takes a field out."""
    found = {**json.loads((CONFIGS / f"{name}.json").read_text()), **changed}
    gone = {field for field, value in changed.items() if value is None}
    return {field: value for field, value in found.items() if field not in gone}


def read(name: str, **changed: Any) -> Model:
    return read_model(config(name, **changed), name="config.json")


def counted(layers: tuple[Layer, ...]) -> dict[tuple[int, int, int | None] | str, int]:
    """How many layers have (heads, head_dim, window), or a state."""
    return Counter(
        (layer.num_kv_heads, layer.head_dim, layer.window)
        if isinstance(layer, AttentionLayer)
        else "state"
        for layer in layers
    )


def full_layers(model: Model) -> list[int]:
    """Where the layers without a window are."""
    return [layer.index for layer in model.attention if layer.window is None]


# file, layers by kind, longest context, type, query heads
READ = [
    ("qwen2.5-7b", {(4, 128, None): 28}, 32768, "bfloat16", 28),
    ("qwen1.5-moe-a2.7b", {(16, 128, None): 24}, 8192, "bfloat16", 16),
    ("qwen3-8b", {(8, 128, None): 36}, 40960, "bfloat16", 32),
    ("qwen3-30b-a3b", {(4, 128, None): 48}, 40960, "bfloat16", 32),
    ("qwen3-next-80b-a3b", {"state": 36, (2, 256, None): 12}, 262144, "bfloat16", 16),
    ("qwen3.8-27b", {"state": 48, (4, 256, None): 16}, 262144, "bfloat16", 24),
    ("qwen3.5-35b-a3b", {"state": 30, (2, 256, None): 10}, 262144, "bfloat16", 16),
    ("qwen3.5-9b-text", {"state": 24, (4, 256, None): 8}, 262144, "bfloat16", 16),
    ("llama-7b", {(32, 128, None): 32}, 2048, "float16", 32),
    ("llama-3.1-8b", {(8, 128, None): 32}, 131072, "bfloat16", 32),
    ("llama-3.2-1b", {(8, 64, None): 16}, 131072, "bfloat16", 32),
    ("mistral-7b-v0.1", {(8, 128, 4096): 32}, 32768, "bfloat16", 32),
    ("mistral-nemo-12b", {(8, 128, None): 40}, 131072, "bfloat16", 32),
    ("mistral-small-3.1-24b", {(8, 128, None): 40}, 131072, "bfloat16", 32),
    ("ministral-3-8b", {(8, 128, None): 34}, 262144, "bfloat16", 32),
    ("mixtral-8x7b", {(8, 128, None): 32}, 32768, "bfloat16", 32),
    ("gemma-2-2b", {(4, 256, 4096): 13, (4, 256, None): 13}, 8192, "bfloat16", 8),
    ("gemma-3-270m", {(1, 256, 512): 15, (1, 256, None): 3}, 32768, "bfloat16", 4),
    ("gemma-3-1b", {(1, 256, 512): 22, (1, 256, None): 4}, 32768, "bfloat16", 4),
    ("gemma-3-4b", {(4, 256, 1024): 29, (4, 256, None): 5}, 131072, "bfloat16", 8),
    ("gemma-3-27b", {(16, 128, 1024): 52, (16, 128, None): 10}, 131072, "bfloat16", 32),
    ("gemma-4-31b", {(16, 256, 1024): 50, (4, 512, None): 10}, 262144, "bfloat16", 32),
    ("gemma-4-31b-saved", {(16, 256, 1024): 50, (4, 512, None): 10}, 262144, "bfloat16", 32),
    ("gemma-4-shared-caches", {(1, 256, 512): 12, (1, 512, None): 3}, 131072, "bfloat16", 8),
    ("gpt-oss-20b", {(8, 64, 128): 12, (8, 64, None): 12}, 131072, "bfloat16", 64),
    ("phi-3.5-mini", {(32, 96, 262144): 32}, 4096, "bfloat16", 32),
    ("granite-3.1-8b", {(8, 128, None): 40}, 131072, "bfloat16", 32),
]


@pytest.mark.parametrize(("name", "layers", "context", "dtype", "heads"), READ)
def test_a_config_is_read(
    name: str, layers: dict[Any, int], context: int, dtype: str, heads: int
) -> None:
    model = read(name)
    assert counted(model.layers) == layers
    assert (model.max_model_len, model.dtype) == (context, dtype)
    assert model.num_attention_heads == heads
    assert all(layer.head_dim_v == layer.head_dim for layer in model.attention)
    assert not any(layer.drafter for layer in model.layers)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("gemma-3-270m", [5, 11, 17]),
        ("gemma-3-1b", [5, 11, 17, 23]),
        ("gemma-4-shared-caches", [4, 9, 14]),
        ("gpt-oss-20b", list(range(1, 24, 2))),
        ("gemma-2-2b", list(range(1, 26, 2))),
        ("qwen3.8-27b", list(range(3, 64, 4))),
        ("qwen3.5-9b-text", list(range(3, 32, 4))),
    ],
)
def test_full_attention_is_in_the_layers_that_the_family_has_it_in(
    name: str, full: list[int]
) -> None:
    assert full_layers(read(name)) == full


def test_the_number_of_layers_is_the_targets_with_those_that_share_caches() -> None:
    model = read("gemma-4-shared-caches")
    assert model.num_layers == 35
    assert model.notes == ("the last 20 layers read the caches of layers before them",)


@pytest.mark.parametrize(
    ("name", "fields", "experts"),
    [
        ("qwen3-30b-a3b", {}, True),
        ("gpt-oss-20b", {}, True),
        ("qwen3-8b", {}, False),
        ("gemma-4-31b-text", {"num_experts": None}, False),
        ("gemma-4-31b-text", {"num_experts": 128}, True),
    ],
)
def test_a_mixture_of_experts_says_how_many(
    name: str, fields: dict[str, object], experts: bool
) -> None:
    found = read_model({**config(name), **fields}, name="config.json")
    assert found.has_experts is experts


def test_a_mixtral_has_experts_that_its_file_leaves_out() -> None:
    model = read("mixtral-8x7b", num_local_experts=None)
    assert model.has_experts
    assert "num_local_experts is not given: 8" in model.notes


def test_a_name_and_an_architecture_are_kept() -> None:
    model = read_model(config("gemma-3-4b"), name="models/gemma/config.json")
    assert model.name == "models/gemma/config.json"
    assert model.architecture == "Gemma3ForConditionalGeneration"


def test_what_a_file_leaves_out_is_noted_with_the_field() -> None:
    assert read("gemma-3-4b").notes == (
        "text_config.layer_types is not given: full attention in layers 6, 12 … (from 1)",
        "text_config.num_attention_heads is not given: 8",
        "text_config.num_key_value_heads is not given: 4",
        "text_config.head_dim is not given: 256",
        "text_config.max_position_embeddings is not given: 131072",
    )
    assert read("llama-7b").notes == (
        "num_key_value_heads is not given: num_attention_heads = 32",
        "head_dim is not given: hidden_size / num_attention_heads = 128",
    )
    assert read("llama-3.2-1b").notes == ()


# -- windows


def test_a_window_of_null_or_0_is_none() -> None:
    for value in (0, None):
        changed = {**config("mistral-7b-v0.1"), "sliding_window": value}
        assert counted(read_model(changed, name="c").layers) == {(8, 128, None): 32}


def test_a_mistral_without_the_field_has_the_window_that_transformers_fills_in() -> None:
    model = read("mistral-7b-v0.1", sliding_window=None)
    assert counted(model.layers) == {(8, 128, 4096): 32}
    assert model.notes[0] == "sliding_window is not given: 4096"


def test_a_switch_that_is_off_turns_the_window_off() -> None:
    on = read("qwen2.5-7b", use_sliding_window=True, max_window_layers=0)
    assert counted(on.layers) == {(4, 128, 131072): 28}
    assert counted(read("qwen2.5-7b", max_window_layers=0).layers) == {(4, 128, None): 28}
    assert counted(read("qwen2.5-7b", use_sliding_window=None).layers) == {(4, 128, None): 28}


def test_qwen_with_windows_in_some_layers_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        read("qwen2.5-7b", use_sliding_window=True, max_window_layers=21)
    assert caught.value.place == "config.json: max_window_layers"
    assert caught.value.hint == "vLLM serves Qwen2 with windows in all layers or in none"


def test_a_llama_has_windows_where_its_list_says() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    model = read("llama-3.1-8b", layer_types=kinds, sliding_window=1024)
    assert counted(model.layers) == {(8, 128, 1024): 16, (8, 128, None): 16}
    assert full_layers(model) == list(range(1, 32, 2))


def test_a_model_that_reads_no_list_has_one_window_in_all_layers_or_none() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    mixed = read("mixtral-8x7b", layer_types=kinds, sliding_window=4096)
    assert counted(mixed.layers) == {(8, 128, None): 32}
    alike = read("mixtral-8x7b", layer_types=["sliding_attention"] * 32, sliding_window=4096)
    assert counted(alike.layers) == {(8, 128, 4096): 32}


def test_gpt_oss_takes_no_other_order_of_layers() -> None:
    kinds = ["full_attention", "sliding_attention"] * 12
    with pytest.raises(PatchkitError, match="layer_types: is another order"):
        read("gpt-oss-20b", layer_types=kinds)
    without = read("gpt-oss-20b", layer_types=None)
    assert without.layers == read("gpt-oss-20b").layers


def test_the_last_layer_of_a_gemma_4_is_full_whatever_the_list_says() -> None:
    text = config("gemma-4-31b-text")
    kinds = ["full_attention", *["sliding_attention"] * 59]
    model = read_model({**text, "layer_types": kinds}, name="c")
    assert full_layers(model) == [0, 59]
    assert "the last layer is taken as full attention, not as sliding_attention" in model.notes


# -- heads


def test_global_heads_hold_only_where_keys_are_the_values_too() -> None:
    model = read("gemma-4-31b-text", attention_k_eq_v=False)
    assert counted(model.layers) == {(16, 256, 1024): 50, (16, 512, None): 10}


def test_a_gemma_4_without_global_head_dim_has_512() -> None:
    model = read("gemma-4-31b-text", global_head_dim=None)
    assert counted(model.layers)[(4, 512, None)] == 10
    assert "global_head_dim is not given: 512" in model.notes


def test_what_a_saved_gemma_4_says_of_a_layer_holds() -> None:
    table = {"05": {"head_dim": 128}, "7": {"num_key_value_heads": 2}}
    model = read("gemma-4-31b-saved", per_layer_config=table)
    shapes = {layer.index: (layer.num_kv_heads, layer.head_dim) for layer in model.attention}
    assert (shapes[5], shapes[7], shapes[11]) == ((16, 128), (2, 256), (16, 256))


# -- states


@pytest.mark.parametrize(
    ("drafts", "size"), [(0, 1634304), (3, 1695744), (5, 1736704), (7, 1777664), (15, 1941504)]
)
def test_the_state_of_the_27b_hybrid_has_the_published_size(drafts: int, size: int) -> None:
    model = read_model(config("qwen3.8-27b"), name="c", state_dtype="float16")
    for layer in model.states:
        assert sum(tensor.size_bytes(1, drafts) for tensor in layer.tensors) == size
        assert sum(tensor.size_bytes(2, drafts) for tensor in layer.tensors) == size // 2


def test_states_are_in_the_type_asked_for_then_the_files_then_the_models() -> None:
    def types(name: str, **options: Any) -> tuple[str, ...]:
        model = read_model(config(name), name="c", **options)
        return tuple(tensor.dtype for tensor in model.states[0].tensors)

    assert types("qwen3.8-27b") == ("bfloat16", "float32")
    assert types("qwen3.8-27b", state_dtype="auto") == ("bfloat16", "float32")
    assert types("qwen3.8-27b", state_dtype="bfloat16") == ("bfloat16", "bfloat16")
    assert types("qwen3.8-27b", dtype="float16") == ("float16", "float32")
    assert types("qwen3.5-9b-text") == ("bfloat16", "bfloat16")
    assert types("qwen3-next-80b-a3b", dtype="half") == ("float16", "float16")


def test_a_file_of_qwen3_next_says_nothing_of_the_states_type() -> None:
    model = read("qwen3-next-80b-a3b", mamba_ssm_dtype="float32")
    assert model.states[0].tensors[1].dtype == "bfloat16"


def test_ranks_share_out_the_key_heads_of_a_state() -> None:
    conv, recurrent = read("qwen3.8-27b").states[0].tensors
    assert (conv.split, conv.per_split, conv.width) == (16, 640, 3)  # 2 x 128 + 3 x 128 channels
    assert (recurrent.split, recurrent.per_split, recurrent.width) == (48, 16384, 1)
    assert conv.grows_with_drafts
    assert not recurrent.grows_with_drafts


def test_the_pattern_of_a_gemma_3_is_the_one_given() -> None:
    assert full_layers(read("gemma-3-1b", sliding_window_pattern=4)) == list(range(3, 26, 4))


def test_the_interval_of_a_hybrid_is_the_one_given() -> None:
    model = read("qwen3-next-80b-a3b", full_attention_interval=6)
    assert [layer.index for layer in model.attention] == list(range(5, 48, 6))


# -- types


@pytest.mark.parametrize(
    ("fields", "asked", "dtype", "note"),
    [
        ({"torch_dtype": "float16"}, None, "float16", None),
        ({"torch_dtype": "float16"}, "auto", "float16", None),
        ({"torch_dtype": "float16", "dtype": "bfloat16"}, None, "bfloat16", None),
        ({"torch_dtype": "float32"}, None, "bfloat16", "dtype is float32: vLLM takes bfloat16"),
        ({"torch_dtype": "float32"}, "float", "float32", None),
        ({"torch_dtype": "bfloat16"}, "half", "float16", None),
        ({}, None, "bfloat16", "dtype is not given: bfloat16; vLLM takes it from the weights"),
        (
            {"torch_dtype": "float8_e4m3fn"},
            None,
            "bfloat16",
            "dtype is float8_e4m3fn: vLLM takes bfloat16",
        ),
    ],
)
def test_a_type_is_the_one_asked_for_or_the_files(
    fields: dict[str, str], asked: str | None, dtype: str, note: str | None
) -> None:
    target = {**config("llama-3.2-1b", torch_dtype=None), **fields}
    model = read_model(target, name="c", dtype=asked)
    assert (model.dtype, model.notes) == (dtype, (note,) if note else ())


def test_the_type_of_a_nested_file_may_be_inside() -> None:
    target = config("qwen3.8-27b")
    assert "dtype" not in target
    target["text_config"]["dtype"] = "float16"
    target["vision_config"]["dtype"] = "float32"
    assert read_model(target, name="c").dtype == "float16"
    del target["text_config"]["dtype"]
    target["vision_config"]["dtype"] = "float16"
    assert read_model(target, name="c").dtype == "float16"


def test_gemma_is_not_served_in_float16() -> None:
    model = read("gemma-3-1b", torch_dtype="float16")
    assert model.dtype == "bfloat16"
    assert "dtype is float16, in which Gemma 3 overflows: bfloat16" in model.notes
    with pytest.raises(PatchkitError, match="Gemma 3 is not served in float16"):
        read_model(config("gemma-3-1b"), name="c", dtype="float16")


@pytest.mark.parametrize("option", ["dtype", "state_dtype"])
def test_a_type_that_is_not_known_is_refused(option: str) -> None:
    options: dict[str, Any] = {option: "int8"}
    with pytest.raises(PatchkitError) as caught:
        read_model(config("qwen3.8-27b"), name="c", **options)
    assert '"int8" is not known' in str(caught.value)
    assert caught.value.expected == "auto, bfloat16, float16, float32"
