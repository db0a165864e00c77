"""Where everything lies in a packed record of KVarN: the one source of offsets and sizes.

A record holds the keys and values of `group` consecutive tokens of one KV head: the fields below
in their order without gaps, float16 little-endian, codes with the first in the lowest bits of a
byte. A cache has one record per (block, KV head), a block being as many tokens. kvarn.md 2.

Reconstruction in the rotated frame, c a channel and t a token:

    key[t, c]   = (code · key_channel_scale[c] + key_zero_point[c]) · key_token_scale[t]
    value[t, c] = (code · value_token_scale[t] + value_zero_point[t]) · value_channel_scale[c]
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD_DIMS = (64, 128, 256, 512)
RING_ROWS_MULTIPLE = 16
FP16_MAX = 65504.0


@dataclass(frozen=True)
class Preset:
    """How many bits a code of a key and of a value has, and how many tokens share a record."""

    name: str
    key_bits: int
    value_bits: int
    group: int


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("kvarn_k4v2_g128", key_bits=4, value_bits=2, group=128),
        Preset("kvarn_k4v4_g128", key_bits=4, value_bits=4, group=128),
        Preset("kvarn_k4v2_g64", key_bits=4, value_bits=2, group=64),
        Preset("kvarn_k4v4_g64", key_bits=4, value_bits=4, group=64),
    )
}


@dataclass(frozen=True)
class TileLayout:
    """The record of one (block, KV head): offsets in bytes from its start, and its size.

    key_codes: channel after channel, `group` codes each
    key_channel_scale (A_K), key_zero_point (Z_K): [head_dim] float16
    key_token_scale (T_K): [group] float16
    value_codes: token after token, `head_dim` codes each
    value_channel_scale (C_V): [head_dim] float16
    value_token_scale (A_V), value_zero_point (Z_V): [group] float16
    tile_bytes: of the fields; what a record has beyond them is never read or written
    slot_bytes: of one token and KV head in the cache
    """

    preset: str
    key_bits: int
    value_bits: int
    group: int
    head_dim: int
    key_codes: int
    key_channel_scale: int
    key_zero_point: int
    key_token_scale: int
    value_codes: int
    value_channel_scale: int
    value_token_scale: int
    value_zero_point: int
    tile_bytes: int
    slot_bytes: int

    @property
    def record_bytes(self) -> int:
        """Return the bytes from one record to the next of a block, at least tile_bytes."""
        return self.slot_bytes * self.group


def tile_layout(
    preset: str, head_dim: int, *, pow2_slot: bool = False, allow_fp8_cost: bool = False
) -> TileLayout:
    """Return the layout of a preset at a head_dim.

    pow2_slot: round the bytes of a token up to a power of two, so that layers of different head_dim
        have pages of an integer ratio; offsets stay, a record ends in unused bytes
    allow_fp8_cost: take a slot that is as large as that of fp8, 2 · head_dim

    Raises ValueError where preset or head_dim is not listed, or a slot is as large as that of fp8
    and this is not allowed.
    """
    if preset not in PRESETS:
        raise ValueError(f"KVarN preset is {preset!r}, expected one of {', '.join(PRESETS)}")
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim is {head_dim}, KVarN takes {', '.join(map(str, HEAD_DIMS))}")
    chosen = PRESETS[preset]
    ends = _ends(chosen, head_dim)
    slot_bytes = ends[-1] // chosen.group
    if pow2_slot:
        slot_bytes = 1 << (slot_bytes - 1).bit_length()
    if slot_bytes >= 2 * head_dim and not allow_fp8_cost:
        raise ValueError(
            f"{preset} with a slot of a power of two takes {slot_bytes} bytes a token and head at "
            f"head_dim {head_dim}, as much as fp8: the combination that costs as much as fp8 is "
            "refused unless asked for (allow_fp8_cost)"
        )
    bits = (chosen.key_bits, chosen.value_bits)
    return TileLayout(preset, *bits, chosen.group, head_dim, 0, *ends, slot_bytes)


def _ends(preset: Preset, head_dim: int) -> list[int]:
    """Return where each of the eight fields ends; all listed layouts are whole slots then."""
    channels, tokens = 2 * head_dim, 2 * preset.group  # bytes of a float16 for each
    codes = head_dim * preset.group // 8
    sizes = (
        codes * preset.key_bits, channels, channels, tokens,
        codes * preset.value_bits, channels, tokens, tokens,
    )  # fmt: skip
    return [sum(sizes[: place + 1]) for place in range(len(sizes))]


def ring_rows(layout: TileLayout, max_verify_len: int) -> int:
    """Return the rows of the ring that holds what is not packed of one request.

    Of an open tile up to group - 1 rows are committed, and a step adds max_verify_len before any
    is: group + max_verify_len - 1, rounded up to 16.

    Raises ValueError where max_verify_len is under 1.
    """
    if max_verify_len < 1:
        raise ValueError(f"max_verify_len is {max_verify_len}, expected at least 1")
    rows = layout.group + max_verify_len - 1
    return -(-rows // RING_ROWS_MULTIPLE) * RING_ROWS_MULTIPLE
