"""Mistakes that the tests of verify attention catch, as data; `mutate.py` tries them."""

from __future__ import annotations

from dataclasses import dataclass

KERNELS = "kvarn_port/kernels/"
ATTEND = KERNELS + "verify_attend.py"


@dataclass(frozen=True)
class Mutation:
    """One mistake: the text of a file that is replaced, `count` times."""

    name: str
    file: str
    old: str
    new: str
    count: int = 1


MUTATIONS = (
    Mutation("causal-late", ATTEND, "at[None, :] <= position", "at[None, :] <= 1 + position"),
    Mutation("causal-early", ATTEND, "at[None, :] <= position", "at[None, :] < position"),
    Mutation("window-wide", ATTEND, "> position[:, None] - window)", ">= position[:, None] - window)"),
    Mutation("window-narrow", ATTEND, "> position[:, None] - window)", "> position[:, None] - window + 1)"),
    Mutation("window-starts-late", ATTEND, "seq_len - q_len + token - window + 1, 0)", "seq_len - q_len + token - window + 2, 0)"),
    Mutation("window-of-the-last-token", ATTEND, "seq_len - q_len + token - window + 1, 0)", "seq_len - q_len + tokens_end - window, 0)"),
    Mutation("key-scale-of-head-0", ATTEND, "key_scale_ptr, block, head, first", "key_scale_ptr, block, head * 0, first"),
    Mutation("value-scale-of-head-0", ATTEND, "value_scale_ptr, block, head, first", "value_scale_ptr, block, head * 0, first"),
    Mutation("value-scale-for-keys", ATTEND, "_scales(key_scale_ptr", "_scales(value_scale_ptr"),
    Mutation("key-scale-for-values", ATTEND, "_scales(value_scale_ptr", "_scales(key_scale_ptr"),
    Mutation("key-scale-of-tensor-for-values", ATTEND, "acc = acc * tl.load(value_scale_ptr)", "acc = acc * tl.load(key_scale_ptr)"),
    Mutation("value-scale-of-tensor-dropped", ATTEND, "acc = acc * tl.load(value_scale_ptr)", "acc = acc * 1.0"),
    Mutation("no-rescale", ATTEND, "v, acc * alpha[:, None],", "v, acc,"),
    Mutation("sum-without-rescale", ATTEND, "total = total * alpha", "total = total"),
    Mutation("alpha-inverted", ATTEND, "alpha = tl.exp2(m - m_new)", "alpha = tl.exp2(m_new - m)"),
    Mutation("natural-exp", ATTEND, "p = tl.exp2(s - m_new[:, None])", "p = tl.exp(s - m_new[:, None])"),
    Mutation("weights-without-value-scale", ATTEND, "p = p * vs[None, :]", "p = p * 1.0"),
    Mutation("sum-of-scaled-weights", ATTEND, "p = p * vs[None, :]", "p = p * vs[None, :]\n        total = total + tl.sum(p, 1) * 0.01"),
    Mutation("unit-not-restored", ATTEND, "acc = acc * unit[:, None]", "acc = acc * 1.0"),
    Mutation("unit-without-rescale", ATTEND, "alpha = alpha * unit / grown", "alpha = alpha"),
    Mutation("no-unit", ATTEND, "grown = tl.maximum(tl.maximum(unit * alpha, tl.max(p, 1)), 1.0e-30)", "grown = tl.maximum(tl.maximum(unit * alpha, tl.max(p, 1)), 1.0)"),
    Mutation("tail-unmasked", ATTEND, "(at >= oldest) & (at < end)", "(at >= oldest)"),
    Mutation("int32-page", ATTEND, "base = block.to(tl.int64) * stride_block + head.to(tl.int64) * stride_head\n    row", "base = block * stride_block + head.to(tl.int64) * stride_head\n    row"),
    Mutation("int32-scale-page", ATTEND, "base = block.to(tl.int64) * stride_block + head.to(tl.int64) * stride_head\n    at", "base = block * stride_block + head.to(tl.int64) * stride_head\n    at"),
    Mutation("rows-of-the-next-tile", ATTEND, "(row < ROWS) & (tokens < q_len)", "(tokens < q_len)"),
    Mutation("rows-past-the-request", ATTEND, "(row < ROWS) & (tokens < q_len)", "(row < ROWS)"),
    Mutation("query-head-major", ATTEND, "head * RATIO + (flat + row) % RATIO", "head + (flat + row) % RATIO * tl.num_programs(1)"),
    Mutation("tile-one-token-on", ATTEND, "tl.program_id(0) % tiles * ROWS", "tl.program_id(0) % tiles * BLOCK_M"),
    Mutation("tile-ends-a-token-early", ATTEND, "(flat + ROWS - 1) // RATIO + 1, q_len", "(flat + ROWS - 1) // RATIO, q_len"),
    Mutation("clear-a-tile-too-far", ATTEND, "seq_len - q_len + token + 1, 0) // BLOCK_N", "seq_len - q_len + token + BLOCK_N, 0) // BLOCK_N"),
    Mutation("page-one-tile-early", ATTEND, "tl.load(table + (n + BLOCK_N) // BLOCK_SIZE, mask", "tl.load(table + (n + BLOCK_N + BLOCK_SIZE - 1) // BLOCK_SIZE, mask", count=2),
    Mutation("table-of-the-first-request", ATTEND, "request.to(tl.int64) * block_table_stride", "request.to(tl.int64) * 0"),
    Mutation("split-skips-a-tile", ATTEND, "begin = low + split * each", "begin = low + split * (each + BLOCK_N)"),
    Mutation("split-overlaps", ATTEND, "tl.minimum(begin + each, end)", "tl.minimum(begin + each + BLOCK_N, end)"),
    Mutation("query-length-of-one", ATTEND, "position = seq_len - q_len + tokens", "position = seq_len - 1 + tokens"),
    Mutation("tf32-dots", ATTEND, "at = n + tl.arange(0, BLOCK_N)\n    first", "q = q.to(tl.bfloat16).to(q.dtype)\n    at = n + tl.arange(0, BLOCK_N)\n    first"),
    Mutation("no-store-of-an-empty-split", ATTEND, "tl.store(part_max_ptr + out_at, tl.full([BLOCK_M], float(\"-inf\"), tl.float32))", "pass"),
)
