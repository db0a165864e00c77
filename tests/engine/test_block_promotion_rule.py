"""The rule of block promotion, on specs made by hand: which layers, which page, and when not."""

from __future__ import annotations

import importlib.util
import random
import warnings
from dataclasses import replace
from fractions import Fraction

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.v1.kv_cache_interface import (
        AttentionSpec,
        ChunkedLocalAttentionSpec,
        FullAttentionSpec,
        KVCacheSpec,
        MambaSpec,
        MLAAttentionSpec,
        SlidingWindowSpec,
    )

pytestmark = pytest.mark.engine

WINDOW = 2048
# Specs made by hand can be padded; 0.29.0 has no such field and pads all but MLA.
PADDABLE = (
    {"indexes_kv_by_block_stride": True}
    if "indexes_kv_by_block_stride" in AttentionSpec.__dataclass_fields__
    else {}
)


def shape(spec: KVCacheSpec) -> tuple[int, int]:
    return spec.block_size, spec.page_size_bytes


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
        sliding_window=WINDOW,
        **{**PADDABLE, **fields},
    )


def mamba(page: int, block: int = 864) -> MambaSpec:
    return MambaSpec(block_size=block, shapes=((page,),), dtypes=(torch.int8,))


def mla(block: int, size: int) -> MLAAttentionSpec:
    """A layer that no release pads: `size` bytes a token."""
    return MLAAttentionSpec(block_size=block, num_kv_heads=1, head_size=size, dtype=torch.int8)


def unified(module, specs: dict[str, KVCacheSpec]) -> dict[str, KVCacheSpec] | str:
    """What the module makes of the specs: the new ones, or what it raises.

    An assertion is the release's own: it scales the block of a layer that is padded already.
    """
    try:
        return module.unify_kv_cache_spec_page_size(specs)
    except (NotImplementedError, AssertionError) as err:
        return repr(err)


MAXIMUM = full(864, 4, 520)  # 1,797,120 bytes
SMALL = window(16, 8, 264)  # 33,792 bytes, raised to 54 times that: 1,824,768


def test_a_layer_that_cannot_follow_leaves_all_as_they_were(release) -> None:
    stuck = mla(864, 2080)  # has the old maximum, and neither divides nor pads to the new one
    specs = {"full": MAXIMUM, "stuck": stuck, "small": SMALL, "state": mamba(1_777_664)}
    after = unified(release.patched, specs)
    assert after == unified(release.pristine, specs)
    assert shape(after["small"]) == (16, 1_797_120)
    assert after["full"] is MAXIMUM
    assert after["stuck"] is stuck


def test_a_layer_that_divides_only_the_old_maximum_cannot_follow(release) -> None:
    specs = {"full": MAXIMUM, "stuck": mla(16, 2080), "small": SMALL}
    after = unified(release.patched, specs)
    assert after == unified(release.pristine, specs)
    assert shape(after["stuck"]) == (864, 1_797_120)


def test_a_layer_that_divides_the_new_maximum_is_scaled_to_it(release) -> None:
    specs = {"full": MAXIMUM, "divides": mla(16, 1728), "small": SMALL}
    after = unified(release.patched, specs)
    assert shape(after["small"]) == (864, 1_824_768)
    assert shape(after["divides"]) == (1056, 1_824_768)  # 66 times 27,648; 65 before
    assert after["divides"].page_size_padded is None


def test_the_releases_own_refusal_is_kept(release) -> None:
    specs = {"full": MAXIMUM, "stuck": mla(16, 2000), "small": SMALL}
    message = unified(release.patched, specs)
    assert isinstance(message, str)
    assert message == unified(release.pristine, specs)
    assert message.startswith("NotImplementedError('Layer stuck: page size is not divisible by")


def test_a_layer_that_is_padded_already_is_not_raised(release) -> None:
    specs = {"full": MAXIMUM, "padded": replace(SMALL, page_size_padded=40_000)}
    after = unified(release.patched, specs)
    assert after == unified(release.pristine, specs)
    assert shape(after["padded"]) == (16, 1_797_120)


def test_a_padded_layer_that_would_have_to_be_scaled_cannot_follow(release) -> None:
    padded = replace(SMALL, page_size_padded=2 * 33_792)  # 27 times that is the new maximum
    specs = {"full": MAXIMUM, "padded": padded, "small": SMALL}
    after = unified(release.patched, specs)
    assert after == unified(release.pristine, specs)
    assert shape(after["small"]) == (16, 1_797_120)


def test_a_layer_that_is_padded_to_the_old_maximum_is_padded_to_the_new(release) -> None:
    padded = replace(SMALL, page_size_padded=1_797_120)
    after = unified(release.patched, {"full": MAXIMUM, "padded": padded, "small": SMALL})
    assert shape(after["padded"]) == (16, 1_824_768)
    assert shape(after["small"]) == (864, 1_824_768)


def test_only_full_and_window_layers_are_raised(release) -> None:
    chunked = ChunkedLocalAttentionSpec(
        block_size=16,
        num_kv_heads=8,
        head_size=68,
        dtype=torch.int8,
        attention_chunk_size=WINDOW,
        **PADDABLE,
    )
    specs = {"full": MAXIMUM, "chunked": chunked}
    assert unified(release.patched, specs) == unified(release.pristine, specs)
    after = unified(release.patched, {**specs, "small": SMALL})
    assert shape(after["chunked"]) == (16, 1_824_768)


def test_several_small_layers_share_the_largest_promoted_page(release) -> None:
    smaller = window(16, 8, 136)  # 17,408 bytes: 104 times that is 1,810,432
    exact = window(16, 4, 520)  # divides the old maximum 54 times, the new one not
    after = unified(
        release.patched, {"full": MAXIMUM, "smaller": smaller, "exact": exact, "small": SMALL}
    )
    assert {name: shape(spec) for name, spec in after.items()} == {
        "full": (864, 1_824_768),
        "smaller": (1664, 1_824_768),
        "exact": (864, 1_824_768),
        "small": (864, 1_824_768),
    }
    assert after["smaller"].page_size_padded == 1_824_768
    assert after["small"].page_size_padded is None


@pytest.mark.parametrize(
    ("large", "small", "promoted"),
    [
        # The same two models without state layers: pages of 33,280 and 33,792 bytes. Raising the
        # smaller one would make pages of 66,560, half of which the larger one would waste.
        (window(16, 8, 264), full(16, 4, 520), None),
        # 16,384 of 33,280 bytes: three blocks would cost the others 48 % to save this one 51 %.
        (full(16, 4, 520), window(16, 2, 512), None),
        # Head sizes 512 and 256 with four heads: 133,120 of 264,192 bytes, two blocks are 266,240.
        (full(64, 4, 1032), window(64, 4, 520), (128, 266_240)),
    ],
)
def test_promotion_must_make_a_token_cheaper(release, large, small, promoted) -> None:
    specs = {f"large.{index}": large for index in range(16)}
    specs |= {f"small.{index}": small for index in range(5)}
    after = unified(release.patched, specs)
    if promoted is None:
        assert after == unified(release.pristine, specs)
        assert shape(after["small.0"]) == (16, large.page_size_bytes)
    else:
        assert shape(after["small.0"]) == promoted
        assert shape(after["large.0"]) == (64, promoted[1])


def test_promotion_that_costs_a_token_the_same_is_not_done(release) -> None:
    # 3 + 3 parts for the two layers padded, 4 + 2 with the second at twice its block.
    specs = {"large": full(16, 3, 520), "small": full(16, 2, 520)}
    after = unified(release.patched, specs)
    assert after == unified(release.pristine, specs)
    assert shape(after["small"]) == (16, 24_960)


def test_state_layers_are_no_part_of_what_a_token_costs(release) -> None:
    # 5 + 5 parts padded, 6 + 3 promoted; three state layers of 5, then 6, would tip the scale.
    state = mamba(41_600, block=16)
    specs = {"large": full(16, 5, 520), "small": window(16, 3, 520), "1": state, "2": state}
    after = unified(release.patched, specs | {"3": state})
    assert shape(after["small"]) == (32, 49_920)
    assert shape(after["3"]) == (16, 49_920)


def random_specs(rng: random.Random) -> dict[str, KVCacheSpec]:
    primary = 16 * rng.randint(1, 140)
    large = full(primary, rng.choice([1, 2, 4, 8]), rng.choice([264, 512, 520, 1024, 1032]))
    choices = [
        large,
        mamba(rng.randint(1, large.page_size_bytes)),
        window(rng.choice([16, 32, 64]), rng.choice([2, 4, 8]), rng.choice([136, 256, 264, 512])),
        full(16, rng.choice([1, 2]), rng.choice([128, 136, 256])),
        window(16, 8, 264, page_size_padded=max(large.page_size_bytes, 33_792)),
        mla(16 * rng.randint(1, 8), rng.choice([512, 576])),
    ]
    weights = [8, 8, 6, 2, 1, rng.choice([0, 0, 5])]
    layers = [large, *rng.choices(choices, weights, k=rng.randint(1, 12))]
    rng.shuffle(layers)
    return {f"layer.{index}": layer for index, layer in enumerate(layers)}


def can_be_raised(spec: KVCacheSpec) -> bool:
    return (
        isinstance(spec, FullAttentionSpec | SlidingWindowSpec)
        and not isinstance(spec, MLAAttentionSpec)
        and spec.page_size_padded is None
    )


def follow(spec: KVCacheSpec, page: int, block: int) -> KVCacheSpec | None:
    """The spec brought to a page size: scaled, else padded at the given block, else None."""
    ratio, rest = divmod(page, spec.page_size_bytes)
    if isinstance(spec, MambaSpec):
        return replace(spec, page_size_padded=page)
    if not rest:
        scaled = replace(spec, block_size=spec.block_size * ratio)
        return scaled if spec.page_size_padded is None else None
    if isinstance(spec, MLAAttentionSpec):
        return None
    return replace(spec, block_size=block, page_size_padded=page)


def bytes_per_token(specs: dict[str, KVCacheSpec], page: int) -> Fraction:
    """What a token takes in all attention layers at a page size, by the release's own rule."""
    total = Fraction()
    for spec in specs.values():
        if isinstance(spec, AttentionSpec):
            ratio, rest = divmod(page, spec.page_size_bytes)
            total += Fraction(page, spec.block_size * (1 if rest else ratio))
    return total


def promotion(specs: dict[str, KVCacheSpec]) -> dict[str, KVCacheSpec] | None:
    """The promoted specs, or None where there is nothing to promote or it may not be done."""
    old = max(spec.page_size_bytes for spec in specs.values())
    ratios = {
        name: -(-old // spec.page_size_bytes) if can_be_raised(spec) else 1
        for name, spec in specs.items()
    }
    new = max(ratio * specs[name].page_size_bytes for name, ratio in ratios.items())
    after = {
        name: follow(spec, new, spec.block_size * ratios[name]) for name, spec in specs.items()
    }
    if new == old or None in after.values():
        return None
    cost = sum(
        Fraction(new, spec.block_size) for spec in after.values() if isinstance(spec, AttentionSpec)
    )
    return after if cost < bytes_per_token(specs, old) else None


def test_random_mixes_of_layers_change_only_as_promised(release) -> None:
    rng = random.Random(28)
    integer = kept = promoted = 0
    for _ in range(600):
        specs = random_specs(rng)
        before, after = unified(release.pristine, specs), unified(release.patched, specs)
        expected = promotion(specs)
        if expected is not None:
            assert after == expected
            promoted += 1
            continue
        assert after == before
        maximum = max(spec.page_size_bytes for spec in specs.values())
        if any(can_be_raised(spec) and maximum % spec.page_size_bytes for spec in specs.values()):
            kept += 1
        else:
            integer += 1
    assert min(integer, kept, promoted) > 50
