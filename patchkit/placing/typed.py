"""Typed placing: an edit rendered into drifted code, element by element.

An edit is anchored on what it removes, or on the two neighbours between which it inserts; their
images say where it goes, however the code around was re-indented, wrapped, reformatted or extended.
The new text is the authored one with the indentation, separators and line ends of its new place;
every byte around it stays the target's. Whether the result is right is for the proof to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchkit.placing.propose import Piece
from patchkit.syntax.align import Alignment
from patchkit.syntax.edit import Edit
from patchkit.syntax.tree import (
    OPERAND_LISTS,
    STATEMENT_LISTS,
    Module,
    Node,
    is_docstring,
    statement_of,
)

_COMMA_LISTS = ("args", "params", "elts", "pairs", "names", "bases", "items", "keywords")
_SPACE = re.compile(rb"\s+")


def place_edits(edits: Sequence[Edit], alignment: Alignment) -> tuple[Piece, ...] | None:
    """Return the pieces that make some edits on the target, None where one has no place.

    Layout is the target's own, so that edits of nothing but layout are left out, except in a
    statement whose layout is the base's in every place that the patch changes.
    """
    pieces: list[Piece] = []
    laid_out: dict[Node, list[Edit]] = {}
    for edit in edits:
        if edit.is_layout:
            laid_out.setdefault(_home(edit), []).append(edit)
    as_base = {
        home: [_same_bytes(e, alignment) for e in edits if _home(e) is home] for home in laid_out
    }
    for edit in edits:
        whole = as_base.get(_home(edit), [])
        kept = [piece for piece in whole if piece is not None]
        if whole and len(kept) == len(whole):
            pieces += kept
            as_base[_home(edit)] = []
        elif edit.is_layout or (_home(edit) in laid_out and not whole):
            continue
        else:
            # Where the layout differs a gap may hold one bracket of a pair: elements are safe.
            first = bool(whole) or _is_laid_out_anew(edit, alignment)
            ways = (_by_elements, _same_gap) if first else (_same_gap, _by_elements)
            piece = ways[0](edit, alignment) or ways[1](edit, alignment)
            if piece is None:
                return None
            pieces.append(piece)
    return tuple(pieces) or None


def _is_laid_out_anew(edit: Edit, alignment: Alignment) -> bool:
    """Whether the target has other line ends in the place of an edit than the base.

    An operand that goes into an expression on one line must not bring the line end that the patch
    puts before it: without brackets around, that would end the expression.
    """
    image = alignment.image(edit.container) if edit.slot in OPERAND_LISTS else None
    if image is not None and b"\n" not in image.text:
        return True
    span = _gap_span(edit, alignment)
    if span is None or edit.slot in STATEMENT_LISTS:
        return False
    found = alignment.new.source[slice(*span)]
    return found.count(b"\n") != edit.old_text.count(b"\n")


def _home(edit: Edit) -> Node:
    """The statement that an edit changes inside, or the owner of the list that it changes."""
    container = edit.container
    if edit.slot in STATEMENT_LISTS:
        return container
    return statement_of(container)


def _same_bytes(edit: Edit, alignment: Alignment) -> Piece | None:
    """Replace a gap of the target that is the base's to the byte."""
    span = _gap_span(edit, alignment)
    if span is None or alignment.new.source[span[0] : span[1]] != edit.old_text:
        return None
    return (*span, edit.new_text)


# The gap as it was ------------------------------------------------------------------------------


def _same_gap(edit: Edit, alignment: Alignment) -> Piece | None:
    """Replace a gap of the target that says what the gap of the base says, spaces aside."""
    span = _gap_span(edit, alignment)
    if span is None:
        return None
    start, end = span
    target = alignment.new
    found = target.source[start:end]
    if _squeezed(found) != _squeezed(edit.old_text):
        return None
    if edit.slot in STATEMENT_LISTS and found.count(b"\n") != edit.old_text.count(b"\n"):
        return None  # blank lines differ: placed by elements, which keeps the target's
    source = edit.new_container.module
    shift = _indentation(target, start) - _indentation(source, edit.new_start)
    if edit.slot in STATEMENT_LISTS:
        shift = _shift(edit, alignment)
    return (start, end, reindent(source, edit.new_start, edit.new_end, shift))


def _gap_span(edit: Edit, alignment: Alignment) -> tuple[int, int] | None:
    """The gap of the target between the images of the children around an edit."""
    left = alignment.image(edit.left[0]) if edit.left else None
    right = alignment.image(edit.right[0]) if edit.right else None
    if (edit.left and left is None) or (edit.right and right is None):
        return None
    container = alignment.image(edit.container)
    around = [n.parent for n in (left, right) if n is not None]
    if len(set(around)) == 2:
        return None
    home = around[0] if around else container
    if home is None:
        return None
    start = left.end if left is not None else home.start
    end = right.start if right is not None else home.end
    if start > end:
        return None
    between = [n for n in home.children if start <= n.start and n.end <= end]
    images = [alignment.image(n) for n in edit.removed]
    return (start, end) if between == images else None


def _squeezed(text: bytes) -> bytes:
    """A text without spaces and without the comma that may close a list."""
    return _SPACE.sub(b"", text).replace(b",)", b")").replace(b",]", b"]").replace(b",}", b"}")


# Element by element -----------------------------------------------------------------------------


def _by_elements(edit: Edit, alignment: Alignment) -> Piece | None:
    if (edit.signs_removed or edit.signs_added) and edit.slot not in OPERAND_LISTS:
        return None  # a sign between the elements changes as well: only the whole gap holds it
    if edit.slot in STATEMENT_LISTS:
        return _statements(edit, alignment)
    if edit.slot in _COMMA_LISTS and (edit.removed or edit.inserted):
        return _listed(edit, alignment)
    if edit.removed and edit.inserted:
        signs = edit.signs_removed or edit.signs_added
        return _resigned(edit, alignment) if signs else _replaced(edit, alignment)
    if edit.slot in OPERAND_LISTS and edit.inserted and edit.prev:
        return _operand(edit, alignment)
    return None


def _images(edit: Edit, alignment: Alignment) -> list[Node] | None:
    """The images of what an edit removes: all of them, side by side, else None."""
    images = [alignment.image(n) for n in edit.removed]
    found = [i for i in images if i is not None]
    if not found or len(found) != len(images):
        return None
    parents = {(i.parent, i.slot) for i in found}
    indices = [i.index for i in found]
    if len(parents) != 1 or indices != list(range(indices[0], indices[0] + len(indices))):
        return None
    same = all(i.digest == n.digest for i, n in zip(found, edit.removed, strict=True))
    return found if same else None


def _replaced(edit: Edit, alignment: Alignment) -> Piece | None:
    images = _images(edit, alignment)
    if images is None:
        return None
    source = edit.new_container.module
    if len({n.slot for n in (*edit.removed, *edit.inserted)}) > 1:
        return None  # what stands between a callee and its arguments is not in either
    first, last = _spelled(edit.inserted[0])[0], _spelled(edit.inserted[-1])[1]
    start, end = _spelled(images[0])[0], _spelled(images[-1])[1]
    shift = _indentation(alignment.new, start) - _indentation(source, first)
    return (start, end, reindent(source, first, last, shift))


def _spelled(node: Node) -> tuple[int, int]:
    """The span of an expression with the parentheses that are its own.

    Those of a list between commas are the list's; any others in the parent are an element's.
    """
    start, end = node.start, node.end
    if node.parent is None or node.is_statement or node.slot in _COMMA_LISTS:
        return start, end
    source, low, high = node.module.source, node.parent.start, node.parent.end
    while True:
        before, after = source[low:start].rstrip(), source[end:high].lstrip()
        if not (before.endswith(b"(") and after.startswith(b")")):
            return start, end
        start, end = low + len(before) - 1, high - len(after) + 1


def _resigned(edit: Edit, alignment: Alignment) -> Piece | None:
    """Operands that are replaced together with the sign before them (`== a` to `in (a, b)`)."""
    images = _images(edit, alignment)
    before = alignment.image(edit.left[0]) if edit.left else None
    if images is None or before is None or edit.left is None:
        return None
    module, target = edit.new_container.module, alignment.new
    start, first = _spelled(edit.left[1])[1], _spelled(edit.inserted[0])[0]
    end = _spelled(edit.inserted[-1])[1]
    if edit.right is not None and _SPACE.sub(b"", module.source[end : edit.new_end]):
        return None  # the sign after them may have changed as well
    shift = _indentation(target, images[0].start) - _indentation(module, first)
    text = _SPACE.sub(b" ", module.source[start:first]) + reindent(module, first, end, shift)
    return (_spelled(before)[1], _spelled(images[-1])[1], text)


def _operand(edit: Edit, alignment: Alignment) -> Piece | None:
    """An operand after its predecessor, with the sign that the patch puts before it."""
    assert edit.prev is not None
    assert edit.left is not None
    before = alignment.image(edit.prev)
    if before is None:
        return None
    # Only what stands between operands loses its line ends: spaces in a string are its value.
    source = edit.new_container.module.source
    text, end = b"", _spelled(edit.left[1])[1]
    for node in edit.inserted:
        start, stop = _spelled(node)
        text += _SPACE.sub(b" ", source[end:start]) + source[start:stop]
        end = stop
    position = _spelled(before)[1]
    return (position, position, text)


def _listed(edit: Edit, alignment: Alignment) -> Piece | None:
    if edit.removed and edit.inserted:
        return _replaced(edit, alignment)
    if edit.removed:
        return _delisted(edit, alignment)
    return _enlisted(edit, alignment)


def _delisted(edit: Edit, alignment: Alignment) -> Piece | None:
    """Take elements out of a list between commas."""
    images = _images(edit, alignment)
    if images is None or images[0].parent is None:
        return None
    slot = images[0].parent.slot_named(images[0].slot)
    assert slot is not None
    first, last = images[0].index, images[-1].index
    if last + 1 < len(slot.nodes):
        return (images[0].start, slot.nodes[last + 1].start, b"")
    if first > 0:
        return (slot.nodes[first - 1].end, images[-1].end, b"")
    return None


def _enlisted(edit: Edit, alignment: Alignment) -> Piece | None:
    """Put elements into a list between commas, one a line where the target has them so."""
    before = alignment.image(edit.prev) if edit.prev else None
    after = alignment.image(edit.next) if edit.next else None
    source = edit.new_container.module
    target = alignment.new
    first, last = edit.inserted[0], edit.inserted[-1]
    anchor = after or before
    if anchor is None:
        return None
    shift = _indentation(target, anchor.start) - _indentation(source, first.start)
    text = reindent(source, first.start, last.end, shift)
    if after is not None:
        return (after.start, after.start, text + b"," + _separator(after))
    assert before is not None
    rest = target.source[before.end : before.parent.end if before.parent else before.end]
    comma = re.match(rb"\s*,", rest)
    if comma:
        position = before.end + comma.end()
        return (position, position, _separator(before) + text + b",")
    return (before.end, before.end, b"," + _separator(before) + text)


def _separator(node: Node) -> bytes:
    """What stands between the elements of a node's list: a space, or a line and its indentation."""
    module = node.module
    begin = module.line_start(node.start)
    if not module.source[begin : node.start].strip():
        return b"\n" + module.source[begin : node.start]
    return b" "


# Statements -------------------------------------------------------------------------------------


def _statements(edit: Edit, alignment: Alignment) -> Piece | None:
    if edit.removed:
        images = _images(edit, alignment)
        if images is None or not _own_lines(images):
            return None
        if edit.inserted:
            shift = alignment.new.column(images[0].start) - _column_of(edit)
            first, last = edit.inserted[0], edit.inserted[-1]
            text = reindent(edit.new_container.module, first.start, last.end, shift)
            return (images[0].start, images[-1].end, text)
        return _deleted(edit, images)
    return _inserted(edit, alignment) if edit.inserted else None


def _own_lines(nodes: Sequence[Node]) -> bool:
    """Whether statements share no line with others."""
    module = nodes[0].module
    before = module.source[module.line_start(nodes[0].start) : nodes[0].start]
    stop = module.source.find(b"\n", nodes[-1].end)
    after = module.source[nodes[-1].end : stop if stop >= 0 else len(module.source)]
    return not before.strip() and not after.strip()


def _deleted(edit: Edit, images: Sequence[Node]) -> Piece:
    """Whole lines go; of the blank lines on both sides as many stay as the patch leaves."""
    module = images[0].module
    start, end = module.line_start(images[0].start), images[-1].end
    newline = module.source.find(b"\n", end)
    end = newline + 1 if newline >= 0 else len(module.source)
    blank_before = _blank_lines(module.source[:start].split(b"\n")[-2::-1])
    blank_after = _blank_lines(module.source[end:].split(b"\n")[:-1])
    wanted = max(edit.new_text.count(b"\n") - 1, 0)
    surplus = max(0, min(blank_before + blank_after - wanted, blank_after))
    for _ in range(surplus):
        end = module.source.index(b"\n", end) + 1
    return (start, end, b"")


def _blank_lines(lines: Sequence[bytes]) -> int:
    """How many lines are blank before the first that is not."""
    return next((n for n, line in enumerate(lines) if line.strip()), len(lines))


def _inserted(edit: Edit, alignment: Alignment) -> Piece | None:
    """Lines after the image of the authored predecessor, or before that of the successor."""
    before = alignment.image(edit.prev) if edit.prev else None
    after = alignment.image(edit.next) if edit.next else None
    home = alignment.image(edit.container)
    if is_docstring(edit.inserted[0]) and home is not None:
        body = home.slot_named("body")  # whatever was put around the body, it comes first
        before, after = None, body.nodes[0] if body else None
    if before and after and before.parent is not after.parent:
        if not (edit.prev and is_docstring(edit.prev)):
            return None  # a block was put around one of them: inside or outside?
        before = None
    source = edit.new_container.module
    first, last = edit.inserted[0], edit.inserted[-1]
    lead = source.source[edit.new_start : first.start].count(b"\n")
    tail = source.source[last.end : edit.new_end].count(b"\n")
    own = edit.old_text.count(b"\n")
    if after is not None and (before is None or (tail != own and lead == own)):
        if not _own_lines([after]):
            return None
        shift = after.module.column(after.start) - source.column(first.start)
        text = reindent(source, first.start, last.end, shift)
        pad = b"\n" * max(tail, 1) + b" " * after.module.column(after.start)
        return (after.start, after.start, text + pad)
    if before is None or not _own_lines([before]):
        return None
    shift = before.module.column(before.start) - source.column(first.start)
    text = reindent(source, first.start, last.end, shift)
    pad = b"\n" * max(lead, 1) + b" " * before.module.column(before.start)
    return (before.end, before.end, pad + text)


def _shift(edit: Edit, alignment: Alignment) -> int:
    """How much deeper than the authored one the target's statement list is indented, in bytes.

    A neighbour says it, or what is removed; a list that has neither goes with its block.
    """
    pairs = [pair for pair in (edit.left, edit.right) if pair and pair[0].is_statement]
    pairs += [(node, node) for node in edit.removed]
    pairs.append((edit.container, edit.new_container))
    for old, new in pairs:
        image = alignment.image(old)
        if image is not None:
            return image.module.column(image.start) - new.module.column(new.start)
    return 0


def _column_of(edit: Edit) -> int:
    """The indentation of the authored statement list."""
    for pair in (edit.left, edit.right):
        if pair is not None and pair[1].is_statement:
            return pair[1].module.column(pair[1].start)
    nodes = edit.inserted or edit.removed
    return nodes[0].module.column(nodes[0].start)


# Text -------------------------------------------------------------------------------------------


def _indentation(module: Module, offset: int) -> int:
    """The indentation, in bytes, of the line that holds an offset."""
    start = module.line_start(offset)
    line = module.source[start : start + 400].split(b"\n", 1)[0]
    return len(line) - len(line.lstrip(b" \t"))


def reindent(module: Module, start: int, end: int, shift: int) -> bytes:
    """Return a stretch of a module with its lines after the first indented by `shift` more bytes.

    Lines that begin inside a string are part of its value and stay as they are.
    """
    lines = module.source[start:end].split(b"\n")
    if not shift or len(lines) == 1:
        return b"\n".join(lines)
    inside = module.lines_in_strings
    result = [lines[0]]
    number = module.line_at(start)
    for offset, line in enumerate(lines[1:], start=1):
        if number + offset in inside or not line.strip():
            result.append(line)
        elif shift > 0:
            result.append(b" " * shift + line)
        else:
            blank = len(line) - len(line.lstrip(b" \t"))
            result.append(line[min(-shift, blank) :])
    # The indentation of what follows belongs to its own place.
    if lines[-1] and not lines[-1].strip():
        result[-1] = b" " * max(0, len(lines[-1]) + shift)
    return b"\n".join(result)
