"""A chunk of a long prompt against its history: gathered from packed tiles, or read from bf16."""

from __future__ import annotations

from tests.bench.kernels.cases import Case
from tests.bench.kernels.ratios import Target
from tests.bench.kernels.suites import Suite, sources
from tests.bench.kernels.tile_attention import BLOCK, FLASH, TINY

CHUNK = 2048
CONTEXTS = {16_384: 1.15, 102_400: 1.05}  # with the chunk: at most so many times FlashAttention 3
OURS = "ours k4v2 gathered"

SUITE = Suite(
    name="prefill",
    sources=(
        *sources(
            "prefill",
            "kernels/continuation.py",
            "kernels/gather.py",
            "kernels/merge.py",
            "kernels/verify_attend.py",
            "kernels/rotate.py",
            "layout.py",
        ),
        "kvarn_port/reference",
    ),
    cases=tuple(Case(1, context, CHUNK, block_size=BLOCK) for context in CONTEXTS),
    quick=(Case(1, 16_384, CHUNK, block_size=BLOCK),),
    tiny=(Case(1, 300, 40, **TINY),),
    columns=(OURS, FLASH),
    formats={OURS: "kvarn_k4v2_g128", FLASH: "bfloat16"},
    targets=tuple(
        Target(
            f"{context:,} tokens, over FlashAttention 3", OURS, (1, context, CHUNK), FLASH, bound
        )
        for context, bound in CONTEXTS.items()
    ),
    judged_on="H200",
)
