"""Attention of a long query to its packed history and to itself, in segments of the history.

out = merge over segments s of attention(q, K_s, V_s), the step's own keys last and causal

History is gathered (`gather`) into 16-bit rows of one segment at a time, the attention over dense
rows is a callable, FlashAttention on a GPU, and its outputs are joined by their log-sum-exp and
rotated back (`merge`). How many segments there are follows from a length that the host knows, an
upper bound being enough: nothing is read back. Source: kvarn.md 5.2, 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ..layout import TileLayout
from .gather import gather
from .merge import Carried, carry, merge

SEGMENT_TOKENS = 32_768  # 128 MiB of 16-bit keys and values with 4 KV heads of 256
PARTS = 4  # outputs that are held at a time: 96 MiB with 2,048 tokens of 24 heads of 256


class Attention(Protocol):
    """Attention over rows, as FlashAttention's function of ragged batches has it."""

    def __call__(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        *,
        causal: bool,
        query_start: torch.Tensor,
        key_start: torch.Tensor,
        key_lens: torch.Tensor,
        max_query_len: int,
        max_key_len: int,
        softmax_scale: float,
        output: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs [tokens, num_query_heads, head_dim], in `output` or elsewhere, and lse.

        query: [tokens, num_query_heads, head_dim]; keys, values: [rows, num_kv_heads, head_dim]
        causal: the last query token of a request sees all its keys, each before it one fewer
        query_start: [requests + 1] int32; the keys of request r are the key_lens[r] rows from
            key_start[r] on, both int32; of none the outputs may be anything
        lse: [num_query_heads, tokens] float32, natural logarithm of the sum of exp(scale q.k),
            -inf or +inf where no key is seen
        """


@dataclass(frozen=True)
class Scratch:
    """What a continuation works in, allocated once from the configured maxima.

    keys, values: [segment_tokens, num_kv_heads, head_dim] of one segment
    outputs: [parts, max_tokens, num_query_heads, head_dim], lses: [parts, num_query_heads,
        max_tokens] float32, of the segments that were not joined yet
    carried: of those that were, for histories of more segments than `parts`
    """

    keys: torch.Tensor
    values: torch.Tensor
    outputs: torch.Tensor
    lses: torch.Tensor
    carried: Carried

    @classmethod
    def allocate(
        cls,
        *,
        max_tokens: int,
        num_query_heads: int,
        num_kv_heads: int,
        head_dim: int,
        device: torch.device | str,
        segment_tokens: int = SEGMENT_TOKENS,
        parts: int = PARTS,
        dtype: torch.dtype = torch.float16,
    ) -> Scratch:
        """Return scratch for steps of up to `max_tokens` tokens of long queries.

        With 2,048 tokens, 24 query and 4 KV heads of 256: 128 MiB of keys and values, 96 MiB of
        parts and 48 MiB carried.
        """
        rows = (segment_tokens, num_kv_heads, head_dim)
        out = (max_tokens, num_query_heads, head_dim)
        lse = (num_query_heads, max_tokens)
        return cls(
            torch.empty(rows, dtype=dtype, device=device),
            torch.empty(rows, dtype=dtype, device=device),
            torch.empty((parts, *out), dtype=dtype, device=device),
            torch.empty((parts, *lse), dtype=torch.float32, device=device),
            Carried(
                torch.empty(out, dtype=torch.float32, device=device),
                torch.empty(lse, dtype=torch.float32, device=device),
            ),
        )

    def segment_len(self, requests: int, group: int) -> int:
        """Return the tokens of each request in a segment, whole tiles; raises ValueError at 0."""
        each = self.keys.shape[0] // requests // group * group
        if each == 0:
            raise ValueError(
                f"{requests} requests of a tile of {group} tokens each need "
                f"{requests * group} rows of scratch, {self.keys.shape[0]} were allocated"
            )
        return each


class _Parts:
    """Outputs of segments in their order, joined whenever the scratch has no place for another."""

    def __init__(self, scratch: Scratch, tokens: int) -> None:
        self.outputs = scratch.outputs[:, :tokens]
        self.lses = scratch.lses[:, :, :tokens]
        self.carried = Carried(scratch.carried.output[:tokens], scratch.carried.lse[:, :tokens])
        self.count, self.joined = 0, False

    def place(self) -> torch.Tensor:
        """Return where the next output goes."""
        if self.count == self.outputs.shape[0]:
            carry(self.outputs, self.lses, self.carried, first=not self.joined)
            self.count, self.joined = 0, True
        return self.outputs[self.count]

    def add(self, output: torch.Tensor, lse: torch.Tensor) -> None:
        """Keep what attention returned for the place that was given out last."""
        place = self.outputs[self.count]
        if output.data_ptr() != place.data_ptr():
            place.copy_(output)
        self.lses[self.count].copy_(lse)
        self.count += 1

    def merged(self, output: torch.Tensor) -> torch.Tensor:
        """Return `output`: all of them joined and rotated back."""
        carried = self.carried if self.joined else None
        return merge(self.outputs[: self.count], self.lses[: self.count], output, carried=carried)


def continuation(
    query: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
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
    attention: Attention,
    max_query_len: int,
    max_committed: int,
    softmax_scale: float,
    scratch: Scratch,
    causal: bool = True,
    packed: bool = False,
) -> torch.Tensor:
    """Return `output`, not rotated, every row of which is written.

    query: [tokens, num_query_heads, head_dim] float16, rotated, as are rotated_key and
        rotated_value: [tokens, num_kv_heads, head_dim], of this step; all tokens are of a request
    output: [tokens, num_query_heads, head_dim] bf16, fp16 or fp32
    tiles, ring_keys, ring_values, block_table, ring_slot: as of `gather`, of which no request with
        tokens has a negative slot
    query_start: [requests + 1] int32, from 0 on; seq_lens: [requests] int32, this step included
    max_query_len: of these requests, as the host knows it
    max_committed: the tokens of the longest history before this step, or a bound of it that the
        host knows: it decides how many segments are launched; those past a history are empty
    causal: query i of a request sees its own keys up to i, and all of its history; else all keys
    packed: whether `pack` of this step ran before. It stores this step's rows into the ring, over
        rows of the open tile that it packed: these then come from their page, packed. Run after
        the continuation, it leaves them in 16 bits to it

    Raises ValueError where scratch is too small, or as `gather` and `merge` do.
    """
    tokens, requests = query.shape[0], seq_lens.shape[0]
    if not tokens or not requests:
        return output
    _check(query, rotated_key, scratch, max_committed)
    parts = _Parts(scratch, tokens)
    lengths = query_start[1:] - query_start[:-1]
    committed = torch.where(ring_slot < 0, 0, seq_lens - lengths)
    each = scratch.segment_len(requests, layout.group)
    rows = [
        side[: requests * each].unflatten(0, (requests, each))
        for side in (scratch.keys, scratch.values)
    ]
    starts = torch.arange(0, max_committed, each, dtype=torch.int32, device=query.device)
    key_lens = (committed[None] - starts[:, None]).clamp(0, each)
    key_start = torch.arange(requests + 1, dtype=torch.int32, device=query.device) * each
    shared = {
        "query_start": query_start,
        "max_query_len": max_query_len,
        "softmax_scale": softmax_scale,
    }
    for number, start in enumerate(range(0, max_committed, each)):
        count = min(each, max_committed - start)
        gather(
            tiles, ring_keys, ring_values, *(side[:, :count] for side in rows),
            block_table, committed, ring_slot,
            layout=layout, start=start, seq_lens=seq_lens if packed else None,
        )  # fmt: skip
        place = parts.place()
        found = attention(
            query, *(side.flatten(0, 1) for side in rows), causal=False, key_start=key_start,
            key_lens=key_lens[number], max_key_len=count,
            output=place, **shared,
        )  # fmt: skip
        parts.add(*found)
    place = parts.place()
    found = attention(
        query, rotated_key, rotated_value, causal=causal, key_start=query_start, key_lens=lengths,
        max_key_len=max_query_len, output=place, **shared,
    )  # fmt: skip
    parts.add(*found)
    return parts.merged(output)


def _check(
    query: torch.Tensor, rotated_key: torch.Tensor, scratch: Scratch, max_committed: int
) -> None:
    """Raise ValueError where scratch is not for these shapes."""
    parts, tokens, heads, head_dim = scratch.outputs.shape
    wanted = (heads, scratch.keys.shape[1], head_dim)
    found = (query.shape[1], rotated_key.shape[1], query.shape[2])
    if found != wanted or query.dtype != scratch.outputs.dtype:
        raise ValueError(
            f"query heads, KV heads and head_dim are {found} of {query.dtype}; scratch was "
            f"allocated for {wanted} of {scratch.outputs.dtype}"
        )
    if query.shape[0] > tokens:
        raise ValueError(
            f"{query.shape[0]} query tokens; scratch was allocated for {tokens} at most"
        )
    if max_committed < 0 or parts < 1:
        raise ValueError(f"max_committed is {max_committed}; expected 0 or more")
