"""The primary block: what releases choose for hybrids, and beside layers that stay wider."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.kv.align import Primary, align_to_states, align_to_wider, first_block
from patchkit.kv.layers import StateLayer
from patchkit.kv.planned import RefusedError
from patchkit.kv.rules import Backend, rules_for
from tests.kv.mixes import GIB, STATES, full, kind, model, options, planned, published, refused

ANY = Backend("ANY", multiple_of=16)
WIDE = Backend("WIDE", multiple_of=32)
TILE = Backend("TILE", fixed=(128,))
OLD, ALL_CHOOSE, ALL_ALIGN = rules_for("0.28.0"), rules_for("0.31.0"), rules_for("0.32.0")


class TestFirstBlock:
    def test_that_of_the_first_backend(self) -> None:
        assert first_block([TILE, ANY], None, "cuda", OLD) == 128
        assert first_block([ANY, TILE], None, "cuda", OLD) == 16

    def test_that_of_all_backends(self) -> None:
        assert first_block([ANY, TILE], None, "cuda", ALL_CHOOSE) == 128

    def test_the_cpus(self) -> None:
        assert first_block([WIDE], None, "cpu", OLD) == 128

    def test_the_one_asked_for(self) -> None:
        assert first_block([ANY], 48, "cuda", OLD) == 48

    def test_one_that_a_backend_cannot_split(self) -> None:
        with pytest.raises(RefusedError) as error:
            first_block([ANY, WIDE], 48, "cuda", OLD)
        assert error.value.reason == (
            "a block of 48 tokens cannot be split into kernel blocks of WIDE"
        )
        assert error.value.expected == "multiples of 32 tokens"


def aligned(block: int, token_bytes: int, state_bytes: int, **words: object) -> Primary:
    usual: dict[str, object] = {
        "backends": [ANY], "mode": "align", "chunk": None, "checkpoint_tokens": 1, "rules": OLD,
    }  # fmt: skip
    backends = words.pop("backends", usual.pop("backends"))
    return align_to_states(block, token_bytes, state_bytes, backends, **{**usual, **words})  # type: ignore[arg-type]


class TestStates:
    def test_the_least_multiple_whose_page_covers_one(self) -> None:
        found = aligned(16, 100, 16_001)
        assert (found.block, found.state_page_bytes, found.state_block) == (176, 17_600, 176)
        assert found.steps == (
            "full attention block 16 → 176 tokens: its page of 17,600 bytes covers a state of"
            " 16,001 bytes, in steps of 16 tokens",
            "state page 16,001 → 17,600 bytes: padded, +9.99 %",
        )

    def test_a_page_that_fits_is_not_padded(self) -> None:
        found = aligned(16, 100, 16_000)
        assert (found.block, found.state_page_bytes) == (160, None)
        assert len(found.steps) == 1

    def test_a_block_that_was_asked_for_is_the_step(self) -> None:
        assert aligned(48, 100, 16_001).block == 192
        assert aligned(800, 100, 16_001).block == 800

    def test_without_prefix_caching_states_have_no_block(self) -> None:
        assert aligned(16, 100, 16_001, mode="none").state_block is None

    def test_chunks(self) -> None:
        found = aligned(16, 100, 16_001, mode="all", chunk=24)
        assert (found.block, found.state_block) == (192, 192)
        assert aligned(800, 100, 16_001, mode="all", chunk=24).block == 2400

    def test_the_smallest_block_of_every_backend_from_0_32_0_on(self) -> None:
        assert aligned(16, 100, 16_001, backends=[ANY, WIDE]).block == 176
        assert aligned(16, 100, 16_001, backends=[ANY, WIDE], rules=ALL_ALIGN).block == 192

    def test_checkpoints(self) -> None:
        assert aligned(16, 100, 16_001, checkpoint_tokens=64).block == 192


class TestCheckpoints:
    """States that are kept inside a prefill, from 0.33.0 on: blocks of 64, one block more."""

    @pytest.mark.parametrize(
        ("release", "asked", "block", "blocks"),
        [("0.32.0", True, 864, 9), ("0.33.0", False, 864, 9), ("0.33.0", True, 896, 10)],
    )
    def test_block(self, release: str, asked: bool, block: int, blocks: int) -> None:
        how = options(draft_tokens=7, prefill_checkpoints=asked)
        found = planned(published(drafter=False), "int8_per_token_head", how, release)
        assert kind(found, "full").block == block
        assert kind(found, "state").blocks_per_request(32_768) == blocks

    def test_not_without_prefix_caching(self) -> None:
        how = options(draft_tokens=7, prefill_checkpoints=True, prefix_caching=False)
        found = planned(published(drafter=False), "int8_per_token_head", how, "0.33.0")
        assert kind(found, "full").block == 864
        assert kind(found, "state").blocks_per_request(32_768) == 8


class TestBesideWiderLayers:
    """TurboQuant keeps the first and the last two layers of a dense model as they are."""

    def test_a_block_covers_the_smallest_one_of_these(self) -> None:
        found = align_to_wider(Primary(16), 2048, 4096, ANY)
        assert (found.block, found.shared_page_bytes, found.state_page_bytes) == (32, 65_536, None)
        assert found.steps == (
            "full attention block 16 → 32 tokens: covers 16 tokens of the layers that stay wider,"
            " 65,536 bytes",
        )

    def test_of_one_width(self) -> None:
        assert align_to_wider(Primary(16), 2048, 2048, ANY) == Primary(16)

    def test_of_a_block_that_is_large_enough(self) -> None:
        found = align_to_wider(Primary(64), 2048, 4096, ANY)
        assert found == Primary(64, shared_page_bytes=131_072)

    def test_with_states(self) -> None:
        found = align_to_wider(Primary(16, state_page_bytes=70_000), 2048, 4096, ANY)
        assert (found.block, found.state_page_bytes) == (48, 98_304)

    @pytest.mark.parametrize(("layers", "wider"), [(12, 4), (4, 4), (3, 2), (1, 0)])
    def test_ends_of_a_dense_model(self, layers: int, wider: int) -> None:
        found = planned(model(*full(layers)), "turboquant_4bit_nc", options(GIB))
        counts = {each.format: each.layers for each in found.kinds}
        assert counts.get("auto", 0) == wider
        assert counts.get("turboquant_4bit_nc", 0) == layers - wider
        assert {each.block for each in found.kinds} == {32 if wider else 16}

    def test_ends_of_a_model_of_32_bits(self) -> None:
        found = planned(model(*full(12), dtype="float32"), "turboquant_4bit_nc", options(GIB))
        assert {each.block for each in found.kinds} == {64}

    def test_a_block_is_the_sum_of_unlike_pages(self) -> None:
        found = planned(model(*full(12)), "turboquant_4bit_nc", options(GIB))
        assert found.block_bytes == 32 * (4 * 4096 + 8 * 1048)
        assert [each.groups for each in found.kinds] == [1, 0]
        assert found.page_bytes == 32 * 4096

    def test_a_hybrid_keeps_none(self) -> None:
        found = planned(published(drafter=False), "turboquant_4bit_nc", options())
        assert [each.format for each in found.kinds] == ["", "turboquant_4bit_nc"]


def test_the_largest_state_of_the_target_counts() -> None:
    larger = (replace(STATES[0], width=9), STATES[1])
    layers = [*full(1), StateLayer(1, STATES), StateLayer(2, larger)]
    found = planned(model(*layers), "fp8", options())
    assert kind(found, "full").block == 864  # 1,757,184 bytes of state, 2,048 a token
    assert found.page_bytes == 864 * 2048


@pytest.mark.parametrize(("release", "starts"), [("0.26.0", False), ("0.27.0", True)])
def test_an_aligned_block_in_one_batch(release: str, starts: bool) -> None:
    mix, how = published(drafter=False), options(max_num_batched_tokens=847)
    if starts:
        assert kind(planned(mix, "int8_per_token_head", how, release), "full").block == 800
    mix, how = published(drafter=False), options(max_num_batched_tokens=799)
    if starts:
        planned(mix, "int8_per_token_head", how, release)
        return
    found = refused(mix, "int8_per_token_head", how, release)
    assert found.reason == (
        "a block of 800 tokens does not fit into a batch of 799, as 0.26.0 needs where states are"
        " cached at the ends of blocks"
    )
    assert found.expected == "max_num_batched_tokens of 800 or more"
    assert found.hint == "no prefix caching, or 0.27.0 or later"
    planned(mix, "int8_per_token_head", options(max_num_batched_tokens=800), release)
    uncached = options(max_num_batched_tokens=799, prefix_caching=False)
    planned(mix, "int8_per_token_head", uncached, release)


def test_values_are_taken_to_be_as_wide_as_keys() -> None:
    """As 0.28.0 has it: 400 tokens of 4 x (256 + 256) elements cover the state."""
    narrow = tuple(
        layer if isinstance(layer, StateLayer) else replace(layer, head_dim_v=128)
        for layer in published(drafter=False).layers
    )
    found = planned(model(*narrow), "auto", options(GIB))
    assert [(each.block, each.page_bytes) for each in found.kinds] == [(400, 1_638_400)] * 2
    assert kind(found, "full").content_bytes == 1_228_800
