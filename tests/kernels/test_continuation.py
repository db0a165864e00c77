"""Continuations held against attention in float64 over records and rings, on a GPU or interpreted.

The attention that they are given is plain torch in float64: what is shown is which rows it is
given, for which queries, and what becomes of its outputs. Each comparison names mutations of
`mutations_kvarn_gather.py` that it is to catch, without their prefix.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from dataclasses import dataclass, replace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels.continuation import Scratch, continuation
from kvarn_port.layout import PRESETS
from kvarn_port.reference.gather import history as read_history
from kvarn_port.reference.tile_attention import tile_attention
from kvarn_port.reference.verify_attention import attention_weights, visible_keys, weighted_values
from tests.kernels.bounds import LOST, ROUNDOFF
from tests.kernels.caches import running_total
from tests.kernels.histories import Case, History, make
from tests.kernels.run_kernel import HUGE, NAN, bits, poison

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

RATIO = 3  # query heads of a KV head
HALF, FLOAT = ROUNDOFF[torch.float16], ROUNDOFF[torch.float32]


@dataclass(frozen=True)
class Step:
    """A history, and what a step adds to it, rotated."""

    history: History
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    query_lens: tuple[int, ...]

    @property
    def softmax_scale(self) -> float:
        """Return a scale that makes scores of some ±3."""
        return 0.5 / self.history.layout.head_dim**0.5


def make_step(case: Case, query_lens: tuple[int, ...], device: str) -> Step:
    """Return a step of so many tokens of each request; the rings are wide enough for them all."""
    history = make(case, device, ring=512)
    random = torch.Generator().manual_seed(case.seed + 1000)
    tokens = sum(query_lens)

    def drawn(heads: int) -> torch.Tensor:
        return torch.randn(tokens, heads, case.head_dim, generator=random).half().to(device)

    lengths = torch.tensor(query_lens, dtype=torch.int32, device=device)
    return Step(
        history, drawn(case.heads * RATIO), drawn(case.heads), drawn(case.heads),
        running_total(query_lens, device), history.committed + lengths, query_lens,
    )  # fmt: skip


def attention(
    query, keys, values, *, causal, query_start, key_start, key_lens, max_query_len, max_key_len,
    softmax_scale, output,
):  # fmt: skip
    """Return attention in float64, rounded to `output`, and its lse; garbage where none is seen."""
    lse = torch.full((query.shape[1], len(query)), torch.nan, device=query.device)
    output.fill_(torch.nan)
    starts = query_start.tolist()
    for request, count in enumerate(key_lens.tolist()):
        rows = slice(starts[request], starts[request + 1])
        if rows.start == rows.stop:
            continue
        assert rows.stop - rows.start <= max_query_len
        assert count <= max_key_len
        at = slice(int(key_start[request]), int(key_start[request]) + count)
        seen = visible_keys(rows.stop - rows.start, count, 0, query.device)
        seen = seen if causal else torch.ones_like(seen)
        asked, key, value = (x.double() for x in (query[rows], keys[at], values[at]))
        weights = attention_weights(asked, key, seen, softmax_scale)
        output[rows] = weighted_values(weights, value).to(output.dtype)
        output[rows][~seen.any(1)] = torch.nan
        scores = torch.einsum("qhd,khd->hqk", asked, key.repeat_interleave(RATIO, 1))
        scores = (scores * softmax_scale).masked_fill(~seen, -torch.inf)
        lse[:, rows] = scores.logsumexp(2).float()
    return output, lse


def prepared(
    step: Step, *, byte: int = NAN, segment_tiles: int = 1, parts: int = 4,
    dtype: torch.dtype = torch.bfloat16, **more: object,
) -> dict[str, object]:  # fmt: skip
    """Return a continuation's arguments, scratch and output poisoned, segments of so many tiles."""
    history = step.history
    requests = len(step.query_lens)
    scratch = Scratch.allocate(
        max_tokens=len(step.query) + 3, num_query_heads=step.query.shape[1],
        num_kv_heads=step.key.shape[1], head_dim=step.query.shape[2], device=step.query.device,
        segment_tokens=requests * segment_tiles * history.layout.group + 5, parts=parts,
    )  # fmt: skip
    output = torch.empty(step.query.shape, dtype=dtype, device=step.query.device)
    held = (scratch.keys, scratch.values, scratch.outputs, scratch.lses)
    for part in (*held, scratch.carried.output, scratch.carried.lse, output):
        poison(part, byte)
    arguments = {
        "query": step.query, "rotated_key": step.key, "rotated_value": step.value,
        "output": output, "query_start": step.query_start, "seq_lens": step.seq_lens,
        "attention": attention, "max_query_len": max(step.query_lens), "scratch": scratch,
        "max_committed": int(history.committed.max()), "softmax_scale": step.softmax_scale,
        **{name: value for name, value in vars(history).items() if name != "committed"},
    }  # fmt: skip
    return arguments | more


def run(step: Step, **more: object) -> torch.Tensor:
    """Return a continuation's output."""
    return continuation(**prepared(step, **more))


def after(step: Step) -> History:
    """Return the history with the step's rows in the rings, which the reference reads."""
    rings = []
    for ring, new in ((step.history.ring_keys, step.key), (step.history.ring_values, step.value)):
        stored = ring.clone()
        for request, first in enumerate(step.query_start[:-1].tolist()):
            count, slot = step.query_lens[request], int(step.history.ring_slot[request])
            at = int(step.history.committed[request]) + torch.arange(count, device=ring.device)
            if count:
                stored[slot, at % ring.shape[1]] = new[first : first + count]
        rings.append(stored)
    return replace(step.history, ring_keys=rings[0], ring_values=rings[1])


def truth(step: Step, *, causal: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output in float64, and the bound of each element before it is rounded.

    Rotated, an element is off by
    - Σ p ε|v - out| e^(2 max ε), ε = scale u Σ|q k̂|: gathered keys are rounded to float16;
    - u Σ p|v| for gathered values, and as much for outputs of segments, in float16 both;
    - what `merge` adds, with log-sum-exps in float32 that are rounded once more each.
    Rotating back sums all D of them over the root of D.
    """
    history = after(step)
    exact = torch.zeros(step.query.shape, dtype=torch.float64, device=step.query.device)
    arguments = {name: value for name, value in vars(history).items() if name != "committed"}
    tile_attention(
        step.query, output=exact, query_start=step.query_start, seq_lens=step.seq_lens,
        max_query_len=max(step.query_lens), softmax_scale=step.softmax_scale, causal=causal,
        **arguments,
    )  # fmt: skip
    bound = torch.zeros_like(exact)
    for request, first in enumerate(step.query_start[:-1].tolist()):
        count, slot = step.query_lens[request], int(history.ring_slot[request])
        if not count:
            continue
        tokens = int(step.seq_lens[request])
        keys, values = read_history(
            history.tiles, history.ring_keys[slot], history.ring_values[slot],
            history.block_table[request], tokens - count, 0, tokens, history.layout,
        )  # fmt: skip
        asked = step.query[first : first + count].double()
        seen = visible_keys(count, tokens, 0, asked.device)
        seen = seen if causal else torch.ones_like(seen)
        weights = attention_weights(asked, keys, seen, step.softmax_scale)
        out = weighted_values(weights, values)
        size = torch.einsum("qhd,khd->hqk", asked.abs(), keys.abs().repeat_interleave(RATIO, 1))
        off = HALF * step.softmax_scale * size * seen
        moved = weighted_values(weights * off, values.abs())
        moved += (weights * off).sum(2).T[..., None] * out.abs()
        moved *= torch.exp(2 * off.amax(2)).T[..., None]
        merged = 2 * FLOAT * (60 + off.amax(2).T[..., None] / HALF)  # |lse| is below the latter
        rotated = moved + (2 * HALF + merged) * weighted_values(weights, values.abs())
        rotated += 2 * LOST[torch.float16]
        bound[first : first + count] = rotated.sum(-1, keepdim=True) / out.shape[-1] ** 0.5
    return exact, bound


def check(step: Step, found: torch.Tensor, *, causal: bool = True) -> None:
    """Hold an output against the truth."""
    exact, inner = truth(step, causal=causal)
    out = found.dtype
    bound = inner + ROUNDOFF[out] * (exact.abs() + inner) + LOST[out]
    error = (found.double() - exact).abs().nan_to_num(nan=torch.inf)
    # own-keys-not-causal, segments-from-the-first, history-with-this-step,
    # lengths-of-the-first-segment, requests-at-one-place
    assert float((error / bound).max()) <= 1
    # Rounding errors are nearly uniform, of RMS 0.6 u at most, and independent: of values, outputs
    # of segments and the result, with scores of ±3 whose keys are rounded, 4 of u are plenty
    limit = 4 * HALF + ROUNDOFF[out]
    # bounds of single elements sum over D, which leaves room for what is wrong a little
    assert float(error.square().mean().sqrt() / exact.square().mean().sqrt()) <= limit


CASES = [
    (Case(preset, head_dim, history, heads=heads, seed=number), query_lens, dtype)
    for number, (preset, head_dim, history, heads, query_lens, dtype) in enumerate(
        (
            ("kvarn_k4v2_g128", 64, "ragged", 2, (9, 40, 17), torch.bfloat16),
            ("kvarn_k4v4_g128", 128, "one open tile", 1, (33,), torch.float16),
            ("kvarn_k4v2_g64", 256, "ragged", 1, (70, 0, 3), torch.float32),
            ("kvarn_k4v4_g64", 64, "one whole tile", 2, (130,), torch.float32),
            ("kvarn_k4v2_g64", 512, "one open tile", 1, (12,), torch.bfloat16),
        )
    )
]


@pytest.mark.parametrize(("case", "query_lens", "dtype"), CASES, ids=str)
def test_a_continuation_is_attention_to_history_and_itself(
    case: Case, query_lens: tuple[int, ...], dtype: torch.dtype, device: str
) -> None:
    step = make_step(case, query_lens, device)
    check(step, run(step, dtype=dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("head_dim", [64, 128, 256, 512])
def test_every_preset_and_size_continues(preset: str, head_dim: int, gpu: str) -> None:
    step = make_step(Case(preset, head_dim, "ragged", heads=4, seed=99), (150, 61, 200), gpu)
    check(step, run(step, segment_tiles=2))


@pytest.mark.gpu
def test_nothing_is_read_back_from_the_device(gpu: str) -> None:
    step = make_step(CASES[0][0], CASES[0][1], gpu)
    lse = torch.zeros(step.query.shape[1], len(step.query), device=gpu)
    arguments = prepared(step, attention=lambda *_, output, **__: (output.fill_(1.0), lse))
    continuation(**arguments)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # told, not raised: an error would stay on for what else this process runs. To ask for it
        # is warned of as well, a prototype's feature.
        try:
            torch.cuda.set_sync_debug_mode("warn")
            continuation(**arguments)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    # read-back: an `.item()` of a length
    assert not [str(one.message) for one in said if "called a synchronizing" in str(one.message)]


@pytest.mark.parametrize("parts", [1, 2])
def test_more_segments_than_are_held_are_carried(parts: int, device: str) -> None:
    step = make_step(CASES[0][0], CASES[0][1], device)
    # carry-begins-anew, carried-left-out
    check(step, run(step, parts=parts, dtype=torch.float32))


def test_a_bound_of_the_longest_history_serves_as_well_as_its_length(device: str) -> None:
    step = make_step(CASES[0][0], CASES[0][1], device)
    exact = run(step, parts=8)
    # empty segments change nothing: their weights are 0
    assert torch.equal(bits(exact), bits(run(step, max_committed=600, parts=8)))


def test_segments_of_several_tiles_give_the_same_within_the_bound(device: str) -> None:
    step = make_step(CASES[0][0], CASES[0][1], device)
    check(step, run(step, segment_tiles=2, dtype=torch.float32))


def test_a_first_chunk_has_no_history(device: str) -> None:
    step = make_step(CASES[1][0], (20,), device)
    step = replace(
        step, history=replace(step.history, committed=torch.zeros_like(step.history.committed)),
        seq_lens=step.seq_lens - step.history.committed,
    )  # fmt: skip
    check(step, run(step, max_committed=0, dtype=torch.float32))


def test_all_keys_may_be_seen(device: str) -> None:
    step = make_step(CASES[1][0], (20,), device)
    check(step, run(step, causal=False, dtype=torch.float32), causal=False)


def test_two_runs_give_the_same_bits_whatever_was_in_scratch(device: str) -> None:
    step = make_step(CASES[0][0], CASES[0][1], device)
    one, other = (run(step, byte=byte, parts=2) for byte in (NAN, HUGE))
    assert torch.equal(bits(one), bits(other))


def test_attention_may_return_an_output_of_its_own(device: str) -> None:
    step = make_step(CASES[1][0], (20,), device)

    def elsewhere(*rows, output, **more):
        found, lse = attention(*rows, output=torch.empty_like(output), **more)
        return found, lse

    # outputs-left-where-they-are: NaN
    assert torch.equal(bits(run(step)), bits(run(step, attention=elsewhere)))


def test_nothing_asked_for_leaves_everything_alone(device: str) -> None:
    step = make_step(CASES[1][0], (0,), device)
    output = torch.empty(0, *step.query.shape[1:], device=device)
    assert run(step, output=output) is output


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"max_committed": -1}, "max_committed is -1; expected 0 or more"),
        (
            {"query": torch.zeros(20, 6, 128).half()},
            "query heads, KV heads and head_dim are (6, 1,",
        ),
        ({"query": torch.zeros(20, 3, 128)}, "(3, 1, 128) of torch.float32; scratch was allocated"),
        (
            {"query": torch.zeros(24, 3, 128).half()},
            "24 query tokens; scratch was allocated for 23",
        ),
        (
            {"segment_tiles": 0},
            "1 requests of a tile of 128 tokens each need 128 rows of scratch, 5",
        ),
    ],
)
def test_what_scratch_is_not_for_is_refused(changed: dict[str, object], text: str) -> None:
    step = make_step(CASES[1][0], (20,), "cpu")
    with pytest.raises(ValueError, match=re.escape(text)):
        run(step, **changed)
