"""Mistakes in attention over packed tiles and ring rows, as data; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation

TESTS = "tests/kernels/test_tile_attention.py"
SHORT = f"{TESTS}::test_a_short_call_is_within_its_bounds"
COMPILED = "tests/kernels/test_tile_compiled.py"
ATTEND = KERNELS + "tile_attend.py"
UNPACK = KERNELS + "tile_unpack.py"
COMBINE = KERNELS + "tile_combine.py"


def _mutation(
    name: str, file: str, old: str, new: str, count: int = 1, *, by: str = ""
) -> Mutation:
    """A mutation that one test is to see, else that of short calls, else any."""
    first = (f"{TESTS}::test_{by}",) if by else (SHORT,)
    return Mutation(f"tile-{name}", file, old, new, count, tests=(*first, TESTS))


MUTATIONS = (
    # codes
    _mutation(
        "codes-swapped",
        UNPACK,
        "even = ((codes & 15).to(tl.float32) * 0.5 - 4.0)",
        "even = ((codes >> 4).to(tl.float32) * 0.5 - 4.0)",
    ),
    _mutation(
        "keys-not-centred",
        UNPACK,
        "zero.to(tl.float32) * 0.5 + scale * 4.0",
        "zero.to(tl.float32) * 0.5 + scale * 3.5",
    ),
    _mutation("value-places-swapped", UNPACK, "(codes >> 2 & 3)", "(codes >> 4 & 3)"),
    _mutation("value-nibbles-swapped", UNPACK, "(codes & 15).to(DTYPE)", "(codes >> 4).to(DTYPE)"),
    _mutation("pair-swapped", UNPACK, "(both & 0xFFFF)", "(both >> 16 & 0xFFFF)"),
    # scales
    _mutation(
        "token-scale-of-the-even",
        ATTEND,
        "(token_odd * scale)[None, :]",
        "(token_even * scale)[None, :]",
    ),
    _mutation("channel-scale-for-zero-point", ATTEND, "halves + ZK // 2", "halves + AK // 2"),
    _mutation("value-scale-for-zero-point", ATTEND, "words + ZV // 4", "words + AV // 4"),
    _mutation("value-scale-of-the-even", ATTEND, "(av_odd * unit)", "(av_even * unit)"),
    _mutation(
        "value-channel-of-the-next-place",
        ATTEND,
        "_half(bits, place), ",
        "_half(bits, (place + 1) % (8 // BITS)), ",
    ),
    _mutation("unit-not-restored", ATTEND, ", 1.0 / unit,", ", 1.0,"),
    _mutation("no-unit", ATTEND, "unit = _unit(av_even, av_odd)", "unit = 1.0"),
    _mutation("unit-too-large", ATTEND, "(2 * 127 + 14) << 23", "(2 * 127 + 16) << 23"),
    _mutation("values-not-centred", ATTEND, "zv_odd + mid * av_odd", "zv_odd + 0 * av_odd"),
    _mutation(
        "centred-by-unrounded-weights",
        ATTEND,
        "weight_odd.to(tl.float32)), 1)",
        "odd * (av_odd * unit)[None, :]), 1)",
        by="the_sum_of_weights_that_is_taken_off_is_that_of_the_rounded_ones",
    ),
    _mutation(
        "sum-of-rounded-weights",
        ATTEND,
        "total * alpha + tl.sum(even + odd, 1)",
        "total * alpha + tl.sum(even.to(tl.bfloat16).to(tl.float32) + odd, 1)",
    ),
    _mutation(
        "keys-of-bfloat16",
        ATTEND,
        "even = tl.dot(q, key_even,",
        "even = tl.dot(q, key_even.to(tl.bfloat16).to(q.dtype),",
    ),
    # softmax
    _mutation("no-rescale", ATTEND, "return acc * alpha[:, None] + dot", "return acc + dot"),
    _mutation("ring-no-rescale", ATTEND, "acc[place] * alpha[:, None], input", "acc[place], input"),
    _mutation("sum-without-rescale", ATTEND, "total = total * alpha", "total = total"),
    _mutation("natural-exp", ATTEND, "odd = tl.exp2(odd", "odd = tl.exp(odd"),
    _mutation("ring-natural-exp", ATTEND, "p = tl.exp2(s - m_new", "p = tl.exp(s - m_new"),
    _mutation("ring-scale", ATTEND, "(scale * 0.5)", "scale"),
    # places
    _mutation(
        "page-of-the-tile-before",
        ATTEND,
        "tl.load(table + (i + 1) // steps,",
        "tl.load(table + i // steps,",
        by="a_split_of_several_tiles_is_within_its_bounds",
    ),
    _mutation("tile-not-committed", ATTEND, "tl.maximum(seq_len - q_len, 0) // G", "seq_len // G"),
    _mutation(
        "last-tile-from-the-ring",
        ATTEND,
        "packed = tl.maximum(seq_len - q_len, 0) // G",
        "packed = tl.maximum(seq_len - q_len - 1, 0) // G",
    ),
    _mutation("ring-row-not-wrapped", ATTEND, "(at % rows)", "(at % (rows + 16))"),
    _mutation("ring-begins-late", ATTEND, "tl.range(packed * G,", "tl.range(packed * G + 1,"),
    _mutation("ring-tail-unmasked", ATTEND, "ok = at < seq_len", "ok = at < seq_len + KEYS"),
    _mutation("causal-late", ATTEND, "at[None, :] <= position", "at[None, :] <= 1 + position"),
    _mutation("causal-early", ATTEND, "at[None, :] <= position", "at[None, :] < position"),
    _mutation("always-causal", ATTEND, "tl.where(CAUSAL, seq_len -", "tl.where(True, seq_len -"),
    _mutation("query-length-of-one", ATTEND, "seq_len - q_len + tokens", "seq_len - 1 + tokens"),
    _mutation("ring-of-head-0", ATTEND, "head.to(tl.int64) * v_stride_head", "0 * v_stride_head"),
    _mutation("tile-of-head-0", ATTEND, "head.to(tl.int64) * t_stride_head", "0 * t_stride_head"),
    _mutation("ring-of-another-slot", ATTEND, "slot.to(tl.int64) * k_stride_slot", "0"),
    _mutation(
        "int32-page",
        ATTEND,
        "block.to(tl.int64) * t_stride_block",
        "block * t_stride_block",
        by="pages_and_slots_past_two_to_the_31_give_the_same_bits",
    ),
    _mutation(
        "int32-slot",
        ATTEND,
        "slot.to(tl.int64) * v_stride_slot",
        "slot * v_stride_slot",
        by="pages_and_slots_past_two_to_the_31_give_the_same_bits",
    ),
    _mutation(
        "table-of-the-first-request",
        ATTEND,
        "request.to(tl.int64) * block_table_stride",
        "request.to(tl.int64) * 0",
    ),
    _mutation(
        "query-head-major",
        ATTEND,
        "head * RATIO + (flat + row) % RATIO",
        "head + (flat + row) % RATIO * tl.num_programs(1)",
    ),
    _mutation(
        "query-tile-whole",
        ATTEND,
        "tl.program_id(0) % query_tiles * ROWS",
        "tl.program_id(0) % query_tiles * BLOCK_M",
        by="any_number_of_query_rows_is_served",
    ),
    # splits
    _mutation("ring-in-no-split", ATTEND, "tiles // each == split", "tiles // each == split + 1"),
    _mutation("ring-in-two-splits", ATTEND, "tiles // each == split", "tiles // each >= split"),
    _mutation("split-overlaps", ATTEND, "tl.minimum(first + each,", "tl.minimum(first + each + 1,"),
    _mutation("split-skips-a-tile", ATTEND, "first = split * each", "first = split * (each + 1)"),
    _mutation(
        "splits-by-request",
        ATTEND,
        "share(packed, splits, least, split)",
        "share(packed, splits - request % 2, least, split)",
        by="a_request_gives_the_same_bits_in_any_company",
    ),
    _mutation(
        "no-store-of-an-empty-split",
        ATTEND,
        'tl.store(part_max_ptr + out_at, tl.full([BLOCK_M], float("-inf"), tl.float32))',
        "pass",
        by="two_runs_give_the_same_bits_whatever_lay_in_scratch_and_output",
    ),
    _mutation(
        "slot-ignored",
        ATTEND,
        "(slot < 0) | (",
        "(slot < -1) | (",
        by="rows_of_a_request_without_a_slot_are_zero_whatever_its_table_says",
    ),
    # what the compiler makes of a plan
    Mutation(
        "tile-steps-of-64-pairs",
        ATTEND,
        "return 128, 64 if head_dim > 128 else 32, 8",
        "return 128, 64, 8",
        tests=(COMPILED,),
    ),
    # second stage
    _mutation("combine-without-maxima", COMBINE, "tl.exp2(m - top_new), 0.0)", "1.0, 0.0)"),
    _mutation(
        "combine-without-rescale",
        COMBINE,
        "out = out * old",
        "out = out",
        by="more_splits_than_are_read_at_once_add_up",
    ),
    _mutation(
        "combine-sum-without-rescale",
        COMBINE,
        "denominator = denominator * old",
        "denominator = denominator",
        by="more_splits_than_are_read_at_once_add_up",
    ),
    _mutation(
        "combine-drops-the-last-split",
        COMBINE,
        "mask=split < splits, other=float",
        "mask=split < splits - (splits > 1), other=float",
        by="more_splits_than_are_read_at_once_add_up",
    ),
    _mutation("combine-reads-empty-splits", COMBINE, "full = m > -1.0e29", "full = m < 1.0e29"),
    _mutation("combine-of-another-head", COMBINE, "+ head) * splits", "+ 0) * splits"),
    _mutation(
        "combine-writes-padding",
        COMBINE,
        "if i >= tl.load(query_start_ptr + request + 1) - start:",
        "if i > tl.load(query_start_ptr + request + 1) - start:",
    ),
    _mutation("not-rotated-back", COMBINE, "return (both & 1) > 0", "return (both & 1) > 1"),
    _mutation("rotated-by-wrong-bits", COMBINE, "both ^ (both >> 2)", "both ^ (both >> 3)"),
    _mutation("output-too-large", COMBINE, "(D**-0.5)", "(D**-0.5 * 1.005)"),
)
