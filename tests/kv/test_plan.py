"""Plans as a whole: what is refused, what is told, and what each release makes of one model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.planned import Options, Refusal
from tests.kv.mixes import (
    GIB,
    full,
    kind,
    model,
    options,
    planned,
    published,
    refused,
    tried,
    windows,
)

KVARN = "kvarn_k4v2_g128"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"memory_bytes": -1}, "memory_bytes is -1, expected 0 or more"),
        ({"tensor_parallel": 0}, "tensor_parallel is 0, expected 1 or more"),
        ({"max_model_len": 0}, "max_model_len is 0, expected 1 or more"),
        ({"draft_tokens": -1}, "draft_tokens is -1, expected 0 or more"),
        ({"block_size": 0}, "block_size is 0, expected 1 or more"),
        ({"max_num_seqs": 0}, "max_num_seqs is 0, expected 1 or more"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0, expected 1 or more"),
        ({"prefix_match_unit": 0}, "prefix_match_unit is 0, expected 1 or more"),
        ({"pipeline_parallel": 0}, "pipeline_parallel is 0, expected 1 or more"),
        ({"platform": "tpu"}, "platform is 'tpu', expected one of cuda, cpu"),
        ({"group_rule": "odd"}, "group_rule is 'odd', expected one of upstream, even"),
    ],
)
def test_options_that_make_no_sense(words: dict[str, object], said: str) -> None:
    with pytest.raises(PatchkitError) as error:
        tried(model(*full(2)), "auto", replace(options(GIB), **words))  # type: ignore[arg-type]
    assert str(error.value) == said


def test_a_format_that_a_release_lacks() -> None:
    assert refused(model(*full(2)), "nvfp4_4over6", options(GIB), "0.27.1") == Refusal(
        "nvfp4_4over6",
        "0.27.1",
        "nvfp4_4over6 comes with vLLM 0.28.0, 0.27.1 does not know it",
        None,
        None,
    )


def test_a_backend_that_does_not_take_a_format() -> None:
    found = refused(model(*full(2)), "int8_per_token_head", options(GIB, backend="FLASH_ATTN"))
    assert found.reason == "the attention backend FLASH_ATTN does not take int8_per_token_head"
    assert found.expected == "TRITON_ATTN"


class TestCpu:
    def test_formats(self) -> None:
        found = refused(model(*full(2)), "int8_per_token_head", options(GIB, platform="cpu"))
        assert found.reason == "the CPU has no backend for int8_per_token_head"
        assert found.expected == "auto, fp8, fp8_e4m3, fp8_e5m2"

    def test_blocks(self) -> None:
        found = planned(model(*full(2)), "fp8", options(GIB, platform="cpu"))
        assert (kind(found, "full").block, kind(found, "full").kernel_block) == (128, 128)

    @pytest.mark.parametrize(("release", "born"), [("0.28.0", 16), ("0.29.0", 32), ("0.30.0", 128)])
    def test_windows(self, release: str, born: int) -> None:
        mix = model(*full(2), *windows(2, 4, 256, first=2))
        found = planned(mix, "auto", options(GIB, platform="cpu"), release)
        assert kind(found, "window").born_block == born
        assert kind(found, "window").block == 128

    def test_pages_are_padded_from_0_29_0_on(self) -> None:
        mix = model(*full(2, 4, 128), *windows(2, 4, 192, first=2))
        how = options(GIB, platform="cpu")
        assert refused(mix, "auto", how).reason == (
            "a window page of 49,152 bytes does not divide the largest page of 262,144 bytes:"
            " 16,384 bytes are left, the next multiple is 294,912 (+12.500 %), and CPU_ATTN cannot"
            " read padded pages on 0.28.0"
        )
        assert kind(planned(mix, "auto", how, "0.29.0"), "window").block == 32

    def test_hybrids(self) -> None:
        how = options(platform="cpu", draft_tokens=7)
        found = planned(published(drafter=False), "auto", how)
        assert kind(found, "full").block == 512  # in steps of 128


class TestStateCacheModes:
    MIX = published(drafter=False)

    def blocks(self, release: str = "0.28.0", **words: object) -> int:
        how = options(draft_tokens=3, **words)
        return kind(planned(self.MIX, "fp8", how, release), "state").blocks_per_request(9999)

    def test_by_prefix_caching(self) -> None:
        assert self.blocks() == 5
        assert self.blocks(prefix_caching=False) == 4

    def test_none_is_align_with_prefix_caching(self) -> None:
        how = options(state_cache_mode="none")
        found = planned(self.MIX, "fp8", how)
        assert "state cache mode 'none' is 'align' with prefix caching" in found.notes
        assert kind(found, "state").blocks_per_request(9999) == 2

    def test_align_is_none_without(self) -> None:
        found = planned(self.MIX, "fp8", options(state_cache_mode="align", prefix_caching=False))
        assert "state cache mode 'align' is 'none' without prefix caching" in found.notes
        assert kind(found, "state").blocks_per_request(9999) == 1

    def test_all_needs_chunks(self) -> None:
        found = planned(self.MIX, "fp8", options(20 * GIB, state_cache_mode="all"))
        assert found.notes == (
            "state cache mode 'all' is 'align', since these states have no chunks",
        )

    def test_all(self) -> None:
        chunked = tuple(
            replace(layer, chunk=256) if layer in self.MIX.states else layer
            for layer in self.MIX.layers
        )
        mix = replace(self.MIX, layers=chunked)
        found = planned(
            mix, "fp8", options(state_cache_mode="all", draft_tokens=3, max_model_len=9999)
        )
        state = kind(found, "state")
        assert (state.block, state.blocks_per_request(9999)) == (1024, 10 + 3)
        assert found.notes == ()

    def test_all_needs_chunks_of_every_layer(self) -> None:
        first = self.MIX.states[0]
        layers = (replace(first, chunk=256), *self.MIX.layers[1:])
        how = options(20 * GIB, state_cache_mode="all", draft_tokens=3)
        found = planned(replace(self.MIX, layers=layers), "fp8", how)
        assert kind(found, "state").blocks_per_request(9999) == 5

    def test_all_is_gone_in_0_32_0(self) -> None:
        found = refused(self.MIX, "fp8", options(state_cache_mode="all"), "0.32.0")
        assert (found.reason, found.expected) == (
            "0.32.0 has no state cache mode 'all'",
            "none, align",
        )

    def test_the_block_of_a_state(self) -> None:
        aligned = planned(self.MIX, "fp8", options())
        alone = planned(self.MIX, "fp8", options(prefix_caching=False, max_model_len=9999))
        assert kind(aligned, "state").block == 800
        assert kind(alone, "state").block == 9999

    def test_no_word_of_states_where_there_are_none(self) -> None:
        assert (
            planned(model(*full(2)), "auto", options(20 * GIB, state_cache_mode="all")).notes == ()
        )


def test_notes() -> None:
    mix = replace(model(*full(2)), notes=("heads were counted",))
    found = planned(mix, "nvfp4", options(GIB, max_model_len=300_000))
    assert found.notes == (
        "heads were counted",
        "nvfp4 needs a card with compute capability 10.x",
        "the model is made for 262,144 tokens",
    )
    assert planned(mix, KVARN, options(GIB)).notes[1] == "kvarn_k4v2_g128 needs the KVarN port"


def test_batches_of_pipelines_are_told_where_windows_hang_on_them() -> None:
    mix = model(*full(2), *windows(2, 4, 256, first=2))
    found = planned(mix, "auto", options(20 * GIB, pipeline_parallel=2))
    assert found.notes == ("taken to run 3 batches at a time, as its default runner does",)


def test_steps() -> None:
    how = options(draft_tokens=7, prefix_caching=False)
    assert planned(published(), "int8_per_token_head", how).steps == (
        "full attention block 16 → 864 tokens: its page of 1,797,120 bytes covers a state of"
        " 1,777,664 bytes, in steps of 16 tokens",
        "state page 1,777,664 → 1,797,120 bytes: padded, +1.09 %",
        "state page 1,797,120 → 1,824,768 bytes: padded, 97.42 % of it is used",
        "full attention page 1,797,120 → 1,824,768 bytes: padded, 98.48 % of it is used",
        "window block 16 → 864 tokens: promoted, page 1,797,120 → 1,824,768 bytes, +1.54 %",
        "groups of 8 layers: 6 state, 2 full attention, 1 window; 3 of 72 places stay unused",
    )
    assert planned(published(), "int8_per_token_head", replace(how, promotion=False)).steps[2:] == (
        "window page 33,792 → 1,797,120 bytes: padded, 1.88 % of it is used",
        "groups of 8 layers: 6 state, 2 full attention, 1 window; 3 of 72 places stay unused",
    )
    assert planned(published(), KVARN, options(20 * GIB, draft_tokens=7)).steps[2] == (
        "window block 128 tokens: what the shared page of 1,827,840 bytes holds, 28.68 % of it is"
        " used"
    )
    assert planned(model(*full(2)), "auto", options(GIB)).steps == ("one group of 2 layers",)


def test_upstream_groups() -> None:
    """Five layers to a group, and 4 of 20 and 2 of 50 places stay unused."""
    how = options(draft_tokens=7, prefix_caching=False, group_rule="upstream")
    found = planned(published(), "bfloat16", how)
    assert {each.kind: each.groups for each in found.kinds} == {"full": 4, "state": 10, "window": 1}
    assert found.steps[-1].endswith("; 6 of 75 places stay unused")


def test_states_alone() -> None:
    states = published(drafter=False).states
    mix = model(*(replace(layer, index=at) for at, layer in enumerate(states)))
    found = planned(mix, "auto", options(prefix_caching=False))
    assert (found.blocks_per_request, found.fits) == (1, True)
    assert found.block_bytes == 48 * 1_634_304
    assert kind(planned(mix, "auto", options()), "state").block == 16


def test_a_plan_is_told_of_what_it_was_made_for() -> None:
    how = Options(GIB)
    found = planned(model(*full(2)), "auto", how, "v0.28.0")
    assert (found.format, found.release, found.options) == ("auto", "0.28.0", how)


def test_groups_are_said_to_be_of_all_stages_where_pages_are_of_one() -> None:
    found = planned(model(*full(6)), "auto", options(GIB, pipeline_parallel=3))
    assert found.steps == ("one group of 6 layers over all 3 stages",)
    assert [kind.layers for kind in found.kinds] == [2]
    mix = model(*full(2), *windows(2, 4, 256, first=2))
    found = planned(mix, "auto", options(20 * GIB, pipeline_parallel=2))
    assert found.steps == ("groups of 2 layers over all 2 stages: 1 full attention, 1 window",)


@pytest.mark.parametrize(("ranks", "noted"), [(16, False), (32, True)])
def test_a_stage_of_states_alone_is_noted(ranks: int, noted: bool) -> None:
    """Every fourth layer is full attention: of two layers each second stage has none."""
    found = planned(published(drafter=False), "auto", options(pipeline_parallel=ranks))
    said = [note for note in found.notes if note.startswith("pipeline stage 1, 3, 5, 7, ")]
    assert len(said) == noted


def test_heads_that_are_kept_more_than_once_are_told() -> None:
    eight = model(*full(2, 8), heads=64)
    said = "8 KV heads on 16 ranks: each rank keeps one, and each head is kept 2 times"
    assert planned(eight, "auto", options(GIB, tensor_parallel=16)).notes == (said,)
    assert planned(eight, "auto", options(GIB, tensor_parallel=8)).notes == ()
