"""A layer's cache in plain torch, read as decode reads it: full earlier tiles packed, 16 bit else.

committed = tokens before a step. Tile k < committed // group is read as packed, every later
position, the step's own tokens too, as kept. So a prompt of one chunk reads no packed tile, and
what is packed is what the run itself computed from packed tiles before. kvarn.md 11.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from .formats import Format


class Cache(Protocol):
    """The keys and values of one layer, for some sequences of one length."""

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        window: int | None = None,
    ) -> torch.Tensor:
        """Return the attention of a step's tokens over all before them, after adding theirs.

        query: [sequences, num_query_heads, tokens, head_dim]; key, value: likewise of the KV heads
        window: how many keys a query sees at most, its own included
        returned: [sequences, tokens, num_query_heads, head_dim]
        """
        ...


class TorchCache:
    """A cache in one format, whose first `sink` tokens stay in 16 bit.

    A tile that holds some of them is packed as a whole all the same; their rows are read as kept.
    """

    def __init__(self, form: Format, sink: int = 0) -> None:
        self.form, self.sink, self.length = form, sink, 0
        self.kept: list[torch.Tensor] = []  # keys, values: [sequences, heads, length, D] as kept
        self.raw: list[torch.Tensor] = []  # the same of the open tile as computed
        self.read: list[torch.Tensor] = []  # the same of whole tiles as packed

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        window: int | None = None,
    ) -> torch.Tensor:
        """Return the attention of a step, as `Cache` says."""
        committed, tokens = self.length, key.shape[2]
        self._append(key, value)
        keys, values = self.rows(committed)
        seen = visible(committed, tokens, window, query.device)
        output = scaled_dot_product_attention(
            query, keys, values, attn_mask=seen, scale=scale, enable_gqa=True
        )
        self._pack(committed)
        return output.transpose(1, 2)

    def rows(self, committed: int) -> list[torch.Tensor]:
        """Return all keys and all values as a step reads them that found `committed` tokens."""
        full = committed // self.form.group * self.form.group
        kept_first = min(self.sink, full)
        if not full:
            return self.kept
        return [
            torch.cat([kept[:, :, :kept_first], read[:, :, kept_first:full], kept[:, :, full:]], 2)
            for kept, read in zip(self.kept, self.read, strict=True)
        ]

    def _append(self, *added: torch.Tensor) -> None:
        empty = [rows[:, :, :0] for rows in added]
        kept = [_by_tokens(self.form.kept, rows) for rows in added]
        self.kept = [torch.cat(pair, 2) for pair in zip(self.kept or empty, kept, strict=True)]
        self.raw = [torch.cat(pair, 2) for pair in zip(self.raw or empty, added, strict=True)]
        self.read = self.read or empty
        self.length += added[0].shape[2]

    def _pack(self, committed: int) -> None:
        """Pack the tiles that the step filled, all in one call."""
        group = self.form.group
        full = self.length // group - committed // group
        if not full:
            return
        heads = self.raw[0].shape[:2]
        tiles = [rows[:, :, : full * group].unflatten(2, (full, group)) for rows in self.raw]
        packed = self.form.packed(*(tile.flatten(0, 2) for tile in tiles))
        packed = [rows.unflatten(0, (*heads, full)).flatten(2, 3) for rows in packed]
        self.read = [torch.cat(pair, 2) for pair in zip(self.read, packed, strict=True)]
        self.raw = [rows[:, :, full * group :] for rows in self.raw]


def visible(committed: int, tokens: int, window: int | None, device: torch.device) -> torch.Tensor:
    """Return which keys each query of a step sees, [tokens, committed + tokens] bool."""
    query = committed + torch.arange(tokens, device=device)[:, None]
    key = torch.arange(committed + tokens, device=device)
    seen = key <= query
    return seen if window is None else seen & (key > query - window)


def _by_tokens(kept: object, rows: torch.Tensor) -> torch.Tensor:
    """Return rows [sequences, heads, tokens, D] as a format keeps them."""
    return kept(rows.flatten(0, 1)).unflatten(0, rows.shape[:2])
