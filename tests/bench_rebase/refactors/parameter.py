"""A parameter added to the function around the edit."""

from __future__ import annotations

import ast
from random import Random

from tests.bench_rebase.refactors.ground import (
    DroppedError,
    Ground,
    InapplicableError,
    function_pair,
)
from tests.bench_rebase.source import Function, Source, definitions, spliced


def add_parameter(ground: Ground, rng: Random) -> Ground:  # noqa: ARG001
    """Give the function around the edit one more parameter, last, with a default."""
    key, one, other = function_pair(ground)
    if _last(one) != _last(other):
        raise DroppedError("two orders")
    name = ground.fresh("extra_option")
    texts = []
    for source in ground.sources:
        node = definitions(source)[key]
        assert not isinstance(node, ast.ClassDef)
        texts.append(with_parameter(source, node, name))
    return ground.with_texts(texts[0], texts[1], f"add parameter {name} to {key[0]}")


def _last(node: Function) -> str | None:
    """Return the name of the parameter after which one can be added."""
    arg = _last_argument(node)
    return arg[0].arg if arg else None


def _last_argument(node: Function) -> tuple[ast.arg, ast.expr | None] | None:
    """Return the last parameter but for `**`, with its default."""
    args = node.args
    if args.kwonlyargs:
        return args.kwonlyargs[-1], args.kw_defaults[-1]
    if args.vararg is not None:
        return args.vararg, None
    positional = [*args.posonlyargs, *args.args]
    if not positional:
        return None
    return positional[-1], args.defaults[-1] if args.defaults else None


def with_parameter(source: Source, node: Function, name: str) -> bytes:
    """Return the text with a parameter `name=None` added to a function."""
    new = f"{name}=None".encode()
    last = _last_argument(node)
    if last is not None:
        arg, default = last
        start, end = source.span(arg)
        if default is not None:
            at, end = source.span(default)
            if source.text[:at].rstrip().endswith(b"("):
                raise InapplicableError("the last default is in parentheses")
        before = source.lines[arg.lineno - 1][: arg.col_offset].rstrip(b"*")
        # Where the last one has a line of its own, so does the new one.
        new = (b", " if before.strip() else b",\n" + before) + new
        return spliced(source.text, [(end, end, new)])
    if node.args.kwarg is not None:
        start, _ = source.span(node.args.kwarg)
        at = source.text.rindex(b"**", 0, start)
        return spliced(source.text, [(at, at, new + b", ")])
    start, _ = source.span(node)
    at = source.text.index(b"(", start) + 1
    return spliced(source.text, [(at, at, new)])
