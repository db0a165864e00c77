"""Mistakes in what the demo measures, as data; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import Mutation

DEMO = "kvarn_port/demo/"
CACHE, FORMATS, PAGED = DEMO + "cache.py", DEMO + "formats.py", DEMO + "paged.py"
DIVERGENCE = DEMO + "divergence.py"
PERPLEXITY, ERRORS, MEASURING = DEMO + "perplexity.py", DEMO + "errors.py", DEMO + "measuring.py"
ATTENDS = """\
        seen = visible(committed, tokens, window, query.device)
        output = scaled_dot_product_attention(
            query, keys, values, attn_mask=seen, scale=scale, enable_gqa=True
        )
        """


def one(name: str, file: str, old: str, new: str, tests: str) -> Mutation:
    """A mistake that the tests of a part of the demo are to catch."""
    return Mutation(f"demo-{name}", file, old, new, tests=(f"tests/kernels/test_demo_{tests}.py",))


MUTATIONS = (
    one(
        "packs-before-it-reads",
        CACHE,
        "keys, values = self.rows(committed)\n" + ATTENDS + "self._pack(committed)\n",
        "self._pack(committed)\n        keys, values = self.rows(self.length)\n" + ATTENDS + "\n",
        "cache",
    ),
    one(
        "reads-the-open-tile-packed-late",
        CACHE,
        "full = committed // self.form.group * self.form.group",
        "full = max(committed // self.form.group - 1, 0) * self.form.group",
        "cache",
    ),
    one("sink-one-longer", CACHE, "min(self.sink, full)", "min(self.sink + 1, full)", "cache"),
    one("sink-is-packed", CACHE, "min(self.sink, full)", "0", "cache"),
    one("sees-the-next", CACHE, "seen = key <= query", "seen = key <= query + 1", "cache"),
    one("window-wide", CACHE, "key > query - window", "key >= query - window", "cache"),
    one("open-tile-as-computed", CACHE, "_by_tokens(self.form.kept, rows)", "rows", "cache"),
    one(
        "packs-what-was-kept",
        CACHE,
        "[torch.cat(pair, 2) for pair in zip(self.raw or empty, added, strict=True)]",
        "[torch.cat(pair, 2) for pair in zip(self.raw or empty, kept, strict=True)]",
        "cache",
    ),
    one(
        "tile-of-another-head",
        CACHE,
        "rows.unflatten(0, (*heads, full)).flatten(2, 3)",
        "rows.unflatten(0, (*heads, full)).flatten(2, 3).roll(1, 1)",
        "cache",
    ),
    one(
        "page-of-another-sequence",
        PAGED,
        "block = pages.block_table.long()",
        "block = pages.block_table.roll(1, 0).long()",
        "cache",
    ),
    one("pages-in-one-mode", PAGED, "mode=self.mode", 'mode="reference"', "cache"),
    one(
        "length-counts-late",
        PAGED,
        "self.length += tokens\n",
        "self.length += tokens - 1\n",
        "cache",
    ),
    one("int8-truncates", FORMATS, "(rows / scale).round()", "(rows / scale).trunc()", "formats"),
    one("int8-of-128", FORMATS, "keepdim=True) / 127)", "keepdim=True) / 128)", "formats"),
    one(
        "int8-scale-of-all-tokens",
        FORMATS,
        "rows.abs().amax(-1, ",
        "rows.abs().amax((-1, -2), ",
        "formats",
    ),
    one("int4-truncates", FORMATS, "+ zero + 0.5).floor()", "+ zero).floor()", "formats"),
    one("int4-without-zero-point", FORMATS, "(codes - zero) * stored", "codes * stored", "formats"),
    one("int4-of-16-steps", FORMATS, "((high - low) / 15)", "((high - low) / 16)", "formats"),
    one(
        "int4-not-rotated-back", FORMATS, ".double() @ matrix.T)", ".double() @ matrix)", "formats"
    ),
    one(
        "fp8-of-two-bits",
        FORMATS,
        "rows.clamp(-largest, largest).to(torch.float8_e4m3fn)",
        "rows.clamp(-largest, largest).to(torch.float8_e5m2)",
        "formats",
    ),
    one("fp8-of-half-the-range", FORMATS, "clamp(-largest, ", "clamp(-largest / 2, ", "formats"),
    one(
        "kvarn-swaps-keys-and-values",
        FORMATS,
        "quantise(rotated(keys), rotated(values),",
        "quantise(rotated(values), rotated(keys),",
        "formats",
    ),
    one(
        "kvarn-stays-rotated",
        FORMATS,
        "return rotated_back(key), rotated_back(value)",
        "return key, value",
        "formats",
    ),
    one(
        "kvarn-in-one-mode", FORMATS, "layout, iterations, mode)", "layout, iterations)", "formats"
    ),
    one(
        "bits-of-a-key-alone",
        FORMATS,
        "layout.slot_bytes / (2 * head_dim)",
        "layout.slot_bytes / head_dim",
        "formats",
    ),
    one(
        "predicts-itself",
        PERPLEXITY,
        "ids[:, start + 1 : start + 1 + step.shape[1]]",
        "ids[:, start : start + step.shape[1]]",
        "perplexity",
    ),
    one(
        "positions-start-anew",
        PERPLEXITY,
        "torch.arange(start, start + step.shape[1],",
        "torch.arange(0, step.shape[1],",
        "perplexity",
    ),
    one(
        "counts-one-more",
        PERPLEXITY,
        "found[:, first:].mean(1)",
        "found[:, first - 1 :].mean(1)",
        "perplexity",
    ),
    one(
        "loses-the-last-chunk",
        PERPLEXITY,
        "range(0, ids.shape[1] - 1, chunk)",
        "range(0, ids.shape[1] - chunk, chunk)",
        "perplexity",
    ),
    one(
        "mean-of-percents",
        PERPLEXITY,
        "return 100 * math.expm1(sum(logs) / len(logs))",
        "return sum(increases) / len(increases)",
        "perplexity",
    ),
    one("errors-of-kept-outputs", ERRORS, "if done >= form.group:", "if done >= 0:", "perplexity"),
    one(
        "errors-of-other-rows",
        ERRORS,
        "[:, :, : read.shape[2]]",
        "[:, :, -read.shape[2] :]",
        "perplexity",
    ),
    one(
        "error-not-relative",
        ERRORS,
        "(difference / size).sqrt()",
        "difference.sqrt()",
        "perplexity",
    ),
    one(
        "baseline-in-another-chunk",
        MEASURING,
        "recorders, group)",
        "recorders, group + 1)",
        "perplexity",
    ),
    one(
        "divergence-the-other-way",
        DIVERGENCE,
        "(wanted.exp() * apart)",
        "(logits.float().softmax(2) * -apart)",
        "perplexity",
    ),
    one(
        "divergence-of-the-first-tile",
        DIVERGENCE,
        "at = start - self.first",
        "at = 0",
        "perplexity",
    ),
    one(
        "divergence-of-other-tokens",
        DIVERGENCE,
        "self.tokens += logits.shape[1]",
        "self.tokens += 1",
        "perplexity",
    ),
)
