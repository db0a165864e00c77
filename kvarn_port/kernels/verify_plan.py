"""How one call of verify attention is cut into programs, from what the host knows alone.

Nothing here reads a tensor: a plan stays right for every replay of a CUDA graph. No Triton either.
"""

from __future__ import annotations

from dataclasses import dataclass

# A split of a long request should fill the GPU by itself; with many requests, no more than this
# many programs a multiprocessor, so that parts stay small beside the cache.
PROGRAMS_PER_SM = 4
# Fewer tiles than this in a split cost more in the parts they leave than they save in waiting.
TILES_PER_SPLIT = 2
# What a kernel's barriers, scales and spilled layouts may need beside its buffers.
SPARE_SHARED_BYTES = 12 << 10


@dataclass(frozen=True)
class Device:
    """What a plan needs to know of a GPU.

    shared_bytes: shared memory that one program may have
    has_tma: compute capability 9.0 and later copy boxes of a tensor into shared memory
    """

    sm_count: int
    shared_bytes: int
    has_tma: bool


@dataclass(frozen=True)
class Shape:
    """What decides a plan in one server, for good.

    operand_bytes: size of an element in both dots
    cache_bytes: size of an element of the cache
    """

    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    block_size: int
    operand_bytes: int
    cache_bytes: int

    @property
    def ratio(self) -> int:
        """Return the query heads of a KV head."""
        return self.num_query_heads // self.num_kv_heads


@dataclass(frozen=True)
class Plan:
    """The launch of one call: programs = requests x tiles, KV heads, splits.

    block_m, block_n: query rows and keys of a tile
    rows: rows of a tile that are used; row r of tile t is row t * rows + r of its request, query
        token // ratio, head of the group % ratio. A tile holds whole tokens where one fits.
    tiles: query tiles of the longest request
    splits: parts of the keys, at most; a split has no fewer than tiles_per_split tiles of keys
    """

    block_m: int
    block_n: int
    rows: int
    tiles: int
    splits: int
    warps: int
    stages: int
    tiles_per_split: int = TILES_PER_SPLIT

    def programs(self, requests: int, num_kv_heads: int) -> int:
        """Return the number of programs, each of which leaves one part."""
        return requests * self.tiles * num_kv_heads * self.splits


def rows_of(block_m: int, ratio: int) -> int:
    """Return the used rows of a tile: whole tokens, or all of it where a token does not fit."""
    return block_m // ratio * ratio if ratio <= block_m else block_m


def count_splits(units: int, unsplit: int, device: Device) -> int:
    """Return into how many parts the keys are cut.

    units: programs of the call without splits; unsplit: those of one request
    """
    return max(1, min(device.sm_count // unsplit, PROGRAMS_PER_SM * device.sm_count // units))


def choose_plan(shape: Shape, device: Device, requests: int, max_query_len: int) -> Plan:
    """Return the plan of a call for its shape and its longest query."""
    block_m, block_n, warps, most_stages = _tile(shape, device, max_query_len * shape.ratio)
    while shape.block_size % block_n:
        block_n //= 2
    used = rows_of(block_m, shape.ratio)
    tiles = -(-max_query_len * shape.ratio // used)
    unsplit = tiles * shape.num_kv_heads
    return Plan(
        block_m=block_m,
        block_n=block_n,
        rows=used,
        tiles=tiles,
        splits=count_splits(requests * unsplit, unsplit, device),
        warps=warps,
        stages=_stages(shape, device, block_m, block_n, most_stages),
    )


def block_ms(rows: int) -> tuple[int, ...]:
    """Return the sizes of query tile that calls of up to this many rows have."""
    return (16, 32, 48, 64) if rows <= 64 else (16, 48, 64, 128)


def _tile(shape: Shape, device: Device, rows: int) -> tuple[int, int, int, int]:
    """Return block_m, block_n, warps and stages by what was fastest on an H200 (2026-11-30).

    D 256, bf16, 131,072 keys: 64 x 32 x 4 warps 133 us at 8 query tokens, 128 x 64 x 8 warps 174
    at 16. Float32 dots run on the plain units, unrolled: 16 x 16 x 8 warps is the largest tile of
    D 256 whose loop stays nearly without spills (ptxas of CUDA 12.8, sm_90).
    """
    if shape.operand_bytes == 4:
        return 16, 16, 8, 2
    if rows <= 64 or device.shared_bytes < _least_bytes(shape, 128, 64):
        return 64, 32 if shape.head_dim > 128 else 64, 4, 5
    return 128, 64, 8, 3


def _least_bytes(shape: Shape, block_m: int, block_n: int) -> int:
    """Return the shared memory of a tile's query, its weights and one tile of keys as operands.

    As much as Triton 3.6 allocates for bf16 at one stage: at D 256 and 128 x 64, 114,688 bytes,
    which GPUs of compute capability 8.6, 8.9 and 12.0 (101,376 bytes) do not have.
    """
    elements = block_m * shape.head_dim + block_n * shape.head_dim + block_m * block_n
    return elements * shape.operand_bytes


def _stages(shape: Shape, device: Device, block_m: int, block_n: int, most: int) -> int:
    """Return how many tiles of keys and values are under way, as far as shared memory goes."""
    query_bytes = block_m * shape.head_dim * shape.operand_bytes
    tile_bytes = 2 * block_n * shape.head_dim * shape.cache_bytes
    if shape.cache_bytes != shape.operand_bytes:  # converted operands lie beside what was read
        query_bytes += 2 * block_n * shape.head_dim * shape.operand_bytes
    room = device.shared_bytes - SPARE_SHARED_BYTES - query_bytes
    return max(1, min(most, room // tile_bytes))
