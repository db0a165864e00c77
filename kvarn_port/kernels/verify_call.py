"""The arguments of one call of verify attention as a value, and what they must be."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import torch

from .verify_plan import Shape

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
HALVES = (torch.bfloat16, torch.float16)
CACHES = (*FLOATS, torch.float8_e4m3fn, torch.int8)
HEAD_DIMS = (64, 128, 256)


@dataclass(frozen=True)
class Call:
    """The arguments of verify_attention that a kernel reads, checked."""

    query: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    output: torch.Tensor
    block_table: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    max_query_len: int
    softmax_scale: float
    key_scale: torch.Tensor | None
    value_scale: torch.Tensor | None
    window: int
    precise: bool

    def __post_init__(self) -> None:
        """Raise ValueError at the first argument that is not what the kernels read."""
        _check_query(self)
        _check_cache(self)
        _check_scales(self)
        _check_tables(self)
        if self.max_query_len < 0 or self.window < 0:
            raise ValueError(
                f"max_query_len is {self.max_query_len}, window {self.window}; "
                "expected 0 (no query, no window) or more"
            )

    @property
    def requests(self) -> int:
        """Return the number of requests, those without query tokens included."""
        return self.seq_lens.shape[0]

    @property
    def query_dtype(self) -> torch.dtype:
        """Return the dtype of both operands of q.k; a float32 cache is read as TF32 by default."""
        if self.precise or self.key_cache.dtype == torch.float32:
            return torch.float32
        if self.key_cache.dtype in HALVES:
            return self.key_cache.dtype
        return self.query.dtype if self.query.dtype in HALVES else torch.bfloat16

    @property
    def shape(self) -> Shape:
        """Return what a plan needs of it."""
        _, block_size, num_kv_heads, head_dim = self.key_cache.shape
        return Shape(
            num_query_heads=self.query.shape[1],
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            block_size=block_size,
            operand_bytes=self.query_dtype.itemsize,
            cache_bytes=self.key_cache.dtype.itemsize,
        )


def grain_bytes(cache: torch.Tensor) -> int:
    """Return the largest power of two up to 16 that divides the address of every row, in bytes."""
    steps = (step * cache.element_size() for step in cache.stride()[:3])
    return gcd(16, cache.data_ptr(), *steps)


def _expect(right: bool, fact: str, expected: str) -> None:
    if not right:
        raise ValueError(f"{fact}; expected {expected}")


def _check_query(call: Call) -> None:
    query, output = call.query, call.output
    _expect(query.dim() == 3, f"query has shape {tuple(query.shape)}", "[tokens, heads, head_dim]")
    _expect(query.dtype in FLOATS, f"query is {query.dtype}", "bfloat16, float16 or float32")
    _expect(
        output.shape == query.shape and output.dtype == query.dtype,
        f"output is {output.dtype} {tuple(output.shape)}",
        f"the query's {query.dtype} {tuple(query.shape)}",
    )
    for name, tensor in (("query", query), ("output", output)):
        _expect(tensor.stride(2) == 1, f"{name} has last stride {tensor.stride(2)}", "1")
        _expect(
            tensor.device == call.key_cache.device,
            f"{name} is on {tensor.device}",
            f"{call.key_cache.device}, where the cache is",
        )


def _check_cache(call: Call) -> None:
    key, value = call.key_cache, call.value_cache
    _expect(
        key.dim() == 4,
        f"key_cache has shape {tuple(key.shape)}",
        "[num_blocks, block_size, num_kv_heads, head_dim]",
    )
    _expect(
        value.shape == key.shape and value.dtype == key.dtype and value.device == key.device,
        f"value_cache is {value.dtype} {tuple(value.shape)} on {value.device}",
        f"key_cache's {key.dtype} {tuple(key.shape)} on {key.device}",
    )
    _expect(
        key.dtype in CACHES,
        f"the cache is {key.dtype}",
        "bfloat16, float16, float32, float8_e4m3fn or int8",
    )
    for name, tensor in (("key_cache", key), ("value_cache", value)):
        _expect(tensor.stride(3) == 1, f"{name} has last stride {tensor.stride(3)}", "1")
    _, block_size, num_kv_heads, head_dim = key.shape
    _expect(head_dim in HEAD_DIMS, f"head_dim is {head_dim}", "64, 128 or 256")
    _expect(
        block_size > 0 and block_size % 16 == 0,
        f"block_size is {block_size}",
        "a multiple of 16",
    )
    heads = call.query.shape[1]
    _expect(
        call.query.shape[2] == head_dim and num_kv_heads > 0 and heads % num_kv_heads == 0,
        f"the query has {heads} heads of {call.query.shape[2]}",
        f"heads of {head_dim}, a multiple of the cache's {num_kv_heads}",
    )


def _check_scales(call: Call) -> None:
    for name, scale in (("key_scale", call.key_scale), ("value_scale", call.value_scale)):
        if call.key_cache.dtype in FLOATS:
            _expect(scale is None, f"{name} is given with {call.key_cache.dtype}", "None")
            continue
        if call.key_cache.dtype == torch.int8:
            shape = tuple(call.key_cache.shape[:3])
            right = scale is not None and tuple(scale.shape) == shape
            expected = f"{list(shape)}, a scale a token and head"
        else:
            right = scale is not None and scale.numel() == 1
            expected = "one element"
        fact = "None" if scale is None else f"{scale.dtype} {list(scale.shape)} on {scale.device}"
        right = right and scale.dtype == torch.float32 and scale.device == call.key_cache.device
        _expect(right, f"{name} is {fact}", f"float32 {expected}, on {call.key_cache.device}")


def _check_tables(call: Call) -> None:
    table, start, lens = call.block_table, call.query_start, call.seq_lens
    for name, tensor, rank in (
        ("block_table", table, 2),
        ("query_start", start, 1),
        ("seq_lens", lens, 1),
    ):
        _expect(
            tensor.dtype == torch.int32 and tensor.dim() == rank,
            f"{name} is {tensor.dtype} with {tensor.dim()} dimensions",
            f"int32 with {rank}",
        )
        _expect(
            tensor.stride(-1) == 1 or tensor.shape[-1] <= 1,
            f"{name} has last stride {tensor.stride(-1)}",
            "1",
        )
        _expect(
            tensor.device == call.key_cache.device,
            f"{name} is on {tensor.device}",
            f"{call.key_cache.device}, where the cache is",
        )
    _expect(
        table.shape[0] == lens.shape[0] and start.shape[0] == lens.shape[0] + 1,
        f"block_table has {table.shape[0]} rows, query_start {start.shape[0]} elements",
        f"{lens.shape[0]} and {lens.shape[0] + 1}, as seq_lens has {lens.shape[0]}",
    )
