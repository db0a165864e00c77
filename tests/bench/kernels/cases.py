"""Shapes of one attention over a paged cache, and the arithmetic of their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from kvarn_port.layout import tile_layout

ROTATED_BYTES = 500_000_000  # an H200 has 60 MB of L2: none of a replay is left for the next
FEWEST_TABLES = 2  # so that no call follows itself on the same blocks

# What one key and one value element take, and what is kept beside each token and head.
ELEMENT_BITS = {"bf16": 16, "fp8": 8, "int8": 8, "int4": 4}
SCALE_BYTES = {"bf16": 0, "fp8": 0, "int8": 8, "int4": 8}
PRESETS = {"k4v2": "kvarn_k4v2_g128"}  # of KVarN; a block is a tile of them
FORMATS = (*ELEMENT_BITS, *PRESETS)


@dataclass(frozen=True)
class Case:
    """So many requests of one length, each with so many query tokens at its end."""

    batch: int  # requests
    context: int  # tokens of a request, its query tokens included
    new_tokens: int  # query tokens of a request
    num_query_heads: int = 24
    num_kv_heads: int = 4
    head_dim: int = 256
    block_size: int = 448  # tokens: what a hybrid model's state pages make it in bf16

    @property
    def name(self) -> str:
        """The case in a word, as rows and records name it."""
        return f"b{self.batch}-{self.context}-q{self.new_tokens}"

    @property
    def blocks(self) -> int:
        """Blocks of all requests; the last one of each is filled in part."""
        return self.batch * ceil(self.context / self.block_size)

    def token_bytes(self, kv_format: str) -> int:
        """Bytes of keys, values and their scales of one token over all heads."""
        if kv_format in PRESETS:
            return self.num_kv_heads * tile_layout(PRESETS[kv_format], self.head_dim).slot_bytes
        content = 2 * self.head_dim * ELEMENT_BITS[kv_format] // 8 + SCALE_BYTES[kv_format]
        return self.num_kv_heads * content

    def cache_bytes(self, kv_format: str) -> int:
        """Bytes of the cache that every right kernel reads: queries and outputs are not counted."""
        return self.batch * self.context * self.token_bytes(kv_format)


def tables_to_rotate(case: Case, kv_format: str, rotated_bytes: int = ROTATED_BYTES) -> int:
    """How many block tables, none sharing a block, read more than so many bytes in turn."""
    read = case.cache_bytes(kv_format)
    return max(FEWEST_TABLES, rotated_bytes // read + 1)


def pool_blocks(cases: Iterable[Case], kv_format: str, rotated_bytes: int = ROTATED_BYTES) -> int:
    """Blocks of one pool in which each case finds its tables, and one that none of them names."""
    wanted = (case.blocks * tables_to_rotate(case, kv_format, rotated_bytes) for case in cases)
    return 1 + max(wanted)


def pool_slots(cases: Iterable[Case], kv_format: str, rotated_bytes: int = ROTATED_BYTES) -> int:
    """Rings of one pool of tiles: each request of each table has its own, and one is nobody's."""
    wanted = (case.batch * tables_to_rotate(case, kv_format, rotated_bytes) for case in cases)
    return 1 + max(wanted)


def matrix(
    batches: Iterable[int],
    contexts: Iterable[int],
    new_tokens: Iterable[int],
    block_size: int = 448,
) -> list[Case]:
    """Every combination, the shortest contexts first."""
    lengths, queries = tuple(contexts), tuple(new_tokens)
    return [
        Case(batch, context, query, block_size=block_size)
        for batch in batches
        for context in lengths
        for query in queries
    ]
