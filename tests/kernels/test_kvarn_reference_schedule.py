"""What attention reads under random schedules: of each position its row, or its tile's record.

Rows hold numbers that stand for all tokens up to them, and a record here is these numbers, so that
each input of attention says what was put there. Comments name the mutations of
`mutations_kvarn_reference.py` that a comparison catches.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.layout import TileLayout, tile_layout
from kvarn_port.reference import gather as gather_module
from kvarn_port.reference import pack as pack_module
from kvarn_port.reference.gather import gather, history
from kvarn_port.reference.pack import pack
from kvarn_port.reference.tiles import dequantise, quantise
from tests.kernels.schedules import Counts, Row, Schedule

pytestmark = pytest.mark.kernel

GROUP, LONGEST, HEADS, SLOTS, PAGES = 16, 4, 2, 4, 40
# of the numbers below only: 16 tokens of 8 channels
LAYOUT = dataclasses.replace(tile_layout("kvarn_k4v2_g64", 64), group=GROUP, head_dim=8)
ENOUGH = GROUP + LONGEST - 1  # rows of a ring
RANDOM_STEPS = 45
PACKED, KEY, VALUE = 1.0, 3.0, 5.0


def rows_of(contents: list[int], kind: float) -> torch.Tensor:
    """Rows [tokens, HEADS, 8] float16 that hold a number, KEY or VALUE, and the head."""
    rows = torch.zeros(len(contents), HEADS, 8, dtype=torch.float16)
    number = torch.tensor(contents)[:, None]
    rows[..., 0], rows[..., 1] = number % 1024, number // 1024
    rows[..., 2], rows[..., 3] = kind, torch.arange(HEADS)
    return rows


def copied(
    keys: torch.Tensor, values: torch.Tensor, layout: TileLayout, *_: object
) -> torch.Tensor:
    """In the place of `quantise`: records that are the rows themselves, marked as packed."""
    records = torch.zeros(len(keys), layout.tile_bytes, dtype=torch.uint8)
    rows = torch.stack([keys, values], 1).clone()
    rows[..., 4] = PACKED
    flat = rows.flatten(1).contiguous().view(torch.uint8)
    records[:, : flat.shape[1]] = flat
    return records


def read(
    records: torch.Tensor, layout: TileLayout, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """In the place of `dequantise`: the rows of records."""
    shape = (2, layout.group, layout.head_dim)
    flat = records[:, : 4 * layout.group * layout.head_dim].contiguous().view(torch.float16)
    rows = flat.unflatten(1, shape).to(dtype)
    return rows[:, 0], rows[:, 1]


@pytest.fixture
def _rows_as_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are the rows themselves."""
    monkeypatch.setattr(pack_module, "quantise", copied)
    monkeypatch.setattr(gather_module, "dequantise", read)


@dataclasses.dataclass
class Cache:
    """The cache of a layer, and what may be done otherwise with it."""

    ring_rows: int = ENOUGH
    pack: Callable[..., None] = pack
    told_of_the_store: bool = True
    layout: TileLayout = LAYOUT
    make: Callable[[list[int], float], torch.Tensor] = rows_of

    def __post_init__(self) -> None:
        heads, head_dim = HEADS, self.layout.head_dim
        self.tiles = torch.zeros(PAGES, heads, self.layout.tile_bytes + 16, dtype=torch.uint8)
        shape = (SLOTS, self.ring_rows, heads, head_dim)
        self.rings = [torch.full(shape, float("nan"), dtype=torch.float16) for _ in range(2)]

    def step(self, rows: list[Row]) -> list[tuple[Row, torch.Tensor, torch.Tensor, int]]:
        """Pack and store a step; return what each row's attention reads, and how much is packed.

        Beside the rows there is a padded one, as a captured graph has it.
        """
        padded = Row([9] * 3, 1, [0], -1)
        step = [*rows, padded]
        group = self.layout.group
        lens = [row.query_len for row in step]
        query_start = torch.tensor([0, *torch.tensor(lens).cumsum(0).tolist()])
        seq_lens = torch.tensor([len(row.contents) for row in step])
        ring_slot = torch.tensor([row.slot for row in step])
        table = torch.full((len(step), 64), 10**6)
        mapping = []
        for place, row in enumerate(step):
            table[place, : len(row.pages)] = torch.tensor(row.pages)
            for at in range(row.committed, len(row.contents)):
                slot = row.pages[at // group] * group + at % group if row.slot >= 0 else -1
                mapping.append(slot)
        new = [row.contents[row.committed :] for row in step]
        contents = [number for part in new for number in part]
        keys, values = self.make(contents, KEY), self.make(contents, VALUE)
        self.pack(
            self.tiles, *self.rings, keys, values, query_start, seq_lens, ring_slot,
            torch.tensor(mapping), layout=self.layout, max_query_len=max(lens),
        )  # fmt: skip
        committed = seq_lens - torch.tensor(lens)
        shape = (len(step), int(committed.max()), HEADS, self.layout.head_dim)
        gathered = [torch.full(shape, float("nan"), dtype=torch.float16) for _ in range(2)]
        gather(
            self.tiles, *self.rings, *gathered, table, committed, ring_slot, layout=self.layout,
            start=0, seq_lens=seq_lens if self.told_of_the_store else None,
        )  # fmt: skip
        found = []
        for place, row in enumerate(rows):
            if row.query_len > LONGEST:
                key, value = (part[place, : row.committed] for part in gathered)
                filled = len(row.contents) if self.told_of_the_store else row.committed
            else:
                rings = [ring[row.slot] for ring in self.rings]
                filled, end = row.committed, len(row.contents)
                key, value = history(self.tiles, *rings, table[place], filled, 0, end, self.layout)
            found.append((row, key, value, filled // group * group))
        return found


def wrong_inputs(seed: int, cache: Cache, counts: Counts) -> tuple[int, int]:
    """How many inputs of attention there were in a schedule, and how many were not right."""
    schedule = Schedule(seed, GROUP, LONGEST, slots=SLOTS, pages=PAGES)
    seen = wrong = 0
    for _ in range(RANDOM_STEPS):
        rows = schedule.step()
        if not rows:
            continue
        for row, key, value, packed in cache.step(rows):
            for kind, found in ((KEY, key), (VALUE, value)):
                expected = rows_of(row.contents[: len(found)], kind).double()
                expected[:packed, :, 4] = PACKED
                wrong += int((found.double() != expected).any(2).any(1).sum())
                seen += len(found)
    for name, count in vars(schedule.counts).items():
        setattr(counts, name, getattr(counts, name) + count)
    return seen, wrong


@pytest.mark.usefixtures("_rows_as_records")
def test_every_input_of_attention_is_the_row_of_its_position_or_the_tile_of_its_rows() -> None:
    # store-before-pack, rows-of-the-step-by-position, tile-of-drafts-kept, ring-row-by-query,
    # page-of-the-first-token, gather-reads-a-tile-more, ring-of-slot-0
    counts, seen = Counts(), 0
    for seed in range(24):
        inputs, wrong = wrong_inputs(seed, Cache(), counts)
        assert wrong == 0
        seen += inputs
    assert seen > 100_000
    assert min(counts.hits, counts.chunks, counts.skips, counts.rejections) > 300
    assert counts.preemptions > 30
    assert counts.same_step_hits > 5


def stored_first(tiles: torch.Tensor, *arguments: torch.Tensor, **more: object) -> None:
    """`pack` with its two halves exchanged: what it reads from the ring is stored already."""
    pack(tiles.clone(), *arguments, **more)
    pack(tiles, *arguments, **more)


@pytest.mark.usefixtures("_rows_as_records")
@pytest.mark.parametrize(
    "cache",
    [
        lambda: Cache(pack=stored_first),
        lambda: Cache(ring_rows=GROUP),
        lambda: Cache(ring_rows=ENOUGH - 1),
        lambda: Cache(told_of_the_store=False),
    ],
    ids=["stored before packed", "a ring of a group", "one row fewer", "gathered by committed"],
)
def test_what_is_not_sound_is_seen(cache: Callable[[], Cache]) -> None:
    assert any(wrong_inputs(seed, cache(), Counts())[1] for seed in range(12))


def rows_of_numbers(contents: list[int], kind: float) -> torch.Tensor:
    """Random rows [tokens, HEADS, 64] float16, the same ones for the same number and kind."""
    rows = []
    for number in contents:
        random = torch.Generator().manual_seed(number * 10 + int(kind))
        rows.append(torch.randn(HEADS, 64, generator=random))
    return torch.stack(rows).half()


def test_records_of_a_schedule_are_those_of_the_whole_history() -> None:
    """With real records: equal to the bit to those of the rows of each tile, quantised alone."""
    layout = tile_layout("kvarn_k4v2_g64", 64)
    cache = Cache(64 + LONGEST - 1, layout=layout, make=rows_of_numbers)
    schedule = Schedule(5, layout.group, LONGEST, slots=SLOTS, pages=PAGES)
    tiles = 0
    for _ in range(20):
        for row, *found, packed in cache.step(schedule.step()):
            expected = [rows_of_numbers(row.contents, kind) for kind in (KEY, VALUE)]
            for first in range(0, min(packed, len(found[0])), 64):
                parts = [part[first : first + 64].transpose(0, 1) for part in expected]
                tile = dequantise(quantise(*parts, layout), layout)
                end = min(first + 64, len(found[0]))
                for part, known in zip(found, tile, strict=True):
                    rows = known.transpose(0, 1)[: end - first].to(part.dtype)
                    assert torch.equal(part[first:end], rows)
                tiles += 1
            for part, known in zip(found, expected, strict=True):
                assert torch.equal(part[packed:], known[packed : len(part)].to(part.dtype))
    assert tiles > 30
