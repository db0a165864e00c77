"""What one piece of code says twice: keys, keywords, parameters, branches, members, statements."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from patchkit.names.scopes import MODULE_SCOPE

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody")
# `x += 1` twice is a way to count; what ends a block cannot run twice.
_OFTEN_REPEATED = (
    *_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass, ast.AugAssign, ast.Return,
    ast.Raise, ast.Continue, ast.Break, ast.Global, ast.Nonlocal,
)  # fmt: skip
_SHOWN = 80  # characters of a statement in a report


@dataclass(frozen=True, slots=True, order=True)
class Doubled:
    """Something that is there twice; `line` is that of the later one, 1-based.

    `places` are the first and last lines of each of them, where a statement is what is there twice.
    `kind` is "definition", "import", "attribute", "enum member", "enum value", "key", "element",
    "keyword", "parameter", "decorator", "branch", "case", "operand" or "statement".
    """

    kind: str
    scope: str
    name: str
    line: int
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.kind} `{self.name}` is doubled in {self.scope} (line {self.line})"


@dataclass(frozen=True, slots=True)
class Display:
    """A list, tuple or set literal: its elements as text, None for those not compared."""

    kind: str
    scope: str
    elements: tuple[str | None, ...]
    lines: tuple[int, ...]


@dataclass
class Repeats:
    """What was found in some code: repeats, and the literals whose growth is judged elsewhere."""

    doubled: list[Doubled] = field(default_factory=list)
    displays: list[Display] = field(default_factory=list)
    _passed: set[int] = field(default_factory=set)  # nodes that were judged with their parent

    def add(self, kind: str, scope: str, items: Iterable[tuple[Hashable, str, int]]) -> None:
        """Note each (key, name, line) whose key came before."""
        seen: set[Hashable] = set()
        for key, name, line in items:
            if key in seen:
                self.doubled.append(Doubled(kind, scope, name, line))
            seen.add(key)

    def add_alike(self, kind: str, scope: str, nodes: Sequence[ast.AST]) -> None:
        """Note each node that says what one before it says."""
        if len(nodes) < 2:
            return
        signs = [_sign(node) for node in nodes]
        counts = Counter(signs)
        seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
        found = []
        for node, sign in zip(nodes, signs, strict=True):
            if counts[sign] < 2:
                continue
            places = seen[ast.dump(node)]
            line: int = getattr(node, "lineno", 0)
            places.append((line, getattr(node, "end_lineno", line)))
            if len(places) > 1:
                found.append((node, places))
        for node, places in found:
            line = getattr(node, "lineno", 0)
            self.doubled.append(Doubled(kind, scope, shown(node), line, tuple(places)))

    def look(self, node: ast.AST, scope: str) -> None:
        """Note what a node and all below it repeat."""
        stack: list[tuple[ast.AST, str]] = [(node, scope)]
        while stack:
            current, inside = stack.pop()
            self._look_at(current, inside)
            below = inside
            if isinstance(current, (*_FUNCTIONS, ast.ClassDef)):
                below = qualified(inside, current.name)
            stack.extend((child, below) for child in ast.iter_child_nodes(current))

    def _look_at(self, node: ast.AST, scope: str) -> None:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self.look_at_header(node, scope)
            if isinstance(node, ast.ClassDef):
                self.look_at_class(node, scope)
                plain = [s for s in node.body if not isinstance(s, (ast.Assign, ast.AnnAssign))]
                self.statements(plain, qualified(scope, node.name))
                return
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            if id(node) not in self._passed:
                self._display(node, scope)
        elif isinstance(node, ast.Subscript):
            # `tuple[int, int]` and `x[None, None]` say nothing twice; `Literal["a", "a"]` does.
            if not (_element(node.value) or "").endswith("Literal"):
                self._passed.add(id(node.slice))
        elif isinstance(node, ast.Dict):
            self.add("key", scope, _keyed(node.keys))
        elif isinstance(node, ast.Call):
            names = [k for k in node.keywords if k.arg is not None]
            self.add("keyword", scope, [(k.arg, str(k.arg), k.value.lineno) for k in names])
        elif isinstance(node, ast.BoolOp):
            self.add_alike("operand", scope, node.values)
        elif isinstance(node, ast.Lambda):
            self.add("parameter", scope, _parameters(node.args))
        elif isinstance(node, ast.Match):
            self._cases(node, scope)
        elif isinstance(node, ast.If):
            self._chain(node, scope)
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            below = qualified(scope, node.name) if isinstance(node, _FUNCTIONS) else scope
            for name in _BLOCKS:
                self.statements(getattr(node, name, []), below)

    def look_at_header(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: str
    ) -> None:
        """Note repeated decorators, parameters and class keywords."""
        own = qualified(scope, node.name)
        self.add_alike("decorator", own, node.decorator_list)
        if isinstance(node, ast.ClassDef):
            self.add("keyword", own, [(k.arg, str(k.arg), k.value.lineno) for k in node.keywords])
        else:
            self.add("parameter", own, _parameters(node.args))

    def look_at_class(self, node: ast.ClassDef, scope: str) -> None:
        """Note the attributes that a class body assigns twice, and equal values of an enum."""
        own = qualified(scope, node.name)
        enum = is_enum(node)
        members = list(_attributes(node))
        seen: set[str] = set()
        for name, value, line in members:
            if name in seen and not _reads(value, name):
                kind = "enum member" if enum else "attribute"
                self.doubled.append(Doubled(kind, own, name, line))
            seen.add(name)
        if enum:
            self._enum_values(own, members)

    def _enum_values(self, own: str, members: list[tuple[str, ast.expr | None, int]]) -> None:
        first: dict[Hashable, str] = {}
        for name, value, line in members:
            key = _constant(value)
            if key is None or name.startswith("_"):
                continue
            if first.setdefault(key, name) != name:
                text = f"{ast.unparse(value) if value else ''} ({first[key]}, {name})"
                self.doubled.append(Doubled("enum value", own, text, line))

    def statements(self, body: list[ast.stmt], scope: str) -> None:
        """Note the statements that stand twice in one block."""
        self.add_alike("statement", scope, [s for s in body if may_be_doubled(s)])

    def _display(self, node: ast.List | ast.Tuple | ast.Set, scope: str) -> None:
        elements = tuple(_element(e) for e in node.elts)
        if isinstance(node, (ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Store):
            return  # `_, x, _ = ...`
        lines = tuple(e.lineno for e in node.elts)
        self.displays.append(Display(type(node).__name__, scope, elements, lines))

    def _chain(self, node: ast.If, scope: str) -> None:
        if id(node) in self._passed:
            return
        tests = [node.test]
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node = node.orelse[0]
            self._passed.add(id(node))
            tests.append(node.test)
        self.add_alike("branch", scope, tests)

    def _cases(self, node: ast.Match, scope: str) -> None:
        items = []
        for case in node.cases:
            guard = "" if case.guard is None else f" if {ast.unparse(case.guard)}"
            text = ast.unparse(case.pattern) + guard
            items.append((text, text, case.pattern.lineno))
        self.add("case", scope, items)


def may_be_doubled(node: ast.stmt) -> bool:
    """Return whether the same statement twice in one block is worth a word."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not text and not isinstance(node, _OFTEN_REPEATED)


def qualified(scope: str, name: str) -> str:
    """Return the qualified name of a definition inside a scope."""
    return name if scope == MODULE_SCOPE else f"{scope}.{name}"


def is_enum(node: ast.ClassDef) -> bool:
    """Return whether a base of the class is called an Enum or a Flag."""
    names = [
        base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        for base in node.bases
    ]
    return any(name.endswith(("Enum", "Flag")) for name in names)


def grown(before: Iterable[Display], after: Iterable[Display]) -> Iterator[Doubled]:
    """Yield the elements that a literal holds twice since it grew.

    The literal's earlier self is a shorter one of the same kind in the same scope, all of whose
    elements (two at least) it still has. A literal without one is new: its author chose what it
    repeats.
    """
    earlier = list(before)
    for literal in after:
        counts = Counter(e for e in literal.elements if e is not None)
        for text, count in counts.items():
            if count > 1 and any(_grew(old, literal, text) for old in earlier):
                last = len(literal.elements) - 1 - literal.elements[::-1].index(text)
                yield Doubled("element", literal.scope, text, literal.lines[last])


def _grew(old: Display, new: Display, text: str) -> bool:
    if (old.kind, old.scope) != (new.kind, new.scope) or len(old.elements) >= len(new.elements):
        return False
    kept = set(old.elements)
    return old.elements.count(text) <= 1 and len(kept) > 1 and kept <= set(new.elements)


def _element(node: ast.expr) -> str | None:
    """Return a constant or a dotted name as text; None, `True` and the like are not compared."""
    if isinstance(node, ast.Constant):
        said_often = node.value is None or node.value is ... or isinstance(node.value, bool)
        return None if said_often else repr(node.value)
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return ast.unparse(node) if isinstance(inner, ast.Name) else None


def _keyed(nodes: Iterable[ast.expr | None]) -> list[tuple[str, str, int]]:
    texts = [(_element(n), n.lineno) for n in nodes if n is not None]
    return [(text, text, line) for text, line in texts if text is not None]


def _sign(node: Hashable | ast.AST, depth: int = 3) -> Hashable:
    """Return what nodes that say the same have in common; it costs a tenth of the whole."""
    if not isinstance(node, ast.AST):
        return node
    parts: list[Hashable] = [type(node).__name__]
    for name in node._fields if depth else ():
        value = getattr(node, name, None)
        if isinstance(value, list):
            parts.append(len(value))
            value = value[0] if value else None
        parts.append(_sign(value, depth - 1))
    return tuple(parts)


def shown(node: ast.AST) -> str:
    """Return the first line of the code, shortened."""
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _parameters(args: ast.arguments) -> list[tuple[str, str, int]]:
    extra = [a for a in (args.vararg, args.kwarg) if a is not None]
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]
    return [(a.arg, a.arg, a.lineno) for a in every]


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, int]]:
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value, statement.lineno
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value, statement.lineno


def _reads(value: ast.expr | None, name: str) -> bool:
    """Whether a value is made from the name that it is assigned to (`x = wrap(x)`)."""
    return value is not None and any(
        isinstance(n, ast.Name) and n.id == name for n in ast.walk(value)
    )


def _constant(value: ast.expr | None) -> Hashable:
    """Return a literal's value with a mark for its kind, None where it is no literal."""
    if value is None:
        return None
    try:
        literal = ast.literal_eval(value)
        hash(literal)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return ("value", literal)
