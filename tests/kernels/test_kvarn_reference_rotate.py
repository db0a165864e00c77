"""Rotation in plain torch against a matrix written down otherwise, and what is done to bad tokens.

Comments name the mutations of `mutations_kvarn_reference.py` that a comparison catches.
"""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.reference.rotate import hadamard, rotate, sanitise, to_float16

pytestmark = pytest.mark.kernel

NAN, INF = float("nan"), float("inf")


def rotated(key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What is written of the same rows as query, key and value."""
    results = [torch.full(key.shape, NAN, dtype=torch.float16) for _ in range(3)]
    rotate(key, key, key, *results)
    return results[0], results[1], results[2]


@pytest.mark.parametrize("head_dim", [1, 2, 64, 128, 256, 512])
def test_an_entry_is_minus_where_row_and_column_share_an_odd_number_of_bits(head_dim: int) -> None:
    # signs-of-another-block
    places = range(head_dim)
    signs = [[1 - 2 * ((i & j).bit_count() % 2) for j in places] for i in places]
    expected = torch.tensor(signs, dtype=torch.float64) / head_dim**0.5
    assert torch.equal(hadamard(head_dim), expected)


@pytest.mark.parametrize("head_dim", [64, 128, 256, 512])
def test_rotation_is_its_own_inverse(head_dim: int) -> None:
    matrix = hadamard(head_dim)
    product = matrix @ matrix - torch.eye(head_dim, dtype=torch.float64)
    assert product.abs().max() < 1e-14


@pytest.mark.parametrize("head_dim", [0, -2, 3, 96, 384])
def test_a_head_dim_that_is_no_power_of_two_is_refused(head_dim: int) -> None:
    with pytest.raises(ValueError, match=rf"^head_dim is {head_dim}, expected a power of two$"):
        hadamard(head_dim)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("head_dim", [64, 128, 256, 512])
def test_rows_are_rotated_and_rounded_once(head_dim: int, dtype: torch.dtype) -> None:
    """Half an ulp of float16, 2⁻¹¹ of the number; subnormals are out of reach of these inputs."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(40, 3, head_dim, generator=random).to(dtype)
    strided = torch.full((40, 3, head_dim + 8), NAN, dtype=dtype)[..., :head_dim].copy_(x)
    bit = torch.arange(head_dim)
    signs = torch.tensor([[(int(i) & int(j)).bit_count() for j in bit] for i in bit]) % 2
    expected = x.double() @ (1 - 2.0 * signs.double()) / head_dim**0.5
    for found in rotated(strided):
        error = (found.double() - expected).abs()
        assert (error <= expected.abs() * 2**-11 + 2**-25).all()
        # matrix-of-float16: at 128 and 512 everything would shrink by 1.07e-4, noise is 4e-6
        shrunk = 1 - (found.double() * expected).sum() / expected.square().sum()
        assert shrunk.abs() < 2e-5


def test_keys_and_values_are_finite_whatever_comes_in() -> None:
    # nan-stays, infinity-to-zero, huge-number-stays
    found = sanitise(torch.tensor([NAN, INF, -INF, 3e38, -70000.0, 65504.0, 1.5]))
    assert found.tolist() == [0, 65504, -65504, 65504, -65504, 65504, 1.5]
    x = torch.randn(4, 1, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    good = rotated(x)
    x[1] = NAN
    x[2, 0, :2] = torch.tensor([INF, 3e38])
    query, key, value = rotated(x)
    for part, before in ((key, good[1]), (value, good[2])):
        assert part.isfinite().all()
        assert part[1].abs().max() == 0
        # 2 · 65504 / 8 = 16376 where the two add up, plus what the others give
        assert part[2].abs().max() == pytest.approx(16376, abs=16)
        assert torch.equal(part[[0, 3]], before[[0, 3]])
    # query-sanitised: it is not, and only its own row shows it
    assert query[1].isnan().all()
    assert torch.equal(query[[0, 3]], good[0][[0, 3]])


def test_a_sum_over_65504_is_clamped() -> None:
    # float16-unclamped: inf
    x = torch.full((1, 1, 256), 60000.0, dtype=torch.bfloat16)
    x[..., 128:] *= -1
    for found in rotated(x):
        # all of it falls on the channel that has the sign of the highest bit
        assert found[0, 0, 128] == 65504
        assert found.abs().sum() == 65504
    for found in rotated(-x):
        assert found[0, 0, 128] == -65504


def test_float16_is_to_the_nearest_even() -> None:
    # float16-cut-off
    given = torch.tensor([2049.0, 2051.0, 1e6, -1e6, 65519.9, 1e-8])
    assert to_float16(given).tolist() == [2048, 2052, 65504, -65504, 65504, 0]
    assert to_float16(torch.tensor([NAN])).isnan().all()
