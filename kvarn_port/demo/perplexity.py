"""How well a model predicts texts whose history it reads from caches.

perplexity = exp(mean of -log p(next token)), over the tokens whose history has a packed tile: the
first tile of a text reads none, is the same in every format, and would only dilute a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from .cache import Cache

# ids [sequences, tokens] int64, positions [tokens] int64, a cache a layer -> logits
Forward = Callable[[torch.Tensor, torch.Tensor, Sequence[Cache]], torch.Tensor]
Heard = Callable[[int, torch.Tensor], None]  # start of a step, its logits


def losses(
    forward: Forward,
    ids: torch.Tensor,
    caches: Sequence[Cache],
    chunk: int,
    heard: Heard = lambda *_: None,
) -> torch.Tensor:
    """Return -log p of each token but the first, [sequences, tokens - 1] float64.

    ids: [sequences, tokens] int64, given to the model `chunk` tokens at a time
    caches: one a layer, empty
    heard: told of every step that predicts, with the logits of tokens that have one after them

    Raises ValueError where a chunk has no token or a text no second one.
    """
    if chunk < 1 or ids.shape[1] < 2:
        raise ValueError(f"chunk is {chunk}, a text has {ids.shape[1]} tokens: expected 1 and 2")
    found = []
    with torch.inference_mode():
        for start in range(0, ids.shape[1] - 1, chunk):
            step = ids[:, start : start + chunk]
            positions = torch.arange(start, start + step.shape[1], device=ids.device)
            logits = forward(step, positions, caches).float()
            following = ids[:, start + 1 : start + 1 + step.shape[1]]
            logits = logits[:, : following.shape[1]]
            heard(start, logits)
            found.append(_losses(logits, following))
    return torch.cat(found, 1)


def _losses(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """Return -log p of the tokens that follow, [sequences, tokens] float64."""
    chosen = logits.gather(2, following[..., None])[..., 0]
    return (logits.logsumexp(2) - chosen).double().cpu()


def perplexities(found: torch.Tensor, first: int) -> list[float]:
    """Return the perplexity of each text over the tokens from position `first` + 1 on.

    found: [sequences, tokens - 1], of `losses`; one at `first` is that of the token after it

    Raises ValueError where a text has none.
    """
    if found.shape[1] <= first:
        raise ValueError(f"a text has {found.shape[1] + 1} tokens, expected over {first + 1}")
    return [math.exp(mean) for mean in found[:, first:].mean(1).tolist()]


def increase(perplexity: float, without: float) -> float:
    """Return by how many percent a perplexity is over that without quantisation."""
    return 100 * (perplexity / without - 1)


def mean_increase(increases: Sequence[float]) -> float:
    """Return the mean of increases in percent, as the geometric mean of their factors."""
    logs = [math.log1p(one / 100) for one in increases]
    return 100 * math.expm1(sum(logs) / len(logs))
