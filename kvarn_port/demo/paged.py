"""A layer's cache as a server holds it, in pages and rings, read and written by given operations.

The operations are `rotate`, `pack` and `tile_attention`, those of `kvarn_port.reference` or of
`kvarn_port.kernels`: the same step in the same order as a server runs it. kvarn.md 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..layout import TileLayout, ring_rows


@dataclass(frozen=True)
class Operations:
    """What a step of a layer consists of, and the scratch that its attention asks for.

    scratch: called with max_requests, max_query_len, num_query_heads, num_kv_heads, head_dim and
        device, once a layer
    """

    rotate: Callable[..., Any]
    pack: Callable[..., Any]
    tile_attention: Callable[..., Any]
    scratch: Callable[..., Any]


def reference_operations() -> Operations:
    """Return the references, which need no scratch."""
    from ..reference.pack import pack
    from ..reference.rotate import rotate
    from ..reference.tile_attention import tile_attention

    return Operations(rotate, pack, tile_attention, lambda **_: None)


def kernel_operations() -> Operations:
    """Return the Triton kernels."""
    from ..kernels.pack import pack
    from ..kernels.rotate import rotate
    from ..kernels.tile_attention import tile_attention
    from ..kernels.verify_scratch import Scratch

    return Operations(rotate, pack, tile_attention, Scratch.allocate)


class PagedCache:
    """The pages and rings of one layer for some sequences of one length.

    max_query_len: tokens of a step at most
    max_tokens: of a sequence at most; each has blocks of its own, in an order that is not theirs
    """

    def __init__(
        self,
        operations: Operations,
        layout: TileLayout,
        mode: str,
        *,
        max_query_len: int,
        max_tokens: int,
    ) -> None:
        self.operations, self.layout, self.mode = operations, layout, mode
        self.max_query_len, self.max_tokens = max_query_len, max_tokens
        self.length = 0
        self.pages: _Pages | None = None

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        window: int | None = None,
    ) -> torch.Tensor:
        """Return the attention of a step, as `Cache` says.

        Raises ValueError for a window, which no operation has, and a step over the maxima.
        """
        sequences, _, tokens, _ = query.shape
        if window is not None:
            raise ValueError(f"window is {window}: tile attention has none")
        if tokens > self.max_query_len or self.length + tokens > self.max_tokens:
            raise ValueError(
                f"{tokens} tokens after {self.length}, expected {self.max_query_len} in a step and "
                f"{self.max_tokens} in all at most"
            )
        if self.pages is None:
            self.pages = self._pages(query, key)
        flat = [rows.transpose(1, 2).flatten(0, 1) for rows in (query, key, value)]
        rotated = [torch.empty_like(rows, dtype=torch.float16) for rows in flat]
        self.operations.rotate(*flat, *rotated)
        self.length += tokens
        output = self._step(rotated, torch.empty_like(flat[0]), tokens, scale)
        return output.unflatten(0, (sequences, tokens))

    def _step(
        self, rotated: list[torch.Tensor], output: torch.Tensor, tokens: int, scale: float
    ) -> torch.Tensor:
        """Pack what the step fills, store its rows, and attend."""
        pages = self.pages
        assert pages is not None
        requests, device = len(pages.block_table), output.device
        query_start = torch.arange(requests + 1, dtype=torch.int32, device=device) * tokens
        seq_lens = torch.full((requests,), self.length, dtype=torch.int32, device=device)
        ring_slot = torch.arange(requests, dtype=torch.int32, device=device)
        position = torch.arange(self.length - tokens, self.length, device=device)
        group = self.layout.group
        block = pages.block_table.long()[:, position // group]
        slot_mapping = (block * group + position % group).flatten()
        rings = (pages.ring_keys, pages.ring_values)
        self.operations.pack(
            pages.tiles, *rings, rotated[1], rotated[2], query_start, seq_lens, ring_slot,
            slot_mapping, layout=self.layout, max_query_len=self.max_query_len, mode=self.mode,
        )  # fmt: skip
        self.operations.tile_attention(
            rotated[0], pages.tiles, *rings, output, pages.block_table, query_start, seq_lens,
            ring_slot, layout=self.layout, max_query_len=self.max_query_len, softmax_scale=scale,
            scratch=pages.scratch,
        )  # fmt: skip
        return output

    def _pages(self, query: torch.Tensor, key: torch.Tensor) -> _Pages:
        """Return empty pages and rings for sequences like these."""
        sequences, heads, _, head_dim = key.shape
        device, layout = key.device, self.layout
        each = -(-self.max_tokens // layout.group)
        blocks = torch.arange(sequences * each, dtype=torch.int32, device=device).flip(0)
        ring = (sequences, ring_rows(layout, self.max_query_len), heads, head_dim)
        return _Pages(
            torch.zeros(len(blocks), heads, layout.record_bytes, dtype=torch.uint8, device=device),
            torch.zeros(ring, dtype=torch.float16, device=device),
            torch.zeros(ring, dtype=torch.float16, device=device),
            blocks.view(each, sequences).T.contiguous(),
            self.operations.scratch(
                max_requests=sequences,
                max_query_len=self.max_query_len,
                num_query_heads=query.shape[1],
                num_kv_heads=heads,
                head_dim=head_dim,
                device=device,
            ),
        )


@dataclass(frozen=True)
class _Pages:
    """tiles, rings, block table and scratch, with the shapes that `pack` names."""

    tiles: torch.Tensor
    ring_keys: torch.Tensor
    ring_values: torch.Tensor
    block_table: torch.Tensor
    scratch: object
