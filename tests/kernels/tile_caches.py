"""Records and rings for a case, with garbage around whatever a request has.

Codes are any, scales random: what a record says is known before it is packed, and is packed here,
after the table of kvarn.md 2, not by the code that is tested. All that belongs to no token holds
NaN: pages of nobody, pages of a request from its open tile on, padding, rows of a ring that hold no
position, rings of nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvarn_port.layout import PRESETS, TileLayout, ring_rows, tile_layout
from tests.kernels.tile_cases import BEYOND_HALF, Counts, TileCase

SPARE_PAGES = 3  # of nobody; the unused ends of the block table point to one
SPARE_SLOTS = 2
QUERY_SIZES = {"peaked": 10, "middle codes": 0.01}
PADDING_TOKENS = 3  # query rows of no request, as a CUDA graph's batch has them


@dataclass(frozen=True)
class Fields:
    """What n records say: codes [n, group, D] uint8 of keys and of values, and float16 scales.

    key_scale, key_low, value_channel: [n, D]; key_token, value_scale, value_low: [n, group]
    """

    key_codes: torch.Tensor
    key_scale: torch.Tensor
    key_low: torch.Tensor
    key_token: torch.Tensor
    value_codes: torch.Tensor
    value_channel: torch.Tensor
    value_scale: torch.Tensor
    value_low: torch.Tensor


@dataclass(frozen=True)
class TileArguments:
    """The arguments that kernel and reference share, by the names of both."""

    query: torch.Tensor
    tiles: torch.Tensor
    ring_keys: torch.Tensor
    ring_values: torch.Tensor
    block_table: torch.Tensor
    query_start: torch.Tensor
    seq_lens: torch.Tensor
    ring_slot: torch.Tensor
    layout: TileLayout
    max_query_len: int
    softmax_scale: float
    causal: bool


@dataclass(frozen=True)
class Made:
    """A call, and what its records say: page after page of each request, head after head."""

    call: TileArguments
    fields: Fields
    packed: Counts  # tiles of each request that are read from pages


def make(case: TileCase, device: str, pages: list[list[int]] | None = None) -> Made:
    """Return the call of a case: random inputs of its seed, pages in random order or these."""
    random = torch.Generator().manual_seed(case.seed)
    layout = tile_layout(case.preset, case.head_dim, pow2_slot=False)
    committed = [n - q for n, q in zip(case.seq_lens, case.query_lens, strict=True)]
    packed = tuple(tokens // layout.group for tokens in committed)
    fields = _fields(case, layout, sum(packed) * case.kv_heads, random)
    counts = [-(-n // layout.group) for n in case.seq_lens]
    order = torch.randperm(sum(counts) + SPARE_PAGES, generator=random).tolist()
    if pages is None:
        pages = [[order.pop() for _ in range(count)] for count in counts]
    block_count = max([*order, *(page for row in pages for page in row)]) + 1
    tiles = empty_tiles(case, layout, block_count, device)
    records = pack(fields, layout).unflatten(0, (-1, case.kv_heads)).to(device)
    owned = [page for row, count in zip(pages, packed, strict=True) for page in row[:count]]
    for page, record in zip(owned, records, strict=True):
        tiles[page, :, : layout.tile_bytes] = record
    ring_keys, ring_values, slots = _rings(case, layout, committed, random)
    call = TileArguments(
        query=_query(case, random).to(device),
        tiles=tiles,
        ring_keys=ring_keys.to(device),
        ring_values=ring_values.to(device),
        block_table=_table(pages, block_count).to(device),
        query_start=running_total(case.query_lens).to(device),
        seq_lens=torch.tensor(case.seq_lens, dtype=torch.int32, device=device),
        ring_slot=slots.to(device),
        layout=layout,
        max_query_len=max(case.query_lens),
        softmax_scale=case.head_dim**-0.5,
        causal=case.causal,
    )
    return Made(call, fields, packed)


def running_total(counts: Counts) -> torch.Tensor:
    """Return where each request's query tokens begin: [requests + 1] int32."""
    starts = [sum(counts[:request]) for request in range(len(counts) + 1)]
    return torch.tensor(starts, dtype=torch.int32)


def _fields(case: TileCase, layout: TileLayout, count: int, random: torch.Generator) -> Fields:
    """Return what `count` records say: keys and values of about N(0, 1), or as the case has it."""
    preset, spread = PRESETS[case.preset], 0.8 if case.inputs == "steep" else 0.25

    def scale(columns: int, around: float) -> torch.Tensor:
        return around * torch.exp(spread * torch.randn(count, columns, generator=random))

    def codes(bits: int) -> torch.Tensor:
        shape = (count, layout.group, layout.head_dim)
        return torch.randint(0, 2**bits, shape, dtype=torch.uint8, generator=random)

    def value_codes() -> torch.Tensor:
        found = codes(preset.value_bits)
        middle = 2 ** (preset.value_bits - 1) - 1
        return middle + (found & 1) if case.inputs == "middle codes" else found

    def low(scales: torch.Tensor, bits: int) -> torch.Tensor:
        return scales * (0.3 * torch.randn(scales.shape, generator=random) - (2**bits - 1) / 2)

    key_scale = scale(layout.head_dim, 0.22)  # uniform codes of 4 bits deviate by 4.6
    value_scale = scale(layout.group, 0.9 if preset.value_bits == 2 else 0.22)
    key_low, value_low = low(key_scale, 4), low(value_scale, preset.value_bits)
    key_token = scale(layout.group, 1.0).clamp(min=0.74)
    size = torch.ones(layout.group)
    if case.inputs == "tiny values":
        size *= 1e-5
    if case.inputs == "huge token":
        size[layout.group // 3] = 100
        key_token[:, layout.group // 3] *= 100
    channel, value_scale, value_low = (
        scale(layout.head_dim, 1.0),
        value_scale * size,
        value_low * size,
    )
    if case.inputs == BEYOND_HALF:
        channel = channel.clamp(0.74, 0.86)
        value_scale[:, layout.group // 3] = 135000 / (2**preset.value_bits - 1)
        value_low[:, layout.group // 3] = -60000
    return Fields(
        codes(4), key_scale.half(), key_low.half(), key_token.half(),
        value_codes(), channel.half(), value_scale.half(), value_low.half(),
    )  # fmt: skip


def pack(fields: Fields, layout: TileLayout) -> torch.Tensor:
    """Return records [n, tile_bytes] uint8: the eight fields of kvarn.md 2 in their order."""

    def joined(codes: torch.Tensor, bits: int) -> torch.Tensor:
        parts = [codes[..., place :: 8 // bits] << place * bits for place in range(8 // bits)]
        return torch.stack(parts).sum(0, dtype=torch.uint8).flatten(1)

    def halves(scales: torch.Tensor) -> torch.Tensor:
        return scales.contiguous().view(torch.uint8)

    return torch.cat(
        [
            joined(fields.key_codes.transpose(1, 2), layout.key_bits),
            halves(fields.key_scale),
            halves(fields.key_low),
            halves(fields.key_token),
            joined(fields.value_codes, layout.value_bits),
            halves(fields.value_channel),
            halves(fields.value_scale),
            halves(fields.value_low),
        ],
        dim=1,
    )


def empty_tiles(
    case: TileCase, layout: TileLayout, block_count: int, device: str, stride: int = 0
) -> torch.Tensor:
    """Return a view [blocks, kv_heads, bytes] of a storage of NaN; stride: of pages, in bytes."""
    record, heads, begin = layout.tile_bytes, case.kv_heads, 0
    strides = (record * heads, record)
    if case.place == "padded":
        strides, begin = (record * heads + 4096, record), 1024
    if case.place == "heads apart":
        record = 1 << (record - 1).bit_length()
        strides = (record, record * block_count)
    if stride:
        strides = (stride, strides[1])
    size = begin + (block_count - 1) * strides[0] + (heads - 1) * strides[1] + record
    storage = torch.empty(size, dtype=torch.uint8, device=device)
    if not stride:
        storage.fill_(0xFF)
    return storage.as_strided((block_count, heads, record), (*strides, 1), begin)


def _rings(
    case: TileCase, layout: TileLayout, committed: list[int], random: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return rings of keys and values, NaN but for the positions that are read, and the slots."""
    rows, requests = ring_rows(layout, max(1, *case.query_lens)), len(case.seq_lens)
    shape = (requests + SPARE_SLOTS, rows, case.kv_heads, case.head_dim)
    keys = torch.full(shape, torch.nan, dtype=torch.float16)
    values = keys.clone()
    slots = torch.randperm(requests + SPARE_SLOTS, generator=random)[:requests].int()
    for request, tokens in enumerate(committed):
        position = torch.arange(tokens // layout.group * layout.group, case.seq_lens[request])
        new = torch.randn(2, len(position), *shape[2:], generator=random)
        new[1] *= 1e-5 if case.inputs == "tiny values" else 1
        if case.inputs == "huge token" and len(position):
            new[:, len(position) // 2] *= 100
        keys[slots[request], position % rows] = new[0].half()
        values[slots[request], position % rows] = new[1].half()
    for request in case.padded:
        slots[request] = -1
    return keys, values, slots


def _table(pages: list[list[int]], block_count: int) -> torch.Tensor:
    """Return the block table, a view of wider rows; what no request uses is a page of nobody."""
    owned = {page for row in pages for page in row}
    nobody = next((page for page in range(block_count) if page not in owned), 0)
    width = max(map(len, pages)) + 1
    table = torch.full((len(pages), width + 2), nobody, dtype=torch.int32)
    for request, row in enumerate(pages):
        table[request, : len(row)] = torch.tensor(row, dtype=torch.int32)
    return table[:, :width]


def _query(case: TileCase, random: torch.Generator) -> torch.Tensor:
    """Return queries, and rows of no request behind them: [tokens, num_query_heads, head_dim].

    Other heads lie between the tokens, as where one tensor has all three.
    """
    heads = case.kv_heads * case.ratio
    shape = (sum(case.query_lens) + PADDING_TOKENS, heads + 2 * case.kv_heads, case.head_dim)
    query = torch.randn(shape, generator=random) * QUERY_SIZES.get(case.inputs, 1)
    return query.half()[:, :heads]
