"""A Python module as a tree of nodes over its own bytes.

Python's `ast` says what the code means; a patch needs to know where each part stands, and which
comments belong to it. A `Node` is one part of the source with a byte span. Chains that Python nests
(`elif`, `a + b + c`, `key: value`, a parameter with its default) are flattened into lists, and a
comment on a line of its own is a node of the statement list it stands in. Children are built when
first asked for: a rebase looks at few of a module's definitions.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import re
import sys
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

# One match is a whole string or comment, so that a `#` inside a string is never taken for one.
STRING_OR_COMMENT = re.compile(
    rb'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|'
    rb"'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|"
    rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'
    rb"'[^'\\\n]*(?:\\.[^'\\\n]*)*'|#[^\r\n]*",
    re.DOTALL,
)
# PEP 263: the encoding stands in a comment on one of the first two lines.
_CODING = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)"
)
SIGNS = ("close", "colon")  # slots of what ends a header: there for placing, saying nothing
# Slots that hold statements, and those whose elements a sign joins (`a and b`).
STATEMENT_LISTS = ("body", "orelse", "finalbody")
OPERAND_LISTS = ("operands", "values", "comparators")
DEFINITIONS = ("FunctionDef", "AsyncFunctionDef", "ClassDef")


_MOST_DIGESTS = 1 << 16
_digests: dict[tuple[str, str, bytes], bytes] = {}  # of statements, by kind, label and text


class NotPythonError(ValueError):
    """The bytes are not a module that this interpreter parses; the text says why."""


class Slot(NamedTuple):
    """A named list of children, `single` where Python's grammar allows one only."""

    name: str
    nodes: tuple[Node, ...]
    single: bool


class Node:
    """One part of a module.

    `start` and `end` are byte offsets into `module.source`, 0-based and half-open. A statement's
    span begins at its first decorator and includes the comment that ends its last line.
    """

    __slots__ = (
        "_digest",
        "_slots",
        "_tree",
        "end",
        "index",
        "kind",
        "label",
        "module",
        "parent",
        "slot",
        "start",
    )

    def __init__(
        self,
        module: Module,
        tree: object,
        kind: str,
        label: str,
        start: int,
        end: int,
    ) -> None:
        self.module = module
        self._tree = tree
        self.kind = kind
        self.label = label
        self.start = start
        self.end = end
        self.parent: Node | None = None
        self.slot = ""
        self.index = 0
        self._slots: tuple[Slot, ...] | None = None
        self._digest: bytes | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label} {self.start}:{self.end}>"

    @property
    def text(self) -> bytes:
        """The node's own bytes."""
        return self.module.source[self.start : self.end]

    @property
    def line(self) -> int:
        """The 1-based line on which the node starts."""
        return self.module.line_at(self.start)

    @property
    def tree(self) -> object:
        """The `ast` node, or the tuple of them, that this node was made from."""
        return self._tree

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The node's children by field, in the order in which they stand in the source."""
        if self._slots is None:
            self._slots = self.module.build_slots(self)
            for slot in self._slots:
                for index, child in enumerate(slot.nodes):
                    child.parent, child.slot, child.index = self, slot.name, index
        return self._slots

    def slot_named(self, name: str) -> Slot | None:
        """The slot of that name, None where the node has none."""
        return next((slot for slot in self.slots if slot.name == name), None)

    @property
    def children(self) -> Iterator[Node]:
        """All children, slot by slot."""
        for slot in self.slots:
            yield from slot.nodes

    @property
    def is_statement(self) -> bool:
        """Whether the node stands in a statement list (comments on their own line do)."""
        return self.kind == "Comment" or isinstance(self._tree, ast.stmt)

    @property
    def is_definition(self) -> bool:
        """Whether the node defines a function or a class."""
        return self.kind in DEFINITIONS

    @property
    def digest(self) -> bytes:
        """A hash of what the code says: no layout, no quotes, no comments."""
        if self._digest is None:
            # The versions of a file that a rebase compares have nearly all their statements in
            # common: those that read the same say the same, and need no children to tell.
            key = (self.kind, self.label, self.text) if isinstance(self._tree, ast.stmt) else None
            self._digest = _digests.get(key) if key is not None else None
            if self._digest is None:
                self._digest = self.digest_with(self.label)
                if key is not None:
                    if len(_digests) >= _MOST_DIGESTS:
                        _digests.clear()
                    _digests[key] = self._digest
        return self._digest

    def digest_with(self, label: str) -> bytes:
        """The digest the node would have under another label (a definition under another name)."""
        parts = [self.kind.encode(), b"\0", label.encode("utf-8", "surrogatepass")]
        for slot in self.slots:
            if slot.name in SIGNS:
                continue
            parts.append(b"\1" + slot.name.encode())
            parts.extend(n.digest for n in slot.nodes if n.kind != "Comment")
        return hashlib.blake2b(b"".join(parts), digest_size=16).digest()

    def walk(self) -> Iterator[Node]:
        """The node and everything below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def ancestors(self) -> Iterator[Node]:
        """The node's parents, nearest first; the module's node comes last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


class Module:
    """A parsed module: its bytes, its line starts, its comments and its top node."""

    def __init__(self, source: bytes, build_slots: Callable[[Node], tuple[Slot, ...]]) -> None:
        self.source = source
        self.build_slots = build_slots
        self.tree = _parse(source)
        self.line_starts = [0]
        self.line_starts.extend(m.end() for m in re.finditer(rb"\n", source))
        self._bom = 3 if source.startswith(b"\xef\xbb\xbf") else 0
        tokens = [(m.start(), m.end()) for m in STRING_OR_COMMENT.finditer(source)]
        self.comments = [span for span in tokens if source[span[0]] == ord("#")]
        self._strings = [span for span in tokens if source[span[0]] != ord("#")]
        self._lines_in_strings: frozenset[int] | None = None
        self._comment_starts = [start for start, _ in self.comments]
        self.root = Node(self, self.tree, "Module", "", 0, len(source))

    def offset(self, line: int, column: int) -> int:
        """The byte offset of a 1-based line and a column in bytes, as `ast` counts them."""
        return self.line_starts[line - 1] + column + (self._bom if line == 1 else 0)

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds a byte offset."""
        return bisect_right(self.line_starts, offset)

    def line_start(self, offset: int) -> int:
        """The offset at which the line that holds `offset` begins."""
        return self.line_starts[self.line_at(offset) - 1]

    def column(self, offset: int) -> int:
        """The column in bytes of an offset in its line."""
        return offset - self.line_start(offset)

    def comments_between(self, start: int, end: int) -> list[tuple[int, int]]:
        """The spans of the comments that begin in [start, end)."""
        low = bisect_left(self._comment_starts, start)
        high = bisect_left(self._comment_starts, end)
        return self.comments[low:high]

    @property
    def lines_in_strings(self) -> frozenset[int]:
        """The 1-based lines whose first byte belongs to a string."""
        if self._lines_in_strings is None:
            self._lines_in_strings = frozenset(
                line
                for start, end in self._strings
                if b"\n" in self.source[start:end]
                for line in range(self.line_at(start) + 1, self.line_at(end) + 1)
            )
        return self._lines_in_strings

    def is_own_line(self, comment_start: int) -> bool:
        """Whether a comment stands on a line of its own."""
        begin = self.line_start(comment_start)
        return not self.source[begin:comment_start].strip()


@contextmanager
def at_ease() -> Iterator[None]:
    """Let trees be walked as deep as Python itself parses, and built without pauses.

    Chains of calls nest deeper than the usual limit. The collector finds next to nothing in syntax
    trees, and took half the time of a run over thirty files (2026-11-29, Python 3.11, 2 cores).
    Nor does it look at what is there by the end as if it were new, which took a second more.
    """
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, 50_000))
    gc.disable()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            if not gc.get_freeze_count():
                # All that was built counts as old from here on: it is kept by caches.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _parse(source: bytes) -> ast.Module:
    if b"\r" in source.replace(b"\r\n", b""):
        raise NotPythonError("a carriage return inside a line")
    cookie = _CODING.match(source)
    if cookie and cookie[1].lower() not in (b"utf-8", b"utf8"):
        raise NotPythonError(f"encoded as {cookie[1].decode('ascii', 'replace')}")
    try:
        source.decode("utf-8")
        with warnings.catch_warnings():
            # An invalid escape is upstream's business, not a fact about the patch.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(str(error)) from error


@lru_cache(maxsize=256)
def compile_error(source: bytes) -> tuple[int, str] | None:
    """Return the line (1-based) and reason for which a module does not compile, None if it does.

    Much that parses does not compile: `await` outside of an async function, `nonlocal` without a
    binding, a name used before its `global`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<landed>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return getattr(error, "lineno", None) or 1, getattr(error, "msg", None) or str(error)
    return None


def statement_of(node: Node) -> Node:
    """Return the statement that a node is or stands in; the node itself outside of any."""
    return next((n for n in (node, *node.ancestors()) if n.is_statement), node)


def is_docstring(node: Node) -> bool:
    """Whether a statement is the docstring of the definition or module it stands in."""
    tree, parent = node.tree, node.parent
    if parent is None or not (parent.is_definition or parent.kind == "Module"):
        return False
    if not isinstance(tree, ast.Expr) or not isinstance(tree.value, ast.Constant):
        return False
    slot = parent.slot_named("body")
    code = [n for n in slot.nodes if n.kind != "Comment"] if slot else []
    return isinstance(tree.value.value, str) and bool(code) and code[0] is node
