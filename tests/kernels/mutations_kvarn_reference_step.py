"""Mistakes in KVarN's references of what a step packs, reads and joins; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import Mutation

REFERENCE = "kvarn_port/reference/"
PACK = REFERENCE + "pack.py"
GATHER = REFERENCE + "gather.py"
ATTENTION = REFERENCE + "tile_attention.py"
MERGE = REFERENCE + "merge.py"
TESTS = "tests/kernels/test_kvarn_reference_"
# The quick ones first; those of random schedules see most of it too.
ORDER = {
    PACK: (f"{TESTS}pack.py", f"{TESTS}schedule.py"),
    GATHER: (f"{TESTS}attention.py", f"{TESTS}pack.py", f"{TESTS}schedule.py"),
    ATTENTION: (f"{TESTS}attention.py",),
    MERGE: (f"{TESTS}attention.py",),
}


def _mutation(name: str, file: str, old: str, new: str) -> Mutation:
    """A mutation that the tests of its file are to see."""
    return Mutation(name, file, old, new, tests=ORDER[file])


MUTATIONS = (
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
