"""Two bits that are fitted to their rows, in plain torch: by hand, and by what they are to keep.

Comments name the mutations of `mutations_kvarn_reference.py` that a comparison catches.
"""

from __future__ import annotations

import importlib.util
import inspect
import math

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.reference.normalise import MODES, normalise
from kvarn_port.reference.pack import pack
from kvarn_port.reference.tiles import fit_to_rows, quantise, quantised, round_to_nearest
from tests.kernels.golden_tiles import golden_tile

pytestmark = pytest.mark.kernel

NAN, INF = float("nan"), float("inf")


def test_fitted_codes_are_about_the_middle_of_a_range() -> None:
    """Of -4 to 6 the middle is 1, a fifth of the range 2: 0 up to -1, 3 from 3 on."""
    # inner-part-of-a-quarter, codes-from-the-mean, inner-without-its-end
    row = [-4.0, -1.0, -0.99, 1.0, 1.01, 2.99, 3.0, 6.0]
    codes, _, _ = fit_to_rows(torch.tensor([[row]]))
    assert codes.tolist() == [[[0, 0, 1, 1, 2, 2, 3, 3]]]
    assert codes.dtype == torch.uint8


def test_fitted_steps_give_back_the_mean_of_a_row_and_its_size() -> None:
    # least-squares: 3.2; mean-not-kept
    # ±1 and ±5 have codes 0 to 3, ±0.5 and ±1.5 about their mean: 52 / (0.5 + 0.5 + 7.5 + 7.5)
    _, step, low = fit_to_rows(torch.tensor([[[-5.0, 1.0, -1.0, 5.0]]]))
    assert (step.item(), low.item()) == (3.25, -1.5 * 3.25)
    random = torch.Generator().manual_seed(6)
    rows = 9 * torch.rand(4, 128, 96, generator=random) ** 1.5 + 30  # uneven about their means
    codes, step, low = (part.double() for part in fit_to_rows(rows))
    found, rows = codes * step[..., None] + low[..., None], rows.double()
    mean = rows.mean(2, keepdim=True)
    # float32, from the means on: 2⁻²⁴ · 30 of a mean, of the squares as much by their root of 2
    torch.testing.assert_close(found.mean(2), mean[..., 0], rtol=1e-6, atol=0)
    products = ((found - mean) * (rows - mean)).sum(2)
    torch.testing.assert_close(products, (rows - mean).square().sum(2), rtol=1e-5, atol=0)


def test_fitted_codes_stay_within_the_range_of_their_row() -> None:
    # step-not-cut-above: 5.06, and 15.2 for 15
    # one number far from the rest: what they spread within code 0 is not put on it
    row = [15.0, 1.0, -1.0, 0.5, -0.5, 0.0, 0.0, 0.0]
    codes, step, low = fit_to_rows(torch.tensor([[row]]))
    assert codes.tolist() == [[[3, 0, 0, 0, 0, 0, 0, 0]]]
    assert (step.item(), low.item()) == (5.0, 0.0)
    # step-not-cut-below: the same, turned over
    _, step, low = fit_to_rows(-torch.tensor([[row]]))
    assert (step.item(), low.item()) == (5.0, -15.0)
    rows = torch.randn(3, 128, 256, generator=torch.Generator().manual_seed(8))
    rows[0, :, 0] += 15
    rows[1] = rows[1].exp()
    rows[2] = 7000 * rows[2].sign()
    rows[2, :, 9] = 60000
    codes, step, low = fit_to_rows(rows)
    ends = torch.stack([low, low + 3 * step])
    apart = (rows.amax(2) - rows.amin(2)) * 1e-6
    assert (ends[0] >= rows.amin(2) - apart).all()
    assert (ends[1] <= rows.amax(2) + apart).all()
    # 28 without the cut
    found = codes * step[..., None] + low[..., None]
    assert found[0, :, 0].mean().item() == pytest.approx(rows[0, :, 0].mean().item(), abs=0.7)


@pytest.mark.parametrize(("columns", "deviations"), [(128, 5.2), (256, 5.65)])
def test_fitted_rows_of_normal_numbers_lose_what_their_codes_say(
    columns: int, deviations: float
) -> None:
    """0.369 and 0.374: root of 1 / r² - 1, where r is the correlation of numbers of N(0, 1) with
    ±1/2 and ±3/2 at k, a fifth of the range of so many. From end to end 2 bits lose 0.50 and 0.55.
    Rows whose middle is off their mean lose a hundredth more; a quarter of the range 0.39, 0.41."""
    # inner-part-of-a-quarter
    rows = torch.randn(8, 128, columns, generator=torch.Generator().manual_seed(7))
    codes, step, low = fit_to_rows(rows)
    found = codes * step[..., None] + low[..., None]
    k = deviations / 5
    beyond = math.erfc(k / 2**0.5)
    product = 2 * (0.5 + math.exp(-k * k / 2)) / (2 * math.pi) ** 0.5
    square = 0.25 * (1 - beyond) + 2.25 * beyond
    lost = (square / product**2 - 1) ** 0.5
    assert ((found - rows).norm() / rows.norm()).item() == pytest.approx(lost, abs=0.01)


def test_rows_of_one_number_and_of_nan_are_fitted_to_nothing() -> None:
    # a-flat-row-has-a-step: 0 / 0
    rows = torch.tensor([[[2.5] * 4, [0.0, NAN, 1.0, 3.0], [0.0, INF, 1.0, 3.0]]])
    codes, step, low = fit_to_rows(rows)
    assert codes[0, 0].tolist() == [0] * 4
    assert step.tolist() == [[0, 0, 0]]
    assert low[0, 0] == 2.5
    assert low[0, 1].isnan()
    assert low[0, 2] == INF


@pytest.mark.parametrize("mode", MODES)
def test_only_two_bits_are_fitted_and_only_by_that_mode(mode: str) -> None:
    # fits-in-every-mode, fits-four-bits, fits-never
    tile = golden_tile("value")[None]
    balanced = normalise(tile, mode=mode).balanced
    for bits in (2, 4):
        fitted = mode == "fitted" and bits == 2
        codes, _, _ = fit_to_rows(balanced) if fitted else round_to_nearest(balanced, bits)
        assert torch.equal(quantised(tile, bits, mode=mode)[0], codes)


def test_tiles_are_fitted_where_no_mode_is_named() -> None:
    # another-default
    for function in (normalise, quantised, quantise, pack):
        assert inspect.signature(function).parameters["mode"].default == "fitted"
