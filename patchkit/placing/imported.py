"""Whether a target's block binds already what an edit imports, whichever statements do it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from patchkit.syntax.align import Alignment, same_frame
from patchkit.syntax.edit import Edit
from patchkit.syntax.tree import STATEMENT_LISTS, Node

Binding = tuple[str, int, str, str | None]  # module, level, name, the name it is bound to
_IMPORTS = ("Import", "ImportFrom")


def find_imported(edit: Edit, base: Alignment, authored: Alignment) -> Node | None:
    """Return a node of the target that binds what an edit imports, None where not all is bound.

    The block has to bind it itself: an import below an `if` is another one. What the edit takes
    away must no longer be bound there.
    """
    inserted, removed = _bindings(edit.inserted), _bindings(edit.removed)
    if not inserted or removed is None:
        return None
    in_list = edit.slot in STATEMENT_LISTS
    old = edit.container if in_list else edit.container.parent
    new = edit.new_container if in_list else edit.new_container.parent
    name = edit.slot if in_list else edit.new_container.slot
    block = authored.image(new) if new is not None else None
    statement = edit.inserted[0] if in_list else edit.new_container
    if block is None or old is None or not same_frame(statement, block):
        return None
    if base.image(old) not in (block, None):
        return None
    there, before = _bound_in(block, name), _bound_in(old, name)
    if any(b not in there or (b in before and b not in removed) for b in inserted):
        return None
    if any(b in there for b in removed if b not in inserted):
        return None
    return there[next(iter(inserted))]


def _bindings(nodes: Iterable[Node]) -> dict[Binding, Node] | None:
    """What some statements or names of an import bind; None where one of them is no import."""
    found: dict[Binding, Node] = {}
    for node in nodes:
        if node.kind == "Comment":
            continue
        around = node.parent
        if node.kind in _IMPORTS:
            found.update((b, node) for b in _bound_by(node.tree))
        elif node.kind == "alias" and around is not None and around.kind in _IMPORTS:
            found.update((b, node) for b in _bound_by(around.tree) if _is_of(b, node))
        else:
            return None
    return found


def _is_of(binding: Binding, alias: Node) -> bool:
    tree = alias.tree
    return isinstance(tree, ast.alias) and binding[2:] == (tree.name, tree.asname)


def _bound_in(block: Node, name: str) -> dict[Binding, Node]:
    """What the import statements directly in a list bind."""
    slot = block.slot_named(name)
    nodes = slot.nodes if slot is not None else ()
    return {b: n for n in nodes if n.kind in _IMPORTS for b in _bound_by(n.tree)}


def _bound_by(tree: object) -> Iterator[Binding]:
    if isinstance(tree, ast.Import):
        yield from (("", 0, a.name, a.asname) for a in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        yield from ((tree.module or "", tree.level, a.name, a.asname) for a in tree.names)
