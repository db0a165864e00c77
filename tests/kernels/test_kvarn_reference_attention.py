"""Attention, packing, gathering and merging in plain torch, against sums written down otherwise.

Comments name the mutations of `mutations_kvarn_reference.py` that a comparison catches.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import numpy as np
import torch

from kvarn_port.layout import PRESETS, TileLayout, ring_rows, tile_layout
from kvarn_port.reference.gather import gather
from kvarn_port.reference.merge import merge
from kvarn_port.reference.pack import pack
from kvarn_port.reference.tile_attention import tile_attention
from kvarn_port.reference.tiles import dequantise, quantise

pytestmark = pytest.mark.kernel

LONGEST = 17
# seq_len and query_len of requests, of group 64 and a ring of 80 rows: nothing packed yet; the last
# row of a tile committed, and one more; tile filled by drafts; rows that wrap around the ring
REQUESTS = ((5, 1), (64, 1), (65, 1), (66, 5), (130, 3), (142, 17), (193, 1), (200, 0), (17, 17))
SPARE = 3  # tokens of queries that belong to nobody


def signs(head_dim: int) -> np.ndarray:
    """H of Sylvester over √D by the bits of row and column."""
    places = range(head_dim)
    rows = [[(-1) ** (i & j).bit_count() for j in places] for i in places]
    return np.array(rows) / head_dim**0.5


@dataclass(frozen=True)
class Call:
    """A cache with garbage wherever the rule of reading does not go, and queries."""

    layout: TileLayout
    tiles: torch.Tensor
    ring_keys: torch.Tensor
    ring_values: torch.Tensor
    block_table: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    ring_slot: torch.Tensor
    query: torch.Tensor
    keys: list[np.ndarray]  # of each request: [seq_len, kv_heads, head_dim], rotated
    values: list[np.ndarray]


def call(preset: str, head_dim: int, kv_heads: int, ratio: int) -> Call:
    """A call over REQUESTS: pages in random order, slots too, everything unread is NaN."""
    layout = tile_layout(preset, head_dim)
    group, rows = layout.group, ring_rows(layout, LONGEST)
    random = torch.Generator().manual_seed(head_dim + kv_heads)
    lens = [seq * group // 64 if seq > 64 else seq for seq, _ in REQUESTS]
    packed = [(seq - q) // group for seq, (_, q) in zip(lens, REQUESTS, strict=True)]
    pages = torch.randperm(sum(packed) + 4, generator=random)
    tiles = torch.full((len(pages), kv_heads, layout.tile_bytes + 32), 255, dtype=torch.uint8)
    block_table = torch.full((len(lens), max(lens) // group + 2), 2**30, dtype=torch.int32)
    slots = torch.randperm(len(lens) + 1, generator=random)[: len(lens)]
    rings = torch.full((2, len(lens) + 1, rows, kv_heads, head_dim), torch.nan).half()
    keys, values, taken = [], [], 0
    for request, seq in enumerate(lens):
        parts = []
        for tile in range(packed[request]):
            made = torch.randn(2, kv_heads, group, head_dim, generator=random).half()
            record = quantise(made[0], made[1] + 0.5, layout, iterations=1)
            page = pages[taken]
            taken += 1
            block_table[request, tile] = page
            tiles[page, :, : layout.tile_bytes] = record
            parts.append(torch.stack(dequantise(record, layout)).transpose(1, 2))
        start = packed[request] * group
        open_rows = torch.randn(2, seq - start, kv_heads, head_dim, generator=random).half()
        for position in range(start, seq):
            rings[:, slots[request], position % rows] = open_rows[:, position - start]
        key, value = torch.cat([*parts, open_rows.double()], 1).numpy()
        keys.append(key)
        values.append(value)
    query_lens = torch.tensor([q for _, q in REQUESTS])
    tokens = int(query_lens.sum()) + SPARE
    return Call(
        layout,
        tiles,
        rings[0],
        rings[1],
        block_table,
        torch.tensor([0, *query_lens.cumsum(0)], dtype=torch.int32),
        torch.tensor(lens, dtype=torch.int32),
        slots.to(torch.int32),
        torch.randn(tokens, kv_heads * ratio, head_dim, generator=random).half(),
        keys,
        values,
    )


def attention(made: Call, output: torch.Tensor, **more: object) -> torch.Tensor:
    """The reference on a call."""
    arguments = {"max_query_len": LONGEST, "softmax_scale": made.layout.head_dim**-0.5} | more
    return tile_attention(
        made.query, made.tiles, made.ring_keys, made.ring_values, output, made.block_table,
        made.query_start, made.seq_lens, made.ring_slot, layout=made.layout, **arguments,
    )  # fmt: skip


def dense(made: Call, causal: bool) -> np.ndarray:
    """Softmax token by token and head by head, in the frame that nothing is rotated in."""
    turn = signs(made.layout.head_dim)
    query = made.query.double().numpy() @ turn
    expected = np.full(query.shape, np.nan)
    ratio = query.shape[1] // made.tiles.shape[1]
    for request, (_, query_len) in enumerate(REQUESTS):
        first = int(made.query_start[request])
        seq = len(made.keys[request])
        keys, values = made.keys[request] @ turn, made.values[request] @ turn
        for token in range(query_len):
            seen = seq - query_len + token + 1 if causal else seq
            for head in range(query.shape[1]):
                scores = keys[:seen, head // ratio] @ query[first + token, head]
                weights = np.exp((scores - scores.max()) * made.layout.head_dim**-0.5)
                mean = weights @ values[:seen, head // ratio] / weights.sum()
                expected[first + token, head] = mean
    return expected


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("preset", "head_dim", "kv_heads", "ratio"),
    [
        ("kvarn_k4v2_g64", 64, 2, 6),
        ("kvarn_k4v4_g64", 128, 1, 8),
        ("kvarn_k4v2_g128", 64, 3, 1),
        ("kvarn_k4v4_g128", 256, 1, 6),
        ("kvarn_k4v2_g64", 512, 1, 1),
    ],
)
def test_it_is_a_dense_softmax_over_keys_that_were_never_rotated(
    preset: str, head_dim: int, kv_heads: int, ratio: int, causal: bool
) -> None:
    """float64 both ways: some thousand roundings of 2⁻⁵³. What the rule of reading does not reach
    is NaN, a page that does not exist, or a row of another request."""
    # causal-one-late, causal-one-early, flat-limit-of-the-query, kv-head-by-remainder,
    # output-stays-rotated, softmax-unscaled, history-a-tile-more, history-a-tile-less, ring-by-page
    made = call(preset, head_dim, kv_heads, ratio)
    output = torch.full(made.query.shape, torch.nan, dtype=torch.float64)
    assert attention(made, output, causal=causal) is output
    expected = dense(made, causal)
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-12)
    assert output[:-SPARE].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_output_is_rounded_to_its_dtype(dtype: torch.dtype) -> None:
    made = call("kvarn_k4v2_g64", 64, 1, 2)
    true = attention(made, torch.zeros(made.query.shape, dtype=torch.float64))
    output = attention(made, torch.zeros(made.query.shape, dtype=dtype))
    assert output.dtype == dtype
    assert torch.equal(output, true.to(dtype))
    output = torch.zeros(made.query.shape, dtype=torch.float64)
    single = attention(made, output, dtype=torch.float32)
    assert 1e-9 < (single - true).abs().max() < 1e-5


def test_rows_of_nobody_stay_and_those_of_a_padded_request_are_zero() -> None:
    # padded-request-left-alone
    made = call("kvarn_k4v2_g64", 64, 1, 1)
    true = attention(made, torch.full(made.query.shape, 7.0, dtype=torch.float64))
    made.ring_slot[3] = -1  # the request of five query tokens from token 3 on
    output = attention(made, torch.full(made.query.shape, 7.0, dtype=torch.float64))
    assert output[3:8].abs().max() == 0
    assert output[-SPARE:].unique().tolist() == [7]
    rest = [*range(3), *range(8, len(output))]
    assert torch.equal(output[rest], true[rest])


def test_too_long_queries_and_too_small_rings_are_refused() -> None:
    made = call("kvarn_k4v2_g64", 64, 1, 1)
    output = torch.zeros(made.query.shape)
    message = r"^the ring has 80 rows, tiles of 64 and 18 query tokens need 81$"
    with pytest.raises(ValueError, match=message):
        attention(made, output, max_query_len=18)
    message = r"^request 5 has 17 query tokens, over the maximum$"
    with pytest.raises(ValueError, match=message):
        attention(made, output, max_query_len=16)


@dataclass(frozen=True)
class Step:
    """Arguments of `pack` over one request, its pages 5, 2, 7 of a cache of 9."""

    tiles: torch.Tensor
    rings: torch.Tensor
    rows: torch.Tensor  # [2, positions, kv_heads, head_dim]
    layout: TileLayout

    def run(self, committed: int, end: int, **more: object) -> None:
        """Pack the positions from committed to end in slot 1."""
        group, pages = self.layout.group, (5, 2, 7, 0)
        at = range(committed, end)
        mapping = torch.tensor([pages[p // group] * group + p % group for p in at])
        arguments = {
            "query_start": torch.tensor([0, end - committed]),
            "seq_lens": torch.tensor([end]),
            "ring_slot": torch.tensor([1]),
            "slot_mapping": mapping,
            "max_query_len": 4096,
            "layout": self.layout,
        }
        new = self.rows[:, committed:end]
        pack(self.tiles, *self.rings, *new, **(arguments | more))

    def record(self, tile: int, **more: object) -> torch.Tensor:
        """The records of a tile of the rows as they are: [kv_heads, tile_bytes]."""
        group = self.layout.group
        rows = self.rows[:, tile * group : (tile + 1) * group].transpose(1, 2)
        return quantise(rows[0], rows[1], self.layout, **more)


def step(preset: str = "kvarn_k4v2_g64", rows: int = 80) -> Step:
    """A step over 300 random positions; tiles hold 0x5A, rings NaN."""
    layout = tile_layout(preset, 64)
    random = torch.Generator().manual_seed(6)
    return Step(
        torch.full((9, 2, layout.tile_bytes + 8), 0x5A, dtype=torch.uint8),
        torch.full((2, 3, rows, 2, 64), torch.nan).half(),
        torch.randn(2, 300, 2, 64, generator=random).half(),
        layout,
    )


def filled_pages(made: Step) -> list[int]:
    """Pages that something was written into."""
    return [page for page in range(9) if (made.tiles[page] != 0x5A).any()]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_step_packs_the_tiles_that_it_fills_and_keeps_its_last_rows(preset: str) -> None:
    # record-of-another-page, tail-of-the-ring, bytes-past-the-tile
    group = PRESETS[preset].group
    made = step(preset, group + 16)
    made.run(0, 2 * group + 9)
    size = made.layout.tile_bytes
    assert filled_pages(made) == [2, 5]
    assert torch.equal(made.tiles[5, :, :size], made.record(0))
    assert torch.equal(made.tiles[2, :, :size], made.record(1))
    assert (made.tiles[..., size:] == 0x5A).all()
    for position in range(group - 7, 2 * group + 9):
        row = made.rings[:, 1, position % (group + 16)]
        assert torch.equal(row, made.rows[:, position])
    assert made.rings[:, [0, 2]].isnan().all()


def test_rows_before_the_step_come_from_the_ring_as_it_was() -> None:
    """Positions 60 to 129 are stored at rows 60 to 79 and 0 to 49, over what tile 0 needs."""
    # store-before-pack, ring-rows-of-the-step
    made = step()
    made.run(0, 60)
    assert filled_pages(made) == []
    assert torch.equal(made.rings[:, 1, :60], made.rows[:, :60])
    assert made.rings[:, 1, 60:].isnan().all()
    made.run(60, 130)
    assert filled_pages(made) == [2, 5]
    for page, tile in ((5, 0), (2, 1)):
        assert torch.equal(made.tiles[page, :, : made.layout.tile_bytes], made.record(tile))


def test_a_tile_that_drafts_filled_is_packed_again_by_what_is_committed() -> None:
    # tile-of-drafts-kept
    made = step()
    made.run(0, 62)
    drafts = made.rows[:, 62:67].clone()
    made.run(62, 67)  # 62 is known, four drafts; three of them are refused
    first = made.tiles[5, :, : made.layout.tile_bytes].clone()
    assert torch.equal(first, made.record(0))
    made.rows[:, 64:67] = drafts.flip(1)[:, :3]
    made.run(64, 68)
    second = made.tiles[5, :, : made.layout.tile_bytes]
    # position 63 was accepted, so that all of tile 0 was there: it is not packed again
    assert torch.equal(second, first)
    made.rows[:, 63] = drafts[:, 4]
    made.run(63, 64)
    assert torch.equal(second, made.record(0))
    assert not torch.equal(second, first)


def test_a_step_that_fills_nothing_only_stores() -> None:
    made = step()
    made.run(64, 127)
    assert filled_pages(made) == []
    assert torch.equal(made.rings[:, 1, 64:80], made.rows[:, 64:80])
    assert torch.equal(made.rings[:, 1, :47], made.rows[:, 80:127])


def test_tokens_without_a_slot_and_padded_requests_write_nothing() -> None:
    # negative-slot-written, padded-request-written
    made = step()
    made.run(0, 70, ring_slot=torch.tensor([-1]))
    made.run(0, 70, slot_mapping=torch.full((70,), -1))
    assert filled_pages(made) == []
    assert made.rings.isnan().all()
    mapping = torch.arange(70) + 5 * 64
    mapping[66:] = -1
    made.run(0, 70, slot_mapping=mapping)
    assert filled_pages(made) == [5]
    assert torch.equal(made.rings[:, 1, :66], made.rows[:, :66])
    assert made.rings[:, 1, 66:].isnan().all()


def test_iterations_and_mode_are_those_that_are_asked_for() -> None:
    made = step()
    made.run(0, 64, iterations=2, mode="prescaled")
    record = made.record(0, iterations=2, mode="prescaled")
    assert torch.equal(made.tiles[5, :, : made.layout.tile_bytes], record)
    assert not torch.equal(record, made.record(0, mode="prescaled"))
    assert not torch.equal(record, made.record(0, iterations=2))


def test_a_step_over_the_maximum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^request 0 has 9 query tokens, over the maximum$"):
        step().run(0, 9, max_query_len=8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("start", [0, 64, 67, 130, 500])
def test_history_is_gathered_from_pages_and_ring_with_zeros_after_it(
    start: int, dtype: torch.dtype
) -> None:
    # gather-zeros-only-where-empty, gather-start-of-the-tile, history-a-tile-more
    made = call("kvarn_k4v2_g64", 64, 2, 1)
    committed = torch.tensor([seq - q for seq, q in REQUESTS], dtype=torch.int32)
    made.ring_slot[5] = -1
    found = [torch.full((len(REQUESTS), 100, 2, 64), torch.nan, dtype=dtype) for _ in range(2)]
    gather(
        made.tiles, made.ring_keys, made.ring_values, *found, made.block_table, committed,
        made.ring_slot, layout=made.layout, start=start,
    )  # fmt: skip
    for request, tokens in enumerate(committed.tolist()):
        for part, true in zip(found, (made.keys, made.values), strict=True):
            rows = torch.from_numpy(true[request][start : min(start + 100, tokens)]).to(dtype)
            rows = rows[:0] if request == 5 else rows
            assert torch.equal(part[request, : len(rows)], rows)
            assert part[request, len(rows) :].abs().sum() == 0


def test_a_long_step_that_is_stored_leaves_the_open_tile_in_its_page() -> None:
    """60 rows are committed; rows 0 to 49 of the ring hold positions 80 to 129 after the step."""
    made = step()
    made.run(0, 60)
    made.run(60, 130)
    table = torch.tensor([[5, 2, 7]])
    arguments = (made.tiles, *made.rings)
    found = [torch.empty(1, 64, 2, 64, dtype=torch.float16) for _ in range(2)]
    gather(
        *arguments, *found, table, torch.tensor([60]), torch.tensor([1]), layout=made.layout,
        start=0, seq_lens=torch.tensor([130]),
    )  # fmt: skip
    for part, tile in zip(found, dequantise(made.record(0), made.layout), strict=True):
        assert torch.equal(part[0, :60], tile.transpose(0, 1)[:60].half())
        assert part[0, 60:].abs().max() == 0


def segments(count: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Outputs and logarithms of `count` segments of random keys, and attention over all of them."""
    rng = np.random.default_rng(count)
    query, keys = rng.normal(size=(5, 3, 64)) * 2, rng.normal(size=(count, 7, 64))
    values = rng.normal(size=(count, 7, 64))
    scores = np.einsum("thd,skd->sthk", query, keys)
    weights = np.exp(scores)
    outputs = np.einsum("sthk,skd->sthd", weights, values) / weights.sum(3, keepdims=True)
    whole = np.einsum("sthk,skd->thd", weights, values) / weights.sum((0, 3))[..., None]
    lses = np.log(weights.sum(3)).transpose(0, 2, 1)
    return torch.from_numpy(outputs), torch.from_numpy(lses), whole


@pytest.mark.parametrize("count", [1, 2, 5])
def test_segments_are_merged_into_attention_over_all_of_them(count: int) -> None:
    # merge-by-base-two, merge-without-the-sum, merge-stays-rotated
    outputs, lses, whole = segments(count)
    output = torch.full((5, 3, 64), torch.nan, dtype=torch.float64)
    assert merge(outputs, lses, output, unrotate=False) is output
    np.testing.assert_allclose(output, whole, rtol=0, atol=1e-13)
    merge(outputs, lses + 1000, output)
    np.testing.assert_allclose(output, whole @ signs(64), rtol=0, atol=1e-12)
    half = torch.zeros(5, 3, 64, dtype=torch.bfloat16)
    assert torch.equal(merge(outputs, lses + 1000, half), output.bfloat16())


def test_a_segment_without_a_key_is_not_looked_at() -> None:
    # merge-reads-the-empty
    outputs, lses, _ = segments(3)
    output = torch.full((5, 3, 64), torch.nan, dtype=torch.float64)
    outputs[1, 2], lses[1, :, 2] = torch.nan, -torch.inf
    outputs[:, 4], lses[:, :, 4] = torch.nan, -torch.inf
    merge(outputs, lses, output, unrotate=False)
    assert output[4].abs().max() == 0
    two = torch.empty(1, 3, 64, dtype=torch.float64)
    merge(outputs[[0, 2], 2:3], lses[[0, 2], :, 2:3], two, unrotate=False)
    assert torch.equal(output[2], two[0])
    assert output.isfinite().all()
