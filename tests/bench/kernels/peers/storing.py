"""A step's rows stored: rotated, filled tiles packed, the last rows put into the ring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kvarn_port.reference.pack import pack as reference
from kvarn_port.reference.rotate import rotate as rotate_reference
from kvarn_port.reference.tiles import dequantise
from tests.bench.kernels.caches import Inputs
from tests.bench.kernels.cases import Case
from tests.bench.kernels.peers import imported
from tests.bench.kernels.peers.tiled import ROTATE, other_blocks, step

PACK = "kvarn_port.kernels.pack"


@dataclass(frozen=True)
class Storing:
    """Rotate and pack, or pack alone, over rows that were rotated before."""

    rotates: bool
    kv_format: str = "k4v2"
    compiles: bool = True
    follows_lengths: bool = False
    # Of 10⁵ codes one may be off by one, of 10³ scales one by a unit in the last place, of rotated
    # rows any by half of that; a tile, head or scale that is wrong is off by far more.
    bound: float = 2e-3

    @property
    def name(self) -> str:
        """The column's head."""
        return "ours k4v2 store" if self.rotates else "ours k4v2 pack"

    def available(self) -> str | None:
        """Why it cannot be imported, or None."""
        return imported(ROTATE)[1] or imported(PACK)[1]

    def skips(self, case: Case, free_bytes: int) -> str | None:  # noqa: ARG002
        """A case of other blocks than tiles."""
        return other_blocks(case)

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table, each with pages and rings of its own."""
        rotate, pack = imported(ROTATE)[0].rotate, imported(PACK)[0].pack
        rotated = [torch.empty_like(x, dtype=torch.float16) for x in step(inputs)]
        rotate(*step(inputs), *rotated)

        def called(table: int) -> Callable[[], Any]:
            arguments = stored(inputs, table)

            def call() -> None:
                if self.rotates:
                    rotate(*step(inputs), *rotated)
                pack(*caches(inputs), *rotated[1:], **arguments)

            return call

        return [called(table) for table in range(len(inputs.tables))]

    def error(self, inputs: Inputs, call: Callable[[], Any]) -> float:
        """How far pages and rings are from those of the references; other bytes must be the same.

        Relative RMS of what the requests' pages hold, dequantised, and of the rings' rows.
        """
        expected = [cache.clone() for cache in caches(inputs)]
        rotated = [torch.empty_like(x, dtype=torch.float16) for x in step(inputs)]
        rotate_reference(*step(inputs), *rotated)
        reference(*expected, *rotated[1:], **stored(inputs, 0))
        call()
        layout = inputs.pool.layout
        own = inputs.tables[0].flatten().long()
        pages = [
            dequantise(tiles[own].flatten(0, 1), layout)
            for tiles in (expected[0], inputs.pool.packed)
        ]
        rest = torch.ones(inputs.pool.blocks, dtype=torch.bool, device=inputs.device)
        rest[own] = False
        if not torch.equal(expected[0][rest], inputs.pool.packed[rest]):
            return float("inf")
        pairs = [*zip(*pages, strict=True), *zip(expected[1:], caches(inputs)[1:], strict=True)]
        return max(float((b.double() - a.double()).norm() / a.double().norm()) for a, b in pairs)

    def moved_bytes(self, case: Case) -> int:
        """Keys and values read and stored in 16 bits, and the tiles; with `rotates` the rotation.

        Rows that go into the ring are at most what it holds, which is little of a long step.
        """
        tokens = case.batch * case.new_tokens
        row = 2 * case.head_dim
        moved = tokens * 2 * case.num_kv_heads * row
        moved += case.batch * case.token_bytes(self.kv_format) * packed_tokens(case)
        if self.rotates:
            moved += 2 * tokens * (case.num_query_heads + 2 * case.num_kv_heads) * row
        return moved


def packed_tokens(case: Case) -> int:
    """Tokens of the tiles that a step fills."""
    group = case.block_size
    return case.context // group * group - (case.context - case.new_tokens) // group * group


def caches(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What `pack` writes: the tiles, and the two rings."""
    return inputs.pool.packed, inputs.pool.ring_keys, inputs.pool.ring_values


def stored(inputs: Inputs, table: int) -> dict[str, Any]:
    """The keywords of `pack` behind the rows, for one table."""
    case = inputs.case
    position = torch.arange(case.context - case.new_tokens, case.context, device=inputs.device)
    page = inputs.tables[table][:, position // case.block_size].long()
    return {
        "query_start": inputs.query_start,
        "seq_lens": inputs.seq_lens,
        "ring_slot": inputs.ring_slots[table],
        "slot_mapping": (page * case.block_size + position % case.block_size).flatten(),
        "layout": inputs.pool.layout,
        "max_query_len": case.new_tokens,
    }
