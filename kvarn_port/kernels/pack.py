"""Tiles that a step fills, normalised, rounded and packed into pages; then its rows into the ring.

record = codes · scales of tile k of a request for committed // G <= k < seq_len // G; ring row of
position p = p mod ring_rows. Grid: (2 · KV heads, tiles and requests); one program packs the keys
or the values of one tile of a head, all of it in registers, and the first of a request stores its
rows of that head: after it has read the ring, which no other program reads. Source: kvarn.md 1.3,
1.4, 11; what a record is: kvarn_port.layout.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..layout import TileLayout
from ..reference.normalise import DEFAULT_MODE, MODES
from .normalise import inverse_scales, single, whole
from .pack_call import check
from .rotate import HAS_WAITS, grain_bytes, is_from_hopper_on
from .round_pack import (
    about_middle,
    codes,
    codes_about,
    fit,
    inner_part,
    limits,
    packed,
    to_float16,
)

# Rows of a ring that are read and written at once, in elements: 64 a thread of 8 warps, or 8 where
# queries are of FEW tokens: where no tile is full, a program costs the fetch of its code.
STORED, FEW_STORED, FEW = 16384, 2048, 16
# Requests looked at together, in each warp: warps need not wait for each other.
REQUESTS_AT_ONCE = 32
# A tile of as many is held in registers, 128 a thread of 8 warps; a larger one is read at each use.
HELD_ELEMENTS = 32768
# Tokens of a tile that a thread has. More of them are more numbers that a sum over channels hands
# from warp to warp, each written by one lane of several, behind a branch of its own; fewer are more
# channels, whose sums go through more lanes. Of a tile that is read at each use, 16: fewer spill.
TOKENS_OF_A_THREAD = 8


@triton.jit
def _place(program, query_start_ptr, seq_lens_ptr, requests, max_query_len,
           GROUP: tl.constexpr, AT_ONCE: tl.constexpr):  # fmt: skip
    """The request of a program, and which of the programs of that request it is.

    A request has a program for each tile that it fills, and at least one.
    """
    request = program
    before = program
    if max_query_len > GROUP:
        request = 0
        before = 0
        total = 0
        for first in range(0, requests, AT_ONCE):
            each = first + tl.arange(0, AT_ONCE)
            is_one = each < requests
            start = tl.load(query_start_ptr + each, mask=is_one, other=0)
            end = tl.load(query_start_ptr + each + 1, mask=is_one, other=0)
            seq_len = tl.load(seq_lens_ptr + each, mask=is_one, other=0)
            fills = seq_len // GROUP - (seq_len - (end - start)) // GROUP
            count = tl.where(is_one, tl.maximum(fills, 1), 0)
            is_past = (total + tl.cumsum(count, 0) <= program) & is_one
            request += tl.sum(is_past.to(tl.int32), 0)
            before += tl.sum(tl.where(is_past, count, 0), 0)
            total += tl.sum(count, 0)
    return request, program - before


@triton.jit
def _store_rows(ring_ptr, rotated_ptr, slot_mapping_ptr, start, query_len, committed, ring_rows,
                ring_stride_row, stride_token,
                D: tl.constexpr, ROWS: tl.constexpr, GRAIN: tl.constexpr):  # fmt: skip
    """Store the last rows of a request's step, as many as its ring has, of one head."""
    dim = tl.arange(0, D)
    oldest = tl.maximum(query_len - ring_rows, 0)
    oldest_row = (committed + oldest) % ring_rows
    for first in range(oldest, query_len, ROWS):
        i = first + tl.arange(0, ROWS)
        is_row = i < query_len
        token = (start + i).to(tl.int64)
        slot = tl.load(slot_mapping_ptr + token, mask=is_row, other=-1)
        at = rotated_ptr + (token * stride_token)[:, None] + dim[None, :]
        x = tl.load(tl.multiple_of(at, (1, GRAIN)), mask=is_row[:, None], other=0.0)
        row = oldest_row + i - oldest  # less than two rings
        row = tl.where(row < ring_rows, row, row - ring_rows).to(tl.int64) * ring_stride_row
        at = tl.multiple_of(ring_ptr + row[:, None] + dim[None, :], (1, GRAIN))
        tl.store(at, x, mask=(slot >= 0)[:, None])


@triton.jit
def _tile(ring_ptr, rotated_ptr, start, first, committed, ring_rows, ring_stride_row, stride_token,
          D: tl.constexpr, GROUP: tl.constexpr, LINES: tl.constexpr,
          GRAIN: tl.constexpr):  # fmt: skip
    """Pointers to the tile that begins at position `first`, in the ring or new rows; `whole` has
    its rows and columns.

    [LINES, D / PART, GROUP / LINES, PART]: what is read goes to lanes along the first axis, warps
    along the second, registers along the third, both along the last, 8 registers and what lanes
    are left. So a sum over tokens needs no other warp.
    """
    PART: tl.constexpr = 256 // LINES
    each: tl.constexpr = GROUP // LINES
    position = first + tl.arange(0, LINES)[:, None] + tl.arange(0, each)[None, :] * LINES
    old = first % ring_rows + position - first  # less than two rings
    old = tl.where(old < ring_rows, old, old - ring_rows).to(tl.int64) * ring_stride_row
    new = (start + position - committed).to(tl.int64) * stride_token
    row = tl.where(position < committed, ring_ptr + old, rotated_ptr + new)
    part = tl.arange(0, D // PART)[:, None, None] * PART
    at = row[:, None, :, None] + (part + tl.arange(0, PART)[None, None, :])[None]
    return tl.multiple_of(at, (1, 1, 1, GRAIN))


@triton.jit
def _store_scales(at, x):
    at = at.to(tl.pointer_type(tl.float16), bitcast=True)
    tl.store(at + tl.arange(0, x.shape[0]), to_float16(x))


@triton.jit
def write_record(
    record_ptr, x, iterations, again,
    BITS: tl.constexpr, AXIS: tl.constexpr, CODES: tl.constexpr, ROW_SCALE: tl.constexpr,
    ZERO_POINT: tl.constexpr, COLUMN_SCALE: tl.constexpr, MODE: tl.constexpr,
    NATIVE: tl.constexpr,
):  # fmt: skip
    """Write the half of a record that is of the keys (AXIS 1) or the values (AXIS 0) in x."""
    size, column, row, _, _, _ = inverse_scales(x, iterations, again, AXIS, MODE, NATIVE)
    row = row * (1.0 / size)
    balanced = _balanced(x, column, row, again, AXIS)
    if (MODE == "fitted") & (BITS == 2):
        middle, inner = inner_part(balanced, 1 - AXIS, NATIVE)
        balanced = _balanced(x, column, row, 2 * again, AXIS)
        mean, squares = about_middle(balanced, middle, 1 - AXIS, NATIVE)
        balanced = _balanced(x, column, row, 3 * again, AXIS)
        low, step = fit(balanced, middle, inner, mean, squares, 1 - AXIS, NATIVE)
        balanced = _balanced(x, column, row, 4 * again, AXIS)
        code = codes_about(balanced, middle, inner, 1 - AXIS)
    else:
        low, step = limits(balanced, BITS, 1 - AXIS, NATIVE)
        balanced = _balanced(x, column, row, 2 * again, AXIS)
        code = codes(balanced, low, step, BITS, 1 - AXIS, NATIVE)
    if AXIS == 1:
        code = tl.trans(code)
    column, row = 1.0 / column, 1.0 / row
    octets = packed(code, BITS)
    line = tl.arange(0, octets.shape[0]) * octets.shape[1]
    at = record_ptr + CODES + line[:, None] + tl.arange(0, octets.shape[1])[None, :]
    tl.store(at, octets)
    _store_scales(record_ptr + ROW_SCALE, row * step)
    _store_scales(record_ptr + ZERO_POINT, row * low)
    _store_scales(record_ptr + COLUMN_SCALE, column)


@triton.jit
def _balanced(x, column, row, again, AXIS: tl.constexpr):
    """The tile times one over its scales in float32, columns first."""
    return single(x, again) * tl.expand_dims(column, AXIS) * tl.expand_dims(row, 1 - AXIS)


@triton.jit
def _pack(
    record_ptr, ring_ptr, rotated_ptr, slot_mapping_ptr, start, query_len, committed, tile, is_full,
    is_first, ring_rows, ring_stride_row, stride_token, iterations, again,
    D: tl.constexpr, GROUP: tl.constexpr, BITS: tl.constexpr, AXIS: tl.constexpr,
    CODES: tl.constexpr, ROW_SCALE: tl.constexpr, ZERO_POINT: tl.constexpr,
    COLUMN_SCALE: tl.constexpr, MODE: tl.constexpr, HELD: tl.constexpr, LINES: tl.constexpr,
    ROWS: tl.constexpr, GRAIN: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Read a tile, store the rows if this is the first program of its request, write the record."""
    if is_full:
        x = _tile(ring_ptr, rotated_ptr, start, tile * GROUP, committed, ring_rows, ring_stride_row,
                  stride_token, D, GROUP, LINES, GRAIN)  # fmt: skip
        if HELD:
            x = whole(tl.load(x)).to(tl.float32)
        else:
            write_record(record_ptr, x, iterations, again, BITS, AXIS, CODES, ROW_SCALE, ZERO_POINT,
                         COLUMN_SCALE, MODE, NATIVE)  # fmt: skip
        if is_first:
            tl.debug_barrier()  # all of the tile is read before a row of the ring is written
            _store_rows(ring_ptr, rotated_ptr, slot_mapping_ptr, start, query_len, committed,
                        ring_rows, ring_stride_row, stride_token, D, ROWS, GRAIN)  # fmt: skip
        if HELD:
            write_record(record_ptr, x, iterations, again, BITS, AXIS, CODES, ROW_SCALE, ZERO_POINT,
                         COLUMN_SCALE, MODE, NATIVE)  # fmt: skip
    elif is_first:
        _store_rows(ring_ptr, rotated_ptr, slot_mapping_ptr, start, query_len, committed, ring_rows,
                    ring_stride_row, stride_token, D, ROWS, GRAIN)  # fmt: skip


@triton.jit(
    # what divides the strides of rows is in GRAIN: one variant serves all that have the same
    do_not_specialize=[
        "rk_stride_slot", "rk_stride_row", "rk_stride_head", "rv_stride_slot", "rv_stride_row",
        "rv_stride_head", "k_stride_token", "k_stride_head", "v_stride_token", "v_stride_head",
        "requests", "max_query_len", "ring_rows", "iterations", "again",
    ],
    do_not_specialize_on_alignment=[
        "query_start_ptr", "seq_lens_ptr", "ring_slot_ptr", "slot_mapping_ptr"
    ],
)  # fmt: skip
def pack_step(
    tiles_ptr,  # [blocks, KV heads, record] uint8
    ring_keys_ptr, ring_values_ptr,  # [slots, ring_rows, KV heads, D] fp16
    rotated_key_ptr, rotated_value_ptr,  # [tokens, KV heads, D] fp16
    query_start_ptr,  # [requests + 1] int32
    seq_lens_ptr, ring_slot_ptr,  # [requests] int32
    slot_mapping_ptr,  # [tokens] int64
    t_stride_block, t_stride_head,
    rk_stride_slot, rk_stride_row, rk_stride_head, rv_stride_slot, rv_stride_row, rv_stride_head,
    k_stride_token, k_stride_head, v_stride_token, v_stride_head,
    requests, max_query_len, ring_rows, iterations, again,
    D: tl.constexpr, GROUP: tl.constexpr, KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr,
    KEY_CODES: tl.constexpr, KEY_CHANNEL_SCALE: tl.constexpr, KEY_ZERO_POINT: tl.constexpr,
    KEY_TOKEN_SCALE: tl.constexpr, VALUE_CODES: tl.constexpr, VALUE_CHANNEL_SCALE: tl.constexpr,
    VALUE_TOKEN_SCALE: tl.constexpr, VALUE_ZERO_POINT: tl.constexpr,
    MODE: tl.constexpr, HELD: tl.constexpr, LINES: tl.constexpr, ROWS: tl.constexpr,
    AT_ONCE: tl.constexpr, GRAIN: tl.constexpr, NATIVE: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Pack the keys (even programs) or the values of a tile of one head, and store their rows."""
    if OVERLAPS:
        # every program, before the first access to memory: see tile_hopper_combine.py
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    head = (tl.program_id(0) // 2).to(tl.int64)
    request, number = _place(
        tl.program_id(1), query_start_ptr, seq_lens_ptr, requests, max_query_len, GROUP, AT_ONCE
    )
    if request >= requests:
        return
    start = tl.load(query_start_ptr + request)
    query_len = tl.load(query_start_ptr + request + 1) - start
    seq_len = tl.load(seq_lens_ptr + request)
    slot = tl.load(ring_slot_ptr + request).to(tl.int64)
    # a length is no less than its query: it is asked for so that all four are loaded at once
    if (slot < 0) | (query_len <= 0) | (seq_len <= 0):
        return
    committed = seq_len - query_len
    tile = committed // GROUP + number
    last_ptr = slot_mapping_ptr + (start + (tile + 1) * GROUP - 1 - committed).to(tl.int64)
    last = tl.load(last_ptr, mask=tile < seq_len // GROUP, other=-1)
    is_full = last >= 0  # there is a full tile, and it has a page
    record_ptr = tiles_ptr + tl.maximum(last, 0) // GROUP * t_stride_block + head * t_stride_head
    if tl.program_id(0) % 2 == 0:
        _pack(
            record_ptr, ring_keys_ptr + slot * rk_stride_slot + head * rk_stride_head,
            rotated_key_ptr + head * k_stride_head, slot_mapping_ptr, start, query_len, committed,
            tile, is_full, number == 0, ring_rows, rk_stride_row, k_stride_token, iterations, again,
            D, GROUP, KEY_BITS, 1, KEY_CODES, KEY_CHANNEL_SCALE, KEY_ZERO_POINT, KEY_TOKEN_SCALE,
            MODE, HELD, LINES, ROWS, GRAIN, NATIVE,
        )  # fmt: skip
    else:
        _pack(
            record_ptr, ring_values_ptr + slot * rv_stride_slot + head * rv_stride_head,
            rotated_value_ptr + head * v_stride_head, slot_mapping_ptr, start, query_len, committed,
            tile, is_full, number == 0, ring_rows, rv_stride_row, v_stride_token, iterations, again,
            D, GROUP, VALUE_BITS, 0, VALUE_CODES, VALUE_TOKEN_SCALE, VALUE_ZERO_POINT,
            VALUE_CHANNEL_SCALE, MODE, HELD, LINES, ROWS, GRAIN, NATIVE,
        )  # fmt: skip


def pack(
    tiles: torch.Tensor,
    ring_keys: torch.Tensor,
    ring_values: torch.Tensor,
    rotated_key: torch.Tensor,
    rotated_value: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    ring_slot: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    layout: TileLayout,
    max_query_len: int,
    iterations: int = 8,
    mode: str = DEFAULT_MODE,
) -> None:
    """Write the records of filled tiles, then the last rows of the step into the ring; one launch.

    tiles: [num_blocks, num_kv_heads, tile_bytes or more] uint8, blocks and heads any multiple of
        16 bytes apart; bytes past tile_bytes stay
    ring_keys, ring_values: [slots, ring_rows, num_kv_heads, head_dim] float16, rotated; ring_rows
        at least those of a tile
    rotated_key, rotated_value: [tokens, num_kv_heads, head_dim] float16, of this step; finite
    query_start: [requests + 1] int32; seq_lens: [requests] int32, this step's tokens included
    ring_slot: [requests] int32; a request whose slot is negative writes nothing
    slot_mapping: [tokens] int64, block · group + position in block; a token whose slot is negative
        is written nowhere, and no tile is packed whose last token is such a one
    max_query_len: of this call at most; it decides the launch, lengths on the device do not
    mode: how tiles are balanced and rounded, as `kvarn_port.reference.tiles.quantised` says

    Raises ValueError where an argument is not as above.
    """
    rows = (ring_keys, ring_values, rotated_key, rotated_value)
    check(tiles, *rows, query_start, seq_lens, ring_slot, slot_mapping, layout)
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}")
    requests, tokens = seq_lens.shape[0], rotated_key.shape[0]
    if not requests or not tokens or max_query_len < 1:
        return
    # with more than one tile a request: as many programs as any lengths of these tokens can need;
    # n tokens of a request fill (n - 1) // group + 1 tiles at most
    programs = requests + ((tokens - 1) // layout.group if max_query_len > layout.group else 0)
    elements = layout.group * layout.head_dim
    is_held = elements <= HELD_ELEMENTS
    native = isinstance(pack_step, triton.JITFunction) and torch.version.hip is None
    overlaps = native and HAS_WAITS and is_from_hopper_on(tiles.device)
    pack_step[(2 * tiles.shape[1], programs)](
        tiles, *rows, query_start, seq_lens, ring_slot, slot_mapping, *tiles.stride()[:2],
        *(step for x in rows for step in x.stride()[:-1]),
        requests, max_query_len, ring_keys.shape[1], iterations, 0,
        D=layout.head_dim, GROUP=layout.group, KEY_BITS=layout.key_bits,
        VALUE_BITS=layout.value_bits, KEY_CODES=layout.key_codes,
        KEY_CHANNEL_SCALE=layout.key_channel_scale, KEY_ZERO_POINT=layout.key_zero_point,
        KEY_TOKEN_SCALE=layout.key_token_scale, VALUE_CODES=layout.value_codes,
        VALUE_CHANNEL_SCALE=layout.value_channel_scale,
        VALUE_TOKEN_SCALE=layout.value_token_scale, VALUE_ZERO_POINT=layout.value_zero_point,
        MODE=mode, HELD=is_held, LINES=layout.group // TOKENS_OF_A_THREAD if is_held else 8,
        AT_ONCE=REQUESTS_AT_ONCE,
        ROWS=min((FEW_STORED if max_query_len <= FEW else STORED) // layout.head_dim, 128),
        GRAIN=min(grain_bytes(x) for x in rows),
        NATIVE=native, OVERLAPS=overlaps, num_warps=8 if elements >= HELD_ELEMENTS else 4,
        **({"launch_pdl": True} if overlaps else {}),
    )  # fmt: skip
