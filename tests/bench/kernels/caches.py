"""Random caches in the layout of vLLM 0.28.0 and later, and what a case reads of them.

A pool is one packed tensor `[blocks, block_size, num_kv_heads, content]`; the content of a token
and head is K(D) | V(D), in int8 K(D) | scale (4 bytes) | V(D) | scale (4 bytes), in int4 the same
with D / 2 bytes, even channels in the low halves, and a zero point in the last 4 bits of a scale.
KVarN's pools are in `tile_pools.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvarn_port.reference.rotate import hadamard
from tests.bench.kernels.cases import PRESETS, Case, tables_to_rotate
from tests.bench.kernels.tile_pools import TilePool, make_tile_pool

FP8 = torch.float8_e4m3fn
CHUNK_BLOCKS = 256  # drawn at a time: a pool of fp8 is made from normal numbers of another type


@dataclass(frozen=True)
class Pool:
    """Keys and values of all blocks, in views of one packed tensor."""

    kv_format: str
    packed: torch.Tensor  # [blocks, block_size, num_kv_heads, content]
    key: torch.Tensor  # [blocks, block_size, num_kv_heads, head_dim]
    value: torch.Tensor  # the same shape
    key_scale: torch.Tensor | None  # int8: [blocks, block_size, num_kv_heads]; fp8: [1] float32
    value_scale: torch.Tensor | None

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.packed.shape[0]

    def rows(self, row: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one request: `[tokens, num_kv_heads, head_dim]` float64."""
        return tuple(
            _dequantised(self.kv_format, side, scale, row.long(), tokens)
            for side, scale in ((self.key, self.key_scale), (self.value, self.value_scale))
        )


@dataclass(frozen=True)
class Inputs:
    """What one column of one case is called with."""

    case: Case
    pool: Pool | TilePool
    query: torch.Tensor  # [tokens, num_query_heads, head_dim] bf16
    key: torch.Tensor  # [tokens, num_kv_heads, head_dim] bf16, of the step, as is the value
    value: torch.Tensor
    tables: torch.Tensor  # [tables, batch, blocks of a request] int32, all blocks distinct
    query_start: torch.Tensor  # [batch + 1] int32
    seq_lens: torch.Tensor  # [batch] int32
    ring_slots: torch.Tensor  # [tables, batch] int32, all different; of pools of tiles

    @property
    def softmax_scale(self) -> float:
        """One over the root of the head size."""
        return self.case.head_dim**-0.5

    @property
    def device(self) -> torch.device:
        """Where it all lies."""
        return self.query.device

    def poisoned(self) -> torch.Tensor:
        """An output of the query's shape, full of NaN."""
        return torch.full_like(self.query, float("nan"))


def make_pool(
    case: Case, kv_format: str, blocks: int, slots: int, device: str, seed: int = 0
) -> Pool | TilePool:
    """Random keys and values: normal in bf16 and fp8; codes with a scale a token and head in int8.

    No scale is 1, so that a kernel that forgets one is found. `slots`: rings of a pool of tiles.
    """
    if kv_format in PRESETS:
        return make_tile_pool(case, kv_format, blocks, slots, device, seed)
    draw = torch.Generator(device=device).manual_seed(seed)
    shape = (blocks, case.block_size, case.num_kv_heads)
    size = case.head_dim
    if kv_format == "int8":
        full = (*shape, 2 * (size + 4))
        packed = torch.randint(-127, 128, full, dtype=torch.int8, device=device, generator=draw)
        scales = packed.view(torch.float32)
        key_scale, value_scale = scales[..., size // 4], scales[..., size // 2 + 1]
        for scale in (key_scale, value_scale):
            scale.copy_(torch.rand(shape, device=device, generator=draw) * 0.02 + 0.01)
        key, value = packed[..., :size], packed[..., size + 4 : 2 * size + 4]
        return Pool(kv_format, packed, key, value, key_scale, value_scale)
    if kv_format == "int4":
        return _make_int4(shape, size, device, draw)
    packed = torch.empty(
        (*shape, 2 * size), dtype=torch.bfloat16 if kv_format == "bf16" else FP8, device=device
    )
    for chunk in packed.split(CHUNK_BLOCKS):
        chunk.copy_(torch.randn(chunk.shape, device=device, generator=draw))
    key, value = packed[..., :size], packed[..., size:]
    if kv_format == "bf16":
        return Pool(kv_format, packed, key, value, None, None)
    scales = [torch.tensor([scale], device=device) for scale in (0.75, 1.25)]
    return Pool(kv_format, packed, key, value, *scales)


def _make_int4(shape: tuple[int, int, int], size: int, device: str, draw: torch.Generator) -> Pool:
    """Random codes of rotated rows, which are `sqrt(size)` as large as keys and values are."""
    half = size // 2
    full = (*shape, size + 8)
    packed = torch.randint(0, 256, full, dtype=torch.uint8, device=device, generator=draw)
    scales = packed.view(torch.float32)
    sides = scales[..., half // 4], scales[..., half // 2 + 1]
    for scale in sides:
        drawn = (torch.rand(shape, device=device, generator=draw) + 1) * size**0.5 / 6
        zero = torch.randint(5, 11, shape, dtype=torch.int32, device=device, generator=draw)
        scale.copy_(((drawn.view(torch.int32) & -16) | zero).view(torch.float32))
    key, value = packed[..., :half], packed[..., half + 4 : 2 * half + 4]
    return Pool("int4", packed, key, value, *sides)


def make_inputs(
    case: Case,
    pool: Pool | TilePool,
    rotated_bytes: int,
    *,
    shared: bool = False,
    seed: int = 1,
) -> Inputs:
    """The queries and random block tables of a case over a pool.

    `shared`: one table, in which all requests name the same blocks: enough to compile on.
    """
    device = pool.packed.device
    draw = torch.Generator(device=device).manual_seed(seed)
    tables = 1 if shared else tables_to_rotate(case, pool.kv_format, rotated_bytes)
    requests = 1 if shared else case.batch
    each = case.blocks // case.batch
    order = torch.randperm(pool.blocks - 1, device=device, generator=draw)[
        : tables * requests * each
    ]
    named = (order + 1).int().view(tables, requests, each)
    tokens = case.batch * case.new_tokens
    query = torch.randn(
        (tokens, case.num_query_heads, case.head_dim), device=device, generator=draw
    )
    new = torch.randn((2, tokens, case.num_kv_heads, case.head_dim), device=device, generator=draw)
    slots = torch.arange(tables * case.batch, dtype=torch.int32, device=device)
    starts = torch.arange(case.batch + 1, dtype=torch.int32, device=device) * case.new_tokens
    lengths = torch.full((case.batch,), case.context, dtype=torch.int32, device=device)
    return Inputs(
        case=case,
        pool=pool,
        query=(query * 2).bfloat16(),
        key=new[0].bfloat16(),
        value=new[1].bfloat16(),
        tables=named.expand(tables, case.batch, each).contiguous(),
        query_start=starts,
        seq_lens=lengths,
        ring_slots=slots.flip(0).view(tables, case.batch),
    )


def gathered(inputs: Inputs, table: int, request: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of one request, dequantised: `[context, num_kv_heads, head_dim]` float64."""
    case, row = inputs.case, inputs.tables[table, request]
    if isinstance(inputs.pool, Pool):
        return inputs.pool.rows(row, case.context)
    first = request * case.new_tokens
    own = [side[first : first + case.new_tokens] for side in (inputs.key, inputs.value)]
    return inputs.pool.rows(row, int(inputs.ring_slots[table, request]), case.context, *own)


def _dequantised(
    kv_format: str, side: torch.Tensor, scale: torch.Tensor | None, blocks: torch.Tensor,
    tokens: int,
) -> torch.Tensor:  # fmt: skip
    if side.dtype is FP8:  # which no index kernel takes
        values = side.view(torch.uint8)[blocks].view(FP8).flatten(0, 1)[:tokens].double()
    else:
        values = side[blocks].flatten(0, 1)[:tokens]
    if scale is None:
        return values.double()
    if scale.numel() == 1:
        return values.double() * scale.double()
    each = scale[blocks].flatten(0, 1)[:tokens]
    if kv_format == "int4":
        return _from_int4(values, each)
    return values.double() * each.double()[..., None]


def _from_int4(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Rows of int4 as they were before vLLM multiplied them by signs and ±1 of Hadamard's matrix.

    The signs are those of `single_rht` in int4_per_token_head.py of 0.28.0, from its seed.
    """
    bits = scale.contiguous().view(torch.int32)
    channels = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).double()
    rotated = (channels - (bits & 15)[..., None]) * (bits & -16).view(torch.float32).double()[
        ..., None
    ]
    size = channels.shape[-1]
    draw = torch.Generator(device="cpu").manual_seed(0x9E3779B9)
    signs = 2.0 * torch.bernoulli(torch.full((size,), 0.5), generator=draw) - 1.0
    back = rotated @ hadamard(size, codes.device) / size**0.5
    return back * signs.to(codes.device)
