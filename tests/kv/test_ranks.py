"""Tensor-parallel ranks and pipeline stages."""

from __future__ import annotations

import pytest

from patchkit.kv.layers import Layer, StateLayer, StateTensor
from patchkit.kv.planned import Refusal, RefusedError
from patchkit.kv.ranks import heads_per_rank, stages
from tests.kv.mixes import GIB, full, kind, model, options, planned, published, refused, windows


@pytest.mark.parametrize(
    ("heads", "ranks", "each"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (2, 8, 1), (1, 4, 1)]
)
def test_heads_are_shared_out_or_copied(heads: int, ranks: int, each: int) -> None:
    assert heads_per_rank(heads, ranks) == each


def test_tokens_take_what_one_rank_has_of_them() -> None:
    mix = model(*full(4, 4, 128), heads=32)
    sizes = [
        kind(planned(mix, "auto", options(GIB, tensor_parallel=ranks)), "full").token_bytes
        for ranks in (1, 2, 4, 8)
    ]
    assert sizes == [2048, 1024, 512, 512]


def test_states_are_shared_out() -> None:
    found = planned(published(), "fp8", options(GIB, tensor_parallel=4))
    assert kind(found, "state").content_bytes == 1_634_304 // 4
    assert kind(found, "full").block == 800


def test_three_ranks_for_four_heads() -> None:
    assert refused(published(), "auto", options(tensor_parallel=3)) == Refusal(
        "auto",
        "0.28.0",
        "the 4 KV heads can neither be shared out to 3 tensor-parallel ranks nor be copied to them"
        " evenly",
        "a divisor or a multiple of 4",
        None,
    )


def test_attention_heads_do_not_divide() -> None:
    found = refused(model(*full(2), heads=28), "auto", options(tensor_parallel=8))
    assert found.reason == "28 attention heads cannot be shared out to 8 tensor-parallel ranks"
    assert found.expected == "a divisor of 28"


def test_a_drafter_of_other_heads() -> None:
    mix = model(*full(2, 4), *full(1, 6, drafter=True), heads=24)
    found = refused(mix, "auto", options(tensor_parallel=4))
    assert found.reason == (
        "the drafter's 6 KV heads can neither be shared out to 4 tensor-parallel ranks nor be"
        " copied to them evenly"
    )
    assert found.expected == "a divisor or a multiple of 6"


def test_a_state_that_does_not_divide() -> None:
    tensors = (
        StateTensor("convolution", 6144, 1, "float16", 3),
        StateTensor("heads", 12, 64, "float16"),
    )
    mix = model(*full(1, 8), StateLayer(1, tensors), heads=24)
    found = refused(mix, "auto", options(tensor_parallel=8))
    assert (
        found.reason == "12 rows of the heads state cannot be shared out to 8 tensor-parallel ranks"
    )
    assert found.expected == "a divisor of 12"


@pytest.mark.parametrize(
    ("layers", "count", "sizes"),
    [
        (8, 1, [8]),
        (8, 2, [4, 4]),
        (7, 2, [4, 3]),
        (10, 4, [2, 3, 3, 2]),
        (11, 4, [3, 3, 3, 2]),
        (5, 3, [2, 2, 1]),
    ],
)
def test_layers_that_are_left_go_before_the_last_stage(
    layers: int, count: int, sizes: list[int]
) -> None:
    found = stages(model(*full(layers)), count)
    assert [len(stage) for stage in found] == sizes
    assert [place for stage in found for place in stage] == list(range(layers))


def test_a_drafter_is_on_the_last_stage() -> None:
    mix = model(*full(4), *windows(2, drafter=True))
    assert stages(mix, 2) == ((0, 1), (2, 3, 4, 5))


def test_layers_without_a_cache_count() -> None:
    """Seven layers of which the second and the last cache nothing: stages are of all seven."""
    kept: list[Layer] = [*full(1), *full(4, first=2)]
    mix = model(*kept)
    assert stages(mix.__class__(**{**mix.__dict__, "num_layers": 7}), 2) == ((0, 1, 2), (3, 4))


@pytest.mark.parametrize("count", [0, 5])
def test_more_stages_than_layers(count: int) -> None:
    with pytest.raises(RefusedError) as error:
        stages(model(*full(4)), count)
    assert error.value.reason == f"4 layers cannot be shared out to {count} pipeline stages"
    assert error.value.expected == "1 to 4"


class TestStages:
    """A plan is that of the stage with the least room."""

    def test_of_one_kind(self) -> None:
        mix = model(*full(7, 8, 128), longest=4096)
        whole = planned(mix, "auto", options(GIB))
        halves = planned(mix, "auto", options(GIB, pipeline_parallel=2))
        assert (whole.block_bytes, halves.block_bytes) == (7 * 65_536, 4 * 65_536)
        assert (whole.num_blocks, halves.num_blocks) == (2340, 4096)
        assert (kind(halves, "full").layers, halves.group_size) == (4, 4)
        assert halves.tokens == 4096 * 16

    def test_groups_are_those_of_the_whole_model(self) -> None:
        mix = model(*full(4), *windows(8, 4, 256, first=4), longest=4096)
        found = planned(mix, "auto", options(GIB, pipeline_parallel=2, group_rule="upstream"))
        # Groups of four: each window group has three layers on the second stage.
        assert [each.groups for each in found.kinds] == [1, 2]
        assert (found.group_size, found.block_bytes) == (4, 4 * 65_536)

    def test_a_stage_without_a_cache(self) -> None:
        mix = model(*full(2))
        mix = mix.__class__(**{**mix.__dict__, "num_layers": 4})
        found = refused(mix, "auto", options(pipeline_parallel=2))
        assert found.reason == "pipeline stage 2 has no layer with a cache"
