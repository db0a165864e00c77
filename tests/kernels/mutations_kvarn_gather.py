"""Mistakes in gathering, joining and continuing, as data; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation

TESTS = "tests/kernels/test_"


def _gather(name: str, old: str, new: str, count: int = 1) -> Mutation:
    tests = (TESTS + "gather.py",)
    return Mutation(f"gather-{name}", KERNELS + "gather.py", old, new, count, tests=tests)


def _merge(name: str, old: str, new: str, count: int = 1) -> Mutation:
    return Mutation(
        f"merge-{name}", KERNELS + "merge.py", old, new, count, tests=(TESTS + "merge.py",)
    )


def _continuation(name: str, old: str, new: str) -> Mutation:
    tests = (TESTS + "continuation.py",)
    return Mutation(f"continuation-{name}", KERNELS + "continuation.py", old, new, tests=tests)


MUTATIONS = (
    _gather("key-nibbles-swapped", "byte * EACH + part", "byte * EACH + EACH - 1 - part"),
    _gather(
        "value-channels-swapped",
        "tl.interleave(codes & 15, codes >> 4)",
        "tl.interleave(codes >> 4, codes & 15)",
    ),
    _gather(
        "value-pairs-swapped",
        "tl.interleave(codes & 3, (codes >> 4) & 3)",
        "tl.interleave(codes & 3, (codes >> 2) & 3)",
    ),
    _gather("key-scale-of-another-token", "_scales(record, T, token)", "_scales(record, T, byte)"),
    _gather(
        "key-zero-point-dropped",
        "(code * a[:, None] + z[:, None]) * t",
        "(code * a[:, None] + 0 * z[:, None]) * t",
    ),
    _gather("value-scales-swapped", "_scales(record, Z, token)", "_scales(record, A, token)"),
    _gather(
        "channel-scale-of-the-first-ones",
        "_scales(record, A, channel)",
        "_scales(record, A, channel - c0)",
    ),
    _gather("ring-row-of-the-token", "(position + token) % ring_rows", "(position + token) % G"),
    _gather("a-tile-too-many-is-packed", "tile < filled // G", "tile < (filled + G - 1) // G"),
    _gather("a-tile-too-few-is-packed", "tile < filled // G", "tile < (filled - 1) // G"),
    _gather(
        "key-rows-after-the-history",
        "first + token < held, _scales(record, T",
        "first + token <= held, _scales(record, T",
    ),
    _gather(
        "value-rows-after-the-history",
        "first + token < held, _scales(record",
        "first + token <= held, _scales(record",
        count=3,
    ),
    _gather(
        "ring-rows-after-the-history",
        "mask = (first + token < held)",
        "mask = (first + token <= held)",
    ),
    _gather(
        "slotless-rows",
        "tl.where(slot < 0, 0, tl.load(committed_ptr + request))",
        "tl.load(committed_ptr + request)",
    ),
    _gather(
        "filled-tiles-from-the-ring",
        "tl.load(filled_ptr + request)",
        "tl.load(committed_ptr + request)",
    ),
    _gather("rows-out-of-place", "(row >= 0) & (row < tokens)", "row >= 0"),
    _gather("unclamped", "if out.dtype.element_ty == tl.float16:", "if False:"),
    _gather("int32-page", "table_stride + tile).to(tl.int64)", "table_stride + tile)"),
    _gather("int32-rows", "request = tl.program_id(2).to(tl.int64)", "request = tl.program_id(2)"),
    _gather(
        "page-of-the-segment", "tile = start // G + tl.program_id(0)", "tile = tl.program_id(0)"
    ),
    _gather("record-of-the-first-head", "+ head * t_stride_head", ""),
    _gather(
        "tiles-written-twice",
        "rows = min(layout.group, 32 * warps * ELEMENTS // layout.head_dim)",
        "rows = 32 * warps * ELEMENTS // layout.head_dim",
    ),
    _gather("last-tile-left-out", "start % layout.group + tokens", "tokens"),
    _merge("lse-of-base-2", "tl.exp(lse - base)", "tl.exp2(lse - base)"),
    _merge(
        "not-divided", "return joined / tl.where(total > 0.0, total, 1.0)[:, None]", "return joined"
    ),
    _merge(
        "zero-by-zero",
        "return joined / tl.where(total > 0.0, total, 1.0)[:, None]",
        "return joined / total[:, None]",
    ),
    _merge(
        "largest-of-the-last",
        'top = tl.maximum(top, tl.where(lse < float("inf"), lse, float("-inf")))',
        'top = tl.where(lse < float("inf"), lse, float("-inf"))',
    ),
    _merge("rotation-without-a-sign", "(x ^ (x >> 1)) & 1", "x & 1"),
    _merge("rotation-without-the-last-bit-of-a-chunk", " ^ ((k & N) >> 2)", ""),
    _merge(
        "rotation-in-16-bits",
        "tl.dot(high.to(tl.float32), wide, tl.dot(low.to(tl.float32), wide))",
        "tl.dot(high.to(tl.float32), wide)",
    ),
    _merge(
        "chunks-summed",
        "x = x * (1.0 / CHUNKS)",
        "x = tl.minimum(tl.maximum(x, -65504.0), 65504.0) * (1.0 / CHUNKS)",
    ),
    _merge("root-forgotten", "NATIVE) / root", "NATIVE)"),
    _merge("heads-before-tokens", "token = row // heads", "token = row % (rows // heads)"),
    _merge(
        "unseen-outputs-are-read",
        "tl.load(part, mask=weight > 0.0",
        "tl.load(part, mask=weight >= 0.0",
    ),
    _merge(
        "infinite-lse-weighs-all",
        'tl.where(lse < float("inf"), tl.exp(lse - base), 0.0)',
        "tl.exp(lse - base)",
    ),
    _merge(
        "carried-lse-of-the-largest", "base + tl.log(tl.where(total > 0.0, total, 1.0))", "base"
    ),
    _merge(
        "carried-weighs-one",
        "joined = tl.load(carried, mask=weight > 0.0, other=0.0) * weight",
        "joined = tl.load(carried, mask=weight > 0.0, other=0.0)",
    ),
    _merge("rows-past-the-end", "held = row < rows", "held = row <= rows"),
    _merge("int32-segments", "tl.program_id(0).to(tl.int64) * ROWS", "tl.program_id(0) * ROWS"),
    _continuation(
        "own-keys-not-causal", "rotated_value, causal=causal,", "rotated_value, causal=False,"
    ),
    _continuation("history-causal", "causal=False, key_start", "causal=True, key_start"),
    _continuation(
        "segments-from-the-first", "layout=layout, start=start", "layout=layout, start=0"
    ),
    _continuation("history-with-this-step", "0, seq_lens - lengths", "0, seq_lens"),
    _continuation("carry-begins-anew", "first=not self.joined", "first=True"),
    _continuation("carried-left-out", "self.carried if self.joined else None", "None"),
    _continuation("lengths-of-the-first-segment", "key_lens[number]", "key_lens[0]"),
    _continuation(
        "requests-at-one-place", "device=query.device) * each", "device=query.device) * 0"
    ),
    _continuation(
        "outputs-left-where-they-are", "if output.data_ptr() != place.data_ptr():", "if False:"
    ),
)
