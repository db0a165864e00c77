"""What the constructed model says, computed here in float32: the reference for small prompts.

A cache as vLLM's `int8_per_token_head` can be put in between: each key and value of a token and a
head is rounded to a multiple of its largest size / 127. Scales of two pages can be swapped in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.gpu.engine.model import Shape, frequencies

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 512  # queries at once


def logits(
    tensors: Mapping[str, Tensor],
    shape: Shape,
    tokens: Sequence[int],
    *,
    last: int,
    int8: bool = False,
    swapped: tuple[slice, slice] | None = None,
) -> Tensor:
    """The logits after each of the last tokens: [last, vocabulary] float32.

    Where `swapped` names two pages, by their positions, the last tokens' queries read keys and
    values of one with the scales of the other.
    """
    import torch

    weight = {name: tensor.float() for name, tensor in tensors.items()}
    stream = weight["model.embed_tokens.weight"][torch.tensor(tokens)]
    for layer in range(2):
        prefix = f"model.layers.{layer}.self_attn."
        normed = _norm(stream)
        query, key, value = (
            (normed @ weight[f"{prefix}{name}_proj.weight"].T).unflatten(1, (-1, shape.head_dim))
            for name in "qkv"
        )
        query, key = _rotate(query), _rotate(key)
        if int8:
            mixed = _attend(query, _cached(key, None), _cached(value, None))
            if swapped is not None:
                late = _attend(query, _cached(key, swapped), _cached(value, swapped))
                mixed[-last:] = late[-last:]
        else:
            mixed = _attend(query, key, value)
        stream = stream + mixed.flatten(1) @ weight[f"{prefix}o_proj.weight"].T
    return _norm(stream[-last:]) @ weight["lm_head.weight"].T


def _norm(stream: Tensor) -> Tensor:
    return stream * (stream.square().mean(1, keepdim=True) + 1e-6).rsqrt()


def _rotate(heads: Tensor) -> Tensor:
    """[tokens, heads, head_dim] with pair i (channels i and i + half) turned by the position."""
    import torch

    width = heads.shape[-1]
    positions = torch.arange(heads.shape[0], dtype=torch.float64)
    angle = (positions[:, None] * torch.tensor(frequencies(width), dtype=torch.float64))[:, None]
    cos, sin = angle.cos().float(), angle.sin().float()
    low, high = heads.split(width // 2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def _cached(heads: Tensor, swapped: tuple[slice, slice] | None) -> Tensor:
    """What comes back from an int8 cache with one scale a token and a head."""
    scale = (heads.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-6)
    codes = (heads / scale).round()
    if swapped is not None:
        one, other = swapped
        scale[one], scale[other] = scale[other].clone(), scale[one].clone()
    return codes * scale


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention, [tokens, heads, head_dim], some queries at a time."""
    import torch

    count, heads, width = query.shape
    ratio = heads // key.shape[1]
    key, value = (x.repeat_interleave(ratio, dim=1).transpose(0, 1) for x in (key, value))
    parts = []
    for start in range(0, count, CHUNK):
        some = query[start : start + CHUNK].transpose(0, 1)
        seen = start + some.shape[1]
        scores = some @ key[:, :seen].transpose(1, 2) * width**-0.5
        rows = torch.arange(start, seen)[:, None]
        scores.masked_fill_(torch.arange(seen) > rows, float("-inf"))
        parts.append((scores.softmax(-1) @ value[:, :seen]).transpose(0, 1))
    return torch.cat(parts)
