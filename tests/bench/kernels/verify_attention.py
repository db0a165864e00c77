"""Verify attention: some query tokens at the end of a long cache, as in speculative decoding."""

from __future__ import annotations

from tests.bench.kernels.cases import Case, matrix
from tests.bench.kernels.ratios import Target
from tests.bench.kernels.suites import Suite, sources

# in tokens: 1.5k, 16k, 25k, 64k and 128k
CONTEXTS = (1536, 16384, 25600, 65536, 131_072)
LONG, HALF, SHORT = (1, 131_072, 8), (1, 65536, 1), (1, 1536, 8)  # batch, context, query tokens

TINY = {"num_query_heads": 4, "num_kv_heads": 2, "head_dim": 64, "block_size": 16}

SUITE = Suite(
    name="verify-attention",
    sources=sources("verify_attention", "kernels/verify_*.py"),
    cases=tuple(matrix((1, 8), CONTEXTS, (1, 5, 8, 16, 32))),
    quick=tuple(matrix((1,), (1536, 131_072), (1, 8))),
    tiny=(Case(1, 40, 1, **TINY), Case(2, 70, 5, **TINY)),
    columns=(
        "ours bf16",
        "ours int8",
        "ours fp8",
        "unified bf16",
        "unified int8",
        "FlashAttention 3",
        "SDPA",
    ),
    formats={
        "ours bf16": "bfloat16",
        "ours int8": "int8_per_token_head",
        "ours fp8": "fp8_e4m3",
        "unified bf16": "bfloat16",
        "unified int8": "int8_per_token_head",
        "FlashAttention 3": "bfloat16",
        "SDPA": "bfloat16",
    },
    targets=(
        Target("bf16, 128k, q=8: share of copy", "ours bf16", LONG, None, 0.70, at_least=True),
        Target(
            "bf16, 128k, q=8: over FlashAttention 3", "ours bf16", LONG, "FlashAttention 3", 1.15
        ),
        Target("int8, 128k, q=8: over our bf16", "ours int8", LONG, "ours bf16", 0.75),
        Target(
            "bf16, 128k, q=8: unified attention over ours",
            "unified bf16",
            LONG,
            "ours bf16",
            30,
            at_least=True,
        ),
        Target(
            "bf16, 1.5k, q=8: over FlashAttention 3", "ours bf16", SHORT, "FlashAttention 3", 1.2
        ),
        Target("int8, 64k, q=1: over our bf16", "ours int8", HALF, "ours bf16", 1.0),
    ),
    judged_on="H200",
)
