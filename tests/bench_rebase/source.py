"""A Python file as bytes with its syntax tree: positions, definitions, splices.

Lines are 0-based here, ranges half-open; the tree's own line numbers are 1-based.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)

# Qualified name, and which of the definitions of that name it is.
Key = tuple[str, int]
Splice = tuple[int, int, bytes]

_BODIES = ("body", "orelse", "finalbody")


class UnreadableError(Exception):
    """The text is not Python that every supported version reads alike."""


@dataclass(frozen=True, eq=False)
class Source:
    """One file. `starts` holds the byte offset of each line."""

    text: bytes
    lines: tuple[bytes, ...]
    starts: tuple[int, ...]
    tree: ast.Module

    def offset(self, line: int, column: int) -> int:
        """Return the byte offset of a position as the tree gives it: 1-based line, byte column."""
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """Return the byte range of a node."""
        end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def segment(self, node: ast.expr | ast.stmt | ast.arg) -> bytes:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]


@lru_cache(maxsize=64)
def read_source(text: bytes) -> Source:
    """Return a file with its tree; raises UnreadableError."""
    if b"\r" in text or b"\f" in text or b"\0" in text or text.startswith(b"\xef\xbb\xbf"):
        raise UnreadableError("line endings, form feeds or a byte order mark")
    try:
        text.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = ast.parse(text, feature_version=(3, 11))
    except (SyntaxError, ValueError, RecursionError) as err:
        raise UnreadableError(str(err)) from err
    lines = split_lines(text)
    return Source(text, lines, (0, *accumulate(map(len, lines))), tree)


def split_lines(text: bytes) -> tuple[bytes, ...]:
    """Return the lines with their endings; only a line feed ends one."""
    lines = text.split(b"\n")
    return (*(line + b"\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else ()))


def is_python(text: bytes) -> bool:
    """Return whether the text can be read."""
    try:
        read_source(text)
    except UnreadableError:
        return False
    return True


def spliced(text: bytes, splices: Iterable[Splice]) -> bytes:
    """Return the text with byte ranges replaced; ranges must not overlap."""
    pieces, at = [], 0
    for start, end, new in sorted(splices):
        assert at <= start
        pieces += [text[at:start], new]
        at = end
    return b"".join([*pieces, text[at:]])


def definitions(source: Source) -> dict[Key, Definition]:
    """Return every definition under its key, in the order of the text."""
    found: dict[Key, Definition] = {}
    for name, node in _walk(source.tree, ""):
        ordinal = 0
        while (name, ordinal) in found:
            ordinal += 1
        found[name, ordinal] = node
    return found


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    for block in blocks(node):
        for child in block:
            if isinstance(child, DEFINITIONS):
                yield prefix + child.name, child
                yield from _walk(child, f"{prefix}{child.name}.")
            else:
                yield from _walk(child, prefix)


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the statement lists that stand directly in a node."""
    for field in _BODIES:
        block = getattr(node, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def first_line(node: ast.stmt) -> int:
    """Return the 0-based line on which a statement begins, with its decorators."""
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1


def enclosing(source: Source, start: int, end: int) -> tuple[Key, ...]:
    """Return the keys of the definitions around a range of lines, outermost first."""
    return tuple(
        key
        for key, node in definitions(source).items()
        if first_line(node) <= start and end <= (node.end_lineno or 0)
    )


def parent_block(source: Source, wanted: ast.stmt) -> tuple[ast.AST, list[ast.stmt]]:
    """Return the node and the statement list that hold a statement."""
    for node in ast.walk(source.tree):
        for block in blocks(node):
            if any(child is wanted for child in block):
                return node, block
    raise AssertionError("not a statement of this source")


def with_comments(source: Source, node: ast.stmt) -> int:
    """Return the line on which a statement begins with the comments right above it."""
    line = first_line(node)
    indent = source.lines[line][: len(source.lines[line]) - len(source.lines[line].lstrip())]
    while line and source.lines[line - 1].startswith(indent + b"#"):
        line -= 1
    return line
