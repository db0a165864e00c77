"""Whether the target holds an edit already: by content, with evidence, and absence is shown."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from patchkit.placing.presence import find_upstream
from patchkit.syntax.align import Alignment
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import Change, lift


def found(base: str, authored: str, target: str) -> list[str | None]:
    """The evidence for each edit that the target has it, None where it has not."""
    old, new = parse_module(base.encode()), parse_module(authored.encode())
    goal = parse_module(target.encode())
    left, right = base.splitlines(keepends=True), authored.splitlines(keepends=True)
    starts, news = [0], [0]
    for line in left:
        starts.append(starts[-1] + len(line.encode()))
    for line in right:
        news.append(news[-1] + len(line.encode()))
    changes = [
        Change(starts[a], starts[b], news[c], news[d])
        for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    to_base, to_authored = Alignment(old, goal), Alignment(new, goal)
    evidence = [find_upstream(e, to_base, to_authored) for e in lift(old, new, changes)]
    return [None if fact is None else str(fact) for fact in evidence]


BODY = "def f():\n    a()\n    b()\n    c()\n"
WITH_LOG = BODY.replace("    b()\n", "    b()\n    log(1)\n")


def test_identical_statement_in_its_place_is_upstream() -> None:
    assert found(BODY, WITH_LOG, "import os\n" + WITH_LOG) == [
        "statement added: the target has it in `f`, line 5"
    ]


@pytest.mark.parametrize(
    "target",
    [
        WITH_LOG.replace("log(1)", "log(\n        1,\n    )"),
        WITH_LOG.replace("log(1)", "log(1)  # upstream's words"),
        "class K: pass\n\n\n" + WITH_LOG + "\n\ndef g(): pass\n",
        WITH_LOG.replace("    a()\n", "    a()\n    z()\n"),
        WITH_LOG.replace("    c()\n", ""),
    ],
    ids=["reformatted", "commented", "moved-down", "neighbour-added", "neighbour-gone"],
)
def test_statement_is_upstream_however_it_is_laid_out(target: str) -> None:
    assert found(BODY, WITH_LOG, target) != [None]


@pytest.mark.parametrize(
    "target",
    [
        BODY,
        WITH_LOG.replace("log(1)", "log(2)"),
        BODY + "\n\ndef g():\n    b()\n    log(1)\n",
        BODY.replace("    a()\n", "    log(1)\n    a()\n"),
        BODY.replace("    b()\n", "    if x:\n        log(1)\n    b()\n"),
        BODY.replace("    b()\n", "    b()\n    # log(1)\n"),
        BODY.replace("    b()\n", "    b()\n    'log(1)'\n"),
    ],
    ids=[
        "unchanged",
        "other-constant",
        "in-another-function",
        "before-its-neighbour",
        "in-a-block",
        "in-a-comment",
        "in-a-string",
    ],
)
def test_like_text_elsewhere_is_not_upstream(target: str) -> None:
    assert found(BODY, WITH_LOG, target) == [None]


def test_one_more_of_a_repeated_statement_is_not_upstream_because_one_is_there() -> None:
    base = "def f():\n    a()\n    log()\n    b()\n"
    authored = base + "    log()\n"
    assert found(base, authored, base) == [None]
    assert found(base, authored, "import os\n" + base) == [None]
    assert found(base, authored, authored) == ["statement added: the target has it in `f`, line 5"]


def test_one_more_of_two_adjacent_equal_statements_is_counted() -> None:
    two, three = "def f():\n    log()\n    log()\n", "def f():\n    log()\n    log()\n    log()\n"
    assert found(two, three, two) == [None]
    assert found(two, three, three) != [None]


@pytest.mark.parametrize(
    ("base", "authored"),
    [
        ("f(a)\n", "f(a, k=1)\n"),
        ("x = {1: a}\n", "x = {1: a, 2: b}\n"),
        ("x = [\n    a,\n    b,\n]\n", "x = [\n    a,\n    b,\n    c,\n]\n"),
        ("from a import b\n", "from a import b, c\n"),
        ("import a\n", "import a\nimport b\n"),
        ("def f(a): pass\n", "def f(a, b=1): pass\n"),
        ("class K:\n    a = 1\n", "class K:\n    a = 1\n    b = 2\n"),
        ("if a:\n    b()\n", "if a:\n    b()\nelif c:\n    d()\n"),
        ("x = a < b\n", "x = a <= b\n"),
        ("x = a.b\n", "x = a.c\n"),
        ("x = 1\n", "x = 2\n"),
        ("a()\n", "a()\n\n\ndef f(): pass\n"),
        ("@a\ndef f(): pass\n", "@a\n@b\ndef f(): pass\n"),
        ("a()\nb()\n", "a()\n# why\nb()\n"),
        ("a()\nb()\n", "a()\n"),
        ("f(a, k=1)\n", "f(a)\n"),
        ("import a\nimport b\n", "import a\n"),
    ],
)
def test_each_kind_of_edit_is_upstream_in_the_authored_file_and_not_in_the_base(
    base: str, authored: str
) -> None:
    assert None not in found(base, authored, authored)
    assert found(base, authored, base) == [None]


# Order and position ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "authored", "target"),
    [
        ("use(a)\n", "use(a, b)\n", "use(b)\n"),
        ("use(a, c)\n", "use(a, b, c)\n", "use(b)\n"),
        ("f(a, c)\n", "f(a, b, c)\n", "f(b, a, c)\n"),
        ("x = [a]\n", "x = [a, b]\n", "x = [b]\n"),
        ("x = a + b\n", "x = a + b + c\n", "x = c + b\n"),
        ("def f(a): pass\n", "def f(a, b): pass\n", "def f(b): pass\n"),
        ("class K(A): pass\n", "class K(A, B): pass\n", "class K(B, A): pass\n"),
        ("@a\ndef f(): pass\n", "@a\n@b\ndef f(): pass\n", "@b\n@a\ndef f(): pass\n"),
        (
            "try:\n    x()\nexcept A:\n    y()\n",
            "try:\n    x()\nexcept A:\n    y()\nexcept B:\n    z()\n",
            "try:\n    x()\nexcept B:\n    z()\nexcept A:\n    y()\n",
        ),
        (
            "if a:\n    x()\n",
            "if a:\n    x()\nelif b:\n    z()\n",
            "if b:\n    z()\nelif a:\n    x()\n",
        ),
    ],
    ids=[
        "argument-instead",
        "argument-of-fewer",
        "argument-before",
        "element-instead",
        "operand-instead",
        "parameter-instead",
        "base-class-before",
        "decorator-before",
        "handler-before",
        "branch-before",
    ],
)
def test_the_same_thing_in_another_position_is_not_upstream(
    base: str, authored: str, target: str
) -> None:
    assert found(base, authored, target) == [None]


@pytest.mark.parametrize(
    "target",
    [
        "def f(y):\n    a()\n    if y:\n        log(1)\n",
        "def f(y):\n    a()\n    for x in y:\n        log(1)\n",
        "def f(y):\n    try:\n        a()\n    except E:\n        log(1)\n",
        "def f(y):\n    a()\n    while y:\n        log(1)\n",
    ],
    ids=["if", "for", "except", "while"],
)
def test_statement_that_only_runs_in_a_block_of_upstreams_is_not_upstream(target: str) -> None:
    base = "def f(y):\n    a()\n"
    assert found(base, base + "    log(1)\n", target) == [None]


def test_import_for_type_checkers_only_is_not_the_import_that_the_patch_adds() -> None:
    target = "import a\nif TYPE_CHECKING:\n    from b import c\n"
    assert found("import a\n", "import a\nfrom b import c\n", target) == [None]


def test_order_of_keywords_entries_and_definitions_is_free() -> None:
    assert found("f(a, k=1)\n", "f(a, k=1, j=2)\n", "f(a, j=2, k=1)\n") != [None]
    base, mine = "def a(): pass\n", "def b(): pass\n"
    assert found(base, f"{base}\n\n{mine}", f"{mine}\n\n{base}") != [None]


@pytest.mark.parametrize(
    ("base", "authored"),
    [
        ("x = 'a'\n", 'x = "a"\n'),
        ("x = 16\n", "x = 0x10\n"),
        ("x = 'ab'\n", "x = ('a'\n     'b')\n"),
        ("x = ('a'\n     'b')\n", "x = ('a'\n     # why\n     'b')\n"),
        ("x = a\n", "x = (a)\n"),
        ("f(a)\n", "f(\n    a,\n)\n"),
    ],
    ids=["quotes", "base", "split", "comment-inside", "brackets", "lines"],
)
def test_another_spelling_of_the_same_value_is_not_upstream_in_the_base(
    base: str, authored: str
) -> None:
    assert None in found(base, authored, base)
    assert None not in found(base, authored, authored)


# Removal -----------------------------------------------------------------------------------------

FLUSH = "def f(self):\n    a()\n    b()\n    self.flush()\n"
NO_FLUSH = "def f(self):\n    a()\n    b()\n"


def test_removal_is_upstream_where_the_neighbours_stand_side_by_side() -> None:
    base = "def f():\n    a()\n    b()\n    c()\n"
    authored = "def f():\n    a()\n    c()\n"
    (fact,) = found(base, authored, "import os\n" + authored)
    assert fact == "statement removed: it is gone from `f` in the target, its neighbours are there"


@pytest.mark.parametrize(
    "target",
    [
        "def f(self):\n    if self.x:\n        self.flush()\n    a()\n    b()\n",
        "def f(self):\n    self.flush()\n    a()\n    b()\n",
        "def f(self):\n    a()\n    b()\n    if self.x:\n        self.flush()\n",
        "def f(self):\n    a()\n    b()\n    return self.flush()\n",
        "def f(self):\n    a()\n    b()\n    self.flush(now=True)\n",
        "def f(self):\n    try:\n        a()\n        b()\n    finally:\n        self.flush()\n",
        "def g(self):\n    a()\n    b()\n",
    ],
    ids=["moved-up-into-if", "moved-up", "wrapped", "returned", "changed", "finally", "gone"],
)
def test_removal_is_not_upstream_where_the_statement_only_went_elsewhere(target: str) -> None:
    assert found(FLUSH, NO_FLUSH, target) == [None]


def test_removal_of_a_keyword_is_not_upstream_while_the_keyword_has_another_value() -> None:
    assert found("f(a, k=1)\n", "f(a)\n", "f(a, k=2)\n") == [None]


def test_replacement_is_upstream_only_where_the_old_is_gone_as_well() -> None:
    base, authored = "def f():\n    a()\n    b()\n", "def f():\n    a()\n    c()\n"
    assert found(base, authored, authored) == [
        "statement replaced: the target has it in `f`, line 3"
    ]
    assert found(base, authored, "def f():\n    a()\n    b()\n    c()\n") == [None]
