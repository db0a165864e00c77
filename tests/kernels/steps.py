"""Steps of a layer whose tiles are packed: requests of any lengths, pages, rings and new rows.

What nothing may read holds NaN: ring rows of no live position, tokens of no request.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from kvarn_port.layout import PRESETS, TileLayout, ring_rows, tile_layout
from tests.kernels.pairs import pairwise

Counts = tuple[int, ...]

SPARE_BLOCKS, SPARE_SLOTS, PADDING_TOKENS = 3, 2, 3  # of nobody
VERIFY = 8  # query tokens of a verify step, from which the ring gets its rows

# Plain: nothing between records, rows or tokens. Padded: bytes between heads, blocks, tokens and
# ring rows, and all of it begins inside its storage. Power of two: records end in unused bytes.
LAYOUTS = ("plain", "padded", "power of two")
# Normal: N(0, 1). Uneven: channels and tokens of very different sizes. Offset: channels whose mean
# is 300 deviations. Tiny: under the smallest scale of the reference mode.
INPUTS = ("normal", "uneven", "offset", "tiny")


def lengths_for(group: int) -> dict[str, tuple[Counts, Counts]]:
    """Return steps by name: the tokens of each request, this step's among them, and this step's."""
    return {
        "nothing is full": ((group + 5, 3, group - 1), (1, 1, 2)),
        "a prompt of one tile": ((group,), (group,)),
        "the last token of a tile": ((2 * group, 7 * group), (1, 1)),
        "a verify step over a tile's end": ((2 * group + 3, 5 * group), (VERIFY, 5)),
        "a chunk over three tiles": ((3 * group + 7,), (2 * group + 20,)),
        "ragged chunks": ((2 * group + 1, group - 1, 4 * group), (group + 30, 2, group)),
        "prompts and a decode": ((2 * group, 9, 3 * group + 1), (2 * group, 1, 1)),
        "requests of no tokens": ((0, 2 * group, 0), (0, group, 0)),
    }


@dataclass(frozen=True)
class Case:
    """One step: requests of `seq_lens` tokens of which the last `query_lens` are this step's.

    padded: requests of a captured graph whose ring slot is negative, a token each
    """

    seq_lens: Counts
    query_lens: Counts
    preset: str = "kvarn_k4v2_g64"
    head_dim: int = 64
    heads: int = 2
    layout: str = "plain"
    inputs: str = "normal"
    mode: str = "reference"
    padded: int = 0
    seed: int = 0

    def __str__(self) -> str:
        """Return the case as the id of a test."""
        lengths = f"{list(self.seq_lens)}x{list(self.query_lens)}".replace(" ", "")
        words = (
            lengths, self.preset, f"D{self.head_dim}", f"{self.heads}heads",
            self.layout.replace(" ", "-"), self.inputs, self.mode, f"{self.padded}padded",
        )  # fmt: skip
        return ",".join(words)


FACTORS: dict[str, tuple[Any, ...]] = {
    "lengths": tuple(lengths_for(64)),
    "preset": tuple(PRESETS),
    "head_dim": (64, 128, 256, 512),
    "layout": LAYOUTS,
    "inputs": INPUTS,
    "mode": ("reference", "prescaled", "fitted"),
    "heads": (1, 2),
    "padded": (0, 2),
}


def case_of(row: dict[str, Any], seed: int) -> Case:
    """Return the case of a row of FACTORS."""
    lengths = lengths_for(PRESETS[row["preset"]].group)[row["lengths"]]
    rest = {name: row[name] for name in row if name != "lengths"}
    return Case(*lengths, **rest, seed=seed)


def pairwise_cases() -> list[Case]:
    """Return cases in which every pair of values of FACTORS appears."""
    return [case_of(row, number) for number, row in enumerate(pairwise(FACTORS))]


def all_cases() -> list[Case]:
    """Return every preset at every head_dim with every kind of step, the rest by turns."""
    turns = list(pairwise(FACTORS))
    found = []
    for preset in PRESETS:
        for head_dim in FACTORS["head_dim"]:
            for lengths in FACTORS["lengths"]:
                row = turns[len(found) % len(turns)]
                chosen = row | {"preset": preset, "head_dim": head_dim, "lengths": lengths}
                found.append(case_of(chosen, 1000 + len(found)))
    return found


@dataclass(frozen=True)
class Step:
    """The arguments that kernel and reference share, by the names of both."""

    tiles: torch.Tensor
    ring_keys: torch.Tensor
    ring_values: torch.Tensor
    rotated_key: torch.Tensor
    rotated_value: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    ring_slot: torch.Tensor
    slot_mapping: torch.Tensor
    layout: TileLayout
    max_query_len: int
    mode: str

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def copy(self, device: str, byte: int | None = None) -> Step:
        """Return the step with outputs of its own and its strides; records filled with a byte."""
        moved = {
            name: like(value, device)
            for name, value in self.arguments().items()
            if isinstance(value, torch.Tensor)
        }
        if byte is not None:
            moved["tiles"].fill_(byte)
        return replace(self, **moved)


def like(x: torch.Tensor, device: str) -> torch.Tensor:
    """Return a copy of a tensor on a device, with its strides and its place in its storage."""
    count = x.untyped_storage().nbytes() // x.itemsize
    storage = x.as_strided((count,), (1,), 0).to(device, copy=True)
    return storage.as_strided(x.shape, x.stride(), x.storage_offset())


def filled_blocks(step: Step) -> list[int]:
    """Return the blocks that a step must fill, in the order of its requests."""
    group, found = step.layout.group, []
    starts, slots = step.query_start.tolist(), step.slot_mapping.tolist()
    for request, (seq_len, ring_slot) in enumerate(
        zip(step.seq_lens.tolist(), step.ring_slot.tolist(), strict=True)
    ):
        committed = seq_len - (starts[request + 1] - starts[request])
        if ring_slot < 0:
            continue
        for last in range(committed // group * group + group - 1, seq_len, group):
            slot = slots[starts[request] + last - committed]
            found += [slot // group] if slot >= 0 else []
    return found


def make(case: Case, device: str) -> Step:
    """Return the step of a case: random rows of its seed, pages and ring slots in random order."""
    random = torch.Generator().manual_seed(case.seed)
    layout = tile_layout(
        case.preset, case.head_dim, pow2_slot=case.layout == "power of two", allow_fp8_cost=True
    )
    live = len(case.seq_lens)
    query_lens = case.query_lens + (1,) * case.padded
    tokens = sum(query_lens) + PADDING_TOKENS
    starts = torch.tensor([0, *query_lens]).cumsum(0).int()
    rows = ring_rows(layout, VERIFY)
    slots = torch.randperm(live + SPARE_SLOTS, generator=random)[:live].int()
    slot_mapping, blocks = place(case, layout.group, tokens, random)
    step = Step(
        tiles=empty(case, (blocks, case.heads, layout.record_bytes), torch.uint8),
        ring_keys=empty(case, (live + SPARE_SLOTS, rows, case.heads, case.head_dim)),
        ring_values=empty(case, (live + SPARE_SLOTS, rows, case.heads, case.head_dim)),
        rotated_key=empty(case, (tokens, case.heads, case.head_dim)),
        rotated_value=empty(case, (tokens, case.heads, case.head_dim)),
        query_start=starts,
        seq_lens=torch.tensor([*case.seq_lens, *(1,) * case.padded], dtype=torch.int32),
        ring_slot=torch.cat([slots, torch.full((case.padded,), -1, dtype=torch.int32)]),
        slot_mapping=slot_mapping,
        layout=layout,
        max_query_len=max(query_lens),
        mode=case.mode,
    )
    fill(case, step, random)
    return step.copy(device)


def empty(case: Case, shape: Counts, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Return a tensor of a case's layout, NaN everywhere; bytes are for the caller to fill."""
    pad = 16 // dtype.itemsize if case.layout == "padded" else 0
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, (strides[0] * size + pad))
    storage = torch.full((pad + shape[0] * strides[0],), 0, dtype=dtype)
    if dtype != torch.uint8:
        storage.fill_(torch.nan)
    return storage.as_strided(shape, strides, pad)


def place(case: Case, group: int, tokens: int, random: torch.Generator) -> tuple[torch.Tensor, int]:
    """Return the slot of every token, -1 of those of nobody, and the number of blocks."""
    counts = [-(-seq_len // group) for seq_len in case.seq_lens]
    blocks = sum(counts) + SPARE_BLOCKS
    order = torch.randperm(blocks, generator=random)
    slot_mapping = torch.full((tokens,), -1, dtype=torch.int64)
    first = 0
    for seq_len, query_len, count in zip(case.seq_lens, case.query_lens, counts, strict=True):
        pages, order = order[:count], order[count:]
        position = torch.arange(seq_len - query_len, seq_len)
        slots = pages[position // group] * group + position % group
        slot_mapping[first : first + query_len] = slots
        first += query_len
    return slot_mapping, blocks


def fill(case: Case, step: Step, random: torch.Generator) -> None:
    """Put rows into the step: new ones, and in the ring those before it that no page holds."""
    starts = step.query_start.tolist()
    for pair in ((step.ring_keys, step.rotated_key), (step.ring_values, step.rotated_value)):
        ring, rotated = pair
        for request, (seq_len, query_len) in enumerate(
            zip(case.seq_lens, case.query_lens, strict=True)
        ):
            committed = seq_len - query_len
            old = torch.arange(committed // step.layout.group * step.layout.group, committed)
            rows = draw(case, len(old) + query_len, random)
            slot = int(step.ring_slot[request])
            ring[slot, old % ring.shape[1]] = rows[: len(old)]
            rotated[starts[request] : starts[request] + query_len] = rows[len(old) :]


def draw(case: Case, count: int, random: torch.Generator) -> torch.Tensor:
    """Return rows of a case's inputs, [count, heads, head_dim] float16."""
    rows = torch.randn(count, case.heads, case.head_dim, generator=random)
    if case.inputs == "uneven":
        rows *= torch.exp(0.8 * torch.randn(case.heads, case.head_dim, generator=random))
        rows *= torch.exp(0.6 * torch.randn(count, 1, 1, generator=random))
    elif case.inputs == "offset":
        rows[:, :, ::16] += 30
    elif case.inputs == "tiny":
        rows *= 1e-2
    return rows.half()
