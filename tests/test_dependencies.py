"""What a hunk of a series needs of earlier ones: by its lines, by names; small trees of text."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff

import pytest

from patchkit.diff import parse_patch
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.stacking.dependencies import Dependency, dependencies
from patchkit.tree import SourceTree

X, Y = "vllm/x.py", "vllm/y.py"
Files = Mapping[str, str]
Step = Mapping[str, str | None]  # what files become, None for one that goes


def diff(old: str | None, new: str | None, path: str, context: int = 3) -> str:
    lines = unified_diff(
        (old or "").splitlines(keepends=True),
        (new or "").splitlines(keepends=True),
        f"a/{path}" if old is not None else "/dev/null",
        f"b/{path}" if new is not None else "/dev/null",
        n=context,
    )
    return "".join(lines)


def plans(
    base: Files, *steps: Step | bytes, context: int = 3
) -> tuple[list[PatchPlan], SourceTree]:
    """A patch a step, named A, B, C: a step gives files their new text, or is a patch as it is."""
    tree = pristine = SourceTree({path: text.encode() for path, text in base.items()})
    found = []
    for name, step in zip("ABCDEF", steps, strict=False):
        if isinstance(step, bytes):
            data = step
        else:
            now = {p: c.decode() for p, c in tree.files.items()}
            data = "".join(diff(now.get(p), step[p], p, context) for p in step).encode()
        plan = plan_patch(parse_patch(data, name), tree)
        found.append(plan)
        tree = tree.with_changes(plan.after)
    return found, pristine


def needs(base: Files, *steps: Step | bytes, context: int = 3) -> list[str]:
    """The reasons of every dependency, those that bind."""
    return [d.text for d in found(base, *steps, context=context) if d.binds]


def found(base: Files, *steps: Step | bytes, context: int = 3) -> tuple[Dependency, ...]:
    return dependencies(*plans(base, *steps, context=context))


F = "def f(x):\n    a(x)\n    b(x)\n    c(x)\n    d(x)\n    e(x)\n    return x\n"


# By lines ----------------------------------------------------------------------------------------


def test_a_change_of_an_added_line_needs_it() -> None:
    one = F.replace("    b(x)\n", "    b(x)\n    mine(x)\n")
    two = one.replace("mine(x)", "mine(x, 2)")
    assert needs({X: F}, {X: one}, {X: two}) == [
        "B#1 changes lines that A#1 adds (vllm/x.py:4)",
    ]


def test_a_change_of_a_changed_line_needs_that_change() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    two = one.replace("b(x, 1)", "b(x, 2)")
    assert needs({X: F}, {X: one}, {X: two}) == ["B#1 changes lines that A#1 adds (vllm/x.py:3)"]


def test_a_line_inside_of_added_ones_needs_them() -> None:
    one = F.replace("    b(x)\n", "    b(x)\n    one(x)\n    two(x)\n")
    two = one.replace("    two(x)\n", "    mid(x)\n    two(x)\n")
    assert needs({X: F}, {X: one}, {X: two}) == [
        "B#1 adds lines inside of those that A#1 adds (vllm/x.py:5)"
    ]


@pytest.mark.parametrize(("after", "line"), [(True, 5), (False, 4)])
def test_lines_added_in_the_same_gap_have_an_order(after: bool, line: int) -> None:
    one = F.replace("    b(x)\n", "    b(x)\n    one(x)\n")
    both = "    one(x)\n    two(x)\n" if after else "    two(x)\n    one(x)\n"
    two = one.replace("    one(x)\n", both)
    (dependency,) = found({X: F}, {X: one}, {X: two})
    assert (dependency.kind, dependency.binds) == ("order", False)
    assert dependency.text == (
        f"B#1 adds lines where A#1 adds others (vllm/x.py:{line}): their order matters; "
        "neither needs the other"
    )


def test_lines_added_where_some_were_removed_need_that() -> None:
    one = F.replace("    b(x)\n", "")
    two = one.replace("    c(x)\n", "    mine(x)\n    c(x)\n")
    assert needs({X: F}, {X: one}, {X: two}) == [
        "B#1 adds lines where A#1 removes some (vllm/x.py:3)"
    ]


@pytest.mark.parametrize(("copy", "line"), [(0, 3), (1, 4)])
def test_a_removal_of_one_of_two_equal_lines_needs_whoever_doubled_it(copy: int, line: int) -> None:
    """Which of the two a diff removes is chance."""
    lines = [f"{' +'[n == copy]}    b(x)\n" for n in range(2)]
    add = f"--- a/{X}\n+++ b/{X}\n@@ -2,2 +2,3 @@\n     a(x)\n{''.join(lines)}".encode()
    for gone in range(2):
        lines = [f"{' -'[n == gone]}    b(x)\n" for n in range(2)]
        remove = f"--- a/{X}\n+++ b/{X}\n@@ -2,3 +2,2 @@\n     a(x)\n{''.join(lines)}".encode()
        assert needs({X: F}, add, remove) == [f"B#1 changes lines that A#1 adds (vllm/x.py:{line})"]


def test_blank_lines_that_read_the_same_bind_nothing() -> None:
    base = "def f():\n    a()\n\n\ndef g():\n    b()\n\n\ndef h():\n    c()\n"
    add = f"--- a/{X}\n+++ b/{X}\n@@ -4,2 +4,6 @@\n \n+def m():\n+    m()\n+\n+\n def g():\n"
    remove = f"--- a/{X}\n+++ b/{X}\n@@ -8,6 +8,2 @@\n \n-def g():\n-    b()\n-\n-\n def h():\n"
    assert needs({X: base}, add.encode(), remove.encode()) == []


def test_a_change_around_removed_lines_needs_that() -> None:
    one = F.replace("    c(x)\n", "")
    two = one.replace("    b(x)\n    d(x)\n", "    new(x)\n")
    assert needs({X: F}, {X: one}, {X: two}) == [
        "B#1 changes the lines around some that A#1 removes (vllm/x.py:4)"
    ]


@pytest.mark.parametrize("beside", ["a(x)", "c(x)"])
def test_adjacent_lines_commute_and_that_is_said(beside: str) -> None:
    one = F.replace("b(x)", "b(x, 1)")
    two = one.replace(beside, beside.replace("x", "x, 2"))
    (dependency,) = found({X: F}, {X: one}, {X: two})
    assert (dependency.kind, dependency.binds) == ("context", False)
    assert dependency.text == (
        "B#1 stands beside what A#1 changes (vllm/x.py:3); neither needs the other"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    b(x, 1)\n", "    b(x, 1)\n    two(x)\n"),
        ("    b(x, 1)\n", "    two(x)\n    b(x, 1)\n"),
    ],
)
def test_a_line_added_beside_a_changed_one_has_one_place_without_it(old: str, new: str) -> None:
    one = F.replace("b(x)", "b(x, 1)")
    assert needs({X: F}, {X: one}, {X: one.replace(old, new)}) == []


def test_hunks_that_are_far_apart_have_nothing_to_do_with_each_other() -> None:
    text = F + "\n" * 6 + F.replace("def f", "def g")
    one = text.replace("b(x)", "b(x, 1)", 1)
    assert found({X: text}, {X: one}, {X: one[::-1].replace(")x(e", ")2 ,x(e", 1)[::-1]}) == ()


def test_without_context_lines_nothing_stands_beside() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    two = one.replace("c(x)", "c(x, 1)")
    assert found({X: F}, {X: one}, {X: two}, context=0) == ()


def test_a_third_patch_needs_the_one_whose_line_it_changes() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    two = one.replace("b(x, 1)", "b(x, 2)")
    three = two.replace("b(x, 2)", "b(x, 3)")
    assert needs({X: F}, {X: one}, {X: two}, {X: three}) == [
        "B#1 changes lines that A#1 adds (vllm/x.py:3)",
        "C#1 changes lines that B#1 adds (vllm/x.py:3)",
    ]


def test_what_is_no_python_is_held_by_its_lines_alone() -> None:
    base, path = "a: 1\nb: 2\nc: 3\n", "vllm/config.yaml"
    one = base.replace("b: 2\n", "b: 3\n")
    two = one.replace("b: 3\n", "b: 4\n")
    assert needs({path: base}, {path: one}, {path: two}) == [
        "B#1 changes lines that A#1 adds (vllm/config.yaml:2)"
    ]


def test_line_ends_of_the_file_are_those_of_its_weave() -> None:
    base = "a = 1\r\nb = 2\r\nc = 3\r\n"
    one = base.replace("b = 2", "b = 3")
    first = diff(base, one, X).encode().replace(b"\r\n", b"\n")
    two = one.replace("b = 3", "b = 4")
    assert needs({X: base}, first, {X: two}) == ["B#1 changes lines that A#1 adds (vllm/x.py:2)"]


def test_two_sections_for_one_file_are_one_patch() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    two = one.replace("b(x, 1)", "b(x, 2)")
    both = (diff(F, one, X) + diff(one, two, X)).encode()
    assert found({X: F}, both) == ()
    assert needs({X: F}, both, {X: two.replace("b(x, 2)", "b(x, 3)")}) == [
        "B#1 changes lines that A#2 adds (vllm/x.py:3)"
    ]


def test_lines_are_counted_as_the_later_patch_finds_them() -> None:
    one = F.replace("    b(x)\n", "")
    two = one.replace("c(x)", "c(x, 1)")
    three = two.replace("d(x)", "d(x, 1)")
    assert [d.text for d in found({X: F}, {X: one}, {X: two}, {X: three})][1:] == [
        "C#1 stands beside what A#1 changes (vllm/x.py:3); neither needs the other",
        "C#1 stands beside what B#1 changes (vllm/x.py:3); neither needs the other",
    ]


# By files ----------------------------------------------------------------------------------------


def test_a_change_of_a_new_file_needs_it() -> None:
    text = "def n():\n    return 1\n" + "\n\nA = 1\nB = 2\nC = 3\nD = 4\n"
    assert needs({X: F}, {Y: text}, {Y: text.replace("D = 4", "D = 5")}) == [
        "B#1 changes lines that A#1 adds (vllm/y.py:8)"
    ]


def test_a_line_added_at_the_end_of_a_new_file_needs_the_file() -> None:
    assert needs({X: F}, {Y: "a = 1\n"}, {Y: "a = 1\nb = 2\n"}) == [
        "B#1 changes vllm/y.py, which A#1 adds"
    ]


RENAME = (
    b"diff --git a/vllm/x.py b/vllm/y.py\nsimilarity index 100%\n"
    b"rename from vllm/x.py\nrename to vllm/y.py\n"
)


def test_a_change_of_a_renamed_file_needs_the_rename() -> None:
    assert needs({X: F}, RENAME, {Y: F.replace("b(x)", "b(x, 1)")}) == [
        "B#1 changes vllm/y.py, which A#1 gives that name"
    ]


def test_lines_are_followed_through_a_rename() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    assert needs({X: F}, {X: one}, RENAME, {Y: one.replace("b(x, 1)", "b(x, 2)")}) == [
        "C#1 changes lines that A#1 adds (vllm/y.py:3)",
        "C#1 changes vllm/y.py, which B#1 gives that name",
    ]


def test_removing_a_file_needs_what_was_changed_in_it() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    assert needs({X: F}, {X: one}, {X: None}) == ["B#1 changes lines that A#1 adds (vllm/x.py:3)"]


def test_adding_a_file_anew_needs_its_removal() -> None:
    assert needs({X: F}, {X: None}, {X: "y = 1\n"}) == ["B#1 adds vllm/x.py, which A#1 removes"]


# By names ----------------------------------------------------------------------------------------

M = '"""Doc."""\n\nimport os\n\n\ndef main(x):\n    return os.path(x)\n'
HELPER = M + "\n\ndef helper(x):\n    return x\n"


def test_a_call_of_a_new_function_of_the_same_module() -> None:
    two = HELPER.replace("return os.path(x)", "return helper(os.path(x))")
    assert needs({X: M}, {X: HELPER}, {X: two}) == [
        "`helper` is defined by A#1 (vllm/x.py:10) and called in B#1 (vllm/x.py:7)"
    ]


def test_an_import_of_a_new_function() -> None:
    user = "from vllm.x import helper\n\n\ny = helper(1)\n"
    assert needs({X: M, Y: "y = 1\n"}, {X: HELPER}, {Y: user}) == [
        "`helper` is defined by A#1 (vllm/x.py:10) and imported in B#1 (vllm/y.py:1)"
    ]


def test_a_relative_import_of_a_new_function() -> None:
    user = "from .x import helper\n\n\ny = helper(1)\n"
    assert needs({X: M, Y: "y = 1\n"}, {X: HELPER}, {Y: user}) == [
        "`helper` is defined by A#1 (vllm/x.py:10) and imported in B#1 (vllm/y.py:1)"
    ]


def test_a_new_function_read_from_its_module() -> None:
    base = "import vllm.x as ex\n\ny = 1\n"
    user = base.replace("y = 1", "y = ex.helper(1)")
    assert needs({X: M, Y: base}, {X: HELPER}, {Y: user}) == [
        "`helper` is defined by A#1 (vllm/x.py:10) and called in B#1 (vllm/y.py:3)"
    ]


def test_an_import_from_the_folder_above() -> None:
    path = "vllm/sub/y.py"
    user = "from ..x import helper\n\n\ny = helper(1)\n"
    assert needs({X: M, path: "y = 1\n"}, {X: HELPER}, {path: user}) == [
        f"`helper` is defined by A#1 (vllm/x.py:10) and imported in B#1 ({path}:1)"
    ]


def test_a_global_of_the_module_is_no_variable_of_the_function() -> None:
    base = M + "\n\n\n\n\n\n\ndef other(x):\n    return x\n"
    one = base.replace("import os\n", "import os\n\nhits = 0\n")
    two = one.replace("    return x\n", "    global hits\n    hits = hits + 1\n    return x\n")
    assert needs({X: base}, {X: one}, {X: two}) == [
        "`hits` is defined by A#1 (vllm/x.py:5) and read in B#1 (vllm/x.py:19)"
    ]


def test_a_variable_of_a_function_of_that_name_in_another_file() -> None:
    base = {X: F, Y: F.replace("a(x)", "mine = a(x)")}
    one = F.replace("    a(x)\n", "    a(x)\n    mine = 1\n")
    assert found(base, {X: one}, {Y: base[Y].replace("return x", "return mine")}) == ()


def test_what_needs_another_hunk_by_name_is_not_said_to_be_beside_it_as_well() -> None:
    one = F.replace("    a(x)\n", "    a(x)\n    mine = 1\n")
    two = one.replace("    c(x)\n", "    c(x, mine)\n")
    assert [d.kind for d in found({X: F}, {X: one}, {X: two})] == ["local"]


@pytest.mark.parametrize(
    "line", ["import vllm.x", "from vllm.x import main", "from vllm import x", "from . import x"]
)
def test_an_import_of_a_new_file(line: str) -> None:
    assert needs({Y: "y = 1\n"}, {X: M}, {Y: f"{line}\ny = 1\n"}) == [
        "vllm/x.py is added by A#1 and imported in B#1 (vllm/y.py:1)"
    ]


def test_a_new_file_that_a_registry_names() -> None:
    user = 'REGISTRY = {"k": "vllm.x:main"}\n'
    assert needs({Y: "REGISTRY = {}\n"}, {X: M}, {Y: user}) == [
        "vllm/x.py is added by A#1 and named in B#1 (vllm/y.py:1)"
    ]


def test_a_name_of_another_module_is_another_name() -> None:
    base = {X: M, Y: "def helper(x):\n    return 1\n\n\n\n\n\n\nz = 2\n"}
    user = base[Y].replace("z = 2", "z = helper(2)")
    assert found(base, {X: HELPER}, {Y: user}) == ()


def test_a_variable_of_another_function_is_another_name() -> None:
    base = M + "\n\n\n\n\n\n\ndef other(x):\n    return x\n"
    one = base.replace("return os", "found = x\n    return os")
    two = one.replace(
        "def other(x):\n    return x\n", "def other(x):\n    found = 1\n    return found\n"
    )
    assert found({X: base}, {X: one}, {X: two}) == ()


def test_a_new_variable_read_further_down_in_its_function() -> None:
    steps = "".join(f"    step{n}(x)\n" for n in range(9))
    base = f"def f(x):\n    a(x)\n{steps}    return x\n"
    one = base.replace("    a(x)\n", "    a(x)\n    mine = b(x)\n")
    two = one.replace("return x", "return x + mine")
    assert needs({X: base}, {X: one}, {X: two}) == [
        "`mine` of `f` is bound by A#1 (vllm/x.py:3) and read in B#1 (vllm/x.py:13)"
    ]


K = """\
class K:
    def __init__(self):
        self.a = 1

    def size(self, x):
        return x
"""
K_FIELD = K.replace("self.a = 1\n", "self.a = 1\n        self.stride = 2\n")


def test_an_attribute_that_no_other_class_has() -> None:
    assert needs({X: K, Y: "y = 1\n"}, {X: K_FIELD}, {Y: "y = k.stride\n"}) == [
        "`K.stride` is defined by A#1 (vllm/x.py:4) and read in B#1 (vllm/y.py:1)"
    ]
    assert needs({X: K, Y: "y = 1\n"}, {X: K_FIELD}, {Y: "y = getattr(k, 'stride', 0)\n"}) == [
        "`K.stride` is defined by A#1 (vllm/x.py:4) and read in B#1 (vllm/y.py:1)"
    ]


def test_an_attribute_that_the_base_has_elsewhere_says_nothing() -> None:
    other = "class L:\n    stride: int\n"
    base = {X: K, Y: "y = 1\n", "vllm/z.py": other}
    assert found(base, {X: K_FIELD}, {Y: "y = k.stride\n"}) == ()


def test_an_attribute_that_the_base_reads_of_something_else_says_nothing() -> None:
    base = {X: K, Y: "y = 1\n", "vllm/z.py": "import torch\n\nz = torch.ones(1).stride\n"}
    assert found(base, {X: K_FIELD}, {Y: "y = k.stride\n"}) == ()


def test_an_attribute_of_self_is_that_of_the_class() -> None:
    two = K_FIELD.replace("return x", "return x * self.stride")
    base = {X: K, "vllm/z.py": "class L:\n    stride: int\n"}
    assert needs(base, {X: K_FIELD}, {X: two}) == [
        "`K.stride` is defined by A#1 (vllm/x.py:4) and read in B#1 (vllm/x.py:7)"
    ]


def test_an_attribute_set_on_another_object_is_not_one_of_the_class() -> None:
    one = K.replace("self.a = 1\n", "self.a = 1\n        other.stride = 2\n")
    base = {X: K, "vllm/z.py": "class L:\n    stride: int\n"}
    assert needs(base, {X: one}, {X: one.replace("return x", "return x * self.stride")}) == []


def test_a_new_enum_member() -> None:
    enum = "from enum import Enum\n\n\nclass Kind(Enum):\n    ONE = 1\n"
    base = {
        X: enum,
        Y: "from vllm.x import Kind\ny = Kind.ONE\n",
        "vllm/z.py": "class T:\n    TWO = 1\n",
    }
    assert needs(
        base, {X: enum + "    TWO = 2\n"}, {Y: base[Y].replace("Kind.ONE", "Kind.TWO")}
    ) == ["`Kind.TWO` is defined by A#1 (vllm/x.py:6) and read in B#1 (vllm/y.py:2)"]


def test_a_new_config_field_passed_to_its_class() -> None:
    config = "@dataclass\nclass Config:\n    size: int = 1\n"
    base = {X: config, Y: "y = Config(size=1)\n"}
    assert needs(
        base, {X: config + "    stride: int = 2\n"}, {Y: "y = Config(size=1, stride=3)\n"}
    ) == [
        "the parameter `stride` of `Config` is added by A#1 (vllm/x.py:4)"
        " and passed in B#1 (vllm/y.py:1)"
    ]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("k.size(1, y=2)", "the parameter `y` of `size`"),
        ("k.size(1, 2)", "argument 2 of `size`"),
    ],
)
def test_a_new_parameter_passed(call: str, what: str) -> None:
    one = K.replace("size(self, x)", "size(self, x, y=0)")
    assert needs({X: K, Y: "k.size(1)\n"}, {X: one}, {Y: f"{call}\n"}) == [
        f"{what} is added by A#1 (vllm/x.py:5) and passed in B#1 (vllm/y.py:1)"
    ]


def test_a_parameter_that_another_callable_of_the_base_takes_says_nothing() -> None:
    one = K.replace("size(self, x)", "size(self, x, y=0)")
    base = {X: K, Y: "k.size(1)\n", "vllm/z.py": "def size(x, y):\n    return x\n"}
    assert found(base, {X: one}, {Y: "k.size(1, y=2)\n"}) == ()
    assert found(base, {X: one}, {Y: "k.size(1, 2)\n"}) == ()


def test_a_new_parameter_that_is_passed_by_name_alone() -> None:
    one = K.replace("size(self, x)", "size(self, x, *, y=0)")
    assert needs({X: K, Y: "k.size(1)\n"}, {X: one}, {Y: "k.size(1, y=2)\n"}) == [
        "the parameter `y` of `size` is added by A#1 (vllm/x.py:5) and passed in B#1 (vllm/y.py:1)"
    ]


def test_a_parameter_passed_to_something_else_says_nothing() -> None:
    one = K.replace("size(self, x)", "size(self, x, y=0)")
    assert found({X: K, Y: "k.area(1)\n"}, {X: one}, {Y: "k.area(1, 2, y=2)\n"}) == ()


def test_a_parameter_of_init_belongs_to_the_class() -> None:
    one = K.replace("__init__(self)", "__init__(self, depth=0)")
    assert needs({X: K, Y: "k = K()\n"}, {X: one}, {Y: "k = K(depth=3)\n"}) == [
        "the parameter `depth` of `K` is added by A#1 (vllm/x.py:2) and passed in B#1 (vllm/y.py:1)"
    ]


def test_a_method_that_overrides_a_new_one() -> None:
    one = K + "\n    def plan(self):\n        return None\n"
    sub = "class S(K):\n    pass\n"
    assert needs(
        {X: K, Y: sub}, {X: one}, {Y: "class S(K):\n    def plan(self):\n        return 1\n"}
    ) == ["`K.plan` is defined by A#1 (vllm/x.py:8) and overridden in B#1 (vllm/y.py:2)"]


def test_a_method_that_overrides_a_new_one_of_a_nested_class() -> None:
    nested = "class M:\n    class K:\n        a = 1\n"
    one = nested + "\n        def plan(self):\n            return None\n"
    base = {X: nested, Y: "class S(M.K):\n    pass\n"}
    sub = "class S(M.K):\n    def plan(self):\n        return 1\n"
    assert needs(base, {X: one}, {Y: sub}) == [
        "`M.K.plan` is defined by A#1 (vllm/x.py:5) and overridden in B#1 (vllm/y.py:2)"
    ]


def test_what_the_base_binds_already_is_not_brought_by_a_change_of_it() -> None:
    one = M.replace("import os\n", "import os  # why\n")
    two = one + "\n\n\n\n\n\nz = os.getcwd()\n"
    assert found({X: M}, {X: one}, {X: two}) == ()


def test_a_hunk_does_not_need_others_of_its_own_patch() -> None:
    user = "from vllm.x import helper\n\n\ny = helper(1)\n"
    assert found({X: M, Y: "y = 1\n"}, {X: HELPER, Y: user}) == ()


def test_a_name_that_the_later_patch_brings_itself_is_its_own() -> None:
    base = {X: K, Y: "y = 1\n", "vllm/z.py": "class L:\n    def __init__(self):\n        pass\n"}
    own = base["vllm/z.py"].replace("pass", "self.stride = 3")
    assert found(base, {X: K_FIELD}, {"vllm/z.py": own, Y: "y = l.stride\n"}) == ()
