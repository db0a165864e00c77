"""Upstream's different change of the same place: what base, target and patch say there.

Only what upstream changed between base and target counts, and only where the patch changes it as
well: the same statement, the same gap between two statements, or a name that both bring in.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from difflib import unified_diff

from patchkit.outcome import Clash
from patchkit.placing.sameness import same_code
from patchkit.syntax.align import Alignment
from patchkit.syntax.edit import Edit, is_enum
from patchkit.syntax.match import key_of
from patchkit.syntax.outline import MODULE, outline_of
from patchkit.syntax.tree import STATEMENT_LISTS, Module, Node, statement_of

_MOST_LINES = 40


def clash_of(
    edits: Sequence[Edit], alignment: Alignment, path: str, original: Module
) -> Clash | None:
    """Return upstream's own change of a place that some edits change, None where it made none.

    `original` is the target with the names that upstream gave, which `alignment` may have undone.
    """
    for find in (name_clash, _statement_clash, _gap_clash):
        for edit in edits:
            found = find(edit, alignment, path, original)
            if found is not None:
                return found
    return None


def file_clash(path: str, authored: bytes, existing: bytes) -> Clash:
    """Return the clash of a new file with upstream's own of that name: a diff of it against ours.

    `patch` holds the diff from upstream's file to the patch's.
    """
    old, new = (c.decode("utf-8", "replace").splitlines() for c in (existing, authored))
    lines = unified_diff(old, new, f"target/{path}", f"patch/{path}", lineterm="")
    return Clash("same file", path, "", "", _limited("\n".join(lines)))


def name_clash(edit: Edit, alignment: Alignment, path: str, original: Module) -> Clash | None:
    """Return what upstream brought in under a name that an edit brings in, with other content."""
    home = alignment.image(edit.container)
    there = home.slot_named(edit.slot) if home is not None else None
    here = edit.container.slot_named(edit.slot)
    if home is None or there is None:
        return None
    known = [n for n in here.nodes if n.kind != "Comment"] if here is not None else []
    for node in edit.inserted:
        for image in there.nodes:
            if not _same_name(node, image) and not (is_enum(home) and _same_value(node, image)):
                continue
            ours = any(_same_name(old, image) for old in known)
            if not ours and not same_code(node, image):
                return Clash(
                    "same name", _place(image, path), "", _said_in(original, image), _said(node)
                )
    return None


def _same_name(node: Node, image: Node) -> bool:
    key = key_of(node)
    return key is not None and key[0] != "docstring" and key == key_of(image)  # type: ignore[index]


def _same_value(node: Node, image: Node) -> bool:
    """Whether two members of an enum have one value: the second is an alias of the first then."""
    one, other = (n.tree.value if isinstance(n.tree, ast.Assign) else None for n in (node, image))
    if one is None or other is None or isinstance(one, ast.Call):
        return False
    return ast.dump(one) == ast.dump(other)


def _statement_clash(edit: Edit, alignment: Alignment, path: str, original: Module) -> Clash | None:
    """What became of the statements that an edit replaces, removes or changes inside."""
    in_list = edit.slot in STATEMENT_LISTS
    olds = [n for n in edit.removed if n.kind != "Comment"] if in_list else [_part(edit)]
    news = [n for n in edit.inserted if n.kind != "Comment"] if in_list else [_part(edit, new=True)]
    olds = [n for n in olds if n.parent is not None and not n.is_definition]
    if not olds:
        return None
    row = [alignment.image(n) for n in olds]
    images = [n for n in row if n is not None]
    if len(images) < len(olds):
        between = _between(olds[0], olds[-1], alignment)
        if between is None:
            return None
        images = between
    elif all(i.digest == n.digest for i, n in zip(images, olds, strict=True)):
        return None
    if [i.digest for i in images] == [n.digest for n in news]:
        return None
    place = _place(images[0] if images else alignment.image(_home(olds[0])), path)
    theirs = [_said_in(original, n) for n in images]
    texts = ("\n".join(said) for said in (map(_said, olds), theirs, map(_said, news)))
    return Clash("same statement", place, *map(_limited, texts))


def _gap_clash(edit: Edit, alignment: Alignment, path: str, original: Module) -> Clash | None:
    """What upstream put between the two neighbours between which an edit inserts."""
    news = [n for n in edit.inserted if n.kind != "Comment"]
    if (
        not news
        or edit.slot not in STATEMENT_LISTS
        or any(n.kind != "Comment" for n in edit.removed)
    ):
        return None
    kept = [alignment.image(n) for n in (edit.prev, edit.next) if n is not None]
    found = _siblings(kept, edit, alignment)
    if not found or [n.digest for n in found] == [n.digest for n in news]:
        return None
    theirs = [_said_in(original, n) for n in found]
    texts = ("\n".join(said) for said in (theirs, map(_said, news)))
    return Clash("same gap", _place(found[0], path), "", *map(_limited, texts))


def _siblings(kept: Sequence[Node | None], edit: Edit, alignment: Alignment) -> list[Node]:
    """What of the target alone stands directly beside the images of two neighbours."""
    low, high = (n and alignment.image(n) for n in (edit.prev, edit.next))
    around = next((n for n in kept if n is not None), None)
    if around is None or around.parent is None:
        return []
    slot = around.parent.slot_named(around.slot)
    nodes = [n for n in slot.nodes if n.kind != "Comment"] if slot is not None else []
    known = {id(i) for n in _list_of(edit) if (i := alignment.image(n)) is not None}
    first = nodes.index(low) + 1 if low in nodes else None
    last = nodes.index(high) if high in nodes else None
    if first is None and last is None:
        return []
    if first is None:
        assert last is not None
        first = last
        while first > 0 and id(nodes[first - 1]) not in known:
            first -= 1
    stop = first
    while stop < (len(nodes) if last is None else last) and id(nodes[stop]) not in known:
        stop += 1
    return nodes[first:stop]


def _list_of(edit: Edit) -> Sequence[Node]:
    slot = edit.container.slot_named(edit.slot)
    return slot.nodes if slot is not None else ()


def _between(first: Node, last: Node, alignment: Alignment) -> list[Node] | None:
    """What of the target alone stands between the images of what is beside some base statements."""
    parent = first.parent
    slot = parent.slot_named(first.slot) if parent is not None else None
    home = alignment.image(parent) if parent is not None else None
    there = home.slot_named(first.slot) if home is not None else None
    if slot is None or there is None or first.slot not in STATEMENT_LISTS:
        return None
    nodes = [n for n in there.nodes if n.kind != "Comment"]
    left = [alignment.image(n) for n in slot.nodes[: first.index] if n.kind != "Comment"]
    right = [alignment.image(n) for n in slot.nodes[last.index + 1 :] if n.kind != "Comment"]
    before = left[-1] if left else None
    after = right[0] if right else None
    if (left and before not in nodes) or (right and after not in nodes):
        return None
    low = nodes.index(before) + 1 if before in nodes else 0
    high = nodes.index(after) if after in nodes else len(nodes)
    known = {id(i) for n in slot.nodes if (i := alignment.image(n)) is not None}
    return [n for n in nodes[low:high] if id(n) not in known]


def _part(edit: Edit, *, new: bool = False) -> Node:
    """The simple statement that an edit changes inside, or the part of a block's head."""
    container = edit.new_container if new else edit.container
    around = statement_of(container)
    body = around.slot_named("body") or around.slot_named("branches")
    return container if body is not None or around.kind == "Module" else around


def _home(node: Node) -> Node:
    return node.parent or node


def _place(node: Node | None, path: str) -> str:
    """Where a node of the target stands: `path:line name`."""
    if node is None:
        return path
    name = outline_of(node.module).qualified(node)
    return f"{path}:{node.line}" + (f" {name}" if name != MODULE else "")


def _said_in(original: Module, node: Node) -> str:
    """The text of a node of the target under the names that upstream gave; these move no line."""
    if node.module is original or not node.is_statement:
        return _said(node)
    first, last = node.line - 1, node.module.line_at(max(node.start, node.end - 1))
    lines = original.source.split(b"\n")[first:last]
    column = node.module.column(node.start)
    texts = (line[column:] if not line[:column].strip() else line for line in lines)
    return _limited("\n".join(text.decode("utf-8", "replace") for text in texts))


def _said(node: Node) -> str:
    """The text of a node without the indentation of its first line."""
    column = node.module.column(node.start)
    first, *rest = node.text.decode("utf-8", "replace").split("\n")
    lines = [first, *(line[column:] if not line[:column].strip() else line for line in rest)]
    return _limited("\n".join(lines))


def _limited(text: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:_MOST_LINES], "…"] if len(lines) > _MOST_LINES else lines)
