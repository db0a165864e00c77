"""Pages of one size: scaled, padded, or a reason why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.kv.layers import AttentionLayer
from patchkit.kv.pages import FULL, STATE, WINDOW, Page
from patchkit.kv.planned import Options, Plan, Refusal, RefusedError
from patchkit.kv.rules import Backend, rules_for
from patchkit.kv.unify import unify
from tests.kv.mixes import GIB, full, kind, model, options, planned, refused, tried, windows

BY_STRIDE = Backend("BY_STRIDE", multiple_of=16)
DENSE = Backend("DENSE", multiple_of=16, block_stride=False)
PADS_STATES, PADS_ALL, PADS_NO_STATES = (
    rules_for(release) for release in ("0.28.0", "0.29.0", "0.25.1")
)


def page(token_bytes: int, block: int = 16, backend: Backend = BY_STRIDE, name: str = FULL) -> Page:
    return Page(name, "auto", (token_bytes,), block, token_bytes, backend=backend)


def state(size: int, padded: int | None = None) -> Page:
    return Page(STATE, "", (size,), 4096, 0, state_bytes=size, padded_bytes=padded)


def test_pages_of_one_size_stay() -> None:
    pages = (page(100), page(50, 32), state(1600))
    assert unify(pages, PADS_STATES) == pages


def test_a_page_that_divides_is_scaled() -> None:
    small, large = page(100), page(100, 48)
    assert unify([small, large], PADS_STATES) == (small.with_block(48), large)


def test_a_page_that_does_not_divide_is_padded() -> None:
    small, large = page(100), page(150)
    assert unify([small, large], PADS_STATES) == (small.padded(2400), large)


def test_a_state_is_padded_even_where_it_divides() -> None:
    assert unify([state(1200), page(150)], PADS_STATES)[0] == state(1200, 2400)
    assert unify([state(1000), page(150)], PADS_STATES)[0] == state(1000, 2400)


def reason(*pages: Page, release: str) -> str:
    with pytest.raises(RefusedError) as error:
        unify(pages, rules_for(release))
    return error.value.reason


def test_a_backend_that_cannot_pad() -> None:
    pages = page(776, backend=DENSE, name=WINDOW), state(12_648_448)
    assert reason(*pages, release="0.28.0") == (
        "a window page of 12,416 bytes does not divide the largest page of 12,648,448 bytes:"
        " 8,960 bytes are left, the next multiple is 12,651,904 (+0.027 %), and DENSE cannot read"
        " padded pages on 0.28.0"
    )
    assert unify(pages, PADS_ALL)[0] == pages[0].padded(12_648_448)


@pytest.mark.parametrize("size", [1000, 1200])
def test_a_state_on_releases_that_cannot_pad_it(size: int) -> None:
    assert reason(state(size), page(150), release="0.25.1") == (
        f"0.25.1 cannot pad the page of a recurrent state, {size:,} bytes, to the largest page of"
        " 2,400 bytes"
    )
    assert unify([state(2400), page(150)], PADS_NO_STATES) == (state(2400), page(150))


def test_a_page_that_is_padded_already_and_would_be_scaled() -> None:
    assert reason(page(100).padded(2000), page(250), release="0.28.0") == (
        "a full page of 2,000 bytes is padded already, and cannot be scaled to the largest page of"
        " 4,000 bytes"
    )
    assert unify([page(100).padded(2000), page(300)], PADS_STATES)[0] == page(100).padded(4800)


class TestGlobalAndLocalHeads:
    """Head sizes 256 and 512, 256 tokens times heads to a block, a scale for each of K and V."""

    SIZES = 133_120, 264_192

    def mix(self, name: str, **words: object) -> Plan:
        layers = [*full(2, 16, 512), *windows(10, 16, 256, 1024, first=2)]
        how = options(GIB, group_rule="upstream", **words)
        return planned(model(*layers, heads=32, longest=4096), name, how)

    def test_pages_with_scales_do_not_divide(self) -> None:
        found = self.mix("int8_per_token_head", promotion=False)
        window, whole = kind(found, "window"), kind(found, "full")
        assert (window.content_bytes, whole.content_bytes) == self.SIZES
        assert (window.block, window.page_bytes) == (16, 264_192)
        assert found.steps[0] == (
            "window page 133,120 → 264,192 bytes: padded, 50.39 % of it is used"
        )

    def test_promotion_pads_the_others(self) -> None:
        found = self.mix("int8_per_token_head", prefix_caching=False)
        window, whole = kind(found, "window"), kind(found, "full")
        assert (window.block, window.page_bytes, window.padding_bytes) == (32, 266_240, 0)
        assert (whole.block, whole.padding_bytes) == (16, 2_048)
        assert found.steps[:2] == (
            "full attention page 264,192 → 266,240 bytes: padded, 99.23 % of it is used",
            "window block 16 → 32 tokens: promoted, page 264,192 → 266,240 bytes, +0.78 %",
        )

    def test_sixteen_bit_pages_divide(self) -> None:
        found = self.mix("auto")
        assert kind(found, "window").block == 32
        assert found.steps[0] == (
            "window block 16 → 32 tokens: scaled to the page of 524,288 bytes"
        )


class TestStateBesidePages:
    """A state page of P that no block scales, beside attention pages of 2P and of 2P/3."""

    @pytest.mark.parametrize(("token_bytes", "after"), [(200, (16, 3200)), (50, (32, 1600))])
    def test_divides(self, token_bytes: int, after: tuple[int, int]) -> None:
        found = unify([state(1600), page(token_bytes)], PADS_STATES)
        assert (found[1].block, found[1].page_bytes) == after
        assert found[0].page_bytes == after[1]

    def test_two_thirds_are_padded_by_stride(self) -> None:
        found = unify([state(2400), page(100)], PADS_STATES)
        assert found[1] == page(100).padded(2400)

    def test_two_thirds_are_refused_without(self) -> None:
        said = reason(state(2400), page(100, backend=DENSE), release="0.28.0")
        assert said.startswith("a full page of 1,600 bytes does not divide the largest page of")
        assert "800 bytes are left, the next multiple is 3,200 (+33.333 %)" in said


class TestSplitPages:
    """A padded page cannot be split into kernel blocks."""

    MIX = model(*full(2, 4, 128), *windows(4, 8, 256, 1024, first=2))

    def how(self, backend: str) -> Options:
        return options(GIB, block_size=48, backend=backend, group_rule="upstream", promotion=False)

    @pytest.mark.parametrize("release", ["0.28.0", "0.29.0"])
    def test_a_backend_with_fixed_blocks(self, release: str) -> None:
        found = refused(self.MIX, "auto", self.how("FLASHINFER"), release)
        assert (found.reason, found.hint) == (
            "a full page of 98,304 bytes would be padded to 131,072, and its block of 48 tokens"
            " split into kernel blocks of 16: FLASHINFER cannot split a padded page",
            "a backend that takes any multiple of 16 tokens, such as TRITON_ATTN",
        )

    def test_a_backend_that_reads_any_multiple(self) -> None:
        found = planned(self.MIX, "auto", self.how("TRITON_ATTN"))
        assert kind(found, "full").kernel_block == 48
        assert kind(found, "full").page_bytes == 131_072

    def test_a_block_that_is_a_kernel_block(self) -> None:
        """Its page is padded all the same."""
        layers = [*full(2, 4, 128), *windows(4, 6, 128, 1024, first=2)]
        found = planned(model(*layers), "auto", replace(self.how("FLASHINFER"), block_size=32))
        assert (kind(found, "window").kernel_block, kind(found, "window").block) == (16, 16)
        assert kind(found, "window").padding_bytes == 65_536 - 49_152


@pytest.mark.parametrize(("release", "starts"), [("0.27.1", False), ("0.28.0", True)])
def test_full_layers_that_differ_in_their_values_alone(release: str, starts: bool) -> None:
    """0.27.1 gives both pages of 32,768 bytes, 0.28.0 32,768 and 24,576."""
    wide, narrow = AttentionLayer(0, 4, 128, 128), AttentionLayer(1, 4, 128, 64)
    found = tried(model(wide, narrow), "auto", options(GIB), release)
    if starts:
        assert isinstance(found, Plan)
        assert [each.page_bytes for each in found.kinds] == [32_768, 24_576]
    else:
        assert isinstance(found, Refusal)
        assert found.reason == (
            "full layers take 1,536, 2,048 bytes a token and differ in the width of their values"
            " alone: 0.27.1 gives all of them the page of the first"
        )
        assert found.hint == "0.28.0 or later"


@pytest.mark.parametrize("other", [AttentionLayer(1, 2, 128, 64), AttentionLayer(1, 4, 64, 128)])
def test_full_layers_that_differ_in_more_keep_their_pages(other: AttentionLayer) -> None:
    wide = AttentionLayer(0, 4, 128, 128)
    found = planned(model(wide, other), "auto", options(GIB), "0.27.1")
    content = 16 * 2 * other.num_kv_heads * (other.head_dim + other.head_dim_v)
    assert [each.page_bytes for each in found.kinds] == [32_768, content]


def test_windows_that_differ_in_their_values_alone_keep_their_pages() -> None:
    wide, narrow = AttentionLayer(0, 4, 128, 128, 512), AttentionLayer(1, 4, 128, 64, 512)
    found = planned(model(wide, narrow), "auto", options(GIB), "0.27.1")
    assert [each.page_bytes for each in found.kinds] == [32_768, 24_576]
