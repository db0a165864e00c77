"""The constructed model does what it was constructed for, computed here in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.gpu.engine.compare import USUAL, error_bound
from tests.gpu.engine.model import HIDDEN, LOGIT, Shape, config, weights
from tests.gpu.engine.prompts import Prompt, repeat

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = pytest.mark.kernel

SHAPE = Shape(vocabulary=4096)
COUNT = 32
BOUND = error_bound(1.25 * LOGIT, "int8_per_token_head")
PROMPT = repeat("edge of a block", 512, 256, COUNT, SHAPE.vocabulary)


@pytest.fixture(scope="module")
def tensors() -> Mapping[str, Tensor]:
    return weights(SHAPE)


def say(
    tensors: Mapping[str, Tensor], prompt: Prompt, shape: Shape = SHAPE, **how: Any
) -> tuple[tuple[int, ...], Tensor]:
    """The best token at each position that goes on with a prompt, and its margin."""
    from tests.gpu.engine.forward import logits

    text = [*prompt.tokens, *prompt.induced[:-1]]
    best = logits(tensors, shape, text, last=COUNT, **how).topk(2)
    return tuple(best.indices[:, 0].tolist()), best.values[:, 0] - best.values[:, 1]


@pytest.mark.parametrize("int8", [False, True])
def test_what_follows_is_copied_with_a_margin_over_the_bound(
    tensors: Mapping[str, Tensor], int8: bool
) -> None:
    """Caught: a phase of 0 or 2 for that of the token before; keys of the present token."""
    tokens, margin = say(tensors, PROMPT, int8=int8)
    assert tokens == PROMPT.induced
    assert margin.min() > BOUND


def test_heads_of_other_shapes_copy_too() -> None:
    """Caught: pairs counted as if a head had 128 channels."""
    shape = Shape(heads=12, kv_heads=4, head_dim=256, vocabulary=2048)
    prompt = repeat("wide", 300, 100, COUNT, shape.vocabulary)
    assert say(weights(shape), prompt, shape)[0] == prompt.induced


def test_what_is_copied_stands_far_away(tensors: Mapping[str, Tensor]) -> None:
    """Caught: a look at the last tokens only, which repeat the source's neighbours."""
    prompt = repeat("far away", 2200, 20, COUNT, SHAPE.vocabulary)
    tokens, margin = say(tensors, prompt)
    assert tokens == prompt.induced
    assert margin.min() > BOUND


def test_swapped_scales_turn_tokens_of_which_the_model_was_sure(
    tensors: Mapping[str, Tensor],
) -> None:
    """The control. Caught: embeddings whose features are of one size, so that scales are equal."""
    page = PROMPT.source // 16
    pages = slice(16 * page, 16 * page + 16), slice(16 * page + 32, 16 * page + 48)
    swapped, _ = say(tensors, PROMPT, int8=True, swapped=pages)
    _, margin = say(tensors, PROMPT, int8=True)
    wrong = [i for i in range(COUNT) if swapped[i] != PROMPT.induced[i] and margin[i] > BOUND]
    assert len(wrong) >= 4


@pytest.mark.parametrize("layer", [0, 1])
def test_every_head_moves_the_margins(tensors: Mapping[str, Tensor], layer: int) -> None:
    """Each is more than the check lets pass. Caught: random heads that write half as much."""
    name = f"model.layers.{layer}.self_attn.o_proj.weight"
    _, margin = say(tensors, PROMPT, int8=True)
    for head in range(SHAPE.heads):
        without = tensors[name].clone()
        without[:, head * SHAPE.head_dim : (head + 1) * SHAPE.head_dim] = 0
        _, other = say({**tensors, name: without}, PROMPT, int8=True)
        assert (other - margin).square().mean().sqrt() > USUAL * BOUND, head


def test_embeddings_have_one_norm_and_scales_of_keys_differ(tensors: Mapping[str, Tensor]) -> None:
    """bfloat16 moves a norm by under 0.4 %. Caught: no channel that fills the norm up."""
    rows = tensors["model.embed_tokens.weight"].float()
    norms = rows.norm(dim=1)
    assert norms.max() < 1.004 * norms.min()
    key = tensors["model.layers.1.self_attn.k_proj.weight"].float()[: SHAPE.head_dim]
    largest = (rows[16:32] @ key.T).abs().amax(1)
    assert largest.max() > 3 * largest.min()


def test_a_checkpoint_has_the_tensors_of_its_config_the_same_each_time(
    tensors: Mapping[str, Tensor],
) -> None:
    """Caught: a draw without its seed; heads laid out as [head_dim, heads]."""
    import torch

    again = weights(SHAPE)
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    sizes = {name.split(".")[-2]: tuple(tensor.shape) for name, tensor in tensors.items()}
    assert sizes["q_proj"] == (1024, HIDDEN)
    assert sizes["k_proj"] == sizes["v_proj"] == (256, HIDDEN)
    assert sizes["o_proj"] == (HIDDEN, 1024)
    assert sizes["embed_tokens"] == sizes["lm_head"] == (4096, HIDDEN)
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.bfloat16"}
    assert config(SHAPE)["hidden_size"] == HIDDEN
