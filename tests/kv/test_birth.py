"""The pages that layers ask for: the window's block above all."""

from __future__ import annotations

import pytest

from patchkit.kv.formats import read_formats
from patchkit.kv.plan import plan
from patchkit.kv.planned import Plan, Refusal
from tests.kv.mixes import GIB, full, kind, model, options, planned, published, refused, windows

KVARN = "kvarn_k4v2_g128"
GEMMA = model(*full(2, 16, 512), *windows(10, 16, 256, 1024, first=2), heads=32)


@pytest.mark.parametrize("release", ["0.25.1", "0.29.0", "0.30.0"])
def test_a_window_is_born_with_the_smallest_block(release: str) -> None:
    """Sixteen tokens are the primary block too."""
    found = planned(GEMMA, "int8_per_token_head", options(GIB, promotion=False), release)
    assert (kind(found, "window").born_block, kind(found, "window").block) == (16, 16)


@pytest.mark.parametrize(
    ("release", "backend", "asked", "born"),
    [
        ("0.29.0", "FLASH_ATTN", 80, 16),
        ("0.29.0", "FLASHINFER", 192, 16),
        ("0.30.0", "FLASH_ATTN", 80, 80),
        ("0.30.0", "FLASHINFER", 192, 64),
        ("0.33.0", "FLASHINFER", 48, 32),
    ],
)
def test_a_window_within_the_primary_block_from_0_30_0_on(
    release: str, backend: str, asked: int, born: int
) -> None:
    mix = model(*full(2, 4, 128), *windows(4, 4, 128, 1024, first=2))
    how = options(GIB, block_size=asked, backend=backend)
    assert kind(planned(mix, "auto", how, release), "window").born_block == born


class TestBesideTiles:
    """Windows of 16-bit values beside tiled pages, which are as large as a state."""

    @pytest.mark.parametrize(
        ("drafts", "primary", "block"),
        [(0, 2048, 256), (3, 2048, 256), (7, 2176, 128), (15, 2432, 128)],
    )
    def test_the_largest_divisor_in_whole_tiles(
        self, drafts: int, primary: int, block: int
    ) -> None:
        found = planned(published(), KVARN, options(20 * GIB, draft_tokens=drafts))
        assert (kind(found, "full").block, kind(found, "window").block) == (primary, block)
        assert kind(found, "window").page_bytes == kind(found, "full").page_bytes
        assert kind(found, "window").format == "auto"

    def test_the_whole_primary_block_where_it_fits(self) -> None:
        layers = [*published(drafter=False).layers, *windows(2, 1, 64, drafter=True)]
        found = planned(model(*layers), KVARN, options(20 * GIB, draft_tokens=7))
        assert kind(found, "window").block == 2176
        assert kind(found, "window").content_bytes == 2176 * 256

    def test_a_smaller_tile(self) -> None:
        found = planned(published(), "kvarn_k4v2_g64", options(20 * GIB, draft_tokens=7))
        assert (kind(found, "full").block, kind(found, "window").block) == (2048, 256)

    def test_a_tile_that_does_not_fit(self) -> None:
        layers = [*published(drafter=False).layers, *windows(2, 32, 256, drafter=True)]
        found = refused(model(*layers), KVARN, options(20 * GIB, draft_tokens=7))
        assert found == Refusal(
            KVARN,
            "0.28.0",
            "a sliding-window layer beside tiles of 128 tokens takes 4,194,304 bytes a tile, more"
            " than the shared page of 1,827,840",
            None,
            "a smaller tile, or fewer tensor-parallel ranks",
        )

    def test_its_tail_is_of_tiled_layers_alone(self) -> None:
        """144 rows of 4 x (256 + 256) values of 16 bits in each of 16 layers, for each request."""
        how = options(20 * GIB, draft_tokens=7, max_num_seqs=64)
        found = planned(published(), KVARN, how)
        assert found.tail_bytes == 64 * 16 * 144 * 4 * 512 * 2
        assert found.available_bytes == 20 * GIB - found.tail_bytes
        assert found.num_blocks == found.available_bytes // (8 * 1_827_840)

    def test_a_drafter_that_sees_everything_is_tiled_too(self) -> None:
        layers = [*published(drafter=False).layers, *full(1, drafter=True)]
        found = planned(model(*layers), KVARN, options(20 * GIB, group_rule="upstream"))
        assert kind(found, "full").layers == 17


def test_a_head_that_a_format_cannot_hold() -> None:
    found = refused(model(*full(2, 4, 96)), KVARN, options(GIB))
    assert found.reason == "kvarn_k4v2_g128 cannot hold such heads: head_dim is 96"
    assert found.expected == "64, 128, 256 or 512"


def test_a_format_without_windows() -> None:
    found = refused(GEMMA, "turboquant_4bit_nc", options(GIB))
    assert found.reason == "layers with a sliding window cannot cache turboquant_4bit_nc"
    assert found.hint == "a model whose layers see everything can have it"


def test_windows_in_four_bits_before_0_28_0() -> None:
    found = refused(GEMMA, "int4_per_token_head", options(GIB), "0.27.1")
    assert found.reason == (
        "layers with a sliding window cannot cache int4_per_token_head before vLLM 0.28.0"
    )
    planned(GEMMA, "int4_per_token_head", options(GIB))


def test_a_backend_for_layers_that_cannot_have_it() -> None:
    """KVarN's windows have a backend of their own."""
    found = planned(published(), KVARN, options(20 * GIB, backend="KVARN"))
    assert kind(found, "full").kernel_block == 128
    assert kind(found, "window").kernel_block == 256


OWN = b"""
[formats.narrow]
key = { bits = 8 }
value = { bits = 8 }
backends = ["FLASHINFER"]
boundary_layers = 2
"""


@pytest.mark.parametrize("release", ["0.28.0", "0.30.0"])
def test_windows_of_a_dense_model_whose_ends_stay_wider(release: str) -> None:
    """They are padded to 192 tokens of 1,024 bytes, and the ends have 192 of 2,048."""
    formats = read_formats({"own.toml": OWN})
    mix = model(*full(4, 2, 256), *windows(4, 2, 256, 1024, first=4), *full(4, 2, 256, first=8))
    found = plan(mix, formats.get("narrow"), options(GIB, block_size=192), release, formats=formats)
    assert isinstance(found, Refusal)
    assert found.reason == (
        "a window page of 196,608 bytes is padded already, and cannot be scaled to the largest"
        " page of 393,216 bytes"
    )


ENDS = b"""
[formats.narrow]
key = { bits = 8 }
value = { bits = 8 }
backends = ["FLASHINFER"]
boundary_layers = 1
"""


@pytest.mark.parametrize("release", ["0.28.0", "0.30.0"])
@pytest.mark.parametrize(("heads", "block"), [(2, 32), (1, 64)])
def test_windows_fill_the_page_that_ends_share(release: str, heads: int, block: int) -> None:
    """32 tokens of 1,024 bytes cover 16 of 2,048; windows have as many bytes, to the last."""
    formats = read_formats({"own.toml": ENDS})
    inner = windows(2, heads, 256, 1024, first=1)
    mix = model(*full(1, 2, 256), *inner, *full(1, 5, 128, first=3))
    how = options(GIB, promotion=False)
    found = plan(mix, formats.get("narrow"), how, release, formats=formats)
    assert isinstance(found, Plan)
    window = kind(found, "window")
    assert (window.born_block, window.content_bytes) == (block, 32_768)
    assert {each.page_bytes for each in found.kinds} == {81_920}


def test_a_drafter_of_a_dense_model_is_at_no_end() -> None:
    """As 0.28.0 has it: the drafter's page is as that of the inner layers, 17,152 bytes."""
    mix = model(*full(6, 4, 128), *full(1, 4, 128, first=6, drafter=True))
    found = planned(mix, "turboquant_4bit_nc", options(GIB, draft_tokens=1))
    assert [(each.format, each.layers, each.page_bytes) for each in found.kinds] == [
        ("auto", 4, 65_536),
        ("turboquant_4bit_nc", 3, 17_152),
    ]


TILED = b"""
[formats.tiles]
tile = 128
key = { bits = 4, channel_bytes = 4, token_bytes = 2 }
value = { bits = 2, channel_bytes = 2, token_bytes = 4 }
backends = ["OWN"]
"""


def test_windows_that_cache_tiles_themselves() -> None:
    """They ask for a tile, as others do for the smallest kernel block."""
    formats = read_formats({"own.toml": TILED})
    how = options(20 * GIB, promotion=False)
    found = plan(published(), formats.get("tiles"), how, "0.28.0", formats=formats)
    assert isinstance(found, Plan)
    window = kind(found, "window")
    assert (window.format, window.born_block, window.content_bytes) == ("tiles", 128, 110_592)
