"""A decoy: a copy of the definition under another name, right before the original."""

from __future__ import annotations

import ast
import re
from random import Random

from tests.bench_rebase.draw import pick
from tests.bench_rebase.refactors.ground import Ground, InapplicableError, pair, refuse_neighbours
from tests.bench_rebase.source import (
    Definition,
    Source,
    definitions,
    first_line,
    with_comments,
)


def decoy(ground: Ground, rng: Random) -> Ground:
    """Put a near copy of the target's definition before it, on both sides alike."""
    usable = [key for key in ground.chain if not key[0].rpartition(".")[2].startswith("__")]
    if not usable:
        raise InapplicableError("no definition with a name of its own around the edit")
    key = pick(rng, usable)
    one, _ = pair(ground, key)
    if _names_itself(one):
        raise InapplicableError("a decorator names the definition")
    new = ground.fresh(one.name + ("Legacy" if isinstance(one, ast.ClassDef) else "_legacy"))
    target, truth = ground.sources
    copy = copied(target, one, new)
    refuse_neighbours(ground, key, below=False)
    texts = [inserted(source, definitions(source)[key], copy) for source in (target, truth)]
    return ground.with_texts(texts[0], texts[1], f"decoy {new} before {key[0]}")


def _names_itself(node: Definition) -> bool:
    return any(
        isinstance(part, ast.Name) and part.id == node.name
        for decorator in node.decorator_list
        for part in ast.walk(decorator)
    )


def copied(source: Source, node: Definition, new: str) -> list[bytes]:
    """Return the lines of a definition under another name."""
    start, end = first_line(node), node.end_lineno or 0
    lines = list(source.lines[start:end])
    if not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    at = node.lineno - 1 - start
    pattern = rb"((?:async\s+def|def|class)\s+)%s\b" % node.name.encode()
    lines[at], count = re.subn(pattern, lambda found: found[1] + new.encode(), lines[at], count=1)
    assert count == 1
    return lines


def inserted(source: Source, node: Definition, lines: list[bytes]) -> bytes:
    """Return the text with a definition's lines put before another one and its comments."""
    at = with_comments(source, node)
    gap = [b"\n"] if node.col_offset else [b"\n", b"\n"]
    return b"".join([*source.lines[:at], *lines, *gap, *source.lines[at:]])
