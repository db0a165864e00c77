"""The image of a node of one module in another: what in the target is the thing in the base.

Images are found from the top down and only when asked for. A definition that has moved or was
renamed is given from outside (`correspond.py`); below it everything follows list by list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchkit.match import match_lists
from patchkit.syntax import Module, Node

Matcher = Callable[..., list[tuple[int, int]]]


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
        if parent is None:
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
        return {olds[i]: news[j] for i, j in match_lists(olds, news)}

    def preimages(self, old_list: list[Node]) -> dict[Node, Node]:
        """The images of a list's elements, keyed by image."""
        found = ((self.image(node), node) for node in old_list)
        return {image: node for image, node in found if image is not None}
