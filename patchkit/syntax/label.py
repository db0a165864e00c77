"""What a node says besides its children: names, constants, signs; no layout, no positions."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from patchkit.syntax.tree import Module

# Fields that say nothing: contexts, and what only some parsers fill in.
SKIPPED = {"ctx", "type_comment", "kind", "type_ignores", "simple"}
# The label of a string of several lines in triple quotes: its lines are its children.
TEXT = "text"
TRIPLE = re.compile(rb"[rRbBuU]{0,2}(\"\"\"|''')")


def _is_text(module: Module, tree: ast.Constant, start: int, end: int) -> bool:
    """Whether a constant is one triple-quoted string over several lines."""
    if not isinstance(tree.value, str) or tree.lineno == tree.end_lineno:
        return False
    source = module.source
    opening = TRIPLE.match(source, start, end)
    if opening is None:
        return False
    closing = source.find(opening[1], opening.end())
    return closing == end - 3  # several strings in a row would close earlier


def label_of(module: Module, tree: ast.AST, start: int, end: int) -> str:
    """Return what a node says besides its children."""
    # Half of all nodes; the way through the fields takes five times as long.
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.Attribute):
        return tree.attr
    if isinstance(tree, ast.Call):
        return ""
    if isinstance(tree, ast.Constant):
        if _is_text(module, tree, start, end):
            return TEXT
        value = hex(tree.value) if type(tree.value) is int else repr(tree.value)
        return f"{type(tree.value).__name__}:{value}"
    if isinstance(tree, ast.JoinedStr):
        return shape(tree)
    if isinstance(tree, ast.BinOp):
        return type(tree.op).__name__
    parts = []
    for name, value in ast.iter_fields(tree):
        if name in SKIPPED:
            continue
        if isinstance(value, (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)):
            parts.append(type(value).__name__)
        elif isinstance(value, list) and value and isinstance(value[0], ast.cmpop):
            parts.extend(type(op).__name__ for op in value)
        elif isinstance(value, list) and value and isinstance(value[0], str):
            parts.append(",".join(value))
        elif value is not None and not isinstance(value, (ast.AST, list)):
            parts.append(str(value))
    return " ".join(parts)


def shape(tree: ast.AST, masked: Collection[str] = ()) -> str:
    """Return what an expression or statement says, with the `masked` names left open.

    Positions and layout are left out, and so is what only newer Pythons tell.
    """
    if isinstance(tree, ast.Name):
        return "§" if tree.id in masked else tree.id
    parts = []
    for name, value in ast.iter_fields(tree):
        if name in SKIPPED:
            continue
        if isinstance(value, ast.AST):
            parts.append(shape(value, masked))
        elif isinstance(value, list):
            if isinstance(tree, ast.JoinedStr):  # Python 3.12 ends some with an empty string
                value = [v for v in value if not isinstance(v, ast.Constant) or v.value != ""]
            shapes = [shape(v, masked) if isinstance(v, ast.AST) else repr(v) for v in value]
            parts.append(f"[{','.join(shapes)}]")
        else:
            parts.append(hex(value) if type(value) is int else repr(value))
    return f"{type(tree).__name__}({','.join(parts)})"
