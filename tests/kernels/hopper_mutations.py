"""Mistakes in path "int8", as data; `mutate.py --gpu` tries them.

They need a Hopper GPU: Triton's interpreter knows no Gluon.
"""

from __future__ import annotations

from tests.kernels.mutations import KERNELS, Mutation

KERNEL = KERNELS + "verify_int8.py"
TILE = KERNELS + "verify_int8_tile.py"

# Tests of path "int8" in which each of its mutations shows: heads that begin 8 bytes late are in
# all. Copies of 16 and of 64 tokens, one to four tiles in a split, 24 to 1,024 rows, both dtypes.
HANDFUL = (
    "test_what_no_query_sees_may_be_anything[int8, bf16 query-128]",
    *(
        f"test_codes_are_read_by_the_copy_engine_within_the_same_bounds[{case}]"
        for case in (
            "[150,9]x[4,1],int8-fp16-query,D256,4x6heads,block16,NHD-padded,window0,huge-token,int8",
            "[700,8]x[8,8],int8-bf16-query,D128,4x6heads,block128,NHD,window0,huge-token,int8",
            "[700,8]x[8,8],int8-bf16-query,D128,2x6heads,block16,NHD-padded,window7,tiny-values,int8",
            "[600,4000]x[32,32],int8-bf16-query,D128,4x6heads,block432,NHD,window0,mixed,int8",
            "[1000]x[64],int8-bf16-query,D128,2x3heads,block48,NHD,window0,peaked,int8",
            "[1000]x[64],int8-fp16-query,D256,2x16heads,block16,NHD-padded,window0,normal,int8",
        )
    ),
)


def _mutation(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"hopper-{name}", file, old, new, gpu=True)


HOPPER_MUTATIONS = (
    _mutation(
        "key-scale-of-the-other-words",
        TILE,
        "ks = _word(key_tail.index(slot), late, False",
        "ks = _word(key_tail.index(slot), late, True",
    ),
    _mutation(
        "values-turned-a-word-too-few",
        TILE,
        "turn = gl.where(late, 3, 1)",
        "turn = gl.where(late, 2, 0)",
    ),
    _mutation(
        "mended-keys-not-stored",
        TILE,
        "key_words.index(following).slice(0, 4, dim=1).store(key_begin)",
        "key_begin = key_begin",
    ),
    _mutation(
        "mended-keys-of-the-first-tile-not-stored",
        KERNEL,
        "key_words.index(0).slice(0, 4, dim=1).store(key_begin)",
        "key_begin = key_begin",
    ),
    _mutation("query-not-turned", KERNEL, "D - gl.where(late, 8, 0)) % D", "D) % D"),
    _mutation(
        "window-wide",
        TILE,
        "at[None, :] > position[:, None] - window)",
        "at[None, :] >= position[:, None] - window)",
    ),
    _mutation(
        "seen-beyond-the-window",
        TILE,
        "gl.where((at >= oldest) & (at < end), vs, 0.0)",
        "gl.where(at < end, vs, 0.0)",
    ),
    _mutation(
        "tail-of-value-scales-unmasked",
        TILE,
        "gl.where((at >= oldest) & (at < end), vs, 0.0)",
        "gl.where(at >= oldest, vs, 0.0)",
    ),
    _mutation(
        "clear-a-tile-too-far",
        KERNEL,
        "(seq_len - q_len + token + 1 - n0) // N",
        "(seq_len - q_len + token + N - n0) // N",
    ),
    _mutation(
        "output-without-the-growth",
        TILE,
        "acc1 = acc1 * (alpha1 * grow)[:, None]",
        "acc1 = acc1 * alpha1[:, None]",
    ),
    _mutation("no-rescale-past-the-slack", TILE, "(moved > 0.0) | (grow < 1.0)", "grow < 1.0"),
    _mutation("sum-without-rescale", TILE, "sums = sums * old[:, None, None]", "sums = sums"),
    _mutation(
        "split-overlaps", KERNEL, "gl.minimum(each, gl.cdiv(end", "gl.minimum(each + 1, gl.cdiv(end"
    ),
    _mutation(
        "split-skips-a-tile", KERNEL, "low + split * each * N", "low + split * (each + 1) * N"
    ),
    _mutation(
        "keys-of-the-tile-before",
        TILE,
        "n + STAGES * N, slot, column, more_keys",
        "n + N, slot, column, more_keys",
    ),
    _mutation(
        "page-of-the-first-box",
        TILE,
        "table + (n + j * BOX_N) // BLOCK_SIZE",
        "table + n // BLOCK_SIZE",
    ),
    _mutation("scale-words-swapped", TILE, "gl.where(late, two, one)", "gl.where(late, one, two)"),
    _mutation(
        "second-rows-at-the-first-ones-positions",
        KERNEL,
        "(flat + M1 + gl.arange(0, MM",
        "(flat + gl.arange(0, MM",
    ),
    _mutation("output-not-turned-back", TILE, "(word + D // 4 - turn) %", "(word + D // 4) %"),
)
