"""What of a text is prose: code, comments and addresses blanked, every offset kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(
    r"(?P<quote>(?:[ \t]*>)*[ \t]*(?:[-*+][ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<rest>.*)"
)
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_INLINE = re.compile(
    r"(?P<comment><!--.*?-->)"
    r"|(?<![\\`])(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=ticks)(?!`)"
    r"|(?<=\])\((?P<address>[^()\s]*)\)",
    re.DOTALL,
)


def blank(text: str) -> str:
    """Return blanks in place of a text, its line ends kept."""
    return re.sub(r"[^\r\n]", " ", text)


def markdown_prose(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Return a Markdown text with all but prose blanked, and its comments with their offsets."""
    return _without_inline(_without_blocks(text))


def header_text(text: str) -> str:
    """Return the text of a patch before its first file."""
    start = re.search(r"^(?:diff --git |--- \S.*\n\+\+\+ |Index: )", text, re.MULTILINE)
    return text[: start.start()] if start else text


def plain_prose(text: str) -> str:
    """Return a plain text with what stands in backticks blanked."""
    return _without_inline(text)[0]


def _without_inline(text: str) -> tuple[str, list[tuple[int, str]]]:
    comments: list[tuple[int, str]] = []

    def cleared(match: re.Match[str]) -> str:
        if match["comment"]:
            comments.append((match.start(), match[0]))
        return blank(match[0])

    return _INLINE.sub(cleared, text), comments


def _without_blocks(text: str) -> str:
    return "".join(blank(line) if is_code else line for line, is_code in _lines(text))


def _stays_in_comment(line: str, in_comment: bool) -> bool:
    """Return whether the next line is in a comment that began a line."""
    begins = in_comment or re.match(r" {0,3}<!--", line) is not None
    return begins and "-->" not in line


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is code: fenced, or indented outside of a list."""
    fence = ""
    was_blank, in_list, in_code, in_comment = True, False, False, False
    for line in text.splitlines(keepends=True):
        if not fence and not in_code:
            # a comment that begins a line goes on to its end, whatever looks like a fence in it
            within, in_comment = in_comment, _stays_in_comment(line, in_comment)
            if within:
                yield line, False
                continue
        match = _FENCE.match(line)
        if fence:
            closes = match and match["fence"].startswith(fence) and not match["rest"].strip()
            fence = "" if closes else fence
            was_blank = False
            yield line, True
            continue
        if match and not ("`" in match["fence"] and "`" in match["rest"]):
            fence = match["fence"]
            yield line, True
            continue
        indented = re.match(r" {4}| {0,3}\t", line) is not None
        if not line.strip():
            was_blank = True
            yield line, in_code
            continue
        if _ITEM.match(line) and not (indented and in_code):
            in_list = in_list or not indented
        elif was_blank and not line[0].isspace():
            in_list = False
        in_code = indented and not in_list and (was_blank or in_code)
        was_blank = False
        yield line, in_code
