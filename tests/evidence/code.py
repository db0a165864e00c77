"""Python code read with nothing of patchkit, so that what it claims can be held against it."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_WORD = re.compile(r"\w+|[^\w\s]")
_PREFIX = re.compile(r"\b[rbfuRBFU]{1,2}(?=[\"'])")  # of a string, which may be joined or split
_COMPOUND = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar,
    ast.Match, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
)  # fmt: skip


@lru_cache(maxsize=256)
def parsed(source: bytes) -> ast.Module | None:
    """Return the tree of a file, None where it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=256)
def definitions(source: bytes) -> Mapping[str, Definition]:
    """Return the definitions of a file by qualified name, `#2` and on where a name repeats."""
    tree = parsed(source)
    found: dict[str, Definition] = {}
    if tree is not None:
        _collect(tree, "", found)
    return found


def _collect(node: ast.AST, prefix: str, found: dict[str, Definition]) -> None:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            continue
        if not isinstance(child, Definition):
            _collect(child, prefix, found)
            continue
        name, ordinal = prefix + child.name, 1
        while name in found:
            ordinal += 1
            name = f"{prefix}{child.name}#{ordinal}"
        found[name] = child
        _collect(child, f"{name}.", found)


def span(source: bytes, name: str) -> tuple[int, int]:
    """Return the first and last line of a definition with its decorators, 1-based."""
    if name == "<module>":
        return 1, source.count(b"\n") + 1
    node = definitions(source)[name]
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return first, node.end_lineno or first


def text_of(source: bytes, name: str) -> str:
    """Return the text of a definition, of all for `<module>`."""
    first, last = span(source, name)
    return "\n".join(source.decode("utf-8", "replace").split("\n")[first - 1 : last])


def has(source: bytes | None, name: str) -> bool:
    """Return whether a file has a definition of a qualified name."""
    return source is not None and (name == "<module>" or name in definitions(source))


def words(text: str | bytes) -> list[str]:
    """Return the words and signs of a text, but for its layout: commas, brackets, quotes."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return [word for word in _WORD.findall(_PREFIX.sub("", text)) if word not in "(),\"'"]


def same_code(old: bytes, name: str, new: bytes, other: str, *, but_name: bool = False) -> bool:
    """Return whether two definitions say the same; `but_name` leaves their own names open."""
    one, two = definitions(old)[name], definitions(new)[other]
    left, right = ast.dump(one), ast.dump(two)
    if but_name:
        left = left.replace(f"name='{one.name}'", "name=''", 1)
        right = right.replace(f"name='{two.name}'", "name=''", 1)
    return left == right


def share_of_words(old: bytes, name: str, new: bytes, other: str) -> float:
    """Return the share of words and signs that two definitions have in common (Dice)."""
    left, right = (Counter(_WORD.findall(text_of(*d))) for d in ((old, name), (new, other)))
    return 2 * (left & right).total() / (left.total() + right.total())


def share_of_neighbours(old: bytes, name: str, new: bytes, other: str) -> float:
    """Return the share of pairs of neighbouring words in common (Dice), the own names aside."""
    left, right = (
        Counter(pairwise("" if word == own else word for word in _WORD.findall(text)))
        for own, text in (
            (one.rpartition(".")[2], text_of(source, one))
            for source, one in ((old, name), (new, other))
        )
    )
    return 2 * (left & right).total() / (left.total() + right.total())


def share_of_statements(old: bytes, name: str, new: bytes, other: str) -> float:
    """Return the share, by length, of simple statements that another definition has as well."""
    left = list(simple_statements(old, name))
    right = Counter(dump for dump, _ in simple_statements(new, other))
    same = 0
    for dump, length in left:
        if right[dump] > 0:
            right[dump] -= 1
            same += length
    total = sum(length for _, length in left)
    return same / total if total else 0.0


def simple_statements(source: bytes, name: str) -> Iterator[tuple[str, int]]:
    """Yield the simple statements of a definition, and what its blocks test, as dump and length."""
    text = source.decode("utf-8", "replace")
    for node in ast.walk(definitions(source)[name]):
        said: ast.AST | None = None
        if isinstance(node, (ast.If, ast.While)):
            said = node.test
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            said = node.iter
        elif isinstance(node, ast.Match):
            said = node.subject
        elif isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND):
            said = node
        if said is not None:
            yield ast.dump(said), len((ast.get_source_segment(text, said) or "").encode())


def bindings(function: Definition, masked: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Return each name that a function binds with the statement that does, masked names open."""
    found: Counter[tuple[str, str]] = Counter()
    assert not isinstance(function, ast.ClassDef)
    arguments = function.args
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        found[arg.arg, "parameter"] += 1
    for node in ast.walk(function):
        header: list[ast.AST] = [node]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            header = [node.target, node.iter]
        elif isinstance(node, ast.withitem):
            header = [node]
        elif not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            continue
        shape = " ".join(_masked(part, masked) for part in header)
        for part in header:
            for name in ast.walk(part):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    found[name.id, shape] += 1
    return found


def _masked(node: ast.AST, masked: Mapping[str, str]) -> str:
    text = ast.dump(node)
    for name in masked:
        text = text.replace(f"Name(id='{name}'", "Name(id=''")
    return text


def mentions(function: Definition) -> set[str]:
    """Return every name that a function reads or binds."""
    found = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    return found | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}


def siblings(source: bytes, lines: set[int]) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each statement that lies on the given lines, with the kept ones before and after it.

    A neighbour is its dump, a definition its name, an import of names its module: upstream may
    change what is inside.
    """
    tree = parsed(source)
    for node in ast.walk(tree) if tree is not None else ():
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield from _in_block(block, lines)


def _in_block(
    block: list[ast.stmt], lines: set[int]
) -> Iterator[tuple[str, str | None, str | None]]:
    def is_new(statement: ast.stmt) -> bool:
        return set(range(statement.lineno, (statement.end_lineno or 0) + 1)) <= lines

    for index, statement in enumerate(block):
        if is_new(statement):
            before = next((s for s in block[:index][::-1] if not is_new(s)), None)
            after = next((s for s in block[index + 1 :] if not is_new(s)), None)
            yield ast.dump(statement), _said(before), _said(after)


def _said(statement: ast.stmt | None) -> str | None:
    if isinstance(statement, Definition):
        return f"definition {statement.name}"
    if isinstance(statement, ast.ImportFrom):
        return f"from {'.' * statement.level}{statement.module or ''}"
    if isinstance(statement, _COMPOUND):  # what is inside may have changed
        parts = [v for _, v in ast.iter_fields(statement) if isinstance(v, ast.expr)]
        return " ".join([type(statement).__name__, *map(ast.dump, parts)])
    return None if statement is None else ast.dump(statement)
