"""The variables of one function before and after: what a change binds or reads in its scope.

A name that upstream binds for its own use and a name that a patch binds are one variable in the
result; a local that upstream dropped leaves a read to whatever the module calls so.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchkit.names.occurrences import bound_names
from patchkit.syntax.outline import outline_or_none

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Lines = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Version:
    """A function in one version of a file: the source, and its qualified name there."""

    source: bytes
    name: str

    @property
    def function(self) -> ast.AST | None:
        """The function, None where there is none of that name."""
        outline = outline_or_none(self.source)
        node = outline.by_name.get(self.name) if outline is not None else None
        tree = node.tree if node is not None else None
        return tree if isinstance(tree, _FUNCTIONS) else None


def mixed_up(
    base: Version, authored: Version, target: Version, lines: _Lines,
    result: Version, landed: tuple[int, int],
) -> list[str]:  # fmt: skip
    """Return the variables of the authored lines that a variable of upstream's is mixed up with.

    Those are bound anew by the patch and by upstream, and one's binding stands between the other's
    and a read of it. `lines` are (first, last), 1-based and inclusive, in the authored file,
    `landed` are those of the result that the patch's lines take up.
    """
    old, own, there, after = (v.function for v in (base, authored, target, result))
    if old is None or own is None or there is None or after is None:
        return []
    new = _names_on(own, lines, ast.Store) & (bound_names(own) - bound_names(old))
    return sorted(n for n in new & bound_names(there) if _crosses(after, n, landed))


def _crosses(function: ast.AST, name: str, landed: tuple[int, int]) -> bool:
    ours: list[tuple[int, bool]] = []
    theirs: list[tuple[int, bool]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name:
            side = ours if landed[0] <= node.lineno <= landed[1] else theirs
            side.append((node.lineno, isinstance(node.ctx, ast.Load)))
    return _between(ours, theirs) or _between(theirs, ours)


def _between(one: list[tuple[int, bool]], other: list[tuple[int, bool]]) -> bool:
    """Whether a binding of one stands between a binding of the other and a read of that."""
    binds = [line for line, read in other if not read]
    reads = [line for line, read in other if read]
    return any(
        min(binds, default=line) < line < max(reads, default=line) for line, read in one if not read
    )


def no_longer_local(
    authored: Version, result: Version, lines: _Lines, renames: Mapping[str, str]
) -> list[str]:
    """Return the variables that the authored lines read and the result's function does not bind."""
    own, there = authored.function, result.function
    if own is None or there is None:
        return []
    read = _names_on(own, lines, ast.Load) & bound_names(own)
    bound = bound_names(there)
    return sorted(n for n in read if n not in bound and renames.get(n, n) not in bound)


def _names_on(function: ast.AST, lines: _Lines, context: type[ast.expr_context]) -> set[str]:
    return {
        n.id
        for n in ast.walk(function)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, context)
        and any(first <= n.lineno <= last for first, last in lines)
    }
