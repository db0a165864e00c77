"""The rotation held against x · H in float64, on a GPU or interpreted.

Each comparison names mutations of `mutations_kvarn_pack.py` that it is to catch, without "kernel-".
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels.rotate import rotate
from kvarn_port.reference import rotate as reference
from tests.kernels.pairs import pairwise

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

NAN, INF = float("nan"), float("inf")
FACTORS = {
    "dtype": (torch.bfloat16, torch.float16, torch.float32),
    "head_dim": (64, 128, 256, 512),
    "heads": ((1, 1), (6, 2), (24, 4), (5, 1)),
    "tokens": (1, 7, 16, 33),
    "layout": ("plain", "padded", "odd"),
    "inputs": ("normal", "one channel", "huge"),
}
CASES = pairwise(FACTORS)


@dataclass(frozen=True)
class Rows:
    """Inputs and poisoned outputs, by turns of queries, keys and values."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]

    def rotated(self) -> list[torch.Tensor]:
        """Return the outputs, rotated."""
        rotate(*self.inputs, *self.outputs)
        return self.outputs


def empty(tokens: int, heads: int, head_dim: int, dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Return a tensor full of NaN, with room for one more token behind it.

    Rows are apart by whole 16 bytes, or by 3 numbers, or not at all.
    """
    pad = {"plain": 0, "padded": 16 // dtype.itemsize, "odd": 3}[layout]
    stride = heads * (head_dim + pad) + pad
    storage = torch.full((pad + (tokens + 1) * stride,), NAN, dtype=dtype)
    return storage.as_strided((tokens, heads, head_dim), (stride, head_dim + pad, 1), pad)


def like(x: torch.Tensor, device: str) -> torch.Tensor:
    """Return a copy on a device with the strides and what lies between."""
    count = x.untyped_storage().nbytes() // x.itemsize
    storage = x.as_strided((count,), (1,), 0).to(device, copy=True)
    return storage.as_strided(x.shape, x.stride(), x.storage_offset())


def make(row: dict, device: str, seed: int = 0) -> Rows:
    """Return the tensors of a row of FACTORS."""
    random = torch.Generator().manual_seed(seed)
    inputs, outputs = [], []
    for heads in (row["heads"][0], row["heads"][1], row["heads"][1]):
        shape = (row["tokens"], heads, row["head_dim"])
        x = torch.randn(shape, generator=random)
        if row["inputs"] == "one channel":
            x[:, :, 5] += 100
        elif row["inputs"] == "huge":
            x = (x * 2e4).clamp(-6e4, 6e4)
        held = empty(*shape, row["dtype"], row["layout"])
        held.copy_(x)
        inputs.append(like(held, device))
        outputs.append(like(empty(*shape, torch.float16, row["layout"]), device))
    return Rows(inputs, outputs)


def worst(x: torch.Tensor, got: torch.Tensor, *, sanitised: bool) -> float:
    """Return the largest error of a row's elements, in units of what is allowed.

    Half a unit in the last place of float16; sums of float32 of D numbers that are cut off, at most
    2^-23 of the sum of magnitudes an addition; float32 as two numbers of 11 bits leaves 2^-22 of
    each; and in bfloat16 65,536 stands for 65,504.
    """
    x, got = x.cpu(), got.cpu().double()
    head_dim = x.shape[-1]
    exact = reference.sanitise(x) if sanitised else x.double()
    matrix = reference.hadamard(head_dim)
    truth = (exact @ matrix).clamp(-65504, 65504)
    limit = truth.abs() * 2**-11 + 2**-25
    limit += (exact.abs() @ matrix.abs()) * (head_dim + 2) * 2**-23
    beyond = (x.abs().nan_to_num() > 65504) & sanitised & (x.dtype == torch.bfloat16)
    limit += (beyond.double() @ matrix.abs()) * 32
    return float(((got - truth).abs() / limit).max())


@pytest.mark.parametrize("row", CASES, ids=lambda row: "-".join(str(x) for x in row.values()))
def test_rows_are_rotated_within_their_bounds(row: dict, device: str) -> None:
    rows = make(row, device)
    for number, (x, got) in enumerate(zip(rows.inputs, rows.rotated(), strict=True)):
        # sign-of-three-bits, parity-of-two-bits, channels-out-of-order, operand-out-of-order,
        # butterflies-without-minus, scale-of-a-part, rows-unmasked, first-keys-as-queries,
        # value-of-key, key-heads-for-queries, parts-exchanged: other numbers
        assert worst(x, got, sanitised=number > 0) <= 1
        # what lies between the rows and behind them is as it was
        count = got.untyped_storage().nbytes() // 2
        everything = got.as_strided((count,), (1,), 0)
        assert int(everything.isnan().sum()) == count - got.numel()


@pytest.mark.parametrize("dtype", FACTORS["dtype"])
@pytest.mark.parametrize("head_dim", [64, 256])
def test_what_is_not_finite_is_mended_in_keys_and_values_alone(
    head_dim: int, dtype: torch.dtype, device: str
) -> None:
    row = {"dtype": dtype, "head_dim": head_dim, "heads": (2, 2), "tokens": 5, "layout": "plain"}
    rows = make(row | {"inputs": "normal"}, device)
    for number, x in enumerate(rows.inputs):
        x[0, 0, 3], x[1, 1, 0], x[2, 0, 7], x[3, 1, 1] = NAN, INF, -INF, NAN
        x[3, 1, 2] = INF
        if number and dtype != torch.float16:
            x[4, 0, :] = 3e38  # sums of which overflow float32
    query, key, value = rows.rotated()
    # nan-kept, infinity-kept: NaN, which would reach every token of a tile
    assert worst(rows.inputs[1], key, sanitised=True) <= 1
    assert worst(rows.inputs[2], value, sanitised=True) <= 1
    # query-sanitised: a NaN of a query is not hidden; nan-clamped: nor turned into a number
    assert query[0, 0].isnan().all()
    assert query[3, 1].isnan().all()
    others = [(0, 1), (1, 0), (2, 1), (3, 0), (4, 1)]
    plain = torch.stack([rows.inputs[0][at] for at in others])
    assert worst(plain, torch.stack([query[at] for at in others]), sanitised=False) <= 1


@pytest.mark.parametrize("dtype", FACTORS["dtype"])
def test_numbers_beyond_float16_are_clamped(dtype: torch.dtype, device: str) -> None:
    row = {"dtype": dtype, "head_dim": 128, "heads": (1, 1), "tokens": 2, "layout": "plain"}
    rows = make(row | {"inputs": "normal"}, device)
    for x in rows.inputs:
        x[0], x[1] = 60000.0, -60000.0  # the first channel sums up to 11 times as much
    for got in rows.rotated():
        # output-not-clamped: infinite
        assert got[:, 0, 0].tolist() == [65504.0, -65504.0]
        assert (got[:, :, 1:].abs() <= 16).all()  # of sums whose terms are 60,000, cut off


@pytest.mark.parametrize("dtype", FACTORS["dtype"])
@pytest.mark.parametrize("head_dim", [128, 512])
def test_a_row_has_the_same_bits_whatever_is_beside_it(
    head_dim: int, dtype: torch.dtype, device: str
) -> None:
    row = {"dtype": dtype, "head_dim": head_dim, "heads": (6, 2), "layout": "plain"}
    rows = make(row | {"tokens": 41, "inputs": "one channel"}, device)
    together = rows.rotated()
    for token in (0, 17, 40):
        inputs = [x[token : token + 1] for x in rows.inputs]
        alone = [torch.full_like(x, NAN, dtype=torch.float16) for x in inputs]
        rotate(*inputs, *alone)
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0].view(torch.int16), other[token].view(torch.int16))


@pytest.mark.parametrize("tokens", [1, 33])
def test_keys_and_values_are_rotated_without_queries(tokens: int, device: str) -> None:
    row = {"dtype": torch.bfloat16, "head_dim": 256, "heads": (6, 2), "layout": "padded"}
    rows = make(row | {"tokens": tokens, "inputs": "normal"}, device)
    beside = rows.rotated()
    inputs = [rows.inputs[0][:, :0], *rows.inputs[1:]]
    alone = [torch.full_like(x, NAN, dtype=torch.float16) for x in inputs]
    rotate(*inputs, *alone)
    # first-keys-as-queries: rows that stay NaN
    for one, other in zip(alone[1:], beside[1:], strict=True):
        assert torch.equal(one.view(torch.int16), other.contiguous().view(torch.int16))


@pytest.mark.gpu
def test_tokens_past_two_to_the_31_are_read_and_written(gpu: str) -> None:
    step = 2**31 // 2 + 64
    x = torch.randn(3, 1, 64, generator=torch.Generator().manual_seed(0)).half().to(gpu)
    far = [torch.empty(2 * step + 64, dtype=torch.float16, device=gpu) for _ in range(4)]
    views = [each.as_strided((3, 1, 64), (step, 64, 1)) for each in far]
    views[0].copy_(x)
    views[1].copy_(x)
    near = torch.empty_like(x)
    rotate(views[0], views[1], x, views[2], views[3], near)
    # offsets in 32 bits: other rows, or a crash
    assert torch.equal(views[2], near)
    assert torch.equal(views[3], near)


def test_no_tokens_are_no_launch(device: str) -> None:
    empties = [torch.empty(0, heads, 64, device=device) for heads in (4, 2, 2)]
    rotate(*empties, *(x.half() for x in empties))


def wrong(device: str) -> dict[str, tuple[dict[int, torch.Tensor], str]]:
    """What is changed in a right call, by place, and what is said of it."""
    x = torch.zeros(3, 2, 64, device=device)
    where = str(x.device)
    return {
        "two dimensions": (
            {0: x[0]},
            "query has shape [2, 64]; expected [tokens, heads, head_dim], head_dim 64, 128, 256, "
            "512 and the same everywhere",
        ),
        "a head_dim of 96": (
            {0: torch.zeros(3, 2, 96, device=device)},
            "query has shape [3, 2, 96]; expected [tokens, heads, head_dim], head_dim 64, 128, "
            "256, 512 and the same everywhere",
        ),
        "keys of another dtype": (
            {1: x.half()},
            f"key is torch.float16 on {where}; expected bfloat16, float16 or float32, the query's "
            f"torch.float32 on {where}",
        ),
        "fewer values": (
            {2: x[:2]},
            "value has shape [2, 2, 64]; expected 3 tokens, keys and values alike: [3, 2, 64]",
        ),
        "an output of float32": (
            {4: x},
            f"rotated_key is torch.float32 [3, 2, 64] on {where}; expected float16 [3, 2, 64] on "
            f"{where}",
        ),
        "every other channel": (
            {0: torch.zeros(3, 2, 128, device=device)[:, :, ::2]},
            "query has last stride 2, rotated_query 1; expected 1",
        ),
    }


@pytest.mark.parametrize("name", wrong("cpu"))
def test_what_is_not_read_is_refused(name: str, device: str) -> None:
    changed, message = wrong(device)[name]
    x = torch.zeros(3, 2, 64, device=device)
    arguments = [x, x, x, x.half(), x.half(), x.half()]
    for place, tensor in changed.items():
        arguments[place] = tensor
    with pytest.raises(ValueError, match="expected") as raised:
        rotate(*arguments)
    assert str(raised.value) == message
