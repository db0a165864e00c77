"""Which elements of two lists are the same element: by key, by content, by what is left over.

A match is made only where it is forced. Elements with a name of their own (definitions, keywords,
parameters, entries) match by it. Others match by content where that content is unique between two
matches already made, or occurs equally often on both sides. What is then left alone between two
matches pairs up where one candidate is clearly the most similar. Anything else stays unmatched:
a wrong match lands a patch in a wrong place, a missing one only asks a person.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

from patchkit.diff.sequence import longest_increasing
from patchkit.syntax.tree import Node, is_docstring

# Dice shares of common words: half in common (a third where both sides have one element left, or a
# block with the same head), and a tenth ahead of every rival.
SIMILAR = 0.5
SIMILAR_ALONE = 0.34
MARGIN = 0.1
_TOKEN = re.compile(rb"\w+|[^\w\s]")
_WORD = re.compile(rb"\w+")

Pairs = list[tuple[int, int]]


def key_of(node: Node) -> Hashable | None:
    """Return the name by which a node is known in its list, None where it has none."""
    if node.is_definition:
        return ("definition", node.label.split(" ")[0])
    if node.kind == "param":
        return ("param", node.label.lstrip("*/="))
    if node.kind == "keyword" and node.label:
        return ("keyword", node.label)
    if node.kind == "branch":
        return ("branch", next(iter(node.children)).digest)
    if node.kind == "alias":
        return ("alias", node.label)
    if node.kind == "pair":
        key = node.slot_named("key")
        return ("pair", key.nodes[0].digest) if key else None
    if is_docstring(node):
        return ("docstring",)
    return _statement_key(node)


def _statement_key(node: Node) -> Hashable | None:
    tree = node.tree
    if isinstance(tree, ast.ImportFrom):
        return ("from", tree.level, tree.module)
    if isinstance(tree, ast.AnnAssign) and isinstance(tree.target, ast.Name):
        return ("binds", tree.target.id)
    if isinstance(tree, ast.Assign) and len(tree.targets) == 1:
        target = tree.targets[0]
        if isinstance(target, ast.Name) and node.parent and node.parent.kind in _NAMESPACES:
            return ("binds", target.id)
    return None


_NAMESPACES = ("Module", "ClassDef")


def match_lists(old: Sequence[Node], new: Sequence[Node]) -> Pairs:
    """Return the index pairs of elements that are the same, in order of the old list.

    Elements known by a name are found wherever they went; others keep their order.
    """
    return match_similar(old, new, match_exact(old, new))


def match_exact(old: Sequence[Node], new: Sequence[Node]) -> Pairs:
    """Return the pairs that a name or equal content forces."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    _match_keys(old, new, pairs, taken)
    _match_between(old, new, pairs, taken, _match_content)
    return sorted(pairs.items())


def match_similar(old: Sequence[Node], new: Sequence[Node], known: Pairs) -> Pairs:
    """Return `known` and the pairs of what is left between them that are clearly most similar.

    What one pair leaves on either side may be forced then: content that is repeated elsewhere can
    be unique there.
    """
    pairs, count = dict(known), -1
    taken = set(pairs.values())
    while count < len(pairs) < min(len(old), len(new)):
        count = len(pairs)
        _match_between(old, new, pairs, taken, _match_similar)
        if len(pairs) > count:
            _match_between(old, new, pairs, taken, _match_content)
    return sorted(pairs.items())


def match_ordered(old: Sequence[Node], new: Sequence[Node], known: Pairs) -> Pairs:
    """Return pairs of which no two cross, as an edit script needs them.

    `known` are pairs that hold for certain and already rise on both sides. A definition that the
    script gives another name is the same one, so that what changed inside it is told apart.
    """
    result = list(known)
    bounds = [(-1, -1), *known, (len(old), len(new))]
    for (i0, j0), (i1, j1) in pairwise(bounds):
        found = match_lists(old[i0 + 1 : i1], new[j0 + 1 : j1])
        found = longest_increasing(found)
        result += [(i + i0 + 1, j + j0 + 1) for i, j in found]
    pairs = dict(sorted(result))
    _match_between(old, new, pairs, set(pairs.values()), _match_renamed)
    return sorted(pairs.items())


def _match_renamed(
    old: Sequence[Node], new: Sequence[Node], olds: list[int], news: list[int]
) -> Pairs:
    """Pair the definitions that only one side has, as likeness says."""
    gone = [i for i in olds if old[i].is_definition]
    came = [j for j in news if new[j].is_definition]
    return _match_similar(old, new, gone, came, renamed=True) if gone and came else []


def _match_keys(
    old: Sequence[Node], new: Sequence[Node], pairs: dict[int, int], taken: set[int]
) -> None:
    places: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, nodes in enumerate((old, new)):
        for index, node in enumerate(nodes):
            if (index in taken) if side else (index in pairs):
                continue
            key = key_of(node)
            if key is not None:
                places[key][side].append(index)
    for olds, news in places.values():
        if len(olds) == 1 and len(news) == 1:
            found = [(olds[0], news[0])]
        else:  # overloads, accessors: those whose content, or else signature, is unique
            found = _unique([(i, old[i].digest) for i in olds], [(j, new[j].digest) for j in news])
            left = {i for i, _ in found}, {j for _, j in found}
            found += _unique(
                [(i, _signature(old[i])) for i in olds if i not in left[0]],
                [(j, _signature(new[j])) for j in news if j not in left[1]],
            )
        for i, j in found:
            pairs[i] = j
            taken.add(j)


def _signature(node: Node) -> bytes:
    """What tells definitions of one name apart: decorators, parameters, and what it returns."""
    if not node.is_definition:
        return node.digest
    parts = [s for s in node.slots if s.name in ("decorators", "params", "returns", "bases")]
    return b"".join(n.digest for slot in parts for n in slot.nodes)


def _unique(old: list[tuple[int, bytes]], new: list[tuple[int, bytes]]) -> Pairs:
    counts_old = Counter(d for _, d in old)
    counts_new = Counter(d for _, d in new)
    where = {d: j for j, d in new}
    return [(i, where[d]) for i, d in old if counts_old[d] == 1 and counts_new.get(d) == 1]


Matcher = Callable[[Sequence[Node], Sequence[Node], list[int], list[int]], Pairs]


def _match_between(
    old: Sequence[Node],
    new: Sequence[Node],
    pairs: dict[int, int],
    taken: set[int],
    matcher: Matcher,
) -> None:
    """Apply a matcher to each stretch between two neighbouring pairs that do not cross others."""
    fixed = [(-1, -1), *longest_increasing(sorted(pairs.items())), (len(old), len(new))]
    for (i0, j0), (i1, j1) in pairwise(fixed):
        olds = [i for i in range(i0 + 1, i1) if i not in pairs]
        news = [j for j in range(j0 + 1, j1) if j not in taken]
        if not olds or not news:
            continue
        for i, j in matcher(old, new, olds, news):
            pairs[i] = j
            taken.add(j)


def _match_content(
    old: Sequence[Node], new: Sequence[Node], olds: list[int], news: list[int]
) -> Pairs:
    """Patience matching by digest; repeated content only where it occurs equally often."""
    if not olds or not news:
        return []
    unique = _unique([(i, old[i].digest) for i in olds], [(j, new[j].digest) for j in news])
    anchors = longest_increasing(unique)
    if not anchors:
        return _equally_often(old, new, olds, news)
    result = list(anchors)
    bounds = [(-1, -1), *anchors, (len(old), len(new))]
    for (i0, j0), (i1, j1) in pairwise(bounds):
        result += _match_content(
            old,
            new,
            [i for i in olds if i0 < i < i1],
            [j for j in news if j0 < j < j1],
        )
    return result


def _equally_often(
    old: Sequence[Node], new: Sequence[Node], olds: list[int], news: list[int]
) -> Pairs:
    by_digest: dict[bytes, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i in olds:
        by_digest[old[i].digest][0].append(i)
    for j in news:
        by_digest[new[j].digest][1].append(j)
    found = [
        pair
        for left, right in by_digest.values()
        if len(left) == len(right)
        for pair in zip(left, right, strict=True)
    ]
    return longest_increasing(sorted(found))


def _match_similar(
    old: Sequence[Node],
    new: Sequence[Node],
    olds: list[int],
    news: list[int],
    *,
    renamed: bool = False,
) -> Pairs:
    """Pair what is left by the share of common tokens, where the best clearly wins both ways."""
    if len(olds) * len(news) > 4096:
        return []
    # Words alone: every call has brackets in common with every other.
    bags_old = {i: Counter(_WORD.findall(old[i].text)) for i in olds}
    bags_new = {j: Counter(_WORD.findall(new[j].text)) for j in news}
    scores: dict[tuple[int, int], float] = {}
    for i in olds:
        for j in news:
            if _may_be_same(old[i], new[j], renamed=renamed):
                scores[i, j] = overlap(bags_old[i], bags_new[j])
    result = []
    for (i, j), score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
        rivals = [s for (x, y), s in scores.items() if (x == i) != (y == j)]
        alone = len(olds) == 1 and len(news) == 1 and not renamed
        needed = SIMILAR_ALONE if alone or same_head(old[i], new[j]) else SIMILAR
        if score >= needed and all(score - rival >= MARGIN for rival in rivals):
            result.append((i, j))
    return longest_increasing(sorted(result))


def _may_be_same(old: Node, new: Node, *, renamed: bool) -> bool:
    """Whether likeness may speak: what has a name of its own is never taken for another."""
    if old.kind != new.kind and not _twins(old.kind, new.kind):
        return False
    if old.kind == "branch" or renamed:
        return True
    return key_of(old) == key_of(new)


# What says which block this is: what it loops over, tests or enters.
HEADS = {
    "While": ("test",), "For": ("target", "iter"), "AsyncFor": ("target", "iter"),
    "With": ("items",), "AsyncWith": ("items",), "branch": ("test",),
}  # fmt: skip


def same_head(old: Node, new: Node) -> bool:
    """Return whether two are blocks that loop over, test or enter the same."""
    if old.kind == new.kind == "If":
        old, new = old.slots[0].nodes[0], new.slots[0].nodes[0]
    if old.kind != new.kind or old.kind not in HEADS:
        return False
    for name in HEADS[old.kind]:
        left, right = old.slot_named(name), new.slot_named(name)
        if left is None or right is None:
            return False  # an `else`
        if [n.digest for n in left.nodes] != [n.digest for n in right.nodes]:
            return False
    return True


def _twins(left: str, right: str) -> bool:
    """Whether two kinds are spellings of one thing (`def` and `async def`, list and tuple)."""
    return {left, right} in (
        {"FunctionDef", "AsyncFunctionDef"},
        {"List", "Tuple"},
        {"Assign", "AnnAssign"},
        {"For", "AsyncFor"},
        {"With", "AsyncWith"},
    )


def tokens(node: Node) -> Counter[bytes]:
    """Return the bag of words and signs in a node's text."""
    return Counter(_TOKEN.findall(node.text))


def overlap(left: Counter[bytes], right: Counter[bytes]) -> float:
    """Return the share of tokens that two bags have in common, 0 to 1 (Dice)."""
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0
