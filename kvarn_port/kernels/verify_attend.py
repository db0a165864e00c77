"""Stage 1 of verify attention: the query tiles of a request against one part of its keys.

part_out = sum of 2^(s - part_max) v, part_sum = sum of 2^(s - part_max), s = log2(e) scale q.k

Grid: (requests x query tiles, KV heads, splits); one program attends the rows of a query tile,
which are query tokens x the query heads of one KV head, to every key of its split, in tiles of
BLOCK_N keys that lie in one page. Source: kvarn.md 8.1, 8.2; layouts of vLLM 0.28.0 and later.
"""

from __future__ import annotations

import triton
import triton.language as tl

# The score of a key that a row does not see: finite, so that no difference of two is NaN. What a
# row summed up before its first key is multiplied by 2^(NOTHING - s) = 0 at that key.
NOTHING = tl.constexpr(-1.0e30)


@triton.jit
def _bf16_of_int8(x):
    # 0x43 before a byte's low 7 bits is 128 + bits in bfloat16, before its sign bit 128 or 256
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 a, b, c, d, n;
        mov.b32 n, 0xbf80bf80;
        prmt.b32 a, $2, 0x43434343, 0x4140;
        prmt.b32 b, $2, 0x43434343, 0x4342;
        and.b32 c, a, 0xff80ff80;
        and.b32 d, b, 0xff80ff80;
        and.b32 a, a, 0xff7fff7f;
        and.b32 b, b, 0xff7fff7f;
        fma.rn.bf16x2 $0, c, n, a;
        fma.rn.bf16x2 $1, d, n, b;
        }
        """,
        "=r,=r,r",
        [x],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=4,
    )


@triton.jit
def _fp16_of_int8(x):
    # 0x64 before a byte is 1024 + byte in float16; with the sign bit turned, byte = code + 128
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 t, c;
        mov.b32 c, 0xe480e480;
        xor.b32 t, $2, 0x80808080;
        prmt.b32 $0, t, 0x64646464, 0x4140;
        prmt.b32 $1, t, 0x64646464, 0x4342;
        add.rn.f16x2 $0, $0, c;
        add.rn.f16x2 $1, $1, c;
        }
        """,
        "=r,=r,r",
        [x],
        dtype=tl.float16,
        is_pure=True,
        pack=4,
    )


@triton.jit
def _operand(x, DTYPE: tl.constexpr, NATIVE: tl.constexpr):
    """Cached values in the dtype of a dot; codes and float8 are exact in all of them."""
    if x.dtype == tl.int8 and NATIVE and DTYPE == tl.bfloat16:
        return _bf16_of_int8(x)
    if x.dtype == tl.int8 and NATIVE and DTYPE == tl.float16:
        return _fp16_of_int8(x)
    if x.dtype == tl.int8:
        x = x.to(tl.float32)  # the interpreter has no other way to bfloat16
    return x.to(DTYPE)


@triton.jit
def rounded(x, DTYPE: tl.constexpr, NATIVE: tl.constexpr):
    """Float32 to the nearest value of a dtype; the interpreter would cut bfloat16 off."""
    if not NATIVE and DTYPE == tl.bfloat16 and x.dtype == tl.float32:
        bits = x.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(DTYPE)


@triton.jit
def _dot(a, b, acc, PRECISION: tl.constexpr, NATIVE: tl.constexpr):
    """a b + acc in float32; the interpreter multiplies the bits of bfloat16, not its values."""
    if not NATIVE:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision=PRECISION)


@triton.jit
def partition(seq_len, q_len, token, tokens_end, window, splits, tiles_per_split, split,
              BLOCK_N: tl.constexpr, WINDOW: tl.constexpr):  # fmt: skip
    """The keys [begin, end) of a split of a tile of tokens [token, tokens_end), and the first key.

    An empty split begins at its end or beyond. Parts begin at multiples of BLOCK_N.
    """
    end = tl.maximum(seq_len - q_len + tokens_end, 0)
    oldest = 0
    if WINDOW:
        oldest = tl.maximum(seq_len - q_len + token - window + 1, 0)
    low = oldest // BLOCK_N * BLOCK_N
    each = tl.maximum(tl.cdiv(tl.cdiv(end - low, BLOCK_N), splits), tiles_per_split) * BLOCK_N
    begin = low + split * each
    return begin, tl.minimum(begin + each, end), oldest


@triton.jit
def _read(desc, ptr, block, head, first, stride_block, stride_pos, stride_head, ok,
          D: tl.constexpr, BLOCK_N: tl.constexpr, TMA: tl.constexpr, GRAIN: tl.constexpr,
          MASKED: tl.constexpr):  # fmt: skip
    """A tile [BLOCK_N, D] of keys or values from one page; TMA: strides are the box's steps."""
    if TMA:
        at = [block, first + head * stride_pos, head * stride_head]
        return desc.load(at).reshape(BLOCK_N, D)
    base = block.to(tl.int64) * stride_block + head.to(tl.int64) * stride_head
    row = (first + tl.arange(0, BLOCK_N)).to(tl.int64) * stride_pos
    at = ptr + (base + row)[:, None] + tl.arange(0, D)[None, :]
    at = tl.multiple_of(at, (1, GRAIN))
    if MASKED:
        return tl.load(at, mask=ok[:, None], other=0.0)
    return tl.load(at)


@triton.jit
def _scales(ptr, block, head, first, stride_block, stride_pos, stride_head, ok,
            BLOCK_N: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    base = block.to(tl.int64) * stride_block + head.to(tl.int64) * stride_head
    at = ptr + base + (first + tl.arange(0, BLOCK_N)).to(tl.int64) * stride_pos
    if MASKED:
        return tl.load(at, mask=ok, other=0.0)
    return tl.load(at)


@triton.jit
def _step(
    q, acc, unit, m, total, n, block, head, oldest, end, position, window, scale,
    key_desc, value_desc, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr,
    k_stride_block, k_stride_pos, k_stride_head, v_stride_block, v_stride_pos, v_stride_head,
    ks_stride_block, ks_stride_pos, ks_stride_head, vs_stride_block, vs_stride_pos, vs_stride_head,
    D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, SCALES: tl.constexpr,
    WEIGHT: tl.constexpr, PRECISION: tl.constexpr, MASKED: tl.constexpr, WINDOW: tl.constexpr,
    TMA: tl.constexpr, KEY_GRAIN: tl.constexpr, VALUE_GRAIN: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """One tile of keys: the online softmax of every row moves on by BLOCK_N keys."""
    at = n + tl.arange(0, BLOCK_N)
    first = n % BLOCK_SIZE
    ok = (at >= oldest) & (at < end)  # what lies beyond may be anything, NaN too
    k = _read(key_desc, key_ptr, block, head, first, k_stride_block, k_stride_pos, k_stride_head,
              ok, D, BLOCK_N, TMA, KEY_GRAIN, MASKED)  # fmt: skip
    s = _dot(q, _operand(k, q.dtype, NATIVE).T, None, PRECISION, NATIVE)
    if SCALES == "token_head":
        ks = _scales(key_scale_ptr, block, head, first, ks_stride_block, ks_stride_pos,
                     ks_stride_head, ok, BLOCK_N, MASKED)  # fmt: skip
        s = s * (ks * scale)[None, :]
    else:
        s = s * scale
    if MASKED:
        seen = (at[None, :] <= position[:, None]) & ok[None, :]
        if WINDOW:
            seen = seen & (at[None, :] > position[:, None] - window)
        s = tl.where(seen, s, NOTHING)
    m_new = tl.maximum(m, tl.max(s, 1))
    p = tl.exp2(s - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    total = total * alpha + tl.sum(p, 1)
    v = _read(value_desc, value_ptr, block, head, first, v_stride_block, v_stride_pos,
              v_stride_head, ok, D, BLOCK_N, TMA, VALUE_GRAIN, MASKED)  # fmt: skip
    v = _operand(v, WEIGHT, NATIVE)
    if MASKED and TMA:
        v = tl.where(ok[:, None], v, 0.0)
    if SCALES == "token_head":
        vs = _scales(value_scale_ptr, block, head, first, vs_stride_block, vs_stride_pos,
                     vs_stride_head, ok, BLOCK_N, MASKED)  # fmt: skip
        p = p * vs[None, :]
        if WEIGHT == tl.float16:
            # small scales would leave float16's range: weights and output are in units of the
            # row's largest weight so far
            grown = tl.maximum(tl.maximum(unit * alpha, tl.max(p, 1)), 1.0e-30)
            p = p / grown[:, None]
            alpha = alpha * unit / grown
            unit = grown
    acc = _dot(rounded(p, WEIGHT, NATIVE), v, acc * alpha[:, None], PRECISION, NATIVE)
    return acc, unit, m_new, total


@triton.jit(
    do_not_specialize=["block_table_stride", "window", "tiles", "splits", "tiles_per_split"],
    do_not_specialize_on_alignment=["block_table_ptr", "query_start_ptr", "seq_lens_ptr"],
)
def attend(
    query_ptr,  # [tokens, query heads, D] bf16 | fp16 | fp32
    key_desc, value_desc,  # TMA: [blocks, rows, columns], boxes of [1, BLOCK_N, D]; else None
    key_ptr, value_ptr,  # [blocks, block_size, KV heads, D]
    key_scale_ptr, value_scale_ptr,  # [blocks, block_size, KV heads] or [1] float32
    block_table_ptr,  # [requests, blocks of a request] int32
    query_start_ptr,  # [requests + 1] int32
    seq_lens_ptr,  # [requests] int32
    part_out_ptr,  # [programs, BLOCK_M, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, BLOCK_M] float32
    scale,  # of the scores, times log2(e)
    q_stride_token, q_stride_head,
    k_stride_block, k_stride_pos, k_stride_head, v_stride_block, v_stride_pos, v_stride_head,
    ks_stride_block, ks_stride_pos, ks_stride_head, vs_stride_block, vs_stride_pos, vs_stride_head,
    block_table_stride, window, tiles, splits, tiles_per_split,
    RATIO: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, SCALES: tl.constexpr, QUERY: tl.constexpr,
    WEIGHT: tl.constexpr, PRECISION: tl.constexpr, WINDOW: tl.constexpr, TMA: tl.constexpr,
    KEY_GRAIN: tl.constexpr, VALUE_GRAIN: tl.constexpr, NATIVE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Leave the part of one query tile, KV head and split."""
    request = tl.program_id(0) // tiles
    head = tl.program_id(1)
    split = tl.program_id(2)
    start = tl.load(query_start_ptr + request)
    q_len = tl.load(query_start_ptr + request + 1) - start
    seq_len = tl.load(seq_lens_ptr + request)
    flat = tl.program_id(0) % tiles * ROWS  # in query tokens x heads of the group
    token = flat // RATIO
    if token >= q_len:
        return
    tokens_end = tl.minimum((flat + ROWS - 1) // RATIO + 1, q_len)
    begin, end, oldest = partition(
        seq_len, q_len, token, tokens_end, window, splits, tiles_per_split, split, BLOCK_N, WINDOW
    )
    row = tl.arange(0, BLOCK_M)
    program = (tl.program_id(0).to(tl.int64) * tl.num_programs(1) + head) * splits + split
    out_at = program * BLOCK_M + row
    if begin >= end:
        tl.store(part_max_ptr + out_at, tl.full([BLOCK_M], float("-inf"), tl.float32))
        tl.store(part_sum_ptr + out_at, tl.zeros([BLOCK_M], tl.float32))
        return
    tokens = (flat + row) // RATIO
    is_row = (row < ROWS) & (tokens < q_len)
    position = seq_len - q_len + tokens  # the last key that a row sees
    dim = tl.arange(0, D)
    q_head = (head * RATIO + (flat + row) % RATIO).to(tl.int64)
    q_at = (start + tokens).to(tl.int64) * q_stride_token + q_head * q_stride_head
    q = tl.load(query_ptr + q_at[:, None] + dim[None, :], mask=is_row[:, None], other=0.0)
    q = rounded(q, QUERY, NATIVE)
    if SCALES == "tensor":
        scale = scale * tl.load(key_scale_ptr)
    m = tl.full([BLOCK_M], NOTHING, tl.float32)
    unit = tl.zeros([BLOCK_M], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    table = block_table_ptr + request.to(tl.int64) * block_table_stride
    # The page of the next tile is looked up a tile ahead: its load must not hold up the keys'.
    block = tl.load(table + begin // BLOCK_SIZE)
    clear = begin
    if not WINDOW:
        # Up to here every row sees every key.
        clear = tl.minimum(end, tl.maximum(seq_len - q_len + token + 1, 0) // BLOCK_N * BLOCK_N)
        clear = tl.maximum(clear, begin)
        for n in tl.range(begin, clear, BLOCK_N, num_stages=STAGES):
            following = tl.load(
                table + (n + BLOCK_N) // BLOCK_SIZE, mask=n + BLOCK_N < end, other=0
            )
            acc, unit, m, total = _step(
                q, acc, unit, m, total, n, block, head, oldest, end, position, window, scale,
                key_desc, value_desc, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr,
                k_stride_block, k_stride_pos, k_stride_head,
                v_stride_block, v_stride_pos, v_stride_head,
                ks_stride_block, ks_stride_pos, ks_stride_head,
                vs_stride_block, vs_stride_pos, vs_stride_head,
                D, BLOCK_N, BLOCK_SIZE, SCALES, WEIGHT, PRECISION, False, WINDOW, TMA,
                KEY_GRAIN, VALUE_GRAIN, NATIVE,
            )  # fmt: skip
            block = following
    for n in tl.range(clear, end, BLOCK_N, num_stages=STAGES if WINDOW else 1):
        following = tl.load(table + (n + BLOCK_N) // BLOCK_SIZE, mask=n + BLOCK_N < end, other=0)
        acc, unit, m, total = _step(
            q, acc, unit, m, total, n, block, head, oldest, end, position, window, scale,
            key_desc, value_desc, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr,
            k_stride_block, k_stride_pos, k_stride_head,
            v_stride_block, v_stride_pos, v_stride_head,
            ks_stride_block, ks_stride_pos, ks_stride_head,
            vs_stride_block, vs_stride_pos, vs_stride_head,
            D, BLOCK_N, BLOCK_SIZE, SCALES, WEIGHT, PRECISION, True, WINDOW, TMA,
            KEY_GRAIN, VALUE_GRAIN, NATIVE,
        )  # fmt: skip
        block = following
    if SCALES == "tensor":
        acc = acc * tl.load(value_scale_ptr)
    if SCALES == "token_head" and WEIGHT == tl.float16:
        acc = acc * unit[:, None]
    tl.store(part_out_ptr + out_at[:, None] * D + dim[None, :], acc, mask=is_row[:, None])
    tl.store(part_max_ptr + out_at, m, mask=is_row)
    tl.store(part_sum_ptr + out_at, total, mask=is_row)
