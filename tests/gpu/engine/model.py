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
HIDDEN = 512
TOKEN, BEFORE, NEXT = (slice(start, start + CODE) for start in (0, CODE, 2 * CODE))
ONE, FILL = 3 * CODE, 3 * CODE + 1
FEATURES = slice(3 * CODE + 2, HIDDEN)
NUM_FEATURES = HIDDEN - 3 * CODE - 2
CONSTANT = 4.0  # the value of the channel ONE
FEATURE_SIZE = 0.2  # of a feature, times the token's own 0.25 to 4
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
RANDOM = 2.0  # the size of what all random heads write, times that of a value
LOGIT = 20.0  # of a token that is copied, about


@dataclass(frozen=True)
class Shape:
    """The heads of both layers; head_dim is 128 or 256, since a value holds a code."""

    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 128
    vocabulary: int = 8192


def config(shape: Shape) -> dict[str, object]:
    """What `config.json` says of the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
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


def frequencies(head_dim: int) -> list[float]:
    """Radians a token by which each rotary pair turns; pair i is channels i and i + head_dim/2."""
    return [ROPE_THETA ** (-2 * i / head_dim) for i in range(head_dim // 2)]


def weights(shape: Shape, seed: int = 0) -> dict[str, Tensor]:
    """The tensors of the checkpoint by name, bfloat16, the same for the same seed."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 2, (shape.vocabulary, CODE), generator=draw) * 2.0 - 1
    head = torch.zeros(shape.vocabulary, HIDDEN)
    # The last norm divides by about the root mean square of all slots together.
    norm = math.sqrt((SQUARED_NORM + CODE + 1.3 * COPY**2 * CODE) / HIDDEN)
    head[:, NEXT] = codes * (LOGIT * norm / (COPY * CODE))
    found = {
        "model.embed_tokens.weight": _embeddings(codes, draw),
        "lm_head.weight": head,
        "model.norm.weight": torch.ones(HIDDEN),
    }
    for layer, build in enumerate((_find_token_before, _copy_what_followed)):
        prefix = f"model.layers.{layer}."
        query, key, value, output = build(shape, draw)
        found |= {
            f"{prefix}self_attn.q_proj.weight": query.flatten(0, 1),
            f"{prefix}self_attn.k_proj.weight": key.flatten(0, 1),
            f"{prefix}self_attn.v_proj.weight": value.flatten(0, 1),
            f"{prefix}self_attn.o_proj.weight": output.permute(1, 0, 2).flatten(1, 2),
            f"{prefix}input_layernorm.weight": torch.ones(HIDDEN),
            f"{prefix}post_attention_layernorm.weight": torch.ones(HIDDEN),
            f"{prefix}mlp.gate_proj.weight": torch.zeros(64, HIDDEN),
            f"{prefix}mlp.up_proj.weight": torch.zeros(64, HIDDEN),
            f"{prefix}mlp.down_proj.weight": torch.zeros(HIDDEN, 64),
        }
    return {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in found.items()}


def _embeddings(codes: Tensor, draw: Generator) -> Tensor:
    """Embeddings of one norm: [vocabulary, HIDDEN] float32."""
    import torch

    count = codes.shape[0]
    size = 4.0 ** (torch.rand(count, 1, generator=draw) * 2 - 1)
    rows = torch.zeros(count, HIDDEN)
    rows[:, TOKEN] = codes
    rows[:, ONE] = CONSTANT
    rows[:, FEATURES] = torch.randn(count, NUM_FEATURES, generator=draw) * size * FEATURE_SIZE
    rows[:, FILL] = (SQUARED_NORM - rows.square().sum(1)).clamp(min=0).sqrt()
    return rows


def _random_layer(shape: Shape, squared_norm: float, draw: Generator) -> list[Tensor]:
    """Queries of the code, keys of the features, values of both, all written everywhere a little.

    query [heads, head_dim, HIDDEN], key and value [kv_heads, head_dim, HIDDEN], output [heads,
    HIDDEN, head_dim], float32; the stream that they read has this squared norm.
    """
    import torch

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=draw)

    width, scale = (
        shape.head_dim,
        math.sqrt(squared_norm / HIDDEN),
    )  # which the layer's norm divides by
    query = torch.zeros(shape.heads, width, HIDDEN)
    query[:, :, TOKEN] = normal(shape.heads, width, CODE) * (1.5 * scale / math.sqrt(CODE))
    key = torch.zeros(shape.kv_heads, width, HIDDEN)
    each = scale / (FEATURE_SIZE * math.sqrt(NUM_FEATURES))
    key[:, :, FEATURES] = normal(shape.kv_heads, width, NUM_FEATURES) * each
    value = torch.zeros(shape.kv_heads, width, HIDDEN)
    value[:, :CODE, TOKEN] = torch.eye(CODE) * scale
    if width > CODE:
        value[:, CODE:, FEATURES] = normal(shape.kv_heads, width - CODE, NUM_FEATURES) * each
    # All random heads together move the copied code by about its own size in each channel.
    output = normal(shape.heads, HIDDEN, width) * (RANDOM / math.sqrt(shape.heads * width))
    output[:, TOKEN], output[:, ONE], output[:, FILL] = 0, 0, 0
    output[:, BEFORE] *= 0.05
    output[:, FEATURES] *= 0.05
    return [query, key, value, output]


def _find_token_before(shape: Shape, draw: Generator) -> list[Tensor]:
    """Layer 0: the first head writes the code of the token before into its slot."""
    query, key, value, output = _random_layer(shape, SQUARED_NORM, draw)
    half, scale = shape.head_dim // 2, math.sqrt(SQUARED_NORM / HIDDEN)
    query[0] = 0
    for pair, (theta, size) in enumerate(zip(frequencies(shape.head_dim), PHASES, strict=False)):
        each = math.sqrt(size) * scale / CONSTANT
        key[0, [pair, pair + half]] = 0
        key[0, pair, ONE] = each
        query[0, pair, ONE] = each * math.cos(theta) * math.sqrt(shape.head_dim)
        query[0, pair + half, ONE] = -each * math.sin(theta) * math.sqrt(shape.head_dim)
    # The norm of a token, by which layer 1's scores are divided, is to vary little.
    output[:, NEXT] *= 0.2
    output[0] = 0
    output[0, BEFORE, :CODE] = _eye()
    return [query, key, value, output]


def _copy_what_followed(shape: Shape, draw: Generator) -> list[Tensor]:
    """Layer 1: the first head of each group copies what followed the present token before."""
    import torch

    squared_norm = SQUARED_NORM + CODE
    query, key, value, output = _random_layer(shape, squared_norm, draw)
    half, scale = shape.head_dim // 2, math.sqrt(squared_norm / HIDDEN)
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
