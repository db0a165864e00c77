"""Texts in lines that fit: cut, filled and wrapped; tables of words, names and times for them."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 80  # of lines that are read somewhere else
_LONGEST_NAME = 28
_NARROWEST = 40  # of lines with an indent that still hold a few words


def line_width() -> int:
    """Return how wide lines may be: the terminal, or what is usual elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():  # None where it was closed for us
        return WIDTH
    return shutil.get_terminal_size((WIDTH, 24)).columns


def cut(line: str) -> str:
    """Return a line that fits."""
    width = line_width()
    return line if len(line) <= width else f"{line[: width - 3]}..."


def filled(head: str, words: Sequence[str]) -> Iterator[str]:
    """Yield words behind a head, with commas, in as many lines as it takes; none for no words."""
    width, line = line_width(), head
    for number, word in enumerate(words):
        part = word + ("," if number < len(words) - 1 else "")
        if line.strip() and len(line) + len(part) > width and number:
            yield line.rstrip()
            line = "  "
        line += f"{part} "
    if words:
        yield line.rstrip()


def wrapped(text: str, indent: str = "", more: str | None = None) -> list[str]:
    """Return a text as lines that fit, the later ones indented by `more`; words stay whole.

    On a wide terminal too they are no longer than is read with ease.
    """
    width = max(min(line_width(), WIDTH), _NARROWEST)
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent if more is None else more,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return lines or [indent.rstrip()]


def table(
    titles: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int
) -> list[str]:
    """Return the lines of a table of words, in blocks of as many columns as fit the width."""
    first = max((len(label) for label, _ in rows), default=0)
    widths = [max(len(t), *(len(cells[n]) for _, cells in rows)) for n, t in enumerate(titles)]
    lines: list[str] = []
    start = 0
    while start < len(titles):
        end, used = start, first
        while end < len(titles) and (end == start or used + 1 + widths[end] <= width):
            used += 1 + widths[end]
            end += 1
        lines += [""] if lines else []
        for label, cells in [("", titles), *rows]:
            shown = (f"{cells[n]:<{widths[n]}}" for n in range(start, end))
            lines.append(f"{label:<{first}} {' '.join(shown)}".rstrip())
        start = end
    return lines


def stem(patch: str) -> str:
    """Return the name of a patch without its suffix."""
    return patch.removesuffix(".patch").removesuffix(".diff")


def short_name(patch: str) -> str:
    """Return the name of a patch for a column."""
    name = stem(patch)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def seconds(value: float) -> str:
    """Return a time for people."""
    if value < 1:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"
