"""What each of the three comparisons of parity sees, and the other two do not."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.reference.verify_attention import request_tokens, visible_keys
from tests.kernels.bounds import MAX_ABSOLUTE, RELATIVE_RMS, Truth, relative_rms, truth, worst
from tests.kernels.caches import Call, make
from tests.kernels.cases import Case

pytestmark = pytest.mark.kernel


def exact(name: str) -> Truth:
    return truth(make(Case((150,), (4,), name), "cpu")).rows(4)


def test_the_truth_itself_is_within_every_bound() -> None:
    right = exact("bf16")
    assert worst(right.output, right) == 0
    assert relative_rms(right.output.bfloat16(), right) < 2**-8
    assert worst(right.output.bfloat16(), right) <= 1


def test_one_element_that_is_wrong_by_its_own_size_shows_in_the_bound_alone() -> None:
    right = exact("bf16")
    output = right.output.clone()
    smallest = output.abs().argmin()
    output.view(-1)[smallest] += 2 * right.bound.view(-1)[smallest]
    assert worst(output, right) == pytest.approx(2)
    assert relative_rms(output.float(), right) < RELATIVE_RMS[torch.bfloat16]


def test_all_elements_that_are_too_large_by_half_a_percent_show_in_the_rms_alone() -> None:
    right = exact("bf16")
    output = right.output * 1.005
    assert worst(output, right) < 1
    assert relative_rms(output.float(), right) > RELATIVE_RMS[torch.bfloat16]


def test_one_element_of_float32_that_is_wrong_by_1e_5_shows_in_the_maximum_alone() -> None:
    right = exact("fp32")
    output = right.output.clone()
    largest = right.bound.argmax()
    output.view(-1)[largest] += 1e-5
    assert worst(output, right) < 1
    assert relative_rms(output.float(), right) < RELATIVE_RMS[torch.float32]
    assert (output - right.output).abs().max() > MAX_ABSOLUTE


@pytest.mark.parametrize("name", ["bf16", "int8, fp16 query", "fp32"])
def test_the_output_of_another_query_is_outside_the_bound(name: str) -> None:
    call = make(Case((150,), (4,), name), "cpu")
    right = truth(call).rows(4)
    later = truth(call).output[:4].roll(1, 0)  # each query in the place of the next
    assert worst(later, right) > 10


def test_nan_is_outside_every_bound() -> None:
    right = exact("bf16")
    output = right.output.float()
    output[0, 0, 0] = torch.nan
    assert worst(output, right) == torch.inf
    assert relative_rms(output, right) == torch.inf


def by_path_int8(call: Call, unit: float) -> torch.Tensor:
    """What path "int8" computes of one request: weights in float16, in units of the largest scale.

    unit: by how much that unit is larger than the kernel's; all else is exact.
    """
    seq_len, double = int(call.seq_lens[0]), torch.float64
    pages, rows = call.block_table[0], int(call.query_start[1])
    keys = request_tokens(call.key_cache, call.key_scale, pages, seq_len, double)
    ones = torch.ones_like(call.value_cache)
    scales = request_tokens(ones, call.value_scale, pages, seq_len, double)
    codes = request_tokens(call.value_cache, call.value_scale, pages, seq_len, double) / scales
    ratio = call.query.shape[1] // keys.shape[1]
    keys, codes, scales = (x.repeat_interleave(ratio, 1) for x in (keys, codes, scales))
    scores = torch.einsum("qhd,khd->hqk", call.query[:rows].double(), keys) * call.softmax_scale
    seen = visible_keys(rows, seq_len, call.window, "cpu")
    scores = scores.masked_fill(~seen, -torch.inf)
    p = torch.exp(scores - scores.amax(2, True))
    top = unit * scales[..., 0].amax(0)[:, None, None]
    weights = (p * scales[..., 0].T[:, None] / top).half().double() * top
    return torch.einsum("hqk,khd->qhd", weights, codes) / p.sum(2).T[:, :, None]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_bound_of_path_int8_is_near_what_its_weights_lose(seed: int) -> None:
    name = "int8, fp16 query"
    call = make(Case((8,), (8,), name, head_dim=256, ratio=1, inputs="mixed", seed=seed), "cpu")
    right = truth(call, hopper=True).rows(8)
    assert 0.3 < worst(by_path_int8(call, 1.0), right) <= 1
    # a unit that is 64 times too large loses small weights that the kernel keeps
    assert worst(by_path_int8(call, 64.0), right) > 10
    # and paths whose unit is a row's own largest weight keep what this one loses
    assert worst(by_path_int8(call, 1.0), truth(call).rows(8)) > 1
