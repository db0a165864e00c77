"""Verify attention held against float64 on the dequantised cache, on a GPU or interpreted.

Each comparison names the mutations of `mutate.py` that it catches; all were tried.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

for needed in ("torch", "triton"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)

import torch

from tests.kernels import bounds, large_pool
from tests.kernels.caches import Call, make
from tests.kernels.cases import FORMATS, Case, listed_cases, long_cases, small_cases
from tests.kernels.run_kernel import HUGE, NAN, ZERO, poison, run, scratch_for

pytestmark = pytest.mark.kernel

SMALL = small_cases()


def check_parity(case: Case, device: str) -> None:
    """Hold one call against the truth: every element, their RMS, and the rows of no request."""
    call = make(case, device)
    precise = FORMATS[case.format].precise
    output = run(call, precise=precise, path=case.path)
    tokens = sum(case.query_lens)
    exact = bounds.truth(call)
    # causal-late, causal-early, window-wide, scale-of-head-0, no-rescale: each exceeds the bound
    # of some element, by NaN of a slot that is nobody's or by a weight that is wrong
    assert bounds.worst(output[:tokens], exact.rows(tokens)) <= 1
    # weights-not-rounded-alike, sum-of-rounded: small everywhere, and in one direction
    limit = bounds.RELATIVE_RMS[call.query.dtype]
    assert bounds.relative_rms(output[:tokens], exact.rows(tokens)) <= limit
    if precise and case.inputs == "normal":
        # tf32-dots: 1e-4 where float32's own error is 1e-6
        error = (output[:tokens].double() - exact.output[:tokens]).abs().max()
        assert error <= bounds.MAX_ABSOLUTE
    # writes-padding: rows of no request are left as they were
    assert (output[tokens:].contiguous().view(torch.uint8) == NAN).all()


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_a_short_call_is_within_its_bounds(case: Case, device: str) -> None:
    check_parity(case, device)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*listed_cases(), *long_cases()], ids=str)
def test_a_long_call_is_within_its_bounds(case: Case, gpu: str) -> None:
    check_parity(case, gpu)
