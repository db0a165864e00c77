"""The rule of block promotion, on specs made by hand: which layers, which page, and when not.

Where a test says "Broken:", that was broken in the patch's function, and it is what fails for it.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine.conftest import stored_versions

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)
if not stored_versions("block-promotion.patch"):
    pytest.skip("no block-promotion.patch is stored for this release", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.v1.kv_cache_interface import (
        ChunkedLocalAttentionSpec,
        FullAttentionSpec,
        KVCacheSpec,
        MambaSpec,
        MLAAttentionSpec,
        SlidingWindowSpec,
    )

    from tests.engine.kv_cases import (
        HAS_STRIDE,
        Case,
        attention,
        groups,
        hidden_states,
        needed_bytes,
        shapes,
        started,
        state,
    )

pytestmark = pytest.mark.engine

WINDOW = 2048
PADDABLE = {"indexes_kv_by_block_stride": True} if HAS_STRIDE else {}


def full(block: int, heads: int, content: int, **fields: object) -> FullAttentionSpec:
    """A full layer made by hand: `heads` x `content` bytes a token."""
    return FullAttentionSpec(
        block_size=block,
        num_kv_heads=heads,
        head_size=content // 2,
        dtype=torch.int8,
        **{**PADDABLE, **fields},
    )


def window(block: int, heads: int, content: int, **fields: object) -> SlidingWindowSpec:
    """A sliding-window layer made by hand: `heads` x `content` bytes a token."""
    return SlidingWindowSpec(
        block_size=block,
        num_kv_heads=heads,
        head_size=content // 2,
        dtype=torch.int8,
        **{"sliding_window": WINDOW, **PADDABLE, **fields},
    )


def mla(block: int, size: int) -> MLAAttentionSpec:
    """A layer that no release pads: `size` bytes a token."""
    return MLAAttentionSpec(block_size=block, num_kv_heads=1, head_size=size, dtype=torch.int8)


MAXIMUM = full(864, 4, 520)  # 1,797,120 bytes
SMALL = window(16, 8, 264)  # 33,792 bytes, raised to 54 times that: 1,824,768


def case(specs: dict[str, KVCacheSpec], **fields: Any) -> Case:
    """Layers whose backend is named, and reads whole blocks."""
    return Case([specs], **{"backend": "TRITON_ATTN", **fields})


def made(module: Any, asked: Case) -> dict[str, tuple[int, int]]:
    """Block and page of each layer, by the release's own groups."""
    return {
        name: (group.kv_cache_spec.block_size, group.kv_cache_spec.page_size_bytes)
        for group in groups(module, asked)
        for name in group.layer_names
    }


def untouched(release: Any, asked: Case) -> bool:
    return shapes(groups(release.patched, asked)) == shapes(groups(release.pristine, asked))


def layers(*kinds: tuple[str, int, KVCacheSpec]) -> dict[str, KVCacheSpec]:
    """So many layers of each kind."""
    return {f"{name}.{i}": spec for name, count, spec in kinds for i in range(count)}


BOTH = {"full": MAXIMUM, "small": SMALL}


def test_the_small_layer_is_raised_and_the_large_one_padded(release) -> None:
    assert made(release.pristine, case(BOTH))["small"] == (16, 1_797_120)
    assert made(release.patched, case(BOTH)) == {
        "full": (864, 1_824_768),
        "small": (864, 1_824_768),
    }


def test_a_small_full_layer_is_raised_too(release) -> None:
    asked = case(layers(("window", 8, window(864, 4, 520)), ("small", 8, full(16, 8, 264))))
    assert made(release.patched, asked)["small.0"] == (864, 1_824_768)


@pytest.mark.parametrize(
    "stuck",
    [
        mla(864, 2080),  # has the page itself
        mla(16, 2080),  # is scaled to it, and cannot be padded then
    ],
)
def test_a_layer_that_cannot_follow_leaves_all_as_they_were(release, stuck) -> None:
    asked = case({**BOTH, "stuck": stuck})
    assert untouched(release, asked)
    assert made(release.patched, asked)["small"] == (16, 1_797_120)


def test_the_release_s_own_refusal_is_kept(release) -> None:
    asked = case({**BOTH, "stuck": mla(16, 2000), "chunked": CHUNKED})
    said = []
    for module in (release.pristine, release.patched):
        with pytest.raises(NotImplementedError, match="Layer stuck: page size is not") as refusal:
            groups(module, asked)
        said.append(str(refusal.value))
    assert said[0] == said[1]


def test_a_layer_that_is_padded_already_is_not_raised(release) -> None:
    padded = replace(SMALL, page_size_padded=40_000)
    assert untouched(release, case({"full": MAXIMUM, "padded": padded}))
    after = made(release.patched, case({**BOTH, "padded": padded}))
    assert after["padded"] == (16, 1_824_768)
    assert after["small"] == (864, 1_824_768)


CHUNKED = ChunkedLocalAttentionSpec(
    block_size=16,
    num_kv_heads=8,
    head_size=68,
    dtype=torch.int8,
    attention_chunk_size=WINDOW,
    **PADDABLE,
)


def test_only_full_and_window_layers_are_raised(release) -> None:
    assert untouched(release, case({"full": MAXIMUM, "chunked": CHUNKED}))
    assert made(release.patched, case({**BOTH, "chunked": CHUNKED}))["chunked"] == (16, 1_824_768)


def test_several_small_layers_share_the_largest_promoted_page(release) -> None:
    smaller = window(16, 8, 136)  # 17,408 bytes: 104 times that is 1,810,432
    exact = window(16, 4, 520)  # 54 times that is the old page, which is padded
    after = made(release.patched, case({**BOTH, "smaller": smaller, "exact": exact}))
    assert after == {
        "full": (864, 1_824_768),
        "smaller": (1664, 1_824_768),
        "exact": (864, 1_824_768),
        "small": (864, 1_824_768),
    }


def test_a_state_layer_follows_where_the_release_can_pad_one(release) -> None:
    asked = case({**BOTH, "state": state(1_797_120, 864)})
    if release.version.startswith("0.25."):
        assert untouched(release, asked)
    else:
        assert made(release.patched, asked)["state"] == (864, 1_824_768)


# Backends that are not known to read whole blocks ------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "promoted"),
    [
        ({"backend": "TRITON_ATTN"}, True),
        ({"backend": "CPU_ATTN"}, True),
        ({"backend": "FLASHINFER"}, False),
        ({"backend": None}, False),
        ({"drafter": True}, False),
        ({"kind_backends": {"full_attention": "FLASHINFER"}}, False),
    ],
)
def test_a_page_is_newly_padded_only_where_the_block_is_read_whole(
    release, fields, promoted
) -> None:
    assert untouched(release, case(BOTH, **fields)) != promoted


def test_scales_per_token_and_head_say_that_the_block_is_read_whole(release) -> None:
    """Broken: the mode of the cache not asked."""
    specs = {
        "full": attention(FullAttentionSpec, 864, 4, 256),
        "small": attention(SlidingWindowSpec, 16, 8, 128, sliding_window=WINDOW),
    }
    after = made(release.patched, case(specs, backend=None, drafter=True))
    assert after == {"full": (864, 1_824_768), "small": (864, 1_824_768)}


def test_a_page_that_is_padded_already_is_padded_further_by_any_backend(release) -> None:
    """The largest page is a window's that was born with padding: its block stays what it was."""
    large = window(864, 4, 516, page_size_padded=1_797_120)
    asked = case({"full": full(16, 8, 264), "large": large}, backend="FLASHINFER")
    assert made(release.patched, asked) == {"full": (864, 1_824_768), "large": (864, 1_824_768)}


# What a request needs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specs", "promoted"),
    [
        # Head sizes 512 and 256 with four heads: 133,120 of 264,192 bytes, two are 266,240.
        (layers(("full", 5, full(64, 4, 1032)), ("small", 25, window(64, 4, 520))), (128, 266_240)),
        # 16,384 of 33,280 bytes: three blocks would cost the others 48 % to save this one 51 %.
        (layers(("full", 16, full(16, 4, 520)), ("small", 5, window(16, 2, 512))), None),
        # Raising the smaller of 33,280 and 33,792 bytes would waste half of the larger one.
        (layers(("large", 16, window(16, 8, 264)), ("small", 5, full(16, 4, 520))), None),
    ],
)
def test_promotion_must_make_a_request_cheaper(release, specs, promoted) -> None:
    after = made(release.patched, case(specs))
    if promoted is None:
        assert untouched(release, case(specs))
    else:
        assert after["small.0"] == promoted
        assert after["full.0"] == (64, promoted[1])


def test_a_window_saves_the_same_however_long_a_request_is_and_pages_cost_more(release) -> None:
    """A token takes fewer bytes over all layers either way: that alone decides nothing."""
    specs = layers(("full", 20, full(48, 4, 520)), ("small", 5, SMALL))
    assert made(release.patched, case(specs))["small.0"] == (48, 101_376)
    assert untouched(release, case(specs, max_model_len=1_000_000))


def test_a_request_that_is_shorter_than_a_promoted_block_gains_nothing(release) -> None:
    assert untouched(release, case(BOTH, max_model_len=16))
    assert made(release.patched, case(BOTH, max_model_len=500))["small"] == (864, 1_824_768)


def test_the_configuration_keeps_the_length_of_its_longest_request(release) -> None:
    """Broken: the length that is refused, 48 tokens or twice that, left in place."""
    specs = layers(("full", 4, full(64, 4, 520)), ("small", 2, window(16, 8, 512)))
    config = case(specs, max_model_len=500).config()
    release.patched.get_kv_cache_groups(config, specs)
    assert config.model_config.max_model_len == 500


def as_if_promoted(release: Any, asked: Case) -> list[Any]:
    """The release's groups, every small block of which is raised whatever it costs."""
    before = groups(release.pristine, asked)
    page = before[0].kv_cache_spec.page_size_bytes
    specs = []
    for group in before:
        spec = replace(group.kv_cache_spec, page_size_padded=None)
        specs.append(replace(spec, block_size=spec.block_size * -(-page // spec.page_size_bytes)))
    largest = max(spec.page_size_bytes for spec in specs)
    return [
        replace(group, kv_cache_spec=replace(spec, page_size_padded=largest))
        for group, spec in zip(before, specs, strict=True)
    ]


@pytest.mark.parametrize(
    ("specs", "longest", "tokens", "bytes_before", "bytes_raised"),
    [
        # Broken: only the longest request looked at. That one would gain.
        pytest.param(
            layers(("full", 4, full(64, 4, 520)), ("small", 2, window(16, 8, 512))),
            {"max_model_len": 500},
            49,
            1_863_680,
            1_966_080,
            id="a length below the longest",
        ),
        # Broken: lengths from the largest of 48 and 624 tokens on.
        pytest.param(
            layers(
                ("full", 20, full(80, 4, 520)),
                ("small", 1, window(16, 2, 136)),
                ("other", 1, window(16, 8, 520, sliding_window=512)),
            ),
            {"max_model_len": 500, "in_flight": 1},
            48,
            4_659_200,
            4_792_320,
            id="the smallest of the promoted blocks",
        ),
        # Broken: what remains is counted at the length itself, not at twice that.
        pytest.param(
            layers(("full", 1, full(48, 4, 520)), ("small", 5, window(16, 8, 512))),
            {"max_model_len": 2048},
            33,
            2_096_640,
            2_097_152,
            id="between a length and twice that",
        ),
    ],
)
def test_no_request_from_the_promoted_block_on_may_need_more(
    release, specs, longest, tokens, bytes_before, bytes_raised
) -> None:
    asked = case(specs, **longest)
    before, raised = groups(release.pristine, asked), as_if_promoted(release, asked)
    needed = [needed_bytes(release.pristine, asked, each, tokens) for each in (before, raised)]
    assert needed == [bytes_before, bytes_raised]
    end = asked.max_model_len
    assert needed_bytes(release.pristine, asked, raised, end) < needed_bytes(
        release.pristine, asked, before, end
    )
    assert untouched(release, asked)


def test_a_pool_that_is_no_multiple_of_the_new_page_holds_as_many_tokens(release) -> None:
    """91 pages of 99,840 bytes or 89 of 101,376: less, but not by what a pool of 133 pages loses.

    It would have 130 of the larger pages, for 5,982 tokens. Broken: no page of slack; half of one.
    """
    specs = {"full": full(48, 4, 520), "small": window(16, 8, 264, sliding_window=64)}
    asked = case(specs, max_model_len=4096, in_flight=1)
    before, raised = groups(release.pristine, asked), as_if_promoted(release, asked)
    needed = [needed_bytes(release.pristine, asked, each, 4096) for each in (before, raised)]
    assert needed == [91 * 99_840, 89 * 101_376]
    memory = 133 * 99_840
    assert (4096 * 133 // 91, 4096 * (memory // 101_376) // 89) == (5986, 5982)
    holds = started(release.patched, asked, [memory])
    assert holds is not None
    assert holds[:2] == (4096, 5986)


def test_a_length_vouches_for_those_up_to_twice_that_and_no_further(release) -> None:
    """At 128 tokens too little is saved for what 200 need. Broken: a step of four lengths."""
    specs = layers(
        ("full", 12, full(96, 4, 520)),
        ("small", 1, window(16, 8, 512, sliding_window=4096)),
        ("other", 3, window(16, 1, 512, sliding_window=64)),
    )
    assert untouched(release, case(specs, max_model_len=200, in_flight=1))


def test_no_length_beyond_the_longest_request_counts(release) -> None:
    """Broken: what remains counted at twice the longest."""
    specs = layers(("full", 1, full(128, 4, 520)), ("small", 1, window(16, 8, 512)))
    specs["small.0"] = replace(specs["small.0"], sliding_window=64)
    after = made(release.patched, case(specs, max_model_len=500, in_flight=1))
    assert after["small.0"] == (80, 327_680)


def test_hidden_states_whose_block_follows_from_the_page_leave_all_as_they_were(release) -> None:
    """On 0.26 their block would be 55 tokens and no more 54, which divides 864."""
    specs = {**BOTH, "hidden": hidden_states(4, 4096)}
    asked = case(specs, prefix_caching=True)
    assert untouched(release, asked)
    assert made(release.patched, asked)["small"] == (16, 1_797_120)


def test_a_number_of_blocks_that_is_set_keeps_its_bytes(release) -> None:
    assert untouched(release, case(BOTH, blocks_override=1000))


def test_decode_context_parallelism_is_left_alone(release) -> None:
    asked = case(layers(("state", 1, state(1_797_120, 864)), ("small", 8, full(16, 8, 264))))
    config = asked.config()
    config.parallel_config.decode_context_parallel_size = 2
    after = release.patched.get_kv_cache_groups(config, dict(asked.layers))
    assert shapes(after) == shapes(release.pristine.get_kv_cache_groups(config, dict(asked.layers)))


@pytest.mark.parametrize("active", ["prefix caching", "a connector"])
def test_the_common_multiple_of_blocks_stays_where_prefixes_are_kept(release, active) -> None:
    specs = {"full": full(864, 4, 520), "small": window(16, 8, 136)}  # 16 -> 1,664
    assert made(release.patched, case(specs))["small"] == (1664, 1_810_432)
    asked = case(specs, prefix_caching=active == "prefix caching")
    config = asked.config()
    if active == "a connector":
        config.kv_transfer_config = SimpleNamespace()
    after = release.patched.get_kv_cache_groups(config, dict(specs))
    assert shapes(after) == shapes(groups(release.pristine, asked))
    assert made(release.patched, case(BOTH, prefix_caching=True))["small"] == (864, 1_824_768)


@pytest.mark.parametrize(
    ("mode", "small"),
    [
        # Broken: the mode of the states not asked. Hits end at the common multiple of blocks.
        (None, (864, 1_824_768)),
        # A hit in a state block ends at 432 tokens, where a window of 864 cannot.
        ("align", (16, 1_797_120)),
    ],
)
def test_a_promoted_block_need_not_divide_the_others_but_for_states_that_are_hit_in_part(
    release, mode, small
) -> None:
    specs = {**BOTH, "half": window(432, 4, 1040)}
    if mode:
        specs["state"] = state(1_797_120, 864, mode)
    asked = case(specs, prefix_caching=True, mamba_mode=mode or "none")
    assert made(release.patched, asked)["small"] == small


# Pages that do not divide, by the release's own unification -------------------------------------


def unify(release: Any, specs: dict[str, KVCacheSpec]) -> dict[str, tuple[int, int]] | str:
    """Block and page of each layer, or the kind of the release's refusal."""
    try:
        after = release.patched.unify_kv_cache_spec_page_size(specs)
    except (NotImplementedError, AssertionError) as refusal:
        return type(refusal).__name__
    return {name: (spec.block_size, spec.page_size_bytes) for name, spec in after.items()}


def test_133120_bytes_are_padded_to_264192_and_in_bf16_scaled_by_two(release) -> None:
    scaled = {"512": full(64, 4, 1032), "256": window(64, 4, 520)}
    assert unify(release, scaled) == {"512": (64, 264_192), "256": (64, 264_192)}
    assert 264_192 - 133_120 * (264_192 // 133_120) == 131_072
    plain = {"512": full(64, 4, 2048), "256": window(64, 4, 1024)}
    assert unify(release, plain) == {"512": (64, 524_288), "256": (128, 524_288)}


def test_12416_bytes_leave_8960_of_a_state_page(release) -> None:
    small = full(16, 2, 388)
    specs = {"state": state(12_648_448, 16_384), "full": small}
    assert small.page_size_bytes == 12_416
    assert 12_648_448 % 12_416 == 8960
    assert unify(release, specs) == {"state": (16_384, 12_648_448), "full": (16, 12_648_448)}
    after = made(release.patched, case(specs))
    if release.version.startswith("0.25."):  # which cannot pad the state layer
        assert after["full"] == (16, 12_648_448)
    else:
        assert set(after.values()) == {(16_304, 12_651_904), (16_384, 12_651_904)}


P = 1_331_200


def states_and(page: int, **fields: object) -> dict[str, KVCacheSpec]:
    """A state layer of P bytes, and an attention layer of 16 tokens with pages of `page`."""
    return {"state": state(P, 4096), "full": full(16, 1, page // 16, **fields)}


def test_a_state_page_beside_one_of_twice_its_size(release) -> None:
    # 0.25 scales the block of the state layer, whose page that does not change
    padded = {"state": (4096, 2 * P), "full": (16, 2 * P)}
    expected = "AssertionError" if release.version.startswith("0.25.") else padded
    for stride in (True, False):
        fields = {"indexes_kv_by_block_stride": stride} if HAS_STRIDE else {}
        assert unify(release, states_and(2 * P, **fields)) == expected


@pytest.mark.parametrize("stride", [True, False])
def test_a_state_page_beside_one_of_two_thirds_of_its_size(release, stride) -> None:
    third = {"state": state(3 * 12_416, 4096), "full": full(16, 2, 776)}
    assert third["full"].page_size_bytes == 2 * 12_416
    if HAS_STRIDE:
        third["full"] = replace(third["full"], indexes_kv_by_block_stride=stride)
    padded = {"state": (4096, 37_248), "full": (16, 37_248)}
    # 0.29.0 asks no layer for its stride any more
    assert unify(release, third) == (padded if stride or not HAS_STRIDE else "NotImplementedError")
    assert isinstance(third["state"], MambaSpec)
