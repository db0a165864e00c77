"""The proof of a landing: the same change, in the same place, and nothing else.

Whatever placed a hunk, its result is parsed again and the edits lifted from target and result are
held against those that the patch makes on its base. A landing is proven when every authored edit
has exactly one counterpart that says the same, stands in the image of the same list between the
images of the same neighbours, and when no other edit was made. A refutation names what failed.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from patchkit.outcome import Evidence
from patchkit.placing.commuting import commute
from patchkit.syntax.align import Alignment, same_tests
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import Change, Edit, InexactError, lift
from patchkit.syntax.match import key_of, same_head
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import (
    STATEMENT_LISTS,
    Module,
    Node,
    NotPythonError,
    is_docstring,
    statement_of,
)


@dataclass(frozen=True)
class Refuted:
    """Why a result is not the authored change: `rule` is stable, `text` is for people."""

    rule: str
    text: str


@dataclass(frozen=True)
class Proven:
    """A landing that satisfies the proof, with the edits it made on the target."""

    edits: tuple[Edit, ...]
    evidence: tuple[tuple[Edit, Evidence], ...]

    def evidence_for(self, edits: Sequence[Edit]) -> tuple[Evidence, ...]:
        """The evidence for some of the authored edits, each fact once."""
        wanted = {id(e) for e in edits}
        return tuple(dict.fromkeys(fact for edit, fact in self.evidence if id(edit) in wanted))


def prove(
    authored: Sequence[tuple[Edit, Alignment]],
    target: Module,
    result: bytes,
    changes: Sequence[Change],
) -> Proven | Refuted:
    """Return whether `result` is `target` with exactly the authored edits, each in its place.

    `authored` are edits on the base, each with the alignment that maps base nodes to nodes of
    `target`; `changes` say which bytes of the target were replaced.
    """
    if result == target.source:
        return Refuted("no-change", "the landing changes no byte of the target")
    try:
        parsed = parse_module(result)
        landed = lift(target, parsed, changes)
    except NotPythonError as error:
        return Refuted("syntax", f"the result does not parse: {error}")
    except InexactError:
        return Refuted("inexact", "the landed edits cannot be undone byte for byte")
    return _compare(authored, landed)


def _compare(
    authored: Sequence[tuple[Edit, Alignment]], landed: Sequence[Edit]
) -> Proven | Refuted:
    wanted = [(e, a) for e, a in authored if not e.is_layout]
    made = [e for e in landed if not e.is_layout]
    if len(wanted) != len(made):
        return Refuted(
            "same-change", f"the patch makes {len(wanted)} edits, the landing {len(made)}"
        )
    evidence = []
    for (edit, alignment), counterpart in _counterparts(wanted, made):
        problem = _differs(edit, counterpart) or _misplaced(edit, counterpart, alignment)
        if problem:
            return problem
        evidence.append((edit, _place_evidence(edit, counterpart, alignment)))
    stray = _stray_layout(authored, landed, made)
    return stray or Proven(tuple(landed), tuple(evidence))


def _counterparts(
    wanted: Sequence[tuple[Edit, Alignment]], made: Sequence[Edit]
) -> list[tuple[tuple[Edit, Alignment], Edit]]:
    """Each authored edit with a landed one: of those that say the same, in the order of the target.

    Where no landed edit says the same, what is left over is paired, to be refuted.
    """
    landed: dict[object, deque[Edit]] = defaultdict(deque)
    for edit in made:
        landed[edit.payload].append(edit)
    pairs: list[tuple[tuple[Edit, Alignment], Edit]] = []
    lone = []
    for entry in sorted(wanted, key=lambda entry: _image_position(*entry)):
        same = landed[entry[0].payload]
        if same:
            pairs.append((entry, same.popleft()))
        else:
            lone.append(entry)
    used = {id(edit) for _, edit in pairs}
    return [*zip(lone, [e for e in made if id(e) not in used], strict=True), *pairs]


def _image_position(edit: Edit, alignment: Alignment) -> tuple[int, int]:
    """Where in the target an authored edit belongs: definitions may have changed their order."""
    places = [(node, 0) for node in edit.removed]
    places += [(node, 1) for node in (edit.prev,) if node is not None]
    places += [(node, 0) for node in (edit.next,) if node is not None]
    for node, at_end in places:
        image = alignment.image(node)
        if image is not None:
            return (image.end if at_end else image.start, edit.start)
    container = alignment.image(edit.container)
    if container is None:
        return (edit.start, edit.start)
    return (container.start + edit.start - edit.container.start, edit.start)


def _differs(edit: Edit, counterpart: Edit) -> Refuted | None:
    if edit.payload == counterpart.payload or commute(edit, counterpart):
        return None
    where = f"line {counterpart.new_container.module.line_at(counterpart.new_start)}"
    return Refuted(
        "same-change", f"{edit.kind} became {counterpart.kind} with other content, {where}"
    )


def _misplaced(edit: Edit, counterpart: Edit, alignment: Alignment) -> Refuted | None:
    """Whether a landed edit stands elsewhere than in the image of its authored place."""
    for node, twin in zip(edit.removed, counterpart.removed, strict=True):
        if node.kind != "Comment" and alignment.image(node) is not twin:
            text = f"what is removed at line {twin.line} is not what the patch removes"
            return Refuted("same-place", f"{text}: {_where(edit)}")
    if not _same_home(edit, counterpart, alignment):
        return Refuted(
            "same-place",
            f"belongs in {_where(edit)}, landed in {_where(counterpart)}",
        )
    is_clause = edit.container.kind == "If" and edit.slot in ("orelse", "branches")
    if is_clause and not same_tests(edit.container, counterpart.container):
        text = f"upstream changed what comes before it: {_where(counterpart)}"
        return Refuted("same-place", text)
    moved = [*edit.removed, statement_of(edit.container)]
    if any(_crosses_siblings(node, alignment) for node in moved if node.kind != "Comment"):
        text = f"upstream wrote the same code in another block: {_where(counterpart)}"
        return Refuted("same-place", text)
    if _is_other_operand(edit, counterpart):
        text = f"upstream computes something else there: {_where(counterpart)}"
        return Refuted("same-place", text)
    if _wraps_again(edit, counterpart, alignment):
        text = f"upstream has put the same block around it: {_where(counterpart)}"
        return Refuted("nothing-doubled", text)
    if any(n.kind != "Comment" for n in edit.removed):
        return None
    return _neighbours(edit, counterpart, alignment)


def _crosses_siblings(node: Node, alignment: Alignment) -> bool:
    """Whether the block that now has a statement stands on the other side of a sibling of it."""
    image = alignment.image(node)
    home = alignment.image(node.parent) if node.parent is not None else None
    slot = node.parent.slot_named(node.slot) if node.parent is not None else None
    if image is None or home is None or slot is None or node.slot not in STATEMENT_LISTS:
        return False
    if image.parent is home:
        return False  # order in its own list is the business of the neighbours
    block = next((n for n in image.ancestors() if n.parent is home), None)
    if block is None:
        return False
    for sibling in slot.nodes:
        there = alignment.image(sibling) if sibling.kind != "Comment" else None
        if sibling is node or there is None or there.parent is not home:
            continue
        if sibling.end <= node.start and block.end <= there.start:
            return True
        if sibling.start >= node.end and there.end <= block.start:
            return True
    return False


def _is_other_operand(edit: Edit, counterpart: Edit) -> bool:
    """Whether an operand is replaced that has another sign or another side in the target."""
    if edit.container.kind != "BinOp" or not edit.removed:
        return False
    if edit.container.label != counterpart.container.label:
        return True
    pairs = zip(edit.removed, counterpart.removed, strict=True)
    return any(node.index != twin.index for node, twin in pairs)


def _wraps_again(edit: Edit, counterpart: Edit, alignment: Alignment) -> bool:
    """Whether the edit puts a block where upstream has put one with the same head around."""
    home = alignment.image(edit.container)
    if home is counterpart.container:
        return False
    inside = [counterpart.container, *counterpart.container.ancestors()]
    around = inside[: inside.index(home)] if home in inside else inside
    return any(same_head(new, block) for new in edit.inserted for block in around)


def _same_home(edit: Edit, counterpart: Edit, alignment: Alignment) -> bool:
    """Whether the list is the authored one, also where upstream put a block around its elements."""
    if alignment.image(edit.container) is counterpart.container:
        return True
    if edit.slot not in STATEMENT_LISTS or counterpart.slot not in STATEMENT_LISTS:
        return False
    before = outline_of(edit.container.module).enclosing(edit.container)
    after = outline_of(counterpart.container.module).enclosing(counterpart.container)
    if before is None or after is None or alignment.image(before) is not after:
        return False
    if any(n.kind != "Comment" for n in edit.removed):
        return True
    return _all_wrapped(edit, counterpart, alignment)


def _all_wrapped(edit: Edit, counterpart: Edit, alignment: Alignment) -> bool:
    """Whether a block was put around both neighbours, or around the whole of the list.

    At the end of a list only the whole says whether the new statement belongs inside.
    """
    leaves = (ast.Break, ast.Continue)
    trees = [n.tree for n in edit.inserted if isinstance(n.tree, ast.AST)]
    if any(isinstance(part, leaves) for tree in trees for part in ast.walk(tree)):
        return False  # it would leave what was put around
    ends = edit.prev is None or edit.next is None or is_docstring(edit.prev)
    slot = edit.container.slot_named(edit.slot)
    assert slot is not None
    wanted = [n for n in slot.nodes if n.kind != "Comment" and not is_docstring(n)]
    if not ends:
        wanted = [n for n in wanted if n in (edit.prev, edit.next)]
    images = [alignment.image(n) for n in wanted]
    return all(i is not None and i.parent is counterpart.container for i in images)


def _neighbours(edit: Edit, counterpart: Edit, alignment: Alignment) -> Refuted | None:
    """Whether an insertion stands directly between the images of its authored neighbours."""
    if edit.slot and _single(edit):
        return None
    if edit.inserted and is_docstring(edit.inserted[0]):
        first = counterpart.inserted and is_docstring(counterpart.inserted[0])
        place = _where(counterpart)
        return None if first else Refuted("same-place", f"a docstring is none in {place}")
    before = _same_neighbour(edit, counterpart, alignment, -1)
    after = _same_neighbour(edit, counterpart, alignment, 1)
    if before and after:
        if any(_is_certain_side(edit, counterpart, alignment, step) for step in (-1, 1)):
            return None
        text = f"both neighbours in {_where(edit)} were rewritten upstream"
        return Refuted("same-place", text)
    if _order_free(edit) and _between(edit, counterpart, alignment):
        return None
    side = "before" if not before else "after"
    return Refuted(
        "same-place", f"the neighbour {side} it in {_where(edit)} is not the authored one"
    )


def _is_certain_side(edit: Edit, counterpart: Edit, alignment: Alignment, step: int) -> bool:
    """Whether the code on one side is the authored one beyond doubt; a comment is no certainty."""
    authored = _skip_comments(edit.prev if step < 0 else edit.next, step)
    found = _skip_comments(counterpart.prev if step < 0 else counterpart.next, step)
    if authored is not None and is_docstring(authored) and found is None:
        return True
    if (authored and alignment.image(authored)) is not found:
        return False
    return _is_certain(authored, alignment)


def _is_certain(node: Node | None, alignment: Alignment) -> bool:
    """Whether a neighbour is beyond doubt: a list's end, the same content, or the same name."""
    if node is None:
        return True
    image = alignment.image(node)
    if image is None:
        return False  # a docstring that upstream dropped
    return image.digest == node.digest or key_of(node) is not None


def _single(edit: Edit) -> bool:
    slot = edit.new_container.slot_named(edit.slot)
    return slot is not None and slot.single


def _same_neighbour(edit: Edit, counterpart: Edit, alignment: Alignment, step: int) -> bool:
    above = edit.prev if step < 0 else None
    if above is not None and above.kind == "Comment" and alignment.image(above) is counterpart.prev:
        return True  # what upstream put above a comment does not come between
    authored = _skip_comments(edit.prev if step < 0 else edit.next, step)
    found = _skip_comments(counterpart.prev if step < 0 else counterpart.next, step)
    if authored is not None and is_docstring(authored) and found is None:
        return alignment.image(edit.container) is not counterpart.container
    if authored is None or found is None:
        return authored is found
    return alignment.image(authored) is found


def _skip_comments(node: Node | None, step: int) -> Node | None:
    """The nearest neighbour that is code: upstream rewords comments without moving anything."""
    if node is None or node.kind != "Comment" or node.parent is None:
        return node
    slot = node.parent.slot_named(node.slot)
    assert slot is not None
    index = node.index
    while 0 <= index < len(slot.nodes) and slot.nodes[index].kind == "Comment":
        index += step
    return slot.nodes[index] if 0 <= index < len(slot.nodes) else None


_DECLARATIONS = ("Import", "ImportFrom", "FunctionDef", "AsyncFunctionDef", "ClassDef", "Comment")


def _order_free(edit: Edit) -> bool:
    """Whether the order of what is inserted does not matter among its neighbours."""
    plain = all(n.kind in _DECLARATIONS for n in edit.inserted)
    keyed = edit.slot in ("names", "args") and all(n.kind in _KEYED for n in edit.inserted)
    return bool(edit.inserted) and (keyed or (plain and edit.container.kind in _NAMESPACES))


_KEYED = ("alias", "keyword")
_NAMESPACES = ("Module", "ClassDef")


def _between(edit: Edit, counterpart: Edit, alignment: Alignment) -> bool:
    """Whether the insertion lies between its neighbours' images, of which one at least exists.

    A neighbour without an image is gone from this module; the other one still says where.
    """
    # A comment belongs to the code after it: what upstream put between the two counts as well.
    prev, following = _skip_comments(edit.prev, -1), _skip_comments(edit.next, 1)
    before = alignment.image(prev) if prev else None
    after = alignment.image(following) if following else None
    if before is None and after is None:
        return False
    if (before is not None and before.end > counterpart.start) or (
        after is not None and counterpart.end > after.start
    ):
        return False
    # Beside a statement that upstream put there as well, the order would be a guess.
    return edit.container.kind not in _NAMESPACES or all(
        n.kind in _DECLARATIONS for n in _neighbours_between(counterpart, before, after)
    )


def _neighbours_between(edit: Edit, before: Node | None, after: Node | None) -> list[Node]:
    """The elements of the target's list between two of them, where they are in it."""
    slot = edit.container.slot_named(edit.slot)
    nodes = slot.nodes if slot is not None else ()
    low = before.end if before is not None and before.parent is edit.container else None
    high = after.start if after is not None and after.parent is edit.container else None
    near = [n for n in (edit.prev, edit.next) if n is not None]
    inside = [
        n for n in nodes if (low is None or n.start >= low) and (high is None or n.end <= high)
    ]
    return inside if low is not None and high is not None else [n for n in near if n in inside]


def _stray_layout(
    authored: Sequence[tuple[Edit, Alignment]], landed: Sequence[Edit], made: Sequence[Edit]
) -> Refuted | None:
    """A change of layout that neither the patch makes nor a landed edit brings along."""
    texts = {(a.image(e.container), e.old_text, e.new_text) for e, a in authored if e.is_layout}
    homes = {statement_of(e.container) for e in made} | {
        statement_of(n) for e in made for n in e.removed
    }
    for edit in landed:
        if not edit.is_layout or (edit.container, edit.old_text, edit.new_text) in texts:
            continue
        if statement_of(edit.container) not in homes:
            line = edit.container.module.line_at(edit.start)
            elsewhere = any((o, n) == (edit.old_text, edit.new_text) for _, o, n in texts)
            rule = "same-place" if elsewhere else "same-change"
            return Refuted(rule, f"the layout of target line {line} changed as well")
    return None


def _where(edit: Edit) -> str:
    outline = outline_of(edit.container.module)
    line = edit.container.module.line_at(edit.start)
    return f"`{outline.qualified(edit.container)}` ({edit.container.kind}, line {line})"


_BESIDE = "upstream changed other lines of what it replaces"


def _place_evidence(edit: Edit, counterpart: Edit, alignment: Alignment) -> Evidence:
    before, after = outline_of(edit.container.module), outline_of(counterpart.container.module)
    name, landed = before.qualified(edit.container), after.qualified(counterpart.container)
    place = f"`{name}`" if name == landed else f"`{name}`, now `{landed}`"
    home = alignment.image(edit.container)
    if edit.slot in STATEMENT_LISTS and home is not counterpart.container:
        place += ", in another block of it than in the base"
    if edit.removed:
        same = edit.payload == counterpart.payload
        how = "what it replaces is unchanged there" if same else _BESIDE
        return Evidence("replaced", f"{edit.kind} in {place}: {how}")
    return Evidence("between", f"{edit.kind} in {place}, {_standing(edit, counterpart, alignment)}")


def _standing(edit: Edit, counterpart: Edit, alignment: Alignment) -> str:
    """By which of the ways that `_neighbours` allows an insertion is in its place."""
    if edit.slot and _single(edit):
        return "which has one place for it"
    if edit.inserted and is_docstring(edit.inserted[0]):
        return "as its docstring"
    beside = [_same_neighbour(edit, counterpart, alignment, step) for step in (-1, 1)]
    if all(beside):
        doubt = [n for n in (-1, 1) if not _is_certain_side(edit, counterpart, alignment, n)]
        return f"between the same neighbours{', one of them rewritten' if doubt else ''}"
    known = [n for n in (edit.prev, edit.next) if n is not None and alignment.image(n) is not None]
    sides = "both of its neighbours" if len(known) == 2 else "its one neighbour that is left"
    return f"on the right side of {sides}; its order among others is free"
