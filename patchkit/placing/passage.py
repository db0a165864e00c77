"""The statements that some edits leave behind, found as a whole in a target.

Edit by edit an image has to be forced, and what an edit replaces has to be gone from the whole
definition. A row of statements that stands in the target exactly as the patch leaves it, once, and
that the base never says, needs neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchkit.placing.crossing import changes_sides
from patchkit.placing.sameness import same_code
from patchkit.syntax.align import Alignment, same_frame
from patchkit.syntax.edit import Edit
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import STATEMENT_LISTS, Node, statement_of

_MOST_STATEMENTS = 40
_WORD = re.compile(rb"\w{3,}")


@dataclass(frozen=True)
class Passage:
    """A row of statements of the authored module in one list, and what of the base it replaces.

    `owners` are the nodes of the base and of the authored module that have the list; `span` is what
    the edits take up in the base.
    """

    nodes: tuple[Node, ...]
    replaced: tuple[Node, ...]
    owners: tuple[Node, Node]
    span: tuple[int, int]

    @property
    def said(self) -> str:
        """What it is, in words."""
        count = len(self.nodes)
        one = "statement as the patch leaves it"
        return one if count == 1 else f"{count} statements as the patch leaves them"


def passage_of(edits: Sequence[Edit]) -> Passage | None:
    """Return the statements that edits leave in the innermost list that holds all of them.

    None where a statement that goes leaves no neighbour on either side to show it by.
    """
    chains = []
    for edit in edits:
        touched = _touched(edit)
        if not touched:
            return None
        chains += [_chain(node) for node in touched]
    first, *others = chains
    for node in first:
        row = [next((n for n in c if _same_list(n, node)), None) for c in others]
        members = [node, *(n for n in row if n is not None)]
        if len(members) == len(chains) and node.parent is not None:
            slot = node.parent.slot_named(node.slot)
            assert slot is not None
            low, high = min(n.index for n in members), max(n.index for n in members)
            nodes = tuple(n for n in slot.nodes[low : high + 1] if n.kind != "Comment")
            replaced = tuple(n for e in edits for n in _replaced(e))
            old = _old_owner(edits[0], node.parent)
            if old is None or len(nodes) > _MOST_STATEMENTS:
                return None
            span = min(e.start for e in edits), max(e.end for e in edits)
            return Passage(nodes, replaced, (old, node.parent), span)
    return None


def find_passage(passage: Passage, base: Alignment, authored: Alignment) -> Node | None:
    """Return the first of the target's statements that are a passage, None where it has none."""
    before, owner = passage.owners
    if any(word not in authored.new.source for node in passage.nodes for word in _words(node)):
        return None  # most hunks of a move: found without a look at any node
    home = authored.image(owner)
    if home is None or not same_frame(passage.nodes[0], home):
        return None
    if not _is_one(passage.nodes, owner):
        return None
    seen = base.image(before)
    if seen is not home and not (seen is None and home.digest == owner.digest):
        return None  # another block, or one that runs at other times
    around = _definition(home)
    rows = list(_rows(passage.nodes, around))
    if len(rows) != 1 or rows[0][0].parent is not home:
        return None
    if any(True for _ in _rows(passage.nodes, _definition(before))):
        return None
    new = _definition(owner)
    said = {n.digest for n in passage.nodes}
    gone = [n for n in passage.replaced if n.digest not in said and n.kind != "Comment"]
    if any(_count(around, n) > _count(new, n) for n in gone):
        return None
    if any(_stays_changed(base.image(n), rows[0]) for n in gone):
        return None
    if changes_sides(passage.nodes, rows[0]):
        return None
    return rows[0][0] if _in_order(passage, rows[0], base, authored) else None


def _stays_changed(image: Node | None, row: Sequence[Node]) -> bool:
    """Whether the target has what is replaced beside the row, with other content."""
    if image is None or image.parent is not row[0].parent:
        return False
    return image not in row


def _words(node: Node) -> set[bytes]:
    """The longer words of a statement, its comments aside."""
    text = bytearray(node.text)
    for start, end in node.module.comments_between(node.start, node.end):
        text[start - node.start : end - node.start] = b" " * (end - start)
    return set(_WORD.findall(bytes(text)))


def _touched(edit: Edit) -> list[Node]:
    """The authored statements that an edit changes, or between which it takes one away."""
    if edit.slot not in STATEMENT_LISTS:
        return [statement_of(edit.new_container)]
    code = [n for n in edit.inserted if n.kind != "Comment"]
    if code or any(n.kind == "Comment" for n in edit.inserted):
        return code
    beside = [pair[1] for pair in (edit.left, edit.right) if pair and pair[1].slot == edit.slot]
    return beside if len(beside) == 2 and all(n.kind != "Comment" for n in beside) else []


def _replaced(edit: Edit) -> Sequence[Node]:
    return edit.removed if edit.slot in STATEMENT_LISTS else (statement_of(edit.container),)


def _chain(node: Node) -> list[Node]:
    """A statement and the statements around it, the innermost first."""
    return [n for n in (node, *node.ancestors()) if n.is_statement and n.slot in STATEMENT_LISTS]


def _same_list(one: Node, other: Node) -> bool:
    return one.parent is other.parent and one.slot == other.slot


def _definition(node: Node) -> Node:
    return outline_of(node.module).enclosing(node) or node.module.root


def _old_owner(edit: Edit, owner: Node) -> Node | None:
    """What has, in the base, the list that `owner` has in the authored module."""
    chain = list(zip(_upwards(edit.container), _upwards(edit.new_container), strict=False))
    return next((old for old, new in chain if new is owner and old.kind == new.kind), None)


def _upwards(node: Node) -> list[Node]:
    return [node, *node.ancestors()]


def _rows(nodes: Sequence[Node], around: Node) -> Iterator[tuple[Node, ...]]:
    """Each place in a definition where a row of statements stands, comments aside."""
    for node in _own(around):
        for slot in node.slots if node.kind != "Comment" else ():
            if slot.name not in STATEMENT_LISTS or len(slot.nodes) < len(nodes):
                continue
            code = [n for n in slot.nodes if n.kind != "Comment"]
            for at, first in enumerate(code):
                row = tuple(code[at : at + len(nodes)])
                if first.digest != nodes[0].digest or len(row) != len(nodes):
                    continue
                if all(same_code(a, b) for a, b in zip(nodes, row, strict=True)):
                    yield row


def _own(node: Node) -> Iterator[Node]:
    """A node and what is below it, the insides of further definitions left out."""
    yield node
    for child in node.children:
        if child.is_definition:
            yield child
        else:
            yield from _own(child)


def _is_one(nodes: Sequence[Node], owner: Node) -> bool:
    """Whether the patch itself says the row once in its definition."""
    return len(list(_rows(nodes, _definition(owner)))) == 1


def _count(around: Node, wanted: Node) -> int:
    same = (n for n in _own(around) if n.kind == wanted.kind)
    return sum(1 for n in same if n.digest == wanted.digest)


def _in_order(passage: Passage, row: Sequence[Node], base: Alignment, authored: Alignment) -> bool:
    """Whether what stands before and after it in base and patch does so in the target, if there.

    Of two statements that are alike upstream may have changed the other one.
    """
    spans = (passage.span, (passage.nodes[0].start, passage.nodes[-1].end))
    sides: list[bool] = []
    for owner, (low, high), alignment in zip(passage.owners, spans, (base, authored), strict=True):
        slot = owner.slot_named(passage.nodes[0].slot)
        for node in slot.nodes if slot is not None else ():
            image = alignment.image(node) if node.kind != "Comment" else None
            if image is None or image in row or image.parent is not row[0].parent:
                continue
            if node.end <= low:
                sides.append(image.end <= row[0].start)
            elif node.start >= high:
                sides.append(row[-1].end <= image.start)
    return all(sides)
