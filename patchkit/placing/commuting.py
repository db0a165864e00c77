"""Whether a patch and upstream changed different lines of one thing: then both changes hold.

A patch that replaces a whole statement (a loop by another kind of loop) often changes a few of its
lines, and upstream has changed others. The four texts must form a square: upstream's change is the
same before and after the patch's, and each place that the patch changes is there once, with an
unchanged line on either side.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.diff.lines import Change, diff_lines
from patchkit.syntax.edit import Edit
from patchkit.syntax.tree import Node

_Lines = list[bytes]
_ENDS = (b"\0", b"\1")  # before the first line, after the last


def commute(edit: Edit, landed: Edit) -> bool:
    """Return whether a landed edit is the authored one beside what upstream changed there.

    Both must replace the same nodes, as their images; that is for the caller to know.
    """
    if not edit.removed or not edit.inserted or edit.slot != landed.slot:
        return False
    signs = (edit.signs_removed, edit.signs_added)
    comments = (edit.comments_removed, edit.comments_added)
    if signs != (landed.signs_removed, landed.signs_added):
        return False
    if comments != (landed.comments_removed, landed.comments_added):
        return False
    base, authored = _lines(edit.removed), _lines(edit.inserted)
    target, result = _lines(landed.removed), _lines(landed.inserted)
    if _changes(base, target) != _changes(authored, result):
        return False
    return all(_once(base, target, change) for change in diff_lines(base, authored))


def _lines(nodes: Sequence[Node]) -> _Lines:
    """The lines of some nodes side by side, without the indentation that their first has."""
    module = nodes[0].module
    column = module.column(nodes[0].start)
    first, *rest = module.source[nodes[0].start : nodes[-1].end].split(b"\n")
    return [first, *(line if line[:column].strip() else line[column:] for line in rest)]


def _changes(old: _Lines, new: _Lines) -> list[tuple[_Lines, _Lines]]:
    """What lines give way to what lines, in order."""
    changes = diff_lines(old, new)
    return [(old[c.old_start : c.old_end], new[c.new_start : c.new_end]) for c in changes]


def _once(base: _Lines, target: _Lines, change: Change) -> bool:
    """Whether the changed lines, to the next that says something on either side, are there once.

    So no line beside them is one that upstream changed.
    """
    first, last = change.old_start - 1, change.old_end
    while first >= 0 and not base[first].strip():
        first -= 1
    while last < len(base) and not base[last].strip():
        last += 1
    window = [_ENDS[0], *base, _ENDS[1]][first + 1 : last + 2]
    return all(_count(lines, window) == 1 for lines in (base, target))


def _count(lines: _Lines, window: _Lines) -> int:
    full = [_ENDS[0], *lines, _ENDS[1]]
    return sum(full[i : i + len(window)] == window for i in range(len(full)))
