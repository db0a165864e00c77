"""A module as nodes over its own bytes: spans, comments, chains, and what is refused."""

from __future__ import annotations

import pytest

from patchkit.syntax.build import parse_module, try_module
from patchkit.syntax.tree import Node, NotPythonError


def statements(source: str) -> list[tuple[str, str]]:
    """Kind and text of the statements at the top of a module."""
    return [(n.kind, n.text.decode()) for n in parse_module(source.encode()).root.children]


def first(source: str, kind: str) -> Node:
    return next(n for n in parse_module(source.encode()).root.walk() if n.kind == kind)


def slots(node: Node) -> list[tuple[str, list[str]]]:
    return [(s.name, [n.text.decode() for n in s.nodes]) for s in node.slots]


def test_statement_begins_at_its_first_decorator_and_ends_with_its_comment() -> None:
    source = "@a\n@b(1)\ndef f():\n    return 1  # why\n\n# next\nx = 1  # one\n"
    assert statements(source) == [
        ("FunctionDef", "@a\n@b(1)\ndef f():\n    return 1  # why"),
        ("Comment", "# next"),
        ("Assign", "x = 1  # one"),
    ]


def test_comment_belongs_to_the_list_whose_indentation_it_has() -> None:
    source = "def f():\n    a()\n    # in f\n# outside\nb()\n"
    assert statements(source) == [
        ("FunctionDef", "def f():\n    a()\n    # in f"),
        ("Comment", "# outside"),
        ("Expr", "b()"),
    ]
    assert slots(first(source, "FunctionDef"))[-1] == ("body", ["a()", "# in f"])


def test_comment_above_the_first_statement_belongs_to_the_body() -> None:
    source = "def f():\n    # first\n\n    a()\n"
    assert slots(first(source, "FunctionDef"))[-1] == ("body", ["# first", "a()"])


def test_hash_inside_a_string_is_no_comment() -> None:
    source = "x = 'a # b'\ny = '''\n# c\n'''\nz = 1  # d '''\n"
    module = parse_module(source.encode())
    assert [module.source[a:b] for a, b in module.comments] == [b"# d '''"]


def test_chain_of_elif_is_one_list_of_branches() -> None:
    source = "if a:\n    one()\nelif b:\n    two()\nelif c:\n    three()\nelse:\n    four()\n"
    assert slots(first(source, "If")) == [
        ("branches", ["if a:\n    one()", "elif b:\n    two()", "elif c:\n    three()"]),
        ("orelse", ["four()"]),
    ]


def test_if_inside_else_is_not_a_branch_of_the_outer_one() -> None:
    source = "if a:\n    one()\nelse:\n    if b:\n        two()\n"
    assert slots(first(source, "If")) == [
        ("branches", ["if a:\n    one()"]),
        ("orelse", ["if b:\n        two()"]),
    ]


def test_operators_of_one_kind_are_flattened_and_brackets_keep_their_group() -> None:
    assert slots(first("x = a + b + c\n", "BinOp")) == [("operands", ["a", "b", "c"])]
    assert slots(first("x = a + (b + c)\n", "BinOp")) == [("operands", ["a", "b + c"])]
    assert slots(first("x = a - b + c\n", "BinOp")) == [("operands", ["a - b", "c"])]


def test_arguments_parameters_and_pairs_are_lists_in_source_order() -> None:
    assert slots(first("f(a, *b, k=1, **c)\n", "Call")) == [
        ("func", ["f"]),
        ("args", ["a", "*b", "k=1", "**c"]),
    ]
    params = slots(first("def f(a, /, b: int = 1, *c, d, e=2, **k): pass\n", "FunctionDef"))[0]
    assert params == ("params", ["a", "b: int = 1", "c", "d", "e=2", "k"])
    assert slots(first("x = {1: a, **b}\n", "Dict")) == [("pairs", ["1: a", "**b"])]


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    a()\nexcept E:\n    b()  # else\nelse:  # finally\n    c()\nfinally:\n    d()\n",
        "for x in y:\n    a()\n# else\nelse:\n    b()\n",
        "while a:\n    b()\nelse:\n    # else:\n    c()\n",
        "with a as b, c:\n    d()\n",
        "match x:\n    case 1 | 2:\n        a()\n    # case\n    case {'k': v, **r}:\n        b\n",
        "async def f():\n    async for a in b:\n        await c\n",
        "x = [a for b in c if d for e in f]\n",
        "x = lambda a, *b, c=1: (a, b)\n",
        "x = f'{a!r:>{b}}' 'c'\n",
        "a = 1; b = 2  # two\n",
        "if a: b(); c()\n",
        "x = (\n    a  # one\n    + b  # two\n)\n",
        "\ufeffx = 1\ny = '\u00e4' + z\n",
        "class K(A, metaclass=M):\n    '''Doc.'''\n\n    x: int = 1\n",
        "del a, b\nglobal c\nassert d, e\nraise f from g\n",
        "x = a if b else c\ny = a[1:2, ...]\nz = not -a ** 2\n",
        "@a  # why\n# between\n@b\ndef f(): pass\n",
        "",
        "# only a comment",
        "\n\n",
    ],
)
def test_children_lie_inside_their_parent_in_order_and_apart(source: str) -> None:
    module = parse_module(source.encode())
    assert module.root.text.decode() == source
    for node in module.root.walk():
        position = node.start
        for child in sorted(node.children, key=lambda n: n.start):
            assert node.start <= position <= child.start <= child.end <= node.end, (node, child)
            position = child.end
            assert child.parent is node


def test_lines_columns_and_offsets_agree_behind_a_byte_order_mark() -> None:
    module = parse_module("\ufeffx = 1\n\u00e4 = f(y)\n".encode())
    names = [n for n in module.root.walk() if n.kind == "Name"]
    assert [(n.text.decode(), n.line) for n in names] == [
        ("x", 1),
        ("\u00e4", 2),
        ("f", 2),
        ("y", 2),
    ]


def test_digest_does_not_see_layout_quotes_or_comments() -> None:
    one = parse_module(b"def f(a):\n    return g(a, 'x')\n").root.digest
    two = parse_module(
        b'def f(a):\n    # why\n    return g(\n        a,\n        "x",\n    )\n'
    ).root.digest
    assert one == two


@pytest.mark.parametrize(
    "source",
    [
        b"def f(:\n",
        b"x = 1\ry = 2\n",
        b"x = '\xff'\n",
        b"# -*- coding: latin-1 -*-\nx = 1\n",
        b"x = 1\0\n",
        b"if a:\nb\n",
    ],
    ids=["syntax", "lone-cr", "not-utf8", "latin-1", "nul", "indentation"],
)
def test_what_is_not_readable_python_is_refused_and_not_guessed(source: bytes) -> None:
    with pytest.raises(NotPythonError):
        parse_module(source)
    assert try_module(source) is None


def test_utf8_cookie_and_invalid_escape_are_read_without_a_warning() -> None:
    assert statements("# -*- coding: utf-8 -*-\nx = '\\d'\n") == [
        ("Comment", "# -*- coding: utf-8 -*-"),
        ("Assign", "x = '\\d'"),
    ]
