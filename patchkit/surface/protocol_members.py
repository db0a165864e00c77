"""What a class body says to whoever calls it: its members, their kinds, signatures and values."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from patchkit.names.definitions import last_name

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PROPERTIES = frozenset({"property", "cached_property", "classproperty", "abstractproperty"})
_KINDS = {"classmethod": "classmethod", "staticmethod": "staticmethod"}
# Decorators that leave what can be passed as it is.
_TRANSPARENT = frozenset(
    (
        "abstractmethod", "cache", "contextmanager", "asynccontextmanager", "deprecated", "final",
        "inference_mode", "lru_cache", "no_grad", "override", "wraps",
    )
)  # fmt: skip
_SETTERS = frozenset({"setter", "getter", "deleter"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `default` is its text, None where one must be passed.

    `by` is "position", "keyword", or "both".
    """

    name: str
    by: str
    default: str | None

    def __str__(self) -> str:
        return self.name if self.default is None else f"{self.name}={self.default}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What can be passed to a method, without the object or class that it is called on."""

    parameters: tuple[Parameter, ...]
    any_position: bool = False  # `*args`
    any_keyword: bool = False  # `**kwargs`

    @property
    def positional(self) -> tuple[Parameter, ...]:
        """What can be passed by position, in order."""
        return tuple(p for p in self.parameters if p.by != "keyword")

    def by_name(self, name: str) -> Parameter | None:
        """Return what a keyword binds."""
        return next((p for p in self.parameters if p.name == name and p.by != "position"), None)

    def __str__(self) -> str:
        shown: list[str] = []
        by = ""
        for parameter in self.parameters:
            if by == "position" != parameter.by:
                shown.append("/")
            if parameter.by == "keyword" != by:
                shown.append("*args" if self.any_position else "*")
            shown.append(str(parameter))
            by = parameter.by
        shown += ["/"] if by == "position" else []
        shown += ["*args"] if self.any_position and by != "keyword" else []
        return f"({', '.join([*shown, *(['**kwargs'] if self.any_keyword else [])])})"


@dataclass(frozen=True, slots=True)
class Member:
    """One name that a class body binds.

    `kind` is "method", "classmethod", "staticmethod", "property" or "attribute", with "async "
    before it where it is. `signature` is None where what can be passed is not seen. `value` is the
    text of the constant that it is or returns. `demand` says what asks a subclass for it:
    "abstractmethod", "NotImplementedError", or "" for nothing. `line` is that of its name.
    """

    name: str
    kind: str
    line: int
    signature: Signature | None = None
    value: str | None = None
    demand: str = ""

    def __str__(self) -> str:
        if self.signature is not None:
            return f"{self.kind} {self.signature}"
        return self.kind if self.value is None else f"{self.kind} {self.value}"


@dataclass(frozen=True, slots=True)
class DataField:
    """A field of a dataclass: whether it must be passed, and whether by keyword alone."""

    name: str
    line: int
    required: bool
    keyword_only: bool


@dataclass(frozen=True, slots=True)
class ClassShape:
    """A class: its qualified name, its bases as dotted names ("" for what is none), its members.

    `fields` are those that its own body gives a dataclass, None where it is not made one.
    """

    name: str
    line: int
    bases: tuple[str, ...]
    members: dict[str, Member]
    fields: tuple[DataField, ...] | None = None


def class_shape(node: ast.ClassDef, name: str) -> ClassShape:
    """Return the shape of a class under its qualified name."""
    members: dict[str, Member] = {}
    overloads: dict[str, Member] = {}
    for member, overloaded in _members(node.body):
        if overloaded:
            overloads[member.name] = replace(member, signature=None, value=None)
            continue
        before = members.get(member.name)
        if before is not None and str(before) != str(member):
            member = replace(member, signature=None, value=None)  # which of them holds is not seen
        members[member.name] = member
    members = overloads | members  # a protocol may have nothing but overloads of a method
    bases = tuple(dotted(base) for base in node.bases)
    return ClassShape(name, node.lineno, bases, members, _data_fields(node))


def dotted(node: ast.expr) -> str:
    """Return a dotted name, through subscripts; nothing where it is anything else."""
    while isinstance(node, ast.Subscript):
        node = node.value
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def blocks(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and of the branches in it, in order."""
    for node in body:
        if isinstance(node, ast.If):
            yield from blocks((*node.body, *node.orelse))
        elif isinstance(node, (ast.Try, ast.TryStar)):
            handlers = [statement for h in node.handlers for statement in h.body]
            yield from blocks((*node.body, *handlers, *node.orelse, *node.finalbody))
        else:
            yield node


def _members(body: Iterable[ast.stmt]) -> Iterator[tuple[Member, bool]]:
    """The members in order, each with whether it is an overload; without setters and the like."""
    for node in blocks(body):
        if isinstance(node, _FUNCTIONS):
            decorators = [last_name(d) for d in node.decorator_list]
            if not _SETTERS & set(decorators):
                yield _function(node, decorators), "overload" in decorators
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield _attribute(target.id, node.lineno, node.value), False
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield _attribute(node.target.id, node.lineno, node.value), False


def _attribute(name: str, line: int, value: ast.expr | None) -> Member:
    return Member(name, "attribute", line, value=_constant(value))


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, decorators: list[str]) -> Member:
    kind = next((_KINDS[d] for d in decorators if d in _KINDS), "method")
    signature: Signature | None = None
    if _PROPERTIES & set(decorators):
        kind = "property"
    elif set(decorators) <= _TRANSPARENT | set(_KINDS):
        signature = _signature(node.args, bound=kind != "staticmethod")
    body = _without_docstring(node.body)
    value = None
    if len(body) == 1 and isinstance(body[0], ast.Return):
        value = _constant(body[0].value)
    demand = "NotImplementedError" if body and _raises_not_implemented(body[0]) else ""
    if {"abstractmethod", "abstractproperty"} & set(decorators):
        demand = "abstractmethod"
    if isinstance(node, ast.AsyncFunctionDef):
        kind = f"async {kind}"
    return Member(node.name, kind, node.lineno, signature, value, demand)


def _signature(arguments: ast.arguments, *, bound: bool) -> Signature | None:
    ordered = [(a, "position") for a in arguments.posonlyargs]
    ordered += [(a, "both") for a in arguments.args]
    missing = len(ordered) - len(arguments.defaults)
    defaults = [None] * missing + [_text(d) for d in arguments.defaults]
    found = [Parameter(a.arg, by, d) for (a, by), d in zip(ordered, defaults, strict=True)]
    if bound and not found and arguments.vararg is None:
        return None  # it cannot be called on an object
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = found[1:] if bound else found
    found += [Parameter(a.arg, "keyword", _text(d) if d else None) for a, d in keywords]
    return Signature(tuple(found), arguments.vararg is not None, arguments.kwarg is not None)


def _text(node: ast.expr) -> str:
    return " ".join(ast.unparse(node).split())


def _constant(node: ast.expr | None) -> str | None:
    """The text of a number, string, truth value or None, and of a dotted name in capitals."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return _text(node)
    return repr(node.value) if isinstance(node, ast.Constant) else None


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if said else body


def _raises_not_implemented(node: ast.stmt) -> bool:
    raised = isinstance(node, ast.Raise) and node.exc is not None
    return raised and last_name(node.exc) == "NotImplementedError"  # type: ignore[attr-defined]


def _data_fields(node: ast.ClassDef) -> tuple[DataField, ...] | None:
    made = next((d for d in node.decorator_list if last_name(d) == "dataclass"), None)
    if made is None:
        return None
    keyword_only = _says(made, "kw_only", True)
    found: list[DataField] = []
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = last_name(statement.annotation)
        if annotation == "KW_ONLY":
            keyword_only = True
        elif annotation not in ("ClassVar", "InitVar") and not _says(
            statement.value, "init", False
        ):
            alone = keyword_only or _says(statement.value, "kw_only", True)
            required = not _has_default(statement.value)
            found.append(DataField(statement.target.id, statement.lineno, required, alone))
    return tuple(found)


def _says(node: ast.expr | None, keyword: str, value: bool) -> bool:
    """Whether a call passes a keyword with a truth value."""
    return isinstance(node, ast.Call) and any(
        k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value is value
        for k in node.keywords
    )


def _has_default(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call) and last_name(node) == "field":
        return any(k.arg in ("default", "default_factory", None) for k in node.keywords)
    return node is not None
