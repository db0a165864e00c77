"""Plans of the path for Hopper, from what the host knows alone: no GPU is asked."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

from kvarn_port.kernels import tile_attention
from kvarn_port.kernels.verify_plan import Device, Plan
from kvarn_port.layout import tile_layout

pytestmark = pytest.mark.kernel

HOPPER = tile_attention.PATHS["hopper"]
H200 = Device(sm_count=132, shared_bytes=227 << 10, has_tma=True)
LAYOUT = tile_layout("kvarn_k4v2_g128", 256)


def plan(requests: int, query_len: int, ratio: int, device: Device = H200) -> Plan:
    """The plan of a call with 4 KV heads."""
    shape = SimpleNamespace(ratio=ratio, num_kv_heads=4)
    call = SimpleNamespace(shape=shape, max_query_len=query_len, requests=requests, layout=LAYOUT)
    return HOPPER.choose_plan(call, device)


@pytest.mark.parametrize("ratio", [1, 3, 5, 6, 8, 24, 64])
@pytest.mark.parametrize("query_len", [1, 2, 5, 8, 13, 16, 33, 64])
def test_every_row_has_a_place_in_a_tile_of_whole_tokens(query_len: int, ratio: int) -> None:
    """Caught: rows of a tile rounded down, so that the last tokens have no tile."""
    found = plan(1, query_len, ratio)
    assert found.tiles * found.rows >= query_len * ratio
    assert found.rows <= found.block_m
    assert found.rows % ratio == 0


def test_one_request_fills_an_h200() -> None:
    """Caught: programs a multiprocessor that do not follow from the warps.

    4 KV heads. 6 rows: two programs on each of 132. 48 rows, one on each: 33 a head, of which two
    have the ring, 32 rows each, and are one split. 96 rows: two tiles of 48, so that each has 16.
    """
    assert (plan(1, 1, 6).splits, plan(1, 8, 6).splits, plan(1, 16, 6).splits) == (66, 32, 15)
    # the ring has a split of its own, whatever the batch
    assert plan(256, 8, 6).splits == 2


@pytest.mark.parametrize("ratio", [1, 3, 5, 6, 8, 24, 64])
@pytest.mark.parametrize("query_len", [2, 5, 8, 13, 16, 33, 64])
def test_programs_of_many_rows_run_all_at_once(query_len: int, ratio: int) -> None:
    """Caught: programs of the ring that are not taken from the splits, so that some wait."""
    found = plan(1, query_len, ratio)
    if found.block_m <= 32:
        return
    heads, of_ring = 4 * found.tiles, -(-found.rows // 32)
    programs = heads * (of_ring + found.splits - 1)
    if heads * (of_ring + 1) <= 132:
        assert 132 - heads < programs <= 132
    else:
        assert found.splits == 2


@pytest.mark.parametrize(("scale", "reads"), [(0.0625, True), (0.0, True), (-0.0625, False)])
def test_scores_that_a_scale_turns_over_are_left_to_the_other_path(
    scale: float, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught: `softmax_scale >= 0` left out: the largest score is the smallest weight."""
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (9, 0))
    call = SimpleNamespace(
        layout=LAYOUT, shape=SimpleNamespace(ratio=6), precise=False, softmax_scale=scale,
        tiles=SimpleNamespace(is_cuda=True, device="cuda"),
    )  # fmt: skip
    assert HOPPER.fits(call, H200) is reads


@pytest.mark.parametrize("most", [1, 8, 67, 256])
@pytest.mark.parametrize("ratio", [1, 6, 8, 64])
def test_scratch_of_the_maxima_holds_every_plan_within_them(most: int, ratio: int) -> None:
    """Caught: scratch of one split a query tile, where the ring takes another."""
    scratch = tile_attention.allocate_scratch(
        max_requests=most, max_query_len=64, num_query_heads=4 * ratio, num_kv_heads=4,
        head_dim=256, device="meta",
    )  # fmt: skip
    for requests in {1, most // 2 or 1, most}:
        for query_len in (1, 2, 5, 8, 16, 33, 64):
            scratch.check(plan(requests, query_len, ratio, scratch.device), requests, 4, 256)
