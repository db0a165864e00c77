"""The right output in float64, without the kernels' own reference, and how far one is off."""

from __future__ import annotations

import torch

from tests.bench.kernels.caches import Inputs, gathered

MOST_ROWS = 16  # that are checked of a request: of a long query the first and the last


def checked(new_tokens: int) -> torch.Tensor:
    """Which query tokens of a request are checked."""
    rows = torch.arange(new_tokens)
    if new_tokens <= MOST_ROWS:
        return rows
    return torch.cat([rows[: MOST_ROWS // 2], rows[-(MOST_ROWS // 2) :]])


def expected(inputs: Inputs, table: int, request: int) -> torch.Tensor:
    """The output of a request's checked rows: `[rows, num_query_heads, head_dim]` float64."""
    case = inputs.case
    keys, values = gathered(inputs, table, request)
    rows = checked(case.new_tokens).to(inputs.device)
    query = inputs.query[request * case.new_tokens + rows].double() * inputs.softmax_scale
    ratio = case.num_query_heads // case.num_kv_heads
    device = inputs.device
    place = torch.arange(case.context, device=device)
    own = case.context - case.new_tokens + rows
    hidden = place[None, None, :] > own[None, :, None]  # [1, rows, context]
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
        rows = checked(case.new_tokens).to(output.device)
        got = output[request * case.new_tokens + rows].double()
        worst = max(worst, float((got - right).norm() / right.norm()))
    return worst
