"""What the text around a word says of it: whether the word may be bound there. No parse.

Every answer errs to yes. A parse takes 4 ms a file; most files that hold a word only read it, or
bind it as a variable of some function, and that the text tells in a hundredth of the time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from keyword import iskeyword

from patchkit.syntax.tree import STRING_OR_COMMENT

_STORE = re.compile(rb"\s*(?:[:,)\]]|[-+*/|&@%^<>]*=(?!=)|in\b|as\b)")
_COMMA_ENDS_LINE = re.compile(rb"[^\n#]*,[ \t]*(?:#[^\n]*)?\r?\n")
_HEADER = re.compile(
    rb"(?:async[ \t]+)?(?:(def)|if|elif|else|for|while|with|try|except|finally|match|case)(?!\w)"
)
_CONDITION = re.compile(rb"[ \t]*(?:if|elif|while)(?!\w)")
_BRACKET = re.compile(rb"[()\[\]{}]")
_FOR = re.compile(rb"(?<!\w)for(?!\w)")
_WALRUS = re.compile(rb"\s*:=")
# What is called or indexed: a name, or what ends in a bracket.
_CALLED = re.compile(rb"(?:\w+|[)\]])$")
_NEAR = 1500  # bytes before a place in which the bracket around it is looked for
_HEAD = re.compile(rb"(?<!\w)(def|class)$")
_NO_START = (b"\n", b"\r", b")", b"]", b"}")  # what no logical line begins with
_BLANK = b" \t\r\n\f\\"

CALLABLE = frozenset({"method", "function", "class"})
HEADS = (b"def ", b"class ")  # what stands before the name of a callable

_ATTRIBUTES = frozenset({"self", "store"})
_VARIABLES = frozenset({"field", "module", "import"})
# What a `def` and a `class` may be outside of functions alone, and what they are inside as well.
_FUNCTIONS = frozenset({"method", "module"}), frozenset({"function"})
_CLASSES = frozenset({"module", "field"}), frozenset({"class"})


def places(source: bytes, name: str) -> Iterator[int]:
    """Yield the byte offsets at which the name may be bound."""
    return _places(_pattern(name), source)


def _places(pattern: re.Pattern[bytes], source: bytes) -> Iterator[int]:
    for match in pattern.finditer(source):
        if _may_bind(source, *match.span()):
            yield match.start()


def is_read(source: bytes, name: str) -> bool:
    """Return whether some text looks like a read of an attribute of that name."""
    return any(
        source[max(match.start() - 1, 0) : match.start()] == b"."
        and not _STORE.match(source, match.end())
        for match in _pattern(name).finditer(source)
    )


def may_define(source: bytes, name: str, kinds: frozenset[str]) -> bool:
    """Return whether some text looks like a definition of one of the kinds."""
    word = name.encode()
    if kinds <= CALLABLE and not any(head + word in source for head in HEADS):
        return False
    if "text" in kinds:
        return next(places(source, name), None) is not None
    pattern = _pattern(name) if "import" in kinds else _likely(name)
    found = _places(pattern, source)
    return any(_may_be(source, at, at + len(word), kinds) for at in found)


def _may_bind(source: bytes, start: int, end: int) -> bool:
    """Whether the word in a span is more than a read of an attribute or a keyword argument."""
    before = source[max(start - 1, 0) : start]
    if before == b".":
        return _STORE.match(source, end) is not None
    if before.isalnum() or before == b"_":
        return False
    if source[end : end + 1] != b"=" or source[end : end + 2] == b"==":
        return True
    # `f(NAME=x)`, or `NAME=x,` on a line of its own: an assignment has its spaces, or no comma
    line = source[source.rfind(b"\n", 0, start) + 1 : start]
    return not line.strip() and not _COMMA_ENDS_LINE.match(source, end)


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[bytes]:
    # The word first: a lookbehind in front of it makes the search ten times slower.
    return re.compile(re.escape(name.encode()) + rb"(?!\w)")


@lru_cache(maxsize=1024)
def _likely(name: str) -> re.Pattern[bytes]:
    """The name where an assignment may bind it by what follows, or a `def` by what is before."""
    word = re.escape(name.encode())
    follows = rb"\s*(?:[:,)\]#\\]|=(?!=)|[-+*/|&@%^<>]+=|in\b|as\b)"
    before = rb"(?<=def %b)|(?<=class %b)|(?<=[ \t\n\\][ \t\n]%b)" % (word, word, word)
    return re.compile(rb"%b(?!\w)(?:(?=%b)|%b)" % (word, follows, before))


def _may_be(source: bytes, start: int, end: int, kinds: frozenset[str]) -> bool:
    """Whether the word in a span may be a definition of one of the kinds, strings aside."""
    before = _before(source, start)
    if before.endswith(b"."):
        if not kinds & _ATTRIBUTES or _is_condition(source, start, end):
            return False
        return not _is_said(source, start) and not _is_argument(source, start)
    head = _HEAD.search(before)
    if head is not None:
        outer, inner = _CLASSES if head[1] == b"class" else _FUNCTIONS
        if not kinds & (outer | inner) or _is_said(source, start):
            return False
        return bool(kinds & inner) or not _is_in_function(source, start)
    if not kinds & _VARIABLES:
        return False
    return (
        not _is_said(source, start)
        and not _is_in_function(source, start)
        and not _is_argument(source, start, end)
    )


def _before(source: bytes, start: int) -> bytes:
    """The last bytes of code before a word, over line ends and comments."""
    begin = max(start - 100, 0)
    before = source[begin:start]
    code = before.rstrip(_BLANK)
    if b"\n" in before[len(code) :]:
        # the lines above may end in a comment
        while (span := _said_around(source, begin + len(code) - 1)) and source[span[0]] == ord("#"):
            begin = max(span[0] - 100, 0)
            code = source[begin : span[0]].rstrip(_BLANK)
    return code


def _is_said(source: bytes, start: int) -> bool:
    """Whether a place is in a comment or a string; what an f-string holds is code as well."""
    span = _said_around(source, start)
    if span is None:
        return False
    return not {b"f", b"F"} & {source[i : i + 1] for i in range(max(span[0] - 2, 0), span[0])}


def _is_in_function(source: bytes, start: int) -> bool:
    """Whether a place is in the header or body of a function, and in no class inside of it.

    Only a logical line that is indented as little as the `def` ends its block: the lines that are
    indented less than all below them are the headers of the blocks around the place. Whatever else
    they may be, in a string or between brackets, is doubt.
    """
    begin = source.rfind(b"\n", 0, start) + 1
    least = _indentation(source, begin)
    while least and begin:
        begin = source.rfind(b"\n", 0, begin - 1) + 1
        column = _indentation(source, begin)
        first = source[begin + column : begin + column + 1]
        if column >= least or first in _NO_START:
            continue
        header = _HEADER.match(source, begin + column)
        if header is None or _said_around(source, begin + column) is not None:
            return False
        if header[1] is not None:
            return True
        least = column
    return False


def _is_condition(source: bytes, start: int, end: int) -> bool:
    """Whether an attribute ends the header of a block: `if x.NAME:` annotates nothing."""
    line = source[source.rfind(b"\n", 0, start) + 1 : start]
    return source[end : end + 1] == b":" and b":" not in line and _CONDITION.match(line) is not None


def _is_argument(source: bytes, start: int, end: int = 0) -> bool:
    """Whether a place is inside the brackets of a call, an index or a `{}` for certain.

    Nothing is bound there but by a comprehension's `for` and by `:=`; `end` is where a variable's
    name ends, as an attribute takes no `:=`.
    """
    if end and _WALRUS.match(source, end):
        return False
    begin = max(start - _NEAR, 0)
    text = bytearray(source[begin:start])
    starts, ends = _said(source)
    index = bisect_right(starts, start) - 1
    while index >= 0 and ends[index] > begin:
        low = max(starts[index] - begin, 0)
        text[low : ends[index] - begin] = b" " * (ends[index] - begin - low)
        index -= 1
    return any(_holds_reads(bytes(text), at) for at in _open_brackets(bytes(text)))


def _open_brackets(text: bytes) -> Iterator[int]:
    """Yield the places of the brackets that are open at the end of a text, the inner ones first."""
    closed = 0
    for match in reversed(list(_BRACKET.finditer(text))):
        if match[0] in b")]}":
            closed += 1
        elif closed:
            closed -= 1
        else:
            yield match.start()


def _holds_reads(text: bytes, bracket: int) -> bool:
    """Whether an open bracket calls or indexes, or is `{`, and no `for` stands inside."""
    if _FOR.search(text, bracket):
        return False
    if text[bracket] == ord("{"):
        return True
    called = _CALLED.search(text, 0, bracket)
    return called is not None and not iskeyword(called[0].decode("ascii", "replace"))


def _indentation(source: bytes, begin: int) -> int:
    column = begin
    while source[column : column + 1] == b" ":
        column += 1
    return column - begin


def _said_around(source: bytes, offset: int) -> tuple[int, int] | None:
    """The span of the string or comment that holds an offset."""
    starts, ends = _said(source)
    index = bisect_right(starts, offset) - 1
    return (starts[index], ends[index]) if index >= 0 and offset < ends[index] else None


@lru_cache(maxsize=4096)
def _said(source: bytes) -> tuple[list[int], list[int]]:
    """Where strings and comments start and end."""
    spans = [match.span() for match in STRING_OR_COMMENT.finditer(source)]
    return [start for start, _ in spans], [end for _, end in spans]
