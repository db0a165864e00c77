"""Random caches in the layout of vLLM 0.28.0 and later, and what a case reads of them.

A pool is one packed tensor `[blocks, block_size, num_kv_heads, content]`; the content of a token
and head is K(D) | V(D), in int8 K(D) | scale (4 bytes) | V(D) | scale (4 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.bench.kernels.cases import Case, tables_to_rotate

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


@dataclass(frozen=True)
class Inputs:
    """What one column of one case is called with."""

    case: Case
    pool: Pool
    query: torch.Tensor  # [tokens, num_query_heads, head_dim] bf16
    tables: torch.Tensor  # [tables, batch, blocks of a request] int32, all blocks distinct
    query_start: torch.Tensor  # [batch + 1] int32
    seq_lens: torch.Tensor  # [batch] int32

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


def make_pool(case: Case, kv_format: str, blocks: int, device: str, seed: int = 0) -> Pool:
    """Random keys and values: normal in bf16 and fp8; codes with a scale a token and head in int8.

    No scale is 1, so that a kernel that forgets one is found.
    """
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


def make_inputs(
    case: Case,
    pool: Pool,
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
    shape = (case.batch * case.new_tokens, case.num_query_heads, case.head_dim)
    query = torch.randn(shape, device=device, generator=draw) * 2
    starts = torch.arange(case.batch + 1, dtype=torch.int32, device=device) * case.new_tokens
    lengths = torch.full((case.batch,), case.context, dtype=torch.int32, device=device)
    return Inputs(
        case=case,
        pool=pool,
        query=query.bfloat16(),
        tables=named.expand(tables, case.batch, each).contiguous(),
        query_start=starts,
        seq_lens=lengths,
    )


def gathered(pool: Pool, row: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of one request, dequantised: `[tokens, num_kv_heads, head_dim]` float64."""
    return tuple(
        _dequantised(side, scale, row.long(), tokens)
        for side, scale in ((pool.key, pool.key_scale), (pool.value, pool.value_scale))
    )


def _dequantised(
    side: torch.Tensor, scale: torch.Tensor | None, blocks: torch.Tensor, tokens: int
) -> torch.Tensor:
    if side.dtype is FP8:  # which no index kernel takes
        values = side.view(torch.uint8)[blocks].view(FP8).flatten(0, 1)[:tokens].double()
    else:
        values = side[blocks].flatten(0, 1)[:tokens].double()
    if scale is None:
        return values
    if scale.numel() == 1:
        return values * scale.double()
    return values * scale[blocks].flatten(0, 1)[:tokens].double()[..., None]
