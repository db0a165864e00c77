"""Whether two nodes say the same code, and how alike their texts are.

A digest leaves out the layout of every text over several lines, as is right for a docstring. Any
other such text is a value, so that here its characters count as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchkit.syntax.tree import Node

_TRIPLE = (b'"""', b"'''")


def same_code(node: Node, image: Node) -> bool:
    """Return whether two nodes say the same, layout and comments aside.

    Definitions may have their docstrings laid out otherwise.
    """
    if node.digest != image.digest:
        return _same_but_docstrings(node, image)
    if not any(quote in node.text or quote in image.text for quote in _TRIPLE):
        return True
    return list(_texts(node.tree)) == list(_texts(image.tree))


def manner(node: Node, image: Node) -> str:
    """Return how the text of a node that says the same differs, for people; or nothing."""
    if node.text == image.text or node.kind != image.kind or not same_code(node, image):
        return ""
    return ", laid out or commented otherwise"


def _texts(tree: object) -> Iterator[str | bytes]:
    """The strings of some code in order, docstrings left out."""
    for part in tree if isinstance(tree, tuple) else (tree,):
        if not isinstance(part, ast.AST):
            continue
        documents = {id(d) for n in ast.walk(part) for d in _docstrings(n)}
        for node in ast.walk(part):
            if not isinstance(node, ast.Constant) or id(node) in documents:
                continue
            if isinstance(node.value, (str, bytes)):
                yield node.value


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """The docstring of a definition or module, if it has one."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
        return
    first = node.body[0] if node.body else None
    value: ast.expr | None = first.value if isinstance(first, ast.Expr) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value


def _same_but_docstrings(node: Node, image: Node) -> bool:
    """Whether two definitions of one name differ in the spaces of their docstrings alone."""
    if not (node.is_definition and node.kind == image.kind and node.label == image.label):
        return False
    if not isinstance(node.tree, ast.AST) or not isinstance(image.tree, ast.AST):
        return False
    return wording(node.tree) == wording(image.tree)


def wording(tree: ast.AST) -> str:
    """Return what some code says, the layout of its docstrings aside."""
    documents = {id(d) for n in ast.walk(tree) for d in _docstrings(n)}
    parts: list[str] = []
    stack: list[object] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            parts.append("[")
            stack += ["]", *node[::-1]]
        elif not isinstance(node, ast.AST):
            parts.append(repr(node))
        elif id(node) in documents and isinstance(node, ast.Constant):
            parts.append(repr(" ".join(str(node.value).split())))
        else:
            parts.append(type(node).__name__)
            stack += [v for k, v in ast.iter_fields(node) if k not in _IDLE][::-1]
    return "\0".join(parts)


_IDLE = ("ctx", "kind", "type_comment", "type_ignores")
