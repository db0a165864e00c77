"""A small decoder of random weights in plain torch, whose layers attend through given caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

VOCABULARY, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 61, 3, 4, 2, 16
WIDTH = HEADS * HEAD_DIM


@dataclass(frozen=True)
class TinyModel:
    """Weights of a decoder, float64: embedding [V, W], and q, k, v, o of each layer."""

    embedding: torch.Tensor
    layers: list[tuple[torch.Tensor, ...]]

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, caches: Sequence[Any]
    ) -> torch.Tensor:
        """Return logits [sequences, tokens, V]; each layer attends through its cache."""
        return self._run(
            ids, positions, [lambda *qkv, cache=cache: cache.attend(*qkv, 0.3) for cache in caches]
        )

    def plain(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits of whole texts, each layer attending to all before a token by itself."""
        return self._run(ids, torch.arange(ids.shape[1]), [attended] * len(self.layers))

    def _run(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        attends: Sequence[Callable[..., torch.Tensor]],
    ) -> torch.Tensor:
        x = self.embedding[ids]
        for (q, k, v, o), attend in zip(self.layers, attends, strict=True):
            heads = [(x @ w).unflatten(2, (-1, HEAD_DIM)).transpose(1, 2) for w in (q, k, v)]
            query, key = (turned(rows, positions) for rows in heads[:2])
            x = x + attend(query, key, heads[2]).flatten(2) @ o
            x = x / x.square().mean(-1, keepdim=True).sqrt()
        return 4 * x @ self.embedding.T


def make(seed: int = 5) -> TinyModel:
    """Return a model with weights drawn from a seed."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(rows: int, columns: int) -> torch.Tensor:
        size = (rows, columns)
        return torch.randn(size, dtype=torch.float64, generator=generator) / rows**0.5

    narrow = KV_HEADS * HEAD_DIM
    layers = [
        (
            3 * drawn(WIDTH, WIDTH),
            3 * drawn(WIDTH, narrow),
            drawn(WIDTH, narrow),
            drawn(WIDTH, WIDTH),
        )
        for _ in range(LAYERS)
    ]
    return TinyModel(drawn(VOCABULARY, WIDTH) * 3, layers)


def turned(rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return rows [sequences, heads, tokens, D] turned by their positions, halves as pairs."""
    half = HEAD_DIM // 2
    angle = positions[:, None] * 100.0 ** -(torch.arange(half, dtype=torch.float64) / half)
    real, imaginary = rows[..., :half], rows[..., half:]
    return torch.cat(
        [
            real * angle.cos() - imaginary * angle.sin(),
            imaginary * angle.cos() + real * angle.sin(),
        ],
        -1,
    )


def attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return causal attention, [sequences, tokens, heads, D]: scores in one matrix."""
    key, value = (rows.repeat_interleave(HEADS // KV_HEADS, 1) for rows in (key, value))
    scores = 0.3 * query @ key.transpose(2, 3)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value).transpose(1, 2)
