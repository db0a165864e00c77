"""The two tiles of kvarn.md 1.6, already rotated, group and head_dim 128, whose records are known.

`GOLDEN` is what a float32 run on a CPU gave; codes may be one off where sums run in another order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Golden:
    """What is known of one tile after some iterations: the first four of each scale, as float16.

    error: of the reconstruction, relative to the tile, root mean square
    packed: the first eight bytes of the codes of row 0
    """

    tile: str
    iterations: int
    before: float
    after: float
    error: float
    sum_of_codes: int
    scale: tuple[float, ...]
    zero_point: tuple[float, ...]
    column_scale: tuple[float, ...]
    packed: tuple[int, ...]


GOLDEN = (
    Golden(
        "key", 8, 11.2557, 2.8115, 0.06587, 122_528,
        (0.100281, 0.204346, 0.28418, 0.44043), (-0.77832, -1.63086, -2.26367, -2.77344),
        (4.183594, 6.308594, 8.296875, 10.367188), (17, 34, 67, 84, 101, 119, 136, 169),
    ),
    Golden(
        "key", 16, 11.2557, 2.3108, 0.06585, 122_540,
        (0.138062, 0.283447, 0.393555, 0.611328), (-1.06738, -2.26953, -3.14258, -3.83984),
        (3.03125, 4.550781, 6.003906, 7.527344), (17, 34, 67, 84, 101, 119, 136, 153),
    ),
    Golden(
        "value", 8, 11.3079, 2.2534, 0.3363, 24_488,
        (0.772949, 1.189453, 1.475586, 2.142578), (-1.18945, -1.90234, -2.35938, -2.70508),
        (2.703125, 5.253906, 7.96875, 10.734375), (0, 85, 85, 170, 170, 255, 3, 85),
    ),
    Golden(
        "value", 16, 11.3079, 2.1338, 0.3363, 24_489,
        (0.849609, 1.31543, 1.625, 2.371094), (-1.30664, -2.10938, -2.60352, -2.98242),
        (2.455078, 4.859375, 7.269531, 9.78125), (0, 85, 85, 170, 170, 255, 3, 85),
    ),
)  # fmt: skip


def golden_tile(name: str) -> torch.Tensor:
    """Return the tile of keys or of values with its rows as they are quantised: [128, 128] float32.

    Rows of "key" are channels, its columns tokens; rows of "value" are tokens. All numbers are
    multiples of 1/32 under 64, so that float16 has them exactly.
    """
    row, column = torch.arange(128)[:, None], torch.arange(128)[None, :]
    base = ((37 * row + 101 * column + (row * column) % 53) % 97 - 48).float() / 16
    if name == "key":
        return base * (1 + row % 7) * (1 + (column % 5) / 2)
    return base * (1 + column % 7) * (1 + (row % 5) / 2)
