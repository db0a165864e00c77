"""Mistakes in the kernels of rotation and packing, as data; `mutate.py` tries them.

Their names begin with "kernel-" here, since the references have mistakes of the same names.
"""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation

ROTATE = KERNELS + "rotate.py"
NORMALISE = KERNELS + "normalise.py"
ROUND = KERNELS + "round_pack.py"
PACK = KERNELS + "pack.py"
TILE_TESTS = "tests/kernels/test_pack_tile.py"
STEP_TESTS = "tests/kernels/test_pack.py"
ORDER = {
    ROTATE: ("tests/kernels/test_rotate.py",),
    NORMALISE: (TILE_TESTS, STEP_TESTS),
    ROUND: (TILE_TESTS, STEP_TESTS),
    PACK: (STEP_TESTS,),
}


def _mutation(name: str, file: str, old: str, new: str, count: int = 1) -> Mutation:
    return Mutation(f"kernel-{name}", file, old, new, count=count, tests=ORDER[file])


MUTATIONS = (
    # rotation
    _mutation("sign-of-three-bits", ROTATE, "(0x6996 >> common)", "(0x9696 >> common)"),
    _mutation("parity-of-two-bits", ROTATE, "(0x6996 >> common)", "(0x6666 >> common)"),
    _mutation(
        "channels-out-of-order",
        ROTATE,
        "permute(5, 1, 3, 4, 6, 0, 2)",
        "permute(5, 1, 3, 6, 4, 0, 2)",
    ),
    _mutation(
        "operand-out-of-order",
        ROTATE,
        "permute(3, 1, 4, 2, 5, 0, 6)",
        "permute(3, 1, 4, 2, 6, 0, 5)",
    ),
    _mutation(
        "butterflies-without-minus", ROTATE, "second, first - second", "second, first + second"
    ),
    _mutation("parts-exchanged", ROTATE, "x.permute(0, 1, 2, 4, 3)", "x.permute(0, 1, 2, 3, 4)"),
    _mutation("scale-of-a-part", ROTATE, "* (1.0 / D**0.5)", "* (1.0 / 64**0.5)"),
    _mutation("nan-kept", ROTATE, "tl.where(x == x, within, 0.0)", "tl.where(x == x, within, x)"),
    _mutation(
        "infinity-kept",
        ROTATE,
        "tl.minimum(tl.maximum(x, -LIMIT), LIMIT).to(x.dtype)",
        "x",
    ),
    _mutation(
        "query-sanitised",
        ROTATE,
        "_store(out_at, ok, x, signs",
        "_store(out_at, ok, _sanitised(x, LIMIT, HOPPER), signs",
    ),
    _mutation(
        "output-not-clamped",
        ROTATE,
        "x = tl.clamp(x, -FP16_MAX, FP16_MAX, propagate_nan=tl.PropagateNan.ALL)",
        "x = x * 1.0",
    ),
    _mutation(
        "nan-clamped",
        ROTATE,
        "tl.clamp(x, -FP16_MAX, FP16_MAX, propagate_nan=tl.PropagateNan.ALL)",
        "tl.where(x < FP16_MAX, tl.where(x > -FP16_MAX, x, -FP16_MAX), FP16_MAX)",
    ),
    _mutation(
        "value-of-key",
        ROTATE,
        "value_ptr, rotated_value_ptr\n            s",
        "key_ptr, rotated_value_ptr\n            s",
    ),
    _mutation(
        "key-heads-for-queries",
        ROTATE,
        "rotated_query_ptr, query_heads",
        "rotated_query_ptr, key_heads",
    ),
    _mutation(
        "rows-unmasked",
        ROTATE,
        "ok = row < tokens * heads",
        "ok = row < tokens * heads + 1",
    ),
    _mutation(
        "first-keys-as-queries",
        ROTATE,
        "is_query = block < query_blocks",
        "is_query = block <= query_blocks",
    ),
    # the normaliser
    _mutation(
        "biased-deviation",
        NORMALISE,
        "AXIS) * (unit * (1.0 / (COUNT - 1)))",
        "AXIS) * (unit * (1.0 / COUNT))",
    ),
    _mutation(
        "single-pass-variance",
        NORMALISE,
        "    centred = single(x, 2 * again) * inverse - tl.expand_dims(mean, AXIS)\n"
        "    return tl.sum(centred * centred, AXIS) * (unit * (1.0 / (COUNT - 1)))",
        "    y = single(x, 2 * again) * inverse\n"
        "    found = tl.sum(y * y, AXIS) - COUNT * mean * mean\n"
        "    return tl.maximum(found, 0.0) * (unit * (1.0 / (COUNT - 1)))",
    ),
    _mutation(
        "rows-first",
        NORMALISE,
        "        column = _step(column, of_columns)\n"
        "        of_rows = variance(x, column, unit, (4 * turn + 7) * again, 1 - AXIS)\n"
        "        row = _step(row, of_rows * row * row)\n"
        "        of_columns = variance(x, row, unit, (4 * turn + 9) * again, AXIS)"
        " * column * column\n",
        "        row = _step(row, of_rows * row * row)\n"
        "        of_columns = variance(x, row, unit, (4 * turn + 9) * again, AXIS)"
        " * column * column\n"
        "        column = _step(column, of_columns)\n"
        "        of_rows = variance(x, column, unit, (4 * turn + 7) * again, 1 - AXIS)\n"
        "        of_columns = variance(x, row, unit, (4 * turn + 9) * again, AXIS)"
        " * column * column\n",
    ),
    _mutation("ties-refused", NORMALISE, "better = now <= least", "better = now < least"),
    _mutation("last-iteration-kept", NORMALISE, "better = now <= least", "better = now <= 1e30"),
    _mutation(
        "floor-dropped",
        NORMALISE,
        "rsqrt(found), INVERSE_MIN), INVERSE_MAX)",
        "rsqrt(found), INVERSE_MIN), 1.0e4)",
    ),
    _mutation(
        "no-limit-of-scales",
        NORMALISE,
        "rsqrt(found), INVERSE_MIN), INVERSE_MAX)",
        "rsqrt(found), 1.0e-9), INVERSE_MAX)",
    ),
    _mutation(
        "deviations-unclipped",
        NORMALISE,
        "tl.maximum(found, VARIANCE_MIN), VARIANCE_MAX)",
        "tl.maximum(found, VARIANCE_MIN), 1.0e30)",
    ),
    _mutation(
        "imbalance-of-columns-alone",
        NORMALISE,
        " + spread(of_rows * row * row, NATIVE)\n        better",
        " * 2\n        better",
    ),
    _mutation(
        "imbalance-before-the-step",
        NORMALISE,
        "spread(of_rows * row * row, NATIVE)",
        "spread(of_rows, NATIVE)",
    ),
    _mutation(
        "one-iteration-less",
        NORMALISE,
        "for turn in range(iterations):",
        "for turn in range(iterations - 1):",
    ),
    _mutation(
        "prescaled-by-nothing",
        NORMALISE,
        "unit = 1.0 / (size * size)",
        "unit = 1.0 / (size * 0 + 1.0)",
    ),
    _mutation(
        "usual-deviation-of-columns",
        NORMALISE,
        "tl.minimum(_geometric_mean(of_columns, NATIVE), _geometric_mean(of_rows, NATIVE))",
        "_geometric_mean(of_columns, NATIVE)",
    ),
    # rounding and packing
    _mutation("step-of-all-codes", ROUND, "((1 << BITS) - 1) * 1.0, tl", "(1 << BITS) * 1.0, tl"),
    _mutation("step-without-a-floor", ROUND, ", STEP_MIN)", ", 1.0e-30)"),
    _mutation("rounds-down", ROUND, "(steps + WHOLE)", "(steps - 0.5 + WHOLE)"),
    _mutation(
        "rounds-half-up",
        ROUND,
        "(steps + WHOLE).to(tl.int32, bitcast=True)",
        "(steps + 0.5).to(tl.int32)",
    ),
    _mutation(
        "fast-quotients", ROUND, "result = tl.div_rn(x, y)", "result = x * tl.div_rn(1.0, y)"
    ),
    _mutation("nibbles-exchanged", ROUND, "even | (odd << 4)", "odd | (even << 4)"),
    _mutation("pairs-exchanged", ROUND, "first | (second << 4)", "second | (first << 4)"),
    _mutation(
        "scales-not-clamped",
        ROUND,
        "tl.minimum(tl.maximum(x, -FP16_MAX), FP16_MAX).to(tl.float16)",
        "x.to(tl.float16)",
    ),
    # fitted rows
    _mutation("fitted-inner-part", ROUND, "(high - low) * INNER", "(high - low) * 0.25"),
    _mutation("fitted-from-the-lowest", ROUND, "return (low + high) * 0.5,", "return low,"),
    _mutation(
        "fitted-codes-exchanged",
        ROUND,
        "(level + 1.5 + WHOLE)",
        "(tl.where(level > 0.0, 2.0, -2.0) - level + 1.5 + WHOLE)",
    ),
    _mutation(
        "fitted-middle-is-over",
        ROUND,
        "tl.where(apart > 0.0, level, -level)",
        "tl.where(apart >= 0.0, level, -level)",
    ),
    _mutation(
        "fitted-least-squares",
        ROUND,
        "squares / tl.where(is_fit, covariance, 1.0)",
        "covariance / tl.sum(level * level, AXIS)",
    ),
    _mutation(
        "fitted-products-about-the-middle",
        ROUND,
        "    covariance -= COUNT * mean * mean_level\n",
        "",
    ),
    _mutation("fitted-squares-about-the-middle", ROUND, "    squares -= COUNT * mean * mean\n", ""),
    _mutation(
        "fitted-mean-forgotten",
        ROUND,
        "middle + mean - step",
        "middle - step",
    ),
    _mutation("fitted-level-unsigned", ROUND, "tl.where(apart > 0.0, level, -level)", "level"),
    _mutation(
        "fitted-flat-rows-have-steps",
        ROUND,
        "step = tl.where(is_fit, step, 0.0)",
        "step = tl.where(is_fit, step, 1.0)",
    ),
    _mutation(
        "fitted-step-not-cut-above",
        ROUND,
        "tl.minimum(step, (half - mean)",
        "tl.maximum(step, -(half - mean)",
    ),
    _mutation(
        "fitted-step-not-cut-below",
        ROUND,
        "tl.minimum(step, (half + mean)",
        "tl.maximum(step, -(half + mean)",
    ),
    _mutation("fits-never", PACK, '(MODE == "fitted") & (BITS == 2)', "BITS == 3"),
    _mutation("fits-in-every-mode", PACK, '(MODE == "fitted") & (BITS == 2)', "BITS == 2"),
    _mutation("fits-four-bits", PACK, '(MODE == "fitted") & (BITS == 2)', 'MODE == "fitted"'),
    # steps
    _mutation(
        "ring-row-without-wrap",
        PACK,
        "tl.where(old < ring_rows, old, old - ring_rows)",
        "tl.minimum(old, ring_rows - 1)",
    ),
    _mutation(
        "tile-of-new-rows",
        PACK,
        "tl.where(position < committed, ring_ptr + old",
        "tl.where(position < committed - 1, ring_ptr + old",
    ),
    _mutation(
        "new-rows-late",
        PACK,
        "(start + position - committed).to(tl.int64)",
        "(start + position - committed + 1).to(tl.int64)",
    ),
    _mutation(
        "row-of-the-next-position",
        PACK,
        "(committed + oldest) % ring_rows",
        "(committed + oldest + 1) % ring_rows",
    ),
    _mutation(
        "rows-without-wrap",
        PACK,
        "tl.where(row < ring_rows, row, row - ring_rows)",
        "tl.minimum(row, ring_rows - 1)",
    ),
    _mutation(
        "first-rows-of-a-long-step",
        PACK,
        "range(oldest, query_len, ROWS)",
        "range(0, tl.minimum(query_len, ring_rows), ROWS)",
    ),
    _mutation("stores-without-a-page", PACK, "mask=(slot >= 0)[:, None]", "mask=is_row[:, None]"),
    _mutation("stores-padded-rows", PACK, "if (slot < 0) | (query_len", "if (query_len"),
    _mutation(
        "packs-without-a-page", PACK, "is_full = last >= 0", "is_full = tile < seq_len // GROUP"
    ),
    _mutation(
        "packs-open-tiles",
        PACK,
        "mask=tile < seq_len // GROUP, other=-1",
        "mask=tile <= seq_len // GROUP, other=-1",
    ),
    _mutation(
        "record-of-block-0", PACK, "tl.maximum(last, 0) // GROUP * t_stride_block", "last * 0"
    ),
    _mutation("head-0-for-all", PACK, "+ head * t_stride_head", "+ head * 0"),
    _mutation(
        "every-second-request",
        PACK,
        "if request >= requests:",
        "if (request >= requests) | (request % 2 == 1):",
    ),
    _mutation(
        "first-tile-only",
        PACK,
        "    request = program\n    before = program",
        "    request = program\n    before = program\n    max_query_len = 0",
    ),
    _mutation(
        "requests-counted-anew",
        PACK,
        "            total += tl.sum(count, 0)",
        "            total = tl.sum(count, 0)",
    ),
    _mutation(
        "scales-exchanged",
        PACK,
        "_store_scales(record_ptr + ROW_SCALE, row * step)",
        "_store_scales(record_ptr + ROW_SCALE, row * low)",
    ),
    _mutation("zero-point-unscaled", PACK, "row * low)", "low)"),
    _mutation(
        "size-not-folded-back", PACK, "1.0 / column, 1.0 / row", "1.0 / column, 1.0 / (row * size)"
    ),
    _mutation(
        "scales-not-written", PACK, "    _store_scales(record_ptr + COLUMN_SCALE, column)\n", ""
    ),
    _mutation("value-bits-of-keys", PACK, "D, GROUP, VALUE_BITS, 0,", "D, GROUP, KEY_BITS, 0,"),
    _mutation(
        "iterations-ignored",
        PACK,
        "ring_keys.shape[1], iterations, 0,",
        "ring_keys.shape[1], 8, 0,",
    ),
    _mutation("mode-ignored", PACK, "MODE=mode", 'MODE="reference"'),
    _mutation(
        "store-before-pack",
        PACK,
        "    if is_full:\n        x = _tile(",
        "    if is_first:\n"
        "        _store_rows(ring_ptr, rotated_ptr, slot_mapping_ptr, start, query_len,\n"
        "                    committed, ring_rows, ring_stride_row, stride_token, D, ROWS, GRAIN)\n"
        "    if is_full:\n        x = _tile(",
    ),
)
