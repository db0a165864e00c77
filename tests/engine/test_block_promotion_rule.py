"""The rule of block promotion, on specs made by hand: which layers, which page, and when not."""

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
if not stored_versions():
    pytest.skip("no series is stored for this release", allow_module_level=True)

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

    from tests.engine.kv_cases import HAS_STRIDE, Case, groups, shapes, state

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
    assert made(release.patched, case(BOTH)) == {"full": (864, 1_824_768), "small": (864, 1_824_768)}


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
