"""What may vary in one call of verify attention, and the calls that are tried; no torch in here.

Small calls, in which every pair of values appears, run under Triton's interpreter and on a GPU;
long contexts, and the requests of kvarn.md §8.2 in every format, on a GPU alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.kernels.pairs import pairwise

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Format:
    """What is stored and what is asked, and whether the kernel is to compute in float32.

    cache, query: names of torch dtypes
    """

    cache: str
    query: str
    precise: bool = False


FORMATS = {
    "bf16": Format("bfloat16", "bfloat16"),
    "fp16": Format("float16", "float16"),
    "fp8, bf16 query": Format("float8_e4m3fn", "bfloat16"),
    "fp8, fp16 query": Format("float8_e4m3fn", "float16"),
    "int8, bf16 query": Format("int8", "bfloat16"),
    "int8, fp16 query": Format("int8", "float16"),
    "fp32": Format("float32", "float32", precise=True),
    "int8, fp32 query": Format("int8", "float32", precise=True),
}

# Where a page and a head lie. NHD: a page holds tokens of heads; HND: heads of tokens. Padded: the
# page stride is larger than the page, and the cache begins inside its storage; 16-byte aligned.
# Odd: as padded, but pages begin at any multiple of 8 bytes, as a shared page may make them.
LAYOUTS = ("NHD", "HND", "NHD padded", "HND odd")

# Normal: N(0, 1). Peaked: scores of about ±30. Mixed: tokens of magnitudes 1/8 to 8. Tiny: values
# of 0.001. Huge: one token a hundred times as large as the rest.
INPUTS = ("normal", "peaked", "mixed", "tiny values", "huge token")


@dataclass(frozen=True)
class Case:
    """One call: requests of `seq_lens` tokens, the last `query_lens` of each being asked.

    ratio: query heads a key head
    path: the path that is forced; None leaves the choice to the kernel
    """

    seq_lens: Counts
    query_lens: Counts
    format: str = "bf16"
    head_dim: int = 64
    kv_heads: int = 2
    ratio: int = 6
    block_size: int = 16
    layout: str = "NHD"
    window: int = 0
    inputs: str = "normal"
    path: str | None = None
    seed: int = 0

    def __str__(self) -> str:
        """Return the case as the id of a test."""
        words = [
            f"{list(self.seq_lens)}x{list(self.query_lens)}".replace(" ", ""),
            self.format.replace(", ", "-").replace(" ", "-"),
            f"D{self.head_dim}",
            f"{self.kv_heads}x{self.ratio}heads",
            f"block{self.block_size}",
            self.layout.replace(" ", "-"),
            f"window{self.window}",
            self.inputs.replace(" ", "-"),
            self.path or "any",
        ]
        return ",".join(words)


def requests_for(block_size: int) -> dict[str, tuple[Counts, Counts]]:
    """Return short batches by name: the tokens and the query tokens of every request."""
    return {
        "one token": ((1,), (1,)),
        "shorter than a tile": ((5,), (3,)),
        "decode": ((140, 3), (1, 1)),
        "at the end of a page": ((block_size, block_size + 1), (1, 2)),
        "ragged": ((150, 9), (4, 1)),
        "padding": ((30, 0, 70, 0), (1, 0, 2, 0)),
        "all are asked": ((6,), (6,)),
    }


# (key heads, query heads of each): one tile of 64 rows holds 64, 21, 10, 8 and 4 tokens of them,
# and not one of 80; an odd number of key heads leaves int8's rows at other addresses.
HEADS = ((3, 1), (2, 3), (2, 6), (1, 8), (2, 16), (1, 80))

SMALL: dict[str, tuple[Any, ...]] = {
    "requests": tuple(requests_for(16)),
    "format": tuple(FORMATS),
    "heads": HEADS,
    "inputs": INPUTS,
    "block_size": (16, 48, 128, 432, 448),
    "layout": LAYOUTS,
    "head_dim": (64, 128, 256),
    "window": (0, 7, 1024),
}

# kvarn.md §8.2: (tokens of each request, query tokens of every request)
LISTED: tuple[tuple[Counts, int], ...] = (
    ((1500,), 5),
    ((37, 1000, 4321), 5),
    ((16000,), 1),
    ((700, 8), 8),
    ((432,), 5),
    ((433, 431), 3),
    ((1500,), 16),
    ((2000, 300), 16),
    ((9000,), 21),
    ((1500,), 22),
    ((25000,), 32),
    ((600, 4000), 32),
    ((1000,), 64),
)

LONG: dict[str, tuple[Any, ...]] = SMALL | {
    "requests": (
        *((seq, (q,) * len(seq)) for seq, q in LISTED),
        ((3000,), (200,)),
        ((777,), (33,)),
    ),
    "heads": (*HEADS, (4, 6), (8, 8)),
}


def small_cases(path: str | None = None) -> list[Case]:
    """Return short calls that show every pair of SMALL's values."""
    return [
        _case(row, requests_for(row["block_size"])[row["requests"]], path, number)
        for number, row in enumerate(pairwise(SMALL))
    ]


def long_cases(path: str | None = None) -> list[Case]:
    """Return calls over long contexts that show every pair of LONG's values."""
    return [
        _case(row, row["requests"], path, 1000 + number)
        for number, row in enumerate(pairwise(LONG))
    ]


def _case(row: dict[str, Any], lengths: tuple[Counts, Counts], path: str | None, seed: int) -> Case:
    kv_heads, ratio = row["heads"]
    rest = {name: row[name] for name in row if name not in ("requests", "heads")}
    return Case(*lengths, kv_heads=kv_heads, ratio=ratio, **rest, path=path, seed=seed)


def listed_cases(path: str | None = None) -> list[Case]:
    """Return kvarn.md §8.2's requests in every format and head size, in its blocks of 432."""
    return [
        Case(
            seq_lens,
            (query_len,) * len(seq_lens),
            format=name,
            head_dim=head_dim,
            kv_heads=4,
            block_size=432,
            path=path,
            seed=2000 + number,
        )
        for number, (seq_lens, query_len) in enumerate(LISTED)
        for name in FORMATS
        for head_dim in (64, 128, 256)
    ]


def read_by_tma(case: Case) -> bool:
    """Return whether path "tma" reads a case: it takes addresses of whole 16 bytes."""
    return FORMATS[case.format].cache != "int8" and case.layout != "HND odd"


def path_cases() -> list[Case]:
    """Return some of the short calls, each with a path that reads it; nothing is refused here.

    What path "tma" does not read is test_verify_refusals's.
    """
    small = small_cases()
    chosen = {"tma": [case for case in small if read_by_tma(case)][::2], "pointer": small[::3]}
    return [replace(case, path=path) for path, cases in chosen.items() for case in cases]


def chosen_anyway(case: Case) -> bool:
    """Return whether the interpreted kernel takes the path of a case by itself."""
    return case.path == ("tma" if read_by_tma(case) else "pointer")


# What path "int8" reads: tokens next to each other at 16 bytes, and so an even number of heads.
TURNED: dict[str, tuple[Any, ...]] = {
    "format": ("int8, bf16 query", "int8, fp16 query"),
    "layout": ("NHD", "NHD padded"),
    "head_dim": (128, 256),
    "heads": ((2, 3), (2, 6), (4, 6), (2, 16), (2, 80), (2, 1)),
}


def hopper_cases() -> list[Case]:
    """Return short and long calls of path "int8", every pair of their values among them."""
    short, long = SMALL | TURNED, LONG | TURNED
    return [
        _case(row, requests_for(row["block_size"])[row["requests"]], "int8", 3000 + number)
        for number, row in enumerate(pairwise(short))
    ] + [
        _case(row, row["requests"], "int8", 4000 + number)
        for number, row in enumerate(pairwise(long))
    ]
