"""Whether and where a module defines a name: function, class, attribute or module name."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from patchkit.names.mentions import places

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_READING = frozenset({"getattr", "hasattr", "attrgetter"})
_NAMING = frozenset({"namedtuple", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
# Decorators that leave a signature as it is.
TRANSPARENT = frozenset(
    (
        "abstractmethod", "cache", "classmethod", "contextmanager", "dataclass", "deprecated",
        "final", "inference_mode", "lru_cache", "no_grad", "override", "staticmethod", "wraps",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signature:
    """What can be passed by keyword; a class without `__init__` takes its fields and its bases'."""

    keywords: frozenset[str]
    any_keyword: bool  # `**kwargs`
    decorators: frozenset[str]  # those that may change a signature
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """One place that defines a name.

    `kind` is "method", "function", "class", "field" (bound in a class body), "module" (bound at
    module level), "import" (imported there), "self" (`self.NAME = ...`), "store" (`other.NAME =
    ...`), or "text" (a string that is the name, or code that does not parse: it may be defined).
    """

    kind: str
    line: int
    signature: Signature | None = None


@lru_cache(maxsize=4096)
def definitions_of(source: bytes, name: str) -> tuple[Definition, ...]:
    """Return where a module defines a name; "text" where this Python cannot parse it."""
    lines = sorted({source.count(b"\n", 0, at) + 1 for at in places(source, name)})
    if not lines:
        return ()
    tree = _parsed(source)
    if tree is None:
        return (Definition("text", lines[0]),)
    found: list[Definition] = []
    stack: list[tuple[ast.AST, str]] = [(tree, "module")]
    while stack:
        node, place = stack.pop()
        if not _spans(node, lines):
            continue
        found.extend(_defined_by(node, place, name))
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            place = "function"
        elif isinstance(node, ast.ClassDef):
            place = "class"
        stack.extend((child, place) for child in ast.iter_child_nodes(node))
    return tuple(sorted(found, key=lambda d: (d.line, d.kind)))


@lru_cache(maxsize=128)
def _parsed(source: bytes) -> ast.AST | None:
    # Not the shared parse: most of these files are looked at once.
    try:
        return compile(source, "<module>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _spans(node: ast.AST, lines: list[int]) -> bool:
    """Whether a node covers one of the lines; nodes without a position may."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if first is None or last is None:
        return True
    return bisect_right(lines, last) > bisect_left(lines, first)


def _defined_by(node: ast.AST, place: str, name: str) -> Iterator[Definition]:
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        if node.name == name:
            kind = "method" if place == "class" else "function"
            kind = "class" if isinstance(node, ast.ClassDef) else kind
            yield Definition(kind, node.lineno, _signature(node))
            if place == "module":
                yield Definition("module", node.lineno)
            elif place == "class" and kind == "class":
                yield Definition("field", node.lineno)
    elif isinstance(node, ast.Attribute):
        if node.attr == name and isinstance(node.ctx, ast.Store):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            yield Definition("self" if own else "store", node.end_lineno or node.lineno)
    elif isinstance(node, ast.Name):
        if node.id == name and isinstance(node.ctx, ast.Store) and place != "function":
            yield Definition("field" if place == "class" else "module", node.lineno)
    elif isinstance(node, ast.alias):
        if place == "module" and (node.asname or node.name.partition(".")[0]) == name:
            yield Definition("import", node.lineno)
    else:
        for text in _texts(_string_parts(node)):
            if text.value == name or (_is_naming(node) and name in _split(text)):
                yield Definition("text", text.lineno)


def _string_parts(node: ast.AST) -> Iterable[ast.AST | None]:
    """Return where a string may stand that makes a name: arguments, keys, elements."""
    if isinstance(node, ast.Call):
        return () if last_name(node.func) in _READING else node.args
    if isinstance(node, ast.Dict):
        return node.keys
    return node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else ()


def _is_naming(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _NAMING


def _split(text: ast.Constant) -> list[str]:
    return str(text.value).replace(",", " ").split()  # namedtuple("T", "a b")


def _texts(parts: Iterable[ast.AST | None]) -> Iterator[ast.Constant]:
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name, through calls and subscripts; else nothing."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Signature:
    decorators = frozenset(last_name(d) for d in node.decorator_list) - TRANSPARENT
    if not isinstance(node, ast.ClassDef):
        keywords = frozenset(a.arg for a in (*node.args.args, *node.args.kwonlyargs))
        return Signature(keywords, node.args.kwarg is not None, decorators)
    for statement in node.body:
        if isinstance(statement, _FUNCTIONS) and statement.name in ("__init__", "__new__"):
            return _signature(statement)
    fields = frozenset(
        s.target.id
        for s in node.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    )
    return Signature(fields, False, decorators, tuple(last_name(base) for base in node.bases))
