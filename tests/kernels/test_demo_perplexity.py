"""Perplexity of the demo: the model's own without loss, and what a wrong tile does to it."""

from __future__ import annotations

import importlib.util
import math

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.demo.cache import TorchCache
from kvarn_port.demo.divergence import Divergence, Predictions
from kvarn_port.demo.errors import Recorder, layer_errors, relative_error
from kvarn_port.demo.formats import Format, exact, kvarn
from kvarn_port.demo.measuring import baseline, result, results, with_caches
from kvarn_port.demo.models import Model, run_with_caches
from kvarn_port.demo.paged import PagedCache, reference_operations
from kvarn_port.demo.perplexity import (
    increase,
    losses,
    mean_increase,
    perplexities,
)
from kvarn_port.layout import tile_layout
from tests.kernels import tiny_model

pytestmark = pytest.mark.kernel
GROUP = 8
TINY = tiny_model.make()


def texts(tokens: int, vocabulary: int = tiny_model.VOCABULARY) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randint(vocabulary, (2, tokens), generator=generator)


def read(ids: torch.Tensor, form: Format, chunk: int = GROUP) -> torch.Tensor:
    return losses(TINY.forward, ids, [TorchCache(form) for _ in TINY.layers], chunk)


def own(ids: torch.Tensor) -> torch.Tensor:
    """-log p of each token but the first by the whole text at once."""
    logs = TINY.plain(ids).log_softmax(2)
    return -torch.stack(
        [
            torch.stack([logs[text, at, ids[text, at + 1]] for at in range(ids.shape[1] - 1)])
            for text in range(len(ids))
        ]
    )


def spoiling(tile: int) -> Format:
    """A format without loss, but for the values of one tile of each sequence and head."""
    seen = iter(range(10**6))

    def packed(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spoilt = next(seen) // tiny_model.LAYERS == tile  # chunks of a tile: a call a layer each
        return keys, values + 1 if spoilt else values

    return Format("spoiling", lambda rows: rows, packed, GROUP, 32)


@pytest.mark.parametrize("chunk", [1, 5, GROUP, 3 * GROUP])
def test_without_loss_it_is_the_models_own(chunk: int) -> None:
    # 1e-6: logits are made float32 before their logarithm, 2^-24 of numbers up to some 30. Catches
    # a token that is left out or taken twice at the end of a chunk, a position that is off by one.
    ids = texts(3 * GROUP + 3)
    found = read(ids, exact(GROUP), chunk)
    assert found.shape == (2, 3 * GROUP + 2)
    assert (found - own(ids)).abs().max() < 1e-6 * 30


def test_a_wrong_tile_changes_what_reads_it_and_nothing_before() -> None:
    # The second tile is read packed by the third chunk first, whose first token predicts the next.
    ids = texts(4 * GROUP)
    found, without = read(ids, spoiling(1)), read(ids, exact(GROUP))
    changed = (found != without).all(0)
    assert changed.tolist() == [at >= 2 * GROUP for at in range(4 * GROUP - 1)]


def test_a_tile_that_no_later_chunk_reads_changes_nothing() -> None:
    ids = texts(4 * GROUP)
    assert torch.equal(read(ids, spoiling(3)), read(ids, exact(GROUP)))


def test_perplexity_is_over_tokens_whose_history_has_a_packed_tile() -> None:
    # e^(mean of 2 and 4); the first three would make it another. Catches an index off by one.
    found = torch.tensor([[9.0, 9.0, 9.0, 2.0, 4.0], [7.0, 7.0, 7.0, 1.0, 1.0]])
    assert perplexities(found, 3) == pytest.approx([math.e**3, math.e])


def test_a_text_of_one_tile_has_no_perplexity() -> None:
    with pytest.raises(ValueError, match="a text has 9 tokens, expected over 9"):
        perplexities(torch.zeros(1, GROUP), GROUP)


def test_a_chunk_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="chunk is 0, a text has 5 tokens"):
        losses(TINY.forward, texts(5), [], 0)


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary() -> None:
    def forward(ids: torch.Tensor, *_: object) -> torch.Tensor:
        return torch.zeros(*ids.shape, 61)

    assert perplexities(losses(forward, texts(12), [], 5), 4) == pytest.approx([61, 61])


def test_increases_are_in_percent_and_their_mean_is_of_factors() -> None:
    assert increase(10.5, 10) == pytest.approx(5)
    # 1.21 and 1 have the geometric mean 1.1; the arithmetic one of 21 and 0 is 10.5
    assert mean_increase([21.0, 0.0]) == pytest.approx(10)


def test_the_divergence_is_by_how_much_perplexity_is_expected_to_grow() -> None:
    # p = (1/2, 1/4, 1/4) of logits ln 2, 0, 0, q = (1/3, 1/3, 1/3):
    # 1/2 ln(3/2) + 1/2 ln(3/4) = 0.05889, e^that - 1 = 6.066 %; the first step does not count.
    # 5e-3: log p in float16 is within 2^-11 of itself, p within 7e-4, times sum of p |log p/q| =
    # 0.35 that is 2.4e-4 of 0.0589. Catches p and q taken for each other (5.8 %).
    logits = torch.tensor([math.log(2), 0, 0]).repeat(1, 4, 1)
    logits[:, 3] = 0
    kept = Predictions(2)
    for start in (0, 2):
        kept.keep(start, logits[:, start : start + 2])
    found = Divergence(kept.joined(), 2)
    found.compare(0, 9 * logits[:, :2])
    with pytest.raises(ValueError, match="no step from 2 on"):
        found.expected()
    found.compare(2, torch.zeros(1, 1, 3))
    assert found.expected() == pytest.approx([6.066], rel=5e-3)
    # the fourth token's are equal: catches a step that is compared with another's predictions
    found.compare(3, torch.zeros(1, 1, 3))
    assert found.expected() == pytest.approx([100 * math.expm1(0.05889 / 2)], rel=5e-3)


def test_steps_are_heard_with_what_they_predict() -> None:
    heard: list[tuple[int, tuple[int, ...]]] = []
    caches = [TorchCache(exact(GROUP)) for _ in TINY.layers]
    ids = texts(2 * GROUP)
    losses(TINY.forward, ids, caches, GROUP, lambda at, logits: heard.append((at, logits.shape)))
    assert heard == [(0, (2, GROUP, 61)), (GROUP, (2, GROUP - 1, 61))]


def tiny_as_model(head_dim: int = tiny_model.HEAD_DIM) -> Model:
    return Model("tiny", TINY.forward, None, tiny_model.LAYERS, head_dim, False, "cpu", "0" * 64)


def test_a_layers_errors_come_from_what_the_run_without_loss_asked() -> None:
    # Values that are one more than they were: outputs whose history is packed are between the
    # tokens' own tile and 1 more. Catches errors that are taken of kept rows, too.
    def packed(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return 2 * keys, values

    ids = texts(4 * GROUP + 3)  # the last tile is open: keys of four are compared, not of the last
    without = baseline(tiny_as_model(), ids, GROUP)
    twice = Format("twice", lambda rows: rows, packed, GROUP, 32)
    for layer in without.layers:
        found = layer_errors(layer.steps, twice)
        assert found.key == pytest.approx(1)
        assert found.value == 0
        assert found.output > 0.01
        nothing = layer_errors(layer.steps, exact(GROUP))
        assert (nothing.key, nothing.value, nothing.output) == (0, 0, 0)


def test_errors_of_a_text_without_packed_tiles_are_refused() -> None:
    recorder = Recorder(GROUP)
    rows = [torch.zeros(1, 2, GROUP, 4)] * 3
    recorder.attend(*rows, 0.5)
    with pytest.raises(ValueError, match="8 tokens in 1 steps: no step reads a packed tile"):
        layer_errors(recorder.steps, exact(GROUP))


def test_a_relative_error_is_of_all_elements_together() -> None:
    assert relative_error(torch.tensor([3.0, 5.0]), torch.tensor([3.0, 4.0])) == pytest.approx(0.2)
    assert relative_error(torch.zeros(3), torch.zeros(3)) == 0


def test_a_result_has_perplexity_increase_and_errors() -> None:
    ids = texts(4 * GROUP)
    model = tiny_as_model()
    without = baseline(model, ids, GROUP)
    assert without.perplexities == pytest.approx(
        own(ids)[:, GROUP:].mean(1).exp().tolist(), rel=1e-5
    )
    assert [step.key.shape[2] for step in without.layers[0].steps] == [GROUP] * 4
    found = result(model, ids, exact(GROUP), without)
    assert found.perplexities == without.perplexities
    assert found.increases == [0, 0]
    assert [layer.output for layer in found.errors] == [0] * tiny_model.LAYERS


def test_progress_is_told_of_every_format() -> None:
    told: list[str] = []
    _, found = results(tiny_as_model(), texts(3 * GROUP), [exact(GROUP)], told.append)
    assert told == ["1/2 without quantisation", "2/2 as computed"]
    assert [one.form for one in found] == ["as computed"]


def llama() -> object:
    """A Llama of random weights with heads of 64; its test is skipped without transformers."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=256, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def test_a_model_of_transformers_has_its_own_perplexity_without_loss() -> None:
    # Its own: the loss that transformers computes of a text at once, with its own attention.
    network = llama()
    ids = texts(200, 97)
    with torch.inference_mode():
        wanted = [float(network(row[None], labels=row[None]).loss) for row in ids]
    forward = run_with_caches(network)
    found = losses(forward, ids, [TorchCache(exact(64)) for _ in range(2)], 64)
    assert found.mean(1).tolist() == pytest.approx(wanted, rel=1e-6)


def test_pages_and_rings_give_a_model_of_transformers_the_same_perplexity() -> None:
    # The bound that kernels are held to: 0.05 % of perplexity.
    model = Model("llama", run_with_caches(llama()), None, 2, 64, False, "cpu", "0" * 64)
    ids = texts(256, 97)
    form = kvarn("kvarn_k4v2_g64", "prescaled", 64)
    plain = with_caches(model, ids, lambda: TorchCache(form), 64, 64)
    layout = tile_layout("kvarn_k4v2_g64", 64)
    limits = {"max_query_len": 32, "max_tokens": 256}
    pages = with_caches(
        model,
        ids,
        lambda: PagedCache(reference_operations(), layout, "prescaled", **limits),
        32,
        64,
    )
    assert pages == pytest.approx(plain, rel=5e-4)
    without = with_caches(model, ids, lambda: TorchCache(exact(64)), 64, 64)
    assert plain != pytest.approx(without, rel=1e-6)
