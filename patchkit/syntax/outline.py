"""The definitions of a module: qualified names, ordinals where names repeat, and lookups.

A qualified name joins the names of the enclosing definitions with dots. Where one scope defines a
name more than once (overloads, `if`/`else` twins), the second and later carry `#2`, `#3`, … in
source order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from patchkit.syntax.build import try_module
from patchkit.syntax.tree import Module, Node

MODULE = "<module>"


def name_of(definition: Node) -> str:
    """Return the bare name of a definition."""
    return definition.label.split(" ")[0]


class Outline:
    """The definitions of one module in source order, nested ones included."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.by_name: dict[str, Node] = {}
        self.names: dict[Node, str] = {}
        self._collect(module.root, "")

    def _collect(self, scope: Node, prefix: str) -> None:
        for node in _definitions_in(scope):
            plain = prefix + name_of(node)
            name, ordinal = plain, 1
            while name in self.by_name:
                ordinal += 1
                name = f"{plain}#{ordinal}"
            self.by_name[name] = node
            self.names[node] = name
            self._collect(node, name + ".")

    def enclosing(self, node: Node) -> Node | None:
        """The innermost definition that holds a node or is it; None at module level."""
        if node in self.names:
            return node
        return next((a for a in node.ancestors() if a in self.names), None)

    def qualified(self, node: Node) -> str:
        """The qualified name of the innermost definition around a node, or `<module>`."""
        definition = self.enclosing(node)
        return self.names[definition] if definition is not None else MODULE


def _definitions_in(scope: Node) -> Iterator[Node]:
    """The definitions directly in a scope, also those inside its `if`, `try`, `with` blocks."""
    for child in scope.children:
        if child.is_definition:
            yield child
        elif child.kind in _BLOCKS:
            yield from _definitions_in(child)


_BLOCKS = {
    "If", "branch", "Try", "TryStar", "ExceptHandler", "With", "AsyncWith", "For", "AsyncFor",
    "While", "Match", "match_case",
}  # fmt: skip


@lru_cache(maxsize=512)
def outline_of(module: Module) -> Outline:
    """Return the outline of a module, made once."""
    return Outline(module)


def outline_or_none(source: bytes) -> Outline | None:
    """Return the outline of some bytes, None where they are not Python."""
    module = try_module(source)
    return outline_of(module) if module else None
