"""Whether the target holds an edit already: by content, with evidence, and absence is shown."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from patchkit.placing.presence import find_upstream, find_whole
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


def test_removal_is_upstream_where_only_the_comment_beside_it_was_reworded() -> None:
    base = "def f():\n    a()\n    # why\n    b()\n    c()\n"
    authored = base.replace("    a()\n", "")
    assert found(base, authored, authored.replace("# why", "# because")) == [
        "statement removed: it is gone from `f` in the target, its neighbours are there"
    ]
    assert found(base, authored, authored.replace("    b()\n", "    z()\n    b()\n")) == [None]


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


# Which of its like -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "authored", "target"),
    [
        (
            "use(a, 1)\nuse(b, 1)\n",
            "use(a, 2)\nuse(b, 1)\n",
            "use(a, 1)\nuse(b, 2)\n",
        ),
        ("use(a)\nuse(a)\n", "use(a)\nuse(q)\n", "use(q)\nuse(a)\n"),
        (
            "if a:\n    use(1)\nif a:\n    use(1)\n",
            "if a:\n    use(1)\nif a:\n    use(3)\n",
            "if a:\n    use(3)\nif a:\n    use(1)\n",
        ),
        ("a()\nx += 1\nz()\n", "a()\nx += 1\nc()\nz()\n", "a()\nc()\nx += 1\nz()\n"),
        (
            "log()\nlog()\nw()\nw()\n",
            "log()\nlog()\nlog()\nw()\nw()\n",
            "log()\nlog()\nw()\nlog()\nw()\n",
        ),
        ("a()\nb()\nc()\n", "a()\n# why\nb()\nc()\n", "a()\nb()\n# why\nc()\n"),
        ("a()\nb()\nc()\n", "a()\n# why\nb()\nc()\n", "a()\nz(1)\n# why\nc()\n"),
        ("a()\nb()\nc()\n", "a()\nb()  # why\nc()\n", "a()\nb()\nc()  # why\n"),
    ],
    ids=[
        "argument-in-a-like-call",
        "equal-statements",
        "in-equal-blocks",
        "other-side-of-a-neighbour",
        "one-more-elsewhere",
        "comment-above-another",
        "comment-above-what-is-left",
        "comment-behind-another",
    ],
)
def test_the_same_change_of_another_one_of_its_like_is_not_upstream(
    base: str, authored: str, target: str
) -> None:
    texts = ["def f(a, b, q, x):\n" + _indented(text) for text in (base, authored, target)]
    assert found(*texts) == [None]
    assert found(texts[0], texts[1], texts[1]) != [None]


def _indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


def test_a_change_of_the_like_statement_does_not_hide_the_one_that_the_patch_makes() -> None:
    base = "def f(n, mask):\n    a = load(n, mask)\n    b = load(n, mask)\n"
    authored = base.replace("a = load(n, mask)", "a = load(s, mask)")
    target = authored.replace("    a =", "    s = min(n, 1)\n    a =")
    base_, authored_, target_ = (parse_module(t.encode()) for t in (base, authored, target))
    start = base.index("n, mask)\n    b")
    (edit,) = lift(base_, authored_, [Change(start, start + 1, start, start + 1)])
    views = Alignment(base_, target_), Alignment(authored_, target_)
    assert find_upstream(edit, *views) is None  # `n` is used once more
    assert str(find_whole([edit], *views)) == (
        "statement as the patch leaves it: the target has it in `f`, line 3"
    )


@pytest.mark.parametrize(
    "target",
    [
        "def f(s, mask):\n    b = load(n, mask)\n    a = load(s, mask)\n",
        "def f(s, mask):\n    if mask:\n        a = load(s, mask)\n    b = load(n, mask)\n",
        "def g(s, mask):\n    a = load(s, mask)\n    b = load(n, mask)\n",
        "def f(s):\n    a = load(n, mask)\n    a = load(s, mask)\n    b = load(n, mask)\n",
        "def f(s):\n    a = load(s, mask)\n    b = load(n, mask)\n    a = load(s, mask)\n",
    ],
    ids=["behind-its-neighbour", "in-a-block", "in-another-function", "the-old-too", "twice"],
)
def test_statements_as_the_patch_leaves_them_are_upstream_only_in_their_place(target: str) -> None:
    base = "def f(n, mask):\n    a = load(n, mask)\n    b = load(n, mask)\n"
    authored = base.replace("a = load(n, mask)", "a = load(s, mask)")
    base_, authored_, target_ = (parse_module(t.encode()) for t in (base, authored, target))
    start = base.index("n, mask)\n    b")
    (edit,) = lift(base_, authored_, [Change(start, start + 1, start, start + 1)])
    views = Alignment(base_, target_), Alignment(authored_, target_)
    assert find_whole([edit], *views) is None


def whole(base: str, authored: str, target: str) -> str | None:
    """What is said of a one-line change taken as a whole."""
    modules = [parse_module(t.encode()) for t in (base, authored, target)]
    olds, news = (t.splitlines(keepends=True) for t in (base, authored))
    at = next(n for n, (a, b) in enumerate(zip(olds, news, strict=True)) if a != b)
    start = sum(map(len, olds[:at]))
    change = Change(start, start + len(olds[at]), start, start + len(news[at]))
    edits = lift(modules[0], modules[1], [change])
    views = Alignment(modules[0], modules[2]), Alignment(modules[1], modules[2])
    fact = find_whole(edits, *views)
    return None if fact is None else str(fact)


def test_a_whole_is_not_upstream_on_the_other_side_of_a_neighbour() -> None:
    base = "def f(q):\n    a(q, 1, 2, 3)\n    s()\n    z()\n"
    authored = base.replace("s()", "t(v, w)")
    assert whole(base, authored, authored) is not None
    # an image of the neighbour says so, though upstream changed it
    moved = "def f(q):\n    t(v, w)\n    a(q, 1, 2, 4)\n    z()\n"
    assert whole(base, authored, moved) is None
    # without an image what is left on either side says so
    twice = "def f(q):\n    a(q)\n    a(q)\n"
    assert whole(twice, twice[:-5] + "b(q)\n", "def f(q):\n    b(q)\n    a(q)\n") is None


def test_an_import_in_another_block_than_the_base_has_it_in_is_not_upstream() -> None:
    base = "def f(q):\n    if q:\n        import a\n"
    authored = base + "        from m import b\n"
    target = "def f(q):\n    if not q:\n        import a\n        from m import b, c\n"
    assert found(base, authored, target) == [None]


def test_a_comment_that_went_from_another_statement_is_not_gone_from_this_one() -> None:
    base = "def f():\n    # why\n    a()\n    # why\n    z()\n"
    authored = "def f():\n    # why\n    a()\n    z()\n"
    assert found(base, authored, "def f():\n    a()\n    # why\n    z()\n") == [None]
    assert found(base, authored, authored) != [None]


# Texts, layout, imports --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authored", "target"),
    [
        ("y()\nz('''\na\n\nb\n''')\n", "y()\nz('''\na\nb\n''')\n"),
        ("y()\nz(r'''\\n\n''')\n", "y()\nz('''\\n\n''')\n"),
        ("y()\nX = '''\na\n  b\n'''\n", "y()\nX = '''\na\nb\n'''\n"),
    ],
    ids=["blank-line", "raw", "indentation"],
)
def test_a_text_is_upstream_only_with_the_same_characters(authored: str, target: str) -> None:
    assert found("y()\n", authored, target) == [None]
    assert found("y()\n", authored, authored) != [None]


def test_a_line_inside_a_text_is_upstream_only_where_the_whole_text_is_the_same() -> None:
    base, authored = "X = '''\n  a\n\n  b\n'''\n", "X = '''\n  a\n  c\n\n  b\n'''\n"
    assert found(base, authored, "X = '''\n  a\n  c\n  b\n'''\n") == [None]
    assert found(base, authored, "k()\n" + authored) == [
        "docstring line added: the target has it in `<module>`, line 2"
    ]


def test_a_definition_whose_docstring_is_laid_out_otherwise_is_upstream() -> None:
    base = "class K:\n    a = 1\n"
    authored = base + '\n    def f(self):\n        """\n        Do it\n        now.\n        """\n'
    target = base + '\n    def f(self):\n        """Do it now."""\n'
    assert found(base, authored, target) == [
        "definition added: the target has it in `K.f`, line 4, laid out or commented otherwise"
    ]
    assert found(base, authored, target.replace("now", "soon")) == [None]


def test_a_result_annotation_is_upstream_whatever_else_of_the_signature_changed() -> None:
    base, authored = "def f(a):\n    g()\n", "def f(a) -> int:\n    g()\n"
    assert found(base, authored, "def f(a, b) -> int:\n    g()\n    h()\n") != [None]
    assert found(base, authored, "def f(a, b) -> str:\n    g()\n    h()\n") == [None]


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("import a\nfrom m import x, b\n", True),
        ("import a\nfrom m import (\n    b,\n    c,\n)\n", True),
        ("import a\nfrom m import x as b\n", False),
        ("import a\nfrom m import b as x\n", False),
        ("import a\nfrom n import b\n", False),
        ("import a\nfrom .m import b\n", False),
        ("import a\nif T:\n    from m import b, x\n", False),
        ("import a\n\n\ndef f():\n    from m import b, x\n", False),
    ],
    ids=["joined", "one-a-line", "other", "renamed", "module", "relative", "guarded", "local"],
)
def test_an_import_is_upstream_where_the_same_block_binds_the_same_name(
    target: str, *, there: bool
) -> None:
    assert (found("import a\n", "import a\nfrom m import b\n", target) != [None]) is there


def test_an_import_that_replaces_another_is_upstream_only_where_the_other_is_gone() -> None:
    base, authored = "from m import a\nx()\n", "from n import a\nx()\n"
    assert found(base, authored, "from n import a, b\nx()\n") != [None]
    assert found(base, authored, "from m import a\nfrom n import a, b\nx()\n") == [None]


def test_an_element_of_a_set_needs_no_neighbour() -> None:
    assert found("x = {1, 2}\n", "x = {1, 2, 3}\n", "x = {0, 1, 3}\n") != [None]
    assert found("x = [1, 2]\n", "x = [1, 2, 3]\n", "x = [0, 1, 3]\n") == [None]
