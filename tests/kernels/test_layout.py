"""Offsets and sizes of KVarN's records, as kvarn.md 2.1 lists them, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from kvarn_port.layout import PRESETS, ring_rows, tile_layout

pytestmark = pytest.mark.kernel

FIELDS = (
    "key_codes",
    "key_channel_scale",
    "key_zero_point",
    "key_token_scale",
    "value_codes",
    "value_channel_scale",
    "value_token_scale",
    "value_zero_point",
)
# preset, head_dim, offsets in the order of FIELDS, tile and slot bytes, those with a slot of a
# power of two, and how many times less a slot is than keys and values of float16
TABLE = """
kvarn_k4v2_g128  64  0,4096,4224,4352,4608,6656,6784,7040            7296  57   64   8192 4.49
kvarn_k4v2_g128 128  0,8192,8448,8704,8960,13056,13312,13568        13824 108  128  16384 4.74
kvarn_k4v2_g128 256  0,16384,16896,17408,17664,25856,26368,26624    26880 210  256  32768 4.88
kvarn_k4v2_g128 512  0,32768,33792,34816,35072,51456,52480,52736    52992 414  512  65536 4.95
kvarn_k4v4_g128  64  0,4096,4224,4352,4608,8704,8832,9088            9344  73  128  16384 3.51
kvarn_k4v4_g128 128  0,8192,8448,8704,8960,17152,17408,17664        17920 140  256  32768 3.66
kvarn_k4v4_g128 256  0,16384,16896,17408,17664,34048,34560,34816    35072 274  512  65536 3.74
kvarn_k4v4_g128 512  0,32768,33792,34816,35072,67840,68864,69120    69376 542 1024 131072 3.78
kvarn_k4v2_g64   64  0,2048,2176,2304,2432,3456,3584,3712            3840  60   64   4096 4.27
kvarn_k4v2_g64  128  0,4096,4352,4608,4736,6784,7040,7168            7296 114  128   8192 4.49
kvarn_k4v2_g64  256  0,8192,8704,9216,9344,13440,13952,14080        14208 222  256  16384 4.61
kvarn_k4v2_g64  512  0,16384,17408,18432,18560,26752,27776,27904    28032 438  512  32768 4.68
kvarn_k4v4_g64   64  0,2048,2176,2304,2432,4480,4608,4736            4864  76  128   8192 3.37
kvarn_k4v4_g64  128  0,4096,4352,4608,4736,8832,9088,9216            9344 146  256  16384 3.51
kvarn_k4v4_g64  256  0,8192,8704,9216,9344,17536,18048,18176        18304 286  512  32768 3.58
kvarn_k4v4_g64  512  0,16384,17408,18432,18560,34944,35968,36096    36224 566 1024  65536 3.62
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_record_is_as_the_table_has_it(row: list[str]) -> None:
    # layout-fields-exchanged, layout-a-scale-a-token, layout-scales-of-tokens-by-channel
    preset, offsets, ratio = row[0], row[2], row[7]
    head_dim, tile_bytes, slot_bytes, pow2_slot, pow2_bytes = map(int, (row[1], *row[3:7]))
    layout = tile_layout(preset, head_dim)
    assert ",".join(str(getattr(layout, field)) for field in FIELDS) == offsets
    assert (layout.tile_bytes, layout.slot_bytes) == (tile_bytes, slot_bytes)
    assert layout.record_bytes == tile_bytes
    assert f"{4 * head_dim / layout.slot_bytes:.2f}" == ratio
    wide = tile_layout(preset, head_dim, pow2_slot=True, allow_fp8_cost=True)
    # layout-power-of-two-over: 64 bytes are a power of two already where the slot is 64
    assert (wide.slot_bytes, wide.record_bytes) == (pow2_slot, pow2_bytes)
    # nothing but the end of the record moves
    assert dataclasses.replace(wide, slot_bytes=slot_bytes) == layout


def test_the_table_has_every_preset_at_every_head_dim() -> None:
    dims = ("64", "128", "256", "512")
    assert [row[:2] for row in ROWS] == [[name, dim] for name in PRESETS for dim in dims]


def test_presets_say_their_bits_and_their_group() -> None:
    found = {name: (p.name, p.key_bits, p.value_bits, p.group) for name, p in PRESETS.items()}
    assert found == {
        "kvarn_k4v2_g128": ("kvarn_k4v2_g128", 4, 2, 128),
        "kvarn_k4v4_g128": ("kvarn_k4v4_g128", 4, 4, 128),
        "kvarn_k4v2_g64": ("kvarn_k4v2_g64", 4, 2, 64),
        "kvarn_k4v4_g64": ("kvarn_k4v4_g64", 4, 4, 64),
    }
    layout = tile_layout("kvarn_k4v2_g64", 256)
    assert (layout.preset, layout.key_bits, layout.value_bits) == ("kvarn_k4v2_g64", 4, 2)
    assert (layout.group, layout.head_dim) == (64, 256)


def test_four_heads_of_256_take_840_bytes_a_token() -> None:
    # kvarn.md 2.1: 1024 with slots of a power of two, fp8 2048
    assert 4 * tile_layout("kvarn_k4v2_g128", 256).slot_bytes == 840
    assert 4 * tile_layout("kvarn_k4v2_g128", 256, pow2_slot=True).slot_bytes == 1024


@pytest.mark.parametrize(
    ("preset", "head_dim", "slot_bytes"),
    [
        ("kvarn_k4v4_g128", 64, 128),
        ("kvarn_k4v4_g128", 128, 256),
        ("kvarn_k4v4_g128", 256, 512),
        ("kvarn_k4v4_g64", 256, 512),
        ("kvarn_k4v4_g64", 512, 1024),
    ],
)
def test_what_costs_as_much_as_fp8_is_refused_unless_asked_for(
    preset: str, head_dim: int, slot_bytes: int
) -> None:
    # layout-fp8-cost-let-through
    with pytest.raises(ValueError, match="refused") as refused:
        tile_layout(preset, head_dim, pow2_slot=True)
    assert str(refused.value) == (
        f"{preset} with a slot of a power of two takes {slot_bytes} bytes a token and head at "
        f"head_dim {head_dim}, as much as fp8: the combination that costs as much as fp8 is "
        "refused unless asked for (allow_fp8_cost)"
    )
    allowed = tile_layout(preset, head_dim, pow2_slot=True, allow_fp8_cost=True)
    assert allowed.slot_bytes == slot_bytes


def test_unknown_presets_and_head_dims_are_refused() -> None:
    known = "kvarn_k4v2_g128, kvarn_k4v4_g128, kvarn_k4v2_g64, kvarn_k4v4_g64"
    for name in ("kvarn_k4v3_g128", "auto", ""):
        with pytest.raises(ValueError, match="preset") as refused:
            tile_layout(name, 128)
        assert str(refused.value) == f"KVarN preset is {name!r}, expected one of {known}"
    for head_dim in (0, 32, 80, 96, 192, 384, 1024):
        with pytest.raises(ValueError, match="head_dim") as refused:
            tile_layout("kvarn_k4v2_g128", head_dim)
        assert str(refused.value) == f"head_dim is {head_dim}, KVarN takes 64, 128, 256, 512"


@pytest.mark.parametrize(
    ("preset", "longest", "rows"),
    [
        ("kvarn_k4v2_g128", 1, 128),  # ring-rows-one-more
        ("kvarn_k4v2_g128", 2, 144),  # ring-rows-one-fewer
        ("kvarn_k4v2_g128", 8, 144),
        ("kvarn_k4v4_g128", 17, 144),
        ("kvarn_k4v4_g128", 18, 160),
        ("kvarn_k4v2_g64", 1, 64),
        ("kvarn_k4v4_g64", 64, 128),
    ],
)
def test_a_ring_has_a_group_and_the_longest_verify_query_but_one(
    preset: str, longest: int, rows: int
) -> None:
    assert ring_rows(tile_layout(preset, 128), longest) == rows


def test_a_ring_for_no_query_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^max_verify_len is 0, expected at least 1$"):
        ring_rows(tile_layout("kvarn_k4v2_g128", 64), 0)
