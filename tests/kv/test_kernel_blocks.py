"""Kernel blocks, within the blocks that requests are given."""

from __future__ import annotations

import pytest

from patchkit.kv.kernel_blocks import (
    common_block,
    describe,
    holds,
    largest_named_within,
    largest_within,
    preferred_block,
    smallest,
)
from patchkit.kv.planned import RefusedError
from patchkit.kv.rules import Backend

ANY = Backend("ANY", multiple_of=16)
WIDE = Backend("WIDE", multiple_of=32)
FIXED = Backend("FIXED", fixed=(16, 32, 64))
TILE = Backend("TILE", fixed=(128,))


def test_a_block_holds_kernel_blocks() -> None:
    assert holds(FIXED, 880)
    assert holds(ANY, 880)
    assert not holds(WIDE, 880)
    assert not holds(TILE, 880)


@pytest.mark.parametrize(
    ("backends", "default", "block"),
    [([ANY], 16, 16), ([TILE], 16, 128), ([ANY, TILE], 16, 128), ([WIDE, FIXED], 16, 32),
     ([WIDE], 128, 128), ([FIXED, ANY], 16, 16)],
)  # fmt: skip
def test_the_preferred_block(backends: list[Backend], default: int, block: int) -> None:
    assert preferred_block(backends, default) == block


def test_the_smallest() -> None:
    assert [smallest(backend) for backend in (ANY, FIXED, TILE)] == [16, 16, 128]


def test_the_largest_within_a_page() -> None:
    assert largest_within(ANY, 100, 4799) == 32
    assert largest_within(ANY, 100, 4800) == 48
    assert largest_within(ANY, 100, 100) == 16
    assert largest_within(FIXED, 100, 100_000) == 64
    assert largest_within(FIXED, 100, 6399) == 32


def test_the_largest_that_is_named_within_a_page() -> None:
    assert largest_named_within(ANY, 100, 100_000) == 16
    assert largest_named_within(FIXED, 100, 6399) == 32
    assert largest_named_within(FIXED, 100, 100) == 16


@pytest.mark.parametrize(
    ("block", "backends", "kernel"),
    [(880, [ANY], 880), (880, [FIXED], 16), (832, [FIXED], 64), (2176, [TILE], 128),
     (64, [FIXED, ANY], 64), (1024, [FIXED, TILE, ANY], None), (96, [FIXED, WIDE], 32),
     (40, [ANY], None)],
)  # fmt: skip
def test_the_block_in_common(block: int, backends: list[Backend], kernel: int | None) -> None:
    if kernel is not None:
        assert common_block(block, backends) == kernel
        return
    with pytest.raises(RefusedError):
        common_block(block, backends)


def test_no_block_in_common() -> None:
    with pytest.raises(RefusedError) as error:
        common_block(1024, [TILE, FIXED])
    assert error.value.reason == "a block of 1,024 tokens cannot be split into kernel blocks"
    assert error.value.expected == "128 tokens for TILE; 16, 32, 64 tokens for FIXED"


def test_backends_in_words() -> None:
    assert describe(ANY) == "multiples of 16 tokens"
    assert describe(FIXED) == "16, 32, 64 tokens"
