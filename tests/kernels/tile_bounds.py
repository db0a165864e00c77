"""How far tile attention may be from float64: a bound for each element, from what it rounds.

With weights p (their sum 1), scores s and values v of a query row in the rotated frame, u the unit
roundoff of the operands of the dots (2⁻¹¹ float16; precise: 2⁻²⁴), all in kvarn.md §13's words:

    |err| ≤ u·Σ p·A|code − mid|·C + γ·Σ p·(A(code + mid) + |Z'|)·C + η·max p·Σ|code − mid|·C
            + Σ p·ε|v − out| · e^(2 max ε)
    ε_t = scale·T_t·Σ_c |q_c|·(u·(|Z'_c| + |k_c|) + 6·2⁻²⁵) + γ·scale·Σ|q·k̂_t|,   k_c = k̂_t,c / T_t

- A key is (code − 8)·A + Z' with Z' = Z + 8A, halved: Z' and the key are rounded to float16, and
  what is smaller than its smallest numbers is lost three times, 2⁻²⁵ each, doubled. A key of the
  ring is exact. Queries are float16.
- A weight times A is rounded, in units in which the tile's largest A is at least 2¹⁴: η is
  2⁻²⁵ / 2¹⁴ of that A. l sums the unrounded p. The dot takes codes as they are, and mid times the
  sum of the rounded weights is taken off: the rounding shows as if codes were centred, that of
  float32 sums (γ) as if they were not. In the ring A|code − mid|·C and the like are |v|, and η is
  2⁻²⁵.
- ε moves each weight by e^ε, and what moves all alike cancels: hence v − out.
- Rotating back is a sum of ±1: of float32 roundings γ of the sum of all |out|.

The path for Hopper dequantises both operands: a key is rounded once, a value twice (A code + Z,
then times C), a weight once: 3u·Σ p|v| in place of the first line's first term. A and Z are halved
before, which is exact but for float16's smallest numbers. Of these A/2, Z/2, their sum A/2 code +
Z/2 and the value's half lose 2⁻²⁵ each: the half of a value 2⁻²⁵ ((code + 1 + 1) C + 1), the value
twice that, in place of η. A weight loses 2⁻²⁵ of |v|. A key, whose code is 15 at most, loses
(15 + 1 + 1) 2⁻²⁵ of its half: 34·2⁻²⁵ in place of 6·2⁻²⁵.

All of that is so in both of its kernels. That for more than 32 rows has the same products of halved
A and Z, its codes being exact as well: 1024 + 16 c over 16 less 64, and 256, 64 or 16 + c less
that. Its weights are 1 at most, so that what they lose is no more of the largest; they round what
2^-126 and less would be to 0. In the base of 2 it takes a score to be fl(s T), its weight to be 2
to the power of fl(fl(fl(s T) σ) - fl(m σ)), and what was summed until the maximum m became m' to be
2^fl(fl(m - m') σ) of that. With D = the row's largest score less a score, u = 2⁻²⁴:

    T, σ = log2(e)·scale, which is rounded itself, and the product of both   3u·|s|
    fl(m σ) when the token was seen, and at the end: |m| ≤ |s| + D           2u·(|s| + D)
    both differences, and the second's product with σ; in the second stage
    that of the maxima of splits: all of them together D, none counted
    more than twice                                                          2u·D

5u·|s| is within γ, whose 2·head_dim are the products' and whose 8 are for these; 4u·D comes beside
it: ε_t += 4u·D_t. For few rows scores themselves are scaled, not m: 3u·|s| and 1u·D. Sums have 16
roundings for 128 tokens: 8 of products of 16 tokens, one times 2^…, which is right to 2⁻²², 4u.

Float32 outputs are compared in the rotated frame, where an error stays in its channel; 16-bit ones
as they are, where the bound of each is the mean of all channels' times √D, and u_out·|out| more.
kvarn.md §13's bound has max ε in place of Σ p·ε, and halves of unit roundoffs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvarn_port.layout import PRESETS
from kvarn_port.reference.rotate import hadamard
from kvarn_port.reference.verify_attention import (
    attention_weights,
    visible_keys,
    weighted_values,
)
from tests.kernels.bounds import LOST, ROUNDOFF, Truth
from tests.kernels.tile_caches import Fields, Made

# Float32 roundings that move a score: of itself, and of how far it is below the largest.
OWN_ROUNDINGS, DISTANCE_ROUNDINGS = 8, 4


@dataclass(frozen=True)
class Tokens:
    """One request's keys and values in float64, [tokens, kv_heads, head_dim] each, and their parts.

    key_parts: |Z'| + |k| times T, of packed keys; key_middle: Z', 0 where none is rounded
    value_parts: A|code - mid| C; value_sums: (A (code + mid) + |Z'|) C
    value_lost: what float16 may lose of each weight's value
    value_channel: C; value_coded: code C; both 0 in the ring
    key_token: T of a token, 0 in the ring, [tokens, kv_heads, 1]
    """

    keys: torch.Tensor
    values: torch.Tensor
    key_parts: torch.Tensor
    key_middle: torch.Tensor
    value_parts: torch.Tensor
    value_sums: torch.Tensor
    value_lost: torch.Tensor
    value_channel: torch.Tensor
    value_coded: torch.Tensor
    key_token: torch.Tensor


def packed_tokens(fields: Fields, bits: int, kv_heads: int, *, hopper: bool = False) -> Tokens:
    """Return the tokens of records of one request, head after head of each tile."""
    double, mid = torch.float64, (2**bits - 1) / 2
    scale, low, token = (x.to(double) for x in (fields.key_scale, fields.key_low, fields.key_token))
    scale, low, token = scale[:, None], low[:, None], token[:, :, None]
    bare = fields.key_codes.to(double) * scale + low
    codes, channel = fields.value_codes.to(double), fields.value_channel.to(double)[:, None]
    per, zero = (x.to(double)[:, :, None] for x in (fields.value_scale, fields.value_low))
    top = per.amax(1, keepdim=True)
    parts = (
        bare * token,
        (codes * per + zero) * channel,
        ((low + 8 * scale).abs() + bare.abs()) * token,
        (low + 8 * scale).expand_as(bare),
        per * (codes - mid).abs() * channel,
        (per * (codes + mid) + (zero + mid * per).abs()) * channel,
        2.0**-39 * top * (codes - mid).abs() * channel,
        channel.expand_as(bare),
        codes * channel,
        token,
    )
    if hopper:
        values = parts[1].abs()
        lost = 2.0**-25 * (values + 2 * ((codes + 2) * channel + 1))
        parts = (*parts[:3], 0 * bare, 3 * values, values, lost, *parts[-3:])

    def in_order(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(0, (-1, kv_heads)).transpose(1, 2).flatten(0, 1)

    return Tokens(*map(in_order, parts))


def request_tokens(made: Made, request: int, *, hopper: bool = False) -> Tokens:
    """Return the tokens of a request: from its records, then from its ring."""
    call = made.call
    group, seq_len = call.layout.group, int(call.seq_lens[request])
    heads, device = call.tiles.shape[1], call.query.device
    at = sum(made.packed[:request]) * heads
    records = slice(at, at + made.packed[request] * heads)
    picked = Fields(**{name: x[records].to(device) for name, x in vars(made.fields).items()})
    bits = PRESETS[call.layout.preset].value_bits
    old = packed_tokens(picked, bits, heads, hopper=hopper)
    position = torch.arange(made.packed[request] * group, seq_len, device=device)
    row = position % call.ring_keys.shape[1]
    keys, values = (
        ring[call.ring_slot[request], row].double() for ring in (call.ring_keys, call.ring_values)
    )
    size, zero = values.abs(), torch.zeros_like(keys)
    new = (keys, values, zero, zero, size, size, 2.0**-25 * size, zero, zero, zero[..., :1])
    return Tokens(*(torch.cat(both) for both in zip(vars(old).values(), new, strict=True)))


def truth(made: Made, output: torch.dtype, *, precise: bool = False, hopper: bool = False) -> Truth:
    """Return the exact output of a call, and how far each element of the kernel's may be from it.

    With a float32 output both are in the rotated frame (`framed`). The rows of no request, and of
    requests without a slot, are 0 in both.
    """
    call = made.call
    exact = torch.zeros(call.query.shape, dtype=torch.float64, device=call.query.device)
    bound = torch.zeros_like(exact)
    starts = call.query_start.tolist()
    for request, slot in enumerate(call.ring_slot.tolist()):
        rows = slice(starts[request], starts[request + 1])
        if rows.start < rows.stop and slot >= 0:
            exact[rows], bound[rows] = _request_truth(made, request, rows, precise, hopper)
    head_dim = call.layout.head_dim
    gamma = ROUNDOFF[torch.float32] * 16
    if output == torch.float32:
        return Truth(exact, bound + gamma * exact.abs().sum(-1, keepdim=True))
    exact_out = exact @ hadamard(head_dim, exact.device)
    bound = (bound + gamma * exact.abs()).sum(-1, keepdim=True) / head_dim**0.5
    return Truth(exact_out, bound + ROUNDOFF[output] * (exact_out.abs() + bound) + LOST[output])


def framed(output: torch.Tensor) -> torch.Tensor:
    """Return an output in the frame in which `truth` has it."""
    if output.dtype != torch.float32:
        return output
    return (output.double() @ hadamard(output.shape[-1], output.device)).float()


def attended(made: Made, rows: slice, tokens: Tokens) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which keys a request's rows see, and their weights [heads, query_len, keys]."""
    call = made.call
    seen = visible_keys(rows.stop - rows.start, tokens.keys.shape[0], 0, call.query.device)
    seen = seen if call.causal else torch.ones_like(seen)
    return seen, attention_weights(call.query[rows].double(), tokens.keys, seen, call.softmax_scale)


def _request_truth(
    made: Made, request: int, rows: slice, precise: bool, hopper: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output and the bounds of one request's rows, rotated, [query_len, heads, D]."""
    call, tokens = made.call, request_tokens(made, request, hopper=hopper)
    query, scale = call.query[rows].double(), call.softmax_scale
    seq_len, head_dim = tokens.keys.shape[0], query.shape[2]
    ratio = query.shape[1] // tokens.keys.shape[1]
    seen, weights = attended(made, rows, tokens)
    output = weighted_values(weights, tokens.values)

    single = ROUNDOFF[torch.float32]
    u = 4 * single if precise else ROUNDOFF[torch.float16]
    lost = 0.0 if precise else (34 if hopper else 6) * 2.0**-25
    score_gamma = single * (2 * head_dim + OWN_ROUNDINGS)
    moved_by = u * tokens.key_parts + lost * tokens.key_token + score_gamma * tokens.keys.abs()
    epsilon = torch.einsum("qhd,khd->hqk", query.abs(), moved_by.repeat_interleave(ratio, 1))
    epsilon = epsilon * scale
    if hopper:
        below = (weights.amax(2, True) / weights.clamp(min=1e-300)).log()
        epsilon += DISTANCE_ROUNDINGS * single * below
    epsilon = epsilon * seen
    spread = (weights * epsilon).sum(2).T[:, :, None]
    moved = weighted_values(weights * epsilon, tokens.values.abs()) + spread * output.abs()
    moved = moved * torch.exp(2 * epsilon.amax(2)).T[:, :, None]

    sum_gamma = single * (256 + 4 * (seq_len // 32))
    inner = sum_gamma * weighted_values(weights, tokens.value_sums)
    if not precise:
        inner += u * weighted_values(weights, tokens.value_parts)
        inner += weighted_values(weights.amax(2, True) * seen, tokens.value_lost)
    return output, inner + moved
