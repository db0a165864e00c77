"""Whether a target already holds an edit: decided by content, with evidence, never by undoing it.

What the edit inserts must have an image in the target that says the same and that is not something
the base had already; what it removes must be absent, and absence has to be shown: the list it stood
in is there, its neighbours are there, and nothing unexplained stands between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.outcome import Evidence
from patchkit.placing.crossing import changes_sides
from patchkit.placing.imported import find_imported
from patchkit.placing.passage import find_passage, passage_of
from patchkit.placing.sameness import manner, same_code
from patchkit.syntax.align import Alignment
from patchkit.syntax.edit import Edit
from patchkit.syntax.match import key_of
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import (
    OPERAND_LISTS,
    STATEMENT_LISTS,
    Node,
    is_docstring,
    statement_of,
)


def find_upstream(edit: Edit, base: Alignment, authored: Alignment) -> Evidence | None:
    """Return the evidence that the target holds an edit already, None where it does not.

    `base` maps the base, `authored` the base with the patch, to the same target.
    """
    imported = find_imported(edit, base, authored)
    if imported is not None:
        return _evidence(edit, [imported], imported)
    container = authored.image(edit.new_container)
    if container is None or not _same_container(edit, container, base):
        return None
    if edit.slot == "lines" and not is_docstring(statement_of(container)):
        # every character of a text is its value
        return _evidence(edit, [], container) if same_code(edit.new_container, container) else None
    if edit.is_layout:
        same = container.text == edit.new_container.text
        return _evidence(edit, [], container) if same else None
    inserted = [n for n in edit.inserted if n.kind != "Comment"]
    removed = [n for n in edit.removed if n.kind != "Comment"]
    if not inserted and not removed:
        if edit.inserted or edit.removed:
            return _comments_present(edit, base, authored, container)
        return _token_present(edit, container)
    images = [authored.image(n) for n in inserted]
    taken = _base_images(edit, base)
    respelled = {n.digest for n in removed}
    for node, image in zip(inserted, images, strict=True):
        if image is None or not same_code(node, image) or image in taken:
            return None
        if node.digest in respelled and image.text != node.text:
            return None  # the same value in another spelling: here the spelling is the change
        if image.parent is not container and not _wrapped_with_kept(edit, image, authored):
            return None
    if removed and not _absent(edit, removed, inserted, container, authored):
        return None
    new = {n.digest for n in inserted}
    if inserted and any(_still_there(n, base, images) for n in removed if n.digest not in new):
        return None  # upstream made the same change to another one of its like
    # Between operands the sign is the container's own and comes with the operand.
    # So does that of a part that is there or not (`-> int`, `= 1`).
    signs = (edit.signs_added or edit.signs_removed) and edit.slot not in OPERAND_LISTS
    signs = signs and not (inserted and not removed and _is_single(edit))
    if signs and _token_present(edit, container) is None:
        return None
    found = [i for i in images if i is not None]
    if inserted and not _in_order(edit, found, authored):
        return None
    if _is_on_other_side(edit, inserted, found, container):
        return None
    return _evidence(edit, images, container)


def _is_on_other_side(
    edit: Edit, inserted: Sequence[Node], images: Sequence[Node], container: Node
) -> bool:
    """Whether something that stands before the edit in the patch stands after it in the target."""
    if edit.slot not in STATEMENT_LISTS:
        return changes_sides([statement_of(edit.new_container)], [statement_of(container)])
    code = [n for n in inserted if n.kind not in _ORDER_FREE]
    if not code or len(code) != len(images):
        return False
    known = {n.digest for n in _siblings(edit.container, edit.slot)}
    repeated = any(
        node.digest in known and _run(node) != _run(image)
        for node, image in zip(inserted, images, strict=True)
    )  # one more of several: which one it is only those around all of them say
    return repeated or changes_sides(inserted, images)


def _siblings(container: Node, name: str) -> list[Node]:
    slot = container.slot_named(name)
    return [n for n in slot.nodes if n.kind != "Comment"] if slot is not None else []


def _run(node: Node) -> tuple[bytes | None, int, bytes | None]:
    """How many of its like a statement stands among, and what stands before and after them."""
    nodes = _siblings(node.parent, node.slot) if node.parent else []
    said = [n.digest for n in nodes]
    low = high = nodes.index(node)
    while low > 0 and said[low - 1] == node.digest:
        low -= 1
    while high + 1 < len(said) and said[high + 1] == node.digest:
        high += 1
    before = said[low - 1] if low else None
    after = said[high + 1] if high + 1 < len(said) else None
    return before, high - low + 1, after


_ORDER_FREE = ("FunctionDef", "AsyncFunctionDef", "ClassDef", "Import", "ImportFrom")


def find_whole(edits: Sequence[Edit], base: Alignment, authored: Alignment) -> Evidence | None:
    """Return the evidence that the target holds the statements which edits leave, as a whole."""
    passage = passage_of(edits)
    first = find_passage(passage, base, authored) if passage is not None else None
    if passage is None or first is None:
        return None
    name = outline_of(first.module).qualified(first.parent or first)
    text = f"{passage.said}: the target has it in `{name}`, line {first.line}"
    return Evidence("upstream", text)


def may_be_left_out(edit: Edit) -> bool:
    """Return whether the rest of a hunk may land without an edit that the target has already.

    It has to bind the very same thing wherever it stands: then the rest finds what it was written
    with. Of a parameter, an argument or a statement the place counts as well.
    """
    code = [n for n in edit.inserted if n.kind != "Comment"]
    if not code:
        return edit.kind in ("comment added", "comment changed")
    if edit.kind == "element added":
        around = statement_of(edit.container)
        return around.text.split(b"=")[0].split(b"+")[0].strip() == b"__all__"
    return edit.kind in _SAME_ANYWHERE


_SAME_ANYWHERE = ("import added", "definition added", "enum member added", "entry added")


def _is_single(edit: Edit) -> bool:
    """Whether the grammar allows one node only where the edit puts one."""
    slot = edit.new_container.slot_named(edit.slot)
    return slot is not None and slot.single


def _same_container(edit: Edit, container: Node, base: Alignment) -> bool:
    """Whether the target has the edit in the thing that the patch edits, not in one like it.

    Base and patch must see the same one, and it must say what the authored one says: `a or b` is
    not `a and b`, for all that its operands are.
    """
    seen = base.image(edit.container)
    whole = container.digest == edit.new_container.digest
    if seen is not container and not (seen is None and whole):
        return False
    node, image = edit.new_container, container
    while not (node.is_statement or node.is_definition or node.parent is None):
        if node.kind in _SIGNED and node.label != image.label:
            return False
        if image.parent is None:
            return True
        node, image = node.parent, image.parent
    return True


_SIGNED = ("BoolOp", "BinOp", "Compare", "UnaryOp")


def _still_there(node: Node, base: Alignment, inserted: list[Node | None]) -> bool:
    """Whether the target has what an edit replaces, be it changed, and not as part of the new."""
    image = base.image(node)
    new = [n for n in inserted if n is not None]
    if image is None or image in new:
        return False
    return not any(n in image.ancestors() or image in n.ancestors() for n in new)


def _base_images(edit: Edit, base: Alignment) -> set[Node]:
    """What in the target is the image of something the base has in this list and keeps."""
    slot = edit.container.slot_named(edit.slot)
    kept = [n for n in slot.nodes if n not in edit.removed] if slot else []
    return {image for n in kept if (image := base.image(n)) is not None}


def _absent(
    edit: Edit, removed: list[Node], inserted: list[Node], container: Node, authored: Alignment
) -> bool:
    """Whether what the edit removes is gone for certain."""
    new_digests = {n.digest for n in inserted}
    gone = [n for n in removed if n.digest not in new_digests]
    if any(_is_named_still(n, container, edit.new_container) for n in gone):
        return False
    for node in gone:
        if _count(container, node) > _count(edit.new_container, node):
            return False
    if inserted:
        return True
    return _closed_gap(edit, container, authored)


def _is_named_still(node: Node, there: Node, authored: Node) -> bool:
    """Whether a target's list has something under the name of what a patch takes away."""
    key = key_of(node)
    lists = [owner.slot_named(node.slot) for owner in (there, authored)]
    if key is None or lists[0] is None:
        return False
    kept = [key_of(n) for n in lists[1].nodes] if lists[1] is not None else []
    return key not in kept and any(key_of(n) == key for n in lists[0].nodes)


def _count(container: Node, wanted: Node) -> int:
    """How often something is said anywhere in the definition around a container."""
    outline = outline_of(container.module)
    around = outline.enclosing(container) or container.module.root
    kinds = (n for n in around.walk() if n.kind == wanted.kind)
    return sum(1 for n in kinds if n.digest == wanted.digest)


def _closed_gap(edit: Edit, container: Node, authored: Alignment) -> bool:
    """Whether the neighbours of a pure removal stand side by side in the target."""
    slot = container.slot_named(edit.slot)
    if slot is None:
        return edit.prev is None and edit.next is None
    code = [n for n in slot.nodes if n.kind != "Comment"]
    places = [-1, len(code)]
    code_goes = any(n.kind != "Comment" for n in edit.removed)
    for side, beside in enumerate(_kept_beside(edit)):
        # Upstream rewords comments without moving anything: the code behind them says where it was.
        neighbour = _next_code(beside, 1 if side else -1) if code_goes else beside
        if neighbour is None:
            continue
        image = authored.image(neighbour)
        if neighbour.kind == "Comment" and image is None:
            return False
        if image is not None and image.kind != "Comment":
            if image not in code:
                return False
            places[side] = code.index(image)
    return places[1] == places[0] + 1


def _next_code(node: Node | None, step: int) -> Node | None:
    """A statement, or the nearest one beyond a comment; None at the end of its list."""
    if node is None or node.kind != "Comment" or node.parent is None:
        return node
    slot = node.parent.slot_named(node.slot)
    nodes = slot.nodes if slot is not None else ()
    index = node.index
    while 0 <= index < len(nodes) and nodes[index].kind == "Comment":
        index += step
    return nodes[index] if 0 <= index < len(nodes) else None


def _kept_beside(edit: Edit) -> list[Node | None]:
    """What stands left and right of an edit in its own list, in the authored module."""
    pairs = (edit.left, edit.right)
    return [pair[1] if pair and pair[1].slot == edit.slot else None for pair in pairs]


def _wrapped_with_kept(edit: Edit, image: Node, authored: Alignment) -> bool:
    """Whether a block that the authored list does not have holds its kept neighbours as well."""
    if edit.slot not in STATEMENT_LISTS:
        return False
    kept = [n for n in _kept_beside(edit) if n is not None and n.kind != "Comment"]
    images = [authored.image(n) for n in kept]
    return bool(images) and all(i is not None and i.parent is image.parent for i in images)


def _in_order(edit: Edit, images: list[Node], authored: Alignment) -> bool:
    """Whether the images stand on the right side of the neighbours that have one."""
    first, last = min(i.start for i in images), max(i.end for i in images)
    free = edit.new_container.kind == "Set" or images[0].kind in ("alias", "keyword", "pair")
    if edit.slot not in STATEMENT_LISTS and not free:
        # In a list that goes by position the kept neighbours have to be there as well.
        kept = _kept_beside(edit)
        left, right = (n and authored.image(n) for n in kept)
        return (kept[0] is None or (left is not None and left.end <= first)) and (
            kept[1] is None or (right is not None and last <= right.start)
        )
    kinds = ("alias", "keyword", "Import", "ImportFrom")
    if images[0].is_definition or images[0].kind in kinds or edit.new_container.kind == "Set":
        return True
    before = _image_in_new(edit, -1, authored)
    after = _image_in_new(edit, 1, authored)
    return (before is None or before.end <= first) and (after is None or last <= after.start)


def _image_in_new(edit: Edit, step: int, authored: Alignment) -> Node | None:
    """The image of what stands beside the inserted nodes in the authored module."""
    edge = edit.inserted[0] if step < 0 else edit.inserted[-1]
    assert edge.parent is not None
    slot = edge.parent.slot_named(edge.slot)
    assert slot is not None
    index = edge.index + step
    while 0 <= index < len(slot.nodes):
        image = authored.image(slot.nodes[index])
        if image is not None:
            return image
        index += step
    return None


def _comments_present(
    edit: Edit, base: Alignment, authored: Alignment, container: Node
) -> Evidence | None:
    """Whether comment lines that the edit adds are there, and those that it removes are not."""
    taken = _base_images(edit, base)
    images = [authored.image(n) for n in edit.inserted]
    for node, image in zip(edit.inserted, images, strict=True):
        if image is None or image.label != node.label or image in taken:
            return None
        if not _is_above_the_same(node, image, authored):
            return None  # the same words on another statement
    left = [(n, base.image(n)) for n in edit.removed]
    if any(image is not None and image.label == n.label for n, image in left):
        return None
    if not edit.inserted and not _closed_gap(edit, container, authored):
        return None
    for beside in () if edit.inserted else _kept_beside(edit):
        near = authored.image(beside) if beside is not None else None
        if beside is not None and near is not None and changes_sides([beside], [near]):
            return None  # the same words went from another statement
    return _evidence(edit, images, container)


def _is_above_the_same(node: Node, image: Node, authored: Alignment) -> bool:
    """Whether the code below two comments is the same, or above them where none is below."""
    for step in (1, -1):
        near, there = _next_code(node, step), _next_code(image, step)
        if near is not None:
            return there is not None and authored.image(near) is there
    return True


def _token_present(edit: Edit, container: Node) -> Evidence | None:
    """Whether a changed name, sign or comment is in the target's own text."""
    if edit.signs_added or edit.signs_removed:
        old, new = edit.container, edit.new_container
        named = container.label == new.label != old.label
        whole = container.digest == new.digest != old.digest
        return _evidence(edit, [], container) if named or whole else None
    if any(n.is_statement for n in container.children):
        return None  # the comment of a header: its text alone does not say where it stands
    comments = [
        container.module.source[a:b].rstrip()
        for a, b in container.module.comments_between(container.start, container.end)
    ]
    added = all(c in comments for c in edit.comments_added)
    gone = not any(c in comments for c in edit.comments_removed)
    if (edit.comments_added or edit.comments_removed) and added and gone:
        return _evidence(edit, [], container)
    return None


def _evidence(edit: Edit, images: list[Node | None], container: Node) -> Evidence:
    node = next((i for i in images if i is not None), container)
    name = outline_of(container.module).qualified(node)
    if images or edit.inserted or edit.signs_added or edit.comments_added:
        text = f"{edit.kind}: the target has it in `{name}`, line {node.line}"
        code = [n for n in edit.inserted if n.kind != "Comment"]
        pairs = zip(code, images, strict=False)
        text += next((m for n, i in pairs if i is not None and (m := manner(n, i))), "")
    else:
        text = f"{edit.kind}: it is gone from `{name}` in the target, its neighbours are there"
    return Evidence("upstream", text)
