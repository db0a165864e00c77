"""The imports that a change adds, and whether a tree has what they name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from patchkit.names.surplus import surplus
from patchkit.names.unresolved import module_scope
from patchkit.syntax.build import parse_module
from patchkit.syntax.tree import NotPythonError
from patchkit.tree import SourceTree, as_tree

Verdict = Literal["ok", "missing", "not_checked"]
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


@dataclass(frozen=True, slots=True)
class ImportUse:
    """One name that an import statement asks for.

    `module` is absolute and dotted, empty where a relative import leaves the tree; `name` is None
    for `import a.b` and "*" for a star. `guarded` imports may fail: they stand under
    `if TYPE_CHECKING` or in a `try` that catches ImportError (or in its handler).
    """

    module: str
    name: str | None
    line: int
    guarded: bool
    path: str

    def __str__(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


def module_of(path: str) -> str:
    """Return the dotted name of the module in a file: `vllm.v1` for `vllm/v1/__init__.py`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def added_imports(before: bytes, after: bytes, path: str) -> tuple[ImportUse, ...]:
    """Return the imports that only `after` has, by line; raises `NotPythonError`."""
    return surplus(
        _imports_of(after, path),
        _imports_of(before, path),
        lambda use: (use.module, use.name, use.guarded),
    )


def check_import(
    use: ImportUse,
    tree: SourceTree | Mapping[str, bytes],
    package: str = "vllm",
    relied_on: SourceTree | Mapping[str, bytes] | None = None,
) -> Verdict:
    """Return whether the tree has what an import names; a plain mapping may be partial.

    Not checked: what lies outside the package or outside a partial tree, a module whose names its
    text does not show (star import, `__getattr__`), and a module without a file that `relied_on`,
    the tree before the change, imports itself (all files but this one, where not given): a module
    that is built or generated.
    """
    tree = as_tree(tree)
    if use.module.partition(".")[0] != package:
        return "not_checked"
    folder = use.module.replace(".", "/")
    for path in (f"{folder}/__init__.py", f"{folder}.py"):
        if path in tree.files:
            return _check_name(use, path, tree)
    if any(path.startswith((f"{folder}.", f"{folder}/")) for path in _left_out(tree)):
        return "not_checked"  # a compiled module
    if use.name not in (None, "*") and _has_module(tree, f"{folder}/{use.name}"):
        return "ok"  # a package without `__init__.py`
    if use.name is None and any(p.startswith(f"{folder}/") for p in tree.files):
        return "ok"
    if tree.partial:
        return "not_checked"
    if relied_on is None:
        relied_on = tree.with_changes({use.path: None})
    return "not_checked" if _is_relied_on(use.module, as_tree(relied_on)) else "missing"


def _check_name(use: ImportUse, path: str, tree: SourceTree) -> Verdict:
    """Return whether the module in `path` has the name that is asked of it."""
    if use.name is None or use.name == "*":
        return "ok"
    source = tree.files[path]
    try:
        scope = module_scope(source)
    except NotPythonError:
        return "not_checked"
    if use.name in scope.bindings or use.name in ("__name__", "__file__", "__doc__", "__path__"):
        return "ok"
    is_package = path.endswith("/__init__.py")
    if is_package and _has_module(tree, f"{path.removesuffix('__init__.py')}{use.name}"):
        return "ok"
    if "__getattr__" in scope.bindings and _quotes(source, use.name):
        return "ok"  # served lazily, by a table of names
    if scope.open or "__getattr__" in scope.bindings or (is_package and tree.partial):
        return "not_checked"
    return "missing"


def _has_module(tree: SourceTree, stem: str) -> bool:
    """Whether a path without its suffix is a module, a package or a compiled module of the tree."""
    if f"{stem}.py" in tree.files or f"{stem}/__init__.py" in tree.files:
        return True
    if any(path.startswith((f"{stem}.", f"{stem}/")) for path in _left_out(tree)):
        return True
    return any(path.startswith(f"{stem}/") and path.endswith(".py") for path in tree.files)


def _left_out(tree: SourceTree) -> frozenset[str]:
    """The paths that the release holds and the mapping does not, where the mapping knows them."""
    known: frozenset[str] = getattr(tree.files, "left_out", frozenset())
    return known


def _is_relied_on(module: str, tree: SourceTree) -> bool:
    """Whether a file of the tree imports a module that has no file."""
    return any(
        path.endswith(".py")
        and any(use.module == module for use in _safe_imports(tree.files[path], path))
        for path in tree.python_holding(module.encode())
    )


def _safe_imports(source: bytes, path: str) -> tuple[ImportUse, ...]:
    try:
        return _imports_of(source, path)
    except NotPythonError:
        return ()


def _quotes(source: bytes, name: str) -> bool:
    word = name.encode()
    return b'"' + word + b'"' in source or b"'" + word + b"'" in source


@lru_cache(maxsize=64)
def _imports_of(source: bytes, path: str) -> tuple[ImportUse, ...]:
    found = _walk(parse_module(source).tree.body, path, guarded=False)
    return tuple(sorted(found, key=lambda use: use.line))


def _walk(nodes: Iterable[ast.AST], path: str, *, guarded: bool) -> Iterator[ImportUse]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield ImportUse(alias.name, None, alias.lineno, guarded, path)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path)
            for alias in node.names:
                yield ImportUse(module, alias.name, alias.lineno, guarded, path)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _walk(node.body, path, guarded=True)
            yield from _walk(node.orelse, path, guarded=guarded)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            catches = any(_catches_import_error(handler.type) for handler in node.handlers)
            yield from _walk((*node.body, *node.handlers), path, guarded=guarded or catches)
            yield from _walk((*node.orelse, *node.finalbody), path, guarded=guarded)
        elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _walk(ast.iter_child_nodes(node), path, guarded=guarded)


def _absolute(node: ast.ImportFrom, path: str) -> str:
    """Return the dotted module that an import names, relative ones resolved against a file."""
    if not node.level:
        return node.module or ""
    parts = PurePosixPath(path).parts[: -node.level]
    return ".".join((*parts, *((node.module,) if node.module else ()))) if parts else ""


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def _catches_import_error(node: ast.expr | None) -> bool:
    if node is None:
        return True
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    names = [p.attr if isinstance(p, ast.Attribute) else getattr(p, "id", None) for p in parts]
    return any(name in _IMPORT_ERRORS for name in names)
