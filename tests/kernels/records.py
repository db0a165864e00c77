"""What a record holds, field by field, and how far two of them are apart. No kernel in here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvarn_port.layout import TileLayout
from kvarn_port.reference.tiles import unpack_codes


@dataclass(frozen=True)
class Apart:
    """How many of the codes and scales of two sets of records differ.

    further: codes more than one apart, and scales more than one unit in the last place
    """

    codes: int
    codes_of: int
    scales: int
    scales_of: int
    further: int


def fields_of(
    records: torch.Tensor, layout: TileLayout
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the codes, one a byte, and the float16 scales of records [n, tile_bytes or more]."""
    codes = layout.head_dim * layout.group // 8
    code_fields = ((layout.key_codes, layout.key_bits), (layout.value_codes, layout.value_bits))
    found = [unpack_codes(records[:, at : at + codes * bits], bits) for at, bits in code_fields]
    channels, tokens = 2 * layout.head_dim, 2 * layout.group  # bytes of a float16 for each
    scales = (
        (layout.key_channel_scale, channels),
        (layout.key_zero_point, channels),
        (layout.key_token_scale, tokens),
        (layout.value_channel_scale, channels),
        (layout.value_token_scale, tokens),
        (layout.value_zero_point, tokens),
    )
    return found, [
        records[:, at : at + size].contiguous().view(torch.float16) for at, size in scales
    ]


def apart(one: torch.Tensor, other: torch.Tensor, layout: TileLayout) -> Apart:
    """Return how far two sets of records, [n, tile_bytes or more], are apart."""
    codes = [
        (a.int() - b.int()).abs()
        for a, b in zip(fields_of(one, layout)[0], fields_of(other, layout)[0], strict=True)
    ]
    scales = [
        (places(a) - places(b)).abs()
        for a, b in zip(fields_of(one, layout)[1], fields_of(other, layout)[1], strict=True)
    ]
    return Apart(
        sum(int((x > 0).sum()) for x in codes),
        sum(x.numel() for x in codes),
        sum(int((x > 0).sum()) for x in scales),
        sum(x.numel() for x in scales),
        sum(int((x > 1).sum()) for x in (*codes, *scales)),
    )


def places(x: torch.Tensor) -> torch.Tensor:
    """Return float16 as integers whose neighbours are neighbours; 0 and -0 are one."""
    bits = x.contiguous().view(torch.int16).int()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)
