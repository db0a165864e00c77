"""Mistakes in the kernel for more than 32 rows of the path for Hopper, for `mutate.py --gpu`.

Each names the calls that are to show it. A barrier that is awaited in another phase has none: the
warpgroups wait for each other for ever, or take a tile that may be there in time or not. Nor has
the order of values' tokens: threads that hold others than the next layout says are refused.
"""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation
from tests.kernels.mutations_gpu_tile import BEYOND, MANY_LONG, MANY_SHORT, MANY_TILES, RING_STEPS

WIDE = KERNELS + "tile_hopper_wide.py"
TILE = KERNELS + "tile_hopper_wide_tile.py"


def _mutation(
    name: str, file: str, old: str, new: str, tests: tuple[str, ...] = (MANY_SHORT,)
) -> Mutation:
    return Mutation(f"tile-gpu-wide-{name}", file, old, new, gpu=True, tests=tests)


UNCHANGED = ()  # mutations_gpu_tile.py has those calls

MUTATIONS = (
    # splits and copies
    _mutation(
        "split-overlaps",
        WIDE,
        "gl.minimum(each, packed - first)",
        "gl.minimum(each + 1, packed - first)",
        (RING_STEPS,),
    ),
    _mutation("codes-of-the-first-head", TILE, "key_desc, [page, head,", "key_desc, [page, 0,"),
    _mutation(
        "page-of-the-tile-before",
        TILE,
        "gl.minimum(i + 2, num - 1))\n        # the scores",
        "gl.minimum(i + 1, num - 1))\n        # the scores",
        (RING_STEPS, MANY_LONG),
    ),
    # numbers
    _mutation(
        "key-codes-off-by-one",
        TILE,
        "mov.b32 o, 0xe400e400;\n        mov.b32 p, 0xd400d400",
        "mov.b32 o, 0xe401e401;\n        mov.b32 p, 0xd400d400",
    ),
    _mutation("high-nibbles-off-by-one", TILE, "mov.b32 p, 0xd400d400", "mov.b32 p, 0xd410d410"),
    _mutation(
        "value-of-the-lower-byte", TILE, "lop3.b32 a, s, 0x00030003", "lop3.b32 a, $8, 0x00030003"
    ),
    _mutation(
        "value-channel-of-the-neighbour",
        TILE,
        "mul.rn.f16x2 $1, b, $12",
        "mul.rn.f16x2 $1, b, $13",
    ),
    _mutation(  # the channel scale in their place
        "values-not-halved",
        TILE,
        '''_twice(scale), tokens, assert_trivial=True),
        gl.convert_layout(_twice(zero), tokens, assert_trivial=True),
    )


@gluon.jit
def _read_channel_scales(scales):
    """[1, 16] of each of eight pairs of channels, eight apart, of each word."""
    x = _bits(scales''',
        """65537 * _bits(scale), tokens, assert_trivial=True),
        gl.convert_layout(65537 * _bits(zero), tokens, assert_trivial=True),
    )


@gluon.jit
def _read_channel_scales(scales):
    x = _bits(gl.full([], HALF, gl.float16) * scales""",
        BEYOND[1:],
    ),
    _mutation(
        "token-scales-of-the-tile-before",
        WIDE,
        "tokens.index((i + 1) & 3)",
        "tokens.index(i & 3)",
        (RING_STEPS, MANY_LONG),
    ),
    _mutation("token-scales-in-their-own-order", TILE, "x = in_rows(_half_of(", "x = (_half_of("),
    _mutation("channels-by-columns", WIDE, "channel = channel_of(", "channel = ("),
    _mutation(
        "weights-of-one-half", WIDE, "gl.convert_layout(halves[0]", "gl.convert_layout(halves[1]"
    ),
    # the maximum
    _mutation(
        "maximum-not-moved",
        WIDE,
        "m_new = gl.maximum(m, _row_maxima(s))",
        "m_new = m",
        (MANY_LONG,),
    ),
    _mutation("sum-without-rescale", WIDE, "sums * part[:, None]", "sums", (RING_STEPS, MANY_LONG)),
    _mutation(
        "output-without-rescale",
        WIDE,
        "out = out * part[:, None]",
        "out = out",
        (RING_STEPS, MANY_LONG),
    ),
    # the ring
    _mutation("ring-of-the-first-rows", WIDE, "start, flat + at,", "start, flat,", (MANY_TILES,)),
)
