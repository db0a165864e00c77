"""A decoder with constructed weights that copies: a Llama checkpoint of two layers, in bfloat16.

Layer 0 finds the token before each token by rotary phase alone: query and key are constants, so
that a score depends on the distance only and is highest at one. Layer 1 looks for the keys whose
token before is the present token, and copies what stands there: an induction head. Every other
head has random weights and scores of some units, so that each one moves the logits.

The residual stream has slots: the token's code, the code of the token before, the code of the token
to come (which the head of the model reads), a constant, features of the token of random size, and a
channel that gives all embeddings one norm. Features make the largest value of a key, and so its
scale in an int8 cache, vary tenfold from token to token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator, Tensor

CODE = 96  # signs of a token
TOKEN, BEFORE, NEXT = (slice(start, start + CODE) for start in (0, CODE, 2 * CODE))
ONE, FILL = 3 * CODE, 3 * CODE + 1
FEATURES = slice(3 * CODE + 2, None)  # however many channels there are
CONSTANT = 4.0  # the value of the channel ONE
FEATURES_NORM = 3.0  # of a token's features together, times its own size of 0.25 to 4
SQUARED_NORM = (
    CODE + CONSTANT**2 + 200
)  # of an embedding, which leaves room for the largest features
ROPE_THETA = 1e8
CONTEXT = 8192
# A pair that turns by less over the whole context is told apart by content, not by distance.
SLOW_RADIANS = 0.3

# Amplitudes of the pairs, the fastest first, that single out the token before.
PHASES = (8.0, 5.5, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0)
MATCH = 22.0  # the score of a key whose token before is the present one
RECENCY = 3.0  # the score that the nearest keys have over those some thousand tokens away
RECENT_RADIANS = 3.2e-4
COPY = 2.0  # the size of the copied code in the residual stream
RANDOM = 1.8  # the size of what all random heads write, times that of a value
WRITTEN = 9.0  # what a random head of layer 0 adds to a token's squared norm, about
LOGIT = 20.0  # of a token that is copied, about
TILE = 256  # channels
MIN_FEATURES = 200  # channels, of which random keys are drawn


@dataclass(frozen=True)
class Shape:
    """The heads of both layers; head_dim is 128 or 256, since a value holds a code."""

    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 128
    vocabulary: int = 8192

    @property
    def hidden(self) -> int:
        """The channels of the residual stream: all slots, whole tiles, the same for each head.

        transformers refuses a config whose heads do not divide them, even where head_dim is given.
        """
        step = math.lcm(self.heads, TILE)
        return -(-(3 * CODE + 2 + MIN_FEATURES) // step) * step

    @property
    def num_features(self) -> int:
        """The channels of FEATURES."""
        return self.hidden - 3 * CODE - 2


def config(shape: Shape) -> dict[str, object]:
    """What `config.json` says of the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": CONTEXT,
        "rope_theta": ROPE_THETA,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def squared_noise(shape: Shape) -> float:
    """The squared norm of what all random heads write of NEXT beside the copied code, about."""
    random = 1.3 * RANDOM**2 * CODE * (1 - shape.kv_heads / shape.heads)
    return WRITTEN * (shape.heads - 1) + random


def largest_logit(shape: Shape) -> float:
    """The best logit where noise adds most to it: in the direction of a code, 2.5 times its usual.

    Noise has CODE channels, of which that direction is one.
    """
    usual = math.sqrt(squared_noise(shape)) / CODE
    return LOGIT * (1 + 2.5 * usual / COPY)


def largest_value(shape: Shape) -> float:
    """The largest channel of a key or value of a token whose features are largest.

    Counted in channels of its code: the usual largest of normal numbers, 4 times as large.
    """
    return 4 * math.sqrt(2 * math.log(shape.head_dim - CODE))


def frequencies(head_dim: int) -> list[float]:
    """Radians a token by which each rotary pair turns; pair i is channels i and i + head_dim/2."""
    return [ROPE_THETA ** (-2 * i / head_dim) for i in range(head_dim // 2)]


def weights(shape: Shape, seed: int = 0) -> dict[str, Tensor]:
    """The tensors of the checkpoint by name, bfloat16, the same for the same seed."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 2, (shape.vocabulary, CODE), generator=draw) * 2.0 - 1
    hidden = shape.hidden
    head = torch.zeros(shape.vocabulary, hidden)
    # The last norm divides by about the root mean square of all slots together.
    norm = math.sqrt((SQUARED_NORM + CODE + COPY**2 * CODE + squared_noise(shape)) / hidden)
    head[:, NEXT] = codes * (LOGIT * norm / (COPY * CODE))
    found = {
        "model.embed_tokens.weight": _embeddings(shape, codes, draw),
        "lm_head.weight": head,
        "model.norm.weight": torch.ones(hidden),
    }
    for layer, build in enumerate((_find_token_before, _copy_what_followed)):
        prefix = f"model.layers.{layer}."
        query, key, value, output = build(shape, draw)
        found |= {
            f"{prefix}self_attn.q_proj.weight": query.flatten(0, 1),
            f"{prefix}self_attn.k_proj.weight": key.flatten(0, 1),
            f"{prefix}self_attn.v_proj.weight": value.flatten(0, 1),
            f"{prefix}self_attn.o_proj.weight": output.permute(1, 0, 2).flatten(1, 2),
            f"{prefix}input_layernorm.weight": torch.ones(hidden),
            f"{prefix}post_attention_layernorm.weight": torch.ones(hidden),
            f"{prefix}mlp.gate_proj.weight": torch.zeros(64, hidden),
            f"{prefix}mlp.up_proj.weight": torch.zeros(64, hidden),
            f"{prefix}mlp.down_proj.weight": torch.zeros(hidden, 64),
        }
    return {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in found.items()}


def _embeddings(shape: Shape, codes: Tensor, draw: Generator) -> Tensor:
    """Embeddings of one norm: [vocabulary, hidden] float32."""
    import torch

    count = shape.vocabulary
    size = 4.0 ** (torch.rand(count, 1, generator=draw) * 2 - 1)
    rows = torch.zeros(count, shape.hidden)
    rows[:, TOKEN] = codes
    rows[:, ONE] = CONSTANT
    each = FEATURES_NORM / math.sqrt(shape.num_features)
    rows[:, FEATURES] = torch.randn(count, shape.num_features, generator=draw) * size * each
    rows[:, FILL] = (SQUARED_NORM - rows.square().sum(1)).clamp(min=0).sqrt()
    return rows


def _random_layer(shape: Shape, squared_norm: float, draw: Generator) -> list[Tensor]:
    """Queries of the code, keys of the features, values of both, all written everywhere a little.

    query [heads, head_dim, hidden], key and value [kv_heads, head_dim, hidden], output [heads,
    hidden, head_dim], float32; the stream that they read has this squared norm.
    """
    import torch

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=draw)

    width, hidden, features = shape.head_dim, shape.hidden, shape.num_features
    scale = math.sqrt(squared_norm / hidden)  # which the layer's norm divides by
    query = torch.zeros(shape.heads, width, hidden)
    query[:, :, TOKEN] = normal(shape.heads, width, CODE) * (1.5 * scale / math.sqrt(CODE))
    key = torch.zeros(shape.kv_heads, width, hidden)
    each = scale / FEATURES_NORM
    key[:, :, FEATURES] = normal(shape.kv_heads, width, features) * each
    value = torch.zeros(shape.kv_heads, width, hidden)
    value[:, :CODE, TOKEN] = torch.eye(CODE) * scale
    if width > CODE:
        value[:, CODE:, FEATURES] = normal(shape.kv_heads, width - CODE, features) * each
    # All random heads together move the copied code by about its own size in each channel.
    output = normal(shape.heads, hidden, width) * (RANDOM / math.sqrt(shape.heads * 128))
    # However many channels a value has beside its code, they count as the 32 of a head of 128.
    output[:, :, CODE:] *= math.sqrt((128 - CODE) / (width - CODE))
    output[:, TOKEN], output[:, ONE], output[:, FILL] = 0, 0, 0
    output[:, BEFORE] *= 0.05
    output[:, FEATURES] *= 0.05
    return [query, key, value, output]


def _find_token_before(shape: Shape, draw: Generator) -> list[Tensor]:
    """Layer 0: the first head writes the code of the token before into its slot."""
    query, key, value, output = _random_layer(shape, SQUARED_NORM, draw)
    half, scale = shape.head_dim // 2, math.sqrt(SQUARED_NORM / shape.hidden)
    query[0] = 0
    thetas = frequencies(shape.head_dim)
    for place, size in enumerate(PHASES):
        pair = place * shape.head_dim // 128  # which turns alike in heads of every size
        theta, each = thetas[pair], math.sqrt(size) * scale / CONSTANT
        key[0, [pair, pair + half]] = 0
        key[0, pair, ONE] = each
        query[0, pair, ONE] = each * math.cos(theta) * math.sqrt(shape.head_dim)
        query[0, pair + half, ONE] = -each * math.sin(theta) * math.sqrt(shape.head_dim)
    # The norm of a token, by which layer 1's scores are divided, is to vary little.
    output[:, NEXT] *= 0.36 * math.sqrt(shape.heads / 8)
    output[0] = 0
    output[0, BEFORE, :CODE] = _eye()
    return [query, key, value, output]


def _copy_what_followed(shape: Shape, draw: Generator) -> list[Tensor]:
    """Layer 1: the first head of each group copies what followed the present token before."""
    import torch

    squared_norm = SQUARED_NORM + CODE + WRITTEN * (shape.heads - 1)
    query, key, value, output = _random_layer(shape, squared_norm, draw)
    half, scale = shape.head_dim // 2, math.sqrt(squared_norm / shape.hidden)
    thetas = frequencies(shape.head_dim)
    pairs = [i for i, theta in enumerate(thetas) if theta * CONTEXT < SLOW_RADIANS]
    slow = (pairs + [i + half for i in pairs])[:CODE]
    recent = min(range(half), key=lambda i: abs(math.log(thetas[i] / RECENT_RADIANS)))
    root = math.sqrt(shape.head_dim)
    for group in range(shape.kv_heads):
        first = group * (shape.heads // shape.kv_heads)
        chosen = torch.randperm(CODE, generator=draw)[: len(slow)]
        key[group, [*slow, recent, recent + half]] = 0
        key[group, slow, BEFORE.start + chosen] = scale
        key[group, recent, ONE] = scale / CONSTANT
        query[first] = 0
        query[first, slow, TOKEN.start + chosen] = scale * root * MATCH / len(slow)
        query[first, recent, ONE] = scale * root * RECENCY / CONSTANT
        output[first] = 0
        output[first, NEXT, :CODE] = _eye() * (COPY / shape.kv_heads)
    return [query, key, value, output]


def _eye() -> Tensor:
    import torch

    return torch.eye(CODE)


def write_checkpoint(folder: Path, shape: Shape, seed: int = 0) -> Mapping[str, Tensor]:
    """Write `config.json` and `model.safetensors`; the tensors that were written, by name."""
    from safetensors.torch import save_file

    tensors = weights(shape, seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(shape), indent=1))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return tensors
