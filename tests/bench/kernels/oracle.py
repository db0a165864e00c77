"""The right output in float64, without the kernels' own reference, and how far one is off."""

from __future__ import annotations

import torch

from tests.bench.kernels.caches import Inputs, gathered


def expected(inputs: Inputs, table: int, request: int) -> torch.Tensor:
    """The output of one request: `[new_tokens, num_query_heads, head_dim]` float64."""
    case = inputs.case
    keys, values = gathered(inputs.pool, inputs.tables[table, request], case.context)
    first = request * case.new_tokens
    query = inputs.query[first : first + case.new_tokens].double() * inputs.softmax_scale
    ratio = case.num_query_heads // case.num_kv_heads
    device = inputs.device
    place = torch.arange(case.context, device=device)
    own = case.context - case.new_tokens + torch.arange(case.new_tokens, device=device)
    hidden = place[None, None, :] > own[None, :, None]  # [1, new_tokens, context]
    out = torch.empty_like(query)
    for head in range(case.num_kv_heads):  # one at a time: scores of 131,072 tokens are large
        group = slice(head * ratio, (head + 1) * ratio)
        scores = torch.einsum("qhd,kd->hqk", query[:, group], keys[:, head])
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        out[:, group] = torch.einsum("hqk,kd->qhd", weights, values[:, head])
    return out


def relative_error(output: torch.Tensor, inputs: Inputs, table: int) -> float:
    """The larger relative RMS error of the first and the last request; inf if any is not finite.

    A kernel that leaves out a head, reads other blocks, or leaves out a scale is off by more than
    a tenth, bf16 operands by some 2e-3. One key of n is 1 / sqrt(n): a mask that is off by one
    shows with few keys only, which is why `Bench` asks for those too.
    """
    if not bool(torch.isfinite(output).all()):
        return float("inf")
    case = inputs.case
    worst = 0.0
    for request in sorted({0, case.batch - 1}):
        right = expected(inputs, table, request)
        first = request * case.new_tokens
        got = output[first : first + case.new_tokens].double()
        worst = max(worst, float((got - right).norm() / right.norm()))
    return worst
