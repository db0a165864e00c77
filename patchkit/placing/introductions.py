"""Hunks that only introduce something: definitions, imports, parameters for others to use.

Such a hunk has no reason to land alone. Where every hunk of its patch that would use what it
introduces stays out, it stays out with them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from patchkit.names.definitions import last_name
from patchkit.placing.units import Fact
from patchkit.syntax.edit import Edit
from patchkit.syntax.tree import Node
from patchkit.tree import SourceTree

# Decorators that leave it to callers to use what they decorate; any other may register it.
_TRANSPARENT = frozenset(
    (
        "autotune", "cache", "cached_property", "classmethod", "compile", "contextmanager",
        "dataclass", "heuristics", "inference_mode", "jit", "lru_cache", "no_grad", "property",
        "staticmethod",
    )
)  # fmt: skip


class Introduced(NamedTuple):
    """A name for others to use.

    `kind` is "name" (of a module or function), "import" (bound by one), "member" (a method) or
    "parameter" (of the function or class `owner`).
    """

    kind: str
    name: str
    owner: str = ""

    def is_used_by(self, fact: Fact, *, same_file: bool) -> bool:
        """Return whether new code that says `fact` uses what is introduced."""
        if self.kind == "parameter":
            passed = fact.kind == "passes" and fact.name == self.name
            return fact.owner == self.owner and (passed or fact.kind == "passes position")
        if fact.name != self.name:
            return False
        if self.kind == "member":
            return fact.kind == "attribute"
        if fact.kind == "read":
            return same_file
        return self.kind == "name" and fact.kind in ("import", "attribute") and not same_file


def introduced(edits: Iterable[Edit]) -> tuple[Introduced, ...]:
    """Return what the edits of a hunk introduce, nothing where they do anything else as well."""
    found: list[Introduced] = []
    for edit in edits:
        if edit.is_layout:
            continue
        if any(node.kind != "Comment" for node in edit.removed) or edit.signs_removed:
            return ()
        for node in edit.inserted:
            if node.kind == "Comment":
                continue
            names = list(_names(node, edit.new_container))
            if not names:
                return ()
            found += names
    return tuple(dict.fromkeys(found))


def _names(node: Node, container: Node) -> Iterator[Introduced]:
    """Yield what one inserted node introduces; nothing where it does more, or for somebody else."""
    tree = node.tree
    if node.kind == "param":
        yield Introduced("parameter", node.label.lstrip("*="), _owner(container))
    elif isinstance(tree, ast.alias):
        yield from _bound([tree])
    elif isinstance(tree, ast.Import) or (
        isinstance(tree, ast.ImportFrom) and tree.module != "__future__"
    ):
        yield from _bound(tree.names)
    elif isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        special = tree.name.startswith("__") and tree.name.endswith("__")
        if not special and _is_transparent(tree.decorator_list):
            yield Introduced("member" if container.kind == "ClassDef" else "name", tree.name)


def _bound(aliases: Iterable[ast.alias]) -> Iterator[Introduced]:
    names = [(alias.asname or alias.name).partition(".")[0] for alias in aliases]
    if "*" not in names:
        yield from (Introduced("import", name) for name in names)


def _is_transparent(decorators: Iterable[ast.expr]) -> bool:
    return all(last_name(decorator) in _TRANSPARENT for decorator in decorators)


def _owner(function: Node) -> str:
    """The name that a call of a function says: that of the class for its constructor."""
    around = function.parent
    if function.label in ("__init__", "__new__") and around is not None:
        return around.label if around.kind == "ClassDef" else function.label
    return function.label


def needed_elsewhere(item: Introduced, base: SourceTree, path: str) -> bool:
    """Return whether upstream itself says a name, so that it may use what is introduced.

    A method may override one that upstream calls; a name may be bound in the file already.
    """
    word = re.compile(rb"(?<!\w)%b(?!\w)" % re.escape(item.name.encode()))
    if item.kind == "parameter":
        return False
    if item.kind != "member":
        return word.search(base.files.get(path, b"")) is not None
    return any(word.search(base.files[p]) for p in base.python_holding(item.name.encode()))


def unused_in(
    own: Iterable[Introduced],
    path: str,
    placed: Mapping[int, tuple[str, Iterable[Fact]]],
    open_hunks: Mapping[int, tuple[str, Iterable[Fact]]],
) -> tuple[Introduced, int] | None:
    """Return what of a hunk would be used by hunks that stay out alone, and one of them.

    `placed` and `open_hunks` are the other hunks of the patch that land or not: path and facts of
    each. None where something is used by what lands, or nothing by what does not.
    """
    first: tuple[Introduced, int] | None = None
    for item in own:
        for other, facts in placed.values():
            if any(item.is_used_by(fact, same_file=other == path) for fact in facts):
                return None
        for number, (other, facts) in open_hunks.items():
            if any(item.is_used_by(fact, same_file=other == path) for fact in facts):
                first = first or (item, number)
    return first
