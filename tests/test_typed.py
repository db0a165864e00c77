"""Typed placing: edits rendered into code that upstream wrapped, reformatted or renamed."""

from __future__ import annotations

from difflib import unified_diff

import patchkit
from patchkit import RebaseResult

PATH = "vllm/mod.py"


def move(base: str, authored: str, target: str, path: str = PATH) -> RebaseResult:
    lines = unified_diff(
        base.splitlines(keepends=True), authored.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    patch = "".join(lines).encode()
    return patchkit.port([patch], {path: base.encode()}, {path: target.encode()})


def moved(base: str, authored: str, target: str) -> str:
    """The target with the change in it; every hunk has to have landed."""
    result = move(base, authored, target)
    assert result.ok, [(o.status, o.reason) for o in result.outcomes]
    return result.tree.files[PATH].decode()


GUARDED = (
    "def f(a):\n    with guard():\n        x = first(a)\n        y = second(x)\n        return y\n"
)
BODY = "def f(a):\n    x = first(a)\n    y = second(x)\n    return y\n"


def test_a_statement_goes_into_the_block_that_was_put_around_its_neighbours() -> None:
    authored = BODY.replace("    y = ", "    check(x)\n    y = ")
    target = GUARDED
    assert moved(BODY, authored, target) == target.replace(
        "        y = ", "        check(x)\n        y = "
    )


def test_a_docstring_stays_one_where_a_block_was_put_around_the_body() -> None:
    authored = BODY.replace("def f(a):\n", 'def f(a):\n    """Say it."""\n')
    target = GUARDED
    assert moved(BODY, authored, target) == target.replace(
        "def f(a):\n", 'def f(a):\n    """Say it."""\n'
    )


def test_an_else_branch_is_indented_with_its_if() -> None:
    base = "def f(a):\n    if a:\n        x = 1\n    return x\n"
    authored = base.replace("        x = 1\n", "        x = 1\n    else:\n        x = 2\n")
    target = "def f(a):\n    for b in a:\n        if a:\n            x = 1\n        return x\n"
    assert moved(base, authored, target) == target.replace(
        "            x = 1\n", "            x = 1\n        else:\n            x = 2\n"
    )


def test_a_method_name_changes_with_the_receiver_in_a_call_that_upstream_laid_out_anew() -> None:
    # the sign between the replaced elements (`.contiguous`) is part of the change
    head = "def f(q, n, d):\n"
    base = f"{head}    q = norm(\n        q.view(-1, n, d).contiguous()\n    )\n    return q\n"
    authored = base.replace(".contiguous()", "")
    target = f"{head}    q = norm(q.view(-1, n, d).contiguous())\n    return q\n"
    assert moved(base, authored, target) == target.replace(".contiguous()", "")


def test_spaces_that_a_patch_changes_inside_a_docstring_are_placed_or_refused() -> None:
    base = 'def f(a):\n    """\n    Say it.\n    """\n    x = first(a)\n    return x\n'
    authored = base.replace('"""\n    Say', '"""Say').replace("first(a)", "other(a)")
    target = base.replace("    x = ", "    new()\n    x = ")
    result = move(base, authored, target)
    wanted = target.replace('"""\n    Say', '"""Say').replace("first(a)", "other(a)")
    assert result.tree.files[PATH].decode() == (wanted if result.ok else target)


def test_an_argument_follows_the_layout_of_the_call_in_the_target() -> None:
    base = "def f(a):\n    return call(a, one=1)\n"
    authored = base.replace("one=1", "one=1, two=2")
    target = "def f(a):\n    return call(\n        a,\n        one=1,\n        zero=0,\n    )\n"
    result = move(base, authored, target)
    assert result.ok
    assert result.tree.files[PATH].decode() in (
        target.replace("one=1,\n", "one=1,\n        two=2,\n"),
        target.replace("zero=0,\n", "zero=0,\n        two=2,\n"),
    )


def test_inserted_code_follows_the_rename_of_a_local() -> None:
    authored = BODY.replace("    y = ", "    check(x, k=x)\n    y = ")
    target = BODY.replace("x", "hidden")
    assert moved(BODY, authored, target) == target.replace(
        "    y = ", "    check(hidden, k=hidden)\n    y = "
    )


def test_a_keyword_and_an_attribute_never_follow_the_rename_of_a_local() -> None:
    authored = BODY.replace("    y = ", "    check(x=x, y=a.x)\n    y = ")
    target = BODY.replace("x", "hidden")
    assert moved(BODY, authored, target) == target.replace(
        "    y = ", "    check(x=hidden, y=a.x)\n    y = "
    )


def test_two_candidates_for_one_lost_name_are_no_rename() -> None:
    base = "def f(a):\n    x = first(a)\n    use(x)\n    return a\n"
    authored = base.replace("    use(x)\n", "    use(x)\n    check(x)\n")
    target = "def f(a):\n    p = first(a)\n    q = first(a)\n    use(q)\n    return a\n"
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_method_of_another_object_does_not_follow_the_rename_of_a_method() -> None:
    steps = "".join(f"        step{n}(a)\n" for n in range(5))
    base = f"class K:\n    def go(self, a):\n{steps}        return a\n"
    authored = base.replace("step2(a)\n", "step2(a)\n        self.go(a.go(1))\n")
    target = base.replace("def go(", "def run(")
    assert moved(base, authored, target) == target.replace(
        "step2(a)\n", "step2(a)\n        self.run(a.go(1))\n"
    )


def test_one_name_that_became_two_is_no_rename() -> None:
    base = "def f(a):\n    x = first(a)\n    use(x)\n    x = second(a)\n    return x\n"
    authored = base.replace("    use(x)\n", "    use(x)\n    check(x)\n")
    target = "def f(a):\n    p = first(a)\n    use(p)\n    q = second(a)\n    return q\n"
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_function_inside_a_function_takes_its_hunk_along_under_its_new_name() -> None:
    base = "def f(a):\n    def g(x):\n        y = first(x)\n        return y\n\n    return g(a)\n"
    authored = base.replace("        return y\n", "        check(y, g)\n        return y\n")
    target = base.replace("g(x)", "inner(x)").replace("g(a)", "inner(a)")
    assert moved(base, authored, target) == target.replace(
        "        return y\n", "        check(y, inner)\n        return y\n"
    )


def test_new_definitions_are_not_ordered_among_statements_that_upstream_added() -> None:
    base = "class K:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 2\n"
    authored = base.replace("    def b", "    def mine(self):\n        return 3\n\n    def b")
    target = base.replace("    def b", "    table = make()\n\n    def b")
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_helper_stays_in_its_file_when_its_neighbour_moves_away() -> None:
    base = "def a():\n    return helper()\n\n\ndef b():\n    return 2\n"
    authored = base + "\n\ndef helper():\n    return 3\n"
    files = {
        PATH: b"from vllm.other import b\n\n\ndef a():\n    return helper()\n",
        "vllm/other.py": b"def b():\n    return 2\n",
    }
    lines = unified_diff(
        base.splitlines(keepends=True), authored.splitlines(keepends=True), f"a/{PATH}", f"b/{PATH}"
    )
    result = patchkit.port(["".join(lines).encode()], {PATH: base.encode()}, files)
    assert b"helper():\n    return 3" not in result.tree.files["vllm/other.py"]


def test_a_short_method_is_not_taken_for_the_same_one_in_a_new_class() -> None:
    base = (
        "class A:\n    def ok(self):\n        return cpu()\n\n    def go(self):\n        return 1\n"
    )
    authored = base.replace("return cpu()", "return cpu() and amx()")
    target = (
        "class B:\n    def ok(self):\n        return cpu()\n\n\n"
        "class A:\n    def go(self):\n        return 1\n"
    )
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_method_that_went_to_a_base_class_takes_its_hunk_along() -> None:
    base = (
        "class A:\n    def ok(self):\n        return cpu()\n\n    def go(self):\n        return 1\n"
    )
    authored = base.replace("return cpu()", "return cpu() and amx()")
    target = (
        "class B:\n    def ok(self):\n        return cpu()\n\n\n"
        "class A(B):\n    def go(self):\n        return 1\n"
    )
    assert moved(base, authored, target) == target.replace("cpu()", "cpu() and amx()")


def test_a_docstring_that_upstream_dropped_is_no_neighbour_and_no_crash() -> None:
    base = 'def f(a):\n    """Say it."""\n    x = first(a)\n    return x\n'
    authored = base.replace("    x = ", "    check(a)\n    x = ")
    target = "def f(a):\n    with guard():\n        x = first(a, 1)\n        return x\n"
    result = move(base, authored, target)
    wanted = target.replace("        x = ", "        check(a)\n        x = ")
    assert result.tree.files[PATH].decode() == (wanted if result.ok else target)


def test_spaces_inside_an_added_operand_are_its_value() -> None:
    base = "def f(a, b):\n    return (\n        a\n        and b\n    )\n"
    authored = base.replace("        and b\n", "        and b\n        and g('x  y')\n")
    target = "def f(a, b):\n    log(a)\n    return a and b\n"
    assert moved(base, authored, target) == target.replace("a and b", "a and b and g('x  y')")


def test_names_that_could_not_be_read_are_said_to_be_unchecked() -> None:
    base = "print 'no Python 3'\na = 1\n"
    result = move(base, base.replace("a = 1", "a = 2"), base)
    assert result.ok
    (outcome,) = result.outcomes
    assert outcome.not_checked[0].startswith(f"names and imports of {PATH}: ")
