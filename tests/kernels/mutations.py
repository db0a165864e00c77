"""Mistakes that the tests of verify attention catch, as data; `mutate.py` tries them. Those of
path "int8" are in `hopper_mutations.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

KERNELS = "kvarn_port/kernels/"
ATTEND = KERNELS + "verify_attend.py"
COMBINE = KERNELS + "verify_attention.py"
REFERENCE = "kvarn_port/reference/verify_attention.py"


@dataclass(frozen=True)
class Mutation:
    """One mistake: the text of a file that is replaced, `count` times.

    caught_by: which tests of parity are run first, as pytest's -k has them; "": quick ones
    gpu: whether a GPU is needed
    tests: files of tests that are run, one after the other; (): those of verify attention
    """

    name: str
    file: str
    old: str
    new: str
    count: int = 1
    caught_by: str = ""
    gpu: bool = False
    tests: tuple[str, ...] = ()


MUTATIONS = (
    Mutation("causal-late", ATTEND, "at[None, :] <= position", "at[None, :] <= 1 + position"),
    Mutation("causal-early", ATTEND, "at[None, :] <= position", "at[None, :] < position"),
    Mutation(
        "window-wide",
        ATTEND,
        "> position[:, None] - window)",
        ">= position[:, None] - window)",
        caught_by="window7 and D256 and NHD-padded",
    ),
    Mutation(
        "window-narrow",
        ATTEND,
        "> position[:, None] - window)",
        "> position[:, None] - window + 1)",
        caught_by="window7 and D256",
    ),
    Mutation(
        "window-starts-late",
        ATTEND,
        "seq_len - q_len + token - window + 1, 0)",
        "seq_len - q_len + token - window + 2, 0)",
        caught_by="window7 and D256",
    ),
    Mutation(
        "window-of-the-last-token",
        ATTEND,
        "seq_len - q_len + token - window + 1, 0)",
        "seq_len - q_len + tokens_end - window, 0)",
        caught_by="window7 and D256",
    ),
    Mutation(
        "key-scale-of-head-0",
        ATTEND,
        "key_scale_ptr, block, head, first",
        "key_scale_ptr, block, head * 0, first",
    ),
    Mutation(
        "value-scale-of-head-0",
        ATTEND,
        "value_scale_ptr, block, head, first",
        "value_scale_ptr, block, head * 0, first",
    ),
    Mutation("value-scale-for-keys", ATTEND, "_scales(key_scale_ptr", "_scales(value_scale_ptr"),
    Mutation("key-scale-for-values", ATTEND, "_scales(value_scale_ptr", "_scales(key_scale_ptr"),
    Mutation(
        "key-scale-of-tensor-for-values",
        ATTEND,
        "acc = acc * tl.load(value_scale_ptr)",
        "acc = acc * tl.load(key_scale_ptr)",
    ),
    Mutation(
        "value-scale-of-tensor-dropped",
        ATTEND,
        "acc = acc * tl.load(value_scale_ptr)",
        "acc = acc * 1.0",
    ),
    Mutation("no-rescale", ATTEND, "v, acc * alpha[:, None],", "v, acc,"),
    Mutation("sum-without-rescale", ATTEND, "total = total * alpha", "total = total"),
    Mutation("alpha-inverted", ATTEND, "alpha = tl.exp2(m - m_new)", "alpha = tl.exp2(m_new - m)"),
    Mutation(
        "natural-exp", ATTEND, "p = tl.exp2(s - m_new[:, None])", "p = tl.exp(s - m_new[:, None])"
    ),
    Mutation("weights-without-value-scale", ATTEND, "p = p * vs[None, :]", "p = p * 1.0"),
    Mutation(
        "sum-of-scaled-weights",
        ATTEND,
        "p = p * vs[None, :]",
        "p = p * vs[None, :]\n        total = total + tl.sum(p, 1) * 0.01",
        caught_by="int8 and D64",
    ),
    Mutation("unit-not-restored", ATTEND, "acc = acc * unit[:, None]", "acc = acc * 1.0"),
    Mutation("unit-without-rescale", ATTEND, "alpha = alpha * unit / grown", "alpha = alpha"),
    Mutation(
        "no-unit",
        ATTEND,
        "grown = tl.maximum(tl.maximum(unit * alpha, tl.max(p, 1)), 1.0e-30)",
        "grown = tl.maximum(tl.maximum(unit * alpha, tl.max(p, 1)), 1.0)",
    ),
    Mutation("tail-unmasked", ATTEND, "(at >= oldest) & (at < end)", "(at >= oldest)"),
    Mutation(
        "int32-page",
        ATTEND,
        "base = block.to(tl.int64) * stride_block + head.to(tl.int64) * stride_head\n    row",
        "base = block * stride_block + head.to(tl.int64) * stride_head\n    row",
        caught_by="pages_past",
    ),
    Mutation(
        "int32-scale-page",
        ATTEND,
        "base = block.to(tl.int64) * stride_block + head.to(tl.int64) * stride_head\n    at",
        "base = block * stride_block + head.to(tl.int64) * stride_head\n    at",
        caught_by="pages_past",
    ),
    Mutation(
        "query-head-major",
        ATTEND,
        "head * RATIO + (flat + row) % RATIO",
        "head + (flat + row) % RATIO * tl.num_programs(1)",
    ),
    Mutation(
        "tile-one-token-on",
        ATTEND,
        "tl.program_id(0) % tiles * ROWS",
        "tl.program_id(0) % tiles * BLOCK_M",
        caught_by="any_number",
    ),
    Mutation(
        "tile-ends-a-token-early",
        ATTEND,
        "(flat + ROWS - 1) // RATIO + 1, q_len",
        "(flat + ROWS - 1) // RATIO, q_len",
    ),
    Mutation(
        "clear-a-tile-too-far",
        ATTEND,
        "seq_len - q_len + token + 1, 0) // BLOCK_N",
        "seq_len - q_len + token + BLOCK_N, 0) // BLOCK_N",
    ),
    Mutation(
        "page-one-tile-early",
        ATTEND,
        "table + (n + BLOCK_N) // BLOCK_SIZE, mask",
        "table + (n + BLOCK_N + BLOCK_SIZE - 1) // BLOCK_SIZE, mask",
        count=2,
        caught_by="fp16 and D128 and 80heads",
    ),
    Mutation(
        "table-of-the-first-request",
        ATTEND,
        "request.to(tl.int64) * block_table_stride",
        "request.to(tl.int64) * 0",
    ),
    Mutation(
        "split-skips-a-tile",
        ATTEND,
        "begin = low + split * each",
        "begin = low + split * (each + BLOCK_N)",
    ),
    Mutation(
        "split-overlaps",
        ATTEND,
        "tl.minimum(begin + each, end)",
        "tl.minimum(begin + each + BLOCK_N, end)",
    ),
    Mutation(
        "query-length-of-one",
        ATTEND,
        "position = seq_len - q_len + tokens",
        "position = seq_len - 1 + tokens",
    ),
    Mutation(
        "short-dots",
        ATTEND,
        "at = n + tl.arange(0, BLOCK_N)\n    first",
        "q = q.to(tl.bfloat16).to(q.dtype)\n    at = n + tl.arange(0, BLOCK_N)\n    first",
        caught_by="fp32 and D64",
    ),
    Mutation(
        "no-store-of-an-empty-split",
        ATTEND,
        'tl.store(part_max_ptr + out_at, tl.full([BLOCK_M], float("-inf"), tl.float32))',
        "pass",
        caught_by="two_runs",
    ),
    Mutation("combine-without-maxima", COMBINE, "tl.exp2(m - top_new), 0.0)", "1.0, 0.0)"),
    Mutation(
        "combine-without-rescale", COMBINE, "out = out * old", "out = out", caught_by="more_splits"
    ),
    Mutation(
        "combine-sum-without-rescale",
        COMBINE,
        "denominator = denominator * old",
        "denominator = denominator",
        caught_by="more_splits",
    ),
    Mutation(
        "combine-drops-the-last-split",
        COMBINE,
        "mask=split < splits, other=float",
        "mask=split < splits - (splits > 1), other=float",
    ),
    Mutation("combine-of-another-head", COMBINE, "+ head) * splits", "+ 0) * splits"),
    Mutation(
        "combine-row-of-another-token",
        COMBINE,
        "flat = i * RATIO + q_head % RATIO",
        "flat = i * RATIO",
    ),
    Mutation(
        "combine-tiles-whole",
        COMBINE,
        "at = (program + split) * BLOCK_M + flat % ROWS",
        "at = (program + split) * BLOCK_M + flat % BLOCK_M",
        caught_by="any_number",
    ),
    Mutation(
        "combine-zero-by-zero",
        COMBINE,
        "tl.where(denominator == 0.0, 1.0, denominator)",
        "denominator",
        caught_by="without_any_key",
    ),
    Mutation(
        "combine-writes-padding",
        COMBINE,
        "if i >= tl.load(query_start_ptr + request + 1) - start:",
        "if i >= tl.load(query_start_ptr + request + 1) - start + 1:",
    ),
    Mutation(
        "combine-reads-empty-splits",
        COMBINE,
        "full = m > -1.0e29",
        "full = split >= 0",
        caught_by="two_runs",
    ),
    Mutation(
        "scale-of-base-e", COMBINE, "call.softmax_scale * log2(torch.e)", "call.softmax_scale"
    ),
    Mutation("output-too-large", COMBINE, "out / tl.where(", "1.005 * out / tl.where("),
    Mutation(
        "splits-by-request",
        ATTEND,
        "splits), tiles_per_split)",
        "splits), tiles_per_split + tl.program_id(0) % 2)",
        caught_by="company",
    ),
    Mutation(
        "seen-beyond-the-window",
        ATTEND,
        "(at >= oldest) & (at < end)",
        "(at < end)",
        caught_by="no_query_sees",
    ),
    Mutation("reference-causal-late", REFERENCE, "key <= position", "key <= position + 1"),
    Mutation("reference-causal-early", REFERENCE, "key <= position", "key < position"),
    Mutation(
        "reference-window-wide", REFERENCE, "key > position - window", "key >= position - window"
    ),
    Mutation(
        "reference-window-narrow",
        REFERENCE,
        "key > position - window",
        "key > position - window + 1",
    ),
    Mutation(
        "reference-softmax-of-2", REFERENCE, "torch.softmax(scores", "torch.softmax(0.69 * scores"
    ),
    Mutation(
        "reference-softmax-of-queries",
        REFERENCE,
        "torch.softmax(scores, dim=2)",
        "torch.softmax(scores, dim=1).nan_to_num()",
    ),
    Mutation("reference-no-sum", REFERENCE, "torch.softmax(scores, dim=2)", "torch.exp(scores)"),
    Mutation("reference-scale-dropped", REFERENCE, "scores * softmax_scale", "scores * 1.0"),
    Mutation(
        "reference-empty-row-is-mean",
        REFERENCE,
        ".masked_fill(~seen.any(dim=1)[:, None], 0.0)",
        ".nan_to_num(1.0)",
    ),
    Mutation(
        "reference-key-scale-for-values",
        REFERENCE,
        "(value_cache, value_scale, pages",
        "(value_cache, key_scale, pages",
    ),
    Mutation(
        "reference-value-scale-for-keys",
        REFERENCE,
        "(key_cache, key_scale, pages",
        "(key_cache, value_scale, pages",
    ),
    Mutation(
        "reference-scale-of-a-tensor-dropped",
        REFERENCE,
        "stored * scale.reshape(()).to(dtype)",
        "stored * 1.0",
    ),
    Mutation(
        "reference-scale-of-another-slot",
        REFERENCE,
        "stored * scale[page, slot]",
        "stored * scale[page.roll(1), slot]",
    ),
    Mutation(
        "reference-pages-in-their-order",
        REFERENCE,
        "_bits(cache)[page, slot]",
        "_bits(cache)[page.sort()[0], slot]",
    ),
    Mutation(
        "reference-values-of-keys",
        REFERENCE,
        "request_tokens(value_cache",
        "request_tokens(key_cache",
    ),
    Mutation(
        "reference-heads-strided",
        REFERENCE,
        "keys.repeat_interleave(ratio, dim=1))",
        "keys.repeat(1, ratio, 1))",
    ),
    Mutation(
        "reference-heads-of-values-strided",
        REFERENCE,
        "values.repeat_interleave(ratio, dim=1))",
        "values.repeat(1, ratio, 1))",
    ),
    Mutation(
        "reference-first-tokens-are-asked",
        REFERENCE,
        "torch.arange(seq_len - query_len, seq_len, device=device)",
        "torch.arange(query_len, device=device)",
    ),
    Mutation(
        "reference-maximum-one-more",
        REFERENCE,
        "end - first > max_query_len",
        "end - first > max_query_len + 1",
    ),
)
