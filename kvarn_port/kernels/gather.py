"""Committed history as 16-bit rows, for the attention of long queries: out[p] = rotated K, V of p.

key[p, c] = (code A_K[c] + Z_K[c]) T_K[p], value[p, c] = (code A_V[p] + Z_V[p]) C_V[c], float32

Grid: (tiles, KV heads x 2, requests); one program a tile and head of keys or of values. A tile that
is complete comes from its page, the open one from the ring. Source: kvarn.md 1.4, 5.2, 11.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..layout import TileLayout
from .verify_attend import rounded

FP16_MAX = tl.constexpr(65504.0)
CHANNELS = 64  # of keys at a time: 128 bytes of a row, which is what a store fills at once
ELEMENTS = 64  # of values at a time and thread, in as many registers


@triton.jit
def _scales(record, AT: tl.constexpr, index):
    """Return float16 scales of a record as float32."""
    return tl.load((record + AT).to(tl.pointer_type(tl.float16)) + index).to(tl.float32)


@triton.jit
def _put(out, row_stride, row, tokens, channel, x, NATIVE: tl.constexpr):
    """Store [rows, channels] float32 where the rows are asked for; float16 stays finite."""
    if out.dtype.element_ty == tl.float16:
        x = tl.minimum(tl.maximum(x, -FP16_MAX), FP16_MAX)
    at = row.to(tl.int64)[:, None] * row_stride + channel[None, :]
    asked = (row >= 0) & (row < tokens)
    tl.store(out + at, rounded(x, out.dtype.element_ty, NATIVE), mask=asked[:, None])


@triton.jit
def _put_key_tile(
    record, out, row_stride, first, tokens, held,
    G: tl.constexpr, D: tl.constexpr, BITS: tl.constexpr, CODES: tl.constexpr, A: tl.constexpr,
    Z: tl.constexpr, T: tl.constexpr, CHANNELS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Store a tile of keys: codes lie channel by channel, so that they are turned over."""
    EACH: tl.constexpr = 8 // BITS  # tokens in a byte
    byte = tl.arange(0, G // EACH)
    for c0 in range(0, D, CHANNELS):
        channel = c0 + tl.arange(0, CHANNELS)
        codes = tl.load(record + CODES + channel[:, None] * (G // EACH) + byte[None, :])
        a = _scales(record, A, channel)
        z = _scales(record, Z, channel)
        for part in tl.static_range(EACH):
            token = byte * EACH + part
            code = ((codes >> (part * BITS)) & ((1 << BITS) - 1)).to(tl.float32)
            # a row past the history is 0 by its scale: no element of it takes a mask
            t = tl.where(first + token < held, _scales(record, T, token), 0.0)
            x = (code * a[:, None] + z[:, None]) * t[None, :]
            _put(out, row_stride, first + token, tokens, channel, tl.trans(x), NATIVE)


@triton.jit
def _put_value_tile(
    record, out, row_stride, first, tokens, held,
    G: tl.constexpr, D: tl.constexpr, BITS: tl.constexpr, CODES: tl.constexpr, C: tl.constexpr,
    A: tl.constexpr, Z: tl.constexpr, ROWS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Store a tile of values: neighbouring channels of a token lie in one byte."""
    EACH: tl.constexpr = 8 // BITS  # channels in a byte
    byte = tl.arange(0, D // EACH)
    channel = tl.arange(0, D)
    c = _scales(record, C, channel)
    for t0 in range(0, G, ROWS):
        token = t0 + tl.arange(0, ROWS)
        codes = tl.load(record + CODES + token[:, None] * (D // EACH) + byte[None, :])
        if BITS == 4:
            codes = tl.interleave(codes & 15, codes >> 4)
        else:
            even = tl.interleave(codes & 3, (codes >> 4) & 3)
            codes = tl.interleave(even, tl.interleave((codes >> 2) & 3, codes >> 6))
        a = tl.where(first + token < held, _scales(record, A, token), 0.0)
        z = tl.where(first + token < held, _scales(record, Z, token), 0.0)
        x = (codes.to(tl.float32) * a[:, None] + z[:, None]) * c[None, :]
        _put(out, row_stride, first + token, tokens, channel, x, NATIVE)


@triton.jit
def _put_ring_rows(
    ring, ring_stride, ring_rows, position, out, row_stride, first, tokens, held,
    G: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Store a tile's rows of the ring, the first of which is of a position."""
    channel = tl.arange(0, D)
    for t0 in range(0, G, ROWS):
        token = t0 + tl.arange(0, ROWS)
        at = ((position + token) % ring_rows).to(tl.int64) * ring_stride
        mask = (first + token < held)[:, None]
        x = tl.load(ring + at[:, None] + channel[None, :], mask=mask, other=0.0)
        _put(out, row_stride, first + token, tokens, channel, x.to(tl.float32), NATIVE)


@triton.jit(
    do_not_specialize=["start", "tokens"],
    do_not_specialize_on_alignment=[
        "block_table_ptr",
        "committed_ptr",
        "filled_ptr",
        "ring_slot_ptr",
    ],
)
def gather_tiles(
    tiles_ptr,  # [num_blocks, KV heads, tile_bytes] uint8
    ring_key_ptr, ring_value_ptr,  # [slots, ring_rows, KV heads, D] float16
    key_ptr, value_ptr,  # [requests, tokens, KV heads, D] float16 | bfloat16
    block_table_ptr,  # [requests, max_blocks] int32
    committed_ptr, filled_ptr, ring_slot_ptr,  # [requests] int32
    start, tokens, ring_rows,
    t_stride_block, t_stride_head, table_stride,
    rk_stride_slot, rk_stride_row, rk_stride_head,
    rv_stride_slot, rv_stride_row, rv_stride_head,
    k_stride_request, k_stride_token, k_stride_head,
    v_stride_request, v_stride_token, v_stride_head,
    G: tl.constexpr, D: tl.constexpr, KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr,
    KEY_CODES: tl.constexpr, A_K: tl.constexpr, Z_K: tl.constexpr, T_K: tl.constexpr,
    VALUE_CODES: tl.constexpr, C_V: tl.constexpr, A_V: tl.constexpr, Z_V: tl.constexpr,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Store the rows of one tile and head, of the keys or of the values."""
    tile = start // G + tl.program_id(0)
    head = (tl.program_id(1) // 2).to(tl.int64)
    is_value = tl.program_id(1) % 2 == 1
    request = tl.program_id(2).to(tl.int64)
    slot = tl.load(ring_slot_ptr + request).to(tl.int64)
    held = tl.where(slot < 0, 0, tl.load(committed_ptr + request)) - start  # rows of the history
    filled = tl.where(slot < 0, 0, tl.load(filled_ptr + request))
    first = tile * G - start  # the row of the tile's first token; negative where it began before
    key_out = key_ptr + request * k_stride_request + head * k_stride_head
    value_out = value_ptr + request * v_stride_request + head * v_stride_head
    if tile < filled // G:
        block = tl.load(block_table_ptr + request * table_stride + tile).to(tl.int64)
        record = tiles_ptr + block * t_stride_block + head * t_stride_head
        if is_value:
            _put_value_tile(record, value_out, v_stride_token, first, tokens, held,
                            G, D, VALUE_BITS, VALUE_CODES, C_V, A_V, Z_V, ROWS, NATIVE)  # fmt: skip
        else:
            _put_key_tile(record, key_out, k_stride_token, first, tokens, held,
                          G, D, KEY_BITS, KEY_CODES, A_K, Z_K, T_K, CHANNELS, NATIVE)  # fmt: skip
    elif is_value:
        ring = ring_value_ptr + slot * rv_stride_slot + head * rv_stride_head
        _put_ring_rows(ring, rv_stride_row, ring_rows, tile * G, value_out, v_stride_token, first,
                       tokens, held, G, D, ROWS, NATIVE)  # fmt: skip
    else:
        ring = ring_key_ptr + slot * rk_stride_slot + head * rk_stride_head
        _put_ring_rows(ring, rk_stride_row, ring_rows, tile * G, key_out, k_stride_token, first,
                       tokens, held, G, D, ROWS, NATIVE)  # fmt: skip


def gather(
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_table: torch.Tensor,
    committed: torch.Tensor,
    ring_slot: torch.Tensor,
    *,
    layout: TileLayout,
    start: int,
    seq_lens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (keys, values), every element of which is written, in the rotated frame.

    tiles: [num_blocks, num_kv_heads, >= tile_bytes] uint8 of any 16-byte aligned strides
    ring_keys, ring_values: [slots, ring_rows, num_kv_heads, head_dim] float16
    keys, values: [requests, N, num_kv_heads, head_dim] fp16 or bf16, positions start to start + N
    block_table: [requests, max_blocks] int32, in blocks of `group` tokens
    committed: [requests] int32, the tokens before this step's; rows from there on are 0
    ring_slot: [requests] int32; of a negative one every row is 0
    seq_lens: None where `pack` of this step did not run yet: the open tile is in the ring. Else
        [requests] int32, this step's tokens included: a tile that the step filled is in its page

    Raises ValueError where an argument is not as above.
    """
    _check(tiles, (ring_keys, ring_values), (keys, values), layout, start)
    filled = committed if seq_lens is None else seq_lens
    _check_tables(keys.shape[0], block_table, committed, filled, ring_slot)
    requests, tokens, heads, _ = keys.shape
    if not requests or not tokens or not heads:
        return keys, values
    warps = 8 if layout.head_dim > 256 else 4  # with 4, the program of 512 channels spills
    rows = min(layout.group, 32 * warps * ELEMENTS // layout.head_dim)
    count = -(-(start % layout.group + tokens) // layout.group)
    gather_tiles[(count, heads * 2, requests)](
        tiles, ring_keys, ring_values, keys, values, block_table, committed, filled, ring_slot,
        start, tokens, ring_keys.shape[1], *tiles.stride()[:2], block_table.stride(0),
        *ring_keys.stride()[:3], *ring_values.stride()[:3],
        *keys.stride()[:3], *values.stride()[:3],
        G=layout.group, D=layout.head_dim, KEY_BITS=layout.key_bits, VALUE_BITS=layout.value_bits,
        KEY_CODES=layout.key_codes, A_K=layout.key_channel_scale, Z_K=layout.key_zero_point,
        T_K=layout.key_token_scale, VALUE_CODES=layout.value_codes,
        C_V=layout.value_channel_scale, A_V=layout.value_token_scale,
        Z_V=layout.value_zero_point, CHANNELS=CHANNELS, ROWS=rows,
        NATIVE=isinstance(gather_tiles, triton.JITFunction) and torch.version.hip is None,
        num_warps=warps,
    )  # fmt: skip
    return keys, values


def _check(
    tiles: torch.Tensor,
    rings: tuple[torch.Tensor, torch.Tensor],
    outs: tuple[torch.Tensor, torch.Tensor],
    layout: TileLayout,
    start: int,
) -> None:
    """Raise ValueError where caches and outputs do not belong together."""
    heads = tiles.shape[1] if tiles.ndim == 3 else -1
    if heads < 0 or tiles.dtype != torch.uint8 or tiles.shape[2] < layout.tile_bytes:
        raise ValueError(
            f"tiles are {tiles.dtype} {list(tiles.shape)}; expected torch.uint8 "
            f"[num_blocks, num_kv_heads, {layout.tile_bytes} or more]"
        )
    if tiles.stride(2) != 1 or tiles.data_ptr() % 16 or any(s % 16 for s in tiles.stride()[:2]):
        raise ValueError(
            f"tiles begin at {tiles.data_ptr():#x} with strides {tiles.stride()}; "
            "expected multiples of 16 bytes, and 1 for the last"
        )
    for name, ring in zip(("ring_keys", "ring_values"), rings, strict=True):
        wanted = [*ring.shape[:2], heads, layout.head_dim]
        if list(ring.shape) != wanted or ring.dtype != torch.float16 or ring.stride(3) != 1:
            raise ValueError(
                f"{name} are {ring.dtype} {list(ring.shape)} with strides {ring.stride()}; "
                f"expected torch.float16 [slots, ring_rows, {heads}, {layout.head_dim}], last 1"
            )
    if rings[0].shape[:2] != rings[1].shape[:2] or rings[0].shape[1] < layout.group:
        raise ValueError(
            f"rings have {list(rings[0].shape[:2])} and {list(rings[1].shape[:2])} rows; "
            f"expected as many of both, {layout.group} or more a slot"
        )
    for name, out in zip(("keys", "values"), outs, strict=True):
        wanted = [*outs[0].shape[:2], heads, layout.head_dim]
        halves = out.dtype in (torch.float16, torch.bfloat16)
        if list(out.shape) != wanted or not halves or out.stride(3) != 1:
            raise ValueError(
                f"{name} are {out.dtype} {list(out.shape)} with strides {out.stride()}; "
                f"expected fp16 or bf16 [requests, N, {heads}, {layout.head_dim}], last 1"
            )
    if start < 0:
        raise ValueError(f"start is {start}; expected 0 or more")


def _check_tables(
    requests: int,
    block_table: torch.Tensor,
    committed: torch.Tensor,
    filled: torch.Tensor,
    ring_slot: torch.Tensor,
) -> None:
    """Raise ValueError where tables do not have a row of int32 for each request."""
    for name, table, ndim in (
        ("block_table", block_table, 2),
        ("committed", committed, 1),
        ("seq_lens", filled, 1),
        ("ring_slot", ring_slot, 1),
    ):
        rows = table.shape[0] if table.ndim == ndim else -1
        if rows != requests or table.dtype != torch.int32 or table.stride(-1) != 1:
            raise ValueError(
                f"{name} is {table.dtype} {list(table.shape)} with strides {table.stride()}; "
                f"expected torch.int32 of {ndim} dimensions, {requests} rows, last stride 1"
            )
