"""Which scope each name in a module belongs to, by Python's rules, with the bytes it stands at.

Strings never hold names here, quoted annotations included; keyword arguments and attributes are
not names. What cannot be renamed in place (`import x`) has no range.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.bench_rebase.literals import fields, literals
from tests.bench_rebase.source import FUNCTIONS, Source, split_lines

Range = tuple[int, int]
Located = ast.expr | ast.stmt | ast.arg | ast.alias | ast.pattern | ast.excepthandler

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_NAMED = re.compile(rb"(?:async\s+def|def|class)\s+")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Use:
    """One place that binds or reads a name. `how` is "read" or what binds it."""

    name: str
    scope: Scope
    place: Range | None
    how: str


@dataclass(frozen=True, eq=False)
class Member:
    """One `value.name`; `place` is that of the name."""

    name: str
    value: ast.expr
    scope: Scope
    place: Range


@dataclass(eq=False)
class Scope:
    """One scope. `node` is what opens it, `bound` the names that are its own."""

    kind: str  # "module", "class", "function" or "comprehension"
    node: ast.AST
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    children: list[Scope] = field(default_factory=list)

    def owner(self, name: str) -> Scope | None:
        """Return the scope that a name used here belongs to; None for a builtin or unknown one."""
        if name in self.globals:
            return self.module
        if name in self.bound and name not in self.nonlocals:
            return self
        outer = self.parent
        while outer is not None:
            if outer.kind != "class":
                if name in outer.globals:
                    return self.module
                if name in outer.bound and name not in outer.nonlocals:
                    return outer
            outer = outer.parent
        return None

    @property
    def module(self) -> Scope:
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def within(self) -> Iterator[Scope]:
        """Yield this scope and all inside it."""
        yield self
        for child in self.children:
            yield from child.within()


@lru_cache(maxsize=32)
def module_scope(source: Source) -> Scope:
    """Return the scopes of a module, with the nodes of the source's own tree."""
    return _Reader(source).scope


def scope_of(module: Scope, node: ast.AST) -> Scope:
    """Return the scope that a definition opens."""
    return next(scope for scope in module.within() if scope.node is node)


def uses_of(owner: Scope, name: str) -> list[Use]:
    """Return every place in the module where the name means the owner's."""
    return [
        use
        for scope in owner.within()
        for use in scope.uses
        if use.name == name and scope.owner(name) is owner
    ]


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.scope = Scope("module", source.tree, None)
        self.starts, self.base = source.starts, 0  # where the tree at hand has its positions
        for statement in source.tree.body:
            self.visit(statement)

    # Places --------------------------------------------------------------------------------------

    def start(self, node: Located) -> int:
        return self.base + self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: Located) -> int:
        return self.base + self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def tail(self, node: Located, name: str) -> Range:
        return self.end(node) - len(name.encode()), self.end(node)

    def found(self, name: str, start: int, end: int) -> Range | None:
        match = re.compile(rb"(?<!\w)%s(?!\w)" % name.encode()).search(self.source.text, start, end)
        return match.span() if match else None

    # Recording -----------------------------------------------------------------------------------

    def use(self, name: str, place: Range | None, how: str, scope: Scope | None = None) -> None:
        scope = scope or self.scope
        scope.uses.append(Use(name, scope, place, how))
        if how not in ("read", "declared"):
            scope.bound.add(name)

    def inside(self, kind: str, node: ast.AST, walk: Callable[[], None]) -> None:
        outer = self.scope
        self.scope = Scope(kind, node, outer)
        outer.children.append(self.scope)
        walk()
        self.scope = outer

    # Walking -------------------------------------------------------------------------------------

    def visit(self, node: ast.AST | None) -> None:
        if node is None:
            return
        action = getattr(self, _action(type(node)), None)
        if action is not None:
            action(node)
        elif isinstance(node, _COMPREHENSIONS):
            self.comprehension(node)
        else:
            self.all(ast.iter_child_nodes(node))

    def all(self, nodes: Any) -> None:
        for node in nodes:
            self.visit(node)

    def on_name(self, node: ast.Name) -> None:
        how = "read" if isinstance(node.ctx, ast.Load) else "assign"
        start = self.start(node)
        self.use(node.id, (start, start + len(node.id.encode())), how)

    def on_attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        member = Member(node.attr, node.value, self.scope, self.tail(node, node.attr))
        self.scope.members.append(member)

    def on_named_expr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        owner = self.scope
        while owner.kind == "comprehension" and owner.parent is not None:
            owner = owner.parent
        start = self.start(node.target)
        name = node.target.id
        self.use(name, (start, start + len(name.encode())), "assign", owner)

    def definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.all(node.decorator_list)
        match = _NAMED.match(self.source.text, self.start(node))
        assert match is not None
        self.use(node.name, (match.end(), match.end() + len(node.name.encode())), "def")

    def on_function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.definition(node)
        self.outer_parts(node.args)
        self.visit(node.returns)
        self.inside("function", node, lambda: (self.parameters(node.args), self.all(node.body)))

    on_async_function_def = on_function_def

    def on_lambda(self, node: ast.Lambda) -> None:
        self.outer_parts(node.args)
        self.inside("function", node, lambda: (self.parameters(node.args), self.visit(node.body)))

    def outer_parts(self, args: ast.arguments) -> None:
        self.all(args.defaults)
        self.all(args.kw_defaults)
        self.all(arg.annotation for arg in _parameters(args))

    def parameters(self, args: ast.arguments) -> None:
        for arg in _parameters(args):
            start = self.start(arg)
            self.use(arg.arg, (start, start + len(arg.arg.encode())), "parameter")

    def on_class_def(self, node: ast.ClassDef) -> None:
        self.definition(node)
        self.all(node.bases)
        self.all(node.keywords)
        self.inside("class", node, lambda: self.all(node.body))

    def comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)  # evaluated outside
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)

        def walk() -> None:
            for number, generator in enumerate(node.generators):
                self.visit(generator.target)
                if number:
                    self.visit(generator.iter)
                self.all(generator.ifs)
            self.all(parts)

        self.inside("comprehension", node, walk)

    def on_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.asname:
                self.use(alias.asname, self.tail(alias, alias.asname), "import")
            else:
                self.use(alias.name.split(".")[0], None, "import")

    on_import_from = on_import

    def on_except_handler(self, node: ast.ExceptHandler) -> None:
        self.visit(node.type)
        if node.name and node.type is not None:
            place = self.found(node.name, self.end(node.type), self.start(node.body[0]))
            self.use(node.name, place, "assign")
        self.all(node.body)

    def on_global(self, node: ast.Global | ast.Nonlocal) -> None:
        declared = self.scope.globals if isinstance(node, ast.Global) else self.scope.nonlocals
        declared.update(node.names)
        if isinstance(node, ast.Global):
            self.scope.module.bound.update(node.names)
        for name in node.names:
            self.use(name, self.found(name, self.start(node) + 6, self.end(node)), "declared")

    on_nonlocal = on_global

    def on_match_as(self, node: ast.MatchAs) -> None:
        self.visit(node.pattern)
        if node.name:
            self.use(node.name, self.tail(node, node.name), "assign")

    def on_match_star(self, node: ast.MatchStar) -> None:
        if node.name:
            self.use(node.name, self.tail(node, node.name), "assign")

    def on_match_mapping(self, node: ast.MatchMapping) -> None:
        self.all(node.keys)
        self.all(node.patterns)
        if node.rest:
            self.use(node.rest, None, "assign")

    def on_joined_str(self, node: ast.JoinedStr) -> None:
        """Read the expressions from the text: the tree's positions inside depend on the Python."""
        text = self.source.text
        for literal in literals(text, self.start(node), self.end(node)):
            if not literal.formatted:
                continue
            for start, end in fields(text, literal):
                self.field(text[start:end], start)

    def field(self, expression: bytes, at: int) -> None:
        kept = self.starts, self.base
        wrapped = b"(" + expression + b"\n)"
        tree = ast.parse(wrapped, mode="eval")
        lines = split_lines(wrapped)
        self.starts = tuple(sum(map(len, lines[:n])) for n in range(len(lines)))
        self.base = at - 1
        self.visit(tree.body)
        self.starts, self.base = kept


@lru_cache(maxsize=256)
def _action(kind: type[ast.AST]) -> str:
    return "on_" + _CAPITAL.sub("_", kind.__name__).lower()


def _parameters(args: ast.arguments) -> list[ast.arg]:
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [arg for arg in every if arg is not None]


def is_function(scope: Scope) -> bool:
    """Return whether a scope is that of a `def`."""
    return isinstance(scope.node, FUNCTIONS)
