"""Typed placing: edits rendered into code that upstream wrapped, reformatted or renamed."""

from __future__ import annotations

import ast
from difflib import unified_diff

import patchkit
from tests.moves import PATH, move


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


def test_an_operand_keeps_its_own_parentheses() -> None:
    base = "def f(a, b):\n    return (\n        a > 1 and b\n    )\n"
    authored = base.replace("a > 1 and b", "b and (a > 1 or b.seq)")
    target = "def f(a, b):\n    log(a)\n    return a > 1 and b\n"
    assert moved(base, authored, target) == target.replace("a > 1 and b", "b and (a > 1 or b.seq)")


def test_a_replaced_operand_takes_its_parentheses_along() -> None:
    base = "def f(a, b):\n    return (\n        a.dp > 1 and not b.mk\n    )\n"
    authored = "def f(a, b):\n    return (\n        a.dp > 1 or a.sp\n    ) and not b.mk\n"
    target = "def f(a, b):\n    log(a)\n    return a.dp > 1 and not b.mk\n"
    result = moved(base, authored, target)
    assert ast.dump(ast.parse(result)) == ast.dump(
        ast.parse(target.replace("a.dp > 1", "(a.dp > 1 or a.sp)"))
    )


def test_the_parentheses_of_a_call_are_not_those_of_its_only_argument() -> None:
    base = "def f(a):\n    return g(\n        a\n    )\n"
    authored = base.replace("        a\n", "        a + 1\n")
    target = "def f(a):\n    start()\n    return g(a)\n"
    assert moved(base, authored, target) == target.replace("g(a)", "g(a + 1)")


def test_what_upstream_put_above_a_comment_does_not_come_between() -> None:
    base = "def f(a):\n    x = first(a)\n    # then\n    y = second(x)\n    return y\n"
    authored = base.replace("    y = ", "    check(x)\n    y = ")
    target = base.replace("    # then\n", "    new(x)\n    # then\n")
    assert moved(base, authored, target) == target.replace("    y = ", "    check(x)\n    y = ")


def test_new_definitions_are_not_ordered_beside_what_upstream_put_under_a_comment() -> None:
    base = (
        "class K:\n    def a(self):\n        return 1\n\n    # Forward\n\n"
        "    def b(self):\n        return 2\n"
    )
    authored = base.replace(
        "    # Forward\n",
        "    # Metadata\n\n    def mine(self):\n        return 3\n\n    # Forward\n",
    )
    target = base.replace("    def b", "    table = None\n    def b")
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_block_is_around_the_body_although_the_docstring_changed_as_well() -> None:
    words = " ".join(f"word{n}" for n in range(40))
    base = BODY.replace("def f(a):\n", f'def f(a):\n    """Say {words}."""\n')
    authored = base.replace("    y = ", "    check(x)\n    y = ")
    target = GUARDED.replace("def f(a):\n", f'def f(a):\n    """Do {words} now."""\n')
    assert moved(base, authored, target) == target.replace(
        "        y = ", "        check(x)\n        y = "
    )


def test_a_loop_with_the_same_head_is_itself_and_not_the_like_one_inside() -> None:
    inner = "            use(kv_base + 0 * stride + off)\n            more(a, i, j)\n"
    base = (
        f"def f(a):\n    for i in range(a):\n        for j in range(i):\n{inner}"
        "        end(i)\n    return a\n"
    )
    authored = base.replace("kv_base + 0 * stride + off", "kv_base + off")
    scales = "".join(f"            scale{n}(i, j, a)\n" for n in range(12))
    target = base.replace(inner, inner + scales).replace("        end(i)\n", "")
    assert moved(base, authored, target) == target.replace(
        "kv_base + 0 * stride + off", "kv_base + off"
    )


def test_a_loop_in_which_much_was_added_is_not_the_like_one_inside_either() -> None:
    inner = "        for j in range(i):\n            use(base + 0 * stride + off, i, j)\n"
    base = f"def f(a):\n    for i in range(a):\n{inner}    return a\n"
    authored = base.replace("base + 0 * stride + off", "base + off")
    extra = "".join(f"        scale{n} = load(weights{n}, a, i)\n" for n in range(12))
    target = base.replace(inner, extra + inner)
    assert moved(base, authored, target) == target.replace("base + 0 * stride + off", "base + off")


def test_repeated_statements_are_told_apart_by_the_block_beside_them() -> None:
    head = "def f(self, c):\n    self.begin(c)\n"
    twice = "    self.step(c)\n    self.step(c)\n    self.width = 2 * c\n"
    block = "    with self.mark(c):\n        self.visual = Tower(c, prefix=1)\n"
    base = f"{head}{twice}{block}    return c\n"
    authored = f"{head}{block}    return c\n"
    changed = block.replace("prefix=1", "prefix=1, quiet=True")
    target = f"{head}{twice}{changed}{twice}    return c\n"
    assert moved(base, authored, target) == f"{head}{changed}{twice}    return c\n"


def test_a_local_is_renamed_although_upstream_binds_it_once_more() -> None:
    base = "def f(a):\n    x = first(a)\n    p, x = second(x)\n    return x\n"
    authored = base.replace("    return", "    check(x)\n    return")
    target = base.replace("x", "hidden").replace(
        "    return", "    if p:\n        p, hidden = third(hidden)\n    return"
    )
    result = move(base, authored, target)
    wanted = target.replace("    return", "    check(hidden)\n    return")
    assert result.tree.files[PATH].decode() == (wanted if result.ok else target)
    target = base.replace("x", "hidden").replace("    p, ", "    p = third(hidden)\n    p, ")
    target = target.replace("    p = third", "    hidden = extra(hidden)\n    p = third")
    wanted = target.replace("    return", "    check(hidden)\n    return")
    assert moved(base, authored, target) == wanted


def test_a_local_of_which_a_third_became_another_is_no_rename() -> None:
    base = (
        "def f(a):\n    x = first(a)\n    x = second(x)\n    use(x)\n"
        "    x = third(a)\n    return x\n"
    )
    authored = base.replace("    use(x)\n", "    use(x)\n    check(x)\n")
    target = (
        "def f(a):\n    p = first(a)\n    p = second(p)\n    use(p)\n"
        "    q = third(a)\n    return q\n"
    )
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_two_thirds_of_the_bindings_make_a_rename_and_half_of_them_do_not() -> None:
    steps = ["first(a)", "second(x)", "third(x, a)", "fourth(x)"]
    base = "def f(a):\n" + "".join(f"    x = {s}\n" for s in steps) + "    return x\n"
    authored = base.replace("    return x", "    return check(x)")
    target = base.replace("x", "hidden")
    one = target.replace("second(hidden)", "other(hidden, a)")
    assert moved(base, authored, one) == one.replace("return hidden", "return check(hidden)")
    two = one.replace("third(hidden, a)", "more(hidden)")
    result = move(base, authored, two)
    assert not result.ok
    assert result.tree.files[PATH].decode() == two


def test_that_two_locals_start_as_none_makes_them_no_rename() -> None:
    base = "def f(a):\n    x = None\n    use(a)\n    return a, x\n"
    authored = base.replace("    use(a)\n", "    use(a)\n    check(x)\n")
    target = "def f(a):\n    y = None\n    y = second(a)\n    use(a)\n    return a, y\n"
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_what_changed_upstream_in_a_definition_that_the_patch_renames_stays() -> None:
    base = "def load(a):\n    x = first(a)\n    y = second(x)\n    z = third(y)\n    return z\n"
    authored = base.replace("def load(a)", "def load_all(a, b)").replace("third(y)", "third(y, b)")
    target = base.replace("second(x)", "second(x, quiet=True)")
    assert moved(base, authored, target) == target.replace(
        "def load(a)", "def load_all(a, b)"
    ).replace("third(y)", "third(y, b)")


def test_a_docstring_outside_the_block_that_was_put_around_the_body_is_replaced_as_well() -> None:
    base = BODY.replace("def f(a):\n", 'def f(a):\n    """Say it."""\n    from m import first\n')
    authored = base.replace("Say it.", "Do it now.").replace("from m", "from n")
    target = GUARDED.replace(
        "    with guard():\n", '    """Say it."""\n    with guard():\n        from m import first\n'
    )
    assert moved(base, authored, target) == target.replace("Say it.", "Do it now.").replace(
        "from m", "from n"
    )


def test_a_callee_that_took_an_argument_is_placed_whole_or_refused() -> None:
    base = "def f(t, p):\n    return t.decode(\n        t.encode(p, special=False)\n    )\n"
    authored = base.replace("t.encode(p", "cached(t, p")
    target = base.replace("encode(p,", "encode(p.text,")
    result = move(base, authored, target)
    wanted = target.replace("t.encode(p", "cached(t, p")
    assert result.tree.files[PATH].decode() == (wanted if result.ok else target)
    assert all("does not parse" not in (o.reason or "") for o in result.outcomes)


def test_a_condition_inside_a_condition_may_be_extended() -> None:
    base = "def f(a, b):\n    if a > 1 and b:\n        x = 1\n        y = 2\n    return a\n"
    authored = base.replace("        y = 2\n", "        y = 3\n")
    target = base.replace("a > 1 and b", "(a > 1 or a.seq) and b")
    assert moved(base, authored, target) == target.replace("y = 2", "y = 3")
    other = base.replace("a > 1 and b", "a > 2 and b")
    assert not move(base, authored, other).ok


def test_a_kernel_is_the_same_on_another_grid_and_another_kernel_is_not() -> None:
    base = (
        "def f(x, n):\n    scale_kernel[(n,)](\n        x,\n        n,\n        BLOCK=16,\n    )\n"
    )
    authored = base.replace("BLOCK=16", "BLOCK=32")
    target = base.replace("[(n,)]", "[(n + 1,)]").replace(
        "        x,\n", "        x,\n        x,\n"
    )
    assert moved(base, authored, target) == target.replace("BLOCK=16", "BLOCK=32")
    assert not move(base, authored, target.replace("scale_kernel", "shift_kernel")).ok


def test_edits_are_held_against_those_that_say_the_same_however_far_the_header_shrank() -> None:
    dropped = "".join(f"    dropped_parameter_{n}=None,\n" for n in range(6))
    base = f"def f(\n    a,\n{dropped}):\n    x = first(a)\n    return x\n"
    authored = base.replace("):\n", ") -> int:\n").replace("first(a)", "other(a)")
    target = "def f(\n    a,\n):\n    x = first(a)\n    return x\n"
    assert moved(base, authored, target) == target.replace("):\n", ") -> int:\n").replace(
        "first(a)", "other(a)"
    )


def test_another_parameter_in_the_same_place_is_no_rename() -> None:
    base = (
        "def f(n: int, gated: bool) -> int:\n    on = fits(n) and gated\n"
        "    m = n if on else 0\n    return m\n"
    )
    authored = base.replace("    return m\n", "    log(gated)\n    return m\n")
    target = "def f(n: int, fuse: bool) -> int:\n    m = n if fuse else 0\n    return m\n"
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_renamed_parameter_is_used_as_the_old_one_was() -> None:
    base = "def f(n, gated):\n    on = fits(n) and gated\n    return on\n"
    authored = base.replace("    return on\n", "    log(gated)\n    return on\n")
    target = base.replace("gated", "is_gated")
    assert moved(base, authored, target) == target.replace(
        "    return on\n", "    log(is_gated)\n    return on\n"
    )


def test_an_operand_and_the_sign_before_it_are_replaced_together() -> None:
    base = "def f(a):\n    x = (\n        1\n        if a.mode == 'raw'\n        else 2\n    )\n"
    authored = base.replace("== 'raw'", "in ('raw', 'cooked')")
    target = "def f(a):\n    start()\n    x = 1 if a.mode == 'raw' else 2\n"
    assert moved(base, authored, target) == target.replace("== 'raw'", "in ('raw', 'cooked')")


def test_a_statement_that_becomes_like_one_that_upstream_changed_is_not_doubled() -> None:
    base = (
        "class K:\n    def __init__(self):\n        self.a = 1\n\n    def f(self, x):\n"
        "        x = x * (\n            self.c.a + 1\n        )\n        x = mid(x)\n"
        "        x = x * (\n            self.c.a + 1\n        )\n        return x\n"
    )
    init = base.replace("        self.a = 1\n", "        self.a = 1\n        self.b = get(2)\n")
    head, middle, tail = init.partition("        x = mid(x)\n")
    authored = head + middle + tail.replace("self.c.a", "self.b")
    head, middle, tail = base.partition("        x = mid(x)\n")
    target = head.replace("self.c.a", "self.b") + middle + tail
    assert moved(base, authored, target).count("self.b + 1") == 2


def test_a_block_that_upstream_put_around_as_well_is_not_put_around_again() -> None:
    base = "def f(a):\n    x = first(a)\n    y = second(x)\n    return y\n"
    authored = "def f(a):\n    if a:\n        x = first(a)\n        y = second(x)\n    return y\n"
    target = (
        "def f(a):\n    if a:\n        log(a)\n        x = first(a)\n        y = second(x)\n"
        "    return y\n"
    )
    result = move(base, authored, target)
    assert result.tree.files[PATH].decode() == target
    result = move(base, authored, authored)
    assert [o.status for o in result.outcomes] == ["already_upstream"]


LOOP = (
    "def f(pool, n):\n    while pool and n:\n        node = pool.pop()\n        log(node)\n"
    "        n -= 1\n        use(node)\n        count(node)\n    return n\n"
)
AS_FOR = LOOP.replace(
    "    while pool and n:\n        node = pool.pop()\n", "    for node in pool:\n"
)


def test_upstream_may_have_changed_other_lines_of_what_is_replaced_whole() -> None:
    target = LOOP.replace("        use(node)\n", "        use(node, quiet=True)\n")
    result = move(LOOP, AS_FOR, target)
    assert result.ok
    assert result.tree.files[PATH].decode() == AS_FOR.replace(
        "        use(node)\n", "        use(node, quiet=True)\n"
    )
    (outcome,) = result.outcomes
    assert "upstream changed other lines of what it replaces" in str(outcome.evidence[-1])


def test_two_changes_of_what_is_replaced_that_no_line_parts_are_a_conflict() -> None:
    target = LOOP.replace("        log(node)\n", "        log(node, 1)\n")
    result = move(LOOP, AS_FOR, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_changed_lines_that_are_there_twice_in_what_is_replaced_are_a_conflict() -> None:
    twice = "        begin(n)\n        log(n)\n        end(n)\n"
    base = f"def f(pool, n):\n    while pool and n:\n{twice}        more(n)\n        use(n)\n"
    base += f"{twice}    return n\n"
    authored = base.replace("    while pool and n:\n", "    for n in pool:\n")
    head, _, tail = authored.rpartition("        log(n)\n")
    authored = f"{head}        log(n, 2)\n{tail}"
    target = base.replace("        use(n)\n", "        use(n, quiet=True)\n")
    result = move(base, authored, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_a_parameter_whose_new_name_extends_the_old_one_is_renamed_whatever_its_uses() -> None:
    base = "def f(n, run_rs):\n    x = make(n, run_rs=run_rs)\n    return x\n"
    authored = base.replace("return x\n", "return log(x, run_rs)\n")
    target = "def f(n, run_rs_ar):\n    x = make(n, run_rs_ar=run_rs_ar)\n    return x\n"
    assert moved(base, authored, target) == target.replace("return x", "return log(x, run_rs_ar)")
