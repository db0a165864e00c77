"""What verify attention refuses, with the whole message; nothing is launched."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from tests.kernels.caches import Call, make
from tests.kernels.cases import FORMATS, LAYOUTS, Case, read_by_tma
from tests.kernels.run_kernel import path_taken, run, scratch_for

pytestmark = pytest.mark.kernel

F32 = torch.float32
KEYS = [4, 16, 2]  # pages, tokens of a page, key heads of the case below


def wrong(call: Call) -> dict[str, tuple[dict[str, Any], str]]:
    """What is changed in a right call of int8, and what is said of it."""
    device = call.query.device
    scale = torch.ones(KEYS, dtype=F32, device=device)
    keys, values, table = call.key_cache, call.value_cache, call.block_table
    int8 = f"{keys.dtype} {tuple(values.shape)}"
    return {
        "a query of codes": (
            {"query": call.query.to(torch.int8)},
            "query is torch.int8; expected bfloat16, float16 or float32",
        ),
        "a query of two dimensions": (
            {"query": call.query[0]},
            "query has shape (6, 64); expected [tokens, heads, head_dim]",
        ),
        "every other channel of a query": (
            {"query": torch.zeros(5, 6, 128, dtype=torch.bfloat16, device=device)[:, :, ::2]},
            "query has last stride 2; expected 1",
        ),
        "query heads that are no multiple": (
            {"query": call.query[:, :5]},
            "the query has 5 heads of 64; expected heads of 64, a multiple of the cache's 2",
        ),
        "values of another dtype": (
            {"value_cache": values.float()},
            f"value_cache is torch.float32 (4, 16, 2, 64) on {values.device}; "
            f"expected key_cache's {int8} on {values.device}",
        ),
        "pages that are no multiple of 16": (
            {"key_cache": keys[:, :8], "value_cache": values[:, :8]},
            "block_size is 8; expected a multiple of 16",
        ),
        "no scale": (
            {"key_scale": None},
            f"key_scale is None; "
            f"expected float32 [4, 16, 2], a scale a token and head, on {device}",
        ),
        "one scale for all codes": (
            {"value_scale": scale[0, 0, :1]},
            f"value_scale is torch.float32 [1] on {device}; "
            f"expected float32 [4, 16, 2], a scale a token and head, on {device}",
        ),
        "a scale of half precision": (
            {"value_scale": scale.half()},
            f"value_scale is torch.float16 [4, 16, 2] on {device}; "
            f"expected float32 [4, 16, 2], a scale a token and head, on {device}",
        ),
        "scales of values that have none": (
            {"key_cache": keys.half(), "value_cache": values.half()},
            "key_scale is given with torch.float16; expected None",
        ),
        "a table of long integers": (
            {"block_table": table.long()},
            "block_table is torch.int64 with 2 dimensions; expected int32 with 2",
        ),
        "a table of another batch": (
            {"block_table": torch.cat([table, table])},
            "block_table has 2 rows, query_start 2 elements; expected 1 and 2, as seq_lens has 1",
        ),
        "a window that is negative": (
            {"window": -1},
            "max_query_len is 2, window -1; expected 0 (no query, no window) or more",
        ),
    }


SOME = make(Case((10,), (2,), "int8, bf16 query", ratio=3), "cpu")


@pytest.mark.parametrize("name", list(wrong(SOME)))
def test_a_wrong_argument_is_refused(name: str, device: str) -> None:
    call = make(Case((10,), (2,), "int8, bf16 query", ratio=3), device)
    scratch = scratch_for(call)
    change, message = wrong(call)[name]
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(replace(call, **change), scratch=scratch)
    assert str(refused.value) == message


def test_a_path_that_is_none_and_one_that_does_not_read_the_cache_are_refused(device: str) -> None:
    call = make(Case((10,), (2,), "int8, bf16 query", ratio=3), device)
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(call, path="fast")
    assert str(refused.value) == "path is 'fast'; expected None or one of tma, pointer, int8"
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        run(call, path="tma")
    assert str(refused.value) == (
        "path 'tma' does not read torch.int8 with strides (4352, 272, 136, 1) on this device; "
        "expected None or 'pointer'"
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORMATS)
def test_the_cases_that_are_paired_with_a_path_are_those_that_it_reads(
    name: str, layout: str, device: str
) -> None:
    """Both ways. Caught: int8, or pages at any 8 bytes, taken for what path "tma" reads."""
    case = Case((10,), (2,), name, layout=layout, head_dim=128, ratio=3)
    call = make(case, device)
    if not read_by_tma(case):
        with pytest.raises(ValueError, match="path 'tma' does not read"):
            path_taken(call, "tma", precise=FORMATS[name].precise)
    elif scratch_for(call).device.has_tma:
        assert path_taken(call, "tma", precise=FORMATS[name].precise) == "tma"


def test_scratch_that_is_too_small_is_refused_and_does_not_grow(device: str) -> None:
    call = make(Case((10,) * 40, (9,) * 40, ratio=8), device)
    scratch = scratch_for(call, max_requests=1, max_query_len=1)
    cells = scratch.part_max.numel()
    more = make(Case((10,) * (cells // 128), (9,) * (cells // 128), ratio=8), device)
    with pytest.raises(ValueError, match=r"^\d+ requests of \d+ query tiles need \d+ cells") as no:
        run(more, scratch=scratch)
    assert str(no.value).endswith(
        f" of scratch, {cells} were allocated; allocate for the configured maxima"
    )
    assert scratch.part_max.numel() == cells


def test_scratch_of_another_head_size_is_refused(device: str) -> None:
    call = make(Case((10,), (2,)), device)
    with pytest.raises(ValueError, match=r"^head_dim is 64, scratch was allocated for 128$"):
        run(call, scratch=scratch_for(call, head_dim=128))
