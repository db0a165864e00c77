"""Whether a target has a new file already: under its path in other layout, or under another path."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchkit.outcome import Evidence
from patchkit.placing.sameness import wording
from patchkit.syntax.build import try_module
from patchkit.tree import PYTHON, SourceTree

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def same_file(path: str, authored: bytes, existing: bytes) -> Evidence | None:
    """Return the evidence that a file of the same path says what a new one says."""
    if existing == authored:
        return Evidence("upstream", f"the target has {path} with the same content")
    if not path.endswith(PYTHON):
        return None
    one, other = _tree(authored), _tree(existing)
    if one is None or other is None or wording(one) != wording(other):
        return None
    return Evidence("upstream", f"the target has {path} with the same code, laid out otherwise")


def file_elsewhere(
    path: str, authored: bytes, base: SourceTree, target: SourceTree
) -> tuple[str, Evidence] | None:
    """Return the one path that the base does not have under which the target has a new file.

    All that the file says has to be there, its imports aside: a module that moves finds its
    neighbours under other paths.
    """
    tree = _tree(authored) if path.endswith(PYTHON) else None
    names = [n.name for n in tree.body if isinstance(n, _DEFINITIONS)] if tree else []
    if tree is None or not names:
        return None
    wanted = set(_said(tree))
    found = []
    for place in target.python_holding(max(names, key=len).encode()):
        content = target.files[place]
        if place in base.files or any(name.encode() not in content for name in names):
            continue
        other = _tree(content)
        if other is not None and wanted <= set(_said(other)):
            found.append(place)
    if len(found) != 1:
        return None
    text = f"the target has all {len(wanted)} statements of {path} in {found[0]}"
    return found[0], Evidence("upstream", text)


def _tree(content: bytes) -> ast.Module | None:
    module = try_module(content)
    return module.tree if module is not None else None


def _said(tree: ast.Module) -> Iterator[str]:
    """What the statements of a module say, but for its docstring and its imports."""
    for node in tree.body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not isinstance(node, (ast.Import, ast.ImportFrom)):
            yield wording(node)
