"""Who reads a method's name in a tree, and what is passed to it: bytes first, no file is parsed.

The receivers are not known, so a reader is any `.name` but that of `super()`. A method of the same
name that reads it hands a call on: it passes something, but keeps nothing alive.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from patchkit.surface.protocol_members import Signature
from patchkit.syntax.tree import STRING_OR_COMMENT
from patchkit.tree import SourceTree

_SUPER = re.compile(rb"super\([^()]*\)$")
_CLASS = re.compile(rb"(?<!\w)_?[A-Z]\w*$")
_HEADER = re.compile(rb" *(?:async +)?(def|class) +(\w+)")
_TOKEN = re.compile(STRING_OR_COMMENT.pattern + rb"|[()\[\]{}]", re.DOTALL)
_SIGN = re.compile(rb"[\"'`#]")
_ARGUMENTS = re.compile(rb"\s*\(")


@dataclass(frozen=True, slots=True)
class Passed:
    """What one call passes; `open` where a `*` or `**` hides some of it."""

    positions: int
    keywords: tuple[str, ...]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """One reader of a name; `passed` where it calls it, on what may be an object of any class.

    `handed_on` where it stands in a method of that name.
    """

    path: str
    line: int
    passed: Passed | None
    handed_on: bool

    @property
    def place(self) -> str:
        """`path:line` of the reader."""
        return f"{self.path}:{self.line}"


class Uses:
    """Finds the readers of names in one tree."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._near: dict[str, tuple[bytes, ...]] = {}

    def is_read(self, name: str, near: str = "") -> bool:
        """Return whether anything may read a name, by a string as well.

        The files that hold the word `near` are looked at first: to search them takes a tenth of
        what a search of the tree takes (25 ms a word on 0.28.0).
        """
        word = name.encode()
        if near and any(_is_plainly_read(source, word) for source in self._holding(near)):
            return True
        if any(not use.handed_on for use in self.uses(name)):
            return True
        return any(self._tree.python_holding(b"%b%b%b" % (q, word, q)) for q in (b'"', b"'"))

    def uses(self, name: str) -> Iterator[Use]:
        """Yield the readers of a name in the order of the tree."""
        word = name.encode()
        for path in self._tree.python_holding(b"." + word):
            for line, passed, handed_on in uses_in(self._tree.files[path], word):
                yield Use(path, line, passed, handed_on)

    def _holding(self, word: str) -> tuple[bytes, ...]:
        if word not in self._near:
            paths = self._tree.python_holding(word.encode())
            self._near[word] = tuple(self._tree.files[path] for path in paths)
        return self._near[word]


def _is_plainly_read(source: bytes, word: bytes) -> bool:
    """Whether a line with no sign of a string or comment before it reads `.word`.

    To find the strings of a file takes 2 to 8 ms, and most names are read where this sees it.
    """
    if b"." + word not in source:
        return False
    for match in _dotted(word).finditer(source):
        line = source[source.rfind(b"\n", 0, match.start()) + 1 : match.start()]
        if _SIGN.search(line) or _is_super(source, match.start()):
            continue
        if not _is_handed_on(source, match.start(), word):
            return True
    return False


@lru_cache(maxsize=2048)
def uses_in(source: bytes, word: bytes) -> tuple[tuple[int, Passed | None, bool], ...]:
    """Return the lines at which a file reads a name, what a call there passes, and whether a method
    of that name stands around it.
    """
    found = []
    for match in _dotted(word).finditer(source):
        start, end = match.span()
        if _is_super(source, start) or _is_said(source, start):
            continue
        passed = None
        if _ARGUMENTS.match(source, end) and not _CLASS.search(source, max(start - 80, 0), start):
            passed = _passed(source, source.index(b"(", end))
        line = source.count(b"\n", 0, start) + 1
        found.append((line, passed, _is_handed_on(source, start, word)))
    return tuple(found)


def binds(signature: Signature, passed: Passed) -> bool:
    """Return whether a call can be made of a method; one that hides what it passes can."""
    if passed.open:
        return True
    positional = signature.positional
    if passed.positions > len(positional) and not signature.any_position:
        return False
    taken = {parameter.name for parameter in positional[: passed.positions]}
    for keyword in passed.keywords:
        known = signature.by_name(keyword) is not None or signature.any_keyword
        if keyword in taken or not known:
            return False
    given = taken.union(passed.keywords)
    return all(p.default is not None or p.name in given for p in signature.parameters)


def _is_super(source: bytes, at: int) -> bool:
    return _SUPER.search(source, max(at - 80, 0), at) is not None


def _is_handed_on(source: bytes, at: int, word: bytes) -> bool:
    """Whether a method of the same name reads. A function is called without the dot."""
    header = header_around(source, at)
    return header[:2] == (b"def", word) and header[2] > 0


@lru_cache(maxsize=512)
def _dotted(word: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\.%b(?!\w)" % re.escape(word))


def header_around(source: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Return `def` or `class`, the name and the column of the innermost definition around a place,
    by what is indented less above it; nothing at the top of a module.
    """
    begin = source.rfind(b"\n", 0, at) + 1
    least = _indentation(source, begin)
    while least and begin:
        begin = source.rfind(b"\n", 0, begin - 1) + 1
        column = _indentation(source, begin)
        if column >= least or source[begin + column : begin + column + 1] in (b"\n", b"", b")"):
            continue
        header = _HEADER.match(source, begin)
        if header is not None:
            return header[1], header[2], column
        least = column
    return b"", b"", 0


def _indentation(source: bytes, begin: int) -> int:
    column = begin
    while source[column : column + 1] == b" ":
        column += 1
    return column - begin


def _is_said(source: bytes, at: int) -> bool:
    """Whether a place is in a comment or a string."""
    starts, ends = _said(source)
    index = bisect_right(starts, at) - 1
    return index >= 0 and at < ends[index]


@lru_cache(maxsize=512)
def _said(source: bytes) -> tuple[list[int], list[int]]:
    spans = [match.span() for match in STRING_OR_COMMENT.finditer(source)]
    return [start for start, _ in spans], [end for _, end in spans]


def _passed(source: bytes, bracket: int) -> Passed:
    """What the call whose arguments begin at a bracket passes."""
    text = source[bracket : _closing(source, bracket)]
    try:
        node = ast.parse(b"f" + text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Passed(0, (), open=True)
    if not isinstance(node, ast.Call):
        return Passed(0, (), open=True)
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    names = tuple(sorted(k.arg for k in node.keywords if k.arg is not None))
    return Passed(len(node.args), names, starred or len(names) < len(node.keywords))


def _closing(source: bytes, bracket: int) -> int:
    """Where the bracket that is opened at a place has been closed."""
    depth = 0
    for token in _TOKEN.finditer(source, bracket):
        if token[0] in (b"(", b"[", b"{"):
            depth += 1
        elif token[0] in (b")", b"]", b"}"):
            depth -= 1
            if not depth:
                return token.end()
    return len(source)


def shown(passed: Iterable[Passed]) -> str:
    """Return what calls pass, each way once, without the places."""
    ways = {(p.positions, p.keywords) for p in passed}
    said = [", ".join([*["_"] * n, *(f"{k}=" for k in keywords)]) for n, keywords in sorted(ways)]
    return " | ".join(f"({way})" for way in said)
