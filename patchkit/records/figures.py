"""Figures in a text: a number with a unit of speed or memory, in prose or in a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from patchkit.records.units import PATTERN, Unit, parse_unit


@dataclass(frozen=True)
class Figure:
    """A number and its unit; the span of the number, and that of both, are 0-based, half-open.

    The unit may stand elsewhere: behind the last of several numbers, or at the head of a column.
    """

    start: int
    number_end: int
    end: int
    value: Decimal
    decimals: int
    unit: Unit


_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "twelve": 12, "twenty": 20, "hundred": 100, "thousand": 1000, "twice": 2,
    "thrice": 3,
}  # fmt: skip
# The last but one is a decimal comma, which is found so that it is not passed over.
_NUMBER = (
    r"[-−]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!,?\d)|\d*\.\d+|\d+,\d+|\d+)(?:[eE][-+]?\d+)?(?!\d)"
)
_START = r"(?<![^\W_])(?<!\d\.)(?<!\d,)"  # an underscore may be emphasis
_BETWEEN = r"(?:\s*(?:/|–|—|-|±|…|\.{2,3}|\b(?:up )?to\b|\band\b|\bor\b|,\s)\s*)"
# Blanks, also over the end of a line, but of no paragraph; a list or quotation may go on there.
# They are few: what was code or a comment is blank as well, and no unit is read across it.
BLANKS = r"(?:-|(?:[^\S\n]|&#?\w+;){0,3}(?:\n[ \t>]{0,8})?(?!\s))"
# What may stand between a number and its unit: `**7** ms`, `5&nbsp;ms`, `100k tok/s`, `5 \%`.
_EMPHASIS = r"(?:\*{1,3}|_{1,3}|</?\w+>)?"
_GAP = rf"(?:[kKMG]|[ \u00a0][kKMG](?=\s|tok|req))?{_EMPHASIS}{BLANKS}{_EMPHASIS}\\?"
_LISTED = re.compile(
    rf"{_START}{_NUMBER}(?:{_BETWEEN}{_NUMBER}){{0,30}}(?P<gap>{_GAP})(?P<unit>{PATTERN})(?![^\W_])"
)
# What follows a count: "called 20 times, with"
_IS_COUNT = re.compile(
    r"\s*(?:[,;:)]|\.(?!\w)|(?:in|an?|per|out|with|on|before|after|for|until|at|each|and|or)\b)"
)
# 4 × 256 is a shape
_SHAPE = re.compile(r"\d[\s\u00a0]*[×x]$")
# What follows a factor in words.
_MORE = r"(?:as|faster|slower|quicker|more|less|fewer|smaller|larger|longer|the|that|what)\b"
_COUNTED = re.compile(
    rf"\b(?:a )?(?P<word>{'|'.join(_WORDS)})"
    rf"(?:[ -](?:times|fold)\s+{_MORE}|(?<=ice)\s+as\s+(?:fast|quick|slow|long)\b)",
    re.IGNORECASE,
)
# "faster by a factor of 5", "a speed-up of 5", "×5 faster"
_FACTOR = re.compile(
    rf"(?:\b(?:factors?|speed-?ups?)\s+of\s+|(?<![\w)\]] )(?<![\w)\]])×[ \u00a0]?)"
    rf"(?P<number>{_NUMBER})(?![\w%×]|\.\d)",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"{_START}{_NUMBER}(?![\w%×]|\.\d)")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
# At the head of a column or row these are words, or say which value of several it is.
_HEADED = re.compile(rf"(?<!\w)(?!(?<=/)s)(?<!\d )(?<!\d)(?P<unit>{PATTERN})(?![\w/])")
_NO_HEAD = frozenset({"x", "times", "fold", "min", "mins", "h", "hr", "hrs"})


def find_figures(text: str, *, tables: bool) -> list[Figure]:
    """Return the figures in a text, in order; with tables, numbers below or beside a unit too."""
    found = {figure.start: figure for figure in _in_prose(text)}
    if tables:
        for figure in _in_tables(text):
            found.setdefault(figure.start, figure)
    return [found[start] for start in sorted(found)]


def _in_prose(text: str) -> Iterator[Figure]:
    for match in _LISTED.finditer(text):
        unit = parse_unit(match["unit"])
        assert unit is not None
        numbers = list(
            re.finditer(rf"{_START}{_NUMBER}", text[: match.start("gap")][match.start() :])
        )
        shape = _SHAPE.search(match[0]) and re.match(r"[\s\u00a0]*\d", text[match.end() :])
        if shape and "." not in numbers[-1][0]:
            continue
        if match["unit"] == "times" and _IS_COUNT.match(text, match.end()):
            continue
        for at, number in enumerate(numbers):
            start, end = match.start() + number.start(), match.start() + number.end()
            last = at == len(numbers) - 1
            yield _figure(number[0], start, end, match.end() if last else end, unit)
    times = parse_unit("times")
    assert times is not None
    for match in _COUNTED.finditer(text):
        value = Decimal(_WORDS[match["word"].lower()])
        yield Figure(match.start("word"), match.end("word"), match.end("word"), value, 0, times)
    for match in _FACTOR.finditer(text):
        start, end = match.span("number")
        yield _figure(match["number"], start, end, end, times)


def _figure(number: str, start: int, number_end: int, end: int, unit: Unit) -> Figure:
    thousands = re.fullmatch(r"\D?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?:[eE].*)?", number)
    number = number.replace(",", "" if thousands else ".")
    value = Decimal(number.replace("−", "-"))
    exponent = value.as_tuple().exponent
    decimals = max(0, -exponent) if isinstance(exponent, int) else 0
    return Figure(start, number_end, end, value, decimals, unit)


def parse_number(text: str) -> Figure | None:
    """Return a text that is a number and no more as a figure of no unit."""
    match = re.fullmatch(rf"\s*({_NUMBER})\s*", text)
    if match is None:
        return None
    unit = Unit("", "none", Decimal(1))
    return _figure(match[1], match.start(1), match.end(1), match.end(1), unit)


def _in_tables(text: str) -> Iterator[Figure]:
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    heads: list[Unit | None] | None = None
    for at, line in enumerate(lines):
        if "|" not in line:
            heads = None
        elif at and _RULE.fullmatch(line.rstrip("\r\n")) and "|" in lines[at - 1]:
            heads = [_head(cell) for _, cell in _cells(lines[at - 1])]
        elif heads is not None:
            yield from _in_row(line, starts[at], heads)


def _in_row(line: str, start: int, heads: list[Unit | None]) -> Iterator[Figure]:
    cells = _cells(line)
    label = _head(cells[0][1]) if cells else None
    for column, (offset, cell) in enumerate(cells):
        unit = (heads[column] if column < len(heads) else None) or (label if column else None)
        if unit is None:
            continue
        for number in _ALONE.finditer(cell):
            begin, end = start + offset + number.start(), start + offset + number.end()
            yield _figure(number[0], begin, end, end, unit)


def _head(cell: str) -> Unit | None:
    if re.search(r"\bspeed-?ups?\b", cell, re.IGNORECASE):
        return parse_unit("times")
    for match in _HEADED.finditer(cell):
        if match["unit"] not in _NO_HEAD:
            return parse_unit(match["unit"])
    return None


def _cells(line: str) -> list[tuple[int, str]]:
    """Return the cells of a table's line, each with its offset."""
    body = line.rstrip("\r\n")
    cuts = [m.start() for m in re.finditer(r"(?<!\\)\|", body)]
    edges = [-1, *cuts, len(body)]
    cells = [(a + 1, body[a + 1 : b]) for a, b in pairwise(edges)]
    if cells and not cells[0][1].strip():
        cells = cells[1:]
    if cells and not cells[-1][1].strip():
        cells = cells[:-1]
    return cells
