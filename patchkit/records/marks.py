"""Marks: what a figure says of where it is from.

In Markdown a mark is a pair of comments around the figure, which are not shown:

    <!-- record: verify-2026-11-30-h200#int8-128k context=131072 -->100 µs<!-- /record -->

In plain text, such as the header of a patch, it stands in brackets behind the figure:

    1.88 % [arithmetic: 100 * 33792 / 1797120]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.errors import PatchkitError
from patchkit.records.figures import Figure

KINDS = ("record", "ratio", "published", "arithmetic")
_BEGINS = re.compile(rf"<!--\s*(?P<kind>{'|'.join(KINDS)})\s*:(?P<text>.*?)-->", re.DOTALL)
_ENDS = re.compile(rf"<!--\s*/\s*(?P<kind>{'|'.join(KINDS)})\s*-->")
# What looks like a mark and is none: a misspelt one must not be passed over.
_NEARLY = re.compile(r"<!--\s*/?\s*(?P<word>[a-z]+)\s*(?::|-->)")
_BEGINNINGS = ("recor", "rati", "publi", "arith")
_BRACKETS = re.compile(rf"\\?\[\s*(?P<kind>{'|'.join(KINDS)})\s*:(?P<text>[^\]]{{0,2000}}?)\\?\]")
_OPTION = re.compile(r"(?P<key>[a-z_]+)=(?:\"(?P<quoted>[^\"]*)\"|(?P<bare>[^\s\"]+))(?=\s|$)")


@dataclass(frozen=True)
class Mark:
    """A mark: its kind, what it names, its options, and the span of the text that it is about.

    `fault` says what is wrong with the mark itself; the rest then is not to be relied on. `whole`
    is the span with the comments of Markdown.
    """

    kind: str
    start: int
    end: int
    words: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    fault: str | None = None
    whole: tuple[int, int] | None = None


def parse_words(kind: str, text: str) -> tuple[str, dict[str, str]]:
    """Return what a mark says before its options, and the options; quotes hold blanks together."""
    options: dict[str, str] = {}
    for match in _OPTION.finditer(text):
        if match["key"] in options:
            raise PatchkitError(f"{match['key']}= is there twice")
        options[match["key"]] = match["bare"] if match["quoted"] is None else match["quoted"]
    words = " ".join(_OPTION.sub(" ", text).split())
    if kind != "arithmetic" and "=" in words:
        raise PatchkitError(f"cannot be understood: {words!r}")
    return words.strip('"'), options


def comment_marks(comments: Sequence[tuple[int, str]]) -> Iterator[Mark]:
    """Yield the marks that comments of a Markdown text make, each with its offset in the text."""
    opened: tuple[int, int, re.Match[str]] | None = None
    for start, comment in comments:
        end = start + len(comment)
        begins, ends = _BEGINS.fullmatch(comment), _ENDS.fullmatch(comment)
        if begins:
            if opened:
                yield _unclosed(opened)
            opened = (start, end, begins)
        elif ends and opened and opened[2]["kind"] == ends["kind"]:
            mark = _mark(opened[2]["kind"], opened[2]["text"], opened[1], start)
            yield replace(mark, whole=(opened[0], end))
            opened = None
        elif ends:
            yield Mark(ends["kind"], start, end, fault=f"nothing opens this /{ends['kind']}")
        elif (near := _NEARLY.match(comment)) and near["word"].startswith(_BEGINNINGS):
            yield Mark("record", start, end, fault=f"{near['word']!r} is no kind of mark")
    if opened:
        yield _unclosed(opened)


def _unclosed(opened: tuple[int, int, re.Match[str]]) -> Mark:
    kind = opened[2]["kind"]
    return Mark(kind, opened[0], opened[1], fault=f"is not closed by <!-- /{kind} -->")


def bracket_marks(text: str, figures: Sequence[Figure]) -> Iterator[tuple[Mark, int, int]]:
    """Yield the marks in brackets, each about the figure before it, with the brackets' span."""
    for match in _BRACKETS.finditer(text):
        before = [f for f in figures if f.end <= match.start()]
        last = max(before, key=lambda f: f.end, default=None)
        if last is None or text[last.end : match.start()].strip():
            mark = Mark(match["kind"], *match.span(), fault="stands behind no figure")
        else:
            mark = _mark(match["kind"], _unescaped(match["text"]), last.start, last.end)
        yield mark, match.start(), match.end()


def brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the marks in brackets, whose own numbers are no figures."""
    for match in _BRACKETS.finditer(text):
        yield match.span()


def _unescaped(text: str) -> str:
    """Return a text without Markdown's backslashes, which a generated page has."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def _mark(kind: str, text: str, start: int, end: int) -> Mark:
    try:
        words, options = parse_words(kind, text)
    except PatchkitError as err:
        return Mark(kind, start, end, fault=err.fact)
    return Mark(kind, start, end, words, options)
