"""Parameters and calls as values, and what each argument of a call binds to."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

# What says something of a field besides its type.
_WRAPPERS = frozenset({"ClassVar", "Final", "InitVar", "Required", "NotRequired", "SkipValidation"})

Key = int | str  # an argument: its position, 0-based, or its keyword


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `kind` is "positional", "plain", "rest" (`*args`), "keyword" or "options"."""

    name: str
    kind: str
    default: str | None = None
    annotation: str = ""

    @property
    def required(self) -> bool:
        """Whether a call has to pass it."""
        return self.default is None and self.kind not in ("rest", "options")

    def __str__(self) -> str:
        prefix = {"rest": "*", "options": "**"}.get(self.kind, "")
        return f"{prefix}{self.name}" + (f"={self.default}" if self.default is not None else "")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a call passes its arguments: how many by position, which by keyword.

    `starred` and `double_starred`: some come from `*x` or `**x`, and which is not known.
    """

    positional: int = 0
    keywords: tuple[str, ...] = ()
    starred: bool = False
    double_starred: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """What a call's arguments bind to; arguments that are `refused` bind to nothing.

    `missing` are the required parameters that nothing is passed for, `left` the others.
    """

    arguments: Mapping[Key, Parameter] = field(default_factory=dict)
    refused: tuple[Key, ...] = ()
    missing: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def parameters_of(arguments: ast.arguments, *, bound: bool = False) -> tuple[Parameter, ...]:
    """Return the parameters in the order of the text, without the first where it is bound."""
    listed = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(listed) - len(arguments.defaults)) + list(arguments.defaults)
    found = [
        _parameter(arg, "positional" if n < len(arguments.posonlyargs) else "plain", default)
        for n, (arg, default) in enumerate(zip(listed, defaults, strict=True))
    ][1 if bound else 0 :]
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, "rest", None))
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(arg, "keyword", default))
    if arguments.kwarg is not None:
        found.append(_parameter(arguments.kwarg, "options", None))
    return tuple(found)


def _parameter(arg: ast.arg, kind: str, default: ast.expr | None) -> Parameter:
    value = ast.unparse(default) if default is not None else None
    return Parameter(arg.arg, kind, value, canonical_type(arg.annotation))


def canonical_type(node: ast.expr | None) -> str:
    """Return an annotation in one spelling: `Optional[X]` and `"X | None"` are `X | None`."""
    return " | ".join(sorted(_alternatives(node))) if node is not None else ""


def _alternatives(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _alternatives(ast.parse(node.value.strip(), mode="eval").body)
        except (SyntaxError, ValueError):
            return {node.value}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _alternatives(node.left) | _alternatives(node.right)
    if isinstance(node, ast.Subscript):
        head = ast.unparse(node.value).rpartition(".")[2]
        if head == "Optional":
            return _alternatives(node.slice) | {"None"}
        if head == "Union":
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return {one for part in parts for one in _alternatives(part)}
        if head in _WRAPPERS:
            return _alternatives(node.slice)
        if head == "Annotated" and isinstance(node.slice, ast.Tuple):
            return _alternatives(node.slice.elts[0])
        if head in ("List", "Dict", "Set", "Tuple", "Type", "FrozenSet"):
            return {f"{head.lower()}[{ast.unparse(node.slice)}]"}
    return {ast.unparse(node)}


def alternatives(annotation: str) -> frozenset[str]:
    """Return the types that a canonical annotation allows."""
    node = parsed(annotation)
    if node is None:
        return frozenset({annotation}) if annotation else frozenset()
    return frozenset(_alternatives(node))


def parsed(annotation: str) -> ast.expr | None:
    """Return an annotation as an expression; None where it is none: any text may be one."""
    try:
        return ast.parse(annotation, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def shape_of(call: ast.Call) -> Shape:
    """Return how a call passes its arguments; those after a `*x` have no known position."""
    positional, starred = 0, False
    for argument in call.args:
        starred = starred or isinstance(argument, ast.Starred)
        positional += not starred
    keywords = tuple(k.arg for k in call.keywords if k.arg is not None)
    return Shape(positional, keywords, starred, len(keywords) < len(call.keywords))


def arguments_of(call: ast.Call) -> dict[Key, ast.expr]:
    """Return the arguments of a call by position or keyword; what is starred is none of them."""
    found: dict[Key, ast.expr] = dict(enumerate(call.args))
    return found | {k.arg: k.value for k in call.keywords if k.arg is not None}


def bind(shape: Shape, parameters: tuple[Parameter, ...]) -> Bound:
    """Return what the arguments of a call bind to."""
    by_position = [p for p in parameters if p.kind in ("positional", "plain")]
    by_name = {p.name: p for p in parameters if p.kind in ("plain", "keyword")}
    rest = next((p for p in parameters if p.kind == "rest"), None)
    options = next((p for p in parameters if p.kind == "options"), None)
    arguments: dict[Key, Parameter] = {}
    refused: list[Key] = []
    keys: list[tuple[Key, Parameter | None]] = [
        (n, by_position[n] if n < len(by_position) else rest) for n in range(shape.positional)
    ]
    keys += [(name, by_name.get(name, options)) for name in shape.keywords]
    taken: set[str] = set()
    for key, parameter in keys:
        if parameter is None or parameter.name in taken:
            refused.append(key)
            continue
        arguments[key] = parameter
        if parameter.kind not in ("rest", "options"):
            taken.add(parameter.name)
    open_ = [p for p in parameters if p.name not in taken and p.kind not in ("rest", "options")]
    known = [p for p in open_ if not _may_be_passed(p, shape)]
    return Bound(
        arguments,
        tuple(refused),
        tuple(p.name for p in known if p.required),
        tuple(p.name for p in known if not p.required),
    )


def _may_be_passed(parameter: Parameter, shape: Shape) -> bool:
    """Whether a `*x` or `**x` of the call may hold a parameter that is not passed by itself."""
    if shape.starred and parameter.kind in ("positional", "plain"):
        return True
    return shape.double_starred and parameter.kind in ("plain", "keyword")
