"""Tile attention held against float64 on what its records say, on a GPU or interpreted.

Each comparison names mutations of `mutations_kvarn_attention.py` that it is to catch.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels import tile_attention as paths
from kvarn_port.reference.tile_attention import tile_attention as reference
from tests.kernels import bounds, tile_bounds, tile_rms
from tests.kernels.run_kernel import HUGE, NAN, ZERO, bits, parts
from tests.kernels.run_tile_kernel import run, scratch_for
from tests.kernels.tile_caches import Made, TileArguments, empty_tiles, make, running_total
from tests.kernels.tile_cases import (
    BEYOND_HALF,
    TileCase,
    hopper_cases,
    long_cases,
    matrix,
    read_by_hopper,
    small_cases,
)

pytestmark = [
    pytest.mark.kernel,
    # Triton's interpreter makes scalars of arrays of one element
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

PATHS = [name for name, module in paths.PATHS.items() if module is not None]


def check_parity(case: TileCase, device: str, made: Made | None = None) -> None:
    """Hold one call against the truth: every element, their RMS, and the rows of no request."""
    made = make(case, device) if made is None else made
    dtype = getattr(torch, case.output)
    output = run(made.call, dtype, precise=case.precise, path=case.path)
    tokens = sum(case.query_lens)
    hopper = takes_hopper(made.call, case)
    exact = tile_bounds.truth(made, dtype, precise=case.precise, hopper=hopper).rows(tokens)
    found = tile_bounds.framed(output[:tokens])
    # tile-causal-late, tile-codes-swapped, tile-no-rescale, tile-ring-row-not-wrapped and others
    # exceed some element's bound, by a weight that is wrong or by the NaN of what is nobody's
    assert bounds.worst(found, exact) <= 1
    # tile-no-unit, tile-sum-of-rounded-weights, tile-keys-of-bfloat16: in the bound of each
    limit = tile_rms.limit(made, dtype, precise=case.precise, hopper=hopper)
    assert bounds.relative_rms(found, exact) <= limit
    # tile-combine-writes-padding: rows of no request are left as they were
    assert (output[tokens:].contiguous().view(torch.uint8) == NAN).all()


BEYOND = TileCase((131,), (2,), ratio=6, inputs=BEYOND_HALF, seed=34)


@pytest.mark.parametrize("case", [*small_cases(), BEYOND], ids=str)
def test_a_short_call_is_within_its_bounds(case: TileCase, device: str) -> None:
    check_parity(case, device)


# Short calls that Hopper's path reads where none is forced; the others were read by this one.
SHORT_BY_POINTER = [case for case in small_cases("pointer") if read_by_hopper(case)]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case", [*SHORT_BY_POINTER, *long_cases("pointer"), *matrix("pointer")], ids=str
)
def test_a_call_of_any_layout_is_within_its_bounds(case: TileCase, gpu: str) -> None:
    check_parity(case, gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("case", hopper_cases(), ids=str)
def test_the_path_for_hopper_is_within_its_bounds(case: TileCase, gpu: str) -> None:
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("not a Hopper GPU")
    check_parity(case, gpu)


def takes_hopper(call: TileArguments, case: TileCase) -> bool:
    """Whether a case is read by the path for Hopper on this device."""
    if case.path is not None or "hopper" not in PATHS:
        return case.path == "hopper"
    asked = paths.TileCall(**vars(call), output=call.query, precise=case.precise)
    return paths.PATHS["hopper"].fits(asked, scratch_for(call).device)


def test_the_reference_is_within_the_bounds_of_what_records_say() -> None:
    case = TileCase((300, 9), (3, 2), "kvarn_k4v2_g64", ratio=2, inputs="steep", seed=30)
    made = make(case, "cpu")
    output = torch.full(made.call.query.shape, torch.nan, dtype=torch.float64)
    reference(**vars(made.call), output=output)
    exact = tile_bounds.truth(made, torch.float32, precise=True).rows(5)
    rotated = tile_bounds.framed(output.float())[:5]
    assert bounds.worst(rotated, exact) <= 1


@pytest.mark.parametrize(("query_len", "ratio"), [(64, 1), (33, 1), (3, 24)])
@pytest.mark.parametrize("precise", [False, True])
def test_any_number_of_query_rows_is_served(
    query_len: int, ratio: int, precise: bool, device: str
) -> None:
    lengths = ((70 + query_len, 3), (query_len, 2))
    case = TileCase(*lengths, "kvarn_k4v4_g64", kv_heads=1, ratio=ratio, precise=precise, seed=31)
    check_parity(case, device)


def test_the_sum_of_weights_that_is_taken_off_is_that_of_the_rounded_ones(device: str) -> None:
    # Codes are 7 and 8, half a step off the middle, and weights nearly equal. As they are
    # multiplied, 7 and 8, the rounding of weights would show fifteen times as much.
    case = TileCase((65,), (1,), "kvarn_k4v4_g64", ratio=8, inputs="middle codes", seed=33)
    made = make(case, device)
    exact = tile_bounds.truth(made, torch.float32).rows(1)
    # tile-centred-by-unrounded-weights: 1e-3
    limit = tile_rms.limit(made, torch.float32)
    assert bounds.relative_rms(tile_bounds.framed(run(made.call)[:1]), exact) <= limit


# 1,300 pages 3.7 MB apart: bytes from the first to the last pass 2³¹. Under the interpreter the
# memory between is never touched.
PAGES, STRIDE = 1_300, 3_661_056  # bytes
LAST, FIRST = list(range(1_294, 1_300)), list(range(6))


@pytest.mark.parametrize("precise", [False, True])
def test_pages_and_slots_past_two_to_the_31_give_the_same_bits(precise: bool, device: str) -> None:
    case = TileCase((370,), (2,), "kvarn_k4v2_g64", ratio=2, precise=precise, seed=32)
    near = make(case, device, pages=[FIRST])
    call, layout = near.call, near.call.layout
    tiles = empty_tiles(case, layout, PAGES, device, STRIDE)
    assert tiles.stride(0) * LAST[0] > 2**31
    tiles[torch.tensor(LAST, device=device), :, : layout.tile_bytes] = call.tiles[
        torch.tensor(FIRST, device=device), :, : layout.tile_bytes
    ]
    table = call.block_table.clone()
    table[0, : len(LAST)] = torch.tensor(LAST, dtype=torch.int32, device=device)
    slots, rows, heads, head_dim = call.ring_keys.shape
    apart = 2**31 // (slots - 1) // 16 * 16 + 16  # elements of float16
    storage = torch.empty(2, apart * slots, dtype=torch.float16, device=device)
    rings = storage.as_strided(
        (2, slots, rows, heads, head_dim), (apart * slots, apart, heads * head_dim, head_dim, 1)
    )
    rings[0, -1], rings[1, -1] = (
        ring[call.ring_slot[0]] for ring in (call.ring_keys, call.ring_values)
    )
    far = replace(
        call,
        tiles=tiles,
        block_table=table,
        ring_keys=rings[0],
        ring_values=rings[1],
        ring_slot=torch.full_like(call.ring_slot, slots - 1),
    )
    assert rings.stride(1) * (slots - 1) >= 2**31
    output = run(far, precise=precise)[:2]
    # tile-int32-page, tile-int32-slot: other tokens, or a crash
    assert torch.equal(bits(output), bits(run(call, precise=precise)[:2]))
    exact = tile_bounds.truth(near, torch.float32, precise=precise).rows(2)
    assert bounds.worst(tile_bounds.framed(output), exact) <= 1


def in_order(call: TileArguments, order: list[int]) -> TileArguments:
    """The call with its requests in another order; the tokens of each stay where they are."""
    starts = call.query_start.tolist()
    rows = [row for request in order for row in range(starts[request], starts[request + 1])]
    counts = tuple(starts[request + 1] - starts[request] for request in order)
    return replace(
        call,
        query=call.query[rows],
        block_table=call.block_table[order],
        query_start=running_total(counts).to(call.query.device),
        seq_lens=call.seq_lens[order],
        ring_slot=call.ring_slot[order],
    )


DETERMINED = [
    TileCase((290, 37, 330), (5, 2, 8), preset, kv_heads=1, ratio=2, precise=precise, seed=77)
    for preset, precise in (("kvarn_k4v2_g64", False), ("kvarn_k4v4_g64", True))
]
DETERMINED += [
    pytest.param(
        TileCase((2900, 37, 5000), (5, 2, 8), head_dim=256, kv_heads=4, ratio=6, seed=78),
        marks=pytest.mark.gpu,
    )
]


@pytest.mark.parametrize("case", DETERMINED, ids=str)
def test_two_runs_give_the_same_bits_whatever_lay_in_scratch_and_output(
    case: TileCase, device: str
) -> None:
    call = make(case, device).call
    runs = [run(call, precise=case.precise, byte=byte)[:15] for byte in (NAN, HUGE, ZERO)]
    # tile-no-store-of-an-empty-split, tile-combine-reads-empty-splits: what lay there shows
    assert torch.equal(bits(runs[0]), bits(runs[1]))
    assert torch.equal(bits(runs[0]), bits(runs[2]))


@pytest.mark.parametrize("case", DETERMINED, ids=str)
def test_a_request_gives_the_same_bits_in_any_company(case: TileCase, device: str) -> None:
    call = make(case, device).call
    scratch = scratch_for(call, max_requests=16)
    # few processors: splits of several tiles, which another number of splits would cut elsewhere
    scratch = replace(scratch, device=replace(scratch.device, sm_count=3))
    together = run(call, precise=case.precise, scratch=scratch)
    # of as many requests: a plan cuts by how many programs there are
    moved = in_order(call, [1, 2, 0])
    again = run(moved, precise=case.precise, scratch=scratch)
    # tile-splits-by-request: splits that depend on the request add up in another order
    assert torch.equal(bits(again[2:10]), bits(together[7:15]))
    assert torch.equal(bits(again[10:15]), bits(together[:5]))


def test_scratch_of_the_configured_maxima_serves_every_smaller_call(device: str) -> None:
    made = make(TileCase((150, 37), (5, 2), "kvarn_k4v2_g64", seed=79), device)
    exact = tile_bounds.truth(made, torch.float32).rows(7)
    scratch = scratch_for(made.call, max_requests=64, max_query_len=33)
    places = [part.data_ptr() for part in parts(scratch)]
    for _ in range(2):
        output = run(made.call, scratch=scratch)[:7]
        assert bounds.worst(tile_bounds.framed(output), exact) <= 1
    assert [part.data_ptr() for part in parts(scratch)] == places


def test_rows_of_a_request_without_a_slot_are_zero_whatever_its_table_says(device: str) -> None:
    made = make(TileCase((150, 200), (3, 2), "kvarn_k4v2_g64", padded=(0,), seed=80), device)
    made.call.block_table[0] = 2**31 - 1
    output = run(made.call)[:5]
    # tile-slot-ignored: NaN, or a crash
    assert not output[:3].any()
    exact = tile_bounds.truth(made, torch.float32).rows(5)
    assert bounds.worst(tile_bounds.framed(output), exact) <= 1


@pytest.mark.parametrize("processors", [1, 2, 3])
@pytest.mark.parametrize("precise", [False, True])
def test_a_split_of_several_tiles_is_within_its_bounds(
    processors: int, precise: bool, device: str
) -> None:
    case = TileCase((360, 70), (2, 3), "kvarn_k4v2_g64", kv_heads=1, ratio=2, seed=82)
    made = make(case, device)
    scratch = scratch_for(made.call, max_requests=8)
    scratch = replace(scratch, device=replace(scratch.device, sm_count=processors))
    output = run(made.call, precise=precise, scratch=scratch)[:5]
    # tile-page-of-the-tile-before, tile-split-overlaps: tiles that are read twice or not at all
    exact = tile_bounds.truth(made, torch.float32, precise=precise).rows(5)
    assert bounds.worst(tile_bounds.framed(output), exact) <= 1


def test_more_splits_than_are_read_at_once_add_up(device: str) -> None:
    # 131 splits, read 128 at a time. The ring's is the last: six times as large, its keys have the
    # greatest score of every other row, to which what was read before is then rescaled.
    case = TileCase((131 * 64 + 2,), (2,), "kvarn_k4v2_g64", kv_heads=1, ratio=4, seed=81)
    made = make(case, device)
    made.call.ring_keys.mul_(6)
    scratch = scratch_for(made.call, max_requests=200)
    scratch = replace(scratch, device=replace(scratch.device, sm_count=131))
    output = run(made.call, scratch=scratch)[:2]
    # tile-combine-without-rescale, tile-combine-sum-without-rescale: 128 weights are too large
    exact = tile_bounds.truth(made, torch.float32).rows(2)
    assert bounds.worst(tile_bounds.framed(output), exact) <= 1
