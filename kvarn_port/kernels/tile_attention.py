"""Attention of the last few tokens of each request over packed tiles and ring rows, in one pass.

out[i] = (softmax(scale q[i] K^T, causal) V) H; tile k < committed // group is read from its page,
every later position from the ring; q, K and V are rotated, out is not

Two stages. The first leaves a part for every split of the keys, in scratch: `part_out`, a row's sum
of weights times values in the rotated frame, float32 and not normalised, its channels in their
order; `part_max`, its largest score in base 2, -inf for a split without keys (its outputs then stay
unwritten); `part_sum`, the sum of its weights. Cell (program, row) with program = ((request x
query tiles + query tile) x KV heads + head) x splits + split; row r of a query tile is query token
(tile x plan.rows + r) // ratio, head of the group % ratio. The second stage (tile_combine.py,
tile_hopper_combine.py) weighs them in an order that the plan fixes and rotates back.

A path is a module with stages of its own:

    fits(call: TileCall, device: Device) -> bool            whether it reads such a call here
    choose_plan(call: TileCall, device: Device) -> Plan     query tiles and splits, from maxima
    attend(call: TileCall, plan: Plan, scratch: Scratch) -> None    leaves the parts
    combine(call: TileCall, plan: Plan, scratch: Scratch) -> None   makes the output of them

A request whose ring slot is negative has parts without keys, and so an output of 0. A split's share
follows from lengths on the device (`share` in tile_attend.py). Source: kvarn.md 8.1, 11, 13.
"""

from __future__ import annotations

import torch

from ..layout import TileLayout
from . import tile_attend
from .tile_call import TileCall
from .verify_scratch import Scratch

try:  # Gluon is in Triton 3.6 and later
    from . import tile_hopper
except ImportError:
    tile_hopper = None

__all__ = ["Scratch", "allocate_scratch", "tile_attention"]

PATHS = {"hopper": tile_hopper, "pointer": tile_attend}  # the fastest first


def allocate_scratch(
    *,
    max_requests: int,
    max_query_len: int,
    num_query_heads: int,
    num_kv_heads: int,
    head_dim: int,
    device: torch.device | str,
) -> Scratch:
    """Return scratch for every call within these maxima, on either path; it never grows.

    The path for Hopper always has a split of its own for the ring, and so two a query tile.
    """
    return Scratch.allocate(
        max_requests=2 * max_requests,
        max_query_len=max_query_len,
        num_query_heads=num_query_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        device=device,
    )


def tile_attention(
    query: torch.Tensor,
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    output: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    ring_slot: torch.Tensor,
    *,
    layout: TileLayout,
    max_query_len: int,
    softmax_scale: float,
    scratch: Scratch,
    causal: bool = True,
    precise: bool = False,
    path: str | None = None,
) -> torch.Tensor:
    """Return `output`, every query token of which is written.

    query: [tokens, num_query_heads, head_dim] float16, rotated
    tiles: [num_blocks, num_kv_heads, at least layout.tile_bytes] uint8, any strides but the last,
        multiples of 16 bytes
    ring_keys, ring_values: [slots, ring_rows, num_kv_heads, head_dim] float16, rotated; position p
        of a request is row p % ring_rows of its slot, this step's tokens included
    output: [tokens, num_query_heads, head_dim] bf16, fp16 or fp32, not rotated
    block_table: [requests, max_blocks] int32, in blocks of `group` tokens
    query_start: [requests + 1] int32; seq_lens: [requests] int32, this step's tokens included
    ring_slot: [requests] int32; negative: a padded row of a captured graph, whose output is 0
    max_query_len: of this call at most, up to 64; it decides the launch, not lengths on the device
    causal: query i of a request sees the keys before committed + i + 1; else all of seq_len
    precise: compute in float32 without TF32, to be compared; else operands are float16
    path: None chooses; "pointer": Triton on any device; "hopper": the kernel for Hopper

    Raises ValueError where an argument is not as above, scratch is too small or a path unfit.
    """
    call = TileCall(
        query, tiles, ring_keys, ring_values, output, block_table, query_start, seq_lens,
        ring_slot, layout, max_query_len, softmax_scale, causal, precise,
    )  # fmt: skip
    if not call.requests or not max_query_len or not query.shape[0]:
        return output
    chosen = PATHS[choose_path(call, scratch, path)]
    plan = chosen.choose_plan(call, scratch.device)
    scratch.check(plan, call.requests, call.shape.num_kv_heads, layout.head_dim)
    chosen.attend(call, plan, scratch)
    chosen.combine(call, plan, scratch)
    return output


def choose_path(call: TileCall, scratch: Scratch, path: str | None) -> str:
    """Return the path that is asked for, or the fastest that reads this call."""
    fit = [
        name
        for name, module in PATHS.items()
        if module is not None and module.fits(call, scratch.device)
    ]
    if path is None:
        return fit[0]
    if path not in PATHS:
        raise ValueError(f"path is {path!r}; expected None or one of {', '.join(PATHS)}")
    if path not in fit:
        raise ValueError(
            f"path {path!r} does not take {call.layout.preset} of head_dim {call.layout.head_dim} "
            f"on this device; expected None or one of {', '.join(fit)}"
        )
    return path
