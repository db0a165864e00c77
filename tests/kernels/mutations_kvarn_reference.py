"""Mistakes in the layout and the references of KVarN, as data; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import Mutation

LAYOUT = "kvarn_port/layout.py"
REFERENCE = "kvarn_port/reference/"
TESTS = "tests/kernels/test_kvarn_reference_"
ROTATE = REFERENCE + "rotate.py"
NORMALISE = REFERENCE + "normalise.py"
TILES = REFERENCE + "tiles.py"
PACK = REFERENCE + "pack.py"
GATHER = REFERENCE + "gather.py"
ATTENTION = REFERENCE + "tile_attention.py"
MERGE = REFERENCE + "merge.py"
ORDER = {
    LAYOUT: ("tests/kernels/test_layout.py",),
    ROTATE: (f"{TESTS}rotate.py", f"{TESTS}tiles.py"),
    NORMALISE: (f"{TESTS}normalise.py", f"{TESTS}tiles.py"),
    TILES: (f"{TESTS}tiles.py",),
    PACK: (f"{TESTS}attention.py", f"{TESTS}schedule.py"),
    GATHER: (f"{TESTS}attention.py", f"{TESTS}schedule.py"),
    ATTENTION: (f"{TESTS}attention.py",),
    MERGE: (f"{TESTS}attention.py",),
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
        "layout-power-of-two-over",
        LAYOUT,
        "1 << (slot_bytes - 1).bit_length()",
        "1 << slot_bytes.bit_length()",
    ),
    _mutation(
        "layout-fp8-cost-let-through",
        LAYOUT,
        "slot_bytes >= 2 * head_dim",
        "slot_bytes > 2 * head_dim",
    ),
    _mutation(
        "layout-fp8-cost-never-allowed",
        LAYOUT,
        "2 * head_dim and not allow_fp8_cost",
        "2 * head_dim",
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
    _mutation(
        "mode-forgotten-for-values",
        TILES,
        "values.float(), layout.value_bits, iterations, mode",
        "values.float(), layout.value_bits, iterations",
        by="attention",
    ),
    # pack
    _mutation(
        "store-before-pack",
        PACK,
        "        group, mapped = layout.group, slot_mapping[step]\n",
        "        group, mapped = layout.group, slot_mapping[step]\n"
        "        for ring, rows in zip(rings, new, strict=True):\n"
        "            store(ring, rows, mapped, committed)\n",
    ),
    _mutation(
        "tile-of-drafts-kept",
        PACK,
        "torch.arange(committed // group * group, seq_len",
        "torch.arange(-(-committed // group) * group, seq_len",
    ),
    _mutation(
        "page-of-the-tile-after",
        PACK,
        "mapped[position[group - 1 :: group] - committed] // group",
        "mapped[position[group - 1 :: group] - committed] // group + 1",
    ),
    _mutation(
        "rows-of-the-step-by-position",
        PACK,
        "new[(position - committed).clamp(min=0)]",
        "new[position % len(new)]",
    ),
    _mutation(
        "rows-of-the-step-one-late", PACK, "(position < committed)[", "(position <= committed)["
    ),
    _mutation(
        "tail-of-the-ring", PACK, "max(len(new) - rows, 0), len(new)", "0, min(len(new), rows)"
    ),
    _mutation("ring-row-by-query", PACK, "ring[(committed + token) % rows]", "ring[token % rows]"),
    _mutation(
        "bytes-past-the-tile",
        PACK,
        "            tiles[pages[pages >= 0], :, : ",
        "            tiles[pages[pages >= 0]] = 0\n            tiles[pages[pages >= 0], :, : ",
    ),
    _mutation(
        "negative-slot-packed",
        PACK,
        "tiles[pages[pages >= 0], :, : layout.tile_bytes] = records[pages >= 0]",
        "tiles[pages, :, : layout.tile_bytes] = records",
    ),
    _mutation("negative-slot-stored", PACK, "token[mapped[token] >= 0]", "token"),
    _mutation("padded-request-written", PACK, "slots[request] < 0 or query_len", "query_len"),
    # gather
    _mutation(
        "history-a-tile-more", GATHER, "packed = filled // group", "packed = -(-filled // group)"
    ),
    _mutation(
        "history-a-tile-less",
        GATHER,
        "packed = filled // group * group",
        "packed = max(filled - 1, 0) // group * group",
    ),
    _mutation("ring-by-page", GATHER, "ring[new % ring.shape[0]]", "ring[new % group]"),
    _mutation("gather-start-of-the-tile", GATHER, "tokens[start % group :]", "tokens[0:]"),
    _mutation(
        "heads-as-tokens",
        GATHER,
        ".transpose(1, 2).flatten(0, 1)\n        old",
        ".flatten(1, 2).unflatten(1, (group, heads)).flatten(0, 1)\n        old",
    ),
    _mutation(
        "gather-leaves-what-is-empty", GATHER, "        keys[request], values[request] = 0, 0\n", ""
    ),
    _mutation(
        "gather-deaf-to-the-store",
        GATHER,
        "(committed if seq_lens is None else seq_lens)",
        "(committed)",
    ),
    _mutation(
        "gather-past-the-committed",
        GATHER,
        "end = min(tokens, start + count)",
        "end = min(tokens + 1, start + count)",
    ),
    # tile_attention
    _mutation(
        "flat-limit-of-the-query", ATTENTION, "seen if causal else torch.ones_like(seen)", "seen"
    ),
    _mutation(
        "never-causal",
        ATTENTION,
        "seen if causal else torch.ones_like(seen)",
        "torch.ones_like(seen)",
    ),
    _mutation(
        "causal-one-late",
        ATTENTION,
        "visible_keys(end - first, seq_len, 0, query.device)",
        "visible_keys(end - first, seq_len + 1, 0, query.device)[:, :-1]",
    ),
    _mutation(
        "causal-one-early",
        ATTENTION,
        "visible_keys(end - first, seq_len, 0, query.device)",
        "visible_keys(end - first + 1, seq_len, 0, query.device)[:-1]",
    ),
    _mutation(
        "output-stays-rotated",
        ATTENTION,
        "(weighted_values(weights, values) @ matrix)",
        "weighted_values(weights, values)",
    ),
    _mutation("softmax-unscaled", ATTENTION, "keys, seen, softmax_scale)", "keys, seen, 1.0)"),
    _mutation(
        "values-for-keys",
        ATTENTION,
        "attention_weights(query[first:end].to(dtype), keys,",
        "attention_weights(query[first:end].to(dtype), values,",
    ),
    _mutation("padded-request-left-alone", ATTENTION, "            output[first:end] = 0\n", ""),
    _mutation(
        "all-tiles-of-the-sequence",
        ATTENTION,
        "block_table[request], committed, 0, seq_len",
        "block_table[request], seq_len, 0, seq_len",
    ),
    _mutation(
        "ring-of-slot-0", ATTENTION, "(ring_keys[slots[request]], ring", "(ring_keys[0], ring"
    ),
    _mutation(
        "ring-one-row-short-allowed",
        ATTENTION,
        "rows < layout.group + max_query_len - 1:",
        "rows < layout.group + max_query_len - 2:",
    ),
    # merge
    _mutation("merge-by-base-two", MERGE, "(lse - top).exp()", "(lse - top).exp2()"),
    _mutation(
        "merge-without-the-sum",
        MERGE,
        "parts.sum(0) / torch.where(total > 0, total, 1.0)",
        "parts.sum(0)",
    ),
    _mutation("merge-without-a-maximum", MERGE, "(lse - top).exp()", "lse.exp()"),
    _mutation(
        "merge-reads-the-empty",
        MERGE,
        "torch.where(seen, outputs.to(dtype), 0.0)",
        "outputs.to(dtype)",
    ),
    _mutation("merge-stays-rotated", MERGE, "    if unrotate:\n", "    if not unrotate:\n"),
    _mutation(
        "merge-heads-as-tokens",
        MERGE,
        "lses.to(dtype).transpose(1, 2)[..., None]",
        "lses.to(dtype).reshape(outputs.shape[:3])[..., None]",
    ),
)
