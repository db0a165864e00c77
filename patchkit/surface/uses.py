"""The expressions of new code that rely on definitions elsewhere, and the same ones as they landed.

A merge may have changed what stands around them, a rename what they are called: what is judged
against the target is what landed there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from patchkit.surface.bound_locals import around, locals_of
from patchkit.surface.reads import added_pieces
from patchkit.syntax.build import parse_module


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One expression; `kind` is "call", "attribute", "store", "name", "import" or "compare".

    `said` is what it says, whatever it stands in; `around` are the definitions that it stands in.
    """

    kind: str
    node: ast.AST
    line: int
    scope: str
    said: str
    around: tuple[ast.AST, ...]
    module: str = ""  # of an import
    asked: bool = False  # `.value` is read of it

    @property
    def last(self) -> int:
        """The last line of a call, whose arguments may stand on lines of their own."""
        return (self.node.end_lineno or self.line) if isinstance(self.node, ast.Call) else self.line


@lru_cache(maxsize=128)
def uses(before: bytes, after: bytes) -> tuple[Use, ...]:
    """Return the uses in what only `after` says, by line; raises `NotPythonError`."""
    added = added_pieces(before, after)
    if not added:
        return ()
    tree = parse_module(after).tree
    found = [
        Use(kind, node, line, piece.scope, ast.dump(node), scopes, module, asked)
        for piece in added
        for top in piece.nodes
        for kind, node, line, module, asked in _uses_in(top)
        if not _is_local(node, scopes := around(tree, line))
    ]
    return tuple(sorted(found, key=lambda u: u.line))


def _uses_in(top: ast.AST) -> Iterator[tuple[str, ast.AST, int, str, bool]]:
    called: set[int] = set()
    asked: set[int] = set()
    for node in ast.walk(top):
        if isinstance(node, ast.Call):
            called.add(id(function_of(node)))
            yield "call", node, node.lineno, "", False
        elif isinstance(node, ast.Attribute):
            if node.attr == "value":
                asked.add(id(node.value))
            line = node.end_lineno or node.lineno
            if isinstance(node.ctx, ast.Store):
                yield "store", node, line, "", False
            elif isinstance(node.ctx, ast.Load) and id(node) not in called:
                yield "attribute", node, line, "", id(node) in asked
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and id(node) not in called:
                yield "name", node, node.lineno, "", False
        elif isinstance(node, ast.Compare):
            yield "compare", node, node.lineno, "", False
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield "import", alias, alias.lineno, module, False


def _is_local(node: ast.AST, scopes: tuple[ast.AST, ...]) -> bool:
    """Whether a name is a variable of a function around it."""
    return isinstance(node, ast.Name) and any(node.id in locals_of(s) for s in scopes)


def function_of(call: ast.Call) -> ast.expr:
    """Return what is called, without the grid of a kernel."""
    return call.func.value if isinstance(call.func, ast.Subscript) else call.func


class Landed:
    """The uses in the code as it landed, to be found by those of the authored code."""

    def __init__(self, found: Iterable[Use], renames: Mapping[str, str]) -> None:
        self._renames = renames
        self._by_said: dict[tuple[str, str], list[Use]] = {}
        self._by_function: dict[tuple[str, str], list[Use]] = {}
        for use in found:
            self._by_said.setdefault((use.kind, use.said), []).append(use)
            if isinstance(use.node, ast.Call):
                key = use.scope, ast.dump(use.node.func)
                self._by_function.setdefault(key, []).append(use)

    def of(self, use: Use) -> Use | None:
        """Return a use as it landed; None where the landed code has no such thing."""
        found = self._by_said.get((use.kind, self._renamed(use.said)))
        if found:
            return next((f for f in found if f.scope == use.scope), found[0])
        if isinstance(use.node, ast.Call):
            key = self._renamed(use.scope), self._renamed(ast.dump(use.node.func))
            alike = self._by_function.get(key, [])
            return alike[0] if len(alike) == 1 else None
        return None

    def _renamed(self, text: str) -> str:
        for old, new in self._renames.items():
            text = text.replace(f"'{old}'", f"'{new}'")
        return text
