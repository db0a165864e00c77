"""How much two definitions have in common, and what besides likeness says that they are one.

Shares run from 0 to 1. None of them decides alone: similar bodies invent renames.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

from patchkit.syntax.outline import Outline, name_of
from patchkit.syntax.tree import Node

# What a share is of, as reports say it.
STATEMENTS = "statements' text"
PAIRS = "neighbouring words"
_TOKEN = re.compile(rb"\w+|[^\w\s]")


def likeness(old: Node, new: Node) -> float:
    """Return how much of a definition another one says, its own name aside; 1 is word for word.

    Statements in common count by their length. Where each has changed a little that says nothing,
    so that neighbouring words in common count as well: those keep the order of the text.
    """
    if old.digest_with("") == new.digest_with(""):
        return 1.0
    return max(common_statements(old, new), _overlap(_word_pairs(old), _word_pairs(new)))


def said_likeness(old: Node, new: Node) -> str:
    """Return the likeness of two definitions in words: how much of what they have in common."""
    if old.digest_with("") == new.digest_with(""):
        return "word for word"
    said = common_statements(old, new)
    share = likeness(old, new)
    return said_share(share, STATEMENTS if said == share else PAIRS)


def said_share(share: float, of: str) -> str:
    """Return a share in words."""
    return f"{percent(share)} of its {of} the same"


def percent(share: float) -> str:
    """Return a share in percent, rounded down: 100 % is all of it."""
    return f"{int(share * 100 + 1e-9)} %"


@lru_cache(maxsize=1024)
def _word_pairs(definition: Node) -> Counter[tuple[bytes, bytes]]:
    name = name_of(definition).encode()
    words = (b"" if word == name else word for word in _TOKEN.findall(definition.text))
    return Counter(pairwise(words))


def _overlap(left: Counter[tuple[bytes, bytes]], right: Counter[tuple[bytes, bytes]]) -> float:
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 0.0


def common_statements(old: Node, new: Node) -> float:
    """Return the share, by length, of a definition's simple statements that another has as well."""
    left, right = _simple_statements(old), _simple_statements(new)
    total = sum(len(n.text) for n in left)
    known = Counter(n.digest for n in right)
    same = 0
    for node in left:
        if known[node.digest] > 0:
            known[node.digest] -= 1
            same += len(node.text)
    return same / total if total else 0.0


def statement_digests(definition: Node) -> Counter[bytes]:
    """Return the simple statements in a definition that say enough to be told apart."""
    idle = (b"pass", b"return", b"break", b"continue", b"return None")
    return Counter(n.digest for n in _simple_statements(definition) if n.text not in idle)


# What a block tests or loops over says as much as a statement.
_HEADS = {
    "branch": "test", "While": "test", "For": "iter", "AsyncFor": "iter", "Match": "subject",
}  # fmt: skip


def _is_head(node: Node) -> bool:
    return node.parent is not None and _HEADS.get(node.parent.kind) == node.slot


def _simple_statements(definition: Node) -> list[Node]:
    blocks = ("If", "For", "While", "With", "Try", "Match", "Async", "Function", "Class", "Comment")
    return [
        n
        for n in definition.walk()
        if n is not definition
        and (_is_head(n) or (n.is_statement and not n.kind.startswith(blocks)))
    ]


def called_alike(before: Outline, after: Outline, old: str, new: str) -> bool:
    """Return whether a line of the target names `new` just as a line of the base names `old`."""
    return bool(_lines_naming(before, old) & _lines_naming(after, new))


def _lines_naming(outline: Outline, name: str) -> set[bytes]:
    word = re.compile(rb"\b%b\b" % name.encode())
    lines = outline.module.source.split(b"\n")
    found = {word.sub(b"\0", line.strip()) for line in lines if word.search(line)}
    return {
        line for line in found if not line.startswith((b"def ", b"class ", b"async def ", b"#"))
    }
