"""What requests take, and how long they can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.kv.capacity import Needs, concurrent_batches, longest, tokens_in_flight
from patchkit.kv.layers import Model
from patchkit.kv.pages import FULL, STATE, WINDOW, Page
from patchkit.kv.planned import Plan
from patchkit.kv.rules import rules_for
from tests.kv.mixes import GIB, full, kind, model, options, planned, published, windows

DENSE = model(*full(2))
SPARSE = replace(DENSE, has_experts=True)
CHOSEN = replace(SPARSE, architecture="Qwen2MoeForCausalLM")
HYBRID = published()


@pytest.mark.parametrize(
    ("mix", "release", "stages", "sync", "batches"),
    [
        (DENSE, "0.28.0", 1, True, 1),
        (DENSE, "0.28.0", 3, True, 3),
        (DENSE, "0.28.0", 1, False, 2),
        (DENSE, "0.28.0", 3, False, 4),
        (SPARSE, "0.28.0", 1, False, 2),
        (SPARSE, "0.28.0", 3, False, 3),
        (CHOSEN, "0.28.0", 3, False, 4),
        (HYBRID, "0.28.0", 3, False, 3),
        (HYBRID, "0.29.0", 3, False, 4),
        (SPARSE, "0.29.0", 3, False, 4),
    ],
)
def test_batches_at_a_time(mix: Model, release: str, stages: int, sync: bool, batches: int) -> None:
    how = options(pipeline_parallel=stages, async_scheduling=not sync)
    assert concurrent_batches(mix, how, rules_for(release)) == batches


def test_the_cpu_runs_one_batch() -> None:
    assert concurrent_batches(DENSE, options(platform="cpu"), rules_for("0.28.0")) == 1


@pytest.mark.parametrize(("release", "tokens"), [("0.25.1", 2048), ("0.26.0", 4096)])
def test_tokens_in_flight(release: str, tokens: int) -> None:
    assert tokens_in_flight(HYBRID, options(), rules_for(release)) == tokens


def page(name: str, block: int, window: int | None = None) -> Page:
    return Page(name, "auto", (), block, 1, window=window)


@pytest.mark.parametrize(("tokens", "blocks"), [(1, 1), (16, 1), (17, 2), (1000, 63)])
def test_full_attention_holds_all_tokens(tokens: int, blocks: int) -> None:
    assert Needs(0, "none", 3).blocks(page(FULL, 16), tokens) == blocks


@pytest.mark.parametrize(
    ("tokens", "blocks"), [(1, 2), (16, 2), (17, 3), (130, 10), (131, 10), (145, 10), (9999, 10)]
)
def test_a_window_holds_what_it_sees_and_what_is_in_flight_and_may_start_within_a_block(
    tokens: int, blocks: int
) -> None:
    assert Needs(100, "none", 3).blocks(page(WINDOW, 16, 32), tokens) == blocks


@pytest.mark.parametrize(
    ("mode", "checkpoints", "blocks"), [("none", 0, 4), ("align", 0, 5), ("align", 1, 6)]
)
def test_states_are_kept_for_the_last_tokens(mode: str, checkpoints: int, blocks: int) -> None:
    needs = Needs(100, mode, 3, checkpoints)
    assert [needs.blocks(page(STATE, 16), tokens) for tokens in (1, 9999)] == [blocks] * 2


def test_states_of_all_blocks() -> None:
    needs = Needs(100, "all", 3)
    assert [needs.blocks(page(STATE, 16), tokens) for tokens in (1, 33)] == [4, 6]


@pytest.mark.parametrize(("available", "tokens"), [(0, 0), (9, 0), (10, 16), (25, 32), (999, 77)])
def test_the_longest_request(available: int, tokens: int) -> None:
    assert longest(lambda length: -(-length // 16) * 10, available, 77) == tokens


class TestNullBlock:
    """The block that stands for none: kept by every pool, checked from 0.29.0 on."""

    MIX = model(*full(2, 4, 128), longest=1024)
    BLOCK = 2 * 16 * 2048

    def of(self, blocks: int, release: str) -> Plan:
        return planned(self.MIX, "auto", options(blocks * self.BLOCK, max_num_seqs=99), release)

    @pytest.mark.parametrize(
        ("release", "blocks", "fits", "tokens"),
        [
            ("0.28.0", 64, True, 1024),
            ("0.28.0", 63, False, 1008),
            ("0.29.0", 65, True, 1024),
            ("0.29.0", 64, False, 1008),
        ],
    )
    def test_start(self, release: str, blocks: int, fits: bool, tokens: int) -> None:
        found = self.of(blocks, release)
        assert (found.num_blocks, found.fits, found.longest) == (blocks, fits, tokens)
        assert found.tokens == blocks * 16

    def test_a_request_of_all_blocks_would_wait(self) -> None:
        said = (
            "0.28.0 starts where the longest request needs all 64 blocks, but one is never given"
            " out: that request cannot be served"
        )
        assert said in self.of(64, "0.28.0").notes
        assert not any("given out" in note for note in self.of(65, "0.28.0").notes)
        assert not any("given out" in note for note in self.of(65, "0.29.0").notes)

    @pytest.mark.parametrize("release", ["0.28.0", "0.29.0"])
    def test_resident_requests(self, release: str) -> None:
        found = self.of(65, release)
        assert [found.resident(tokens) for tokens in (1024, 512, 513, 16, 1)] == [1, 2, 1, 64, 64]
        assert self.of(64, release).resident(1024) == 0

    def test_no_request_is_longer_than_the_maximum(self) -> None:
        assert self.of(999, "0.28.0").resident(1025) == 0

    def test_no_more_requests_than_sequences(self) -> None:
        assert planned(self.MIX, "auto", options(GIB, max_num_seqs=3)).resident(16) == 3


class TestLimit:
    def test_the_models_maximum(self) -> None:
        found = planned(model(*full(2), longest=40_960), "auto", options(GIB))
        assert found.limit == "the model's maximum, 40,960 tokens"
        assert found.max_model_len == found.longest == 40_960

    def test_the_maximum_asked_for(self) -> None:
        found = planned(model(*full(2)), "auto", options(GIB, max_model_len=1024))
        assert found.limit == "the maximum asked for, 1,024 tokens"

    def test_memory(self) -> None:
        how = options(draft_tokens=15, async_scheduling=False, max_model_len=131_072)
        found = planned(published(), "int8_per_token_head", how)
        assert found.limit == "memory: 242 of 350 blocks of a request hold full attention"

    def test_memory_for_not_even_one_token(self) -> None:
        found = planned(published(), "int8_per_token_head", options(8 * 10**8, draft_tokens=7))
        assert (found.longest, found.fits, found.num_blocks) == (0, False, 54)
        assert found.limit == "memory: 54 of 58 blocks of a request hold recurrent states"

    def test_no_memory_at_all(self) -> None:
        found = planned(published(), "kvarn_k4v2_g128", options(1000))
        assert found.available_bytes < 0
        assert (found.num_blocks, found.tokens, found.longest, found.fits) == (0, 0, 0, False)
        assert found.resident(1) == 0

    def test_windows_alone(self) -> None:
        found = planned(model(*windows(4), longest=9999), "auto", options(10**7))
        assert found.limit == "memory: 38 of 38 blocks of a request hold sliding windows"


@pytest.mark.parametrize(
    ("blocks", "longest_tokens", "tokens"),
    [(7, 80, 112), (8, 16 * 49, 8 * 16 - 1), (8, 16 * 50, 8 * 16)],
)
def test_tokens_are_cut_off_in_floating_point_as_the_engine_does(
    blocks: int, longest_tokens: int, tokens: int
) -> None:
    mix = model(*full(1, 1, 64), longest=longest_tokens)
    found = planned(mix, "auto", options(blocks * 16 * 256))
    assert found.concurrency == blocks / (longest_tokens // 16)
    assert found.tokens == tokens


def test_state_blocks_are_reckoned_in_bytes() -> None:
    found = planned(published(), "bfloat16", options(draft_tokens=7))
    assert kind(found, "state").blocks_per_request(1) == 9
    assert found.state_bytes_per_request == 6 * 9 * 8 * 1_835_008
