"""Drafters: own layers of a checkpoint, and another config.json."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.configs import read_model
from patchkit.kv.layers import AttentionLayer, Model

from .test_configs import config


def drafted(target: str, drafter: str, release: str | None = None, **changed: Any) -> Model:
    return read_model(
        config(target),
        name="config.json",
        drafter=config(drafter, **changed),
        drafter_name="draft.json",
        release=release,
    )


def drafting(model: Model) -> list[tuple[int, int, int, int | None]]:
    """Index, heads, head_dim and window of the drafter's layers."""
    layers = [layer for layer in model.attention if layer.drafter]
    assert tuple(layers) == model.layers[len(model.layers) - len(layers) :]
    return [(one.index, one.num_kv_heads, one.head_dim, one.window) for one in layers]


def test_own_layers_have_the_targets_heads_and_see_all_tokens() -> None:
    model = read_model(config("qwen3.8-27b"), name="c", own_drafter=True)
    assert drafting(model) == [(0, 4, 256, None)]
    assert model.num_layers == 64
    assert model.notes == ()


def test_the_number_of_own_layers_is_in_the_families_field() -> None:
    three = config("qwen3-next-80b-a3b", num_nextn_predict_layers=3)
    model = read_model(three, name="c", own_drafter=True)
    assert drafting(model) == [(i, 2, 256, None) for i in range(3)]
    left_out = read_model(config("qwen3-next-80b-a3b"), name="c", own_drafter=True)
    assert len(drafting(left_out)) == 1
    assert "num_nextn_predict_layers is not given: 1" in left_out.notes


def test_a_checkpoint_without_own_layers_is_refused() -> None:
    with pytest.raises(PatchkitError, match="LlamaForCausalLM is read without drafting layers"):
        read_model(config("llama-3.1-8b"), name="c", own_drafter=True)
    target = config("qwen3.8-27b")
    target["text_config"]["mtp_num_hidden_layers"] = 0
    with pytest.raises(PatchkitError, match="mtp_num_hidden_layers: is 0"):
        read_model(target, name="c", own_drafter=True)


def test_own_layers_and_a_drafter_at_once_are_refused() -> None:
    with pytest.raises(PatchkitError, match="a drafter is given, and the target's own"):
        read_model(
            config("qwen3.8-27b"), name="c", drafter=config("llama-3.1-8b"), own_drafter=True
        )


@pytest.mark.parametrize(
    ("drafter", "layers"),
    [
        ("drafter-eagle-llama-3-8b", [(0, 8, 128, None)]),
        ("drafter-eagle3-llama-3.1-8b", [(0, 8, 128, None)]),
        ("drafter-speculators-eagle3", [(0, 8, 128, None)]),
        ("drafter-dflash2-window", [(i, 8, 128, 2048) for i in range(5)]),
        ("drafter-dflash-full", [(i, 8, 128, None) for i in range(5)]),
        (
            "drafter-dflash-mixed",
            [*((i, 8, 128, 2048) for i in range(4)), (4, 8, 128, None)],
        ),
    ],
)
def test_a_drafter_is_read(drafter: str, layers: list[tuple[int, int, int, int | None]]) -> None:
    model = drafted("qwen3.8-27b", drafter)
    assert drafting(model) == layers
    assert len(model.layers) == 64 + len(layers)
    assert (model.num_layers, model.dtype) == (64, "bfloat16")


def test_the_targets_window_holds_in_a_drafters_layers_that_say_none() -> None:
    assert drafting(drafted("mistral-7b-v0.1", "drafter-eagle-llama-3-8b")) == [(0, 8, 128, 4096)]
    assert drafting(drafted("llama-3.1-8b", "mistral-7b-v0.1"))[0] == (0, 8, 128, None)


def test_the_targets_window_holds_in_a_drafters_layers_that_are_called_full_too() -> None:
    listed = drafted("mistral-7b-v0.1", "drafter-eagle-llama-3-8b", layer_types=["full_attention"])
    assert drafting(listed) == [(0, 8, 128, 4096)]


def test_speculators_is_no_model_type_of_a_config() -> None:
    with pytest.raises(PatchkitError) as caught:
        drafted(
            "llama-3.1-8b",
            "drafter-eagle-llama-3-8b",
            architectures=["Eagle3LlamaForCausalLM"],
            model_type="speculators",
        )
    assert caught.value.place == "draft.json: model_type"


def test_dflash_windows_are_switched_on_inside() -> None:
    own = {"use_swa": True, "swa_window_size": 512}
    assert {layer[3] for layer in drafting(drafted("llama-3.1-8b", "drafter-dflash-full",
        dflash_config=own))} == {512}  # fmt: skip
    own = {"use_swa": True}
    with pytest.raises(PatchkitError) as caught:
        drafted("llama-3.1-8b", "drafter-dflash-full", dflash_config=own)
    assert caught.value.place == "draft.json: sliding_window"
    mixed = drafted("llama-3.1-8b", "drafter-dflash-mixed", dflash_config=own)
    assert [layer[3] for layer in drafting(mixed)] == [2048] * 4 + [None]


def test_a_dflash_whose_windows_are_switched_off_has_no_window() -> None:
    with pytest.raises(PatchkitError, match="sliding_window: there is none"):
        drafted("llama-3.1-8b", "drafter-dflash2-window", use_sliding_window=False)


def test_a_release_gives_dflash_windows_to_all_layers_or_to_some() -> None:
    def windows(drafter: str, release: str, **changed: Any) -> list[int | None]:
        found = drafted("llama-3.1-8b", drafter, release, **changed)
        return [layer[3] for layer in drafting(found)]

    mixed = "drafter-dflash-mixed"
    alike = {"dflash_config": {"use_swa": True, "swa_window_size": 2048}}
    assert windows(mixed, "0.26.0") == [2048] * 4 + [None]
    assert windows("drafter-dflash-full", "0.25.0", **alike) == [2048] * 5
    with pytest.raises(PatchkitError) as caught:
        windows(mixed, "0.25.1")
    assert caught.value.place == "draft.json: layer_types"
    assert caught.value.expected == "windows in all layers or none, as vLLM 0.25.1 has them"


def test_an_assistant_that_reads_the_targets_caches_adds_none() -> None:
    assistant = {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_assistant",
        "text_config": {"model_type": "gemma4_text", "num_hidden_layers": 4},
    }
    target = config("gemma-4-31b")
    model = read_model(target, name="c", drafter=assistant, drafter_name="d")
    assert drafting(model) == []
    assert model.notes[-1] == "drafter: all its layers read the target's caches"


def test_an_eagle_file_may_wrap_a_models() -> None:
    wrapped = {"model_type": "eagle", "model": config("drafter-eagle-llama-3-8b")}
    model = read_model(config("llama-3.1-8b"), name="c", drafter=wrapped, drafter_name="d")
    assert drafting(model) == [(0, 8, 128, None)]
    wrapped["model"]["num_key_value_heads"] = 0
    with pytest.raises(PatchkitError, match=r"d: model\.num_key_value_heads: is 0"):
        read_model(config("llama-3.1-8b"), name="c", drafter=wrapped, drafter_name="d")


def test_a_drafter_is_not_read_as_a_model() -> None:
    with pytest.raises(PatchkitError) as caught:
        read_model(config("drafter-dflash2-window"), name="config.json")
    assert str(caught.value).startswith("config.json: architectures: DFlash2DraftModel drafts for")
    assert caught.value.hint == "give this config.json as the drafter's"


def test_a_hybrid_drafts_for_nobody() -> None:
    with pytest.raises(PatchkitError, match="has recurrent states, which no drafter keeps"):
        drafted("qwen3.8-27b", "qwen3.5-9b-text")


def test_an_unknown_method_of_speculators_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        drafted("llama-3.1-8b", "drafter-speculators-eagle3", speculators_model_type="medusa")
    assert caught.value.place == "draft.json: speculators_model_type"
    assert caught.value.expected == "one of eagle3, peagle, dflash, dflash2"


def test_speculators_layers_are_those_of_llama_or_qwen3() -> None:
    inner = {**config("drafter-speculators-eagle3")["transformer_layer_config"]}
    inner["model_type"] = "gemma3"
    with pytest.raises(PatchkitError) as caught:
        drafted("llama-3.1-8b", "drafter-speculators-eagle3", transformer_layer_config=inner)
    assert caught.value.place == "draft.json: transformer_layer_config.model_type"
    with pytest.raises(PatchkitError, match="transformer_layer_config: the field is missing"):
        drafted("llama-3.1-8b", "drafter-speculators-eagle3", transformer_layer_config=None)


def test_in_the_speculators_format_no_class_fills_in_and_no_switch_holds() -> None:
    inner = {**config("drafter-dflash-mixed"), "sliding_window": 300, "use_sliding_window": False}
    for field in ("architectures", "head_dim"):
        del inner[field]
    wrapped = {"speculators_model_type": "dflash2", "transformer_layer_config": inner}
    target = config("llama-3.1-8b")
    model = read_model(target, name="c", drafter=wrapped, drafter_name="d")
    assert [layer[2:] for layer in drafting(model)] == [(160, 300)] * 4 + [(160, None)]


def test_a_shorter_context_of_an_independent_drafter_is_noted_where_it_may_bound() -> None:
    said = "drafter: as a model of its own it may bound the context to 32768 tokens"
    assert said in drafted("llama-3.1-8b", "mistral-7b-v0.1").notes
    assert said in drafted("llama-3.1-8b", "mistral-7b-v0.1", "0.33.0").notes
    assert said not in drafted("llama-3.1-8b", "mistral-7b-v0.1", "0.32.0").notes
    alike = drafted("llama-3.1-8b", "llama-3.1-8b")
    assert not any("bound" in note for note in alike.notes)
    eagle3 = drafted("llama-3.1-8b", "drafter-eagle3-llama-3.1-8b")
    assert not any("bound" in note for note in eagle3.notes)
    assert eagle3.max_model_len == 131072


def test_notes_on_a_drafter_say_so() -> None:
    model = drafted("llama-3.2-1b", "drafter-eagle3-llama-3.1-8b")
    assert model.notes == (
        "drafter: head_dim is not given: hidden_size / num_attention_heads = 128",
    )
    assert isinstance(model.layers[-1], AttentionLayer)
