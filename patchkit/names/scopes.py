"""The scopes of a Python module: what each binds, what each reads, and in which order.

Every binding and read gets a number that grows with evaluation, not with the text (`x = x + 1`
reads first). `path` says which arms of which compound statements enclose it, so that two places
can be told to be in arms of which only one runs. A class body and a comprehension run where they
stand; a function body, a lambda and a generator run some time later.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

MODULE_SCOPE = "<module>"

# (number of the compound statement, arm): arms from 1 up exclude each other.
Path = tuple[tuple[int, int], ...]


class Kind(Enum):
    """What opens a scope."""

    MODULE = "module"
    CLASS = "class"
    FUNCTION = "function"  # lambda too
    COMPREHENSION = "comprehension"
    GENERATOR = "generator"
    TYPE_PARAMETERS = "type parameters"


class Binding(NamedTuple):
    """One place that binds a name."""

    kind: str  # "def", "class", "import", "except", "del", "declared", "global", else "assign"
    line: int
    order: int
    path: Path
    loop: int
    node: ast.AST | None


class Read(NamedTuple):
    """One place that reads a name; `evaluated` is false where it is read later or never."""

    name: str
    line: int
    order: int
    path: Path
    loop: int
    evaluated: bool


@dataclass(slots=True, eq=False)
class Scope:
    """One scope. `name` is the qualified name of the definition around it."""

    kind: Kind
    name: str
    parent: Scope | None
    private: str = ""  # the class whose name is mangled into `__x`
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    children: list[Scope] = field(default_factory=list)
    uncertain: set[str] = field(default_factory=set)  # bound by more than plain bindings
    open: bool = False  # holds names that the text does not show (star import, globals()[...] = )


Action = Callable[["Walker", Any], None]


class Walker:
    """Fills the scopes of one module; `actions` say what to do at each kind of node."""

    def __init__(self, module: ast.Module, actions: Mapping[str, Action]) -> None:
        self.actions = actions
        self.module = Scope(Kind.MODULE, MODULE_SCOPE, None)
        self.scope = self.module
        self.order = 0
        self.path: Path = ()
        self.loop = 0
        self.deferred = any(
            isinstance(s, ast.ImportFrom)
            and s.module == "__future__"
            and any(a.name == "annotations" for a in s.names)
            for s in module.body
        )
        self.evaluated = True
        self.guarded = False  # inside `try: ... except NameError:`, a read may fail by design
        self.outer: list[tuple[Scope, str, ast.AST]] = []
        self.body(module.body)
        self._bind_nonlocals()

    # Recording ---------------------------------------------------------------------------------

    def read(self, name: str, line: int) -> None:
        if self.guarded:
            return
        scope = self.scope
        if scope.private and name.startswith("__"):
            name = mangled(scope.private, name)
        self.order += 1
        scope.reads.append(Read(name, line, self.order, self.path, self.loop, self.evaluated))

    def bind(self, name: str, kind: str, node: ast.AST, scope: Scope | None = None) -> None:
        if scope is None:
            scope = self.scope
        if scope.private and name.startswith("__"):
            name = mangled(scope.private, name)
        self.order += 1
        line: int = getattr(node, "lineno", 0)
        binding = Binding(kind, line, self.order, self.path, self.loop, node)
        if scope.globals and name in scope.globals and scope is not self.module:
            # Bound whenever that function runs: its order says nothing about the module's.
            binding = Binding("global", line, 0, (), 0, node)
            scope = self.module
        elif scope.nonlocals and name in scope.nonlocals:
            self.outer.append((scope, name, node))
            return
        elif kind in ("del", "augmented", "declared", "except"):
            scope.uncertain.add(name)
        scope.bindings.setdefault(name, []).append(binding)

    def _bind_nonlocals(self) -> None:
        for scope, name, node in self.outer:
            owner = scope.parent
            while owner is not None:
                if owner.kind is Kind.FUNCTION and name in owner.bindings:
                    owner.bindings[name].append(Binding("nonlocal", 0, 0, (), 0, node))
                    break
                owner = owner.parent

    # Walking -----------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        action = self.actions.get(node.__class__.__name__)
        if action is not None:
            action(self, node)
        else:
            self.generic(node)

    def generic(self, node: ast.AST) -> None:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                self.all(value)
            elif isinstance(value, ast.AST):
                action = self.actions.get(value.__class__.__name__)
                if action is not None:
                    action(self, value)
                else:
                    self.generic(value)

    def all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self.visit(node)

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def arm(self, number: int, arm: int, nodes: Iterable[ast.AST], *, loop: bool = False) -> None:
        """Walk one arm of the compound statement `number`."""
        kept = self.path, self.loop
        self.path = (*self.path, (number, arm))
        if loop and not self.loop:
            self.loop = number
        self.all(nodes)
        self.path, self.loop = kept

    def number(self) -> int:
        self.order += 1
        return self.order

    def within(
        self, kind: Kind, name: str, walk: Callable[[], None], private: str | None = None
    ) -> None:
        """Walk in a new scope; what runs later starts a path of its own."""
        parent = self.scope
        inherited = parent.private if private is None else private
        scope = Scope(kind, name, parent, inherited)
        parent.children.append(scope)
        kept = self.path, self.loop, self.evaluated
        self.scope = scope
        if kind in (Kind.FUNCTION, Kind.GENERATOR):
            self.path, self.loop, self.evaluated = (), 0, True
        walk()
        self.scope = parent
        self.path, self.loop, self.evaluated = kept

    def qualified(self, name: str) -> str:
        outer = self.scope.name
        return name if outer == MODULE_SCOPE else f"{outer}.{name}"

    def annotation(self, node: ast.AST | None, *, evaluated: bool = True) -> None:
        """Read an annotation, and the annotations that it holds as strings."""
        if node is None:
            return
        kept = self.evaluated
        self.evaluated = kept and evaluated and not self.deferred
        self._annotated(node)
        self.evaluated = kept

    def _annotated(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self._quoted(node.value, node.lineno)
        elif isinstance(node, ast.Subscript):
            self.visit(node.value)
            head = node.value
            name = head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")
            if name == "Annotated" and isinstance(node.slice, ast.Tuple) and node.slice.elts:
                self._annotated(node.slice.elts[0])
                self.all(node.slice.elts[1:])
            elif name == "Literal":
                self.visit(node.slice)
            else:
                self._annotated(node.slice)
        elif isinstance(node, (ast.BinOp, ast.Tuple, ast.List)):
            for child in ast.iter_child_nodes(node):
                self._annotated(child)
        else:
            self.visit(node)

    def _quoted(self, text: str, line: int) -> None:
        try:
            # Parentheses, as typing does it: the text may begin with a space or span lines.
            expression = compile(f"({text}\n)", "", "eval", ast.PyCF_ONLY_AST, dont_inherit=True)
        except (SyntaxError, ValueError):
            return
        for node in ast.walk(expression):
            if hasattr(node, "lineno"):
                node.lineno = line
        kept = self.evaluated
        self.evaluated = False
        self._annotated(expression.body)  # type: ignore[attr-defined]
        self.evaluated = kept


def mangled(private: str, name: str) -> str:
    """Return the name that `__name` has inside the class `private`."""
    if name.endswith("__") or not name.startswith("__") or "." in name:
        return name
    stripped = private.lstrip("_")
    return f"_{stripped}{name}" if stripped else name
