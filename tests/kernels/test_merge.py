"""Joined segments held against float64, on a GPU or interpreted.

Each comparison names mutations of `mutations_kvarn_gather.py` that it is to catch, without their
prefix.
"""

from __future__ import annotations

import importlib.util
import re

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels.merge import Carried, carry, merge
from kvarn_port.reference.merge import merge as reference
from tests.kernels.bounds import LOST, ROUNDOFF
from tests.kernels.pairs import pairwise
from tests.kernels.run_kernel import HUGE, NAN, bits, poison

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

FLOAT = ROUNDOFF[torch.float32]
INF = float("inf")
# What the two 16-bit terms of a joined output leave out, or TF32's three products.
TERMS = {torch.float16: 2.0**-22, torch.bfloat16: 2.0**-16, torch.float32: 2.0**-21}

CASES = {
    "part": ("float16", "bfloat16", "float32"),
    "out": ("bfloat16", "float16", "float32"),
    "head_dim": (64, 128, 256, 512),
    "shape": ((1, 1, 1), (2, 3, 2), (5, 13, 6), (3, 40, 1)),  # segments, tokens, heads
    "lses": ("alike", "far apart", "partly unseen"),
}


def make_parts(
    shape: tuple[int, int, int], head_dim: int, dtype: str, lses: str, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs of segments and their log-sum-exps; where nothing is seen, NaN lies."""
    random = torch.Generator().manual_seed(sum(shape) + head_dim)
    outputs = torch.randn(*shape, head_dim, generator=random).to(getattr(torch, dtype))
    segments, tokens, heads = shape
    spread = {"alike": 1.0, "far apart": 40.0, "partly unseen": 3.0}[lses]
    found = torch.randn(segments, heads, tokens, generator=random) * spread + 5.0
    if lses == "partly unseen":
        drawn = torch.rand(found.shape, generator=random)
        found[drawn < 0.4] = -INF
        found[drawn < 0.1] = INF  # as FlashAttention 2 says it
        outputs[~found.isfinite().transpose(1, 2)] = torch.nan
    return outputs.to(device), found.to(device)


def truth(
    outputs: torch.Tensor, lses: torch.Tensor, *, unrotate: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is joined in float64, and the bound of each element before it is rounded.

    A weight exp(lse - top) has the error of a float32 difference, |lse - top| u with weights that
    vanish as it grows (w |ln w| < 1/2), and of exp, 2 u; sums of segments and the quotient add one
    each, in both of its terms. The rotation keeps what TERMS says, and sums D products.
    """
    seen = torch.where(lses == INF, -INF, lses)
    exact = outputs.new_empty(outputs.shape[1:], dtype=torch.float64)
    joined, size = exact.clone(), exact.clone()
    reference(outputs, seen, exact, unrotate=unrotate)
    reference(outputs, seen, joined, unrotate=False)
    reference(outputs.abs(), seen, size, unrotate=False)
    bound = 2 * FLOAT * (8 + 2 * outputs.shape[0]) * size
    if unrotate:
        head_dim = outputs.shape[-1]
        left = TERMS[outputs.dtype] * joined.abs() + LOST[outputs.dtype] * head_dim / 64
        sums = FLOAT * (2 * head_dim + 8) * joined.abs()
        bound = ((bound + left + sums).sum(-1, keepdim=True) / head_dim**0.5).expand(bound.shape)
    return exact, bound


def worst(found: torch.Tensor, exact: torch.Tensor, inner: torch.Tensor) -> float:
    """Return the largest error as a part of its bound, the output's rounding included."""
    out = found.dtype
    bound = inner + ROUNDOFF[out] * (exact.abs() + inner) + LOST[out]
    error = (found.double() - exact).abs().nan_to_num(nan=torch.inf)
    return float((error / bound).max())


def poisoned(outputs: torch.Tensor, dtype: torch.dtype, byte: int = NAN) -> torch.Tensor:
    """Return an output for these parts, poisoned."""
    made = torch.empty(outputs.shape[1:], dtype=dtype, device=outputs.device)
    poison(made, byte)
    return made


@pytest.mark.parametrize("row", pairwise(CASES), ids=lambda row: "-".join(map(str, row.values())))
def test_segments_are_joined_and_rotated_back(row: dict[str, object], device: str) -> None:
    outputs, lses = make_parts(row["shape"], row["head_dim"], row["part"], row["lses"], device)
    found = merge(outputs, lses, poisoned(outputs, getattr(torch, row["out"])))
    # lse-of-base-2, not-divided, largest-of-the-last, rotation-without-a-sign,
    # rotation-in-16-bits, heads-before-tokens; NaN of what was not seen: unseen-outputs-are-read
    assert worst(found, *truth(outputs, lses)) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("head_dim", CASES["head_dim"])
def test_many_rows_are_joined(dtype: str, head_dim: int, gpu: str) -> None:
    outputs, lses = make_parts((5, 777, 24), head_dim, dtype, "partly unseen", gpu)
    found = merge(outputs, lses, poisoned(outputs, torch.bfloat16))
    assert worst(found, *truth(outputs, lses)) <= 1


def test_outputs_can_stay_in_the_rotated_frame(device: str) -> None:
    outputs, lses = make_parts((3, 7, 2), 64, "float16", "partly unseen", device)
    found = merge(outputs, lses, poisoned(outputs, torch.float32), unrotate=False)
    assert worst(found, *truth(outputs, lses, unrotate=False)) <= 1


@pytest.mark.parametrize("head_dim", [256, 512])
def test_outputs_at_the_end_of_float16_are_joined(head_dim: int, device: str) -> None:
    outputs, lses = make_parts((1, 3, 2), head_dim, "float16", "alike", device)
    outputs = outputs.sign() * 65504
    # the value that the rotation brings together: 65,504 times the root of D
    outputs[0, 0] = 65504
    found = merge(outputs, lses, poisoned(outputs, torch.bfloat16))
    # chunks-summed: cut off at 65,504
    assert worst(found, *truth(outputs, lses)) <= 1


@pytest.mark.parametrize("unseen", [-INF, INF])
def test_a_row_that_sees_no_key_is_zero(unseen: float, device: str) -> None:
    outputs, lses = make_parts((3, 5, 2), 64, "float16", "alike", device)
    lses[:, 1, 2] = unseen
    outputs[:, 2, 1] = torch.nan
    found = merge(outputs, lses, poisoned(outputs, torch.bfloat16))
    # zero-by-zero, infinite-lse-weighs-all: NaN
    assert not found[2, 1].any()
    assert worst(found, *truth(outputs, lses)) <= 1
    assert not merge(outputs[:0], lses[:0], poisoned(outputs, torch.bfloat16)).any()


@pytest.mark.parametrize("counts", [(2, 2), (1, 3), (3, 1, 1)])
def test_segments_may_be_joined_a_few_at_a_time(counts: tuple[int, ...], device: str) -> None:
    shape = (sum(counts), 9, 3)
    outputs, lses = make_parts(shape, 128, "float16", "partly unseen", device)
    carried = Carried(
        poisoned(outputs, torch.float32),
        torch.full(lses.shape[1:], torch.nan, device=device),
    )
    at = 0
    for number, count in enumerate(counts[:-1]):
        part = slice(at, at + count)
        carry(outputs[part], lses[part], carried, first=number == 0)
        at += count
    seen = torch.where(lses == INF, -INF, lses)[:at].double().logsumexp(0)
    error = (carried.lse.double() - seen).abs()
    # the sum's error in its logarithm, its addition to the largest and the rounding of it
    limit = FLOAT * (10 + 2 * at + 2 * seen.abs())
    # carried-lse-of-the-largest: the logarithm of the sum is left out
    assert torch.equal(carried.lse == -INF, seen == -INF)
    assert bool((error <= limit)[seen > -INF].all())
    found = merge(outputs[at:], lses[at:], poisoned(outputs, torch.bfloat16), carried=carried)
    exact, bound = truth(outputs, lses)
    # carried-weighs-one: what came first weighs as much as the largest. A carried lse is rounded:
    # its weight has another |lse| u of error, each time
    size = outputs.nan_to_num().abs().amax((0, 3), keepdim=True)[0].double()
    extra = FLOAT * len(counts) * (4 + 2 * seen.abs().nan_to_num(posinf=0.0).T[..., None])
    assert worst(found, exact, bound + extra * size * 128**0.5) <= 1


def test_two_runs_give_the_same_bits_whatever_was_there(device: str) -> None:
    outputs, lses = make_parts((4, 11, 3), 64, "bfloat16", "partly unseen", device)
    one, other = (
        merge(outputs, lses, poisoned(outputs, torch.bfloat16, byte)) for byte in (NAN, HUGE)
    )
    assert torch.equal(bits(one), bits(other))


def test_strided_outputs_are_written_and_nothing_beside_them(device: str) -> None:
    outputs, lses = make_parts((2, 4, 3), 64, "float16", "alike", device)
    turned = lses.transpose(1, 2).contiguous().transpose(1, 2)
    wide = torch.full((6, 4, 80), 7.0, device=device).bfloat16()
    found = wide[1:5, :3, 8:72]
    merge(outputs, turned, found)
    assert worst(found.clone(), *truth(outputs, lses)) <= 1
    found.fill_(7.0)
    # rows-past-the-end: the last program has 32 rows
    assert (wide == 7.0).all()


def test_offsets_past_two_to_the_31_give_the_same_bits(device: str) -> None:
    outputs, lses = make_parts((3, 2, 2), 64, "float16", "alike", device)
    whole = torch.empty(2**31 + 2**20, dtype=torch.float16, device=device)
    far = whole.as_strided(outputs.shape, (2**30 + 2**18, 128, 64, 1))
    far.copy_(outputs)
    expected = merge(outputs, lses, poisoned(outputs, torch.bfloat16))
    # int32-segments: other outputs, or a crash
    found = merge(far, lses, poisoned(outputs, torch.bfloat16))
    assert torch.equal(bits(expected), bits(found))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"outputs": torch.zeros(2, 3, 64)}, "outputs are torch.float32 [2, 3, 64] with strides"),
        ({"outputs": torch.zeros(2, 3, 4, 32)}, "head_dim is 32; expected a power of two from 64"),
        ({"outputs": torch.zeros(2, 3, 4, 96)}, "head_dim is 96; expected a power of two from 64"),
        ({"lses": torch.zeros(2, 3, 4)}, "lses: torch.float32 [2, 3, 4]; expected torch.float32"),
        ({"output": torch.zeros(3, 4, 65)}, "output: torch.float32 [3, 4, 65]; expected torch.b"),
        ({"output": torch.zeros(3, 64, 4).mT}, "the last stride of output or carried.output is"),
    ],
)
def test_what_does_not_belong_together_is_refused(changed: dict[str, object], text: str) -> None:
    arguments = {
        "outputs": torch.zeros(2, 3, 4, 64),
        "lses": torch.zeros(2, 4, 3),
        "output": torch.zeros(3, 4, 64),
    }
    with pytest.raises(ValueError, match=re.escape(text)):
        merge(**(arguments | changed))
