"""Mistakes in KVarN's layout, rotation, normaliser and records, as data; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import Mutation

LAYOUT = "kvarn_port/layout.py"
REFERENCE = "kvarn_port/reference/"
TESTS = "tests/kernels/test_kvarn_reference_"
ROTATE = REFERENCE + "rotate.py"
NORMALISE = REFERENCE + "normalise.py"
TILES = REFERENCE + "tiles.py"
ORDER = {
    LAYOUT: ("tests/kernels/test_layout.py",),
    ROTATE: (f"{TESTS}rotate.py", f"{TESTS}tiles.py"),
    NORMALISE: (f"{TESTS}normalise.py", f"{TESTS}tiles.py"),
    TILES: (f"{TESTS}tiles.py", f"{TESTS}fitted.py"),
}


def _mutation(name: str, file: str, old: str, new: str, *, by: str = "") -> Mutation:
    """A mutation that the tests of its file are to see, or those of `by` alone."""
    return Mutation(name, file, old, new, tests=(f"{TESTS}{by}.py",) if by else ORDER[file])


MUTATIONS = (
    # layout
    _mutation(
        "layout-value-scales-exchanged",
        LAYOUT,
        "codes * preset.value_bits, channels, tokens, tokens,",
        "codes * preset.value_bits, tokens, channels, tokens,",
    ),
    _mutation(
        "layout-key-scale-a-token",
        LAYOUT,
        "codes * preset.key_bits, channels, channels, tokens,",
        "codes * preset.key_bits, channels, tokens, channels,",
    ),
    _mutation(
        "layout-bits-exchanged",
        LAYOUT,
        "codes * preset.key_bits, channels",
        "codes * preset.value_bits, channels",
    ),
    _mutation(
        "layout-power-of-two-under",
        LAYOUT,
        "1 << (slot_bytes - 1).bit_length()",
        "1 << slot_bytes.bit_length() - 1",
    ),
    _mutation(
        "layout-fp8-cost-let-through",
        LAYOUT,
        "slot_bytes >= 2 * head_dim",
        "slot_bytes > 2 * head_dim",
    ),
    _mutation("ring-rows-one-fewer", LAYOUT, "+ max_verify_len - 1\n", "+ max_verify_len - 2\n"),
    _mutation("ring-rows-one-more", LAYOUT, "+ max_verify_len - 1\n", "+ max_verify_len\n"),
    # rotate
    _mutation(
        "signs-of-another-block",
        ROTATE,
        "torch.cat([signs, -signs], 1)",
        "torch.cat([-signs, signs], 1)",
    ),
    _mutation(
        "matrix-of-float16",
        ROTATE,
        "return signs / float(head_dim) ** 0.5",
        "return (signs / float(head_dim) ** 0.5).half().double()",
    ),
    _mutation("nan-stays", ROTATE, ".nan_to_num(nan=0.0)", ""),
    _mutation(
        "huge-number-stays",
        ROTATE,
        "nan_to_num(nan=0.0).clamp(-FP16_MAX, FP16_MAX)",
        "nan_to_num(nan=0.0, posinf=FP16_MAX, neginf=-FP16_MAX)",
    ),
    _mutation(
        "infinity-to-zero", ROTATE, "nan_to_num(nan=0.0)", "nan_to_num(nan=0.0, posinf=0, neginf=0)"
    ),
    _mutation(
        "float16-unclamped", ROTATE, "return x.clamp(-FP16_MAX, FP16_MAX).half()", "return x.half()"
    ),
    _mutation(
        "zero-point-unclamped",
        ROTATE,
        "return x.clamp(-FP16_MAX, FP16_MAX).half()",
        "return x.half()",
        by="tiles",
    ),
    _mutation(
        "query-sanitised",
        ROTATE,
        "to_float16(query.double() @ matrix)",
        "to_float16(sanitise(query) @ matrix)",
    ),
    # normalise
    _mutation("deviation-of-n", NORMALISE, "(x.shape[dim] - 1)", "x.shape[dim]"),
    _mutation(
        "deviation-in-one-pass",
        NORMALISE,
        "((centred * centred).sum(dim) / (x.shape[dim] - 1)).sqrt()",
        "(((x * x).mean(dim) - x.mean(dim) ** 2).clamp(min=0) * x.shape[dim] "
        "/ (x.shape[dim] - 1)).sqrt()",
    ),
    _mutation(
        "rows-before-columns",
        NORMALISE,
        """        log_column = _step(log_column, deviation(current, 1))
        current = _divided(tiles, log_column.exp(), log_row.exp())
        log_row = _step(log_row, deviation(current, 2))
""",
        """        log_row = _step(log_row, deviation(current, 2))
        current = _divided(tiles, log_column.exp(), log_row.exp())
        log_column = _step(log_column, deviation(current, 1))
""",
    ),
    _mutation(
        "columns-of-the-step-before",
        NORMALISE,
        """        current = _divided(tiles, log_column.exp(), log_row.exp())
        log_row =""",
        """        log_row =""",
    ),
    _mutation("ties-refused", NORMALISE, "better = now <= least", "better = now < least"),
    _mutation("last-iteration-kept", NORMALISE, "better = now <= least", "better = ~now.isnan()"),
    _mutation("nan-is-better", NORMALISE, "better = now <= least", "better = ~(now > least)"),
    _mutation("fewer-iterations", NORMALISE, "range(1, iterations + 1)", "range(1, iterations)"),
    _mutation(
        "deviations-not-clipped", NORMALISE, "found.clamp(DEVIATION_MIN, DEVIATION_MAX)", "found"
    ),
    _mutation(
        "log-scale-under-its-limit", NORMALISE, "LOG_SCALE_MAX = -0.3", "LOG_SCALE_MAX = -0.7"
    ),
    _mutation("log-scale-over-its-limit", NORMALISE, "= -0.3, 10.0", "= -0.3, 12.0"),
    _mutation(
        "imbalance-of-clipped-deviations",
        NORMALISE,
        "return deviations.amax(1) /",
        "deviations = deviations.clamp(1e-3, 1e3)\n    return deviations.amax(1) /",
    ),
    _mutation("imbalance-without-a-floor", NORMALISE, ".clamp(min=IMBALANCE_FLOOR)", ""),
    _mutation(
        "imbalance-without-columns",
        NORMALISE,
        "_spread(deviation(tiles, 1)) + _spread(",
        "2 * _spread(",
    ),
    _mutation(
        "size-not-folded-back", NORMALISE, "found.row_scale * size[:, None]", "found.row_scale"
    ),
    _mutation(
        "size-in-columns",
        NORMALISE,
        "found.column_scale,\n        found.row_scale * size[:, None],",
        "found.column_scale * size[:, None],\n        found.row_scale,",
    ),
    _mutation("size-of-nan", NORMALISE, "(size > 0) & size.isfinite()", "size != 0"),
    _mutation("size-of-zeros", NORMALISE, "(size > 0) & size.isfinite()", "size.isfinite()"),
    _mutation("usual-deviation-is-the-larger", NORMALISE, "torch.minimum(", "torch.maximum("),
    _mutation(
        "usual-deviation-of-columns",
        NORMALISE,
        "_geometric_mean(deviation(tiles, 2)))",
        "_geometric_mean(deviation(tiles, 1)))",
    ),
    _mutation("zeros-in-the-mean", NORMALISE, "(~none).sum(1)", "none.shape[1]"),
    # tiles
    _mutation(
        "codes-of-keys-by-token",
        TILES,
        "keys.transpose(1, 2).float(), layout.key_bits",
        "keys.float(), layout.key_bits",
    ),
    _mutation("rounds-down", TILES, ".round().clamp(0, last)", ".floor().clamp(0, last)"),
    _mutation(
        "rounds-half-up", TILES, ".round().clamp(0, last)", ".add(0.5).floor().clamp(0, last)"
    ),
    _mutation(
        "step-of-a-level-more", TILES, "last = 2**bits - 1\n    low", "last = 2**bits\n    low"
    ),
    _mutation("step-without-a-floor", TILES, ".clamp(min=STEP_MIN)", ""),
    _mutation(
        "low-is-the-mean",
        TILES,
        "found.row_scale * step, found.row_scale * low\n",
        "found.row_scale * step, found.row_scale * found.balanced.mean(2)\n",
    ),
    _mutation(
        "scale-not-absorbed",
        TILES,
        "scale, zero_point = found.row_scale * step,",
        "scale, zero_point = step,",
    ),
    _mutation(
        "codes-of-rounded-scales",
        TILES,
        "/ step[..., None]).round()",
        "/ step.half().float()[..., None]).round()",
    ),
    _mutation(
        "key-scales-exchanged",
        TILES,
        "layout.key_channel_scale, scale)\n    _write(records, layout.key_zero_point, zero_point)",
        "layout.key_zero_point, scale)\n    _write(records, layout.key_channel_scale, zero_point)",
    ),
    _mutation(
        "value-scales-exchanged",
        TILES,
        "layout.value_token_scale, scale)\n    _write(records, layout.value_zero_point, zero",
        "layout.value_zero_point, scale)\n    _write(records, layout.value_token_scale, zero",
    ),
    _mutation(
        "bytes-from-the-top",
        TILES,
        "shift = bits * torch.arange(each,",
        "shift = 8 - bits - bits * torch.arange(each,",
    ),
    _mutation(
        "zero-point-after-the-token-scale",
        TILES,
        """    keys = keys + scale(layout.key_zero_point, head_dim)[:, :, None]
    keys = keys * scale(layout.key_token_scale, group)[:, None, :]
""",
        """    keys = keys * scale(layout.key_token_scale, group)[:, None, :]
    keys = keys + scale(layout.key_zero_point, head_dim)[:, :, None]
""",
    ),
    _mutation(
        "nibbles-exchanged",
        TILES,
        "(packed[..., None] >> shift)",
        "(packed[..., None] >> shift.flip(0))",
    ),
    _mutation(
        "codes-of-values-by-channel",
        TILES,
        "codes(layout.value_codes, group, head_dim, layout.value_bits)",
        "codes(layout.value_codes, head_dim, group, layout.value_bits).transpose(1, 2)",
    ),
    # fitted rows
    _mutation("inner-part-of-a-quarter", TILES, "INNER_PART = 0.2\n", "INNER_PART = 0.25\n"),
    _mutation(
        "codes-from-the-mean",
        TILES,
        "balanced - (low + high) * 0.5",
        "balanced - balanced.mean(2, keepdim=True)",
    ),
    _mutation("inner-without-its-end", TILES, "(apart.abs() >= (high", "(apart.abs() > (high"),
    _mutation("middle-is-over", TILES, "torch.where(apart > 0, 2", "torch.where(apart >= 0, 2"),
    _mutation(
        "least-squares",
        TILES,
        "(apart * apart).sum(2) / covariance",
        "covariance / (codes - mean_code[..., None]).square().sum(2)",
    ),
    _mutation("step-not-cut-above", TILES, "(half - mean) / (3 - mean_code)", "step"),
    _mutation("step-not-cut-below", TILES, "(half + mean) / mean_code", "step"),
    _mutation(
        "products-about-nothing",
        TILES,
        "(apart * (codes - mean_code[..., None])).sum(2)",
        "(balanced * codes).sum(2)",
    ),
    _mutation("mean-not-kept", TILES, "mean - step * mean_code", "mean - step * 1.5"),
    _mutation("a-flat-row-has-a-step", TILES, "(covariance > 0) & covariance", "covariance"),
    _mutation(
        "another-default",
        NORMALISE,
        'DEFAULT_MODE = "fitted"',
        'DEFAULT_MODE = "prescaled"',
        by="fitted",
    ),
    _mutation("fits-in-every-mode", TILES, 'mode == "fitted" and bits == 2', "bits == 2"),
    _mutation("fits-four-bits", TILES, 'mode == "fitted" and bits == 2', 'mode == "fitted"'),
    _mutation("fits-never", TILES, 'mode == "fitted" and bits == 2', "bits == 3"),
    _mutation(
        "mode-forgotten-for-values",
        TILES,
        "values.float(), layout.value_bits, iterations, mode",
        "values.float(), layout.value_bits, iterations",
    ),
)
