"""Whether what stands beside a statement has changed sides: then it is one of its like, elsewhere.

Images alone do not tell: where two statements change places, one of them has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from patchkit.syntax.tree import STATEMENT_LISTS, Node, statement_of

_ORDER_FREE = ("Import", "ImportFrom", "FunctionDef", "AsyncFunctionDef", "ClassDef")


def changes_sides(nodes: Sequence[Node], images: Sequence[Node]) -> bool:
    """Return whether a neighbour of some statements stands on their other side in the target.

    `nodes` are side by side in the patch, `images` in the target; the blocks around them count as
    well, up to their definition.
    """
    row, there = list(nodes), list(images)
    while row and there and row[0].parent is not None and there[0].parent is not None:
        if _crosses(row, there):
            return True
        if row[0].parent.is_definition or row[0].parent.kind == "Module":
            return False
        row, there = [statement_of(row[0].parent)], [statement_of(there[0].parent)]
        if row[0].is_definition or row[0].kind == "Module" or not row[0].is_statement:
            return False
    return False


def _crosses(row: Sequence[Node], there: Sequence[Node]) -> bool:
    left, right = _beside(row)
    left_there, right_there = _beside(there)
    return any(
        (left_there[d] < left[d] and right_there[d] > right[d])
        or (right_there[d] < right[d] and left_there[d] > left[d])
        for d in {*left, *right}
    )


def _beside(row: Sequence[Node]) -> tuple[Counter[bytes], Counter[bytes]]:
    """What stands before and after a row of statements in its list."""
    parent, name = row[0].parent, row[0].slot
    slot = parent.slot_named(name) if parent is not None and name in STATEMENT_LISTS else None
    low, high = row[0].start, row[-1].end
    before, after = Counter[bytes](), Counter[bytes]()
    for node in slot.nodes if slot is not None else ():
        if node.kind in _ORDER_FREE:
            continue
        said = node.label.encode() if node.kind == "Comment" else node.digest
        if node.end <= low:
            before[said] += 1
        elif node.start >= high:
            after[said] += 1
    return before, after
