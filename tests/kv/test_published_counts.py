"""The published counts, to the token, and the published sizes, to the byte."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from patchkit.kv.planned import Plan
from tests.kv.mixes import (
    GIB,
    POOL,
    TILED_POOL,
    kind,
    options,
    planned,
    published,
    tail,
)

KVARN = "kvarn_k4v2_g128"
INT8 = "int8_per_token_head"


def count(name: str, drafts: int, longest: int, *, cached: bool, sync: bool) -> Plan:
    pool = TILED_POOL + tail(name, drafts) if name == KVARN else POOL
    how = options(
        pool,
        draft_tokens=drafts,
        max_model_len=longest,
        prefix_caching=cached,
        async_scheduling=not sync,
    )
    return planned(published(), name, how)


@pytest.mark.parametrize(
    ("name", "drafts", "longest", "cached", "sync", "page", "blocks", "parts", "of", "tokens"),
    [
        ("bfloat16", 7, 65_536, False, False, 1_835_008, (448, 448), (294, 48, 15), 380, 69_758),
        (INT8, 7, 131_072, False, False, 1_824_768, (864, 864), (304, 48, 9), 382, 138_696),
        (INT8, 7, 131_072, True, False, 1_824_768, (864, 864), (304, 54, 9), 382, 136_429),
        (KVARN, 7, 245_760, True, False, 1_827_840, (2176, 128), (226, 54, 49), 359, 268_169),
        (KVARN, 15, 221_184, True, True, 2_042_880, (2432, 128), (182, 102, 33), 321, 223_974),
        ("bfloat16", 15, 57_344, True, True, 1_966_080, (480, 480), (240, 102, 10), 354, 57_669),
        (INT8, 15, 114_224, True, True, 1_993_728, (944, 944), (242, 102, 6), 350, 114_224),
    ],
)
def test_tokens(
    name: str,
    drafts: int,
    longest: int,
    cached: bool,
    sync: bool,
    page: int,
    blocks: tuple[int, int],
    parts: tuple[int, int, int],
    of: int,
    tokens: int,
) -> None:
    found = count(name, drafts, longest, cached=cached, sync=sync)
    kinds = [kind(found, word) for word in ("full", "state", "window")]
    assert [each.groups for each in kinds] == [2, 6, 1]
    assert [each.layers for each in kinds] == [16, 48, 5]
    assert [each.groups * each.blocks_per_request(longest) for each in kinds] == list(parts)
    assert (kinds[0].block, kinds[2].block) == blocks
    assert (found.page_bytes, found.group_size, found.block_bytes) == (page, 8, 8 * page)
    assert (found.blocks_per_request, found.num_blocks) == (sum(parts), of)
    assert found.tokens == tokens
    assert found.fits
    assert found.longest == longest
    assert found.available_bytes == (TILED_POOL if name == KVARN else POOL)


def test_the_estimated_maximum_is_the_longest_that_starts() -> None:
    found = count(INT8, 15, 262_144, cached=True, sync=True)
    assert (found.fits, found.longest) == (False, 114_224)
    assert found.longest == 121 * 944


@pytest.mark.parametrize(
    ("longest", "gib", "fits"), [(245_760, 5.160, False), (229_376, 4.947, False)]
)
def test_needed_bytes_of_tiles(longest: int, gib: float, fits: bool) -> None:
    found = count(KVARN, 15, longest, cached=True, sync=True)
    assert (round(found.needed_bytes / GIB, 3), found.fits) == (gib, fits)
    assert round(found.available_bytes / GIB, 3) == 4.900


FIVE = (0, 3, 5, 7, 15)


@pytest.mark.parametrize(
    ("name", "blocks", "page"),
    [
        (KVARN, (2048, 2048, 2176, 2176, 2432), 1_827_840),
        ("kvarn_k4v2_g128_pow2", (1664, 1664, 1792, 1792, 1920), 1_835_008),
        ("kvarn_k4v4_g128", (1536, 1664, 1664, 1664, 1792), 1_823_744),
        ("kvarn_k4v2_g64", (1856, 1920, 1984, 2048, 2240), 1_818_624),
        ("bfloat16", (400, 416, 432, 448, 480), 1_835_008),
        ("fp8", (800, 832, 848, 880, 960), 1_802_240),
        (INT8, (800, 816, 848, 864, 944), 1_797_120),
        ("fp8_per_token_head", (800, 816, 848, 864, 944), 1_797_120),
        ("int4_per_token_head", (1552, 1616, 1648, 1696, 1840), 1_790_976),
        ("turboquant_4bit_nc", (1568, 1632, 1664, 1712, 1856), 1_794_176),
    ],
)
def test_blocks_of_the_target(name: str, blocks: tuple[int, ...], page: int) -> None:
    found = [
        planned(published(drafter=False), name, options(20 * GIB, draft_tokens=drafts))
        for drafts in FIVE
    ]
    assert tuple(kind(each, "full").block for each in found) == blocks
    assert found[3].page_bytes == page


@pytest.mark.parametrize(
    ("name", "drafts", "block"),
    [
        ("bfloat16", 7, 448),
        ("bfloat16", 15, 480),
        (INT8, 7, 864),
        ("fp8", 3, 832),
        (KVARN, 7, 2176),
        (KVARN, 3, 2048),
    ],
)
def test_blocks_of_the_state_page_with_drafts(name: str, drafts: int, block: int) -> None:
    found = planned(published(), name, options(20 * GIB, draft_tokens=drafts))
    full, state = kind(found, "full"), kind(found, "state")
    assert full.block == state.block == block
    assert state.content_bytes == 1_572_864 + 20_480 * (3 + drafts)


@pytest.mark.parametrize(
    ("name", "token_bytes"), [(KVARN, 840), ("kvarn_k4v2_g128_pow2", 1024), (INT8, 2080)]
)
def test_bytes_of_a_token_in_a_layer(name: str, token_bytes: int) -> None:
    found = planned(published(), name, options(20 * GIB))
    assert kind(found, "full").token_bytes == token_bytes


class TestBesideAWiderDrafter:
    """Where a window of 2,112 bytes a token stands beside full attention of 2,080."""

    def of(self, longest: int, *, promotion: bool, name: str = INT8, pool: int = POOL) -> Plan:
        how = options(
            pool,
            draft_tokens=7,
            max_model_len=longest,
            prefix_caching=False,
            promotion=promotion,
        )
        return planned(published(), name, how)

    def test_sixteen_tokens_take_a_page(self) -> None:
        found = self.of(32_768, promotion=False)
        window = kind(found, "window")
        assert (window.born_block, window.block) == (16, 16)
        assert (window.content_bytes, window.page_bytes) == (33_792, 1_797_120)
        assert round(100 * window.content_bytes / window.page_bytes, 2) == 1.88
        assert window.blocks_per_request(32_768) == 385 == ceil((2047 + 4096) / 16) + 1
        assert round(385 * found.block_bytes / GIB, 3) == 5.155
        assert found.blocks_per_request == 509
        assert round(found.needed_bytes / GIB, 3) == 6.815
        assert round(100 * 385 / 509, 1) == 75.6

    def test_promotion_makes_864_of_them(self) -> None:
        found = self.of(32_768, promotion=True)
        window, whole = kind(found, "window"), kind(found, "full")
        assert (window.born_block, window.block, window.page_bytes) == (16, 864, 1_824_768)
        assert (whole.block, whole.content_bytes, whole.page_bytes) == (864, 1_797_120, 1_824_768)
        assert window.padding_bytes == 0
        assert whole.padding_bytes == 27_648
        assert window.blocks_per_request(32_768) == 9
        assert round(9 * found.block_bytes / GIB, 3) == 0.122

    @pytest.mark.parametrize("pool", [4_025_548_800, 4_039_925_759])
    def test_estimated_maxima(self, pool: int) -> None:
        """The pool is not published: these are the least and the most that give the first one."""
        before = self.of(131_072, promotion=False, pool=pool)
        after = self.of(131_072, promotion=True, pool=pool)
        assert (before.longest, after.longest) == (3_536, 94_176) == (221 * 16, 109 * 864)

    @pytest.mark.parametrize("pool", [3_978_297_344, 4_007_657_471])
    def test_the_estimated_maximum_of_bfloat16(self, pool: int) -> None:
        for promotion in (False, True):
            found = self.of(65_536, promotion=promotion, name="bfloat16", pool=pool)
            assert found.longest == 46_592 == 104 * 448

    def test_the_pool_of_the_counts_starts_with_promotion_alone(self) -> None:
        assert not self.of(131_072, promotion=False).fits
        assert self.of(131_072, promotion=True).fits

    def test_integer_ratios_are_left_alone(self) -> None:
        before = self.of(65_536, promotion=False, name="bfloat16")
        after = self.of(65_536, promotion=True, name="bfloat16")
        assert replace(before, options=after.options) == after
        assert kind(after, "window").block == 448


def test_a_state_of_a_resident_request() -> None:
    found = count(KVARN, 7, 245_760, cached=True, sync=False)
    assert round(found.state_bytes_per_request / GIB, 3) == 0.735
    assert found.tail_bytes == tail(KVARN, 7)
