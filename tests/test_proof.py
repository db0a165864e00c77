"""The proof refuses every kind of wrong landing by name, and accepts the right one."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

import pytest

from patchkit.placing.proof import Proven, Refuted, prove
from patchkit.syntax.align import Alignment
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import Change, lift
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import Module, Node


def changes(old: bytes, new: bytes) -> list[Change]:
    """The changed lines as byte spans."""
    left, right = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts, news = [0], [0]
    for line in left:
        starts.append(starts[-1] + len(line))
    for line in right:
        news.append(news[-1] + len(line))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return [
        Change(starts[a], starts[b], news[c], news[d])
        for tag, a, b, c, d in blocks
        if tag != "equal"
    ]


def judge(
    base: str,
    authored: str,
    target: str,
    result: str,
    moved: Mapping[str, str] | None = None,
) -> Proven | Refuted:
    """Prove a result; `moved` maps qualified names of the base to those of the target."""
    old, new = parse_module(base.encode()), parse_module(authored.encode())
    goal = parse_module(target.encode())
    edits = lift(old, new, changes(old.source, new.source))
    alignment = Alignment(old, goal, _overrides(old, goal, moved or {}))
    pairs = [(edit, alignment) for edit in edits]
    return prove(pairs, goal, result.encode(), changes(goal.source, result.encode()))


def _overrides(old: Module, new: Module, moved: Mapping[str, str]) -> dict[Node, Node]:
    before, after = outline_of(old), outline_of(new)
    return {before.by_name[a]: after.by_name[b] for a, b in moved.items()}


def refusal(
    base: str, authored: str, target: str, result: str, moved: Mapping[str, str] | None = None
) -> str:
    verdict = judge(base, authored, target, result, moved)
    assert isinstance(verdict, Refuted), verdict
    return verdict.rule


# The ground for most: two classes with like methods ----------------------------------------------

BASE = """\
import os

LIMIT = 4


class Foo:
    def fill(self, table):
        self.pin(table)
        self.copy(table)
        return table

    def drain(self, table):
        self.pin(table)
        self.copy(table)
        return table


class FooLegacy:
    def fill(self, table):
        self.pin(table)
        self.copy(table)
        return table
"""
FILL = "class Foo:\n    def fill(self, table):\n        self.pin(table)\n"
AUTHORED = BASE.replace(FILL, FILL + "        self.check(table)\n")
TARGET = BASE.replace("LIMIT = 4", "LIMIT = 8\nOTHER = 1")
RIGHT = AUTHORED.replace("LIMIT = 4", "LIMIT = 8\nOTHER = 1")
CHECK = "        self.check(table)\n"


def test_right_landing_is_proven_with_its_place() -> None:
    verdict = judge(BASE, AUTHORED, TARGET, RIGHT)
    assert isinstance(verdict, Proven)
    assert [(e.kind, fact.kind, fact.text) for e, fact in verdict.evidence] == [
        ("statement added", "between", "statement added in `Foo.fill`, between the same neighbours")
    ]


def test_right_landing_is_proven_in_crlf() -> None:
    def crlf(source: str) -> str:
        return source.replace("\n", "\r\n")

    assert isinstance(judge(crlf(BASE), crlf(AUTHORED), crlf(TARGET), crlf(RIGHT)), Proven)


def test_right_landing_is_proven_where_the_definition_moved_into_a_class() -> None:
    base = "def f(x):\n    a(x)\n    b(x)\n\n\nclass K:\n    pass\n"
    authored = base.replace("    a(x)\n", "    a(x)\n    if x:\n        c(x)\n")
    target = "class K:\n    @staticmethod\n    def f(x):\n        a(x)\n        b(x)\n"
    result = target.replace("        a(x)\n", "        a(x)\n        if x:\n            c(x)\n")
    assert isinstance(judge(base, authored, target, result, {"f": "K.f"}), Proven)
    assert refusal(base, authored, target, result) == "same-place"


def test_right_landing_is_proven_where_neighbours_were_edited_elsewhere() -> None:
    target = TARGET.replace("self.pin(table)", "self.pin(table, self.now)")
    result = target.replace(
        "        self.pin(table, self.now)\n", "        self.pin(table, self.now)\n" + CHECK, 1
    )
    assert isinstance(judge(BASE, AUTHORED, target, result), Proven)


def insert(source: str, after: str, text: str, nth: int = 1) -> str:
    """Put a text behind the nth occurrence of another."""
    position = -1
    for _ in range(nth):
        position = source.index(after, position + 1)
    return source[: position + len(after)] + text + source[position + len(after) :]


PIN = "        self.pin(table)\n"
COPY = "        self.copy(table)\n"


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        (insert(TARGET, PIN, CHECK, 2), "same-place"),
        (insert(TARGET, PIN, CHECK, 3), "same-place"),
        (insert(insert(TARGET, PIN, CHECK, 2), PIN, CHECK, 1), "same-change"),
        (insert(TARGET, PIN, CHECK + CHECK), "same-change"),
        (insert(TARGET, COPY, CHECK), "same-place"),
        (TARGET.replace(PIN, CHECK + PIN, 1), "same-place"),
        (insert(TARGET, PIN, "    " + "    self.check(other)\n"), "same-change"),
        (TARGET, "no-change"),
        (insert(TARGET, PIN, "        self.check(table\n"), "syntax"),
        (RIGHT.replace("LIMIT = 8", "LIMIT = 9"), "same-change"),
        (RIGHT.replace("OTHER = 1\n", "OTHER = 1  # one\n"), "same-change"),
        (RIGHT.replace("OTHER = 1\n", "OTHER  =  1\n"), "same-change"),
        (RIGHT.replace("import os\n", "import os\n\n"), "same-change"),
        (RIGHT.replace("import os\n", ""), "same-change"),
        (insert(TARGET, "OTHER = 1\n", "self.check(table)\n"), "same-place"),
        (
            TARGET.replace(PIN, PIN.rstrip("\n") + "  # pinned\n" + CHECK, 1),
            "same-change",
        ),
        (insert(TARGET, PIN, "        if True:\n    " + CHECK), "same-change"),
        (insert(TARGET, PIN, "        # checked\n" + CHECK), "same-change"),
    ],
    ids=[
        "next-function",
        "class-with-a-like-name",
        "landed-twice-in-two-places",
        "landed-twice-in-one-place",
        "one-statement-too-late",
        "one-statement-too-early",
        "argument-altered",
        "nothing-landed",
        "broken-syntax",
        "constant-altered-elsewhere",
        "comment-added-elsewhere",
        "spaces-changed-elsewhere",
        "blank-line-added-elsewhere",
        "line-removed-elsewhere",
        "module-level",
        "comment-put-on-the-neighbour",
        "inside-a-new-block",
        "comment-line-not-authored",
    ],
)
def test_wrong_landing_of_an_insertion_is_refuted(result: str, rule: str) -> None:
    assert refusal(BASE, AUTHORED, TARGET, result) == rule


def test_refutation_of_a_landing_in_the_next_function_names_both_places() -> None:
    verdict = judge(BASE, AUTHORED, TARGET, insert(TARGET, PIN, CHECK, 2))
    assert verdict == Refuted(
        "same-place",
        "belongs in `Foo.fill` (FunctionDef, line 8), landed in `Foo.drain` (FunctionDef, line 14)",
    )


# Twins of one name -------------------------------------------------------------------------------

IF_TWINS = """\
if FAST:
    def go(x):
        a(x)
        b(x)
else:
    def go(x):
        a(x)
        b(x)
"""


def test_insertion_in_the_other_of_two_if_else_twins_is_refuted() -> None:
    authored = insert(IF_TWINS, "        a(x)\n", "        c(x)\n", 2)
    target = "import os\n" + IF_TWINS
    wrong = insert(target, "        a(x)\n", "        c(x)\n", 1)
    right = insert(target, "        a(x)\n", "        c(x)\n", 2)
    assert refusal(IF_TWINS, authored, target, wrong) == "same-place"
    assert isinstance(judge(IF_TWINS, authored, target, right), Proven)


OVERLOADS = """\
@overload
def go(x: int) -> int:
    step(x)

@overload
def go(x: str) -> str:
    step(x)

def go(x):
    step(x)
"""


@pytest.mark.parametrize("nth", [1, 3])
def test_insertion_in_another_overload_is_refuted(nth: int) -> None:
    authored = insert(OVERLOADS, "    step(x)\n", "    more(x)\n", 2)
    target = "import os\n" + OVERLOADS
    wrong = insert(target, "    step(x)\n", "    more(x)\n", nth)
    assert refusal(OVERLOADS, authored, target, wrong) == "same-place"


@pytest.mark.parametrize("nth", [2, 3])
def test_replacement_in_another_overload_is_refuted(nth: int) -> None:
    authored = OVERLOADS.replace("step(x)", "leap(x)", 1)
    target = "import os\n" + OVERLOADS
    parts = target.split("step(x)")
    wrong = "step(x)".join(parts[:nth]) + "leap(x)" + "step(x)".join(parts[nth:])
    assert refusal(OVERLOADS, authored, target, wrong) == "same-place"


def test_edit_of_the_getter_does_not_prove_a_landing_in_the_setter_that_took_its_place() -> None:
    getter = "    @property\n    def size(self):\n        check(self)\n        return self._size\n"
    setter = (
        "    @size.setter\n    def size(self, value):\n"
        "        check(self)\n        self._size = value\n"
    )
    base = f"class K:\n{getter}\n{setter}"
    authored = insert(base, "        check(self)\n", "        log(self)\n", 1)
    deleter = (
        setter.replace("setter", "deleter").replace(", value", "").replace("= value", "= None")
    )
    target = f"class K:\n{setter}\n{deleter}"
    for nth in (1, 2):
        wrong = insert(target, "        check(self)\n", "        log(self)\n", nth)
        assert refusal(base, authored, target, wrong) == "same-place"


# Edits that belong together ----------------------------------------------------------------------


def test_half_of_a_pair_of_edits_is_refuted() -> None:
    authored = BASE.replace("LIMIT = 4", "LIMIT = 4\nKIND = 'a'").replace(
        FILL, FILL + "        use(KIND)\n"
    )
    target = BASE.replace("import os", "import os\nimport re")
    half = target.replace("LIMIT = 4", "LIMIT = 4\nKIND = 'a'")
    other = target.replace(FILL, FILL + "        use(KIND)\n")
    assert refusal(BASE, authored, target, half) == "same-change"
    assert refusal(BASE, authored, target, other) == "same-change"


def test_as_many_edits_in_wrong_places_are_no_proof() -> None:
    base = "def f():\n    a()\n    b()\n\n\ndef g():\n    a()\n    b()\n"
    authored = base.replace("    a()\n", "    a()\n    one()\n", 1)
    authored = authored[: authored.index("def g")] + authored[authored.index("def g") :].replace(
        "    a()\n", "    a()\n    two()\n"
    )
    target = "import os\n\n\n" + base
    swapped = ("import os\n\n\n" + authored).replace("one", "x").replace("two", "one")
    swapped = swapped.replace("x()", "two()")
    assert refusal(base, authored, target, swapped) in ("same-place", "same-change")
    assert isinstance(judge(base, authored, target, "import os\n\n\n" + authored), Proven)


# What is removed or replaced ---------------------------------------------------------------------

THREE = "def f():\n    log()\n    a()\n    log()\n    b()\n    log()\n    c()\n"


@pytest.mark.parametrize("nth", [1, 3])
def test_removal_of_another_of_three_equal_statements_is_refuted(nth: int) -> None:
    authored = THREE.replace("    a()\n    log()\n", "    a()\n")
    target = "import os\n\n\n" + THREE
    parts = target.split("    log()\n")
    wrong = "    log()\n".join(parts[:nth]) + "    log()\n".join(parts[nth:])
    assert wrong.count("log()") == 2
    assert refusal(THREE, authored, target, wrong) == "same-place"


def test_removal_of_the_authored_one_of_three_equal_statements_is_proven() -> None:
    authored = THREE.replace("    a()\n    log()\n", "    a()\n")
    assert isinstance(
        judge(THREE, authored, "import os\n\n\n" + THREE, "import os\n\n\n" + authored), Proven
    )


IF_CHAIN = """\
def f(kind):
    if kind == "a":
        load()
        run()
    elif kind == "b":
        load()
        run()
    else:
        load()
        run()
"""


@pytest.mark.parametrize("nth", [1, 3])
def test_insertion_in_another_branch_of_an_if_is_refuted(nth: int) -> None:
    authored = insert(IF_CHAIN, "        load()\n", "        check()\n", 2)
    target = IF_CHAIN.replace("def f(kind):", "def f(kind, x=1):")
    wrong = insert(target, "        load()\n", "        check()\n", nth)
    right = insert(target, "        load()\n", "        check()\n", 2)
    assert refusal(IF_CHAIN, authored, target, wrong) in ("same-place", "same-change")
    assert isinstance(judge(IF_CHAIN, authored, target, right), Proven)


def test_insertion_behind_the_block_instead_of_in_it_is_refuted() -> None:
    base = "def f(x):\n    for y in x:\n        a(y)\n    b()\n"
    authored = insert(base, "        a(y)\n", "        c()\n")
    target = "import os\n" + base
    wrong = insert(target, "        a(y)\n", "    c()\n")
    assert refusal(base, authored, target, wrong) == "same-place"


def test_statement_in_finally_instead_of_else_is_refuted() -> None:
    base = "try:\n    a()\nexcept E:\n    b()\nelse:\n    c()\nfinally:\n    c()\n"
    authored = insert(base, "    c()\n", "    d()\n", 1)
    target = "import os\n" + base
    wrong = insert(target, "    c()\n", "    d()\n", 2)
    assert refusal(base, authored, target, wrong) in ("same-place", "same-change")


def test_replacement_by_another_constant_is_refuted() -> None:
    authored = BASE.replace("LIMIT = 4", "LIMIT = 5")
    target = BASE.replace("import os", "import os\nimport re")
    wrong = target.replace("LIMIT = 4", "LIMIT = 6")
    verdict = judge(BASE, authored, target, wrong)
    assert isinstance(verdict, Refuted)
    assert verdict.rule == "same-change"
    assert (
        verdict.text == "expression replaced became expression replaced with other content, line 4"
    )


def test_replacement_of_what_upstream_changed_is_refuted() -> None:
    authored = BASE.replace("LIMIT = 4", "LIMIT = 5")
    target = BASE.replace("LIMIT = 4", "LIMIT = 16")
    wrong = BASE.replace("LIMIT = 4", "LIMIT = 5")
    assert refusal(BASE, authored, target, wrong) == "same-change"


# Arguments, entries, parameters ------------------------------------------------------------------

CALLS = "def f(a):\n    one(a)\n    two(a)\n    return one(a, two(a))\n"


@pytest.mark.parametrize(
    "wrong",
    [
        CALLS.replace("two(a)", "two(a, k=1)", 1),
        CALLS.replace("return one(a, two(a))", "return one(a, two(a), k=1)"),
        CALLS.replace("two(a))", "two(a, k=1))"),
    ],
    ids=["next-call", "outer-call", "inner-call"],
)
def test_keyword_argument_in_another_call_is_refuted(wrong: str) -> None:
    authored = CALLS.replace("one(a)", "one(a, k=1)", 1)
    target = "import os\n" + CALLS
    assert refusal(CALLS, authored, target, "import os\n" + wrong) == "same-place"
    assert isinstance(judge(CALLS, authored, target, "import os\n" + authored), Proven)


def test_keyword_argument_with_another_name_is_refuted() -> None:
    authored = CALLS.replace("one(a)", "one(a, k=1)", 1)
    target = "import os\n" + CALLS
    wrong = target.replace("one(a)", "one(a, j=1)", 1)
    assert refusal(CALLS, authored, target, wrong) == "same-change"


def test_positional_argument_in_another_position_is_refuted() -> None:
    base = "def f(a, b):\n    return g(a, b)\n"
    authored = base.replace("g(a, b)", "g(a, b, 1)")
    target = "import os\n" + base
    assert refusal(base, authored, target, target.replace("g(a, b)", "g(a, 1, b)")) == "same-place"
    assert refusal(base, authored, target, target.replace("g(a, b)", "g(1, a, b)")) == "same-place"


def test_keyword_argument_may_stand_among_upstreams_new_ones() -> None:
    base = "x = g(a, b=1)\n"
    authored = "x = g(a, b=1, c=2)\n"
    target = "x = g(a, b=1, z=9)\n"
    assert isinstance(judge(base, authored, target, "x = g(a, b=1, c=2, z=9)\n"), Proven)
    assert isinstance(judge(base, authored, target, "x = g(a, b=1, z=9, c=2)\n"), Proven)


def test_default_landed_on_another_parameter_is_refuted() -> None:
    base = "def f(a, b, c):\n    return a\n"
    authored = "def f(a, b, c=1):\n    return a\n"
    target = "import os\ndef f(a, b, c):\n    return a + b\n"
    wrong = target.replace("b, c", "b=1, c=None")
    assert refusal(base, authored, target, wrong) == "same-change"


def test_parameter_landed_before_instead_of_behind_is_refuted() -> None:
    base = "def f(a, b):\n    return a\n"
    authored = "def f(a, b, c=1):\n    return a\n"
    target = "def f(a, b=2):\n    return a\n"
    assert refusal(base, authored, target, "def f(a, c=1, b=2):\n    return a\n") == "same-place"


def test_entry_in_another_dict_is_refuted() -> None:
    base = "A = {\n    1: a,\n    2: b,\n}\nB = {\n    1: a,\n    2: b,\n}\n"
    authored = insert(base, "    2: b,\n", "    3: c,\n", 1)
    target = "import os\n" + base
    assert refusal(base, authored, target, insert(target, "    2: b,\n", "    3: c,\n", 2)) == (
        "same-place"
    )


def test_sign_changed_in_another_comparison_is_refuted() -> None:
    base = "def f(a, b):\n    g(a < b)\n    h(a < b)\n"
    authored = base.replace("g(a < b)", "g(a <= b)")
    target = "import os\n" + base
    wrong = target.replace("h(a < b)", "h(a <= b)")
    assert refusal(base, authored, target, wrong) == "same-place"


def test_other_sign_in_the_right_comparison_is_refuted() -> None:
    base = "def f(a, b):\n    g(a < b)\n"
    authored = base.replace("<", "<=")
    target = "import os\n" + base
    assert refusal(base, authored, target, target.replace("<", ">=")) == "same-change"


# Comments ----------------------------------------------------------------------------------------

COMMENTED = "def f():\n    a()  # why a\n    # before b\n    b()\n    c()\n"


@pytest.mark.parametrize(
    "result",
    [
        "def f():\n    a()\n    # before b\n    b2()\n    c()\n",
        "def f():\n    a()  # why a\n    b2()\n    c()\n",
        "def f():\n    a()  # why not a\n    # before b\n    b2()\n    c()\n",
        "def f():\n    a()  # why a\n    # after b\n    b2()\n    c()\n",
        "def f():\n    a()  # why a\n    # before b\n    b2()  # new\n    c()\n",
    ],
    ids=["lost-behind", "lost-above", "changed-behind", "changed-above", "added-behind"],
)
def test_comment_that_the_patch_does_not_touch_must_stay(result: str) -> None:
    authored = COMMENTED.replace("b()", "b2()")
    target = "import os\n" + COMMENTED
    assert refusal(COMMENTED, authored, target, "import os\n" + result) == "same-change"
    assert isinstance(judge(COMMENTED, authored, target, "import os\n" + authored), Proven)


def test_authored_comment_change_must_be_made() -> None:
    authored = COMMENTED.replace("b()", "b2()").replace("# before b", "# before b2")
    target = "import os\n" + COMMENTED
    half = target.replace("b()", "b2()")
    assert refusal(COMMENTED, authored, target, half) == "same-change"
    assert isinstance(judge(COMMENTED, authored, target, "import os\n" + authored), Proven)


def test_comment_line_in_another_function_is_refuted() -> None:
    base = "def f():\n    a()\n    b()\n\n\ndef g():\n    a()\n    b()\n"
    authored = insert(base, "    a()\n", "    # why\n", 1)
    target = "import os\n" + base
    assert refusal(base, authored, target, insert(target, "    a()\n", "    # why\n", 2)) == (
        "same-place"
    )


def test_comment_line_after_another_statement_is_refuted() -> None:
    base = "def f():\n    a()\n    b()\n    c()\n"
    authored = insert(base, "    a()\n", "    # why\n", 1)
    target = "import os\n" + base
    assert refusal(base, authored, target, insert(target, "    b()\n", "    # why\n", 1)) == (
        "same-place"
    )


# Layout ------------------------------------------------------------------------------------------


def test_blank_line_in_another_function_is_refuted() -> None:
    base = "def f():\n    a()\n    b()\n\n\ndef g():\n    a()\n    b()\n"
    authored = insert(base, "    a()\n", "\n", 1)
    target = "import os\n" + base
    assert refusal(base, authored, target, insert(target, "    a()\n", "\n", 2)) == "same-place"


def test_layout_change_of_another_statement_beside_the_authored_edit_is_refuted() -> None:
    target = "import os\n" + COMMENTED
    authored = COMMENTED.replace("b()", "b2()")
    wrong = ("import os\n" + authored).replace("    c()", "    c(\n    )")
    assert refusal(COMMENTED, authored, target, wrong) == "same-change"


def test_string_value_changed_by_an_indentation_is_refuted() -> None:
    base = "def f():\n    a()\n    b()\n"
    authored = insert(base, "    a()\n", '    s("""x\n    y""")\n')
    target = "import os\n" + base
    wrong = insert(target, "    a()\n", '    s("""x\n        y""")\n')
    assert refusal(base, authored, target, wrong) == "same-change"


def test_insertion_between_neighbours_that_were_both_rewritten_is_refuted() -> None:
    base = "def f(x):\n    load(x, 1)\n    store(x, 2)\n"
    authored = base.replace("    store", "    mine(x)\n    store")
    target = "def f(x):\n    load(x, now=1)\n    store(x, now=2)\n"
    result = target.replace("    store", "    mine(x)\n    store")
    verdict = judge(base, authored, target, result)
    assert verdict == Refuted(
        "same-place", "both neighbours in `f` (FunctionDef, line 2) were rewritten upstream"
    )


def test_insertion_beside_one_rewritten_neighbour_is_proven_by_the_other() -> None:
    base = "def f(x):\n    load(x, 1)\n    store(x, 2)\n"
    authored = base.replace("    store", "    mine(x)\n    store")
    target = "def f(x):\n    load(x, now=1)\n    store(x, 2)\n"
    result = target.replace("    store", "    mine(x)\n    store")
    assert isinstance(judge(base, authored, target, result), Proven)


def test_authored_comment_does_not_replace_another_comment_of_upstreams() -> None:
    base = "def f():\n    a()  # one\n"
    authored = "def f():\n    a()  # two\n"
    target = "def f():\n    a()  # other\n"
    assert refusal(base, authored, target, authored) == "same-change"
