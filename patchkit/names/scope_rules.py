"""How each kind of Python node binds and reads names.

The rules are Python's own (language reference, "Naming and binding", with PEP 572, 634 and 695)
and do not depend on the interpreter that runs this: node classes are looked up by name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from patchkit.names.scopes import Action, Kind, Scope, Walker, mangled


def scan(module: ast.Module) -> Scope:
    """Return the module's scope, which holds all others."""
    return Walker(module, _ACTIONS).module


def _name(walk: Walker, node: Any) -> None:
    context = node.ctx.__class__
    if context is ast.Load:
        walk.read(node.id, node.lineno)
    elif context is ast.Store:
        walk.bind(node.id, "assign", node)
    else:
        walk.read(node.id, node.lineno)
        walk.bind(node.id, "del", node)


def _nothing(_walk: Walker, _node: Any) -> None:
    return


def _assign(walk: Walker, node: Any) -> None:
    if _is_globals(node.value) and node.value.func.id == "globals":
        walk.module.open = True  # kept under a name, to be written to
    walk.visit(node.value)
    walk.all(node.targets)


def _aug_assign(walk: Walker, node: Any) -> None:
    target = node.target
    if isinstance(target, ast.Name):
        walk.read(target.id, target.lineno)
        walk.visit(node.value)
        walk.bind(target.id, "augmented", target)
    else:
        walk.visit(target)
        walk.visit(node.value)


def _ann_assign(walk: Walker, node: Any) -> None:
    if node.value is not None:
        walk.visit(node.value)
    walk.annotation(node.annotation, evaluated=walk.scope.kind is not Kind.FUNCTION)
    if node.value is None and node.simple:
        walk.bind(node.target.id, "declared", node)
    else:
        walk.visit(node.target)


def _function(walk: Walker, node: Any) -> None:
    walk.all(node.decorator_list)
    _defaults(walk, node.args)

    def signature() -> None:
        for argument in _arguments(node.args):
            walk.annotation(argument.annotation)
        walk.annotation(node.returns)
        walk.within(Kind.FUNCTION, name, lambda: _function_body(walk, node))

    name = walk.qualified(node.name)
    _with_type_parameters(walk, node, signature)
    walk.bind(node.name, "def", node)


def _with_type_parameters(walk: Walker, node: Any, inner: Callable[[], None]) -> None:
    parameters = getattr(node, "type_params", None)
    if not parameters:
        inner()
        return

    evaluated = walk.evaluated

    def walk_all() -> None:
        for parameter in parameters:
            walk.bind(parameter.name, "assign", parameter)
        walk.evaluated = False  # bounds and defaults are worked out when asked for
        for parameter in parameters:
            walk.generic(parameter)
        walk.evaluated = evaluated
        inner()

    walk.within(Kind.TYPE_PARAMETERS, walk.scope.name, walk_all)


def _function_body(walk: Walker, node: Any) -> None:
    for argument in _arguments(node.args):
        walk.bind(argument.arg, "parameter", argument)
    walk.body(node.body)


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def _defaults(walk: Walker, args: ast.arguments) -> None:
    walk.all(args.defaults)
    walk.all(args.kw_defaults)


def _lambda(walk: Walker, node: Any) -> None:
    _defaults(walk, node.args)

    def inner() -> None:
        for argument in _arguments(node.args):
            walk.bind(argument.arg, "parameter", argument)
        walk.visit(node.body)

    walk.within(Kind.FUNCTION, walk.scope.name, inner)


def _class(walk: Walker, node: Any) -> None:
    if any(_last(decorator) == "global_enum" for decorator in node.decorator_list):
        walk.module.open = True  # puts its members into the module
    walk.all(node.decorator_list)
    name = walk.qualified(node.name)

    def header() -> None:
        walk.all(node.bases)
        walk.all(node.keywords)
        walk.within(Kind.CLASS, name, lambda: walk.body(node.body), private=node.name)

    _with_type_parameters(walk, node, header)
    walk.bind(node.name, "class", node)


def _type_alias(walk: Walker, node: Any) -> None:
    def value() -> None:
        walk.evaluated = False
        walk.visit(node.value)

    def inner() -> None:
        walk.within(Kind.TYPE_PARAMETERS, walk.scope.name, value)

    _with_type_parameters(walk, node, inner)
    walk.visit(node.name)


def _comprehension(walk: Walker, node: Any) -> None:
    kind = Kind.GENERATOR if isinstance(node, ast.GeneratorExp) else Kind.COMPREHENSION
    first, *rest = node.generators
    walk.visit(first.iter)

    def inner() -> None:
        number = walk.number()
        loop = walk.loop
        walk.loop = loop or number
        walk.visit(first.target)
        walk.all(first.ifs)
        for generator in rest:
            walk.visit(generator.iter)
            walk.visit(generator.target)
            walk.all(generator.ifs)
        if isinstance(node, ast.DictComp):
            walk.visit(node.key)
            walk.visit(node.value)
        else:
            walk.visit(node.elt)

    walk.within(kind, walk.scope.name, inner)


def _walrus(walk: Walker, node: Any) -> None:
    walk.visit(node.value)
    scope: Scope = walk.scope
    while scope.kind in (Kind.COMPREHENSION, Kind.GENERATOR) and scope.parent is not None:
        scope = scope.parent
    walk.bind(node.target.id, "assign", node.target, scope)


def _import(walk: Walker, node: Any) -> None:
    for alias in node.names:
        walk.bind(alias.asname or alias.name.partition(".")[0], "import", alias)


def _import_from(walk: Walker, node: Any) -> None:
    for alias in node.names:
        if alias.name == "*":
            walk.scope.open = True
        else:
            walk.bind(alias.asname or alias.name, "import", alias)


def _global(walk: Walker, node: Any) -> None:
    private = walk.scope.private
    names = {mangled(private, n) if private else n for n in node.names}
    if isinstance(node, ast.Global):
        walk.scope.globals |= names
    else:
        walk.scope.nonlocals |= names


def _if(walk: Walker, node: Any) -> None:
    kept = walk.path
    while True:  # an `elif` chain is as deep as it is long: no recursion
        walk.visit(node.test)
        number = walk.number()
        walk.arm(number, 1, node.body)
        walk.path = (*walk.path, (number, 2))
        if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
            break
        node = node.orelse[0]
    walk.all(node.orelse)
    walk.path = kept


def _binary(walk: Walker, node: Any) -> None:
    rights = []
    while isinstance(node, ast.BinOp):  # `a + b + ...` is as deep as it is long
        rights.append(node.right)
        node = node.left
    walk.visit(node)
    walk.all(reversed(rights))


def _if_expression(walk: Walker, node: Any) -> None:
    walk.visit(node.test)
    number = walk.number()
    walk.arm(number, 1, [node.body])
    walk.arm(number, 2, [node.orelse])


def _bool_operation(walk: Walker, node: Any) -> None:
    walk.visit(node.values[0])
    number = walk.number()
    walk.arm(number, 0, node.values[1:])


def _for(walk: Walker, node: Any) -> None:
    walk.visit(node.iter)
    number = walk.number()
    walk.arm(number, 0, [node.target, *node.body], loop=True)
    walk.arm(number, -1, node.orelse)


def _while(walk: Walker, node: Any) -> None:
    number = walk.number()
    walk.arm(number, -2, [node.test], loop=True)
    walk.arm(number, 0, node.body, loop=True)
    walk.arm(number, -1, node.orelse)


def _try(walk: Walker, node: Any) -> None:
    number = walk.number()
    kept = walk.guarded
    walk.guarded = kept or any(_catches_name_error(h.type) for h in node.handlers)
    walk.arm(number, 0, node.body)
    walk.guarded = kept
    for index, handler in enumerate(node.handlers):
        walk.arm(number, index + 1, [handler])
    walk.arm(number, len(node.handlers) + 1, node.orelse)
    walk.body(node.finalbody)


def _catches_name_error(node: ast.expr | None) -> bool:
    names = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(n, ast.Name) and n.id in _NAME_ERRORS for n in names)


def _handler(walk: Walker, node: Any) -> None:
    if node.type is not None:
        walk.visit(node.type)
    if node.name is not None:
        walk.bind(node.name, "except", node)
    walk.body(node.body)


def _match(walk: Walker, node: Any) -> None:
    walk.visit(node.subject)
    number = walk.number()
    for index, case in enumerate(node.cases):
        walk.visit(case.pattern)  # may bind even where the case is not taken in the end
        if case.guard is not None:
            walk.visit(case.guard)
        walk.arm(number, index + 1, case.body)


def _capture(walk: Walker, node: Any) -> None:
    walk.generic(node)
    name = node.rest if isinstance(node, ast.MatchMapping) else node.name
    if name is not None:
        walk.bind(name, "assign", node)


def _dictionary(walk: Walker, node: Any) -> None:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            walk.visit(key)
        walk.visit(value)


def _attribute(walk: Walker, node: Any) -> None:
    walk.visit(node.value)


def _subscript(walk: Walker, node: Any) -> None:
    if not isinstance(node.ctx, ast.Load) and _is_globals(node.value):
        walk.module.open = True
    walk.visit(node.value)
    walk.visit(node.slice)


def _call(walk: Walker, node: Any) -> None:
    if _fills_globals(walk, node):
        walk.module.open = True
    walk.visit(node.func)
    walk.all(node.args)
    walk.all(node.keywords)


def _fills_globals(walk: Walker, node: ast.Call) -> bool:
    """Whether a call may bind names of the module that the text does not show."""
    called = _last(node.func)
    if called in ("update", "setdefault") and isinstance(node.func, ast.Attribute):
        return _is_globals(node.func.value)
    if called == "exec" and isinstance(node.func, ast.Name):
        at_top = walk.scope is walk.module and len(node.args) < 2
        return at_top or any(_is_globals(a) for a in node.args[1:])
    return called == "_convert_"  # an enum made of a module's constants, put into it


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_globals(node: ast.AST) -> bool:
    """Whether the node is `globals()`, `vars()` or `locals()`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("globals", "vars", "locals")
        and not node.args
    )


_NAME_ERRORS = ("NameError", "UnboundLocalError")
_ACTIONS: dict[str, Action] = {
    "Name": _name, "Constant": _nothing, "Assign": _assign, "AugAssign": _aug_assign,
    "AnnAssign": _ann_assign, "FunctionDef": _function, "AsyncFunctionDef": _function,
    "Lambda": _lambda, "ClassDef": _class, "TypeAlias": _type_alias,
    "ListComp": _comprehension, "SetComp": _comprehension, "DictComp": _comprehension,
    "GeneratorExp": _comprehension, "NamedExpr": _walrus, "Import": _import,
    "ImportFrom": _import_from, "Global": _global, "Nonlocal": _global, "If": _if,
    "IfExp": _if_expression, "BoolOp": _bool_operation, "BinOp": _binary,
    "For": _for, "AsyncFor": _for, "While": _while,
    "Try": _try, "TryStar": _try, "ExceptHandler": _handler, "Match": _match,
    "MatchAs": _capture, "MatchStar": _capture, "MatchMapping": _capture, "Dict": _dictionary,
    "Attribute": _attribute, "Subscript": _subscript, "Call": _call,
    "Pass": _nothing, "Break": _nothing, "Continue": _nothing,
}  # fmt: skip
