"""The caches of the demo are read as decode reads them: full earlier tiles packed, the rest kept.

Formats here mark what they give back, so that a test sees which of the two was read. The oracle
attends one query at a time, in float64, over rows chosen by the rule of kvarn.md 11.
"""

from __future__ import annotations

import importlib.util
import math

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.demo.cache import TorchCache
from kvarn_port.demo.formats import Format, exact, kvarn
from kvarn_port.demo.paged import PagedCache, reference_operations
from kvarn_port.layout import tile_layout

pytestmark = pytest.mark.kernel
GROUP = 8
SCALE = 0.4


def marked(group: int = GROUP) -> Format:
    """A format whose kept rows are halved and whose packed ones are negated and shifted."""
    return Format(
        "marked",
        lambda rows: rows / 2,
        lambda keys, values: (1 - keys, 3 - values),
        group,
        32,
    )


def drawn(tokens: int, heads: int = 2, head_dim: int = 4, seed: int = 1) -> list[torch.Tensor]:
    """Queries of twice the heads, keys and values, [2, heads, tokens, head_dim] float64."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(2, count, tokens, head_dim, dtype=torch.float64, generator=generator)
        for count in (2 * heads, heads, heads)
    ]


def stepped(cache: object, rows: list[torch.Tensor], steps: list[int], window=None) -> torch.Tensor:
    """The outputs of all steps, [2, tokens, heads, head_dim]."""
    outputs, done = [], 0
    for tokens in steps:
        step = [each[:, :, done : done + tokens] for each in rows]
        outputs.append(cache.attend(*step, SCALE, window))
        done += tokens
    return torch.cat(outputs, 1)


def expected(
    rows: list[torch.Tensor], steps: list[int], sink: int, window: int | None
) -> torch.Tensor:
    """What `marked` gives, one query at a time."""
    query, key, value = rows
    output = torch.empty(2, query.shape[2], query.shape[1], query.shape[3], dtype=torch.float64)
    committed = 0
    for tokens in steps:
        for at in range(committed, committed + tokens):
            first = 0 if window is None else max(0, at - window + 1)
            seen = range(first, at + 1)
            packed = [t < committed // GROUP * GROUP and t >= sink for t in seen]
            for sequence in range(2):
                for head in range(query.shape[1]):
                    k, v = key[sequence, head // 2], value[sequence, head // 2]
                    keys = [1 - k[t] if p else k[t] / 2 for t, p in zip(seen, packed, strict=True)]
                    values = [
                        3 - v[t] if p else v[t] / 2 for t, p in zip(seen, packed, strict=True)
                    ]
                    scores = [float(SCALE * (query[sequence, head, at] @ one)) for one in keys]
                    weights = [math.exp(score) for score in scores]
                    summed = sum(w * one for w, one in zip(weights, values, strict=True))
                    output[sequence, at, head] = summed / sum(weights)
        committed += tokens
    return output


STEPS = {
    "chunks of a tile": [8, 8, 8],
    "across tiles": [5, 9, 3, 7],
    "several tiles at once": [21, 1, 1, 1],
    "one by one": [7, 1, 1, 6, 1, 1, 1, 1],
}


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("sink", [0, 3, 8, 11])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_a_step_reads_tiles_packed_that_were_full_before_it(
    steps: list[int], sink: int, window: int | None
) -> None:
    # 1e-12: both in float64, of sums of 24 numbers near 1. Catches a tile read packed by the step
    # that fills it, a sink that counts one row more or less, a window of one key more or less.
    rows = drawn(sum(steps))
    found = stepped(TorchCache(marked(), sink), rows, steps, window)
    assert (found - expected(rows, steps, sink, window)).abs().max() < 1e-12


def test_one_chunk_reads_no_packed_tile() -> None:
    # Catches packing before attending: NaN would show.
    form = Format("nan", lambda rows: rows, lambda k, v: (k * math.nan, v * math.nan), GROUP, 32)
    rows = drawn(3 * GROUP)
    assert stepped(TorchCache(form), rows, [3 * GROUP]).isfinite().all()
    assert not stepped(TorchCache(form), rows, [2 * GROUP, GROUP])[:, -1].isfinite().any()


def test_rows_of_the_sink_are_those_kept_in_16_bit_to_the_bit() -> None:
    form = kvarn("kvarn_k4v2_g128", "reference", 64)
    query, key, value = (rows.float() for rows in drawn(140, head_dim=64))
    cache = TorchCache(form, sink=16)
    stepped(cache, [query, key, value], [128, 12])
    for found, written in zip(cache.rows(128), (key, value), strict=True):
        kept = form.kept(written.flatten(0, 1)).unflatten(0, written.shape[:2])
        assert torch.equal(found[:, :, :16], kept[:, :, :16])
        assert torch.equal(found[:, :, 128:], kept[:, :, 128:])
        # what follows the sink is packed: 2^-9 is far over 16 bit and far under 4 bit
        error = (found - written)[:, :, 16:128].abs().mean(-1)
        assert (error > 2**-9).all()
        assert (kept - written).abs().max() < 2**-8


def test_without_loss_steps_of_any_length_give_the_same() -> None:
    rows = drawn(40)
    whole = stepped(TorchCache(exact(GROUP)), rows, [40])
    for steps in ([8] * 5, [3, 20, 17], [1] * 40):
        assert (stepped(TorchCache(exact(GROUP)), rows, steps) - whole).abs().max() < 1e-13


@pytest.mark.parametrize("mode", ["reference", "prescaled"])
@pytest.mark.parametrize("preset", ["kvarn_k4v2_g64", "kvarn_k4v4_g64"])
def test_pages_and_rings_give_what_the_plain_cache_gives(preset: str, mode: str) -> None:
    # Both read the same codes and float16 rows. Pages round the query to float16 once more, 2^-11
    # of it at most: scores move by 2^-11 · 0.4 · |q||k| < 2^-11 · 0.4 · 64 · 1.4 = 0.018, weights
    # by as much in the worst case, on average far less. A tile read at the wrong page or from the
    # ring, a row of the ring of another position, or codes of the other mode: over 0.05.
    query, key, value = (rows.float() for rows in drawn(200, head_dim=64))
    steps = [48, 64, 64, 24]
    plain = stepped(TorchCache(kvarn(preset, mode, 64)), [query, key, value], steps)
    cache = PagedCache(
        reference_operations(), tile_layout(preset, 64), mode, max_query_len=64, max_tokens=200
    )
    found = stepped(cache, [query, key, value], steps)
    assert found.shape == plain.shape
    error = float((found - plain).norm() / plain.norm())
    assert error < 2e-3
    exactly = stepped(TorchCache(exact(64)), [query, key, value], steps)
    assert float((exactly - plain).norm() / plain.norm()) > 0.05


def paged(**limits: int) -> PagedCache:
    return PagedCache(
        reference_operations(), tile_layout("kvarn_k4v2_g64", 64), "reference", **limits
    )


def test_pages_have_no_window() -> None:
    rows = [each.float() for each in drawn(3, head_dim=64)]
    with pytest.raises(ValueError, match="window is 2: tile attention has none"):
        paged(max_query_len=4, max_tokens=8).attend(*rows, SCALE, 2)


@pytest.mark.parametrize("limits", [(2, 8), (4, 2)])
def test_a_step_over_the_maxima_is_refused(limits: tuple[int, int]) -> None:
    rows = [each.float() for each in drawn(3, head_dim=64)]
    cache = paged(max_query_len=limits[0], max_tokens=limits[1])
    with pytest.raises(ValueError, match=f"3 tokens after 0, expected {limits[0]} in a step"):
        cache.attend(*rows, SCALE)
