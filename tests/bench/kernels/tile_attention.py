"""Attention over packed tiles: decode, and verifying drafts, over KVarN's cache and over others."""

from __future__ import annotations

from tests.bench.kernels.cases import Case, matrix
from tests.bench.kernels.ratios import Target
from tests.bench.kernels.suites import Suite, sources

# in tokens: 4k, 16k, 64k, 128k and 240k
CONTEXTS = (4096, 16384, 65536, 131_072, 245_760)
QUERIES = (1, 8, 16)
BLOCK = 128  # a tile; the others' pages are as long
# Over FlashAttention 3 on bf16 with as many query tokens.
LONG_RATIOS = {1: 0.55, 8: 0.8, 16: 1.1}
SHORT_RATIO = 1.2

TINY = {"num_query_heads": 4, "num_kv_heads": 2, "head_dim": 64, "block_size": BLOCK}
OURS, FLASH = "ours k4v2", "FlashAttention 3"


def _target(name: str, batch: int, context: int, query: int, bound: float) -> Target:
    return Target(f"{name}, batch {batch}, q={query}", OURS, (batch, context, query), FLASH, bound)


SUITE = Suite(
    name="tile-attention",
    sources=(
        *sources(
            "tile_attention",
            "kernels/tile_*.py",
            "kernels/rotate.py",
            "layout.py",
            "kernels/verify_attend.py",
            "kernels/verify_plan.py",
            "kernels/verify_scratch.py",
        ),
        "kvarn_port/reference",
    ),
    cases=tuple(matrix((1, 16), CONTEXTS, QUERIES, BLOCK)),
    quick=tuple(matrix((1,), (4096, 131_072), (1, 8), BLOCK)),
    tiny=(Case(1, 140, 1, **TINY), Case(2, 150, 5, **TINY)),
    columns=(OURS, FLASH, "FlashAttention 3 fp8", "unified int8", "unified int4"),
    formats={
        OURS: "kvarn_k4v2_g128",
        FLASH: "bfloat16",
        "FlashAttention 3 fp8": "fp8_e4m3",
        "unified int8": "int8_per_token_head",
        "unified int4": "int4_per_token_head",
    },
    targets=(
        *(
            _target("128k", batch, 131_072, query, bound)
            for batch in (1, 16)
            for query, bound in LONG_RATIOS.items()
        ),
        *(_target("4k", 1, 4096, query, SHORT_RATIO) for query in QUERIES),
    ),
    judged_on="H200",
)
