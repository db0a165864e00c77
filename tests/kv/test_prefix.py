"""Where prefixes are matched, and which units are refused."""

from __future__ import annotations

import pytest

from patchkit.kv.grouping import Group
from patchkit.kv.pages import FULL, STATE, Page
from patchkit.kv.planned import Refusal, RefusedError
from patchkit.kv.prefix import check_tile, match_unit
from patchkit.kv.rules import rules_for
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


def test_272_of_2176_ends_inside_a_tile() -> None:
    how = options(20 * GIB, draft_tokens=7, prefix_match_unit=272)
    mix = published(drafter=False)
    assert kind(planned(mix, KVARN, options(20 * GIB, draft_tokens=7)), "full").block == 2176
    assert refused(mix, KVARN, how) == Refusal(
        KVARN,
        "0.28.0",
        "a prefix match unit of 272 tokens ends inside a tile of 128 tokens of kvarn_k4v2_g128",
        "a multiple of 128",
        "a newer release, a larger --block-size or --no-prefix-caching may do",
    )


def test_272_is_no_block_of_a_window_beside_tiles() -> None:
    """It divides 2,176 and is a multiple of 16, and its page of 1,114,112 bytes would fit."""
    found = planned(published(), KVARN, options(20 * GIB, draft_tokens=7))
    window = kind(found, "window")
    assert (window.format, window.token_bytes, window.block) == ("auto", 4096, 128)
    assert (window.content_bytes, window.page_bytes) == (524_288, 1_827_840)
    assert window.page_bytes > 272 * 4096


@pytest.mark.parametrize("unit", [128, 2176])
def test_whole_tiles_can_be_matched(unit: int) -> None:
    how = options(20 * GIB, draft_tokens=7, prefix_match_unit=unit)
    planned(published(drafter=False), KVARN, how)


def test_a_unit_that_divides_no_block() -> None:
    how = options(draft_tokens=7, prefix_match_unit=128)
    found = refused(published(drafter=False), "int8_per_token_head", how)
    assert found.reason == (
        "blocks of 864 tokens are no multiples of the prefix match unit of 128 tokens"
    )
    assert found.expected == "a divisor of 864"


def test_no_unit_counts_without_prefix_caching() -> None:
    how = options(draft_tokens=7, prefix_match_unit=128, prefix_caching=False)
    planned(published(drafter=False), "int8_per_token_head", how)


def test_a_window_of_16_tokens_beside_a_tile_without_states() -> None:
    layers = [*full(2), *windows(2, 4, 256, first=2)]
    found = refused(model(*layers), KVARN, options(GIB, promotion=False))
    assert found.reason == (
        "a prefix match unit of 16 tokens ends inside a tile of 128 tokens of kvarn_k4v2_g128"
    )
    planned(model(*layers), KVARN, options(GIB, promotion=False, prefix_caching=False))


@pytest.mark.parametrize(("release", "starts"), [("0.31.0", True), ("0.32.0", False)])
def test_another_unit_than_the_block_of_the_only_group(release: str, starts: bool) -> None:
    found = tried(model(*full(2)), "auto", options(GIB, prefix_match_unit=8), release)
    assert isinstance(found, Refusal) != starts
    if isinstance(found, Refusal):
        assert found.reason == (
            "prefixes are matched by the block, 16 tokens, where there is one group: a unit of 8"
            " tokens cannot be had"
        )
        assert found.expected == "16 or none"
    planned(model(*full(2)), "auto", options(GIB, prefix_match_unit=16), release)


@pytest.mark.parametrize(("unit", "whole"), [(128, True), (2176, True), (64, False), (192, False)])
def test_a_unit_holds_whole_tiles(unit: int, whole: bool) -> None:
    if whole:
        check_tile(unit, 128, "tiled")
        return
    with pytest.raises(RefusedError) as refusal:
        check_tile(unit, 128, "tiled")
    assert refusal.value.expected == "a multiple of 128"


def test_a_release_without_a_unit() -> None:
    found = refused(model(*full(2)), "auto", options(GIB, prefix_match_unit=16), "0.25.1")
    assert found.reason == "0.25.1 has no --prefix-match-unit"
    assert found.hint == "it comes with 0.26.0"


def test_states_that_are_not_aligned_are_matched_by_whole_blocks() -> None:
    """Then any unit goes, since it is not looked at."""
    from dataclasses import replace

    mix = published(drafter=False)
    chunked = tuple(
        replace(layer, chunk=64) if layer in mix.states else layer for layer in mix.layers
    )
    how = options(prefix_match_unit=7, state_cache_mode="all")
    planned(replace(mix, layers=chunked), "fp8", how)
    assert refused(mix, "fp8", how).reason == (
        "blocks of 800 tokens are no multiples of the prefix match unit of 7 tokens"
    )


@pytest.mark.parametrize(("release", "starts"), [("0.27.1", False), ("0.28.0", True)])
def test_states_in_blocks_of_the_same_size_are_matched_up_to_0_27(
    release: str, starts: bool
) -> None:
    """0.27.1: "Invalid prefix_match_unit=128; … Got group block sizes=[832, 832, 832, 832]"."""
    mix = published(drafter=False, chunk=64)
    how = options(prefix_match_unit=128, state_cache_mode="all")
    found = tried(mix, "fp8", how, release)
    assert isinstance(found, Refusal) != starts
    if isinstance(found, Refusal):
        assert found.reason == (
            "blocks of 832 tokens are no multiples of the prefix match unit of 128 tokens"
        )


def test_states_in_other_blocks_are_not_matched_up_to_0_27() -> None:
    """0.27.1: scheduler and hash blocks of 1,536 tokens."""
    full_page = Page(FULL, "fp8", (4, 256, 256), 768, 2048)
    groups = [
        Group((0,), full_page),
        Group((1,), Page(STATE, "", (), 512, 0, state_bytes=1_572_864)),
    ]
    how = options(prefix_match_unit=7)
    assert match_unit(groups, 768, "all", how, rules_for("0.27.1")) == 1536
