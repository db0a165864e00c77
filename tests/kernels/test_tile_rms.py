"""The expected RMS of errors, held against the roundings of the path for Hopper done on a CPU."""

from __future__ import annotations

import importlib.util
from math import log2

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.reference.verify_attention import weighted_values
from tests.kernels import bounds, tile_bounds, tile_rms
from tests.kernels.tile_caches import Made, make
from tests.kernels.tile_cases import BEYOND_HALF, TileCase

pytestmark = pytest.mark.kernel


def halves(x: torch.Tensor) -> torch.Tensor:
    """Return float64 numbers as float16 has them."""
    return x.half().double()


def hopper_output(
    made: Made, keys_as: torch.dtype = torch.float16, *, halve_channels: bool = False
) -> torch.Tensor:
    """Return the output of one request that sees all: operands rounded, all else in float64.

    Weights are parts of the row's largest, of which float16 loses more than of that of the tiles
    until then, which the kernel for many rows takes.
    halve_channels: C in place of A and Z of values
    """
    call, fields, (tiles,) = made.call, made.fields, made.packed
    heads, group = call.tiles.shape[1], call.layout.group

    def in_order(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(0, (tiles, heads)).transpose(1, 2).flatten(0, 1)

    scale, low = (halves(x.double() / 2)[:, None] for x in (fields.key_scale, fields.key_low))
    keys = halves(fields.key_codes * scale + low).to(keys_as).double() * 2
    by_token, by_channel = (1, 2) if halve_channels else (2, 1)
    per, zero = (
        halves(x.double() / by_token)[:, :, None] for x in (fields.value_scale, fields.value_low)
    )
    values = halves(fields.value_codes * per + zero)
    values = halves(values * halves(fields.value_channel.double() / by_channel)[:, None]) * 2
    packed = (in_order(keys * fields.key_token.double()[:, :, None]), in_order(values))
    position = torch.arange(tiles * group, int(call.seq_lens[0]))
    row = position % call.ring_keys.shape[1]
    rings = (ring[call.ring_slot[0], row].double() for ring in (call.ring_keys, call.ring_values))
    keys, values = (torch.cat(both) for both in zip(packed, rings, strict=True))
    query = call.query[: call.max_query_len].double()
    spread = keys.repeat_interleave(query.shape[1] // heads, 1)
    scores = torch.einsum("qhd,khd->hqk", query, spread) * call.softmax_scale
    weights = torch.exp(scores - scores.amax(2, True))
    return weighted_values(halves(weights), values) / weights.sum(2).T[:, :, None]


@pytest.mark.parametrize("inputs", ["normal", "huge token", "tiny values", "steep", BEYOND_HALF])
def test_what_is_rounded_has_the_expected_rms(inputs: str) -> None:
    case = TileCase(
        (1500,), (5,), head_dim=256, kv_heads=1, ratio=8, inputs=inputs, causal=False, seed=61
    )
    made = make(case, "cpu")
    exact = tile_bounds.truth(made, torch.float32, hopper=True).rows(5)
    limit = tile_rms.limit(made, torch.float32, hopper=True)
    found = hopper_output(made).float()
    assert bounds.worst(found, exact) <= 1
    # an eighth: of a huge token few rows have all the error, whose roundings may be small
    assert limit / 8 < bounds.relative_rms(found, exact) <= limit
    if inputs != "tiny values":  # their values lose more than these keys
        wrong = hopper_output(made, keys_as=torch.bfloat16).float()
        assert bounds.relative_rms(wrong, exact) > limit


@pytest.mark.parametrize("around", [0.0, 300.0, -300.0])
def test_rounded_exponents_move_a_weight_by_no_more_than_the_bound_has(around: float) -> None:
    random = torch.Generator().manual_seed(63)
    shape = (64, 24, 128)  # rows, tiles, tokens
    token = torch.exp(0.25 * torch.randn(shape, generator=random))
    scale = 256**-0.5 * log2(torch.e)
    dots = (around + 30 * torch.randn(shape, generator=random)) / scale / token
    exact = dots.double() * token.double() * scale
    weight = many_row_exponents(dots * token, torch.tensor(scale))
    error = (weight - exact).abs() / bounds.ROUNDOFF[torch.float32]
    below = exact.amax((1, 2), keepdim=True) - exact
    own = tile_bounds.OWN_ROUNDINGS * exact.abs()
    assert (error <= own + tile_bounds.DISTANCE_ROUNDINGS * below).all()
    # of a score near 0 the maxima move more than it has roundings of its own
    assert (error > own).any() == (around == 0)


def test_the_bound_of_an_output_has_what_rounded_exponents_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Caught: the roundings of a distance left out, one too few, one too many."""
    made = make(TileCase((300,), (2,), head_dim=256, kv_heads=1, causal=False, seed=64), "cpu")
    tokens = tile_bounds.request_tokens(made, 0, hopper=True)
    _, weights = tile_bounds.attended(made, slice(0, 2), tokens)
    bound = tile_bounds.truth(made, torch.float32, hopper=True).rows(2).bound
    monkeypatch.setattr(tile_bounds, "DISTANCE_ROUNDINGS", 0)
    less = tile_bounds.truth(made, torch.float32, hopper=True).rows(2).bound
    output = weighted_values(weights, tokens.values)
    lost = weights * 4 * 2.0**-24 * (weights.amax(2, True) / weights).log()
    spread = lost.sum(2).T[:, :, None] * output.abs()
    wanted = weighted_values(lost, tokens.values.abs()) + spread
    # all errors of a row's scores together move it by a few hundredths more
    assert (bound - less >= wanted).all()
    assert (bound - less <= 1.15 * wanted).all()


def many_row_exponents(scores: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return weights' base-2 logarithms in float64, their exponents rounded as for many rows.

    scores: [rows, tiles, tokens] float32, times their token's scale; scale: of scores, float32
    """
    most = scores.amax(2).cummax(1).values[..., None]
    weight = (scores * scale - most * scale).double()
    alpha = ((most[:, :-1] - most[:, 1:]) * scale).double()
    later = alpha.flip(1).cumsum(1).flip(1)  # of all tiles after one
    weight[:, :-1] += later
    return weight + (most[:, -1:] * scale).double()


def test_values_whose_codes_pass_float16_before_the_channel_scale_are_finite() -> None:
    case = TileCase(
        (300,), (2,), head_dim=256, kv_heads=1, inputs=BEYOND_HALF, causal=False, seed=62
    )
    made = make(case, "cpu")
    fields = made.fields
    per, zero = (x.double()[:, :, None] for x in (fields.value_scale, fields.value_low))
    bare = fields.value_codes * per + zero
    assert bare.abs().amax(2).gt(65504).sum(1).tolist() == [1, 1]
    assert (bare * fields.value_channel.double()[:, None]).abs().max() <= 65504
    exact = tile_bounds.truth(made, torch.float32, hopper=True).rows(2)
    assert bounds.worst(hopper_output(made).float(), exact) <= 1
    # tile-gpu-values-not-halved
    assert not hopper_output(made, halve_channels=True).isfinite().all(2).any()
