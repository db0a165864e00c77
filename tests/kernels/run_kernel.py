"""One run of the kernel on a call, into outputs and scratch that are poisoned before."""

from __future__ import annotations

from dataclasses import fields

import torch

from kvarn_port.kernels.verify_attention import Scratch, choose_path, verify_attention
from kvarn_port.kernels.verify_call import Call as KernelCall
from tests.kernels.caches import Call

NAN, HUGE, ZERO = 0xFF, 0x7B, 0x00  # a byte everywhere: NaN, a large finite number, 0


def scratch_for(call: Call, **more: int) -> Scratch:
    """Return the scratch that a call takes, or one of other maxima."""
    sizes = {
        "max_requests": len(call.seq_lens),
        "max_query_len": call.max_query_len,
        "num_query_heads": call.query.shape[1],
        "num_kv_heads": call.key_cache.shape[2],
        "head_dim": call.query.shape[2],
    }
    return Scratch.allocate(**(sizes | more), device=call.query.device)


def parts(scratch: Scratch) -> list[torch.Tensor]:
    """Return the tensors of a scratch."""
    found = [getattr(scratch, field.name) for field in fields(scratch)]
    return [part for part in found if isinstance(part, torch.Tensor)]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as bytes, in which NaN equals itself and 0 is not -0."""
    return tensor.contiguous().view(torch.uint8)


def poison(tensor: torch.Tensor, byte: int) -> None:
    """Fill a contiguous tensor with a byte."""
    tensor.view(-1).view(torch.uint8).fill_(byte)


def run(
    call: Call,
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
    output = torch.empty(call.query.shape, dtype=call.query.dtype, device=call.query.device)
    poison(output, byte)
    arguments = {field.name: getattr(call, field.name) for field in fields(call)}
    returned = verify_attention(
        **arguments, output=output, scratch=scratch, precise=precise, path=path
    )
    assert returned is output
    return output


def path_taken(call: Call, path: str | None = None, *, precise: bool = False) -> str:
    """Return the path by which the kernel reads a call."""
    arguments = {field.name: getattr(call, field.name) for field in fields(call)}
    asked = KernelCall(**arguments, output=call.query, precise=precise)
    return choose_path(asked, scratch_for(call), path)


def is_hopper(call: Call, *, precise: bool = False, path: str | None = None) -> bool:
    """Return whether the kernel reads a call by path "int8"."""
    return path_taken(call, path, precise=precise) == "int8"
