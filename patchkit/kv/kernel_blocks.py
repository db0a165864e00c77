"""The block that a kernel sees, within the one that requests are given. All in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import lcm

from patchkit.kv.planned import RefusedError
from patchkit.kv.rules import Backend


def holds(backend: Backend, block: int) -> bool:
    """Return whether a block can be split into kernel blocks of a backend."""
    return any(block % size == 0 for size in backend.sizes)


def preferred_block(backends: Sequence[Backend], default: int) -> int:
    """Return the block that backends choose: the default where all take it, or else the least."""
    if all(holds(backend, default) for backend in backends):
        return default
    candidates = sorted(lcm(*sizes) for sizes in product(*(each.sizes for each in backends)))
    for block in candidates:
        if all(holds(backend, block) for backend in backends):
            return block
    names = ", ".join(backend.name for backend in backends)
    raise RefusedError(f"the attention backends {names} share no block size")


def smallest(backend: Backend) -> int:
    """Return the smallest kernel block of a backend."""
    return min(backend.sizes)


def largest_within(backend: Backend, token_bytes: int, budget_bytes: int) -> int:
    """Return the largest kernel block whose page is within so many bytes; else the smallest one.

    Where it takes multiples, that is the largest multiple, as from 0.30.0 on.
    """
    blocks = list(backend.fixed)
    if backend.multiple_of is not None:
        most = budget_bytes // token_bytes
        blocks.append(max(backend.multiple_of, most // backend.multiple_of * backend.multiple_of))
    return _fitting(blocks, token_bytes, budget_bytes)


def largest_named_within(backend: Backend, token_bytes: int, budget_bytes: int) -> int:
    """Return the same of the named kernel blocks alone, as up to 0.29.0."""
    return _fitting(list(backend.fixed or backend.sizes), token_bytes, budget_bytes)


def _fitting(blocks: list[int], token_bytes: int, budget_bytes: int) -> int:
    fitting = [block for block in blocks if block * token_bytes <= budget_bytes]
    return max(fitting) if fitting else min(blocks)


def common_block(block: int, backends: Sequence[Backend]) -> int:
    """Return the kernel block that a block is split into: itself, or the largest one in common.

    Refused where there is none (select_common_block_size, in v1/worker/utils.py).
    """
    if all(backend.takes(block) for backend in backends):
        return block
    named = {size for backend in backends for size in backend.fixed if block % size == 0}
    for size in sorted(named, reverse=True):
        if all(backend.takes(size) for backend in backends):
            return size
    sizes = "; ".join(f"{describe(backend)} for {backend.name}" for backend in backends)
    raise RefusedError(
        f"a block of {block:,} tokens cannot be split into kernel blocks", expected=sizes
    )


def describe(backend: Backend) -> str:
    """Return the kernel blocks of a backend in words."""
    named = ", ".join(str(size) for size in backend.fixed)
    if backend.multiple_of is None:
        return f"{named} tokens"
    return f"multiples of {backend.multiple_of} tokens"
