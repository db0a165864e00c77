"""Packing and storing a step in plain torch, against records of the whole rows.

Comments name the mutations of `mutations_kvarn_reference_step.py` that a comparison catches.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.layout import PRESETS, TileLayout, tile_layout
from kvarn_port.reference.gather import gather
from kvarn_port.reference.pack import pack
from kvarn_port.reference.tiles import dequantise, quantise

pytestmark = pytest.mark.kernel


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
    # page-of-the-tile-after, tail-of-the-ring, bytes-past-the-tile
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
    # store-before-pack, rows-of-the-step-one-late
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
    # negative-slot-packed, negative-slot-stored, padded-request-written
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


def test_a_long_step_that_is_stored_leaves_the_open_tile_in_its_page() -> None:
    """60 rows are committed; rows 0 to 49 of the ring hold positions 80 to 129 after the step."""
    # gather-deaf-to-the-store
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
