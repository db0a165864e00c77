"""Mistakes in tile attention that only a GPU runs, as data; `mutate.py --gpu` tries them.

Those of the path for Hopper, in Gluon, and of the assembly by which path "pointer" unpacks codes.
Each names the calls that are to show it, in their order: every call compiles a kernel or two. More
than 32 rows of the path for Hopper have a kernel of their own: mutations_gpu_tile_wide.py.

Layouts have none: registers that do not lie as the next product reads them are refused where they
are converted (`assert_trivial`), so that such a kernel is not made. Nor have masks of rows past
those that are used: no one reads their cells.
"""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation

TESTS = "tests/kernels/test_tile_attention.py"
HOPPER = KERNELS + "tile_hopper.py"
TILE = KERNELS + "tile_hopper_tile.py"
RING = KERNELS + "tile_hopper_ring.py"
COMBINE = KERNELS + "tile_hopper_combine.py"
UNPACK = KERNELS + "tile_unpack.py"


def _hopper(case: str) -> str:
    return f"{TESTS}::test_the_path_for_hopper_is_within_its_bounds[{case},halves,hopper]"


def _short(case: str) -> str:
    return f"{TESTS}::test_a_short_call_is_within_its_bounds[{case},halves,any]"


# 8 rows, four tiles in a split, whose maxima rise by over 16 in some; 30 rows, whose ring wraps;
# 8 rows, a tile in each split and none idle.
FEW_LONG = _hopper("[16000]x[1],k4v2_g128,D256,8x8heads,padded,steep,causal,bfloat16")
FEW_RING = _hopper("[1500]x[5],k4v2_g128,D256,4x6heads,padded,huge-token,causal,float32")
FEW_FULL = _hopper("[4100]x[1],k4v2_g128,D256,8x8heads,dense,normal,causal,float32")
# More than 32 rows: 24 tiles in a split of peaked scores, several query tiles; one query tile.
MANY_LONG = _hopper("[9000]x[21],k4v2_g128,D256,8x8heads,heads-apart,peaked,causal,float16")
MANY_SHORT = _hopper("[700,8]x[8,8],k4v2_g128,D256,4x6heads,padded,peaked,causal,float32")
ALL_SEEN = _hopper("[37,1000,4321]x[5,5,5],k4v2_g128,D256,4x6heads,dense,normal,all,float16")
# Four query tiles that see little but the ring; a ring of six steps, and up to four tiles a split.
MANY_TILES = _hopper("[1000,129]x[64,64],k4v2_g128,D256,1x4heads,padded,steep,causal,bfloat16")
RING_STEPS = _hopper("[1000,129]x[64,64],k4v2_g128,D256,4x6heads,dense,normal,all,float32")
# Values that pass 65504 before their channel's scale multiplies them, in 6 rows and in 48.
BEYOND = tuple(
    _hopper(f"[1500]x[{n}],k4v2_g128,D256,2x6heads,dense,beyond-half,causal,float32")
    for n in (1, 8)
)
FEW, SHORT = (FEW_LONG, FEW_RING), (FEW_RING, MANY_SHORT)
PARTS = tuple(
    f"tests/kernels/test_tile_hopper_combine.py::test_parts_are_weighed_and_rotated_back[hopper-{n}]"
    for n in (5, 66, 150)
)
TWO_BITS = _short("[129,259]x[1,3],k4v2_g128,D128,2x6heads,padded,huge-token,all,float32")
FOUR_BITS = _short("[131]x[2],k4v4_g128,D256,2x6heads,padded,steep,all,float32")


def _mutation(name: str, file: str, old: str, new: str, tests: tuple[str, ...] = FEW) -> Mutation:
    return Mutation(f"tile-gpu-{name}", file, old, new, gpu=True, tests=tests)


def _unchanged(name: str, *tests: str) -> Mutation:
    return Mutation(name, "kvarn_port/__init__.py", "", "", count=0, gpu=True, tests=tests)


# What fails without any mistake shows nothing: a run of all that is asked of the others.
UNCHANGED = (
    _unchanged("nothing changed in tiles of few rows", FEW_LONG, FEW_RING, FEW_FULL, ALL_SEEN),
    _unchanged("nothing changed in tiles of many rows", MANY_LONG, MANY_SHORT),
    _unchanged("nothing changed in many query tiles", MANY_TILES, RING_STEPS),
    _unchanged("nothing changed in values beyond float16", *BEYOND),
    _unchanged("nothing changed in the second stage", *PARTS),
    _unchanged("nothing changed in assembly", TWO_BITS, FOUR_BITS),
)

MUTATIONS = (
    # splits and copies
    _mutation(
        "split-skips-a-tile", HOPPER, "first = (split - 1) * each", "first = split * (each + 1)"
    ),
    _mutation("split-overlaps", HOPPER, "gl.minimum(each, packed", "gl.minimum(each + 1, packed"),
    _mutation(
        "codes-of-the-first-head",
        HOPPER,
        "key_desc, [page, head, 0, 0], key_bar.index(i)",
        "key_desc, [page, 0, 0, 0], key_bar.index(i)",
    ),
    _mutation("keys-of-the-tile-before", HOPPER, "table + i + STAGES, mask", "table + i, mask"),
    _mutation(
        "values-of-the-tile-before",
        HOPPER,
        "table + i + STAGES - 1, mask",
        "table + i + STAGES - 2, mask",
    ),
    _mutation(
        "scales-of-the-tile-before",
        HOPPER,
        "page = gl.load(table + i + 3, mask=i + 3 < num",
        "page = gl.load(table + i + 2, mask=i + 3 < num",
    ),
    _mutation(
        "values-copied-over-those-in-use",
        HOPPER,
        "value_bar.index(before), values.index(before)",
        "value_bar.index(before), values.index(slot)",
    ),
    _mutation(  # a race, which calls bound by memory lose
        "values-not-awaited-after-the-first-round",
        HOPPER,
        "mbarrier.wait(value_bar.index(slot), (i // STAGES) & 1)",
        "mbarrier.wait(value_bar.index(slot), 0)",
    ),
    # numbers
    _mutation("scores-halved", HOPPER, "scale * (1.0 / HALF), N", "scale, N"),
    _mutation("output-halved", HOPPER, "[N, D // 2, 2]) * (1.0 / HALF)", "[N, D // 2, 2])"),
    _mutation("output-rows-exchanged", HOPPER, "[4, 1, 3, 2, 0, 5]", "[4, 1, 3, 0, 2, 5]"),
    _mutation(
        "query-in-its-own-order",
        HOPPER,
        "q.reshape([N, 8, 2, 4]).permute([0, 1, 3, 2])",
        "q.reshape([N, 8, 2, 4])",
    ),
    _mutation(
        "value-scale-for-zero-point",
        HOPPER,
        "value_scales.slice(G // TC * 4, G // TC * 4",
        "value_scales.slice(0, G // TC * 4",
    ),
    _mutation("places-too-near", TILE, "layout=layout) * 4)", "layout=layout) * 2)"),
    _mutation("key-codes-off-by-one", TILE, "mov.b32 o, 0xe400e400", "mov.b32 o, 0xe401e401"),
    _mutation(
        "key-of-the-lower-byte",
        TILE,
        "fma.rn.f16x2 $1, t, $3, $4",
        "fma.rn.f16x2 $1, s, $3, $4",
    ),
    _mutation(
        "value-of-the-lower-byte",
        TILE,
        "lop3.b32 u, t, 0x00030003",
        "lop3.b32 u, s, 0x00030003",
    ),
    _mutation(
        "value-channel-of-the-neighbour",
        TILE,
        "mul.rn.f16x2 $1, v, $8",
        "mul.rn.f16x2 $1, v, $7",
    ),
    _mutation("key-zero-point-not-halved", TILE, "spread(scales[1] * half", "spread(scales[1]"),
    _mutation(  # the channel scale in their place
        "values-not-halved",
        TILE,
        "spread(scales[4] * half, TC))\n    channels = scales[3]",
        "spread(scales[4], TC))\n    channels = (scales[3] * half)",
        BEYOND[:1],
    ),
    _mutation("channel-scales-exchanged", TILE, ".permute([2, 0, 1, 3])", ".permute([2, 0, 3, 1])"),
    _mutation(
        "token-scales-exchanged",
        TILE,
        "reshape([32, 2, 2]).permute([2, 0, 1])",
        "reshape([32, 2, 2]).permute([1, 0, 2])",
    ),
    _mutation(
        "weights-of-other-tokens",
        TILE,
        "permute([5, 1, 3, 2, 0, 4])",
        "permute([5, 1, 3, 2, 4, 0])",
    ),
    # the maximum
    _mutation("maximum-not-moved", TILE, "m + SLACK, seen, m)", "m + SLACK, m, m)"),
    _mutation(
        "slack-beyond-float16",
        TILE,
        "SLACK = gl.constexpr(8.0)",
        "SLACK = gl.constexpr(24.0)",
        (FEW_LONG,),
    ),
    _mutation("sum-without-rescale", TILE, "m_new, sums * factor", "m_new, sums"),
    _mutation("output-without-rescale", TILE, "out_1 * alpha[None, :]", "out_1"),
    # the ring
    _mutation(
        "causal-late",
        RING,
        "key[None, :] <= position[:, None]",
        "key[None, :] <= 1 + position[:, None]",
        SHORT,
    ),
    _mutation(
        "ring-sees-the-first-query-tile",
        RING,
        "(flat + gl.arange(0, M, layout=rows)) // RATIO",
        "(gl.arange(0, M, layout=rows)) // RATIO",
        (MANY_TILES,),
    ),
    _mutation("ring-from-its-first-row", RING, "row = n % ring_rows + at", "row = at", SHORT),
    _mutation(
        "ring-does-not-wrap", RING, "gl.where(row < ring_rows, row, row - ring_rows)", "row", SHORT
    ),
    _mutation(
        "one-key-too-many", RING, "(key < end)[None, :]", "(key <= end)[None, :]", (ALL_SEEN,)
    ),
    _mutation(
        "ring-shares-overlap",
        RING,
        "share * rows",
        "share * (rows - 1)",
        (ALL_SEEN, FEW_RING),
    ),
    _mutation(
        "ring-shares-rounded-down",
        RING,
        "(seq_len - begin + shares - 1) >> halvings",
        "(seq_len - begin) >> halvings",
        (ALL_SEEN,),
    ),
    _mutation(
        "ring-of-a-split-in-use",
        RING,
        "(splits - (1 << i)) * each >= packed",
        "(splits - (1 << i) + 1) * each >= packed",
        (FEW_FULL,),
    ),
    _mutation("ring-sum-without-rescale", RING, "total * alpha + gl", "total + gl", (RING_STEPS,)),
    _mutation(
        "ring-output-without-rescale",
        RING,
        "acc = acc * alpha[:, None]",
        "acc = acc",
        (RING_STEPS,),
    ),
    # the second stage
    _mutation(
        "combine-without-weight", COMBINE, "gl.exp2(maxima[j] - new), 0.0", "1.0, 0.0", PARTS
    ),
    _mutation("combine-without-rescale", COMBINE, "out = out * old[:, None]", "out = out", PARTS),
    _mutation(
        "combine-sum-without-rescale",
        COMBINE,
        "denominator = denominator * old",
        "denominator += 0.0",
        PARTS,
    ),
    _mutation(
        "combine-adds-empty-splits",
        COMBINE,
        "gl.where(full[:, None], parts[j], 0.0)",
        "parts[j]",
        PARTS,
    ),
    _mutation(
        "combine-reads-no-second-trip", COMBINE, "max_at += EACH * STEP", "max_at += 0", PARTS
    ),
    _mutation(
        "combine-groups-alike",
        COMBINE,
        "gl.exp2(top - gl.max(top, 0))",
        "gl.exp2(top - top)",
        PARTS,
    ),
    _mutation(
        "rotated-back-with-a-sign-lost",
        COMBINE,
        "odd ^ (odd >> 2) ^ (odd >> 1)",
        "odd ^ (odd >> 1)",
        PARTS,
    ),
    _mutation(
        "rotated-back-without-a-lane", COMBINE, "gl.static_range(5)", "gl.static_range(4)", PARTS
    ),
    # assembly of path "pointer"
    _mutation(
        "low-nibbles-off", UNPACK, "mov.b32 c, 0xe008e008", "mov.b32 c, 0xe009e009", (TWO_BITS,)
    ),
    _mutation(
        "high-nibbles-off", UNPACK, "mov.b32 d, 0xd080d080", "mov.b32 d, 0xd088d088", (TWO_BITS,)
    ),
    _mutation(
        "keys-of-the-first-bytes",
        UNPACK,
        "prmt.b32 b, $4, 0x64646464, 0x4342",
        "prmt.b32 b, $4, 0x64646464, 0x4140",
        (TWO_BITS,),
    ),
    _mutation(
        "middle-of-another-code",
        UNPACK,
        "mov.b32 four, 0x44004400",
        "mov.b32 four, 0x45004500",
        (TWO_BITS,),
    ),
    _mutation(
        "second-value-is-the-first",
        UNPACK,
        "and.b32 $2, a, 0x000c000c",
        "and.b32 $2, a, 0x00030003",
        (TWO_BITS,),
    ),
    _mutation(
        "third-value-of-the-first-bytes",
        UNPACK,
        "and.b32 $5, b, 0x00300030",
        "and.b32 $5, a, 0x00300030",
        (TWO_BITS,),
    ),
    _mutation(
        "last-value-without-a-bit",
        UNPACK,
        "and.b32 $7, b, 0x00c000c0",
        "and.b32 $7, b, 0x00400040",
        (TWO_BITS,),
    ),
    _mutation(
        "low-value-of-the-first-bytes",
        UNPACK,
        "and.b32 $1, b, 0x000f000f",
        "and.b32 $1, a, 0x000f000f",
        (FOUR_BITS,),
    ),
    _mutation(
        "high-value-without-a-bit",
        UNPACK,
        "and.b32 $3, b, 0x00f000f0",
        "and.b32 $3, b, 0x00700070",
        (FOUR_BITS,),
    ),
    _mutation(
        "places-lifted-alike",
        UNPACK,
        "2.0 ** (24 - place * bits)",
        "2.0**24",
        (TWO_BITS, FOUR_BITS),
    ),
)
