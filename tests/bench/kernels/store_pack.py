"""A step's keys and values stored: a chunk of a prompt, and steps that fill no tile."""

from __future__ import annotations

from tests.bench.kernels.cases import Case
from tests.bench.kernels.ratios import TIME, Target
from tests.bench.kernels.suites import Suite, sources
from tests.bench.kernels.tile_attention import BLOCK, TINY

# Half of a tile beyond the last that is filled: 16 tiles by 2,048 tokens, none by up to 64. Steps
# that fill none have short contexts, so that many tables share the start of a replay, which takes
# longer than such a step.
CONTEXT, SHORT, CHUNK = 16_384 + BLOCK // 2, 1024 + BLOCK // 2, 2048
STORE, PACK = "ours k4v2 store", "ours k4v2 pack"

SUITE = Suite(
    name="store-pack",
    sources=(
        *sources(
            "store_pack",
            "kernels/pack*.py",
            "kernels/rotate.py",
            "kernels/round_pack.py",
            "kernels/normalise.py",
            "layout.py",
        ),
        "kvarn_port/reference",
    ),
    # without query heads: their rotation is attention's, and is timed there
    cases=(
        Case(1, CONTEXT, CHUNK, num_query_heads=0, block_size=BLOCK),
        *(Case(b, SHORT, q, num_query_heads=0, block_size=BLOCK) for b in (1, 16) for q in (1, 8)),
    ),
    quick=(
        Case(1, CONTEXT, CHUNK, num_query_heads=0, block_size=BLOCK),
        Case(1, SHORT, 1, num_query_heads=0, block_size=BLOCK),
    ),
    tiny=(Case(1, 200, 150, **{**TINY, "num_query_heads": 0}), Case(2, 190, 3, **TINY)),
    columns=(STORE, PACK),
    formats={STORE: "kvarn_k4v2_g128", PACK: "kvarn_k4v2_g128"},
    targets=(
        Target(
            "rotate keys and values of 2,048 tokens and pack, µs",
            STORE,
            (1, CONTEXT, CHUNK),
            TIME,
            60,
        ),
        *(
            Target(f"nothing to pack, batch {b}, q={q}, µs", PACK, (b, SHORT, q), TIME, 3)
            for b, q in ((1, 1), (1, 8), (16, 1), (16, 8))
        ),
    ),
    judged_on="H200",
)
