"""What a constant, a field or a member of an enumeration holds, in the words of the text."""

from __future__ import annotations

import ast
from functools import lru_cache

from patchkit.names.definitions import last_name
from patchkit.surface.bound_names import body_of, stores_of
from patchkit.surface.callee import base_names, is_dataclass, is_enum
from patchkit.surface.parameters import alternatives, canonical_type, parsed
from patchkit.surface.program import Item, Program

# Members of these are numbers to whoever reads them; elsewhere `auto()` says that none is meant.
_NUMBERS = frozenset({"IntEnum", "IntFlag", "Flag"})


def value_of(item: Item, program: Program) -> str:
    """Return the plain constant that a name holds; nothing where it is none, or may be set."""
    node = item.node
    value = getattr(node, "value", None)
    if item.kind != "variable" or value is None or not _is_plain(value):
        return ""
    if isinstance(node, ast.Assign) and not all(isinstance(t, ast.Name) for t in node.targets):
        return ""
    owner = item.owner
    if owner is not None:
        assert isinstance(owner.node, ast.ClassDef)
        fields = isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
        if fields and is_dataclass(owner, program):
            return ""  # a default: each object has its own
        for above in program.lineage(owner)[0]:
            if isinstance(above.node, ast.ClassDef) and stores_of(above.node, item.name):
                return ""
    return ast.unparse(value)


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a constant that says more than `None`."""
    if isinstance(node, ast.Constant):
        return node.value is not None
    if isinstance(node, ast.UnaryOp):
        return _is_plain(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_plain(node.left) and _is_plain(node.right)
    if isinstance(node, ast.Tuple):
        return all(_is_plain(part) for part in node.elts)
    return False


def is_member(item: Item, program: Program) -> bool:
    """Return whether a name is a member of an enumeration."""
    return (
        item.kind == "variable"
        and item.owner is not None
        and isinstance(item.node, ast.Assign)
        and not item.name.startswith("_")
        and is_enum(item.owner, program)
    )


def member_value(item: Item, program: Program, *, asked: bool) -> str:
    """Return the value of a member of an enumeration, and which other member it then is.

    `auto()` counts where members are numbers, or where the value is `asked` for.
    """
    owner = item.owner
    assert owner is not None
    assert isinstance(owner.node, ast.ClassDef)
    names = base_names(owner, program)
    values = _members(owner.node, "StrEnum" in names, bool(names & {"Flag", "IntFlag"}))
    value = values.get(item.name, "")
    first = next((name for name, other in values.items() if other == value), item.name)
    if _is_automatic(item.node) and not asked and not names & _NUMBERS:
        value = "auto()"
    return f"{value}, which is `{first}`" if first != item.name else value


def _is_automatic(node: ast.AST) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and last_name(value.func) == "auto"


@lru_cache(maxsize=512)
def _members(node: ast.ClassDef, text: bool, flags: bool) -> dict[str, str]:
    """The values of the members of an enumeration, in order."""
    found: dict[str, str] = {}
    last = 0
    for name, nodes in body_of(node).items():
        statement = nodes[-1][1]
        if not isinstance(statement, ast.Assign) or name.startswith("_"):
            continue
        if not _is_automatic(statement):
            found[name] = ast.unparse(statement.value)
            value = getattr(statement.value, "value", None)
            last = value if isinstance(value, int) else last
        elif text:
            found[name] = repr(name.lower())
        else:
            last = (1 << last.bit_length()) if flags else last + 1
            found[name] = str(last)
    return found


def annotation_of(item: Item) -> str:
    """Return the type that a field or a constant is said to have; nothing where none is said."""
    if item.kind == "function":
        return ""
    return canonical_type(getattr(item.node, "annotation", None))


def widened(before: str, after: str) -> frozenset[str]:
    """Return what a type allows after a change and did not before; types go by their last
    name, whatever the case."""
    if not before or not after or before == after:
        return frozenset()
    known = {name.casefold() for name in _bare(before)}
    return frozenset(name for name in _bare(after) if name.casefold() not in known)


def _bare(annotation: str) -> frozenset[str]:
    found = {part: parsed(part) for part in alternatives(annotation)}
    return frozenset(_last(node) if node is not None else part for part, node in found.items())


def _last(node: ast.expr) -> str:
    for inner in ast.walk(node):
        for name, child in ast.iter_fields(inner):
            if isinstance(child, ast.Attribute):
                setattr(inner, name, ast.Name(child.attr))
            elif isinstance(child, ast.Constant) and isinstance(child.value, str):
                setattr(inner, name, ast.Name(child.value))
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
