"""What may vary in one call of tile attention, and the calls that are tried; no torch in here.

Small calls, in which every pair of values appears, run under Triton's interpreter and on a GPU;
many tiles, and every preset with every head size, on a GPU alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kvarn_port.layout import HEAD_DIMS, PRESETS
from tests.kernels.pairs import pairwise

Counts = tuple[int, ...]

# Dense: records behind each other. Padded: pages lie further apart, the first inside its storage.
# Heads apart: all pages of a head behind each other, records of a power of two.
PLACES = ("dense", "padded", "heads apart")

# Normal: keys and values of about N(0, 1). Peaked: scores of about ±30. Tiny: values of 1e-5, whose
# scales are float16's smallest. Huge: one token a hundred times as large as the rest. Steep: scales
# of tokens and channels from 1/8 to 8.
INPUTS = ("normal", "peaked", "tiny values", "huge token", "steep")
# Values of one token of each tile reach from -52,000 to 64,500. Codes make 75,000 of the largest,
# which float16 does not hold, before the channel's scale, 0.74 to 0.86, multiplies them.
BEYOND_HALF = "beyond half"

OUTPUTS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class TileCase:
    """One call: requests of `seq_lens` tokens, the last `query_lens` of each being asked.

    ratio: query heads a key head
    padded: requests that are rows of a captured graph without a slot
    output: name of a torch dtype
    path: the path that is forced; None leaves the choice to the kernel
    """

    seq_lens: Counts
    query_lens: Counts
    preset: str = "kvarn_k4v2_g128"
    head_dim: int = 64
    kv_heads: int = 2
    ratio: int = 4
    place: str = "dense"
    inputs: str = "normal"
    causal: bool = True
    output: str = "float32"
    precise: bool = False
    padded: Counts = ()
    path: str | None = None
    seed: int = 0

    def __str__(self) -> str:
        """Return the case as the id of a test."""
        words = [
            f"{list(self.seq_lens)}x{list(self.query_lens)}".replace(" ", ""),
            self.preset.removeprefix("kvarn_"),
            f"D{self.head_dim}",
            f"{self.kv_heads}x{self.ratio}heads",
            self.place.replace(" ", "-"),
            self.inputs.replace(" ", "-"),
            "causal" if self.causal else "all",
            self.output,
            "precise" if self.precise else "halves",
            self.path or "any",
        ]
        return ",".join(words)


def requests_for(group: int) -> dict[str, tuple[Counts, Counts, Counts]]:
    """Return short batches by name: tokens, query tokens, and which requests have no slot."""
    return {
        "nothing committed": ((3,), (3,), ()),
        "only the ring": ((40,), (2,), ()),
        "a token before the end of a tile": ((group,), (1,), ()),
        "at the end of a tile": ((group + 1, 2 * group + 3), (1, 3), ()),
        "a token past the end of a tile": ((group + 3,), (2,), ()),
        "the ring wraps": ((2 * group + 2,), (4,), ()),
        "ragged": ((2 * group + 30, 0, 9), (1, 0, 5), ()),
        "padded": ((group + 9, 12, 30), (1, 1, 2), (1,)),
    }


SMALL: Mapping[str, tuple[Any, ...]] = {
    "requests": tuple(requests_for(64)),
    "preset": tuple(PRESETS),
    "heads": ((3, 1), (1, 4), (2, 6), (1, 8), (1, 20)),
    "inputs": INPUTS,
    "arithmetic": (("float32", False), ("float32", True), ("bfloat16", False), ("float16", False)),
    "place": PLACES,
    "head_dim": HEAD_DIMS,
    "causal": (True, False),
}

# (tokens of each request, query tokens of every request)
LONG_REQUESTS: tuple[tuple[Counts, int], ...] = (
    ((1500,), 5),
    ((37, 1000, 4321), 5),
    ((16000,), 1),
    ((700, 8), 8),
    ((2000, 300), 16),
    ((9000,), 21),
    ((12000,), 32),
    ((600, 4000), 33),
    ((1000, 129), 64),
)

LONG: Mapping[str, tuple[Any, ...]] = {
    **SMALL,
    "requests": tuple((seq, (q,) * len(seq), ()) for seq, q in LONG_REQUESTS),
    "heads": ((3, 1), (1, 4), (4, 6), (1, 8), (2, 16)),
}


def read_by_hopper(case: TileCase) -> bool:
    """Whether a case that forces no path is read by the path for Hopper on such a GPU."""
    return (case.preset, case.head_dim, case.precise) == ("kvarn_k4v2_g128", 256, False)


def small_cases(path: str | None = None) -> list[TileCase]:
    """Return short calls that show every pair of SMALL's values."""
    return [
        _case(row, requests_for(PRESETS[row["preset"]].group)[row["requests"]], path, number)
        for number, row in enumerate(pairwise(SMALL))
    ]


def long_cases(path: str | None = None) -> list[TileCase]:
    """Return calls over many tiles that show every pair of LONG's values, and more tiles yet."""
    return [
        _case(row, row["requests"], path, 1000 + number)
        for number, row in enumerate(pairwise(LONG))
    ] + [
        TileCase((70000,), (query_len,), head_dim=256, kv_heads=1, ratio=6, path=path, seed=1900)
        for query_len in (1, 8, 16)
    ]


# What the path for Hopper reads: one layout, float16 operands, up to 64 query heads a key head.
HOPPER: Mapping[str, tuple[Any, ...]] = {
    **SMALL,
    "requests": (
        *((seq, (q,) * len(seq), ()) for seq, q in LONG_REQUESTS),
        *requests_for(128).values(),
    ),
    "preset": ("kvarn_k4v2_g128",),
    "head_dim": (256,),
    "heads": ((3, 1), (1, 4), (4, 6), (1, 8), (8, 8), (2, 16), (1, 24), (1, 64)),
    "arithmetic": (("float32", False), ("bfloat16", False), ("float16", False)),
}


def hopper_cases() -> list[TileCase]:
    """Return the calls of the path for Hopper, which show every pair of HOPPER's values.

    And values that are too large before they are multiplied, in few rows and in many; and few rows
    of whose splits none is idle on a GPU of 132 multiprocessors.
    """
    return [
        _case(row, row["requests"], "hopper", 3000 + number)
        for number, row in enumerate(pairwise(HOPPER))
    ] + [
        TileCase(
            (1500,), (query_len,), head_dim=256, ratio=6, inputs=BEYOND_HALF, path="hopper",
            seed=3900 + query_len,
        )
        for query_len in (1, 8)
    ] + [
        TileCase((4100,), (1,), head_dim=256, kv_heads=8, ratio=8, path="hopper", seed=3910)
    ]  # fmt: skip


def _case(
    row: dict[str, Any], requests: tuple[Counts, Counts, Counts], path: str | None, seed: int
) -> TileCase:
    seq_lens, query_lens, padded = requests
    kv_heads, ratio = row["heads"]
    output, precise = row["arithmetic"]
    named = {field.name for field in fields(TileCase)}
    rest = {name: value for name, value in row.items() if name in named}
    return TileCase(
        seq_lens,
        query_lens,
        kv_heads=kv_heads,
        ratio=ratio,
        output=output,
        precise=precise,
        padded=padded,
        path=path,
        seed=seed,
        **rest,
    )


# (query tokens, ratio) by the rows that a query tile has room for: each class is a kernel of its
# own, ratios and rows that are used are constants of it.
ROW_CLASSES: Mapping[int, tuple[Counts, ...]] = {
    16: ((1, 1), (2, 8), (1, 6), (2, 4)),
    32: ((5, 6), (8, 4), (32, 1), (17, 1)),
    64: ((8, 8), (64, 1), (8, 6), (16, 4)),
    128: ((16, 6), (17, 4), (64, 6), (32, 8)),  # the last two take more than one tile
}


def matrix(path: str | None = None) -> list[TileCase]:
    """Return every preset with every head size and class of rows, for a GPU.

    Of a class's query tokens and ratios each preset has another one, and each head size.
    """
    return [
        TileCase(
            (3 * PRESETS[preset].group + 40 + query_len, query_len + 5),
            (query_len, query_len),
            preset=preset,
            head_dim=head_dim,
            ratio=ratio,
            path=path,
            seed=2000 + query_len,
        )
        for row, preset in enumerate(PRESETS)
        for column, head_dim in enumerate(HEAD_DIMS)
        for choices in ROW_CLASSES.values()
        for query_len, ratio in [choices[(row + column) % len(choices)]]
    ]
