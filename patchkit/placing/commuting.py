"""Whether a patch and upstream changed different lines of one thing: then both changes hold.

A patch that replaces a whole statement (a loop by another kind of loop) often changes a few of its
lines, and upstream has changed others. The four texts must form a square: upstream's change is the
same before and after the patch's, and each place that the patch changes is there once, with an
unchanged line on either side.
"""

from __future__ import annotations

import re
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
    ours = diff_lines(base, authored)
    theirs = _texts(base, target, diff_lines(base, target))
    if theirs != _texts(authored, result, diff_lines(authored, result)):
        return False
    if _is_shifted(edit, landed) or _meet(_texts(base, authored, ours), theirs):
        return False
    return all(_once(base, target, change) for change in ours)


def _lines(nodes: Sequence[Node]) -> _Lines:
    """The lines of some nodes side by side, without the indentation that their first has."""
    module = nodes[0].module
    column = module.column(nodes[0].start)
    first, *rest = module.source[nodes[0].start : nodes[-1].end].split(b"\n")
    return [first, *(line if line[:column].strip() else line[column:] for line in rest)]


_FLOW = re.compile(rb"\b(?:continue|break|return|yield|raise)\b")
_BOUND = re.compile(rb"^\s*(?:for\s+)?([\w, ]+?)\s*(?:[-+*/|&^%@]?=(?!=)|\bin\b)")
_WORD = re.compile(rb"[A-Za-z_]\w*")


def _meet(ours: Sequence[tuple[_Lines, _Lines]], theirs: Sequence[tuple[_Lines, _Lines]]) -> bool:
    """Whether upstream's lines leave the block, or bind a name that the patch's lines hold."""
    words = {w for change in ours for side in change for line in side for w in _WORD.findall(line)}
    for line in (line for change in theirs for side in change for line in side):
        bound = _BOUND.match(line)
        if _FLOW.search(line) or (bound and words & set(_WORD.findall(bound[1]))):
            return True
    return False


def _is_shifted(edit: Edit, landed: Edit) -> bool:
    """Whether a string over several lines has another indentation: its lines are its value."""
    columns, inside = set(), False
    for nodes in (edit.removed, edit.inserted, landed.removed, landed.inserted):
        module = nodes[0].module
        columns.add(module.column(nodes[0].start))
        lines = range(module.line_at(nodes[0].start), module.line_at(nodes[-1].end) + 1)
        inside = inside or any(n in module.lines_in_strings for n in lines)
    return inside and len(columns) > 1


def _texts(old: _Lines, new: _Lines, changes: Sequence[Change]) -> list[tuple[_Lines, _Lines]]:
    """What lines give way to what lines, in order."""
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
