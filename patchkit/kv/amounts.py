"""Amounts of memory and shares as people write and read them: `20GiB`, `5.155 GiB`, `1.88 %`."""

from __future__ import annotations

import re
from decimal import Decimal

from patchkit.errors import UsageError

GIB = 1 << 30
_UNITS = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": GIB, "TIB": 1 << 40,
}  # fmt: skip
_MOST_BYTES = 1 << 60
_SIZE = re.compile(r"(\d[\d,]*(?:\.\d+)?) ?([A-Za-z]*)", re.ASCII)


def parse_size(text: str, place: str) -> int:
    """Return an amount in bytes, a part of a byte left out; its unit must be there.

    A number alone is refused: vLLM means bytes by it, people mean GiB.
    """
    match = _SIZE.fullmatch(text.strip())
    number, unit = match.groups() if match else ("", "")
    digits = number.replace(",", "")
    if not match or (unit and unit.upper() not in _UNITS):
        raise UsageError(
            f"{text!r} is no amount of memory", place=place, expected="such as 20GiB or 512MiB"
        )
    if not unit:
        raise UsageError(
            f"{text} has no unit", place=place, expected=f"{text}GiB, {text}GB or {text}B"
        )
    size_bytes = int(Decimal(digits) * _UNITS[unit.upper()])
    if size_bytes >= _MOST_BYTES:
        raise UsageError(f"{text} is more than any machine has", place=place)
    return size_bytes


def gib(size_bytes: int) -> str:
    """Return an amount in GiB with three decimals, rounded half up."""
    thousandths = (size_bytes * 1000 * 2 + GIB) // (2 * GIB)
    return f"{thousandths // 1000:,}.{thousandths % 1000:03} GiB"


def exact(size_bytes: int) -> str:
    """Return an amount in GiB, with its bytes."""
    return f"{gib(size_bytes)} ({size_bytes:,} B)"


def share(part: int, whole: int) -> str:
    """Return a part of a whole in per cent with two decimals, rounded half up."""
    hundredths = (part * 10_000 * 2 + whole) // (2 * whole)
    return f"{hundredths // 100:,}.{hundredths % 100:02} %"
