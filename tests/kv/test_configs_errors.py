"""What a config.json must not have, or must have: each error names file, field and expectation."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.errors import ExitCode, PatchkitError
from patchkit.kv.configs import read_model
from patchkit.kv.families import read_families

from .test_configs import config

PLACE = "models/x/config.json: "


def error(target: dict[str, Any], **options: Any) -> PatchkitError:
    with pytest.raises(PatchkitError) as caught:
        read_model(target, name="models/x/config.json", **options)
    assert caught.value.exit_code == ExitCode.REFUSED
    return caught.value


def test_an_unknown_architecture_is_named_with_its_neighbours() -> None:
    found = error(config("llama-3.1-8b", architectures=["Llama5ForCausalLM"]))
    assert found.place == PLACE + "architectures"
    assert found.fact == "Llama5ForCausalLM is not known"
    assert found.hint is not None
    assert found.hint.startswith("near it: LlamaForCausalLM")
    assert found.expected is not None
    assert "GptOssForCausalLM" in found.expected


def test_an_architecture_near_nothing_has_no_neighbours() -> None:
    assert error(config("llama-3.1-8b", architectures=["Zzz"])).hint is None


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        (None, "the field is missing"),
        ([], "is not a list of names"),
        ("x", "is not a list of names"),
    ],
)
def test_architectures_must_be_a_list_of_names(value: object, fact: str) -> None:
    found = error(config("llama-3.1-8b", architectures=value))
    assert (found.place, found.fact) == (PLACE + "architectures", fact)
    assert found.expected == 'a list of names as ["LlamaForCausalLM"]'


def test_latent_attention_is_named_as_what_is_not_modelled() -> None:
    deepseek = config("llama-3.1-8b", architectures=["DeepseekV3ForCausalLM"], kv_lora_rank=512)
    said = "it caches latent vectors (MLA), which are not modelled"
    assert error(deepseek).hint == said
    assert error(config("llama-3.1-8b", kv_lora_rank=512)).place == PLACE + "kv_lora_rank"


def test_chunked_attention_is_refused() -> None:
    found = error(config("llama-3.1-8b", attention_chunk_size=8192))
    assert found.place == PLACE + "attention_chunk_size"
    assert found.hint == "chunked attention (Llama 4) is not modelled"


def test_encoders_are_refused() -> None:
    found = error(config("llama-3.1-8b", is_encoder_decoder=True))
    assert (found.place, found.expected) == (PLACE + "is_encoder_decoder", "a decoder-only model")


@pytest.mark.parametrize("value", [True, "all"])
def test_what_looks_both_ways_is_refused(value: object) -> None:
    found = error(config("gemma-3-270m", use_bidirectional_attention=value))
    assert found.place == PLACE + "use_bidirectional_attention"


def test_images_may_be_looked_at_both_ways() -> None:
    target = config("gemma-4-31b-text", use_bidirectional_attention="vision")
    assert read_model(target, name="c").num_layers == 60


def test_a_consolidated_file_is_told_from_a_config() -> None:
    found = error({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "head_dim": 128})
    assert found.place == "models/x/config.json"
    assert found.expected == "a Hugging Face config.json"
    assert found.hint is not None
    assert "config.json beside it" in found.hint


def test_a_text_model_must_lie_where_its_architecture_has_it() -> None:
    found = error(config("gemma-3-4b", text_config=None))
    assert found.place == PLACE + "text_config"
    assert error(config("gemma-3-4b", text_config=[1])).fact == "is a list"


@pytest.mark.parametrize(
    ("name", "model_type", "fact", "expected"),
    [
        ("llama-3.1-8b", "qwen2", 'is "qwen2"', "llama, as LlamaForCausalLM has it"),
        ("granite-3.1-8b", None, "the field is missing", "granite or granitemoe, as Granite"),
        ("llama-3.1-8b", "speculators", 'is "speculators"', "llama, as LlamaForCausalLM has it"),
    ],
)
def test_a_model_type_must_be_one_that_the_architecture_has(
    name: str, model_type: str | None, fact: str, expected: str
) -> None:
    found = error(config(name, model_type=model_type))
    assert (found.place, found.fact) == (PLACE + "model_type", fact)
    assert found.expected is not None
    assert found.expected.startswith(expected)


def test_a_model_type_that_follows_from_the_architecture_may_be_left_out() -> None:
    target = config("gemma-3-4b")
    del target["text_config"]["model_type"]
    assert read_model(target, name="c").num_layers == 34


@pytest.mark.parametrize(
    "field", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads"]
)
def test_a_field_that_nothing_fills_in_must_be_there(field: str) -> None:
    found = error(config("qwen3-8b", **{field: None}))
    assert (found.place, found.fact) == (PLACE + field, "the field is missing")
    assert found.expected == "a positive integer"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "is 0"), (-8, "is -8"), ("8", 'is "8"'), (8.0, "is 8.0"), (True, "is true"),
        ([8], "is a list"), ({}, "is a mapping"), ("x" * 60, 'is "' + "x" * 36 + "..."),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "field", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "max_position_embeddings"],
)  # fmt: skip
def test_a_number_of_something_is_a_positive_integer(field: str, value: object, shown: str) -> None:
    found = error(config("qwen3-8b", **{field: value}))
    assert (found.place, found.fact) == (PLACE + field, shown)
    assert found.expected == "a positive integer"


def test_a_null_is_no_number_where_the_class_has_one() -> None:
    found = error({**config("qwen3-8b"), "num_hidden_layers": None})
    assert (found.place, found.fact) == (PLACE + "num_hidden_layers", "is null")


def test_a_field_inside_is_named_with_its_way() -> None:
    target = config("qwen3.8-27b")
    target["text_config"]["num_key_value_heads"] = 0
    assert error(target).place == PLACE + "text_config.num_key_value_heads"


@pytest.mark.parametrize("field", [
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
    "linear_value_head_dim", "linear_conv_kernel_dim",
])  # fmt: skip
def test_the_sizes_of_a_state_are_positive_integers(field: str) -> None:
    found = error(config("qwen3-next-80b-a3b", **{field: 0}))
    assert (found.place, found.fact) == (PLACE + field, "is 0")


def test_heads_must_divide() -> None:
    found = error(config("qwen3-8b", num_key_value_heads=5))
    assert (found.place, found.fact) == (PLACE + "num_key_value_heads", "is 5")
    assert found.expected == "a divisor of num_attention_heads, 32"
    found = error(config("gemma-4-31b-text", num_global_key_value_heads=5))
    assert found.place == PLACE + "num_global_key_value_heads"
    found = error(config("qwen3-next-80b-a3b", linear_num_value_heads=24))
    assert found.place == PLACE + "linear_num_value_heads"
    assert found.expected == "a multiple of linear_num_key_heads, 16"
    found = error(config("llama-3.1-8b", hidden_size=4097))
    assert found.place == PLACE + "hidden_size"
    assert found.expected == "a multiple of num_attention_heads, 32"


def test_a_convolution_of_one_column_keeps_nothing() -> None:
    assert error(config("qwen3-next-80b-a3b", linear_conv_kernel_dim=1)).expected == "2 or more"


def test_a_head_dim_that_vllm_would_not_read_must_be_what_it_computes() -> None:
    found = error(config("qwen2.5-7b", head_dim=64))
    assert found.place == PLACE + "head_dim"
    assert found.expected == "hidden_size / num_attention_heads = 128, or no such field"
    assert read_model(config("qwen2.5-7b", head_dim=128), name="c").attention[0].head_dim == 128


@pytest.mark.parametrize(
    ("name", "kinds", "field", "fact"),
    [
        ("gemma-3-270m", ["full_attention"] * 17, "layer_types", "has 17 entries"),
        ("gemma-3-270m", "full_attention", "layer_types", 'is "full_attention"'),
        (
            "gemma-3-270m", ["full_attention", "chunked_attention"] * 9,
            "layer_types[1]", 'is "chunked_attention"',
        ),
        (
            "qwen3-next-80b-a3b", ["sliding_attention"] * 48,
            "layer_types[0]", 'is "sliding_attention"',
        ),
        ("gemma-3-270m", [1] * 18, "layer_types[0]", "is 1"),
    ],
)  # fmt: skip
def test_layer_types_are_of_known_kinds_and_as_many_as_layers(
    name: str, kinds: object, field: str, fact: str
) -> None:
    found = error(config(name, layer_types=kinds))
    assert (found.place, found.fact) == (PLACE + field, fact)


def test_the_kinds_of_a_family_are_listed() -> None:
    kinds = ["mamba"] * 48
    found = error(config("qwen3-next-80b-a3b", layer_types=kinds))
    assert found.expected == "one of full_attention, linear_attention"


@pytest.mark.parametrize("value", [-1, "4096", 1.5])
def test_a_window_is_a_number_of_tokens_or_none(value: object) -> None:
    found = error(config("mistral-7b-v0.1", sliding_window=value))
    assert found.place == PLACE + "sliding_window"
    assert found.expected == "0 or a positive integer"


def test_a_switch_is_true_or_false() -> None:
    found = error(config("qwen3-8b", use_sliding_window="no"))
    assert (found.place, found.expected) == (PLACE + "use_sliding_window", "true or false")


@pytest.mark.parametrize(
    ("shared", "fact", "expected"),
    [
        (35, "is 35", "less than num_hidden_layers, 35"),
        (-1, "is -1", "0 or a positive integer"),
        (32, "is 32", "a layer of full_attention before the last 32, whose cache they read"),
    ],
)
def test_caches_are_shared_with_earlier_layers_of_the_same_kind(
    shared: int, fact: str, expected: str
) -> None:
    found = error(config("gemma-4-shared-caches", num_kv_shared_layers=shared))
    assert (found.place, found.fact) == (PLACE + "num_kv_shared_layers", fact)
    assert found.expected == expected


@pytest.mark.parametrize("key", ["60", "x", "-1"])
def test_per_layer_values_are_of_a_layer(key: str) -> None:
    found = error(config("gemma-4-31b-saved", per_layer_config={key: {"head_dim": 512}}))
    assert found.place == PLACE + f"per_layer_config.{key}"
    assert found.expected == "0 to 59"


def test_a_type_in_the_file_must_be_known() -> None:
    found = error(config("llama-3.1-8b", torch_dtype="int8"))
    assert (found.place, found.fact) == (PLACE + "torch_dtype", 'is "int8"')
    target = config("qwen3.8-27b")
    target["text_config"]["mamba_ssm_dtype"] = "int8"
    assert error(target).place == PLACE + "text_config.mamba_ssm_dtype"


def test_every_family_of_the_table_is_whole() -> None:
    rules = {"uniform", "listed", "one kind", "even", "dflash"}
    for family in read_families():
        assert family.windows in rules
        assert family.names
        assert family.model_types
        assert family.caches in ("own", "shared by the last", "none")
        assert family.states in (None, "gated delta net")
        assert family.rest in ("sliding_attention", "linear_attention")
    pairs = [
        (name, model_type)
        for family in read_families()
        for name in family.names
        for model_type in family.model_types
    ]
    assert len(pairs) == len(set(pairs))
