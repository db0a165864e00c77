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
    _mutation("sign-of-three-bits", ROTATE, "common ^ (common >> 3)", "common"),
    _mutation("parity-of-two-bits", ROTATE, "(0x96 >> (common & 7))", "(0x66 >> (common & 7))"),
    _mutation(
        "butterflies-without-minus", ROTATE, "(first[i] - second[i],)", "(first[i] + second[i],)"
    ),
    _mutation("parts-exchanged", ROTATE, "_butterflies(parts[:HALF]", "_butterflies(parts[HALF:]"),
    _mutation("scale-of-a-part", ROTATE, "x * (1.0 / D**0.5)", "x * (1.0 / 64**0.5)"),
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
        "    if not is_query:\n        within",
        "    if True:\n        within",
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
        "(row < tokens * heads)[:, None]",
        "(row < tokens * heads + 1)[:, None]",
    ),
    # the normaliser
    _mutation(
        "biased-deviation",
        NORMALISE,
        "(1.0 / (GROUP - 1)),)",
        "(1.0 / GROUP),)",
    ),
    _mutation(
        "single-pass-variance",
        NORMALISE,
        "            total = _squares(single(x[i], 2 * again), inverse[0], mean, 0)\n",
        "            y = single(x[i], again) * inverse[0][:, None]\n"
        "            total = tl.maximum(tl.sum(y * y, 0) - GROUP * mean * mean, 0.0)\n",
    ),
    _mutation(
        "rows-first",
        NORMALISE,
        "        column = _step(column, _times(of_columns, column))\n"
        "        of_rows = variance(x, scaled(column, unit), (4 * turn + 7) * again, 1 - AXIS)\n"
        "        row = _step(row, _times(of_rows, row))\n"
        "        of_columns = variance(x, scaled(row, unit), (4 * turn + 9) * again, AXIS)\n",
        "        row = _step(row, _times(of_rows, row))\n"
        "        of_columns = variance(x, scaled(row, unit), (4 * turn + 9) * again, AXIS)\n"
        "        column = _step(column, _times(of_columns, column))\n"
        "        of_rows = variance(x, scaled(column, unit), (4 * turn + 7) * again, 1 - AXIS)\n",
    ),
    _mutation("ties-refused", NORMALISE, "better = now <= least", "better = now < least"),
    _mutation("last-iteration-kept", NORMALISE, "better = now <= least", "better = now <= 1e30"),
    _mutation(
        "floor-dropped",
        NORMALISE,
        "tl.maximum(inverse[i] * more, INVERSE_MIN), INVERSE_MAX)",
        "tl.maximum(inverse[i] * more, INVERSE_MIN), 1.0e4)",
    ),
    _mutation(
        "no-limit-of-scales",
        NORMALISE,
        "tl.maximum(inverse[i] * more, INVERSE_MIN), INVERSE_MAX)",
        "tl.maximum(inverse[i] * more, 1.0e-9), INVERSE_MAX)",
    ),
    _mutation(
        "deviations-unclipped",
        NORMALISE,
        "tl.maximum(found[i], VARIANCE_MIN), VARIANCE_MAX)",
        "tl.maximum(found[i], VARIANCE_MIN), 1.0e30)",
    ),
    _mutation(
        "imbalance-of-columns-alone",
        NORMALISE,
        " + spread(_times(of_rows, row), NATIVE)\n        better",
        " * 2\n        better",
    ),
    _mutation(
        "imbalance-before-the-step",
        NORMALISE,
        "spread(_times(of_rows, row), NATIVE)",
        "spread(of_rows, NATIVE)",
    ),
    _mutation(
        "one-iteration-less",
        NORMALISE,
        "for turn in range(iterations):",
        "for turn in range(iterations - 1):",
    ),
    _mutation(
        "prescaled-by-nothing", NORMALISE, "unit = 1.0 / size", "unit = 1.0 / (size * 0 + 1.0)"
    ),
    _mutation(
        "usual-deviation-of-columns",
        NORMALISE,
        "tl.minimum(_geometric_mean(of_columns), _geometric_mean(of_rows))",
        "_geometric_mean(of_columns)",
    ),
    # rounding and packing
    _mutation(
        "step-of-all-codes", ROUND, "((1 << BITS) - 1) * 1.0), STEP", "(1 << BITS) * 1.0), STEP"
    ),
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
    # steps
    _mutation(
        "ring-row-without-wrap",
        PACK,
        "(position % ring_rows).to(tl.int64)",
        "tl.minimum(position, ring_rows - 1).to(tl.int64)",
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
        "((committed + i) % ring_rows)",
        "((committed + i + 1) % ring_rows)",
    ),
    _mutation(
        "first-rows-of-a-long-step",
        PACK,
        "range(tl.maximum(query_len - ring_rows, 0), query_len, ROWS)",
        "range(0, tl.minimum(query_len, ring_rows), ROWS)",
    ),
    _mutation("stores-without-a-page", PACK, "mask=(slot >= 0)[:, None]", "mask=is_row[:, None]"),
    _mutation(
        "stores-padded-rows", PACK, "if (slot < 0) | (query_len <= 0):", "if query_len <= 0:"
    ),
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
        "record_ptr + ROW_SCALE, _product(row, step)",
        "record_ptr + ROW_SCALE, _product(row, low)",
    ),
    _mutation(
        "zero-point-unscaled",
        PACK,
        "record_ptr + ZERO_POINT, _product(row, low)",
        "record_ptr + ZERO_POINT, low",
    ),
    _mutation(
        "size-not-folded-back",
        PACK,
        "    row = scaled(row, size)\n",
        "",
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
        "    x = _tile(ring_ptr, rotated_ptr, start, tile * GROUP",
        "    if is_first:\n"
        "        _store_rows(ring_ptr, rotated_ptr, slot_mapping_ptr, start, query_len,\n"
        "                    committed, ring_rows, ring_stride_row, stride_token, D, ROWS)\n"
        "    x = _tile(ring_ptr, rotated_ptr, start, tile * GROUP",
    ),
    _mutation(
        "deviation-of-the-first-part",
        NORMALISE,
        "total += _squares(single(x[i], 2 * again), inverse[i], mean, 1)",
        "total += 0.0",
    ),
    _mutation(
        "spread-of-the-first-part",
        NORMALISE,
        "low, high = ends(low, high, *limits_of(variances[i], 0, NATIVE))",
        "low, high = low + 0.0, high",
    ),
    _mutation("part-0-twice", PACK, "i * (D // PARTS) + tl.arange", "i * 0 + tl.arange"),
    _mutation(
        "limits-of-the-last-part",
        PACK,
        "low, high = ends(low, high, lows[0], highs[0])",
        "low, high = low + 0.0, high",
    ),
    _mutation("codes-of-a-part-misplaced", PACK, "i * (WIDTH * BITS // 8)", "i * WIDTH"),
    _mutation(
        "scales-of-a-part-misplaced",
        PACK,
        "at + i * x[i].shape[0] + tl.arange",
        "at + i * 0 + tl.arange",
    ),
)
