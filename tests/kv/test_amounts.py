"""Amounts of memory, read and shown."""

from __future__ import annotations

import pytest

from patchkit.errors import UsageError
from patchkit.kv.amounts import exact, gib, parse_size, share


@pytest.mark.parametrize(("text", "size_bytes"), [
    ("20GiB", 21_474_836_480),
    ("20 gib", 21_474_836_480),
    ("4.9GiB", 5_261_334_937),  # .6 of a byte is left out
    ("512MiB", 536_870_912),
    ("1KiB", 1024),
    ("1TiB", 1_099_511_627_776),
    ("24GB", 24_000_000_000),
    ("24MB", 24_000_000),
    ("3kB", 3000),
    ("2TB", 2_000_000_000_000),
    ("5,261,334,938B", 5_261_334_938),
])  # fmt: skip
def test_an_amount_is_read_by_its_unit(text: str, size_bytes: int) -> None:
    assert parse_size(text, "--memory") == size_bytes


@pytest.mark.parametrize(("text", "said"), [
    ("20", "--memory: 20 has no unit, expected 20GiB, 20GB or 20B"),
    ("20G", "--memory: '20G' is no amount of memory, expected such as 20GiB or 512MiB"),
    ("-1GiB", "--memory: '-1GiB' is no amount of memory, expected such as 20GiB or 512MiB"),
    ("1e3GiB", "--memory: '1e3GiB' is no amount of memory, expected such as 20GiB or 512MiB"),
    ("", "--memory: '' is no amount of memory, expected such as 20GiB or 512MiB"),
    ("١GiB", "--memory: '١GiB' is no amount of memory, expected such as 20GiB or 512MiB"),
    ("2000000TiB", "--memory: 2000000TiB is more than any machine has"),
])  # fmt: skip
def test_what_is_no_amount_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_size(text, "--memory")
    assert str(refused.value) == said


def test_digits_without_end_take_no_time() -> None:
    with pytest.raises(UsageError, match="more than any machine has"):
        parse_size("9" * 100_000 + "GiB", "--memory")


def test_an_amount_is_shown_in_gib_and_to_the_byte() -> None:
    assert gib(5_261_334_938) == "4.900 GiB"
    assert gib(1 << 30) == "1.000 GiB"
    assert gib(536_870) == "0.000 GiB"
    assert gib(536_871) == "0.001 GiB"  # half a thousandth, rounded up
    assert gib(2048 << 30) == "2,048.000 GiB"
    assert exact(1_797_120 * 8 * 385) == "5.155 GiB (5,535,129,600 B)"


def test_a_share_has_two_decimals() -> None:
    assert share(33_792, 1_797_120) == "1.88 %"
    assert share(1, 1) == "100.00 %"
    assert share(0, 7) == "0.00 %"
    assert share(1, 20_000) == "0.01 %"
