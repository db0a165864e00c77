"""Typed edits: what a change to a module does to its definitions, statements, arguments, entries.

`lift` compares two versions of a module from the top down. Children that both have are paired, and
the text between two neighbouring pairs is one *gap*. A gap that differs is an edit: which elements
it removes, which it inserts, between which neighbours. Every byte of a module lies in a gap of
exactly one node, so applying all edits to the old bytes gives the new ones, and undoing them the
old; `lift` checks that.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from patchkit.syntax.label import TEXT
from patchkit.syntax.match import Pairs, match_ordered
from patchkit.syntax.tree import STATEMENT_LISTS, Module, Node


@dataclass(frozen=True, slots=True)
class Change:
    """A replaced stretch of bytes: [start, end) of the old, [new_start, new_end) of the new."""

    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(frozen=True)
class Edit:
    """One typed edit of a list or a token.

    `container` and the neighbours `prev` and `next` (None at a list's ends) are nodes of the old
    module, as are the `removed` ones; `inserted` nodes belong to the new module, as does
    `new_container`. `left` and `right` are the children, of whatever slot, between which the edited
    gap lies, in the old and in the new module. Spans are byte offsets, half-open.
    """

    kind: str
    container: Node
    new_container: Node
    slot: str
    prev: Node | None
    next: Node | None
    removed: tuple[Node, ...]
    inserted: tuple[Node, ...]
    start: int
    end: int
    new_start: int
    new_end: int
    comments_removed: tuple[bytes, ...] = field(default=())
    comments_added: tuple[bytes, ...] = field(default=())
    signs_removed: tuple[bytes, ...] = field(default=())
    signs_added: tuple[bytes, ...] = field(default=())
    left: tuple[Node, Node] | None = None
    right: tuple[Node, Node] | None = None

    @property
    def old_text(self) -> bytes:
        """The bytes that the edit replaces."""
        return self.container.module.source[self.start : self.end]

    @property
    def new_text(self) -> bytes:
        """The bytes that the edit puts there."""
        return self.new_container.module.source[self.new_start : self.new_end]

    @property
    def is_layout(self) -> bool:
        """Whether only spaces, line breaks, brackets and commas change."""
        return self.kind == "layout"

    @property
    def payload(self) -> tuple[object, ...]:
        """What the edit says, whatever the layout and the place: equal for equal changes."""
        return (
            self.slot,
            tuple(content_digest(n) for n in self.removed),
            tuple(content_digest(n) for n in self.inserted),
            tuple(sorted(self.comments_removed)),
            tuple(sorted(self.comments_added)),
            self.signs_removed,
            self.signs_added,
        )


def content_digest(node: Node) -> tuple[str, bytes]:
    """The digest of a node, with a comment's text where it is one."""
    return (node.kind, node.digest)


class InexactError(ValueError):
    """The edits do not give back the bytes they were lifted from: a fault in `lift`."""


def lift(old: Module, new: Module, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """Return the typed edits that turn `old` into `new`, in source order.

    `changes` say which bytes differ; all others are known to be the same, which settles every
    question of which of two equal statements is which.
    """
    lifter = _Lifter(old, new, changes)
    lifter.compare(old.root, new.root)
    edits = tuple(lifter.edits)
    if apply_edits(old.source, edits) != new.source or undo_edits(new.source, edits) != old.source:
        raise InexactError("lifted edits do not reproduce the change")
    return edits


def apply_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the bytes with every edit's old text replaced by its new text."""
    return splice(source, [(e.start, e.end, e.new_text) for e in edits])


def undo_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the bytes with every edit's new text replaced by its old text."""
    return splice(source, [(e.new_start, e.new_end, e.old_text) for e in edits])


def splice(source: bytes, pieces: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes with each [start, end) replaced; pieces must not overlap."""
    result, cursor = [], 0
    for start, end, text in sorted(pieces, key=lambda p: (p[0], p[1])):
        if start < cursor:
            raise InexactError("two edits overlap")
        result += [source[cursor:start], text]
        cursor = end
    return b"".join([*result, source[cursor:]])


class _Lifter:
    def __init__(self, old: Module, new: Module, changes: Sequence[Change]) -> None:
        self.old = old
        self.new = new
        self.changes = sorted(changes, key=lambda c: (c.start, c.end))
        self.edits: list[Edit] = []

    def unchanged_start(self, start: int, end: int) -> int | None:
        """Where a stretch that lies outside every change starts in the new module, else None."""
        shift = 0
        for change in self.changes:
            if change.end <= start:
                shift = change.new_end - change.end
            elif change.start < end:
                return None
        return start + shift

    def compare(self, old: Node, new: Node) -> None:
        """Record the edits between two nodes that are the same thing in both modules."""
        pairs = self.pair_children(old, new)
        olds = sorted(old.children, key=lambda n: n.start)
        news = sorted(new.children, key=lambda n: n.start)
        cursor_old, cursor_new = old.start, new.start
        matched_old = {a for a, _ in pairs}
        matched_new = {b for _, b in pairs}
        for index in range(len(pairs) + 1):
            a, b = pairs[index] if index < len(pairs) else (None, None)
            stop_old, stop_new = (a.start, b.start) if a and b else (old.end, new.end)
            removed = tuple(
                n for n in olds if n not in matched_old and cursor_old <= n.start < stop_old
            )
            inserted = tuple(
                n for n in news if n not in matched_new and cursor_new <= n.start < stop_new
            )
            span = (cursor_old, stop_old, cursor_new, stop_new)
            before = pairs[index - 1] if index else None
            after = pairs[index] if index < len(pairs) else None
            self.gap(old, new, removed, inserted, before, after, span)
            if a and b:
                if a.text != b.text:
                    self.compare(a, b)
                cursor_old, cursor_new = a.end, b.end

    def pair_children(self, old: Node, new: Node) -> list[tuple[Node, Node]]:
        """The children of two paired nodes that are the same, in an order that crosses nowhere."""
        found: list[tuple[Node, Node]] = []
        for slot in old.slots:
            other = new.slot_named(slot.name)
            if other is None:
                continue
            if slot.single:
                a, b = slot.nodes[0], other.nodes[0]
                if _comparable(a, b):
                    found.append((a, b))
                continue
            known = self.known(slot.nodes, other.nodes)
            for i, j in match_ordered(slot.nodes, other.nodes, known):
                if _comparable(slot.nodes[i], other.nodes[j]):
                    found.append((slot.nodes[i], other.nodes[j]))
        found.sort(key=lambda pair: pair[0].start)
        result: list[tuple[Node, Node]] = []
        for pair in found:  # slots may change places (`x if y else z`); what crosses is not paired
            if not result or pair[1].start >= result[-1][1].end:
                result.append(pair)
        return result

    def known(self, olds: Sequence[Node], news: Sequence[Node]) -> Pairs:
        """The pairs that the unchanged bytes force."""
        places = {(n.start, n.end - n.start, n.kind): j for j, n in enumerate(news)}
        heads = {(n.start, n.kind): j for j, n in enumerate(news)}
        pairs: Pairs = []
        for i, node in enumerate(olds):
            start = self.unchanged_start(node.start, node.end)
            j = None if start is None else places.get((start, node.end - node.start, node.kind))
            if start is None and (end := head_end(node)) is not None:
                # A block whose header is untouched is the same block, whatever became of its body.
                start = self.unchanged_start(node.start, end)
                j = None if start is None else heads.get((start, node.kind))
            if j is not None:
                pairs.append((i, j))
        return pairs

    def gap(
        self,
        old: Node,
        new: Node,
        removed: tuple[Node, ...],
        inserted: tuple[Node, ...],
        left: tuple[Node, Node] | None,
        right: tuple[Node, Node] | None,
        span: tuple[int, int, int, int],
    ) -> None:
        """Record one gap as an edit where its two texts differ."""
        start, end, new_start, new_end = span
        text_old, text_new = self.old.source[start:end], self.new.source[new_start:new_end]
        if text_old == text_new:
            return
        before, after = left and left[0], right and right[0]
        changed = (removed or inserted) and (removed + inserted)[0].slot
        slot = changed or (after.slot if after else before.slot if before else "")
        comments_old = _comments(self.old, start, end)
        comments_new = _comments(self.new, new_start, new_end)
        signs_old: tuple[bytes, ...]
        signs_new: tuple[bytes, ...]
        if old.label == TEXT and not removed and not inserted:
            signs_old, signs_new = (text_old,), (text_new,)  # in a text spaces are content
        else:
            signs_old = _signs(self.old, start, end, removed)
            signs_new = _signs(self.new, new_start, new_end, inserted)
        if signs_old == signs_new:
            signs_old = signs_new = ()
        gone, came = _difference(comments_old, comments_new)
        kind = _kind(old, slot, removed, inserted, gone, came, bool(signs_old or signs_new))
        if kind == "token replaced" and _is_renamed(old, new, signs_old, signs_new):
            kind = "definition renamed"
        self.edits.append(
            Edit(
                kind, old, new, slot,
                before if before and before.slot == slot else None,
                after if after and after.slot == slot else None,
                removed, inserted, start, end, new_start, new_end,
                gone, came, signs_old, signs_new, left, right,
            )
        )  # fmt: skip


def head_end(node: Node) -> int | None:
    """Where the header of a block ends, its colon included; None for what is no block."""
    if node.kind == "If":
        return head_end(next(iter(node.children)))
    colon = node.slot_named("colon") if node.kind in _BLOCKS else None
    return colon.nodes[0].end if colon is not None else None


_BLOCKS = (
    "FunctionDef", "AsyncFunctionDef", "ClassDef", "For", "AsyncFor", "While", "With", "AsyncWith",
    "branch", "ExceptHandler", "match_case",
)  # fmt: skip


def _comparable(old: Node, new: Node) -> bool:
    """Whether two nodes can be compared part by part; else one replaces the other."""
    if old.kind == new.kind:
        return bool(old.slots and new.slots) or old.text == new.text
    twins = ({"FunctionDef", "AsyncFunctionDef"}, {"List", "Tuple"})
    return {old.kind, new.kind} in twins


def _comments(module: Module, start: int, end: int) -> tuple[bytes, ...]:
    return tuple(module.source[a:b].rstrip() for a, b in module.comments_between(start, end))


def _difference(
    old: tuple[bytes, ...], new: tuple[bytes, ...]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    left, right = Counter(old), Counter(new)
    return tuple(sorted((left - right).elements())), tuple(sorted((right - left).elements()))


_SIGN = re.compile(rb"\w+|[^\w\s,()\\]")


def _signs(module: Module, start: int, end: int, nodes: Sequence[Node]) -> tuple[bytes, ...]:
    """The words and signs of a gap outside its nodes, without what only lays them out."""
    text = bytearray(module.source[start:end])
    spans = [*module.comments_between(start, end), *((n.start, n.end) for n in nodes)]
    for a, b in spans:
        text[a - start : b - start] = b" " * (min(b, end) - a)
    return tuple(_SIGN.findall(bytes(text)))


def _is_renamed(
    old: Node, new: Node, signs_old: tuple[bytes, ...], signs_new: tuple[bytes, ...]
) -> bool:
    """Whether a changed token is the name of a definition."""
    if not (old.is_definition and new.is_definition):
        return False
    before, after = (node.label.split(" ")[0].encode() for node in (old, new))
    return before != after and before in signs_old and after in signs_new


_KINDS = {
    "args": "argument", "keywords": "argument", "params": "parameter", "elts": "element",
    "pairs": "entry", "branches": "branch", "names": "import", "decorators": "decorator",
    "bases": "base class", "handlers": "handler", "cases": "case", "operands": "operand",
    "values": "operand", "lines": "docstring line", "comparators": "operand", "items": "item",
    "generators": "generator",
}  # fmt: skip


def _kind(
    container: Node,
    slot: str,
    removed: tuple[Node, ...],
    inserted: tuple[Node, ...],
    gone: tuple[bytes, ...],
    came: tuple[bytes, ...],
    signs: bool,
) -> str:
    """Name an edit as a person would: `argument added`, `enum member removed`, …"""
    nodes = removed + inserted
    if not nodes:
        return "token replaced" if signs else "comment changed" if gone or came else "layout"
    what = _what(container, slot, [n for n in nodes if n.kind != "Comment"])
    how = "replaced" if removed and inserted else "removed" if removed else "added"
    return f"{what} {how}"


def _what(container: Node, slot: str, nodes: list[Node]) -> str:
    if slot not in STATEMENT_LISTS:
        return _KINDS.get(slot, "expression")
    if not nodes:
        return "comment"
    if all(n.is_definition for n in nodes):
        return "definition"
    if all(isinstance(n.tree, (ast.Import, ast.ImportFrom)) for n in nodes):
        return "import"
    if is_enum(container) and all(isinstance(n.tree, ast.Assign) for n in nodes):
        return "enum member"
    if container.kind == "ClassDef":
        return "class member"
    return "statement"


def is_enum(node: Node) -> bool:
    """Whether a class says in its bases that it is an enumeration."""
    bases = node.slot_named("bases") if node.kind == "ClassDef" else None
    return bases is not None and any(
        re.search(rb"(Enum|Flag)$", b.text) is not None for b in bases.nodes
    )
