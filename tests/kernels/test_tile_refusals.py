"""What tile attention refuses, with the whole message; nothing is launched."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from tests.kernels.run_tile_kernel import run, scratch_for
from tests.kernels.tile_caches import TileArguments, make
from tests.kernels.tile_cases import TileCase

pytestmark = pytest.mark.kernel

CASE = TileCase((10,), (2,), ratio=3)  # 4 pages, rings of 144 rows in 3 slots


def wrong(call: TileArguments) -> dict[str, tuple[dict[str, Any], str]]:
    """What is changed in a right call, and what is said of it."""
    device = call.query.device
    keys, tiles = call.ring_keys, call.tiles
    return {
        "a query that is not rotated": (
            {"query": call.query.float()},
            "the query is torch.float32 with 3 dimensions; "
            "expected rotated float16 [tokens, heads, head_dim]",
        ),
        "query heads that are no multiple": (
            {"query": call.query[:, :5]},
            "the query has 5 heads of 64; expected heads of 64, a multiple of the tiles' 2",
        ),
        "every other channel of a query": (
            {"query": torch.zeros(5, 6, 128, dtype=torch.float16, device=device)[:, :, ::2]},
            "query has last stride 2; expected 1",
        ),
        "records that are too short": (
            {"tiles": tiles[:, :, :7000]},
            "tiles are torch.uint8 (4, 2, 7000); "
            "expected uint8 [num_blocks, num_kv_heads, at least 7296 bytes]",
        ),
        "a ring that is too short": (
            {"ring_keys": keys[:, :128], "ring_values": call.ring_values[:, :128]},
            "the ring has 128 rows; expected at least 129, for tiles of 128 and 2 tokens",
        ),
        "rings of two shapes": (
            {"ring_values": call.ring_values[:, :128]},
            "ring_values have shape (3, 128, 2, 64); expected that of ring_keys, (3, 144, 2, 64)",
        ),
        "a ring of bfloat16": (
            {"ring_keys": keys.bfloat16()},
            "ring_keys are torch.bfloat16 (3, 144, 2, 64); "
            "expected float16 [slots, ring_rows, 2, 64]",
        ),
        "a query that is too long": (
            {"max_query_len": 65},
            "max_query_len is 65; expected 0 to 64: the history of longer queries is gathered",
        ),
        "slots of long integers": (
            {"ring_slot": call.ring_slot.long()},
            "ring_slot is torch.int64 (1,); expected int32 (1,)",
        ),
        "a table of another batch": (
            {"block_table": torch.cat([call.block_table, call.block_table])},
            "block_table is torch.int32 (2, 2); expected int32 (1, 2)",
        ),
        "starts without the end": (
            {"query_start": call.query_start[:1]},
            "query_start is torch.int32 (1,); expected int32 (2,)",
        ),
    }


@pytest.mark.parametrize("name", list(wrong(make(CASE, "cpu").call)))
def test_a_wrong_argument_is_refused(name: str, device: str) -> None:
    call = make(CASE, device).call
    scratch = scratch_for(call)
    change, message = wrong(call)[name]
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(replace(call, **change), scratch=scratch)
    assert str(refused.value) == message


def test_records_that_begin_between_16_bytes_are_refused(device: str) -> None:
    call = make(CASE, device).call
    shape = call.tiles.shape
    storage = torch.zeros(8 + call.tiles.numel(), dtype=torch.uint8, device=device)
    moved = replace(call, tiles=storage[8:].view(shape))
    with pytest.raises(ValueError, match=r"strides \(\d+, 7296\); expected multiples of 16 bytes$"):
        run(moved)


def test_an_output_of_float64_is_refused(device: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(make(CASE, device).call, torch.float64)
    assert str(refused.value) == (
        "output is torch.float64 (5, 6, 64); expected bfloat16, float16 or float32 (5, 6, 64)"
    )


def test_a_path_that_is_none_is_refused(device: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(make(CASE, device).call, path="fast")
    assert str(refused.value) == "path is 'fast'; expected None or one of hopper, pointer"


def test_scratch_that_is_too_small_is_refused(device: str) -> None:
    scratch = scratch_for(make(CASE, device).call, max_query_len=1)
    cells = scratch.part_max.numel()
    count = cells // 64 + 1  # of 32 rows for each of 2 heads
    many = make(replace(CASE, seq_lens=(10,) * count, query_lens=(10,) * count), device).call
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(many, scratch=scratch)
    assert str(refused.value) == (
        f"{count} requests of 1 query tiles need {count * 64} cells of scratch, "
        f"{cells} were allocated; allocate for the configured maxima"
    )


def test_no_request_and_no_token_leave_the_output_as_it_is(device: str) -> None:
    call = make(CASE, device).call
    assert torch.isnan(run(replace(call, max_query_len=0))).all()
