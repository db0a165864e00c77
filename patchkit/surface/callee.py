"""What a call reaches: a function, a method, or the constructor that a class has."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchkit.names.definitions import TRANSPARENT, last_name
from patchkit.surface.bound_locals import decorators
from patchkit.surface.bound_names import FUNCTIONS, body_of
from patchkit.surface.parameters import Parameter, canonical_type, parameters_of
from patchkit.surface.program import Item, Program
from patchkit.surface.receivers import PROPERTIES, Member, Thing

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_FIELDS = frozenset({"field", "Field"})


@dataclass(frozen=True, slots=True)
class Callee:
    """What is called; `parameters` is None where they are not known.

    `word` says what it is; `changed_by` are the decorators that may change its parameters,
    `filled_by` what they say.
    """

    word: str
    name: str
    place: str
    parameters: tuple[Parameter, ...] | None
    changed_by: frozenset[str] = frozenset()
    filled_by: tuple[str, ...] = ()
    node: ast.FunctionDef | ast.AsyncFunctionDef | None = None

    @property
    def path(self) -> str:
        """The file that holds it."""
        return self.place.rpartition(":")[0]

    @property
    def canonical(self) -> str:
        """What it is, without its place."""
        if self.parameters is None:
            return f"{self.word} {self.name}"
        listed, kind = [], ""
        for parameter in self.parameters:
            if kind == "positional" != parameter.kind:
                listed.append("/")
            if parameter.kind == "keyword" and kind not in ("keyword", "rest"):
                listed.append("*")
            listed.append(str(parameter))
            kind = parameter.kind
        listed += ["/"] if kind == "positional" else []
        return f"{self.word} {self.name}({', '.join(listed)})"


def word_of(item: Item) -> str:
    """Return what a definition is, in a word or two."""
    if item.kind != "function":
        return item.kind
    names = decorators(item.node)
    if names & PROPERTIES:
        return "property"
    word = "async " if isinstance(item.node, ast.AsyncFunctionDef) else ""
    returns = getattr(item.node, "returns", None)
    said = returns is not None and last_name(returns).endswith("ContextManager")
    if said or names & {"contextmanager", "asynccontextmanager"}:
        return f"{word}context manager"
    return f"{word}{'function' if item.owner is None else 'method'}"


def has_setter(item: Item) -> bool:
    """Return whether a property can be set."""
    owner = item.owner.node if item.owner is not None else None
    nodes = body_of(owner).get(item.name, ()) if isinstance(owner, ast.ClassDef) else ()
    return any("setter" in decorators(node) for _, node in nodes)


def callee_of(thing: Thing, program: Program) -> Callee | None:
    """Return what a call of a thing reaches; None where that is not certain."""
    item = thing.item if isinstance(thing, Member) else thing
    if not isinstance(item, Item):
        return None
    if item.kind == "class":
        return _constructor(item, program)
    if not isinstance(item.node, FUNCTIONS):
        return None
    return function_callee(item, bound=isinstance(thing, Member) and thing.bound)


def function_callee(item: Item, *, bound: bool) -> Callee:
    """Return a function as what a call reaches."""
    assert isinstance(item.node, FUNCTIONS)
    word = word_of(item)
    parameters = None if word == "property" else parameters_of(item.node.args, bound=bound)
    return Callee(word, item.label, item.place, parameters, *_decoration(item.node), item.node)


def _decoration(node: ast.AST) -> tuple[frozenset[str], tuple[str, ...]]:
    """The decorators of a definition that may change its signature: their names, and their text."""
    listed = [d for d in getattr(node, "decorator_list", ()) if last_name(d) not in TRANSPARENT]
    return frozenset(last_name(d) for d in listed), tuple(ast.unparse(d) for d in listed)


def is_enum(item: Item, program: Program) -> bool:
    """Return whether a class is an enumeration."""
    return bool(base_names(item, program) & _ENUMS)


def base_names(item: Item, program: Program) -> frozenset[str]:
    """Return the last names of all bases of a class."""
    lineage, _ = program.lineage(item)
    return frozenset(last_name(base) for c in lineage for base in getattr(c.node, "bases", ()))


def _constructor(item: Item, program: Program) -> Callee | None:
    lineage, complete = program.lineage(item)
    if is_enum(item, program):
        return None
    for owner in lineage:
        assert isinstance(owner.node, ast.ClassDef)
        body = body_of(owner.node)
        for name in ("__init__", "__new__"):
            for _, node in body.get(name, ())[-1:]:
                if isinstance(node, FUNCTIONS):
                    parameters = parameters_of(node.args, bound=True)
                    said = *_decoration(node), node
                    return Callee("class", item.name, item.place, parameters, *said)
        if is_dataclass(owner, program) or _is_tuple(owner):
            fields = _fields(lineage[lineage.index(owner) :], program) if complete else None
            return Callee("class", item.name, item.place, fields)
    return Callee("class", item.name, item.place, () if complete else None)


def _is_tuple(item: Item) -> bool:
    return any(last_name(base) == "NamedTuple" for base in getattr(item.node, "bases", ()))


def is_dataclass(item: Item, program: Program) -> bool:
    """Return whether a decorator makes the fields of a class its parameters."""
    for decorator in getattr(item.node, "decorator_list", ()):
        if last_name(decorator) == "dataclass":
            return True
        head = decorator.func if isinstance(decorator, ast.Call) else decorator
        found = program.expression(item.path, head)
        if isinstance(found, Item) and "dataclass_transform" in decorators(found.node):
            return True
    return False


def _fields(lineage: tuple[Item, ...], program: Program) -> tuple[Parameter, ...]:
    """The parameters that the fields of a class and its bases make."""
    found: dict[str, Parameter] = {}
    for owner in reversed(lineage):
        assert isinstance(owner.node, ast.ClassDef)
        if not is_dataclass(owner, program) and not _is_tuple(owner):
            continue
        keyword = any(_says(d, "kw_only") for d in owner.node.decorator_list)
        for statement in owner.node.body:
            if not isinstance(statement, ast.AnnAssign):
                continue
            if not isinstance(statement.target, ast.Name):
                continue
            head = ast.unparse(statement.annotation)
            if head.rpartition(".")[2] == "KW_ONLY":
                keyword = True
            elif "ClassVar" not in head and not _says_not(statement.value, "init"):
                name = statement.target.id
                kind = "keyword" if keyword or _says(statement.value, "kw_only") else "plain"
                found[name] = Parameter(
                    name, kind, _default(statement.value), canonical_type(statement.annotation)
                )
    listed = found.values()
    return tuple(sorted(listed, key=lambda p: p.kind == "keyword"))


def _says(node: ast.expr | None, keyword: str, value: bool = True) -> bool:
    return isinstance(node, ast.Call) and any(
        k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value is value
        for k in node.keywords
    )


def _says_not(node: ast.expr | None, keyword: str) -> bool:
    return _says(node, keyword, value=False)


def _default(value: ast.expr | None) -> str | None:
    """The default of a field, in the words of the text."""
    if value is None:
        return None
    if isinstance(value, ast.Call) and last_name(value.func) in _FIELDS:
        for keyword in value.keywords:
            if keyword.arg in ("default", "default_factory"):
                made = "()" if keyword.arg == "default_factory" else ""
                return f"{ast.unparse(keyword.value)}{made}"
        first = value.args[0] if value.args else None
        required = first is None or (isinstance(first, ast.Constant) and first.value is ...)
        return None if required else ast.unparse(first)  # type: ignore[arg-type]
    return ast.unparse(value)
