"""Random caches of KVarN: blocks of packed tiles, and a ring of 16-bit rows for each request.

Records are quantised from normal rows by the reference, some hundred of them, and every block has
one of them at random for each head: what is read lies nowhere twice, and is right everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvarn_port.layout import TileLayout, ring_rows, tile_layout
from kvarn_port.reference.gather import history
from kvarn_port.reference.rotate import hadamard
from kvarn_port.reference.tiles import quantise
from tests.bench.kernels.cases import PRESETS, Case

VERIFY_LEN = 16  # of the longest step whose rows the ring holds beside an open tile
RECORDS = 256
CHUNK_BLOCKS = 256


@dataclass(frozen=True)
class TilePool:
    """Tiles of all blocks, and the rings."""

    kv_format: str
    packed: torch.Tensor  # [blocks, num_kv_heads, tile_bytes] uint8
    ring_keys: torch.Tensor  # [slots, ring_rows, num_kv_heads, head_dim] float16, rotated
    ring_values: torch.Tensor  # the same
    layout: TileLayout

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.packed.shape[0]

    def rows(
        self, row: torch.Tensor, slot: int, tokens: int, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one request, not rotated: `[tokens, num_kv_heads, head_dim]` float64.

        The step's own are those of the ring, unless it is too long for it: then `key` and `value`.
        """
        committed = tokens - len(key)
        held = tokens if len(key) <= VERIFY_LEN else committed
        rings = (self.ring_keys[slot], self.ring_values[slot])
        found = history(self.packed, *rings, row, committed, 0, held, self.layout)
        matrix = hadamard(self.layout.head_dim, row.device)
        sides = zip(found, (key, value), strict=True)
        return tuple(torch.cat([old @ matrix, new[: tokens - held].double()]) for old, new in sides)


def make_tile_pool(
    case: Case, kv_format: str, blocks: int, slots: int, device: str, seed: int
) -> TilePool:
    """A pool of one preset whose blocks have random records."""
    layout = tile_layout(PRESETS[kv_format], case.head_dim)
    if case.block_size != layout.group:
        raise ValueError(f"block_size is {case.block_size}, tiles have {layout.group} tokens")
    draw = torch.Generator(device=device).manual_seed(seed)
    count = RECORDS if device != "cpu" else 4

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=draw).half()

    tile = (count, layout.group, case.head_dim)
    records = quantise(normal(*tile), normal(*tile), layout)
    shape = (blocks, case.num_kv_heads)
    packed = torch.empty((*shape, layout.record_bytes), dtype=torch.uint8, device=device)
    which = torch.randint(0, count, shape, device=device, generator=draw)
    for chunk, chosen in zip(packed.split(CHUNK_BLOCKS), which.split(CHUNK_BLOCKS), strict=True):
        chunk.copy_(records[chosen])
    ring = (slots, ring_rows(layout, VERIFY_LEN), case.num_kv_heads, case.head_dim)
    return TilePool(kv_format, packed, normal(*ring), normal(*ring), layout)
