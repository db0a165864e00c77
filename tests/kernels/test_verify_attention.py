"""Verify attention held against float64 on the dequantised cache, on a GPU or interpreted.

Each comparison names mutations of `mutations.py` that it is to catch; `mutate.py` tries them.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from tests.kernels import bounds
from tests.kernels.caches import Call, lay, make, running_total, views
from tests.kernels.cases import (
    FORMATS,
    Case,
    chosen_anyway,
    hopper_cases,
    listed_cases,
    long_cases,
    path_cases,
    small_cases,
)
from tests.kernels.run_kernel import HUGE, NAN, ZERO, bits, is_hopper, parts, run, scratch_for

pytestmark = [
    pytest.mark.kernel,
    # Triton's interpreter makes scalars of arrays of one element
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

SMALL = small_cases()


def check_parity(case: Case, device: str) -> None:
    """Hold one call against the truth: every element, their RMS, and the rows of no request."""
    call = make(case, device)
    precise = FORMATS[case.format].precise
    output = run(call, precise=precise, path=case.path)
    tokens = sum(case.query_lens)
    exact = bounds.truth(call, hopper=is_hopper(call, precise=precise, path=case.path))
    # causal-late, window-wide, key-scale-of-head-0, no-rescale, combine-without-maxima and others
    # exceed some element's bound, by a weight that is wrong or by the NaN of a slot of nobody
    assert bounds.worst(output[:tokens], exact.rows(tokens)) <= 1
    # output-too-large: half a percent everywhere, within each bound of bf16 (test_verify_bounds)
    limit = bounds.RELATIVE_RMS[call.query.dtype]
    assert bounds.relative_rms(output[:tokens], exact.rows(tokens)) <= limit
    if precise and case.inputs == "normal":
        # short-dots: 1e-3 where float32's own error is 1e-6
        error = (output[:tokens].double() - exact.output[:tokens]).abs().max()
        assert error <= bounds.MAX_ABSOLUTE
    # combine-writes-padding: rows of no request are left as they were
    assert (output[tokens:].contiguous().view(torch.uint8) == NAN).all()


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_a_short_call_is_within_its_bounds(case: Case, device: str) -> None:
    check_parity(case, device)


# What the kernel chooses itself is a short call, above, under the interpreter.
FORCED = [
    pytest.param(case, marks=[pytest.mark.gpu] if chosen_anyway(case) else [])
    for case in path_cases()
]


@pytest.mark.parametrize("case", FORCED, ids=str)
def test_each_path_is_within_the_same_bounds(case: Case, device: str) -> None:
    check_parity(case, device)


@pytest.mark.gpu
@pytest.mark.parametrize("case", hopper_cases(), ids=str)
def test_codes_are_read_by_the_copy_engine_within_the_same_bounds(case: Case, gpu: str) -> None:
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("path 'int8' takes a Hopper GPU")
    check_parity(case, gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*listed_cases(), *long_cases()], ids=str)
def test_a_long_call_is_within_its_bounds(case: Case, gpu: str) -> None:
    check_parity(case, gpu)


# 2,600 blocks of which the last 23 lie where offsets of elements, those of scales too, pass 2³¹:
# pages are 3.7 MB apart. On a GPU 20,000 tokens fill 23 of them; under the interpreter few tokens
# lie in as many, and the memory between is never touched.
POOL_BLOCKS, POOL_STRIDE = 2_600, 3_661_008  # bytes
LAST, FIRST = range(2_577, 2_600), range(23)


def far_and_near(case: Case, device: str) -> tuple[Call, Call]:
    """Return one call with its pages at a pool's end, and at its start."""
    storage = torch.empty(POOL_BLOCKS * POOL_STRIDE, dtype=torch.uint8, device=device)
    pool = views(case, storage, POOL_BLOCKS, POOL_STRIDE)
    return tuple(
        lay(case, pool, [list(pages)], torch.Generator().manual_seed(case.seed))
        for pages in (LAST, FIRST)
    )


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("bf16", "NHD"),
        ("bf16", "HND odd"),
        ("fp8, bf16 query", "HND"),
        ("int8, bf16 query", "NHD"),
        ("int8, fp16 query", "HND"),
        ("fp32", "NHD"),
    ],
)
def test_pages_past_two_to_the_31_give_the_same_bits(name: str, layout: str, device: str) -> None:
    tokens, block_size, kv_heads = (20_000, 880, 4) if device == "cuda" else (360, 16, 1)
    head_dim = 64 if name == "fp32" or device == "cpu" else 256
    case = Case(
        (tokens,), (5,), format=name, head_dim=head_dim, block_size=block_size, kv_heads=kv_heads,
        layout=layout, ratio=2, seed=31,
    )  # fmt: skip
    far, near = far_and_near(case, device)
    assert far.key_cache.stride(0) * LAST[0] > 2**31
    if far.key_cache.dtype == torch.int8:
        assert far.key_scale is not None
        assert far.key_scale.stride(0) * LAST[0] > 2**31
    precise = FORMATS[name].precise
    output = run(far, precise=precise)
    # int32-page, int32-scale-page: other tokens, or a crash
    assert torch.equal(output[:5], run(near, precise=precise)[:5])
    exact = bounds.truth(far, hopper=is_hopper(far, precise=precise))
    assert bounds.worst(output[:5], exact.rows(5)) <= 1


def in_order(call: Call, order: list[int]) -> Call:
    """The call with its requests in another order; the tokens of each stay where they are."""
    starts = call.query_start.tolist()
    rows = [row for request in order for row in range(starts[request], starts[request + 1])]
    counts = tuple(starts[request + 1] - starts[request] for request in order)
    return replace(
        call,
        query=call.query[rows],
        block_table=call.block_table[order],
        query_start=running_total(counts, str(call.query.device)),
        seq_lens=call.seq_lens[order],
    )


DETERMINED = [
    Case((150, 37, 290), (5, 2, 8), name, layout=layout, kv_heads=1, ratio=3, seed=77)
    for name, layout in (("bf16", "HND odd"), ("int8, fp16 query", "NHD"), ("fp32", "HND"))
]
# Path "int8" on a Hopper GPU, another one elsewhere.
HOPPER = Case((150, 37, 290), (5, 2, 8), "int8, bf16 query", head_dim=128, ratio=3, seed=77)
DETERMINED += [pytest.param(HOPPER, marks=pytest.mark.gpu)]


@pytest.mark.parametrize("case", DETERMINED, ids=str)
def test_two_runs_give_the_same_bits_whatever_lay_in_scratch_and_output(
    case: Case, device: str
) -> None:
    call, precise = make(case, device), FORMATS[case.format].precise
    runs = [run(call, precise=precise, byte=byte)[:15] for byte in (NAN, HUGE, ZERO)]
    # no-store-of-an-empty-split, combine-reads-empty-splits: what lay there shows
    assert torch.equal(bits(runs[0]), bits(runs[1]))
    assert torch.equal(bits(runs[0]), bits(runs[2]))


@pytest.mark.parametrize("case", DETERMINED, ids=str)
def test_a_request_gives_the_same_bits_in_any_company(case: Case, device: str) -> None:
    call, precise = make(case, device), FORMATS[case.format].precise
    scratch = scratch_for(call)
    together = run(call, precise=precise, scratch=scratch)
    for order in ([2, 0, 1], [0, 2]):
        moved = in_order(call, order)
        at = int(moved.query_start[order.index(2)])
        # splits-by-request: splits that depend on the request add up in another order
        again = run(moved, precise=precise, scratch=scratch)[at : at + 8]
        assert torch.equal(bits(again), bits(together[7:15]))


def test_scratch_of_the_configured_maxima_serves_every_smaller_call(device: str) -> None:
    call = make(Case((150, 37), (5, 2), seed=78), device)
    exact = bounds.truth(call)
    scratch = scratch_for(call, max_requests=64, max_query_len=33)
    places = [part.data_ptr() for part in parts(scratch)]
    for _ in range(2):
        assert bounds.worst(run(call, scratch=scratch)[:7], exact.rows(7)) <= 1
    assert [part.data_ptr() for part in parts(scratch)] == places


@pytest.mark.parametrize(("query_len", "ratio"), [(22, 6), (130, 1), (65, 3)])
def test_any_number_of_query_tokens_is_served(query_len: int, ratio: int, device: str) -> None:
    check_parity(Case((150, 9), (query_len, 2), kv_heads=1, ratio=ratio, seed=79), device)


@pytest.mark.parametrize("name", ["bf16", "int8, bf16 query", "fp32"])
def test_a_query_token_without_any_key_is_zero(name: str, device: str) -> None:
    call = make(Case((40, 3), (2, 3), name, seed=80), device)
    shorter = replace(call, seq_lens=torch.tensor([0, 1], dtype=torch.int32, device=device))
    output = run(shorter, precise=FORMATS[name].precise)[:5]
    # combine-zero-by-zero: NaN
    assert not output[:4].any()
    assert bounds.worst(output, bounds.truth(shorter).rows(5)) <= 1


@pytest.mark.parametrize(
    ("name", "head_dim"),
    [
        ("bf16", 64),
        ("int8, bf16 query", 64),
        pytest.param("int8, bf16 query", 128, marks=pytest.mark.gpu),  # path "int8" on Hopper
    ],
)
def test_what_no_query_sees_may_be_anything(name: str, head_dim: int, device: str) -> None:
    # The window of the first query begins at token 84: inside a tile, and inside a page.
    call = make(Case((95,), (5,), name, head_dim=head_dim, window=7, seed=81), device)
    exact = bounds.truth(call, hopper=is_hopper(call))
    page, slot = call.block_table[0, torch.arange(84) // 16].long(), torch.arange(84) % 16
    for part in (call.key_cache, call.value_cache, call.key_scale, call.value_scale):
        if part is not None:
            part[page, slot] = -128 if part.dtype == torch.int8 else torch.nan
    # seen-beyond-the-window: NaN
    assert bounds.worst(run(call)[:5], exact.rows(5)) <= 1


def test_more_splits_than_are_read_at_once_add_up(device: str) -> None:
    # 70 splits of two tiles of 16 keys, read 64 at a time; the largest scores are in the last ones.
    call = make(Case((2240,), (2,), kv_heads=1, ratio=1, seed=82), device)
    call.key_cache[call.block_table[0, 135:140].long()] *= 4
    scratch = scratch_for(call, max_requests=200)
    scratch = replace(scratch, device=replace(scratch.device, sm_count=70))
    # combine-without-rescale, combine-sum-without-rescale: weights of the first 64 are too large
    assert bounds.worst(run(call, scratch=scratch)[:2], bounds.truth(call).rows(2)) <= 1
