"""Wrapping the body of a function in a `with` block."""

from __future__ import annotations

import ast
from random import Random

from tests.bench_rebase.bindings import module_scope
from tests.bench_rebase.literals import literals
from tests.bench_rebase.refactors.ground import Ground, InapplicableError, function_pair
from tests.bench_rebase.source import Function, Source, definitions, first_line

_INDENT = b"    "


def wrap(ground: Ground, rng: Random) -> Ground:  # noqa: ARG001
    """Put the body of the function around the edit into a `with`, its docstring aside."""
    key, *_ = function_pair(ground)
    manager = _manager(ground)
    texts = [wrapped(source, _function(source, key), manager) for source in ground.sources]
    note = f"wrap the body of {key[0]} in with {manager.decode()}"
    return ground.with_texts(texts[0], texts[1], note)


def _function(source: Source, key: tuple[str, int]) -> Function:
    node = definitions(source)[key]
    assert not isinstance(node, ast.ClassDef)
    return node


def _manager(ground: Ground) -> bytes:
    """Return a context manager that both sides can name, whatever their imports."""
    if all("torch" in _imported(source) for source in ground.sources):
        return b"torch.inference_mode()"
    return b'memoryview(b"")'


def _imported(source: Source) -> set[str]:
    """Return the modules that the top level imports under their own name."""
    plain = {
        alias.name
        for statement in source.tree.body
        if isinstance(statement, ast.Import)
        for alias in statement.names
        if alias.asname is None
    }
    return plain & module_scope(source).bound


def wrapped(source: Source, node: Function, manager: bytes) -> bytes:
    """Return the text with a function's body wrapped, unless it stands on the header's line."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not body:
        raise InapplicableError("the function has only a docstring")
    before = node.body[0].end_lineno if body is not node.body else None
    start = _body_start(source, node, body[0]) if before is None else before
    end = body[-1].end_lineno or 0
    indent = source.lines[first_line(body[0])][: body[0].col_offset]
    if indent.strip() or not _starts_its_line(source, body[0]):
        raise InapplicableError("the body is on the line of its header")
    end = _with_trailing_comments(source, end, indent)
    while start < end and not source.lines[start].strip():
        start += 1
    fixed = _lines_inside_strings(source)
    lines = [
        line if number in fixed or not line.strip() else _INDENT + line
        for number, line in enumerate(source.lines[start:end], start)
    ]
    head = indent + b"with " + manager + b":\n"
    return b"".join([*source.lines[:start], head, *lines, *source.lines[end:]])


def _starts_its_line(source: Source, statement: ast.stmt) -> bool:
    line = first_line(statement)
    return not source.lines[line][: statement.col_offset].strip()


def _body_start(source: Source, node: Function, first: ast.stmt) -> int:
    """Return the line after the function's header: comments above the first statement go along."""
    line = first_line(first)
    while line > node.lineno and source.lines[line - 1].lstrip().startswith((b"#", b"\n")):
        line -= 1
    while not source.lines[line].strip():
        line += 1
    return line


def _with_trailing_comments(source: Source, end: int, indent: bytes) -> int:
    """Return the end of a body with the comments at its own indentation that follow it."""
    line = end
    while line < len(source.lines):
        text = source.lines[line]
        if text.strip() and not (text.startswith(indent + b"#") and indent):
            break
        line += 1
        if text.strip():
            end = line
    return end


def _lines_inside_strings(source: Source) -> set[int]:
    """Return the lines that begin inside a string: their indentation is its content."""
    fixed: set[int] = set()
    for literal in literals(source.text):
        first = source.text.count(b"\n", 0, literal.start)
        inside = source.text.count(b"\n", literal.start, literal.end)
        fixed.update(range(first + 1, first + inside + 1))
    return fixed
