"""What a record holds, half by half, and which ones a tile may be packed into. No kernel in here.

Where a tile is balanced as far as float32 goes, or all of its scales are at their limit, the
imbalances of several iterations are equal but for the order of sums, and which of them is the least
is chance. Each of those records is right: the scales of one axis are larger by what the others are
smaller. `turns` says in float64 which they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvarn_port.layout import TileLayout
from kvarn_port.reference.tiles import (
    INNER_PART,
    fit,
    fit_to_rows,
    round_to_nearest,
    to_float16,
    unpack_codes,
)
from tests.kernels.steps import Step

# Relative: of imbalances in float32 of tiles whose means are 300 deviations.
TIE = 2e-5
# Of zero points, in steps: many roundings of float32, and a 32nd of that of a step to float16.
ROUNDING = 2**-16


@dataclass(frozen=True)
class Half:
    """The keys or the values of one record: codes [rows, columns] and float16 scales.

    Rows are what is quantised: channels of keys, tokens of values. Rows of float16 lie on a grid,
    so that some are half way between two codes, and float32 decides.
    """

    codes: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor
    column_scale: torch.Tensor
    exact: torch.Tensor | None = None  # where codes are known before they are rounded
    blur: torch.Tensor | None = None  # what float32 may move each of these by


@dataclass(frozen=True)
class Apart:
    """How much of a half differs; further: by more than one code or unit in the last place."""

    codes: int = 0
    scales: int = 0
    further: int = 0

    def __add__(self, other: Apart) -> Apart:
        """Return what differs in both."""
        return Apart(
            self.codes + other.codes, self.scales + other.scales, self.further + other.further
        )


def halves(record: torch.Tensor, layout: TileLayout) -> tuple[Half, Half]:
    """Return the keys and the values of a record, [tile_bytes or more] uint8."""
    group, head_dim = layout.group, layout.head_dim

    def codes(at: int, rows: int, columns: int, bits: int) -> torch.Tensor:
        octets = record[at : at + rows * columns * bits // 8]
        return unpack_codes(octets, bits).unflatten(0, (rows, columns))

    def scale(at: int, count: int) -> torch.Tensor:
        return record[at : at + 2 * count].contiguous().view(torch.float16)

    return (
        Half(
            codes(layout.key_codes, head_dim, group, layout.key_bits),
            scale(layout.key_channel_scale, head_dim),
            scale(layout.key_zero_point, head_dim),
            scale(layout.key_token_scale, group),
        ),
        Half(
            codes(layout.value_codes, group, head_dim, layout.value_bits),
            scale(layout.value_token_scale, group),
            scale(layout.value_zero_point, group),
            scale(layout.value_channel_scale, head_dim),
        ),
    )


def apart(one: Half, other: Half) -> Apart:
    """Return how far two halves are apart; codes that may be either where the other is exact."""
    codes = (one.codes.int() - other.codes.int()).abs()
    if other.exact is not None:
        either = (one.codes - other.exact).abs() <= 0.5 + other.blur
        codes = torch.where(either, 0, codes)
    pairs = (
        (one.scale, other.scale),
        (one.zero_point, other.zero_point),
        (one.column_scale, other.column_scale),
    )
    off = [(places(a) - places(b)).abs() for a, b in pairs]
    # a fitted zero point is a difference of up to three steps, and may be next to 0
    same = (one.zero_point.float() - other.zero_point.float()).abs() <= other.scale * ROUNDING
    off[1] = torch.where(same, 0, off[1])
    scales = torch.cat(off)
    further = int((codes > 1).sum()) + int((scales > 1).sum())
    return Apart(int((codes > 0).sum()), int((scales > 0).sum()), further)


def places(x: torch.Tensor) -> torch.Tensor:
    """Return float16 as integers whose neighbours are neighbours; 0 and -0 are one."""
    bits = x.contiguous().view(torch.int16).int()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def turns(
    tile: torch.Tensor, iterations: int
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return the scales of columns and rows and the imbalance, before and after each iteration.

    tile: [rows, columns] float64
    """
    column, row = torch.zeros(tile.shape[1]).double(), torch.zeros(tile.shape[0]).double()

    def divided() -> torch.Tensor:
        return tile / column.exp() / row.exp()[:, None]

    def state() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lines = (divided().std(0), divided().std(1))
        spread = sum(each.max() / each.min().clamp(min=1e-8) for each in lines)
        return column.exp(), row.exp(), torch.as_tensor(spread)

    found = [state()]
    for _ in range(iterations):
        column = (column + divided().std(0).clamp(1e-3, 1e3).log()).clamp(-0.3, 10)
        row = (row + divided().std(1).clamp(1e-3, 1e3).log()).clamp(-0.3, 10)
        found.append(state())
    return found


def size_of(tile: torch.Tensor, mode: str) -> float:
    """Return what a mode divides a tile, [rows, columns] float32, by; 1 where that is 0."""
    if mode == "reference":
        return 1.0
    exact = tile.double()
    if mode == "prescaled":
        return float(exact.std()) or 1.0
    lines = [each[each > 0] for each in (exact.std(0), exact.std(1))]
    return min((float(each.log().mean().exp()) for each in lines if len(each)), default=1.0)


def tied(tile: torch.Tensor, mode: str, bits: int, got: Half, iterations: int = 8) -> list[Half]:
    """Return the halves of all iterations whose imbalance is the least, or nearly.

    tile: [rows, columns] float32; got: whose codes decide where float32 decides, since what is
    fitted to a row follows its codes
    """
    size = size_of(tile, mode)
    before = tile.double() / size
    states = turns(before, iterations)
    least = min(float(imbalance) for _, _, imbalance in states)
    result = []
    for column, row, imbalance in states:
        if imbalance <= least * (1 + TIE):
            balanced = before / column / row[:, None]
            if mode == "fitted" and bits == 2:
                codes, step, low, exact, blur = _fitted(balanced, got.codes)
            else:
                codes, step, low = (x[0] for x in round_to_nearest(balanced[None], bits))
                exact = (balanced - low[:, None]) / step[:, None]
                blur = _blur(balanced, step[:, None], bits)
            scales = (to_float16(x.float()) for x in (row * size * step, row * size * low, column))
            result.append(Half(codes, *scales, exact, blur))
    return result


def _fitted(balanced: torch.Tensor, got: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return codes of 2 bits, step and low, and codes before they are rounded with their blur."""
    low, high = balanced.amin(1, keepdim=True), balanced.amax(1, keepdim=True)
    inner = (high - low) * INNER_PART
    exact = ((balanced - (low + high) / 2) / inner).nan_to_num(-1.5).clamp(-1.5, 1.5) + 1.5
    blur = _blur(balanced, inner, 2)
    codes = torch.where((got - exact).abs() <= 0.5 + blur, got, fit_to_rows(balanced[None])[0][0])
    return codes, *(x[0] for x in fit(balanced[None], codes[None])), exact, blur


def _blur(balanced: torch.Tensor, step: torch.Tensor, bits: int) -> torch.Tensor:
    """Return by how much of a code float32 may be off in each row, [rows, 1].

    A balanced number is rounded a few times, and so are its differences and quotients.
    """
    return 8 * 2**-24 * (balanced.abs().amax(1, keepdim=True) / step + 2**bits)


def tile_of(step: Step, block: int, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the keys and values, [group, head_dim] float32, that a step packs into a block."""
    group = step.layout.group
    last = int((step.slot_mapping == block * group + group - 1).nonzero())
    request = int((step.query_start <= last).sum()) - 1
    start, end = step.query_start[request : request + 2].tolist()
    committed = int(step.seq_lens[request]) - (end - start)
    first = last - start + committed - group + 1
    position = torch.arange(first, first + group)
    found = []
    for ring, new in (
        (step.ring_keys, step.rotated_key),
        (step.ring_values, step.rotated_value),
    ):
        rows = torch.empty(group, step.layout.head_dim)
        old = position < committed
        slot = int(step.ring_slot[request])
        rows[old] = ring[slot, position[old] % ring.shape[1], head].float()
        rows[~old] = new[start + position[~old] - committed, head].float()
        found.append(rows)
    return found[0], found[1]
