"""By how much predictions differ from those without quantisation, whatever token comes next.

divergence = mean of sum over the vocabulary of p · (log p - log q), q quantised. The perplexity of
texts drawn from p grows by e^divergence: what that of a given text grows by is the same with noise
of how its tokens happen to fall, some five times as much over a few thousand tokens.
"""

from __future__ import annotations

import math

import torch


class Predictions:
    """log p of every token of the vocabulary, from position `first` on, in float16."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.parts: list[torch.Tensor] = []

    def keep(self, start: int, logits: torch.Tensor) -> None:
        """Keep the predictions of a step, [sequences, tokens, V]; steps come in their order."""
        if start >= self.first:
            self.parts.append(logits.float().log_softmax(2).half())

    def joined(self) -> torch.Tensor:
        """Return all of them, [sequences, tokens - first, V] float16."""
        return torch.cat(self.parts, 1)


class Divergence:
    """The divergence of a run from kept predictions, added up step by step."""

    def __init__(self, wanted: torch.Tensor, first: int) -> None:
        self.wanted, self.first = wanted, first
        self.sums = torch.zeros(len(wanted), dtype=torch.float64)
        self.tokens = 0

    def compare(self, start: int, logits: torch.Tensor) -> None:
        """Add the divergence of a step, [sequences, tokens, V], to what there is."""
        if start < self.first:
            return
        at = start - self.first
        # rounded, the probabilities do not sum to 1: made to, or that would count as divergence
        wanted = self.wanted[:, at : at + logits.shape[1]].float().log_softmax(2)
        apart = wanted - logits.float().log_softmax(2)
        self.sums += (wanted.exp() * apart).sum((1, 2)).double().cpu()
        self.tokens += logits.shape[1]

    def expected(self) -> list[float]:
        """Return by how many percent each text's perplexity is expected to grow.

        Raises ValueError where nothing was compared.
        """
        if not self.tokens:
            raise ValueError(f"no step from {self.first} on, expected predictions to compare")
        return [100 * math.expm1(total / self.tokens) for total in self.sums.tolist()]
