"""How the children of a `Node` are made from Python's `ast`: one builder a shape.

Python 3.11 gives wrong positions inside f-strings, and none at all for `with` items, `match` cases
and comprehensions: the first stay leaves, the others take the span of their parts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from patchkit.syntax.label import SKIPPED, TEXT, TRIPLE, label_of
from patchkit.syntax.tree import Module, Node, NotPythonError, Slot

_COMPOUND = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor,
    ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match,
)  # fmt: skip
_HEADED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While,
    ast.With, ast.AsyncWith, ast.ExceptHandler, ast.match_case,
)  # fmt: skip
_LEAVES = (ast.JoinedStr, ast.Constant, ast.Name, ast.Global, ast.Nonlocal)


def build_slots(node: Node) -> tuple[Slot, ...]:
    """Return the children of a node, slots in source order."""
    tree = node.tree
    if isinstance(tree, tuple):
        return _tuple_slots(node, tree)
    if isinstance(tree, ast.Constant) and node.label == TEXT:
        return (Slot("lines", _text_lines(node), False),)
    if not isinstance(tree, ast.AST) or isinstance(tree, _LEAVES):
        return ()
    builder = _BUILDERS.get(type(tree), _generic)
    slots = [slot for slot in builder(node, tree) if slot.nodes]
    ordered = sorted(slots, key=lambda s: s.nodes[0].start)
    return tuple(_with_signs(node, ordered)) if isinstance(tree, _HEADED) else tuple(ordered)


def _with_signs(node: Node, slots: list[Slot]) -> list[Slot]:
    """The slots of a headed block with the signs that end its header, as children of their own.

    Without them one change would reach from the last parameter to the first statement.
    """
    index = next((i for i, s in enumerate(slots) if s.name == "body"), None)
    if index is None:
        return slots
    start = slots[index - 1].nodes[-1].end if index else node.start
    colon = _find_sign(node.module, b":", start, slots[index].nodes[0].start)
    signs = [_sign(node.module, "colon", colon)] if colon is not None else []
    if isinstance(node.tree, (ast.FunctionDef, ast.AsyncFunctionDef)) and colon is not None:
        before = [s.nodes[-1].end for s in slots if s.name in _BEFORE]
        close = _find_sign(node.module, b")", max([node.start, *before]), colon)
        if close is not None and all(s.nodes[0].start > close or s.name in _BEFORE for s in slots):
            signs.append(_sign(node.module, "close", close))
    return sorted([*slots, *signs], key=lambda s: s.nodes[0].start)


_BEFORE = ("decorators", "type_params", "params")


def _sign(module: Module, name: str, position: int) -> Slot:
    return Slot(name, (Node(module, None, "sign", "", position, position + 1),), True)


def _find_sign(module: Module, sign: bytes, start: int, end: int) -> int | None:
    """The first of a sign in a stretch, comments aside."""
    text = bytearray(module.source[start:end])
    for begin, stop in module.comments_between(start, end):
        text[begin - start : stop - start] = b" " * (min(stop, end) - begin)
    found = bytes(text).find(sign)
    return start + found if found >= 0 else None


# Expressions and other parts -----------------------------------------------------------------


def _span(module: Module, tree: ast.AST) -> tuple[int, int]:
    """The span of anything that `ast` gives a position, or of its parts where it gives none."""
    place: Any = tree
    if hasattr(tree, "lineno"):
        start = module.offset(place.lineno, place.col_offset)
        return start, module.offset(place.end_lineno, place.end_col_offset)
    spans = [_span(module, child) for child in ast.iter_child_nodes(tree) if _positioned(child)]
    return min(s for s, _ in spans), max(e for _, e in spans)


def _positioned(tree: ast.AST) -> bool:
    return hasattr(tree, "lineno") or any(_positioned(c) for c in ast.iter_child_nodes(tree))


def make(module: Module, tree: ast.AST) -> Node:
    """Return the node of an expression, alias, keyword, pattern or other part."""
    start, end = _span(module, tree)
    return Node(module, tree, type(tree).__name__, label_of(module, tree, start, end), start, end)


def _text_lines(node: Node) -> tuple[Node, ...]:
    """The lines of a docstring or another text, blank ones left out.

    A docstring's indentation is its surroundings' and says nothing; any other text's counts.
    """
    module, parent = node.module, node.parent
    opening = TRIPLE.match(module.source, node.start)
    assert opening is not None
    start, end = opening.end(), node.end - 3
    says = module.source[start:end]
    free = parent is not None and parent.kind == "Expr"
    nodes, position = [], start
    for line in says.split(b"\n"):
        stripped = line.strip()
        if stripped:
            lead = len(line) - len(line.lstrip())
            text = (stripped if free else line).decode("utf-8")
            begin = position + lead
            nodes.append(Node(module, None, "line", text, begin, begin + len(stripped)))
        position += len(line) + 1
    return tuple(nodes)


def _nodes(module: Module, trees: Iterable[ast.AST | None]) -> tuple[Node, ...]:
    return tuple(make(module, tree) for tree in trees if tree is not None and _positioned(tree))


def _generic(node: Node, tree: ast.AST) -> list[Slot]:
    slots = []
    for name, value in ast.iter_fields(tree):
        if name in SKIPPED:
            continue
        if isinstance(value, list) and any(isinstance(v, ast.stmt) for v in value):
            slots.append(Slot(name, _statements(node, value, name), False))
        elif isinstance(value, list):
            parts = [v for v in value if isinstance(v, ast.AST)]
            slots.append(Slot(name, _nodes(node.module, parts), False))
        elif isinstance(value, ast.AST):
            slots.append(Slot(name, _nodes(node.module, [value]), True))
    return slots


def _call(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.Call)
    parts: list[ast.AST] = [*tree.args, *tree.keywords]
    args = sorted(_nodes(node.module, parts), key=lambda n: n.start)
    func = Slot("func", _nodes(node.module, [tree.func]), True)
    return [func, Slot("args", tuple(args), False)]


def _dict(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.Dict)
    pairs = []
    for key, value in zip(tree.keys, tree.values, strict=True):
        start, end = _span(node.module, value)
        if key is None:
            start = node.module.source.rindex(b"**", 0, start)
        else:
            start = _span(node.module, key)[0]
        pairs.append(Node(node.module, (key, value), "pair", "", start, end))
    return [Slot("pairs", tuple(pairs), False)]


def _binop(node: Node, tree: ast.AST) -> list[Slot]:
    """Flatten `a + b + c`, which Python nests to the left, where no brackets regroup it."""
    assert isinstance(tree, ast.BinOp)
    operands: list[ast.expr] = [tree.right]
    left = tree.left
    while (
        isinstance(left, ast.BinOp)
        and type(left.op) is type(tree.op)
        and _span(node.module, left)[0] == _span(node.module, left.left)[0]
        and _span(node.module, left)[0] == node.start
    ):
        operands.append(left.right)
        left = left.left
    operands.append(left)
    return [Slot("operands", _nodes(node.module, reversed(operands)), False)]


def _tuple_slots(node: Node, tree: tuple[object, ...]) -> tuple[Slot, ...]:
    """The children of what we made ourselves: dict pairs, parameters, branches."""
    if node.kind == "branch":
        branch = tree[0]
        assert isinstance(branch, ast.If)
        test = Slot("test", _nodes(node.module, [branch.test]), True)
        body = Slot("body", _statements(node, branch.body, "body"), False)
        return tuple(_with_signs(node, [test, body]))
    names = ("key", "value") if node.kind == "pair" else ("annotation", "default")
    slots = []
    for name, part in zip(names, tree, strict=True):
        if isinstance(part, ast.AST):
            slots.append(Slot(name, _nodes(node.module, [part]), True))
    return tuple(slots)


def _parameters(module: Module, arguments: ast.arguments) -> tuple[Node, ...]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*([None] * missing), *arguments.defaults]
    nodes = []
    for index, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        prefix = "/" if index < len(arguments.posonlyargs) else ""
        nodes.append(_parameter(module, arg, default, prefix))
    if arguments.vararg:
        nodes.append(_parameter(module, arguments.vararg, None, "*"))
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        nodes.append(_parameter(module, arg, default, "="))
    if arguments.kwarg:
        nodes.append(_parameter(module, arguments.kwarg, None, "**"))
    return tuple(nodes)


def _parameter(module: Module, arg: ast.arg, default: ast.expr | None, prefix: str) -> Node:
    start, end = _span(module, arg)
    if default is not None:
        end = _span(module, default)[1]
    return Node(module, (arg.annotation, default), "param", prefix + arg.arg, start, end)


# Statements ----------------------------------------------------------------------------------


def _function(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef))
    slots = [
        Slot("decorators", _nodes(node.module, tree.decorator_list), False),
        Slot("type_params", _nodes(node.module, getattr(tree, "type_params", [])), False),
        Slot("params", _parameters(node.module, tree.args), False),
        Slot("returns", _nodes(node.module, [tree.returns]), True),
    ]
    return [*slots, Slot("body", _statements(node, tree.body, "body"), False)]


def _lambda(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.Lambda)
    params = Slot("params", _parameters(node.module, tree.args), False)
    return [params, Slot("value", _nodes(node.module, [tree.body]), True)]


def _class(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.ClassDef)
    return [
        Slot("decorators", _nodes(node.module, tree.decorator_list), False),
        Slot("type_params", _nodes(node.module, getattr(tree, "type_params", [])), False),
        Slot("bases", _nodes(node.module, [*tree.bases, *tree.keywords]), False),
        Slot("body", _statements(node, tree.body, "body"), False),
    ]


def _if(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.If)
    branches, orelse = [], []
    branch: ast.If | None = tree
    while branch is not None:
        start = node.module.offset(branch.lineno, branch.col_offset)
        rest = branch.orelse
        following = rest[0] if _is_elif(node.module, rest) else None
        limit = _clause_start(node.module, branch, "orelse", node.end)
        end = _list_end(node.module, branch.body, limit)
        branches.append(Node(node.module, (branch,), "branch", "", start, end))
        if following is None:
            orelse = rest
        branch = following if isinstance(following, ast.If) else None
    slots = [Slot("branches", tuple(branches), False)]
    if orelse:
        slots.append(Slot("orelse", _statements(node, orelse, "orelse"), False))
    return slots


def _is_elif(module: Module, orelse: list[ast.stmt]) -> bool:
    if len(orelse) != 1 or not isinstance(orelse[0], ast.If):
        return False
    start = module.offset(orelse[0].lineno, orelse[0].col_offset)
    return module.source.startswith(b"elif", start)


def statement_start(module: Module, tree: ast.stmt) -> int:
    """The offset at which a statement begins, its first decorator's `@` included."""
    start = module.offset(tree.lineno, tree.col_offset)
    decorators = getattr(tree, "decorator_list", None)
    if decorators:
        first = module.offset(decorators[0].lineno, decorators[0].col_offset)
        return module.source.rindex(b"@", 0, first)
    return start


def _clause_start(module: Module, tree: ast.AST, name: str, default: int) -> int:
    """Where the clause that holds one of a statement's lists begins: at its `else`, `except`, …"""
    part = getattr(tree, name, None)
    if not part:
        return default
    if not isinstance(part[0], ast.stmt):
        return _span(module, part[0])[0]  # an `except` handler starts at its keyword
    first = statement_start(module, part[0])
    if name == "orelse" and _is_elif(module, part):
        return first
    keyword = b"finally" if name == "finalbody" else b"else"
    comments = [start for start, _ in module.comments_between(0, first)[-64:]]
    position = module.source.rindex(keyword, 0, first)
    while any(c <= position and module.line_at(c) == module.line_at(position) for c in comments):
        position = module.source.rindex(keyword, 0, position)
    return position


def _last_list(tree: ast.stmt | ast.excepthandler | ast.match_case) -> list[ast.stmt]:
    """The statement list with which a compound statement ends."""
    if isinstance(tree, ast.Match):
        return _last_list(tree.cases[-1])
    for name in ("finalbody", "orelse"):
        part = getattr(tree, name, None)
        if part:
            return list(part)
    handlers = getattr(tree, "handlers", None)
    if handlers:
        return _last_list(handlers[-1])
    return tree.body  # type: ignore[union-attr]


def _list_end(module: Module, trees: list[ast.stmt], limit: int) -> int:
    """Where a statement list ends: its last statement, with the comments of its own indentation."""
    end = _statement_end(module, trees[-1], limit)
    column = trees[0].col_offset
    for start, stop in module.comments_between(end, limit):
        if not module.is_own_line(start) or module.column(start) < max(column, 1):
            break
        end = stop
    return end


def _statement_end(module: Module, tree: ast.stmt, limit: int) -> int:
    """Where a statement ends, with the comment on its last line; never past `limit`."""
    if isinstance(tree, _COMPOUND):
        return _list_end(module, _last_list(tree), limit)
    assert tree.end_lineno is not None
    assert tree.end_col_offset is not None
    end = module.offset(tree.end_lineno, tree.end_col_offset)
    for start, stop in module.comments_between(end, limit):
        if not module.source[end:start].strip(b" \t\f;") and module.line_at(end) == module.line_at(
            start
        ):
            return stop
        break
    return end


def _handler(node: Node, tree: ast.AST, limit: int) -> Node:
    assert isinstance(tree, (ast.ExceptHandler, ast.match_case))
    start = _span(node.module, tree)[0]
    end = _list_end(node.module, tree.body, limit)
    label = getattr(tree, "name", None) or ""
    return Node(node.module, tree, type(tree).__name__, label, start, end)


def _try(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, (ast.Try, ast.TryStar))
    starts = [_span(node.module, handler)[0] for handler in tree.handlers]
    after = [*starts[1:], _after_handlers(node, tree)] if starts else []
    handlers = [_handler(node, h, limit) for h, limit in zip(tree.handlers, after, strict=True)]
    slots = [
        Slot("body", _statements(node, tree.body, "body"), False),
        Slot("handlers", tuple(handlers), False),
    ]
    for name in ("orelse", "finalbody"):
        part = getattr(tree, name)
        if part:
            slots.append(Slot(name, _statements(node, part, name), False))
    return slots


def _after_handlers(node: Node, tree: ast.Try | ast.TryStar) -> int:
    name = "orelse" if tree.orelse else "finalbody"
    return _clause_start(node.module, tree, name, node.end)


def _match(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.Match)
    source = node.module.source
    starts = [source.rindex(b"case", 0, _span(node.module, c.pattern)[0]) for c in tree.cases]
    limits = [*starts[1:], node.end]
    cases = [_handler(node, c, limit) for c, limit in zip(tree.cases, limits, strict=True)]
    subject = Slot("subject", _nodes(node.module, [tree.subject]), True)
    return [subject, Slot("cases", tuple(cases), False)]


def _list_limit(node: Node, name: str) -> int:
    """Where the region of one of a compound statement's lists ends at the latest."""
    tree = node.tree
    order = ["body", "handlers", "orelse", "finalbody"]
    if isinstance(tree, ast.AST) and name in order:
        for later in order[order.index(name) + 1 :]:
            if getattr(tree, later, None):
                return _clause_start(node.module, tree, later, node.end)
    return node.end


def _statements(node: Node, trees: list[ast.stmt], name: str) -> tuple[Node, ...]:
    """A statement list as nodes, comments on their own lines among them."""
    module = node.module
    limit = _list_limit(node, name)
    starts = [statement_start(module, tree) for tree in trees]
    statements = []
    for tree, start, stop in zip(trees, starts, [*starts[1:], limit], strict=True):
        end = _statement_end(module, tree, stop)
        statements.append(_statement(module, tree, start, end))
    # Comments above the first statement count from the line below the header.
    region = 0 if node.kind == "Module" else _header_end(module, node, starts[0])
    comments = _own_comments(module, region, limit, statements)
    return tuple(sorted([*statements, *comments], key=lambda n: n.start))


def _statement(module: Module, tree: ast.stmt, start: int, end: int) -> Node:
    return Node(module, tree, type(tree).__name__, label_of(module, tree, start, end), start, end)


def _header_end(module: Module, node: Node, first: int) -> int:
    """The start of the run of comment lines directly above a list's first statement."""
    position = module.line_start(first)
    while position > node.start:
        above = module.line_start(position - 1)
        line = module.source[above:position].strip()
        if line and not line.startswith(b"#"):
            break
        position = above
    return max(position, node.start)


def _own_comments(module: Module, region: int, limit: int, statements: list[Node]) -> list[Node]:
    """The comments of a list that stand on their own lines outside its statements."""
    nodes = []
    spans = [(s.start, s.end) for s in statements]
    position = 0
    column = module.column(statements[0].start) if statements else 0
    for start, end in module.comments_between(region, limit):
        while position < len(spans) and spans[position][1] <= start:
            position += 1
        inside = position < len(spans) and spans[position][0] <= start
        if inside or not module.is_own_line(start):
            continue
        if position == len(spans) and module.column(start) < column:
            break  # belongs to an enclosing list
        text = module.source[start:end].rstrip().decode("utf-8")
        nodes.append(Node(module, None, "Comment", text, start, start + len(text.encode())))
    return nodes


def _module(node: Node, tree: ast.AST) -> list[Slot]:
    assert isinstance(tree, ast.Module)
    if tree.body:
        return [Slot("body", _statements(node, tree.body, "body"), False)]
    return [Slot("body", tuple(_own_comments(node.module, 0, node.end, [])), False)]


_BUILDERS: dict[type, Callable[[Node, ast.AST], list[Slot]]] = {
    ast.Call: _call,
    ast.Dict: _dict,
    ast.BinOp: _binop,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.ClassDef: _class,
    ast.If: _if,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.Module: _module,
}


@lru_cache(maxsize=512)
def parse_module(source: bytes) -> Module:
    """Return the module of some bytes; raises `NotPythonError`."""
    return Module(source, build_slots)


def try_module(source: bytes) -> Module | None:
    """Return the module of some bytes, None where they are not Python."""
    try:
        return parse_module(source)
    except NotPythonError:
        return None
