"""String literals in Python text, and the expressions inside f-strings, as byte ranges.

Python 3.11 gives no usable positions for what is inside an f-string, and 3.12 splits it into other
tokens; this reads the text itself, so that both see the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(rb"#[^\n]*|(?<!\w)([rRbBuUfF]{0,2})(\"\"\"|'''|\"|')")
_OPENING = b"([{"
_CLOSING = b")]}"


class UnclosedError(Exception):
    """A literal has no end where one was expected."""


@dataclass(frozen=True)
class Literal:
    """One string literal; `start` is that of its prefix, `body` what is between the quotes."""

    start: int
    end: int
    prefix: str
    body: tuple[int, int]

    @property
    def formatted(self) -> bool:
        """Whether it is an f-string."""
        return "f" in self.prefix

    @property
    def raw(self) -> bool:
        """Whether a backslash is only a backslash."""
        return "r" in self.prefix


def literals(text: bytes, start: int = 0, end: int | None = None) -> Iterator[Literal]:
    """Yield the string literals of a stretch of code, in order."""
    end = len(text) if end is None else end
    while (match := _TOKEN.search(text, start, end)) is not None:
        start = match.end()
        quote = match[2]
        if quote is None:
            continue
        close = _closing(text, match.end(), quote)
        start = close + len(quote)
        yield Literal(match.start(), start, match[1].decode().lower(), (match.end(), close))


def _closing(text: bytes, start: int, quote: bytes) -> int:
    """Return where the quote closes what starts after the opening one."""
    at = start
    while at < len(text):
        if text[at : at + 1] == b"\\":
            at += 2
        elif text.startswith(quote, at):
            return at
        elif text[at : at + 1] == b"\n" and len(quote) == 1:
            break
        else:
            at += 1
    raise UnclosedError(f"literal at byte {start} has no end")


def fields(text: bytes, literal: Literal) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the expressions in an f-string, each before those in its format."""
    yield from _fields(text, *literal.body, raw=literal.raw, nested=False)


def _fields(
    text: bytes, at: int, end: int, *, raw: bool, nested: bool
) -> Iterator[tuple[int, int]]:
    while at < end:
        if not raw and text.startswith(b"\\N{", at):
            at = text.index(b"}", at) + 1
        elif text.startswith(b"{{", at) and not nested:
            at += 2
        elif text[at : at + 1] == b"{":
            stop = _expression_end(text, at + 1, end)
            yield at + 1, stop
            close = _field_end(text, stop, end)
            spec = text.find(b":", stop, close)
            if spec >= 0:
                yield from _fields(text, spec + 1, close, raw=raw, nested=True)
            at = close + 1
        else:
            at += 1


def _expression_end(text: bytes, at: int, end: int) -> int:
    """Return where an expression ends: before `!r`, `:`, `=` of `{x=}`, or the brace."""
    depth = 0
    while at < end:
        char = text[at : at + 1]
        if char in (b'"', b"'"):
            quote = text[at : at + 3] if text[at : at + 3] in (b'"""', b"'''") else char
            at = _closing(text, at + len(quote), quote) + len(quote)
            continue
        if text.startswith(b"!=", at):
            at += 2
            continue
        if not depth and (char in (b"}", b":", b"!") or _is_debug(text, at)):
            return at
        depth += (char in _OPENING) - (char in _CLOSING)
        at += 1
    raise UnclosedError(f"field at byte {at} has no end")


def _is_debug(text: bytes, at: int) -> bool:
    return text[at : at + 1] == b"=" and text[at + 1 :].lstrip()[:1] in (b"}", b"!", b":")


def _field_end(text: bytes, at: int, end: int) -> int:
    depth = 0
    while at < end:
        char = text[at : at + 1]
        if char == b"}" and not depth:
            return at
        depth += (char == b"{") - (char == b"}")
        at += 1
    raise UnclosedError(f"field at byte {at} has no end")
