"""Gathered rows held against float64 of the same records, on a GPU or interpreted.

Each comparison names mutations of `mutations_kvarn_gather.py` that it is to catch, without their
prefix.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels.gather import gather
from kvarn_port.reference.gather import gather as reference
from tests.kernels.bounds import LOST, ROUNDOFF
from tests.kernels.histories import (
    Case,
    History,
    all_cases,
    lengths,
    magnitudes,
    make,
    small_cases,
    window,
)
from tests.kernels.run_kernel import HUGE, NAN, bits, poison

pytestmark = [
    pytest.mark.kernel,
    # Triton's interpreter makes scalars of arrays of one element
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

Rows = tuple[torch.Tensor, torch.Tensor]


def run(
    history: History, start: int, count: int, dtype: torch.dtype, byte: int = NAN, **changed: object
) -> Rows:
    """Return the kernel's keys and values, poisoned before."""
    requests, heads = len(history.committed), history.tiles.shape[1]
    shape = (requests, count, heads, history.layout.head_dim)
    outs = [torch.empty(shape, dtype=dtype, device=history.tiles.device) for _ in range(2)]
    for out in outs:
        poison(out, byte)
    arguments = {**vars(history), "keys": outs[0], "values": outs[1], "start": start} | changed
    returned = gather(**arguments)
    assert returned[0] is arguments["keys"]
    assert returned[1] is arguments["values"]
    return returned


def truth(history: History, start: int, count: int) -> Rows:
    """Return what the rows are in float64, from the reference."""
    shape = (len(history.committed), count, history.tiles.shape[1], history.layout.head_dim)
    outs = [torch.empty(shape, dtype=torch.float64, device=history.tiles.device) for _ in range(2)]
    reference(**vars(history), keys=outs[0], values=outs[1], start=start)
    return outs[0], outs[1]


def check(case: Case, device: str) -> None:
    """Hold each element of a call against its bound.

    (code A + Z) T takes three roundings of float32 at most, of a sum of at most the same with
    every summand positive, and one of the 16-bit dtype. Rows of the ring take that one alone.
    """
    history, dtype = make(case, device), getattr(torch, case.dtype)
    start, count = window(case)
    found = run(history, start, count, dtype)
    large = truth(replace(history, tiles=magnitudes(history)), start, count)
    for rows, exact, magnitude in zip(found, truth(history, start, count), large, strict=True):
        inner = 3 * ROUNDOFF[torch.float32] * magnitude.abs()
        bound = inner + ROUNDOFF[dtype] * (exact.abs() + inner) + LOST[dtype]
        error = (rows.double() - exact).abs().nan_to_num(nan=torch.inf)
        # key-nibbles-swapped, value-channels-swapped, key-scale-of-another-token,
        # key-zero-point-dropped, ring-row-of-the-token, a-tile-too-many-is-packed and others
        assert float((error / bound.clamp(min=1e-300)).max()) <= 1
        for request, tokens in enumerate(lengths(case)):
            end = 0 if history.ring_slot[request] < 0 else max(tokens - start, 0)
            # ring-rows-after-the-history, slotless-rows: garbage of the ring or of a page
            assert not rows[request, end:].any()


@pytest.mark.parametrize("case", small_cases(), ids=str)
def test_rows_are_those_of_the_records_and_of_the_ring(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.gpu
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_rows_of_every_preset_and_size_are_within_their_bounds(case: Case, gpu: str) -> None:
    check(case, gpu)


def test_every_row_is_written_whatever_was_there(device: str) -> None:
    history = make(Case("kvarn_k4v2_g64", history="none of a slot", seed=7), device)
    both = [run(history, 3, 150, torch.bfloat16, byte) for byte in (NAN, HUGE)]
    for one, other in zip(*both, strict=True):
        assert torch.equal(bits(one), bits(other))


def test_once_the_step_is_packed_a_tile_that_it_filled_is_read_from_its_page(device: str) -> None:
    case = Case("kvarn_k4v2_g64", history="ragged", seed=11)
    history = make(case, device)  # 165, 0 and 65 tokens
    step = history.committed + torch.tensor([27, 3, 62], dtype=torch.int32, device=device)
    # the page of the first request's open tile is filled, not that of the third
    page = history.block_table[2, 0].long()
    history.block_table[0, 2] = page
    exact = [torch.empty(3, 256, 2, 64, dtype=torch.float64, device=device) for _ in range(2)]
    reference(**vars(history), keys=exact[0], values=exact[1], start=0, seq_lens=step)
    found = run(history, 0, 256, torch.float16, seq_lens=step)
    for rows, right in zip(found, exact, strict=True):
        # filled-tiles-from-the-ring: garbage, or rows that this step stored
        error = (rows.double() - right).abs().nan_to_num(nan=torch.inf)
        assert float((error / (1e-5 + 2 * ROUNDOFF[torch.float16] * right.abs())).max()) <= 1
        # key-rows-after-the-history, value-rows-after-the-history: those of the step in the page
        assert not rows[0, 165:].any()


def test_rows_are_written_into_a_part_of_wider_rows_and_nothing_else_is(device: str) -> None:
    history = make(Case("kvarn_k4v4_g64", history="one open tile", seed=8), device)
    wide = [torch.full((1, 9, 3, 72), 7.0, device=device).half() for _ in range(2)]
    outs = [one[:, 1:8, :2, :64] for one in wide]
    run(history, 1, 7, torch.float16, keys=outs[0], values=outs[1])
    for one, exact in zip(wide, truth(history, 1, 7), strict=True):
        assert torch.equal(one[:, 1:8, :2, :64].double(), exact)  # 16-bit rows as they are
        one[:, 1:8, :2, :64] = 7.0
        # rows-out-of-place: beside what was asked for
        assert (one == 7.0).all()


def test_what_a_reconstruction_exceeds_float16_by_stays_finite(device: str) -> None:
    history = make(Case("kvarn_k4v2_g64", history="one whole tile", seed=9), device)
    field = history.layout.key_token_scale
    largest = torch.full((64,), 65504.0, dtype=torch.float16, device=device).view(torch.uint8)
    history.tiles[history.block_table[0, 0], :, field : field + 128] = largest
    keys, _ = run(history, 0, 64, torch.float16)
    exact, _ = truth(history, 0, 64)
    # unclamped: infinite where the truth is 2e5
    assert keys.isfinite().all()
    assert torch.equal(keys.abs() == 65504, exact.abs() >= 65488)  # halfway to the next float16


# Blocks of which the last lie past 2³¹ bytes, and outputs of which the second request does.
BLOCKS, STRIDE = 2_600, 831_488


def test_pages_and_rows_past_two_to_the_31_give_the_same_bits(device: str) -> None:
    near = make(Case("kvarn_k4v2_g64", history="ragged", place="dense", seed=10), device)
    size = near.layout.record_bytes
    storage = torch.empty(BLOCKS * STRIDE, dtype=torch.uint8, device=device)
    tiles = storage.as_strided((BLOCKS, 2, size), (STRIDE, size, 1))
    count = len(near.tiles)
    tiles[-count:] = near.tiles
    assert STRIDE * (BLOCKS - count) > 2**31
    far = replace(near, tiles=tiles, block_table=near.block_table + (BLOCKS - count))
    whole = torch.empty((2**31 + 2**20), dtype=torch.float16, device=device)
    outs = [whole.as_strided((3, 256, 2, 64), (2**30 + 2**18, 256, 64, 1), at) for at in (0, 128)]
    expected = run(near, 0, 256, torch.float16)
    found = run(far, 0, 256, torch.float16, keys=outs[0], values=outs[1])
    for one, other in zip(found, expected, strict=True):
        # int32-page, int32-rows: other bytes, or a crash
        assert torch.equal(bits(one), bits(other))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"start": -1}, "start is -1; expected 0 or more"),
        ({"ring_slot": torch.zeros(2, dtype=torch.int32)}, "ring_slot is torch.int32 [2] with"),
        ({"committed": torch.zeros(1)}, "committed is torch.float32 [1] with strides (1,)"),
        ({"keys": torch.zeros(1, 4, 2, 64)}, "keys are torch.float32 [1, 4, 2, 64] with strides"),
        ({"values": torch.zeros(1, 5, 2, 64).half()}, "values are torch.float16 [1, 5, 2, 64]"),
        ({"ring_keys": torch.zeros(1, 64, 2, 64)}, "ring_keys are torch.float32 [1, 64, 2, 64]"),
        ({"ring_keys": torch.zeros(3, 63, 2, 64).half()}, "rings have [3, 63] and [3, 80] rows"),
        (
            {"tiles": torch.zeros(1, 2, 3839, dtype=torch.uint8)},
            "tiles are torch.uint8 [1, 2",
        ),
        ({"tiles": torch.zeros(1, 2, 3841, dtype=torch.uint8)}, "tiles begin at "),
    ],
)
def test_what_does_not_belong_together_is_refused(changed: dict[str, object], text: str) -> None:
    history = make(Case("kvarn_k4v2_g64", history="one open tile"), "cpu")
    arguments = {
        **vars(history),
        "keys": torch.zeros(1, 4, 2, 64).half(),
        "values": torch.zeros(1, 4, 2, 64).half(),
        "start": 0,
    }
    with pytest.raises(ValueError, match=re.escape(text)):
        gather(**(arguments | changed))
