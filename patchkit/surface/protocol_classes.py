"""The classes of a tree with their bases: imports followed, over several levels and re-exports."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from patchkit.names.builtin_names import BUILTINS
from patchkit.surface.protocol_members import ClassShape, blocks, class_shape, dotted
from patchkit.tree import SourceTree

# What takes no part in a protocol, and what makes classes whose members mean something else.
_PLAIN = frozenset({"ABC", "Generic", "Protocol", "object"})
_OWN_RULES = frozenset(
    ("Enum", "Flag", "IntEnum", "IntFlag", "NamedTuple", "ReprEnum", "StrEnum", "TypedDict")
)
_LONGEST = 16  # parts of a dotted name: `C = C.C` makes one longer with each turn


@dataclass(frozen=True, slots=True)
class ModuleShape:
    """What a module's text says of classes.

    `imports` maps a name to the module and the name in it, None for the module itself; `aliases`
    maps a name to the dotted name that is assigned to it; `stars` are modules whose names all are.
    """

    classes: dict[str, ClassShape]
    imports: dict[str, tuple[str, str | None]]
    aliases: dict[str, str]
    stars: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A class of the tree and the file that holds it."""

    path: str
    shape: ClassShape

    @property
    def name(self) -> str:
        """Its qualified name."""
        return self.shape.name

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the other classes of its tree."""
        return self.path, self.shape.name

    @property
    def place(self) -> str:
        """`path:line` of the class."""
        return f"{self.path}:{self.shape.line}"


@dataclass(frozen=True, slots=True)
class Lineage:
    """A class and those that it inherits from, in the order in which members are looked up.

    `lost` are the bases of the package that its tree does not show; `foreign` those of elsewhere.
    """

    classes: tuple[Known, ...]
    lost: tuple[str, ...] = ()
    foreign: frozenset[str] = frozenset()

    @property
    def has_own_rules(self) -> bool:
        """Whether an enum or a named tuple is among them."""
        return any(name.rpartition(".")[2] in _OWN_RULES for name in self.foreign)


class Classes:
    """Finds the classes of one tree; what was found is remembered."""

    def __init__(self, tree: SourceTree, package: str = "vllm") -> None:
        self.tree = tree
        self._package = package
        self._lineages: dict[tuple[str, str], Lineage | None] = {}

    def module(self, path: str) -> ModuleShape | None:
        """Return what a file says of classes; None where there is none that parses."""
        source = self.tree.files.get(path)
        return module_shape(source, path) if source is not None else None

    def find(self, path: str, name: str) -> Known | None:
        """Return the class with a qualified name in a file."""
        module = self.module(path)
        shape = module.classes.get(name) if module else None
        return Known(path, shape) if shape else None

    def lineage(self, path: str, name: str) -> Lineage | None:
        """Return a class with all that it inherits from; None where the file does not have it."""
        key = path, name
        if key not in self._lineages:
            self._lineages[key] = None  # a class that is its own base has no lineage
            found = self.find(path, name)
            self._lineages[key] = self._lineage(found) if found else None
        return self._lineages[key]

    def _lineage(self, known: Known) -> Lineage:
        orders: list[list[Known]] = []
        direct: list[Known] = []
        lost: list[str] = []
        foreign: set[str] = set()
        for base in known.shape.bases:
            found = self._resolve(known.path, base) if base else "?"
            above = self.lineage(found.path, found.name) if isinstance(found, Known) else None
            if isinstance(found, Known) and above is not None:
                direct.append(found)
                orders.append(list(above.classes))
                lost += above.lost
                foreign |= above.foreign
            elif isinstance(found, str) and found.rpartition(".")[2] not in _PLAIN:
                foreign.add(found)
            elif not isinstance(found, str):
                lost.append(base)
        ordered = _linear([*orders, direct])
        return Lineage((known, *ordered), tuple(dict.fromkeys(lost)), frozenset(foreign))

    def _resolve(self, path: str, name: str) -> Known | str | None:
        """The class that a dotted name means in a file: a class of the tree, the dotted name of
        one from elsewhere, None where the package should have it and does not show it.
        """
        return self._follow(path, name.split("."), set())

    def _follow(
        self, path: str, parts: list[str], seen: set[tuple[str, str]]
    ) -> Known | str | None:
        module = self.module(path)
        key = path, ".".join(parts)
        if module is None or key in seen or len(parts) > _LONGEST:
            return None
        seen.add(key)
        if key[1] in module.classes:
            return Known(path, module.classes[key[1]])
        first, rest = parts[0], parts[1:]
        found: Known | str | None = None
        if first in module.imports:
            source, name = module.imports[first]
            found = self._in_module(source, [*([name] if name else []), *rest], seen)
        if not isinstance(found, Known) and first in module.aliases:
            # a name may have both: `try: from a import B` with `except ImportError: B = object`
            other = self._follow(path, [*module.aliases[first].split("."), *rest], seen)
            found = other if isinstance(other, Known) or found is None else found
        for star in module.stars if found is None else ():
            found = found or self._in_module(star, parts, seen)
        if found is None and first in BUILTINS and not rest:
            return first
        return found

    def _in_module(
        self, module: str, parts: list[str], seen: set[tuple[str, str]]
    ) -> Known | str | None:
        """What a dotted name means in a module, which may be a package that holds more modules."""
        if module.partition(".")[0] != self._package:
            return ".".join((module, *parts))
        while True:
            path = self._path(module)
            if path is not None and parts:
                found = self._follow(path, parts, seen)
                if found is not None:
                    return found
            if len(parts) < 2:
                return None
            module, parts = f"{module}.{parts[0]}", parts[1:]

    def _path(self, module: str) -> str | None:
        stem = module.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if path in self.tree.files:
                return path
        return None


def _linear(orders: list[list[Known]]) -> list[Known]:
    """Python's own order of bases (C3); where there is none, the order in which they are met."""
    merged: list[Known] = []
    left = [order for order in orders if order]
    met = list({c.key: c for order in left for c in order}.values())
    while left:
        tails = {c.key for order in left for c in order[1:]}
        heads = (order[0] for order in left)
        head = next((h for h in heads if h.key not in tails), None)
        if head is None:
            return met
        merged.append(head)
        left = [[c for c in order if c.key != head.key] for order in left]
        left = [order for order in left if order]
    return merged


@lru_cache(maxsize=1024)
def module_shape(source: bytes, path: str) -> ModuleShape | None:
    """Return what a module says of classes; None where it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    shape = ModuleShape({}, {}, {}, ())
    stars: list[str] = []
    for node in blocks(tree.body):
        if isinstance(node, ast.ClassDef):
            for name, inner in _classes(node, ""):
                shape.classes.setdefault(name, class_shape(inner, name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                shape.imports[alias.asname or whole] = whole, None
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path)
            stars += [module for alias in node.names if alias.name == "*"]
            for alias in node.names:
                shape.imports.setdefault(alias.asname or alias.name, (module, alias.name))
        elif isinstance(node, ast.Assign) and dotted(node.value):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id != dotted(node.value):
                    shape.aliases.setdefault(target.id, dotted(node.value))
    return ModuleShape(shape.classes, shape.imports, shape.aliases, tuple(stars))


def _classes(node: ast.ClassDef, outer: str) -> Iterator[tuple[str, ast.ClassDef]]:
    name = f"{outer}.{node.name}" if outer else node.name
    yield name, node
    for inner in blocks(node.body):
        if isinstance(inner, ast.ClassDef):
            yield from _classes(inner, name)


def _absolute(node: ast.ImportFrom, path: str) -> str:
    if not node.level:
        return node.module or ""
    parts = PurePosixPath(path).parts[: -node.level]
    return ".".join((*parts, *((node.module,) if node.module else ())))
