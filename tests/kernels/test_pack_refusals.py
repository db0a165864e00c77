"""What pack refuses, with the whole message; nothing is launched."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels.pack import pack
from tests.kernels.steps import Case, Step, make

pytestmark = pytest.mark.kernel


def wrong(step: Step) -> dict[str, tuple[dict[str, Any], str]]:
    """What is changed in a right call, and what is said of it."""
    tiles, ring, key = step.tiles, step.ring_keys, step.rotated_key
    where = str(tiles.device)
    apart = "blocks and heads that begin at multiples of 16 bytes, and bytes that are neighbours"
    return {
        "records of int8": (
            {"tiles": tiles.view(torch.int8)},
            "tiles is torch.int8 [4, 2, 3840]; expected uint8 [num_blocks, num_kv_heads, 3840 or "
            "more]",
        ),
        "records that are too short": (
            {"tiles": tiles[:, :, :3824]},
            "tiles is torch.uint8 [4, 2, 3824]; expected uint8 [num_blocks, num_kv_heads, 3840 or "
            "more]",
        ),
        "heads at odd bytes": (
            {"tiles": torch.zeros(4, 2, 3841, dtype=torch.uint8, device=where)},
            f"tiles has strides [7682, 3841, 1] and begins at 0 mod 16; expected {apart}",
        ),
        "a ring of other heads": (
            {"ring_keys": ring[:, :, :1]},
            "ring_keys is torch.float16 [3, 80, 1, 64] with strides [10240, 128, 64, 1] on "
            f"{where}; expected float16 of shape [slots, ring_rows, num_kv_heads, head_dim], 2 "
            f"heads of 64, the last stride 1, on {where}",
        ),
        "rings that a tile does not fit into": (
            {"ring_keys": ring[:, :48], "ring_values": step.ring_values[:, :48]},
            "ring_keys has 48 rows; expected 64 or more",
        ),
        "values of other tokens": (
            {"rotated_value": step.rotated_value[:60]},
            f"rotated_value is torch.float16 [60, 2, 64] with strides [128, 64, 1] on {where}; "
            "expected float16 of shape that of rotated_key, 2 heads of 64, the last stride 1, on "
            f"{where}",
        ),
        "keys that are not rotated": (
            {"rotated_key": key.bfloat16()},
            f"rotated_key is torch.bfloat16 [67, 2, 64] with strides [128, 64, 1] on {where}; "
            "expected float16 of shape [tokens, num_kv_heads, head_dim], 2 heads of 64, the last "
            f"stride 1, on {where}",
        ),
        "starts without an end": (
            {"query_start": step.query_start[:1]},
            f"query_start is torch.int32 [1] on {where}; expected torch.int32 [2] on {where}",
        ),
        "slots of int32": (
            {"slot_mapping": step.slot_mapping.int()},
            f"slot_mapping is torch.int32 [67] on {where}; expected torch.int64 [67] on {where}",
        ),
        "every other slot": (
            {"slot_mapping": step.slot_mapping.repeat_interleave(2)[::2]},
            "slot_mapping has stride 2; expected 1",
        ),
        "another mode": (
            {"mode": "best"},
            "mode is 'best'; expected one of reference, prescaled, fitted",
        ),
    }


NAMES = tuple(wrong(make(Case((64,), (64,)), "cpu")))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_read_is_refused(name: str, device: str) -> None:
    step = make(Case((64,), (64,)), device)
    changed, message = wrong(step)[name]
    with pytest.raises(ValueError, match="expected") as raised:
        pack(**(step.arguments() | changed))
    assert str(raised.value) == message


def test_without_a_mode_tiles_are_fitted() -> None:
    assert inspect.signature(pack).parameters["mode"].default == "fitted"
