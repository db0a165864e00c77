"""Formats measured on a model and texts: perplexity as decode reads the cache, and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .cache import Cache, TorchCache
from .errors import LayerErrors, Recorder, layer_errors
from .formats import Format
from .models import Model
from .perplexity import Heard, increase, losses, mean_increase, perplexities


@dataclass(frozen=True)
class Result:
    """What a format costs: perplexity of each text and errors of each layer.

    increases: in percent, over the perplexity without quantisation
    errors: empty where they were not asked for
    """

    form: str
    bits: float
    perplexities: list[float]
    increases: list[float]
    errors: list[LayerErrors]

    @property
    def mean_increase(self) -> float:
        """Return the mean over the texts, in percent."""
        return mean_increase(self.increases)


@dataclass(frozen=True)
class Baseline:
    """The run without quantisation: perplexity of each text, and what each layer was asked."""

    perplexities: list[float]
    layers: list[Recorder]


def baseline(model: Model, ids: torch.Tensor, group: int = 128) -> Baseline:
    """Return the run of a model whose caches give back what was written."""
    recorders = [Recorder(group) for _ in range(model.layers)]
    found = losses(model.forward, ids.to(model.device), recorders, group)
    return Baseline(perplexities(found, group), recorders)


def quantised(model: Model, ids: torch.Tensor, form: Format, sink: int = 0) -> list[float]:
    """Return the perplexity of each text with caches in a format, the first `sink` tokens kept."""
    return with_caches(model, ids, lambda: TorchCache(form, sink), form.group, form.group)


def with_caches(
    model: Model,
    ids: torch.Tensor,
    make: Callable[[], Cache],
    chunk: int,
    group: int,
    heard: Heard = lambda *_: None,
) -> list[float]:
    """Return the perplexity of each text, read in chunks, with a cache made for each layer."""
    caches = [make() for _ in range(model.layers)]
    return perplexities(losses(model.forward, ids.to(model.device), caches, chunk, heard), group)


def result(
    model: Model, ids: torch.Tensor, form: Format, without: Baseline, sink: int = 0
) -> Result:
    """Return what a format costs."""
    found = quantised(model, ids, form, sink)
    pairs = zip(found, without.perplexities, strict=True)
    with torch.inference_mode():
        errors = [layer_errors(layer.steps, form) for layer in without.layers if layer.steps]
    return Result(form.name, form.bits, found, [increase(*pair) for pair in pairs], errors)


def results(
    model: Model,
    ids: torch.Tensor,
    forms: Sequence[Format],
    told: Callable[[str], None] = lambda _: None,
) -> tuple[Baseline, list[Result]]:
    """Return the run without quantisation and what each format costs; `told` hears of progress."""
    told(f"1/{len(forms) + 1} without quantisation")
    without = baseline(model, ids, forms[0].group)
    found = []
    for place, form in enumerate(forms, 2):
        told(f"{place}/{len(forms) + 1} {form.name}")
        found.append(result(model, ids, form, without))
    return without, found
