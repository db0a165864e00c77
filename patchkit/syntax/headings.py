"""The definitions of a module by name and line, read off its lines: no parse.

A report lists every definition of a name in a release, and `forward` or `__init__` is in hundreds
of its files: an outline takes 25 ms a file, the lines take 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from patchkit.syntax.outline import name_of, outline_or_none
from patchkit.syntax.tree import STRING_OR_COMMENT

# What strings and brackets hold is no line of its own, nor is what follows a backslash. A pair of
# brackets with nothing of note inside is one match, and so are blank and comment lines.
_TOKEN = re.compile(
    STRING_OR_COMMENT.pattern + rb"|[(\[{](?:[^()\[\]{}\"'#\n\\]*[)\]}])?|[)\]}]|\\\n|"
    rb"\n(?: *(?:#[^\n]*)?\n)*( *)(?=([^ \n#])?)(?:(?:async +)?(?:def|class) +(\w+))?",
    re.DOTALL,
)
_OPENING, _CLOSING, _LINE_END = b"([{", b")]}", ord("\n")
_TAB = re.compile(rb"^ *\t", re.MULTILINE)


class Heading(NamedTuple):
    """A definition: its bare and its qualified name, and its first line (1-based, decorators
    included)."""

    bare: str
    name: str
    line: int


@lru_cache(maxsize=4096)
def headings_of(source: bytes) -> tuple[Heading, ...]:
    """Return the definitions of a module in source order; none where the bytes are no text.

    They are those of its outline. Where this Python does not parse the module, there is no outline
    but there are headings.
    """
    if _is_unusual(source):
        outline = outline_or_none(source)
        found = outline.names.items() if outline is not None else ()
        return tuple(Heading(name_of(node), name, node.line) for node, name in found)
    try:
        return tuple(_read_off(b"\n" + source))
    except UnicodeDecodeError:
        return ()


def _is_unusual(source: bytes) -> bool:
    """Whether something makes lines or columns count otherwise."""
    if b"\r" in source or b"\f" in source or source.startswith(b"\xef\xbb\xbf"):
        return True
    return b"\t" in source and _TAB.search(source) is not None


def _read_off(text: bytes) -> Iterator[Heading]:
    """The headings of a text that begins with a line end."""
    taken: set[str] = set()
    around: list[tuple[int, str]] = []  # indentation and qualified name of the open definitions
    line, counted, decorated, depth = 0, 0, 0, 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in _OPENING:
            depth += token.end() - token.start() == 1
        elif sign in _CLOSING:
            depth -= 1
        if sign != _LINE_END or depth or token[2] is None:
            continue
        column = len(token[1])
        while around and around[-1][0] >= column:
            around.pop()
        if token[2] == b"@" and not decorated:
            decorated = token.start(2)
        if token[3] is not None:
            start = decorated or token.start(2)
            line += text.count(b"\n", counted, start)
            counted = start
            bare = token[3].decode()
            name = _unused(f"{around[-1][1]}.{bare}" if around else bare, taken)
            yield Heading(bare, name, line)
            around.append((column, name))
        if token[2] != b"@":
            decorated = 0


def _unused(plain: str, taken: set[str]) -> str:
    """A name with the ordinal that it gets where it repeats."""
    name, ordinal = plain, 1
    while name in taken:
        ordinal += 1
        name = f"{plain}#{ordinal}"
    taken.add(name)
    return name
