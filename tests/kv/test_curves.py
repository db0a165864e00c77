"""Plans over the length of a request."""

from __future__ import annotations

import dataclasses

from patchkit.kv.curves import Curve, curves
from tests.kv.made_plans import auto, kvarn, made_plan


def test_a_curve_goes_by_octaves_up_to_the_longest_request() -> None:
    (curve,) = curves([kvarn()])
    assert curve.formats == ("kvarn_k4v2_g128",)
    assert (curve.lengths[0], curve.lengths[-1]) == (256, 245_760)
    assert [n for n in curve.lengths if n & (n - 1) == 0] == [1 << n for n in range(8, 18)]
    assert len(curve.lengths) == 80 + 1  # 8 log2(245,760 / 256) is 79.25
    assert curve.lengths[8] == 512
    assert list(curve.lengths) == sorted(set(curve.lengths))


def test_its_end_is_what_the_engine_logs() -> None:
    (curve,) = curves([kvarn()])
    assert curve.requests[-1] == 359 / 329
    assert int(curve.tokens[-1]) == 268_169
    assert curve.requests[0] == 359 / (2 + 54 + 49)
    assert curve.tokens[0] == 256 * 359 / 105


def test_one_that_does_not_start_ends_where_a_request_fits() -> None:
    (curve,) = curves([auto()])
    assert curve.lengths[-1] == 144 * 448  # (358 - 54 - 15) / 2 blocks
    assert curve.requests[-1] == 358 / (288 + 54 + 15)


def test_formats_that_come_to_the_same_share_a_curve() -> None:
    same = dataclasses.replace(auto(), format="bfloat16")
    found = curves([auto(), kvarn(), same])
    assert [curve.name for curve in found] == ["auto, bfloat16", "kvarn_k4v2_g128"]


def test_of_what_holds_no_request_there_is_no_curve() -> None:
    assert curves([dataclasses.replace(auto(), longest=0)]) == ()
    (curve,) = curves([dataclasses.replace(auto(), longest=512)])
    assert curve.lengths[-2:] == (470, 512)
    short = made_plan("auto", 4096, 448, 1_835_008, ("auto", 4096, 448, 15), 200)
    assert curves([short]) == (Curve(("auto",), (200,), (358 / 71,)),)
