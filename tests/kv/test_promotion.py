"""When small blocks are promoted, and when they are left as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.kv.formats import read_formats
from patchkit.kv.layers import Model
from patchkit.kv.plan import plan
from patchkit.kv.planned import Options, Plan
from tests.kv.mixes import full, kind, model, options, planned, published, windows

INT8 = "int8_per_token_head"


def window_block(how: Options, name: str = INT8, release: str = "0.28.0", drafts: int = 7) -> int:
    mix = published()
    return kind(planned(mix, name, replace(how, draft_tokens=drafts), release), "window").block


@pytest.mark.parametrize(
    ("name", "drafts", "primary", "promoted", "page"),
    [
        (INT8, 7, 864, 864, 1_824_768),
        (INT8, 15, 944, 944, 1_993_728),
        ("fp8_per_token_head", 3, 816, 816, 1_723_392),
        ("int4_per_token_head", 7, 1696, 1648, 1_793_024),
    ],
)
def test_promotion_by_format(
    name: str, drafts: int, primary: int, promoted: int, page: int
) -> None:
    """As tests/engine has it of the patched release."""
    how = options(draft_tokens=drafts, prefix_caching=False)
    found = planned(published(), name, how)
    assert (kind(found, "full").block, kind(found, "window").block) == (primary, promoted)
    assert {each.page_bytes for each in found.kinds} == {page}


@pytest.mark.parametrize(
    ("name", "block", "page"), [("bfloat16", 448, 1_835_008), ("fp8", 880, 1_802_240)]
)
def test_integer_ratios_are_scaled(name: str, block: int, page: int) -> None:
    found = planned(published(), name, options(draft_tokens=7))
    assert (kind(found, "window").block, found.page_bytes) == (block, page)
    assert not any("promoted" in step for step in found.steps)


@pytest.mark.parametrize(
    ("release", "block"),
    [("0.25.0", None), ("0.26.0", 864), ("0.27.1", 864), ("0.28.0", 864), ("0.29.0", 864),
     ("0.30.0", 864)],
)  # fmt: skip
def test_releases(release: str, block: int | None) -> None:
    """On 0.25 no state can be padded; from 0.30.0 on a window is born with the primary block."""
    how = options(prefix_caching=False)
    assert window_block(how, release=release) == (16 if block is None else block)


def test_without_the_patch() -> None:
    assert window_block(options(promotion=False)) == 16


class TestPrefixes:
    """With prefix caching blocks must still end where they did."""

    def test_blocks_with_another_common_multiple(self) -> None:
        """1,648 tokens would not end where 1,696 do."""
        assert window_block(options(prefix_caching=False), "int4_per_token_head") == 1648
        assert window_block(options(), "int4_per_token_head") == 16

    def test_the_primary_block(self) -> None:
        assert window_block(options()) == 864

    @pytest.mark.parametrize(("unit", "block"), [(864, 864), (16, 16), (432, 16)])
    def test_a_unit_within_the_promoted_block(self, unit: int, block: int) -> None:
        found = planned(
            published(),
            INT8,
            options(draft_tokens=7, prefix_match_unit=16 if block == 16 else unit),
        )
        assert kind(found, "window").block == block

    @pytest.mark.parametrize(("caching", "block"), [(False, 544), (True, 16)])
    def test_another_common_multiple_without_states(self, caching: bool, block: int) -> None:
        """400 tokens do not end where 544 do."""
        mix = model(*full(1, 2, 256), *windows(1, 3, 128, 512, first=1))
        how = options(20 << 30, prefix_caching=caching, block_size=400, backend="TRITON_ATTN")
        assert kind(planned(mix, "auto", how), "window").block == block


class TestLengths:
    """A request must need at least a page less in each layer, from the promoted block on."""

    def test_a_length_within_a_block(self) -> None:
        """At 48 tokens two of four blocks are saved, at 32 one: no more than what a pool loses."""
        how = options(draft_tokens=7, prefix_caching=False)
        blocks = {
            longest: kind(
                planned(published(), INT8, replace(how, max_model_len=longest)), "window"
            ).block
            for longest in (16, 32, 48, 864, 32_768)
        }
        assert blocks == {16: 16, 32: 16, 48: 864, 864: 864, 32_768: 864}

    def test_states_that_grow_outweigh_what_windows_save(self) -> None:
        """Two pages are saved where 17 tokens are seen and 32 are in flight.

        Without drafts 14 blocks grow by 25,600 bytes, with 15 of them 104 blocks by 30,208 bytes,
        and a page is wanted on top: 2,048,000 of 3,328,000 bytes, 5,135,360 of 3,927,040.
        """
        windowed = [replace(layer, window=17) for layer in published().attention[-5:]]
        mix = model(*published(drafter=False).layers, *windowed)
        how = options(prefix_caching=False, max_num_batched_tokens=16, max_model_len=2048)
        blocks = {
            drafts: kind(planned(mix, INT8, replace(how, draft_tokens=drafts)), "window").block
            for drafts in (0, 15)
        }
        assert blocks == {0: 800, 15: 16}

    def test_what_remains_at_twice_a_length(self) -> None:
        """What is saved at 768 tokens is too little for what remains at 900."""
        mix = model(*full(1, 8, 128), *windows(1, 5, 256, 128, first=1))
        how = options(20 << 30, prefix_caching=False, max_num_batched_tokens=256, block_size=48)
        found = planned(mix, INT8, replace(how, max_model_len=900))
        assert kind(found, "window").block == 16

    def test_lengths_from_the_smallest_promoted_block_on(self) -> None:
        """Blocks of 112 and 32 tokens: at 32 tokens what is saved is too little."""
        windowed = [*windows(1, 1, 256, 512, first=1), *windows(1, 8, 128, 17, first=2)]
        how = options(
            20 << 30,
            prefix_caching=False,
            max_num_batched_tokens=256,
            block_size=48,
            async_scheduling=False,
            max_model_len=512,
        )
        found = planned(model(*full(1, 4, 128), *windowed), "int4_per_token_head", how)
        assert [each.block for each in found.kinds] == [48, 16, 16]


class TestFollowers:
    """Layers that were not padded have to be read whole afterwards."""

    MIX = model(*full(4, 4, 256), *windows(4, 8, 128, 2048, first=4))
    SIX = model(*full(4, 4, 256), *windows(4, 6, 128, 2048, first=4))

    def of(self, mix: Model, name: str, block: int, **words: object) -> Plan:
        how = options(20 << 30, prefix_caching=False, group_rule="upstream", block_size=block)
        return planned(mix, name, replace(how, **words))  # type: ignore[arg-type]

    def test_scales_of_tokens_and_heads(self) -> None:
        found = self.of(self.MIX, INT8, 416)
        assert {each.page_bytes for each in found.kinds} == {416 * 2112}
        assert [each.block for each in found.kinds] == [416, 416]

    def test_a_backend_that_is_named(self) -> None:
        blocks = {
            name: kind(self.of(self.SIX, "auto", 400, backend=name), "window").block
            for name in ("TRITON_ATTN", "FLASH_ATTN", None)
        }
        assert blocks == {"TRITON_ATTN": 544, "FLASH_ATTN": 16, None: 16}

    def test_what_a_cpu_counts_as_named_is_not_named_on_a_card(self) -> None:
        """vLLM names TRITON_ATTN for Gemma 4 with two head sizes only where the card has no FA4."""
        gemma = replace(self.SIX, architecture="Gemma4ForCausalLM")
        assert kind(self.of(gemma, "auto", 400), "window").block == 16

    @pytest.mark.parametrize(
        ("size", "backend", "block"),
        [(128, None, 32), (128, "CPU_ATTN", 288), (64, None, 288)],
    )
    def test_heads_of_one_size_name_no_backend(
        self, size: int, backend: str | None, block: int
    ) -> None:
        """Pages of 425,984 bytes for 416 tokens, and windows of 3 x 128 in 49,152 for 32."""
        mix = model(*full(1, 256 // size, size), *windows(1, 3, 128, 512, first=1))
        gemma = replace(mix, architecture="Gemma4ForCausalLM")
        how = options(20 << 30, prefix_caching=False, block_size=416, platform="cpu")
        found = planned(gemma, "auto", replace(how, backend=backend), "0.29.0")
        assert kind(found, "window").block == block

    @pytest.mark.parametrize("drafts", [0, 1])
    def test_a_drafter_may_have_another_backend(self, drafts: int) -> None:
        found = self.of(self.SIX, "auto", 400, backend="TRITON_ATTN", draft_tokens=drafts)
        assert kind(found, "window").block == (16 if drafts else 544)
        mix = model(*self.SIX.layers, *full(1, drafter=True))
        found = self.of(mix, "auto", 400, backend="TRITON_ATTN")
        assert kind(found, "window").block == 16

    def test_of_two_that_are_promoted_the_smaller_page_is_padded(self) -> None:
        mix = model(*self.MIX.layers, *windows(4, 5, 128, 512, first=8))
        found = self.of(mix, INT8, 416)
        sizes = {each.window: (each.block, each.padding_bytes) for each in found.kinds}
        assert sizes == {None: (416, 13_312), 2048: (416, 0), 512: (656, 878_592 - 865_920)}

    def test_a_layer_that_can_be_scaled_is_padded_instead(self) -> None:
        """Its block was scaled to the page before; the page is larger now."""
        mix = model(*self.MIX.layers, *windows(4, 4, 256, 512, first=8))
        found = self.of(mix, INT8, 416)
        sizes = {each.window: (each.born_block, each.block) for each in found.kinds}
        assert sizes == {None: (416, 416), 2048: (16, 416), 512: (16, 416)}
        assert {each.page_bytes for each in found.kinds} == {878_592}

    def test_one_that_cannot_be_padded(self) -> None:
        """Pages of 865,280 bytes would have to follow to 917,504, and are split."""
        own = b"""
[formats.own_per_token_head]
key = { bits = 8, token_bytes = 4 }
value = { bits = 8, token_bytes = 4 }
backends = ["TURBOQUANT"]
window_format = "auto"
"""
        formats = read_formats({"own.toml": own})
        how = options(20 << 30, prefix_caching=False, group_rule="upstream", block_size=416)
        chosen = formats.get("own_per_token_head")
        found = plan(self.MIX, chosen, how, "0.28.0", formats=formats)
        assert isinstance(found, Plan)
        assert [(each.block, each.page_bytes) for each in found.kinds] == [
            (416, 865_280),
            (16, 865_280),
        ]
