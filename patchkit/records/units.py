"""Units of speed and memory: how people spell them, and what one is of another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Unit:
    """A unit by its usual spelling: a kind, and how many of the kind's own unit it is."""

    name: str
    kind: str
    factor: Decimal


_BYTES = {
    f"{letter}{i}B": Decimal(1024 if i else 1000) ** power
    for power, letter in enumerate("KMGT", start=1)
    for i in ("", "i")
}
UNITS = {
    unit.name: unit
    for unit in (
        Unit("ns", "time", Decimal("1e-9")),
        Unit("µs", "time", Decimal("1e-6")),
        Unit("ms", "time", Decimal("1e-3")),
        Unit("s", "time", Decimal(1)),
        Unit("min", "time", Decimal(60)),
        Unit("h", "time", Decimal(3600)),
        Unit("tok/s", "tokens", Decimal(1)),
        Unit("req/s", "requests", Decimal(1)),
        Unit("GFLOP/s", "operations", Decimal(10) ** 9),
        Unit("TFLOP/s", "operations", Decimal(10) ** 12),
        Unit("PFLOP/s", "operations", Decimal(10) ** 15),
        Unit("×", "ratio", Decimal(1)),
        Unit("%", "ratio", Decimal("0.01")),
        *(Unit(name, "memory", factor) for name, factor in _BYTES.items()),
        *(Unit(f"{name}/s", "bandwidth", factor) for name, factor in _BYTES.items()),
    )
}
# Only an engine makes tokens and answers requests.
ENGINE_KINDS = ("tokens", "requests")

_PER_SECOND = r"(?:/ ?s(?:ec(?:ond)?)?|\s+(?:per\s+s(?:ec(?:ond)?)?|a\s+second))"
_SPELLINGS = (
    (rf"(?:tok(?:en)?s?){_PER_SECOND}|t/s|tps|TPS", "tok/s"),
    (rf"(?:req(?:uest)?s?){_PER_SECOND}", "req/s"),
    *((rf"{n if n[0] != 'K' else '[kK]' + n[1:]}(?:{_PER_SECOND}|ps)", f"{n}/s") for n in _BYTES),
    *((rf"{letter}FLOP(?:/s|S|s)", f"{letter}FLOP/s") for letter in "GTP"),
    *((n if n[0] != "K" else "[kK]" + n[1:], n) for n in _BYTES),
    (r"ns|nanoseconds?", "ns"),
    (r"[µμu]s(?:ec)?|microseconds?", "µs"),
    (r"ms(?:ec)?|milliseconds?", "ms"),
    (r"s(?:ec(?:ond)?s?)?", "s"),
    (r"min(?:ute)?s?", "min"),
    (r"h(?:(?:ou)?rs?)?", "h"),
    (r"%|per ?cent", "%"),
    (r"[×xX]|times|fold", "×"),
)
_PATTERNS = [(re.compile(pattern), name) for pattern, name in _SPELLINGS]
PATTERN = "(?:" + "|".join(f"(?:{pattern})" for pattern, _ in _SPELLINGS) + ")"


def parse_unit(text: str) -> Unit | None:
    """Return the unit that is spelt like that; None where it is none of speed or memory."""
    words = " ".join(text.split())
    for pattern, name in _PATTERNS:
        if pattern.fullmatch(words):
            return UNITS[name]
    return None


def convert(value: Decimal, unit: str, to: str) -> Decimal | None:
    """Return an amount in another unit; None where the two are not of one kind."""
    if unit == to:
        return value
    here, there = parse_unit(unit), parse_unit(to)
    if here is None or there is None or here.kind != there.kind:
        return None
    return value * here.factor / there.factor
