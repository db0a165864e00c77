"""What a name of a module is, in one tree: imports are followed to the definition they end at."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchkit.names.definitions import last_name
from patchkit.names.tree_index import TreeIndex
from patchkit.surface.bound_names import (
    Node,
    body_of,
    imports_of,
    nested_nodes,
    stores_of,
    top_nodes,
)
from patchkit.tree import SourceTree

_DEEPEST = 8  # imports of imports that are followed
# Bases that add no member that code reads by name, or none that is upstream's.
PLAIN_BASES = frozenset(
    (
        "ABC", "Enum", "Flag", "Generic", "IntEnum", "IntFlag", "NamedTuple", "Protocol", "StrEnum",
        "int", "object", "str",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A definition: `kind` is "function", "class", "variable", or "attribute" (`self.x = ...`).

    `node` was parsed without what stands above it: `shift` lines are to be added to its own.
    """

    kind: str
    path: str
    name: str
    node: ast.AST
    shift: int = 0
    owner: Item | None = None

    @property
    def line(self) -> int:
        """The line of the `def`, `class` or assignment."""
        return int(getattr(self.node, "lineno", 1)) + self.shift

    @property
    def place(self) -> str:
        """`path:line` of the definition."""
        return f"{self.path}:{self.line}"

    @property
    def label(self) -> str:
        """The name as people write it, with the class that holds it."""
        return f"{self.owner.name}.{self.name}" if self.owner is not None else self.name


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the package, by its file; a foreign one has none."""

    name: str
    path: str = ""


FOREIGN = Module("")
Named = Item | Module | None


class Program:
    """Says of the names in one tree what they are; what was looked up is remembered."""

    def __init__(self, tree: SourceTree, package: str = "vllm") -> None:
        self.tree = tree
        self._package = package
        self._sources: dict[str, bytes] = {}
        self._indexes: dict[str, TreeIndex] = {}
        self._found: dict[tuple[str, str], Named] = {}
        self._lines: dict[Item, tuple[tuple[Item, ...], bool]] = {}

    @property
    def label(self) -> str:
        """What the tree is called."""
        return self.tree.version or self.tree.name or "the tree"

    def source(self, path: str) -> bytes:
        """Return the text of a file; none where there is no file."""
        if path not in self._sources:
            self._sources[path] = self.tree.files.get(path, b"")
        return self._sources[path]

    def index(self, path: str) -> TreeIndex:
        """Return where the tree defines names, as seen from a file."""
        if path not in self._indexes:
            self._indexes[path] = TreeIndex(self.tree, path)
        return self._indexes[path]

    def module(self, dotted: str) -> Module:
        """Return a module by its dotted name."""
        if dotted.partition(".")[0] != self._package:
            return FOREIGN
        stem = dotted.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in self.tree.files:
                return Module(dotted, path)
        return Module(dotted)

    def find(self, path: str, name: str, depth: int = 0) -> Named:
        """Return what a module binds a name to; None where that is not certain."""
        key = path, name
        if key not in self._found:
            self._found[key] = None  # an import that leads back to itself
            self._found[key] = self._find(path, name, depth)
        return self._found[key]

    def _find(self, path: str, name: str, depth: int) -> Named:
        source = self.source(path)
        if name.encode() not in source and b"import *" not in source:
            return self._submodule(path, name)
        own = top_nodes(source, name)
        if not own and name not in imports_of(source):
            own = nested_nodes(source, name)
        if own:
            item = Item(own[0][0], path, name, own[0][1], own[0][2])
            return (self._alias(item) or item) if len(own) == 1 else None
        targets = {
            (absolute(module, path), original)
            for module, original in imports_of(source).get(name, ())
        }
        if len(targets) > 1:
            targets = {t for t in targets if self.module(t[0]) is not FOREIGN}
        if len(targets) == 1 and depth < _DEEPEST:
            return self.imported(*targets.pop(), depth + 1)
        if targets:
            return None
        for module, _ in imports_of(source).get("*", ()):
            found = self.imported(absolute(module, path), name, depth + 1)
            if isinstance(found, Item):
                return found
        return self._submodule(path, name)

    def _alias(self, item: Item) -> Item | None:
        """The class or function that a variable is another name of."""
        value = item.node.value if isinstance(item.node, ast.Assign) else None
        if not isinstance(value, (ast.Name, ast.Attribute)):
            return None
        found = self.expression(item.path, value)
        return found if isinstance(found, Item) and found.kind in ("class", "function") else None

    def imported(self, dotted: str, name: str, depth: int = 0) -> Named:
        """Return what `from dotted import name` gives; an empty name stands for the module."""
        module = self.module(dotted)
        if module is FOREIGN or not name:
            return module
        if module.path and depth < _DEEPEST:
            found = self.find(module.path, name, depth)
            if found is not None:
                return found
        inner = self.module(f"{dotted}.{name}")
        return inner if inner.path else None

    def _submodule(self, path: str, name: str) -> Named:
        if not path.endswith("/__init__.py"):
            return None
        inner = self.module(f"{path.removesuffix('/__init__.py').replace('/', '.')}.{name}")
        return inner if inner.path else None

    def lineage(self, item: Item) -> tuple[tuple[Item, ...], bool]:
        """Return a class with its bases, nearest first, and whether all of them are known."""
        if item not in self._lines:
            found: list[Item] = []
            complete = True
            stack = [item]
            while stack:
                current = stack.pop(0)
                if any(_same(current, other) for other in found):
                    continue
                found.append(current)
                assert isinstance(current.node, ast.ClassDef)
                for base in current.node.bases:
                    if last_name(base) in PLAIN_BASES:
                        continue
                    below = self.expression(current.path, base)
                    if isinstance(below, Item) and isinstance(below.node, ast.ClassDef):
                        stack.append(below)
                    else:
                        complete = False
            self._lines[item] = tuple(found), complete
        return self._lines[item]

    def expression(self, path: str, node: ast.expr) -> Named:
        """Return what a dotted name is at module level."""
        while isinstance(node, ast.Subscript):  # Base[T]
            node = node.value
        if isinstance(node, ast.Name):
            return self.find(path, node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.expression(path, node.value), node.attr)
        return None

    def attribute(self, owner: Named, name: str) -> Named:
        """Return the name in a module, or the member of a class."""
        if isinstance(owner, Module):
            return FOREIGN if owner is FOREIGN else self.imported(owner.name, name)
        if isinstance(owner, Item) and owner.kind == "class":
            return self.member(owner, name)
        return None

    def member(self, item: Item, name: str, *, skip: bool = False) -> Item | None:
        """Return a member of a class or of the nearest base; `skip` leaves out the class itself."""
        lineage, _ = self.lineage(item)
        for owner in lineage[1:] if skip else lineage:
            assert isinstance(owner.node, ast.ClassDef)
            nodes = body_of(owner.node).get(name)
            if nodes:
                kind, node = _serving(nodes)
                return Item(kind, owner.path, name, node, owner.shift, owner)
        for owner in lineage[1:] if skip else lineage:
            assert isinstance(owner.node, ast.ClassDef)
            stores = stores_of(owner.node, name)
            if stores:
                return Item("attribute", owner.path, name, stores[0], owner.shift, owner)
        return None


def _same(one: Item, other: Item) -> bool:
    return one.path == other.path and one.line == other.line


def absolute(module: str, path: str) -> str:
    """Return the dotted name of what a file imports, which may be relative to it."""
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    folder = path.split("/")[:-level]
    rest = [module[level:]] if module[level:] else []
    return ".".join([*folder, *rest])


def _serving(nodes: list[Node]) -> Node:
    """The binding that a read finds: the last one, but a property and no setter of it."""
    for kind, node in reversed(nodes):
        names = {last_name(d) for d in getattr(node, "decorator_list", ())}
        if not names & {"setter", "deleter", "overload"}:
            return kind, node
    return nodes[-1]
