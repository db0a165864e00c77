"""What the lines of a hunk rely on, as far as the patches before it may have brought it.

Each use says where what it names would have to be: in which module, in which class, as a parameter
of what. Uses that can be anything's stay open: an attribute of some object names a member only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple, TypeGuard

from patchkit.placing.units import Lines
from patchkit.stacking.provided import FUNCTIONS, blocks, inner, is_self, reaches

_BY_NAME = frozenset({"getattr", "hasattr"})


class Use(NamedTuple):
    """One thing that a line relies on.

    `kind` is that of what is used, as `Provided` has it. `owner` is for "module" the dotted module,
    for "member" the class, or whatever it is read from, for "local" the function, for "parameter"
    and "position" the callable. `how` is the verb: read, called, imported, passed, overridden,
    named.
    """

    kind: str
    name: str
    owner: str
    line: int
    how: str


def uses_in(tree: ast.Module, path: str, module: str, lines: Sequence[Lines]) -> list[Use]:
    """Return what some lines of a module rely on, `module` being its own dotted name."""
    found = _Finder(tree, path, module, list(lines)).run()
    return sorted({use for use in found if any(a <= use.line <= b for a, b in lines)})


class _Finder:
    def __init__(self, tree: ast.Module, path: str, module: str, lines: list[Lines]) -> None:
        self.tree = tree
        self.path = path
        self.module = module
        self.lines = lines
        self.imports = dict(self._imported(tree.body))

    def run(self) -> Iterator[Use]:
        return self._block(self.tree.body, "module", "", "", ())

    def _block(
        self,
        body: list[ast.stmt],
        kind: str,
        owner: str,
        cls: str,
        scopes: tuple[tuple[str, frozenset[str]], ...],
    ) -> Iterator[Use]:
        """The uses in a statement list; `scopes` are the functions around it, inmost first."""
        for node in body:
            if not reaches(node, self.lines):
                continue
            own = {id(statement) for part in blocks(node) for statement in part}
            for child in ast.iter_child_nodes(node):
                if id(child) not in own:
                    yield from self._expression(child, cls, scopes)
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from self._import(node)
            name = inner(owner, kind, getattr(node, "name", "") or "")
            if isinstance(node, FUNCTIONS):
                around = ((name, _locals(node)), *scopes)
                yield from self._block(node.body, "local", name, cls, around)
            elif isinstance(node, ast.ClassDef):
                yield from _overrides(node)
                yield from self._block(node.body, "member", name, name, scopes)
            else:
                for part in blocks(node):
                    yield from self._block(part, kind, owner, cls, scopes)

    def _expression(
        self, node: ast.AST, cls: str, scopes: tuple[tuple[str, frozenset[str]], ...]
    ) -> Iterator[Use]:
        called: set[int] = set()
        stack: list[ast.AST] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, ast.stmt):
                continue
            if isinstance(part, ast.Call):
                called.add(id(part.func))
                yield from _arguments(part)
            how = "called" if id(part) in called else "read"
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                yield self._name(part, how, scopes)
            elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
                yield from self._attribute(part, how, cls)
            elif isinstance(part, ast.Constant) and _is_dotted(part.value):
                yield Use("file", part.value, "", part.lineno, "named")
            stack.extend(ast.iter_child_nodes(part))

    def _name(
        self, node: ast.Name, how: str, scopes: tuple[tuple[str, frozenset[str]], ...]
    ) -> Use:
        for function, bound in scopes:
            if node.id in bound:
                return Use("local", node.id, function, node.lineno, how)
        return Use("module", node.id, self.module, node.lineno, how)

    def _attribute(self, node: ast.Attribute, how: str, cls: str) -> Iterator[Use]:
        line = node.end_lineno or node.lineno
        dotted = _dotted(node.value)
        root, _, rest = dotted.partition(".")
        if root in self.imports:
            module = ".".join(part for part in (self.imports[root], rest) if part)
            yield Use("module", node.attr, module, line, how)
        owner = cls if is_self(node.value) else dotted.rpartition(".")[2]
        yield Use("member", node.attr, owner, line, how)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                yield Use("file", alias.name, "", alias.lineno, "imported")
                continue
            module = absolute_module(node, self.path)
            yield Use("module", alias.name, module, alias.lineno, "imported")
            yield Use("file", module, "", alias.lineno, "imported")
            yield Use("file", f"{module}.{alias.name}", "", alias.lineno, "imported")

    def _imported(self, body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
        """The names that hold modules, or what may be one, and which."""
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    yield alias.asname or root, alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom):
                module = absolute_module(node, self.path)
                for alias in node.names:
                    yield alias.asname or alias.name, f"{module}.{alias.name}"
            elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                for part in blocks(node):
                    yield from self._imported(part)


def absolute_module(node: ast.ImportFrom, path: str) -> str:
    """Return the dotted module that an import names, relative ones resolved against a file."""
    if not node.level:
        return node.module or ""
    parts = PurePosixPath(path).parts[: -node.level]
    return ".".join((*parts, *((node.module,) if node.module else ())))


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _is_dotted(value: object) -> TypeGuard[str]:
    """Whether a constant may name a module, as registries do: `pkg.module:Class`."""
    return isinstance(value, str) and "." in value and not any(c.isspace() for c in value)


def _arguments(node: ast.Call) -> Iterator[Use]:
    """What a call passes, and the attribute that `getattr` reads."""
    function = node.func
    callee = getattr(function, "attr", None) or getattr(function, "id", None)
    if callee is None:
        return
    if callee in _BY_NAME and len(node.args) > 1:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield Use("member", name.value, "", name.lineno, "read")
    for keyword in node.keywords:
        if keyword.arg:
            yield Use("parameter", keyword.arg, callee, keyword.lineno, "passed")
    if not any(isinstance(arg, ast.Starred) for arg in node.args):
        for count, arg in enumerate(node.args, start=1):
            yield Use("position", str(count), callee, arg.lineno, "passed")


def _overrides(node: ast.ClassDef) -> Iterator[Use]:
    """The methods of a class, as those of each of its bases."""
    bases = [getattr(b, "attr", None) or getattr(b, "id", None) for b in node.bases]
    for statement in node.body:
        if isinstance(statement, FUNCTIONS) and not statement.name.startswith("__"):
            for base in filter(None, bases):
                yield Use("member", statement.name, base, statement.lineno, "overridden")


def _locals(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The names that a function binds itself."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    bound = {arg.arg for arg in named}
    outside: set[str] = set()
    stack: list[ast.AST] = list(node.body)
    while stack:
        part = stack.pop()
        if isinstance(part, (*FUNCTIONS, ast.ClassDef)):
            bound.add(part.name)
            continue
        if isinstance(part, (ast.Global, ast.Nonlocal)):
            outside.update(part.names)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            bound.add(part.id)
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            bound.update(a.asname or a.name.partition(".")[0] for a in part.names)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            bound.add(part.name)
        stack.extend(ast.iter_child_nodes(part))
    return frozenset(bound - outside)
