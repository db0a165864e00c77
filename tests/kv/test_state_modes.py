"""Facts about recurrent states that random models, held against the releases, have brought up."""

from __future__ import annotations

import pytest

from patchkit.kv.capacity import concurrent_batches
from patchkit.kv.layers import AttentionLayer, Model, StateLayer, StateTensor
from patchkit.kv.planned import Options
from patchkit.kv.rules import rules_for
from patchkit.kv.states import cache_mode


def hybrid(chunk: int | None) -> Model:
    tensor = StateTensor("recurrent", 32, 128 * 128, "float16")
    return Model(
        name="made up",
        architecture="Made",
        dtype="bfloat16",
        num_layers=2,
        num_attention_heads=8,
        max_model_len=4096,
        layers=(StateLayer(0, (tensor,), chunk=chunk), AttentionLayer(1, 4, 128, 128)),
    )


@pytest.mark.parametrize(
    ("release", "chunk", "asked", "mode", "told"),
    [
        ("0.27.1", 256, None, "all", None),
        ("0.28.0", 256, None, "align", None),
        ("0.27.1", None, None, "align", None),
        (
            "0.27.1",
            256,
            "none",
            "all",
            "state cache mode 'none' is 'all' with prefix caching",
        ),
        (
            "0.28.0",
            256,
            "none",
            "align",
            "state cache mode 'none' is 'align' with prefix caching",
        ),
        (
            "0.27.1",
            None,
            "none",
            "align",
            "state cache mode 'none' is 'align', since these states have no chunks",
        ),
        (
            "0.28.0",
            None,
            "all",
            "align",
            "state cache mode 'all' is 'align', since these states have no chunks",
        ),
        ("0.28.0", 256, "all", "all", None),
        ("0.27.1", 256, "align", "align", None),
    ],
)
def test_states_are_kept_inside_a_sequence_by_default_up_to_0_27_1(
    release: str, chunk: int | None, asked: str | None, mode: str, told: str | None
) -> None:
    options = Options(memory_bytes=0, state_cache_mode=asked)
    assert cache_mode(hybrid(chunk), options, rules_for(release)) == (mode, told)


@pytest.mark.parametrize(
    ("release", "asked", "batches"),
    [("0.29.0", "all", 3), ("0.30.0", "all", 2), ("0.30.0", "align", 3), ("0.31.0", "all", 2)],
)
def test_with_two_stages_the_second_runner_has_a_batch_more_unless_it_cannot_take_the_mode(
    release: str, asked: str, batches: int
) -> None:
    options = Options(memory_bytes=0, pipeline_parallel=2, state_cache_mode=asked)
    assert concurrent_batches(hybrid(256), options, rules_for(release)) == batches
