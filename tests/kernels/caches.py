"""Real packed caches for a case, as vLLM 0.28 and later lay them out, with garbage around the rest.

One packed tensor, logically [blocks, kv_heads, block, content]; content is K | V, or with int8
K | K scale | V | V scale, the scales float32 inline (kvarn.md §8.2). Everything that belongs to no
token (slots past a request's end, pages of nobody, padding) holds NaN, or -128 with a scale of NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch

from tests.kernels.cases import FORMATS, Case, Counts

SPARE_PAGES = 3  # of nobody; the unused ends of the block table point to them
PADDING_TOKENS = 3  # query rows of no request, as a CUDA graph's batch has them
FP8_MAX = 448.0


@dataclass(frozen=True)
class Views:
    """A pool's views: keys, values [blocks, block, kv_heads, head_dim], int8's scales without D."""

    key: torch.Tensor
    value: torch.Tensor
    key_scale: torch.Tensor | None
    value_scale: torch.Tensor | None


@dataclass(frozen=True)
class Call:
    """The arguments that kernel and reference share, by the names of both."""

    query: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    block_table: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    max_query_len: int
    softmax_scale: float
    key_scale: torch.Tensor | None
    value_scale: torch.Tensor | None
    window: int


def make(case: Case, device: str) -> Call:
    """Return the call of a case: random inputs of its seed, pages in random order."""
    random = torch.Generator().manual_seed(case.seed)
    pages = shuffled_pages(case, random)
    block_count = sum(len(row) for row in pages) + SPARE_PAGES
    return lay(case, empty_pool(case, block_count, device), pages, random)


def lay(case: Case, pool: Views, pages: list[list[int]], random: torch.Generator) -> Call:
    """Return the call of a case whose tokens are put into these pages of a pool."""
    device = str(pool.key.device)
    scales = fill_pool(case, pool, pages, random)
    return Call(
        query=make_query(case, random).to(device),
        key_cache=pool.key,
        value_cache=pool.value,
        block_table=make_table(pages, pool.key.shape[0], device),
        query_start=running_total(case.query_lens, device),
        seq_lens=torch.tensor(case.seq_lens, dtype=torch.int32, device=device),
        max_query_len=max(case.query_lens),
        softmax_scale=case.head_dim**-0.5,
        key_scale=pool.key_scale if scales is None else scales[0],
        value_scale=pool.value_scale if scales is None else scales[1],
        window=case.window,
    )


def running_total(counts: Counts, device: str) -> torch.Tensor:
    """Return where each request's query tokens begin: [requests + 1] int32."""
    starts = [sum(counts[:request]) for request in range(len(counts) + 1)]
    return torch.tensor(starts, dtype=torch.int32, device=device)


def shuffled_pages(case: Case, random: torch.Generator) -> list[list[int]]:
    """Return the pages of each request, no two neighbours by intention; the spare ones stay out."""
    counts = [ceil(tokens / case.block_size) for tokens in case.seq_lens]
    order = torch.randperm(sum(counts) + SPARE_PAGES, generator=random).tolist()
    return [[order.pop() for _ in range(count)] for count in counts]


def make_table(pages: list[list[int]], block_count: int, device: str) -> torch.Tensor:
    """Return the block table, a view of wider rows; what no request uses is a page of nobody."""
    owned = {page for row in pages for page in row}
    nobody = next(page for page in range(block_count) if page not in owned)
    width = max(map(len, pages)) + 1
    table = torch.full((len(pages), width + 2), nobody, dtype=torch.int32)
    for request, row in enumerate(pages):
        table[request, : len(row)] = torch.tensor(row, dtype=torch.int32)
    return table.to(device)[:, :width]


def empty_pool(case: Case, block_count: int, device: str) -> Views:
    """Return the views of a pool that holds nothing but garbage."""
    page = case.block_size * case.kv_heads * content_bytes(case)
    padding, begin = {"NHD padded": (1024, 4096), "HND odd": (24, 8)}.get(case.layout, (0, 0))
    size_bytes = begin + block_count * (page + padding)
    storage = torch.full((size_bytes,), 0xFF, dtype=torch.uint8, device=device)
    pool = views(case, storage, block_count, page + padding, begin)
    if pool.key_scale is not None:
        pool.key.fill_(-128)
        pool.value.fill_(-128)
    return pool


def views(
    case: Case, storage: torch.Tensor, block_count: int, page_stride: int, begin: int = 0
) -> Views:
    """Return the views of a pool in bytes whose pages are `page_stride` bytes apart."""
    dtype, content = getattr(torch, FORMATS[case.format].cache), content_bytes(case)
    tokens, heads = case.kv_heads * content, content  # strides in bytes, NHD
    if case.layout.startswith("HND"):
        tokens, heads = content, case.block_size * content

    def view(at: int, width: int, of: torch.dtype) -> torch.Tensor:
        size = of.itemsize
        shape = (block_count, case.block_size, case.kv_heads, width)
        strides = (page_stride // size, tokens // size, heads // size, 1)
        return storage.view(of).as_strided(shape, strides, (begin + at) // size)

    key, value = (view(at, case.head_dim, dtype) for at in (0, content // 2))
    if dtype != torch.int8:
        return Views(key, value, None, None)
    behind = (case.head_dim, content // 2 + case.head_dim)
    return Views(key, value, *(view(at, 1, torch.float32)[..., 0] for at in behind))


def content_bytes(case: Case) -> int:
    """Return the bytes of one token and head: 2(D + 4) with int8, 2D elements otherwise."""
    dtype = getattr(torch, FORMATS[case.format].cache)
    return 2 * (case.head_dim * dtype.itemsize + (4 if dtype == torch.int8 else 0))


def fill_pool(
    case: Case, pool: Views, pages: list[list[int]], random: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Write every request's tokens into its pages; return the two scales of a tensor, with fp8."""
    total = sum(case.seq_lens)
    keys, values = make_tokens(case, total, random)
    page = [row[t // case.block_size] for row, n in zip(pages, case.seq_lens, strict=True)
            for t in range(n)]
    slot = [t % case.block_size for n in case.seq_lens for t in range(n)]
    at = (torch.tensor(page), torch.tensor(slot))
    if pool.key.dtype == torch.float8_e4m3fn:
        key_scale, value_scale = (x.abs().max().clamp(min=1e-12) / FP8_MAX for x in (keys, values))
        put(pool.key, at, (keys / key_scale).to(pool.key.dtype))
        put(pool.value, at, (values / value_scale).to(pool.value.dtype))
        device = pool.key.device
        return key_scale.reshape(1).to(device), value_scale.reshape(1).to(device)
    sides = ((pool.key, pool.key_scale, keys), (pool.value, pool.value_scale, values))
    for cache, scales, tokens in sides:
        if scales is None:
            put(cache, at, tokens.to(cache.dtype))
        else:
            codes, scale = quantise(tokens)
            put(cache, at, codes)
            put(scales, at, scale)
    return None


def put(cache: torch.Tensor, at: tuple[torch.Tensor, ...], tokens: torch.Tensor) -> None:
    """Write tokens to their pages and slots, float8 as bytes, which torch cannot index everywhere."""
    if cache.dtype == torch.float8_e4m3fn:
        cache, tokens = cache.view(torch.uint8), tokens.view(torch.uint8)
    cache[tuple(index.to(cache.device) for index in at)] = tokens.to(cache.device)


def quantise(tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 codes and float32 scales, one a token and head, as vLLM's own kernel has them.

    Scale max(absmax / 127, 1e-6), codes rounded half away from zero (triton_reshape_and_cache_flash
    of 0.28.0).
    """
    scale = (tokens.abs().amax(dim=-1) / 127).clamp(min=1e-6)
    quotient = tokens / scale[..., None]
    codes = torch.trunc(quotient + torch.copysign(torch.tensor(0.5), quotient))
    return codes.clamp(-128, 127).to(torch.int8), scale


def make_tokens(
    case: Case, total: int, random: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values before they are stored: [total, kv_heads, head_dim] float32 each."""
    keys, values = torch.randn(2, total, case.kv_heads, case.head_dim, generator=random)
    if case.inputs == "mixed":
        keys *= 2.0 ** torch.randint(-3, 4, (total, case.kv_heads, 1), generator=random)
        values *= 2.0 ** torch.randint(-3, 4, (total, case.kv_heads, 1), generator=random)
    if case.inputs == "tiny values":
        values *= 0.001
    if case.inputs == "huge token":
        keys[total // 3] *= 100
        values[total // 3] *= 100
    return keys, values


def make_query(case: Case, random: torch.Generator) -> torch.Tensor:
    """Return queries, and rows of no request behind them: [tokens, num_query_heads, head_dim].

    Heads of keys lie between the tokens, as where the projection of all three is one tensor.
    """
    heads = case.kv_heads * case.ratio
    shape = (sum(case.query_lens) + PADDING_TOKENS, heads + 2 * case.kv_heads, case.head_dim)
    query = torch.randn(shape, generator=random) * (10 if case.inputs == "peaked" else 1)
    return query.to(getattr(torch, FORMATS[case.format].query))[:, :heads]
