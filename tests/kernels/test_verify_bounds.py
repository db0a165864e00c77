"""What each of the three comparisons of parity sees, and the other two do not."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from tests.kernels.bounds import MAX_ABSOLUTE, RELATIVE_RMS, Truth, relative_rms, truth, worst
from tests.kernels.caches import make
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
