"""Histories of requests in pages and rings of KVarN, with garbage around them.

Records have random codes and random scales of either sign, so that each field of each record is
told apart from every other. What belongs to no token holds NaN: other records and rows of the ring,
and the bytes of a record behind its tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch

from kvarn_port.layout import PRESETS, TileLayout, ring_rows, tile_layout
from tests.kernels.pairs import pairwise

SPARE_BLOCKS, SPARE_SLOTS, VERIFY_LEN = 2, 2, 8
HEAD_DIMS = (64, 128, 256, 512)

# Of requests, in tiles and tokens more: (tiles, tokens). None: no slot in the ring.
Lengths = tuple[tuple[int, int] | None, ...]
HISTORIES: dict[str, Lengths] = {
    "one open tile": ((0, 5),),
    "one whole tile": ((1, 0),),
    "ragged": ((2, 37), (0, 0), (1, 1)),
    "none of a slot": ((1, 3), None, (3, 0)),
}
# In tiles and tokens more: where the rows that are asked for begin, and how many they are.
WINDOWS = {
    "all": ((0, 0), (4, 0)),
    "a tile": ((1, 0), (1, 0)),
    "inside a tile": ((0, 3), (0, 11)),
    "across tiles": ((0, 100), (1, 30)),
    "past the end": ((4, 0), (1, 0)),
}
# Where records lie: next to each other; in slots of a power of two; heads and blocks apart, the
# first of which begins inside its storage.
PLACES = ("dense", "pow2", "apart")


@dataclass(frozen=True)
class Case:
    """One call of gather."""

    preset: str
    head_dim: int = 64
    history: str = "ragged"
    window: str = "all"
    place: str = "dense"
    dtype: str = "float16"
    heads: int = 2
    seed: int = 0

    def __str__(self) -> str:
        """Return the case as the id of a test."""
        words = (self.preset[6:], f"D{self.head_dim}", self.history, self.window, self.place)
        return ",".join((*words, self.dtype)).replace(" ", "-")


@dataclass(frozen=True)
class History:
    """What requests have before a step, by the names of the kernels' arguments."""

    tiles: torch.Tensor
    ring_keys: torch.Tensor
    ring_values: torch.Tensor
    block_table: torch.Tensor
    committed: torch.Tensor
    ring_slot: torch.Tensor
    layout: TileLayout


SMALL = {
    "preset": tuple(PRESETS),
    "head_dim": HEAD_DIMS,
    "window": tuple(WINDOWS),
    "history": tuple(HISTORIES),
    "place": PLACES,
    "dtype": ("float16", "bfloat16"),
}


def small_cases() -> list[Case]:
    """Return calls in which every pair of values appears."""
    return [Case(**row, seed=number) for number, row in enumerate(pairwise(SMALL))]


def all_cases() -> list[Case]:
    """Return every combination of preset, head_dim, dtype, place and window."""
    rows = product(PRESETS, HEAD_DIMS, ("ragged",), WINDOWS, PLACES, ("float16", "bfloat16"))
    return [Case(*row, heads=4, seed=number) for number, row in enumerate(rows)]


def window(case: Case) -> tuple[int, int]:
    """Return the first position that is asked for, and how many."""
    group = PRESETS[case.preset].group
    start, count = WINDOWS[case.window]
    return start[0] * group + start[1] * group // 128, count[0] * group + count[1] * group // 128


def lengths(case: Case) -> list[int]:
    """Return the committed tokens of each request; one without a slot has some, all the same."""
    group = PRESETS[case.preset].group
    return [
        group + 1 if found is None else found[0] * group + found[1]
        for found in HISTORIES[case.history]
    ]


def make(case: Case, device: str, *, ring: int | None = None) -> History:
    """Return the history of a case, its pages in random order; `ring` rows a slot."""
    random = torch.Generator().manual_seed(case.seed)
    pow2 = case.place == "pow2"
    layout = tile_layout(case.preset, case.head_dim, pow2_slot=pow2, allow_fp8_cost=True)
    counts = [tokens // layout.group for tokens in lengths(case)]
    order = torch.randperm(sum(counts) + SPARE_BLOCKS, generator=random).tolist()
    pages = [[order.pop() for _ in range(count)] for count in counts]
    tiles = empty_tiles(case, layout, sum(counts) + SPARE_BLOCKS, device)
    for page in (page for row in pages for page in row):
        tiles[page] = 0xFF
        tiles[page, :, : layout.tile_bytes] = records(layout, case.heads, random).to(device)
    table = torch.full((len(pages), max(counts) + 3), order[-1], dtype=torch.int32)
    for request, row in enumerate(pages):
        table[request, : len(row)] = torch.tensor(row, dtype=torch.int32)
    slots = (torch.randperm(len(pages) + SPARE_SLOTS, generator=random)[: len(pages)]).int()
    for request, found in enumerate(HISTORIES[case.history]):
        slots[request] = slots[request] if found else -1
    rows = ring or ring_rows(layout, VERIFY_LEN)
    rings = [
        torch.full((len(pages) + SPARE_SLOTS, rows, case.heads, case.head_dim), torch.nan).half()
        for _ in range(2)
    ]
    for request, tokens in enumerate(lengths(case)):
        at = torch.arange(tokens // layout.group * layout.group, tokens) % rows
        if slots[request] >= 0:
            for one in rings:
                shape = (len(at), case.heads, case.head_dim)
                one[slots[request], at] = torch.randn(shape, generator=random).half()
    return History(
        tiles,
        *(one.to(device) for one in rings),
        table.to(device)[:, :-1],
        torch.tensor(lengths(case), dtype=torch.int32, device=device),
        slots.to(device),
        layout,
    )


def empty_tiles(case: Case, layout: TileLayout, blocks: int, device: str) -> torch.Tensor:
    """Return [blocks, heads, record bytes] uint8 of 0xFF, laid out as the case says."""
    head = layout.record_bytes + (64 if case.place == "apart" else 0)
    block, begin = (case.heads * head + 4096, 1024) if case.place == "apart" else (0, 0)
    block = block or case.heads * head
    storage = torch.full((begin + blocks * block,), 0xFF, dtype=torch.uint8, device=device)
    shape = (blocks, case.heads, layout.record_bytes)
    return storage.as_strided(shape, (block, head, 1), begin)


def records(layout: TileLayout, count: int, random: torch.Generator) -> torch.Tensor:
    """Return [count, tile_bytes] uint8: random codes, and normal scales of about 1 / 4."""
    made = torch.randint(0, 256, (count, layout.tile_bytes), dtype=torch.uint8, generator=random)
    for at, size in scale_fields(layout):
        scales = (torch.randn(count, size, generator=random) / 4).half()
        made[:, at : at + 2 * size] = scales.view(torch.uint8)
    return made


def scale_fields(layout: TileLayout) -> tuple[tuple[int, int], ...]:
    """Return where the float16 of a record begin, and how many they are."""
    head_dim, group = layout.head_dim, layout.group
    return (
        (layout.key_channel_scale, head_dim),
        (layout.key_zero_point, head_dim),
        (layout.key_token_scale, group),
        (layout.value_channel_scale, head_dim),
        (layout.value_token_scale, group),
        (layout.value_zero_point, group),
    )


def magnitudes(history: History) -> torch.Tensor:
    """Return the tiles with every scale positive: what they hold is (code |A| + |Z|) |T|."""
    tiles = history.tiles.clone()
    for at, size in scale_fields(history.layout):
        tiles[:, :, at + 1 : at + 2 * size : 2] &= 0x7F
    return tiles
