"""The constructed model does what it was constructed for, computed here in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.gpu.engine.__main__ import SHAPES
from tests.gpu.engine.compare import MOST_EXCLUDED, USUAL, error_bound
from tests.gpu.engine.model import (
    CONSTANT,
    LOGIT,
    ONE,
    SQUARED_NORM,
    Shape,
    config,
    largest_logit,
    largest_value,
    weights,
)
from tests.gpu.engine.prompts import Prompt, repeat

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = pytest.mark.kernel

VOCABULARY = 4096
SMALL, WIDE = (replace(shape, vocabulary=VOCABULARY) for shape in SHAPES.values())
COUNT = 64
PROMPT = repeat("edge of a block", 512, 256, COUNT, VOCABULARY)


@pytest.fixture(scope="module", params=[SMALL, WIDE], ids=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> Shape:
    return request.param


@pytest.fixture(scope="module")
def tensors(shape: Shape) -> Mapping[str, Tensor]:
    return weights(shape)


@pytest.fixture
def bound(shape: Shape) -> float:
    return error_bound(shape, "int8_per_token_head")


def say(
    tensors: Mapping[str, Tensor], prompt: Prompt, shape: Shape, **how: Any
) -> tuple[tuple[int, ...], Tensor]:
    """The best token at each position that goes on with a prompt, and its margin."""
    best, values = say_best(tensors, prompt, shape, **how)
    return tuple(best[:, 0].tolist()), values[:, 0] - values[:, 1]


def say_best(
    tensors: Mapping[str, Tensor], prompt: Prompt, shape: Shape, **how: Any
) -> tuple[Tensor, Tensor]:
    """The two best tokens at each of these positions, and their logits: [COUNT, 2]."""
    from tests.gpu.engine.forward import logits

    text = [*prompt.tokens, *prompt.induced[:-1]]
    found = logits(tensors, shape, text, last=COUNT, **how).topk(2)
    return found.indices, found.values


@pytest.mark.parametrize("int8", [False, True])
def test_what_follows_is_copied_with_margins_over_the_bound(
    tensors: Mapping[str, Tensor], shape: Shape, bound: float, int8: bool
) -> None:
    """Caught: a phase of 0 or 2 for that of the token before; keys of the present token."""
    tokens, margin = say(tensors, PROMPT, shape, int8=int8)
    assert tokens == PROMPT.induced
    assert (margin <= bound).sum() <= MOST_EXCLUDED * COUNT / 2


def test_the_token_before_has_the_same_score_in_heads_of_every_size(
    tensors: Mapping[str, Tensor], shape: Shape
) -> None:
    """The sum of sizes times cosines, by distance. Caught: the first pairs of a head of 256."""
    from tests.gpu.engine.forward import _rotate

    query, key = (
        tensors[f"model.layers.0.self_attn.{name}_proj.weight"].float()[: shape.head_dim, ONE]
        for name in "qk"
    )
    query, key = (_rotate(row.expand(5, 1, -1))[:, 0] for row in (query, key))
    normed = CONSTANT / (SQUARED_NORM / shape.hidden) ** 0.5
    scores = (key.flip(0) @ query[4]) * normed**2 / shape.head_dim**0.5
    assert scores.tolist() == pytest.approx([21.3, 27.5, 21.3, 6.9, -5.8], abs=0.2)


def test_heads_of_another_number_and_size_copy_too() -> None:
    """Caught: pairs counted as if a head had 128 channels."""
    shape = Shape(heads=12, kv_heads=4, head_dim=256, vocabulary=2048)
    prompt = repeat("wide", 300, 100, COUNT, shape.vocabulary)
    assert say(weights(shape), prompt, shape)[0] == prompt.induced


def test_what_is_copied_stands_far_away(
    tensors: Mapping[str, Tensor], shape: Shape, bound: float
) -> None:
    """Caught: a look at the last tokens only, which repeat the source's neighbours."""
    prompt = repeat("far away", 2200, 20, COUNT, VOCABULARY)
    tokens, margin = say(tensors, prompt, shape)
    assert tokens == prompt.induced
    assert (margin <= bound).sum() <= MOST_EXCLUDED * COUNT / 2


def test_logits_are_those_that_the_bound_is_made_of(
    tensors: Mapping[str, Tensor], shape: Shape
) -> None:
    """Within 8 % in the middle. Caught: noise counted alike whatever the heads; no noise."""
    best = say_best(tensors, PROMPT, shape)[1][:, 0]
    assert best.mean() == pytest.approx(LOGIT, rel=0.08)
    assert 1.02 * best.max() < largest_logit(shape) < 1.2 * best.max()


def test_keys_and_values_are_as_large_as_the_bound_says(
    tensors: Mapping[str, Tensor], shape: Shape
) -> None:
    """Within a fourth, for one token in a hundred. Caught: channels of the code counted, too."""
    rows = tensors["model.embed_tokens.weight"].float()
    weight = tensors["model.layers.0.self_attn.v_proj.weight"].float()[: shape.head_dim]
    value = rows @ weight.T
    code = value[:, :96].square().mean().sqrt()
    largest = value.abs().amax(1).quantile(0.99) / code
    assert largest == pytest.approx(largest_value(shape), rel=0.25)


def test_swapped_scales_turn_tokens_of_which_the_model_was_sure(
    tensors: Mapping[str, Tensor], shape: Shape, bound: float
) -> None:
    """The control. Caught: embeddings whose features are of one size, so that scales are equal."""
    page = PROMPT.source // 16
    pages = slice(16 * page, 16 * page + 16), slice(16 * page + 32, 16 * page + 48)
    swapped, _ = say(tensors, PROMPT, shape, int8=True, swapped=pages)
    _, margin = say(tensors, PROMPT, shape, int8=True)
    wrong = [i for i in range(COUNT) if swapped[i] != PROMPT.induced[i] and margin[i] > bound]
    assert len(wrong) >= 4


@pytest.mark.parametrize("layer", [0, 1])
def test_every_head_moves_the_margins(
    tensors: Mapping[str, Tensor], shape: Shape, bound: float, layer: int
) -> None:
    """Each is more than the check lets pass. Caught: random heads that write half as much."""
    prompt = repeat("heads", 120, 40, COUNT, VOCABULARY)
    name = f"model.layers.{layer}.self_attn.o_proj.weight"
    exact = {key: tensor.float() for key, tensor in tensors.items()}
    _, margin = say(exact, prompt, shape, int8=True)
    for head in range(shape.heads):
        without = exact[name].clone()
        without[:, head * shape.head_dim : (head + 1) * shape.head_dim] = 0
        _, other = say({**exact, name: without}, prompt, shape, int8=True)
        assert (other - margin).square().mean().sqrt() > USUAL * bound, head


def test_embeddings_have_one_norm_and_scales_of_keys_differ(
    tensors: Mapping[str, Tensor], shape: Shape
) -> None:
    """bfloat16 moves a norm by under 0.4 %. Caught: no channel that fills the norm up."""
    rows = tensors["model.embed_tokens.weight"].float()
    norms = rows.norm(dim=1)
    assert norms.max() < 1.004 * norms.min()
    key = tensors["model.layers.1.self_attn.k_proj.weight"].float()[: shape.head_dim]
    largest = (rows[16:32] @ key.T).abs().amax(1)
    assert largest.max() > 3 * largest.min()


@pytest.mark.parametrize(
    ("shape", "hidden", "queries", "keys"),
    [(SMALL, 512, 1024, 256), (WIDE, 768, 6144, 1024)],
    ids=list(SHAPES),
    indirect=["shape"],
)
def test_a_checkpoint_has_the_tensors_of_its_config_the_same_each_time(
    tensors: Mapping[str, Tensor], shape: Shape, hidden: int, queries: int, keys: int
) -> None:
    """Caught: a draw without its seed; heads laid out as [head_dim, heads]."""
    import torch

    again = weights(shape)
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    sizes = {name.split(".")[-2]: tuple(tensor.shape) for name, tensor in tensors.items()}
    assert sizes["q_proj"] == (queries, hidden)
    assert sizes["k_proj"] == sizes["v_proj"] == (keys, hidden)
    assert sizes["o_proj"] == (hidden, queries)
    assert sizes["embed_tokens"] == sizes["lm_head"] == (VOCABULARY, hidden)
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.bfloat16"}
    assert config(shape)["hidden_size"] == hidden


@pytest.mark.parametrize(
    ("heads", "hidden"), [(8, 512), (12, 768), (20, 1280), (24, 768), (40, 1280)]
)
def test_hidden_channels_are_a_multiple_of_the_heads(heads: int, hidden: int) -> None:
    """What transformers asks of a config. Caught: 512 whatever the heads; too few for the slots."""
    assert Shape(heads=heads).hidden == hidden
