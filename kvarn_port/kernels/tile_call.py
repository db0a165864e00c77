"""The arguments of one call of tile attention as a value, and what they must be."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..layout import TileLayout
from .verify_plan import Shape

OUTPUTS = (torch.bfloat16, torch.float16, torch.float32)
# A longer query attends its history out of gathered segments.
MAX_QUERY_LEN = 64
GRAIN_BYTES = 16  # that records begin at multiples of


@dataclass(frozen=True)
class TileCall:
    """The arguments of tile_attention that a kernel reads, checked."""

    query: torch.Tensor
    tiles: torch.Tensor
    ring_keys: torch.Tensor
    ring_values: torch.Tensor
    output: torch.Tensor
    block_table: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    ring_slot: torch.Tensor
    layout: TileLayout
    max_query_len: int
    softmax_scale: float
    causal: bool
    precise: bool

    def __post_init__(self) -> None:
        """Raise ValueError at the first argument that is not what the kernels read."""
        _check_tiles(self)
        _check_query(self)
        _check_rings(self)
        _check_tables(self)
        _expect(
            0 <= self.max_query_len <= MAX_QUERY_LEN,
            f"max_query_len is {self.max_query_len}",
            f"0 to {MAX_QUERY_LEN}: the history of longer queries is gathered",
        )
        needed = self.layout.group + self.max_query_len - 1
        _expect(
            self.ring_keys.shape[1] >= needed,
            f"the ring has {self.ring_keys.shape[1]} rows",
            f"at least {needed}, for tiles of {self.layout.group} and {self.max_query_len} tokens",
        )

    @property
    def requests(self) -> int:
        """Return the number of requests, those without query tokens included."""
        return self.seq_lens.shape[0]

    @property
    def shape(self) -> Shape:
        """Return what a plan needs of it."""
        return Shape(
            num_query_heads=self.query.shape[1],
            num_kv_heads=self.tiles.shape[1],
            head_dim=self.layout.head_dim,
            block_size=self.layout.group,
            operand_bytes=4 if self.precise else 2,
            cache_bytes=1,
        )


def _expect(right: bool, fact: str, expected: str) -> None:
    if not right:
        raise ValueError(f"{fact}; expected {expected}")


def _check_tiles(call: TileCall) -> None:
    tiles, needed = call.tiles, call.layout.tile_bytes
    _expect(
        tiles.dtype == torch.uint8 and tiles.dim() == 3 and tiles.shape[2] >= needed,
        f"tiles are {tiles.dtype} {tuple(tiles.shape)}",
        f"uint8 [num_blocks, num_kv_heads, at least {needed} bytes]",
    )
    _expect(tiles.stride(2) == 1, f"tiles have last stride {tiles.stride(2)}", "1")
    places = (tiles.data_ptr(), tiles.stride(0), tiles.stride(1))
    _expect(
        not any(place % GRAIN_BYTES for place in places),
        f"tiles are at {places[0]:#x} with strides {places[1:]}",
        f"multiples of {GRAIN_BYTES} bytes",
    )


def _check_query(call: TileCall) -> None:
    query, output, heads = call.query, call.output, call.tiles.shape[1]
    _expect(
        query.dtype == torch.float16 and query.dim() == 3,
        f"the query is {query.dtype} with {query.dim()} dimensions",
        "rotated float16 [tokens, heads, head_dim]",
    )
    _expect(
        query.shape[2] == call.layout.head_dim and heads > 0 and query.shape[1] % heads == 0,
        f"the query has {query.shape[1]} heads of {query.shape[2]}",
        f"heads of {call.layout.head_dim}, a multiple of the tiles' {heads}",
    )
    _expect(
        output.shape == query.shape and output.dtype in OUTPUTS,
        f"output is {output.dtype} {tuple(output.shape)}",
        f"bfloat16, float16 or float32 {tuple(query.shape)}",
    )
    for name, tensor in (("query", query), ("output", output)):
        _expect(tensor.stride(2) == 1, f"{name} has last stride {tensor.stride(2)}", "1")
        _expect_device(call, name, tensor)


def _check_rings(call: TileCall) -> None:
    keys, values = call.ring_keys, call.ring_values
    heads = (call.tiles.shape[1], call.layout.head_dim)
    for name, ring in (("ring_keys", keys), ("ring_values", values)):
        _expect(
            ring.dtype == torch.float16 and ring.dim() == 4 and ring.shape[2:] == heads,
            f"{name} are {ring.dtype} {tuple(ring.shape)}",
            f"float16 [slots, ring_rows, {heads[0]}, {heads[1]}]",
        )
        _expect(ring.stride(3) == 1, f"{name} have last stride {ring.stride(3)}", "1")
        _expect_device(call, name, ring)
    _expect(
        keys.shape == values.shape,
        f"ring_values have shape {tuple(values.shape)}",
        f"that of ring_keys, {tuple(keys.shape)}",
    )


def _check_tables(call: TileCall) -> None:
    requests = call.seq_lens.shape[:1]
    for name, tensor, shape in (
        ("seq_lens", call.seq_lens, requests),
        ("ring_slot", call.ring_slot, requests),
        ("query_start", call.query_start, (call.seq_lens.numel() + 1,)),
        ("block_table", call.block_table, (*requests, *call.block_table.shape[1:2])),
    ):
        _expect(
            tensor.dtype == torch.int32 and tensor.shape == shape,
            f"{name} is {tensor.dtype} {tuple(tensor.shape)}",
            f"int32 {tuple(shape)}",
        )
        _expect(
            tensor.stride(-1) == 1 or tensor.shape[-1] <= 1,
            f"{name} has last stride {tensor.stride(-1)}",
            "1",
        )
        _expect_device(call, name, tensor)
    _expect(
        call.block_table.dim() == 2, f"block_table has {call.block_table.dim()} dimensions", "2"
    )


def _expect_device(call: TileCall, name: str, tensor: torch.Tensor) -> None:
    where = call.tiles.device
    _expect(
        tensor.device == where, f"{name} is on {tensor.device}", f"{where}, where the tiles are"
    )
