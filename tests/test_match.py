"""Elements of two lists are paired only where that is forced."""

from __future__ import annotations

from patchkit.syntax.build import parse_module
from patchkit.syntax.match import match_lists, match_ordered, overlap, tokens
from patchkit.syntax.tree import Node


def nodes(source: str) -> tuple[Node, ...]:
    return tuple(parse_module(source.encode()).root.children)


def parts(source: str, slot: str) -> tuple[Node, ...]:
    """The list of one slot of the first expression of a module."""
    for node in parse_module(source.encode()).root.walk():
        found = node.slot_named(slot)
        if found is not None and node.kind != "Module":
            return found.nodes
    raise AssertionError(slot)


def pairs(old: str, new: str) -> list[tuple[str, str]]:
    left, right = nodes(old), nodes(new)
    return [
        (left[i].text.decode().splitlines()[0], right[j].text.decode().splitlines()[0])
        for i, j in match_lists(left, right)
    ]


def test_definitions_are_paired_by_name_wherever_they_went() -> None:
    old = "def a(): one()\ndef b(): two()\n"
    new = "def b(): three()\ndef a(): four()\n"
    assert pairs(old, new) == [
        ("def a(): one()", "def a(): four()"),
        ("def b(): two()", "def b(): three()"),
    ]


def test_definition_is_never_paired_with_one_of_another_name() -> None:
    body = "    " + "\n    ".join(f"step{n}(x)" for n in range(6)) + "\n"
    assert pairs(f"def a(x):\n{body}", f"def b(x):\n{body}") == []


def test_definitions_of_one_name_are_told_apart_by_their_signature() -> None:
    old = "def f(a: int): one()\ndef f(a: str): one()\n"
    new = "def f(a: str): one()\ndef f(a: bytes): one()\n"
    assert pairs(old, new) == [("def f(a: str): one()", "def f(a: str): one()")]


def test_repeated_statement_is_paired_only_where_it_occurs_equally_often() -> None:
    assert pairs("a()\nlog()\nb()\nlog()\n", "a()\nlog()\nb()\nlog()\n") == [
        ("a()", "a()"),
        ("log()", "log()"),
        ("b()", "b()"),
        ("log()", "log()"),
    ]
    assert pairs("log()\nlog()\n", "log()\n") == []


def test_unique_statements_settle_which_of_the_repeated_ones_is_gone() -> None:
    assert pairs("log()\na()\nlog()\nb()\n", "a()\nlog()\nb()\n") == [
        ("a()", "a()"),
        ("log()", "log()"),
        ("b()", "b()"),
    ]


def test_changed_statement_is_paired_where_it_is_clearly_the_most_similar() -> None:
    assert pairs("a()\nx = compute(one, two)\n", "a()\nx = compute(one, two, three)\n") == [
        ("a()", "a()"),
        ("x = compute(one, two)", "x = compute(one, two, three)"),
    ]


def test_two_equally_similar_candidates_are_no_pair() -> None:
    old = "a()\nself.copy(x, y)\n"
    new = "a()\nself.copy(x, y, 1)\nself.copy(x, y, 2)\n"
    assert pairs(old, new) == [("a()", "a()")]


def test_branches_are_paired_by_their_test() -> None:
    old = parts("if k == 1:\n    a()\nelif k == 2:\n    a()\n", "branches")
    new = parts("if k == 2:\n    a()\nelif k == 3:\n    a()\n", "branches")
    assert match_lists(old, new) == [(1, 0)]


def test_keywords_and_entries_are_paired_by_name_and_key() -> None:
    old, new = parts("f(a=1, b=2)\n", "args"), parts("f(b=3, a=4)\n", "args")
    assert match_lists(old, new) == [(0, 1), (1, 0)]
    old, new = parts("x = {1: a, 2: b}\n", "pairs"), parts("x = {2: c, 1: a}\n", "pairs")
    assert match_lists(old, new) == [(0, 1), (1, 0)]


def test_pairs_of_an_edit_script_never_cross() -> None:
    left, right = nodes("def a(): pass\ndef b(): pass\n"), nodes("def b(): pass\ndef a(): pass\n")
    found = match_ordered(left, right, [])
    assert len(found) == 1
    assert match_ordered(left, right, [(1, 0)]) == [(1, 0)]


def test_share_of_common_words_counts_repeats() -> None:
    (one,), (two,) = nodes("f(a, a)\n"), nodes("f(a, b)\n")
    assert overlap(tokens(one), tokens(one)) == 1.0
    assert round(overlap(tokens(one), tokens(two)), 3) == 0.833
    assert overlap(tokens(one), tokens(nodes("+x\n")[0])) == 0.0
