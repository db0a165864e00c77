"""The longest context of a config.json, as the releases take it from the same fields."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.configs import read_model

from .test_configs import config


def context(name: str = "qwen3-8b", release: str | None = None, **changed: Any) -> int:
    return read_model(config(name, **changed), name="config.json", release=release).max_model_len


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    ("release", "tokens"),
    [("0.24.0", 131072), ("0.29.0", 131072), ("0.30.0", 40960), ("0.33.0", 40960), (None, 40960)],
)
def test_yarn_multiplies_the_original_length_up_to_029(release: str | None, tokens: int) -> None:
    assert context("qwen3-8b-yarn", release) == tokens


def test_yarn_without_an_original_length_takes_the_files() -> None:
    scaling = {"rope_type": "yarn", "factor": 2.0}
    assert context(release="0.28.0", rope_scaling=scaling) == 81920


def test_yarns_original_length_may_lie_outside() -> None:
    assert (
        context(release="0.28.0", rope_scaling=YARN, original_max_position_embeddings=10000)
        == 40000
    )


@pytest.mark.parametrize(
    ("scaling", "tokens"),
    [
        ({"rope_type": "linear", "factor": 2.5}, 102400),
        ({"type": "linear", "factor": 2}, 81920),
        ({"rope_type": "dynamic", "factor": 1.7}, 69632),
        ({"rope_type": "linear", "factor": 1.00001}, 40960),
        ({"rope_type": "llama3", "factor": 8.0}, 40960),
        ({"type": "su", "factor": 8.0}, 40960),
        ({"rope_type": "default"}, 40960),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 40960),
        ({"rope_type": "linear", "factor": None}, 40960),
        ({}, 40960),
    ],
)
def test_a_scaling_multiplies_unless_the_length_has_it_already(
    scaling: dict[str, Any], tokens: int
) -> None:
    assert context(rope_scaling=scaling) == tokens
    assert context(rope_parameters=scaling) == tokens


def test_the_older_name_of_a_scaling_wins() -> None:
    linear = {"rope_type": "linear", "factor": 2.0}
    assert context(rope_scaling=linear, rope_parameters={"rope_type": "default"}) == 81920


def test_scalings_may_differ_by_kind_of_layer() -> None:
    ropes = {
        "sliding_attention": {"rope_type": "default"},
        "full_attention": {"rope_type": "linear", "factor": 2.0},
    }
    assert context("gemma-4-31b-text", rope_parameters=ropes) == 2 * 262144
    # the length of a Gemma 3 is that of the scaled context
    assert context("gemma-3-1b", rope_parameters=ropes) == 32768


def test_longrope_stays_at_the_length_before_scaling() -> None:
    assert context("phi-3.5-mini") == 4096
    assert context("phi-3.5-mini", original_max_position_embeddings=8192) == 8192
    # with no such field outside, the length is the file's
    scaling = {"rope_type": "longrope", "original_max_position_embeddings": 2048}
    assert context(rope_scaling=scaling) == 40960


def test_the_shortest_length_of_the_file_holds() -> None:
    assert context(max_seq_len=1234) == 1234
    assert context(seq_length=99999) == 40960


def test_model_max_length_holds_over_all_others() -> None:
    assert context(model_max_length=65536) == 65536


@pytest.mark.parametrize("factor", [0, -1.0, "2", True])
def test_a_factor_is_a_number_above_0(factor: object) -> None:
    with pytest.raises(PatchkitError) as caught:
        context(rope_scaling={"rope_type": "linear", "factor": factor})
    assert caught.value.place == "config.json: rope_scaling.factor"
    assert caught.value.expected == "a number above 0"


def test_a_scaling_is_a_mapping() -> None:
    with pytest.raises(PatchkitError) as caught:
        context(rope_scaling="yarn")
    assert (caught.value.place, caught.value.fact) == ("config.json: rope_scaling", 'is "yarn"')


def test_defaults_of_a_scaling_are_the_familys() -> None:
    gpt = config("gpt-oss-20b", rope_scaling=None, max_position_embeddings=65536)
    assert read_model(gpt, name="c", release="0.28.0").max_model_len == 131072
    assert read_model(gpt, name="c", release="0.33.0").max_model_len == 65536


def test_an_architecture_that_a_release_lacks_is_refused() -> None:
    hybrid = config("qwen3.5-9b-text")
    assert read_model(hybrid, name="c", release="0.27.0").states
    with pytest.raises(PatchkitError) as caught:
        read_model(hybrid, name="c", release="0.26.0")
    assert str(caught.value) == (
        "c: architectures: Qwen3_5ForCausalLM comes with vLLM 0.27.0,"
        " expected an architecture that vLLM 0.26.0 has"
    )


def test_a_drafter_that_a_release_lacks_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        read_model(
            config("llama-3.1-8b"), name="c", drafter=config("drafter-dflash2-window"),
            drafter_name="draft.json", release="0.27.1",
        )  # fmt: skip
    assert caught.value.place == "draft.json: architectures"
    assert caught.value.fact == "DFlash2DraftModel comes with vLLM 0.28.0"
