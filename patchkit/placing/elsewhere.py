"""Whether a target has a new file or definition already: in other layout, or under another path.

What the base has elsewhere proves nothing: the patch adds it nevertheless.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from patchkit.names.mentions import HEADS
from patchkit.outcome import Evidence
from patchkit.placing.sameness import wording
from patchkit.syntax.build import try_module
from patchkit.syntax.outline import name_of
from patchkit.syntax.tree import Node
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
    """Return the one other path under which the target has a new file, and the base has not.

    All that the file says has to be there, its imports aside: a module that moves finds its
    neighbours under other paths.
    """
    tree = _tree(authored) if path.endswith(PYTHON) else None
    names = [n.name for n in tree.body if isinstance(n, _DEFINITIONS)] if tree else []
    if tree is None or not names:
        return None
    wanted = set(_said(tree))
    found = _holders(names, wanted, target)
    if len(found) != 1 or _holders(names, wanted, base):
        return None
    text = f"the target has all {len(wanted)} statements of {path} in {found[0]}"
    return found[0], Evidence("upstream", text)


def definitions_elsewhere(
    nodes: Sequence[Node], path: str, base: SourceTree, target: SourceTree
) -> tuple[str, tuple[Evidence, ...]] | None:
    """Return the other target file that has some new definitions of a module, word for word."""
    facts, places = [], set()
    for node in nodes:
        name = name_of(node)
        if not isinstance(node.tree, ast.AST):
            return None
        wanted = {wording(node.tree)}
        found = [p for p in _holders([name], wanted, target) if p != path]
        if len(found) != 1 or _holders([name], wanted, base):
            return None
        text = f"definition added: the target has `{name}` in {found[0]}, word for word"
        facts.append(Evidence("upstream", text))
        places.add(found[0])
    return (places.pop(), tuple(facts)) if len(places) == 1 else None


def _holders(names: Sequence[str], wanted: set[str], tree: SourceTree) -> list[str]:
    """The files of a tree that define some names and say all that is wanted."""
    found = []
    rarest = max(names, key=len).encode()
    paths = dict.fromkeys(p for head in HEADS for p in tree.python_holding(head + rarest))
    # a parse takes 10 ms, and a common name stands in hundreds of files
    heads = [re.compile(rb"^(?:async )?(?:def|class) %b\b" % name.encode(), re.M) for name in names]
    for path in paths:
        content = tree.files[path]
        if all(head.search(content) for head in heads):
            module = _tree(content)
            found += [path] if module is not None and wanted <= set(_said(module)) else []
    return found


def _tree(content: bytes) -> ast.Module | None:
    module = try_module(content)
    return module.tree if module is not None else None


def _said(tree: ast.Module) -> Iterator[str]:
    """What the statements of a module say, but for its docstring and its imports."""
    for node in tree.body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not isinstance(node, (ast.Import, ast.ImportFrom)):
            yield wording(node)
