"""Statements inserted directly before and after the region of the edit.

Where the patch itself only inserts, a statement in the same gap could stand before or after what
it inserts; so the new ones go around the neighbours of the gap.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.bench_rebase.draw import pick
from tests.bench_rebase.refactors.ground import DroppedError, Ground, InapplicableError
from tests.bench_rebase.source import DEFINITIONS, Source, blocks, first_line, with_comments

_FORMS = ("{} = None", "{}: list = []", "{} = dict()")
_ALIKE = 0.4  # share of common words from which a statement may be another one, edited
_WORD = re.compile(rb"\w+|[^\w\s]")
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)

Region = tuple[int, int]


@dataclass(frozen=True)
class Side:
    """Target or truth: the region of the edit, and the statements of its block that overlap it."""

    source: Source
    region: Region
    overlapping: list[ast.stmt]


def surround(ground: Ground, rng: Random) -> Ground:
    """Insert a statement before the region of the edit and one after it, on both sides alike."""
    if ground.regions is None:
        raise InapplicableError("the region of the edit is not known")
    target, truth = (
        _side(source, *region)
        for source, region in zip(ground.sources, ground.regions, strict=True)
    )
    columns = [side.overlapping[0].col_offset for side in (target, truth) if side.overlapping]
    if not columns:
        raise InapplicableError("the edit changes no statement")
    column = min(columns)
    target, truth = _lifted(target, column), _lifted(truth, column)
    before, after = _before(target, truth, column), _after(target, truth, column)
    if before is None and after is None:
        raise InapplicableError("no place for a statement beside the edit")
    texts = [side.source.lines for side in (target, truth)]
    notes = []
    for places, name in ((after, "_after"), (before, "_before")):  # from the end
        if places is None:
            continue
        statement = pick(rng, _FORMS).format(ground.fresh(name))
        line = b" " * column + statement.encode() + b"\n"
        texts = [(*t[:at], line, *t[at:]) for t, at in zip(texts, places, strict=True)]
        notes.append(f"`{statement}` {name.strip('_')} the edit")
    joined = [b"".join(lines) for lines in texts]
    return ground.with_texts(joined[0], joined[1], "insert " + " and ".join(reversed(notes)))


def _side(source: Source, start: int, end: int) -> Side:
    lines = source.lines
    while start < end and _is_remark(lines[start]):
        start += 1
    while start < end and _is_remark(lines[end - 1]):
        end -= 1
    overlapping: list[ast.stmt] = []
    for block in _blocks(source) if start < end else ():
        inside = [s for s in block if first_line(s) < end and start < (s.end_lineno or 0)]
        if inside and first_line(inside[0]) <= start and end <= (inside[-1].end_lineno or 0):
            overlapping = inside  # inner blocks come after outer ones
    return Side(source, (start, end), overlapping)


def _lifted(side: Side, column: int) -> Side:
    """Return a side with the statements of an outer block, as the other side has it."""
    start, end = side.region
    inside = [
        statement
        for statement in _at_column(side.source, column)
        if first_line(statement) < end and start < (statement.end_lineno or 0)
    ]
    return replace(side, overlapping=sorted(inside, key=first_line))


def _is_remark(line: bytes) -> bool:
    return not line.strip() or line.lstrip().startswith(b"#")


def _blocks(source: Source) -> Iterator[list[ast.stmt]]:
    """Yield every statement list that a statement can be put into, outer ones first."""
    work: list[ast.AST] = [source.tree]
    while work:
        node = work.pop()
        for block in blocks(node):
            has_lines = all(not source.lines[s.lineno - 1][: s.col_offset].strip() for s in block)
            if has_lines and not source.segment(block[0]).startswith(b"elif"):
                yield block
            work += block


def _before(target: Side, truth: Side, column: int) -> tuple[int, int] | None:
    """Return the line to insert at in target and truth."""
    (at, _), (there, _) = target.region, truth.region
    shift = there - at
    starts = {with_comments(target.source, s): s for s in _at_column(target.source, column)}
    ends = {with_comments(truth.source, s) for s in _at_column(truth.source, column)}
    first = target.overlapping[0] if target.overlapping else None
    line = at if first is not None else at - 1
    while line >= 0:
        if line < at and _leaves_block(target.source.lines[line], column):
            return None
        if line in starts and line + shift in ends:
            break
        if line in starts and line == at and truth.region[0] == truth.region[1]:
            break  # deleted as a whole
        line -= 1
    else:
        return None
    if line < at and target.source.lines[line:at] != truth.source.lines[line + shift : there]:
        return None
    if _is_fixed(target.source, starts[line]):
        return None
    if line == at:
        _refuse_two_orders(target, truth, 0)
    return line, line + shift


def _after(target: Side, truth: Side, column: int) -> tuple[int, int] | None:
    """Return the line to insert at in target and truth."""
    (_, at), (_, there) = target.region, truth.region
    shift = there - at
    lines = target.source.lines
    stops = {s.end_lineno or 0: s for s in _at_column(target.source, column)}
    others = {s.end_lineno or 0: s for s in _at_column(truth.source, column)}
    line = at if target.overlapping else at + 1
    while line <= len(lines):
        if line > at and _leaves_block(lines[line - 1], column):
            return None
        if line in stops and line + shift in others:
            break
        if line in stops and line == at and truth.region[0] == truth.region[1]:
            break
        line += 1
    else:
        return None
    if line > at and lines[at:line] != truth.source.lines[there : line + shift]:
        return None
    last = [stops[line], *([others[line + shift]] if line + shift in others else [])]
    if any(isinstance(statement, _LEAVING) for statement in last):
        return None
    if line == at:
        _refuse_two_orders(target, truth, -1)
    return line, line + shift


def _at_column(source: Source, column: int) -> list[ast.stmt]:
    return [s for block in _blocks(source) for s in block if s.col_offset == column]


def _leaves_block(line: bytes, column: int) -> bool:
    """Whether a line is indented less than the block, so that what is beyond is another one."""
    return bool(line.strip()) and len(line) - len(line.lstrip()) < column


def _is_fixed(source: Source, statement: ast.stmt) -> bool:
    """Whether a statement must stay the first one: a docstring, or a future import."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        and source.lines[first_line(statement)].lstrip()[:1] in b"\"'rR"
    )


def _refuse_two_orders(target: Side, truth: Side, edge: int) -> None:
    """Refuse where the patch adds statements at the edge of one that it edits.

    The new statement could then stand on either side of the added ones.
    """
    if not truth.overlapping:
        return  # deleted
    old = target.overlapping[edge]
    scores = [_same(target.source, old, truth.source, new) for new in truth.overlapping]
    if scores[edge] < max(scores) >= _ALIKE:
        raise DroppedError("two orders")


def _same(source: Source, old: ast.stmt, other: Source, new: ast.stmt) -> float:
    """Return how far a statement looks like the edited form of another one."""
    if isinstance(old, DEFINITIONS) and isinstance(new, DEFINITIONS):
        return float(old.name == new.name)
    return likeness(source.segment(old), other.segment(new))


def likeness(one: bytes, other: bytes) -> float:
    """Return the share of words that two texts have in common."""
    words, others = _WORD.findall(one), _WORD.findall(other)
    left = list(others)
    common = 0
    for word in words:
        if word in left:
            left.remove(word)
            common += 1
    return 2 * common / (len(words) + len(others)) if words or others else 1.0
