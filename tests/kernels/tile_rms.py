"""How large the error of tile attention is to be expected, from what it rounds: its RMS.

What `tile_bounds.py` bounds, each rounding at its worst and all of one sign, is here the variance
of independent roundings, uniform within ± u of what is rounded at most: u²/3 of its square. With
weights p (their sum 1), scores s, values v of a query row, o its output, in the rotated frame:

    var = Σ e_t² (p_t |v_t - o|)²                          each key by itself
        + Σ_tiles Σ_c (scale q_c u Z'_c)² / 3 · |Σ p_t T_t (v_t - o)|²     Z' of a channel
        + Σ p_t² · n u² r_t² / 3 + what is lost + float32 sums
    e_t² = Σ_c (scale T_t q_c u k_t,c)² / 3 + float32 sums,   k_t,c = key_t,c / T_t

- An error of a score moves its weight by itself and, through the sum of all, every other: v - o. Z'
  of a channel is rounded once a tile, so that its errors add up over the tile's tokens before they
  are squared; those of different channels are independent. A query is exact.
- r: what the weights' rounding is a part of, A|code - mid|·C, in the ring |v|; n = 1. The path for
  Hopper has no Z' of its own, and rounds a value twice beside its weight: n = 3 of |v|.
- Lost: of float16's smallest numbers, 2⁻²⁵ uniformly: a weight in units of the row's largest; a
  key's half once, Z' twice; a value's half, in the path for Hopper, before and after C. There A and
  Z of values are halved: of float16's smallest numbers every other one loses 2⁻²⁵, 2⁻⁵¹ in the
  mean square, that of A times the code.
- A float32 sum of n terms x rounds n times, each time 2⁻²⁴ of what is summed so far, whose mean
  square is Σx²/2 + (Σx)²/3, in whichever order the terms come. Of a score they are q·k. Of values
  they are those of a tile, codes as they are, all of one sign: (Σx)²/3. 32 tokens or more are added
  to the output with four roundings of Σ p|v| at most. exp2 is right to 2⁻²².
  What else rounds in an exponent, maxima times the score's scale in the path for Hopper, is less
  than what a score's products do.
- Rotating back keeps the sum of squares over the channels, so that means over them are all that is
  taken. It rounds log2(D) + 3 times itself; a 16-bit output once more.

Of numbers that lie evenly between two powers of two the errors have three quarters of these RMS.
FACTOR is for the few roundings on which much depends where few weights are large: 1.5 times what is
expected is twice what there is, which one normal error exceeds in five of a hundred trials, the RMS
of four in three of a thousand.
"""

from __future__ import annotations

from math import log2

import torch

from kvarn_port.reference.verify_attention import weighted_values
from tests.kernels.bounds import LOST, ROUNDOFF
from tests.kernels.tile_bounds import Tokens, attended, request_tokens
from tests.kernels.tile_caches import Made

FACTOR = 1.5
SINGLE = ROUNDOFF[torch.float32]
HALF = ROUNDOFF[torch.float16]


def limit(made: Made, output: torch.dtype, *, precise: bool = False, hopper: bool = False) -> float:
    """Return how large the relative RMS of the error of a call's output may be."""
    call = made.call
    starts = call.query_start.tolist()
    variance, square, head_dim = 0.0, 0.0, call.layout.head_dim
    for request, slot in enumerate(call.ring_slot.tolist()):
        rows = slice(starts[request], starts[request + 1])
        if rows.start < rows.stop and slot >= 0:
            of_errors, of_outputs = _squares(made, request, rows, precise, hopper)
            variance, square = variance + of_errors, square + of_outputs
    variance += (log2(head_dim) + 3) * _uniform(SINGLE) * square
    if output != torch.float32:
        count = starts[-1] * call.query.shape[1] * head_dim
        variance += _uniform(ROUNDOFF[output]) * square + _uniform(LOST[output]) * count
    return FACTOR * float(variance / max(square, 1e-300)) ** 0.5


def _uniform(most: float) -> float:
    """Return the variance of what lies anywhere within ± most."""
    return most**2 / 3


def _squares(
    made: Made, request: int, rows: slice, precise: bool, hopper: bool
) -> tuple[float, float]:
    """Return the sums of the variances and of the squares of one request's outputs."""
    call, tokens = made.call, request_tokens(made, request, hopper=hopper)
    query = call.query[rows].double() * call.softmax_scale
    seen, weights = attended(made, rows, tokens)
    output = weighted_values(weights, tokens.values)
    unit = _uniform(SINGLE if precise else HALF)
    lost = 0.0 if precise else _uniform(2.0**-24)  # of a key, whose half loses 2⁻²⁵

    def of_scores(x: torch.Tensor) -> torch.Tensor:
        ratio = query.shape[1] // x.shape[1]
        return torch.einsum("qhd,khd->hqk", query.square(), x.repeat_interleave(ratio, 1))

    packed = tokens.key_token > 0
    keys = of_scores(packed * (unit * tokens.keys.square() + lost * tokens.key_token.square()))
    ratio = query.shape[1] // tokens.keys.shape[1]
    scores = torch.einsum("qhd,khd->hqk", query, tokens.keys.repeat_interleave(ratio, 1))
    sums = of_scores(tokens.keys.square()) / 2 + scores.square() / 3
    sums = (query.shape[2] + 8) * _uniform(SINGLE) * sums + (4 * SINGLE) ** 2
    moved = weights.square() * (keys + sums)
    variance = (
        weighted_values(moved, tokens.values.square())
        - 2 * output * weighted_values(moved, tokens.values)
        + output.square() * moved.sum(2).T[:, :, None]
    )
    if not hopper:
        middles = of_scores(packed * (unit * tokens.key_middle.square() + 2 * lost))
        variance += _of_tiles(call.layout.group, weights, middles, tokens, output)
    if not precise:
        variance += _of_values(weights, seen, tokens, hopper)
    variance += _of_sums(call.layout.group, weights, tokens)
    return float(variance.sum()), float(output.square().sum())


def _of_values(
    weights: torch.Tensor, seen: torch.Tensor, tokens: Tokens, hopper: bool
) -> torch.Tensor:
    """Return the variance from weights and values in float16, [query_len, heads, head_dim]."""
    rounded, largest = tokens.value_parts.square(), weights.amax(2, True) * seen
    if not hopper:
        variance = weighted_values(largest.square(), tokens.value_lost.square()) / 3
    else:
        packed = tokens.key_token > 0
        rounded = torch.where(packed, rounded / 3, rounded)
        channel, coded = tokens.value_channel.square(), tokens.value_coded.square()
        # the value is twice what loses them
        once = 4 * packed * (_uniform(2.0**-25) * (channel + 1) + 2.0**-51 * (coded + channel))
        variance = weighted_values(weights.square(), once)
        weight = _uniform(2.0**-25) * tokens.values.square()
        variance += weighted_values(largest.square(), weight)
    return variance + _uniform(HALF) * weighted_values(weights.square(), rounded)


def _of_tiles(
    group: int, weights: torch.Tensor, middles: torch.Tensor, tokens: Tokens, output: torch.Tensor
) -> torch.Tensor:
    """Return the variance from Z', one of a channel and tile; middles: of a score over T²."""
    ratio = weights.shape[0] // tokens.keys.shape[1]
    by_token = weights * tokens.key_token[..., 0].T.repeat_interleave(ratio, 0)[:, None]
    sums = _tile_sums(group, by_token, tokens.values)
    whole = _tile_sums(group, by_token, torch.ones_like(tokens.values[..., :1]))
    each = middles[:, :, ::group].permute(1, 0, 2)[..., None]  # that of a tile's first token
    return (each * (sums - whole * output[:, :, None]).square()).sum(2)


def _of_sums(group: int, weights: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Return the variance from float32 sums over the tokens of each tile, and over the tiles."""
    inner = _tile_sums(group, weights, tokens.value_sums).square().sum(2)
    outer = weighted_values(weights, tokens.values.abs()).square()
    steps = weights.shape[2] // 32
    return _uniform(SINGLE) * ((group / 3 + 8) * inner + (4 * steps + 16) * outer)


def _tile_sums(group: int, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return Σ weight · value of every `group` keys: [query_len, heads, tiles, head_dim]."""
    parts = [
        weighted_values(part, some)
        for part, some in zip(weights.split(group, 2), values.split(group), strict=True)
    ]
    return torch.stack(parts, 2)
