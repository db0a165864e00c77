"""Plans of verify attention fit the shared memory of a GPU and the scratch of the maxima."""

from __future__ import annotations

import pytest

from kvarn_port.kernels.verify_plan import Device, Shape, choose_plan

HOPPER = Device(sm_count=132, shared_bytes=232_448, has_tma=True)
ADA = Device(sm_count=142, shared_bytes=101_376, has_tma=False)
BF16 = Shape(
    num_query_heads=24, num_kv_heads=4, head_dim=256, block_size=64, operand_bytes=2, cache_bytes=2
)


@pytest.mark.parametrize(
    ("device", "query_len", "tile"),
    [
        (HOPPER, 8, (64, 32, 4)),
        (HOPPER, 16, (128, 64, 8)),
        (ADA, 8, (64, 32, 4)),
        # 128 x 64 takes (128 x 256 + 64 x 256 + 128 x 64) x 2 = 114,688 bytes, and is refused at
        # its launch: without the comparison with shared_bytes this is (128, 64, 8)
        (ADA, 16, (64, 32, 4)),
    ],
)
def test_a_tile_fits_the_shared_memory(
    device: Device, query_len: int, tile: tuple[int, int, int]
) -> None:
    plan = choose_plan(BF16, device, 4, query_len)
    assert (plan.block_m, plan.block_n, plan.warps) == tile


def test_heads_of_128_keep_the_large_tile_on_a_small_gpu() -> None:
    shape = Shape(24, 4, 128, 64, operand_bytes=2, cache_bytes=2)
    assert choose_plan(shape, ADA, 4, 16).block_m == 128


@pytest.mark.parametrize(("query_len", "tiles"), [(10, 1), (11, 2), (16, 2), (20, 2), (21, 3)])
def test_smaller_tiles_are_more_of_them(query_len: int, tiles: int) -> None:
    # 10 tokens of 6 heads in 64 rows
    assert choose_plan(BF16, ADA, 4, query_len).tiles == tiles
