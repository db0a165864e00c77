"""Text as Markdown that shows just that text: GitHub's dialect, tables included.

Source: CommonMark 0.31, GitHub Flavored Markdown 0.29 (tables, strikethrough, autolinks).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINK = re.compile(r"https?://[A-Za-z0-9][^\s<>\"|\\^`{}]*[^\s<>\"|\\^`{}.,;:!?'()\[\]]")
# An underscore between letters emphasises nothing, and names are full of them.
_MARKS = re.compile(r"[\\`*\[\]<|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_LINE_MARK = re.compile(r"(?:[#>+=-]|\d{1,9}[.)](?=\s|$))")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def inline(text: str) -> str:
    """Return a text in one line, links as links; blanks are folded."""
    text = " ".join(_plain(text).split())
    parts, at = [], 0
    for link in _LINK.finditer(text):
        parts += [_escaped(text[at : link.start()]), f"<{link[0]}>"]
        at = link.end()
    return _start("".join([*parts, _escaped(text[at:])]))


def _escaped(text: str) -> str:
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", text)


def _start(line: str) -> str:
    """Return a line whose beginning makes no heading, list, quote or rule of it."""
    mark = _LINE_MARK.match(line)
    if mark is None:
        return line
    head = mark[0]
    return f"{head[:-1]}\\{head[-1]}{line[len(head) :]}"


def paragraphs(text: str) -> list[str]:
    """Return a text of several lines as lines of Markdown; a blank line ends a paragraph."""
    return [inline(line) for line in text.strip("\n").split("\n")]


def code(text: str) -> str:
    """Return a text as code in a line, which is no cell of a table."""
    text = " ".join(_plain(text).split())
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _plain(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0] if found[0] in "\t\n\r\f\v" else "\ufffd", text)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of cells that `inline` made, or that hold no bar."""
    lines = [_row(titles), "|" + "---|" * len(titles)]
    return [*lines, *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def slug(heading: str) -> str:
    """Return the fragment by which GitHub knows a heading of this text, the first of its kind."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
