"""One run of tile attention on a call, into outputs and scratch that are poisoned before."""

from __future__ import annotations

import torch

from kvarn_port.kernels.tile_attention import Scratch, tile_attention
from tests.kernels.run_kernel import NAN, parts, poison
from tests.kernels.tile_caches import TileArguments


def scratch_for(call: TileArguments, **more: int) -> Scratch:
    """Return the scratch that a call takes, or one of other maxima."""
    sizes = {
        "max_requests": len(call.seq_lens),
        "max_query_len": call.max_query_len,
        "num_query_heads": call.query.shape[1],
        "num_kv_heads": call.tiles.shape[1],
        "head_dim": call.query.shape[2],
    }
    return Scratch.allocate(**(sizes | more), device=call.query.device)


def run(
    call: TileArguments,
    output: torch.dtype = torch.float32,
    *,
    precise: bool = False,
    path: str | None = None,
    byte: int = NAN,
    scratch: Scratch | None = None,
) -> torch.Tensor:
    """Return the kernel's output for every row of the query, those of no request among them."""
    scratch = scratch_for(call) if scratch is None else scratch
    for part in parts(scratch):
        poison(part, byte)
    written = torch.empty(call.query.shape, dtype=output, device=call.query.device)
    poison(written, byte)
    returned = tile_attention(
        **vars(call), output=written, scratch=scratch, precise=precise, path=path
    )
    assert returned is written
    return written
