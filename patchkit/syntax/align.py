"""The image of a node of one module in another: what in the target is the thing in the base.

Images are found from the top down and only when asked for. A definition that has moved or was
renamed is given from outside (`correspond.py`); below it everything follows list by list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from patchkit.syntax.match import (
    HEADS,
    Pairs,
    match_exact,
    match_lists,
    match_similar,
    overlap,
    same_head,
    tokens,
)
from patchkit.syntax.tree import STATEMENT_LISTS, Module, Node


class Alignment:
    """Maps nodes of `old` to nodes of `new`; a node without a forced image has none."""

    def __init__(
        self, old: Module, new: Module, overrides: Mapping[Node, Node] | None = None
    ) -> None:
        self.old = old
        self.new = new
        self._images: dict[Node, Node | None] = {old.root: new.root}
        self._lists: dict[tuple[Node, str], dict[Node, Node]] = {}
        # A definition that is matched elsewhere is not matched again by its place in a list.
        self._reserved = set((overrides or {}).values())
        self._images.update(overrides or {})

    def image(self, node: Node) -> Node | None:
        """The node of the new module that `node` has become, None where that is not forced."""
        if node not in self._images:
            self._images[node] = self._find(node)
        return self._images[node]

    def _find(self, node: Node) -> Node | None:
        assert node.parent is not None
        parent = self.image(node.parent)
        if parent is None or not same_frame(node, parent):
            return None
        return self._children(node.parent, parent, node.slot).get(node)

    def _children(self, old: Node, new: Node, name: str) -> dict[Node, Node]:
        key = (old, name)
        if key not in self._lists:
            self._lists[key] = self._pair_slots(old, new, name)
        return self._lists[key]

    def _pair_slots(self, old: Node, new: Node, name: str) -> dict[Node, Node]:
        left, right = old.slot_named(name), new.slot_named(name)
        if left is None or right is None:
            return {}
        olds = [n for n in left.nodes if n not in self._images]
        news = [n for n in right.nodes if n not in self._reserved]
        if left.single:
            return dict(zip(olds, news, strict=False))
        pairs = match_exact(olds, news)
        if name not in STATEMENT_LISTS:
            return {olds[i]: news[j] for i, j in match_similar(olds, news, pairs)}
        moved = wrapped(olds, news, pairs)
        rest_old = [n for n in olds if n not in moved]
        wrappers = set(moved.values())
        rest_new = [n for n in news if not any(w in wrappers for w in _below(n))]
        index_old = {n: i for i, n in enumerate(rest_old)}
        index_new = {n: j for j, n in enumerate(rest_new)}
        known = [
            (index_old[olds[i]], index_new[news[j]])
            for i, j in pairs
            if olds[i] in index_old and news[j] in index_new
        ]
        found = match_similar(rest_old, rest_new, known)
        return {**{rest_old[i]: rest_new[j] for i, j in found}, **moved}


# What says which list or block this is: an element belongs to no other than the authored one.
_FRAMES = {
    **HEADS,
    "Call": ("func",), "Assign": ("targets",), "AnnAssign": ("target",), "AugAssign": ("target",),
    "IfExp": ("test",), "ExceptHandler": ("type",), "Match": ("subject",),
    "match_case": ("pattern", "guard"), "pair": ("key",), "Subscript": ("value",),
}  # fmt: skip


def same_frame(node: Node, parent: Node) -> bool:
    """Return whether the block or list around a node is the one around its image.

    A condition that was extended by more conditions is still the authored one, and so is a loop
    over the same things wrapped in a call (`enumerate(layers)`).
    """
    old = node.parent
    assert old is not None
    for name in _FRAMES.get(old.kind, ()):
        if node.slot == name:
            return True
        left, right = old.slot_named(name), parent.slot_named(name)
        if left is None and right is None:
            continue
        if left is None or right is None:
            return False
        same = [n.digest for n in left.nodes] == [n.digest for n in right.nodes]
        if not same and not _still_frames(name, left.nodes, right.nodes, parent):
            return False
    if old.kind == "If" and node.slot == "orelse" and not same_tests(old, parent):
        return False
    return not _is_tagged_otherwise(node, old, parent)


def _still_frames(name: str, old: Sequence[Node], new: Sequence[Node], parent: Node) -> bool:
    """Whether a head that changed still says which block or list this is."""
    if name == "func":
        return _same_kernel(old[0], new[0])
    if name == "test":
        return _is_extended(old[0], new[0])
    if name == "iter":
        return new[0].kind == "Call" and old[0].digest in {n.digest for n in new[0].children}
    if name == "items":
        return {n.digest for n in old} <= {n.digest for n in new}
    if name == "target":
        return _is_enumerated(old[0], new[0], parent)
    return False


def _same_kernel(old: Node, new: Node) -> bool:
    """Whether two calls launch the same kernel, on whatever grid (`kernel[grid](...)`)."""
    return old.kind == new.kind == "Subscript" and (
        old.slots[0].nodes[0].digest == new.slots[0].nodes[0].digest
    )


def _is_extended(old: Node, new: Node) -> bool:
    """Whether a condition is the old one with more conditions joined to it, or to its parts."""
    if new.kind != "BoolOp" or (old.kind == "BoolOp" and old.label != new.label):
        return False
    operands = old.children if old.kind == "BoolOp" else (old,)
    return all(
        any(part.digest == n.digest or _is_extended(part, n) for n in new.children)
        for part in operands
    )


def _is_enumerated(old: Node, new: Node, loop: Node) -> bool:
    """Whether a loop counts now: `for x in xs` became `for i, x in enumerate(xs)`."""
    around = loop.slot_named("iter")
    parts = list(new.children)
    return (
        around is not None
        and around.nodes[0].text.startswith(b"enumerate(")
        and new.kind == "Tuple"
        and len(parts) == 2
        and parts[1].digest == old.digest
    )


def same_tests(old: Node, new: Node) -> bool:
    """Return whether an `if` still tests what it tested: then its `else` is the same one."""
    slots = old.slot_named("branches"), new.slot_named("branches")
    if slots[0] is None or slots[1] is None:
        return False
    before, after = ([next(iter(n.children)) for n in slot.nodes] for slot in slots if slot)
    return all(
        any(test.digest == n.digest or _is_extended(test, n) for n in after) for test in before
    )


def _is_tagged_otherwise(node: Node, old: Node, new: Node) -> bool:
    """Whether a call or tuple begins with another string than the authored one.

    `add("--beta", …)` in the place of `add("--alpha", …)` is another entry, however like it is.
    """
    name = {"Call": "args", "Tuple": "elts"}.get(old.kind)
    if name is None or node.slot == "func":
        return False
    tags = []
    for parent in (old, new):
        slot = parent.slot_named(name)
        first = slot.nodes[0] if slot else None
        if first is None or first is node:
            return False
        tags.append(first.label if first.kind == "Constant" else "")
    return all(tag.startswith("str:") for tag in tags) and tags[0] != tags[1]


_WRAPPERS = ("With", "AsyncWith", "If", "Try", "TryStar", "For", "AsyncFor", "While")


def wrapped(olds: Sequence[Node], news: Sequence[Node], pairs: Pairs) -> dict[Node, Node]:
    """Return the images of statements that a new block was put around.

    The block is one that the old list does not have, and it holds more than half of the text that
    the old list is missing, and more than the list around it still has; no other block does.
    """
    matched_old, matched_new = {i for i, _ in pairs}, {j for _, j in pairs}
    missing = [n for i, n in enumerate(olds) if i not in matched_old]
    code = [n for n in missing if n.kind != "Comment"]
    blocks = [n for j, n in enumerate(news) if j not in matched_new and n.kind in _WRAPPERS]
    if not code or not blocks:
        return {}
    total = sum(len(n.text) for n in code)
    similar = match_similar(olds, news, pairs)
    plain = {news[j]: olds[i] for i, j in similar}
    outside = {olds[i]: news[j] for i, j in similar}
    found: list[dict[Node, Node]] = []
    for block in blocks:
        # The block may be an old statement that changed: then it has the same head, or keeps more
        # of it than any inside.
        if block in plain and same_head(plain[block], block):
            continue
        as_itself = _kept(plain[block], block) if block in plain else 0.0
        for inner in _inner_lists(block):
            images = {missing[i]: inner[j] for i, j in match_lists(missing, inner)}
            kept = sum(_kept(n, images.get(n)) for n in code)
            still = [n for n in code if n in images and outside.get(n, block) is not block]
            around = sum(_kept(n, outside[n]) for n in still)
            if 2 * kept > total and kept > max(as_itself, around):
                found.append(images)
    return found[0] if len(found) == 1 else {}


def _kept(old: Node, new: Node | None) -> float:
    """How many bytes of a statement are in its image."""
    if new is None:
        return 0
    share = 1.0 if new.digest == old.digest else overlap(tokens(old), tokens(new))
    return share * len(old.text)


def _inner_lists(block: Node) -> Iterator[Sequence[Node]]:
    """The statement lists directly in a block, those of its branches included."""
    for slot in block.slots:
        if slot.name in STATEMENT_LISTS:
            yield slot.nodes
        elif slot.name in ("branches", "handlers"):
            for part in slot.nodes:
                yield from _inner_lists(part)


def _below(node: Node) -> Iterator[Node]:
    """The statements in the lists directly in a block."""
    if node.kind in _WRAPPERS:
        for inner in _inner_lists(node):
            yield from inner
