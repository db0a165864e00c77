"""Relative errors of keys, values and attention outputs, layer by layer, of what a model computes.

relative error = root of (sum of squared differences / sum of squares). Each layer is asked with the
queries, keys and values of the run without quantisation, so that no error comes from a layer below.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from .cache import TorchCache
from .formats import Format, exact


@dataclass(frozen=True)
class Step:
    """What a layer was asked: query, key, value [sequences, heads, tokens, D], and its answer."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: float
    window: int | None
    output: torch.Tensor


@dataclass
class Recorder:
    """A cache that gives back what was written and keeps what was asked."""

    group: int = 128
    steps: list[Step] = field(default_factory=list)
    cache: TorchCache | None = None

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        window: int | None = None,
    ) -> torch.Tensor:
        """Return the attention of a step, as `Cache` says."""
        self.cache = self.cache or TorchCache(exact(self.group))
        output = self.cache.attend(query, key, value, scale, window)
        self.steps.append(Step(query, key, value, scale, window, output))
        return output


@dataclass(frozen=True)
class LayerErrors:
    """Relative errors of one layer: of keys and values of packed tiles, and of outputs."""

    key: float
    value: float
    output: float


def layer_errors(steps: list[Step], form: Format) -> LayerErrors:
    """Return the errors of a layer in a format, asked what it was asked without.

    Keys and values count where a tile holds them, outputs where their history has a packed tile.

    Raises ValueError where no step reads a packed tile.
    """
    cache = TorchCache(form)
    outputs, wanted, done = [], [], 0
    for step in steps:
        found = cache.attend(step.query, step.key, step.value, step.scale, step.window)
        if done >= form.group:
            outputs.append(found)
            wanted.append(step.output)
        done += step.key.shape[2]
    if not outputs:
        raise ValueError(f"{done} tokens in {len(steps)} steps: no step reads a packed tile")
    key, value = (
        relative_error(read, torch.cat(written, 2)[:, :, : read.shape[2]])
        for read, written in zip(
            cache.read, ([s.key for s in steps], [s.value for s in steps]), strict=True
        )
    )
    return LayerErrors(key, value, relative_error(torch.cat(outputs, 1), torch.cat(wanted, 1)))


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the relative error of all elements together; 0 where all are 0 and equal."""
    difference = (found.double() - wanted.double()).square().sum()
    size = wanted.double().square().sum()
    return float((difference / size).sqrt()) if difference > 0 else 0.0
