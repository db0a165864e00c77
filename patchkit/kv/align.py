"""The primary block: the tokens of a full-attention block, and the page that others pad to.

Sources: Platform.update_block_size_for_backend, _align_hybrid_block_size and
_align_heterogeneous_kv_block_size, in platforms/interface.py; CpuPlatform, in platforms/cpu.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from patchkit.kv.amounts import share
from patchkit.kv.kernel_blocks import describe, holds, preferred_block, smallest
from patchkit.kv.planned import RefusedError
from patchkit.kv.rules import Backend, Rules


@dataclass(frozen=True)
class Primary:
    """The primary block, and the pages that it makes others pad to; all before pages are unified.

    `state_block` is the tokens between states that are kept, None where none are.
    """

    block: int
    state_page_bytes: int | None = None
    state_block: int | None = None
    shared_page_bytes: int | None = None  # where formats are mixed
    steps: tuple[str, ...] = ()


def first_block(backends: Sequence[Backend], asked: int | None, platform: str, rules: Rules) -> int:
    """Return the block before it is aligned to anything: the one asked for, or the backends' own.

    `backends` are those of the layers, in their order.
    """
    if asked is not None:
        for backend in backends:
            if not holds(backend, asked):
                raise RefusedError(
                    f"a block of {asked} tokens cannot be split into kernel blocks of"
                    f" {backend.name}",
                    expected=describe(backend),
                )
        return asked
    default = rules.default_block[platform]
    if rules.block_of_all_backends:
        return preferred_block(backends, default)
    return default if platform == "cpu" else preferred_block(backends[:1], default)


def align_to_states(
    block: int,
    token_bytes: int,
    state_bytes: int,
    backends: Sequence[Backend],
    *,
    mode: str,
    chunk: int | None,
    checkpoint_tokens: int,
    rules: Rules,
) -> Primary:
    """Return the block whose page covers a state, which is padded to it.

    `token_bytes` are those of one layer. In the mode "all" the block is a multiple of the `chunk`.
    """
    step = lcm(max(smallest(backends[0]), block), checkpoint_tokens)
    if mode == "all":
        assert chunk is not None
        step = lcm(chunk, step)
    aligned = step * _ceil(state_bytes, step * token_bytes)
    if rules.aligned_to_all_backends:
        every = lcm(*(smallest(backend) for backend in backends))
        aligned = every * _ceil(aligned, every)
    page_bytes = aligned * token_bytes
    steps = (
        f"full attention block {block} → {aligned:,} tokens: its page of {page_bytes:,} bytes"
        f" covers a state of {state_bytes:,} bytes, in steps of {step} tokens",
        f"state page {state_bytes:,} → {page_bytes:,} bytes: padded,"
        f" +{share(page_bytes - state_bytes, state_bytes)}",
    )
    return Primary(
        block=aligned,
        state_page_bytes=page_bytes if page_bytes != state_bytes else None,
        state_block=None if mode == "none" else aligned,
        steps=steps if page_bytes != state_bytes else steps[:1],
    )


def align_to_wider(
    primary: Primary, token_bytes: int, wider_token_bytes: int, backend: Backend
) -> Primary:
    """Return the block whose page covers one kernel block of layers that stay wider.

    Both sizes are of one layer, as the first layer's backend reckons them.
    """
    if wider_token_bytes == token_bytes:
        return primary
    least = smallest(backend)
    step = max(least, primary.block)
    required = max(wider_token_bytes * least, primary.state_page_bytes or 0)
    block = max(primary.block, step * _ceil(required, step * token_bytes))
    shared = block * token_bytes
    told = (
        f"full attention block {primary.block} → {block:,} tokens: covers {least} tokens of the"
        f" layers that stay wider, {required:,} bytes"
    )
    return Primary(
        block=block,
        state_page_bytes=None if primary.state_page_bytes is None else shared,
        state_block=primary.state_block,
        shared_page_bytes=shared,
        steps=(*primary.steps, told) if block != primary.block else primary.steps,
    )


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
