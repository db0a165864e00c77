"""Inputs that broke real patch sets, moved with `patchkit.port` on plain dict trees."""

from __future__ import annotations

from difflib import unified_diff

import pytest

import patchkit
from patchkit import PatchkitError, RebaseResult
from patchkit.outcome import HunkOutcome
from patchkit.tree import SourceTree

PATH = "vllm/v1/core/x.py"


def diff(old: str, new: str, path: str = PATH, context: int = 3) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
        n=context,
    )
    marker = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + marker for line in lines).encode()


def move(base: str, authored: str, target: str, path: str = PATH, context: int = 3) -> RebaseResult:
    patch = diff(base, authored, path, context)
    return patchkit.port([patch], {path: base.encode()}, {path: target.encode()})


def only(result: RebaseResult) -> HunkOutcome:
    (outcome,) = result.outcomes
    return outcome


def content(result: RebaseResult, path: str = PATH) -> str:
    return result.tree.files[path].decode()


def statuses(result: RebaseResult) -> list[str]:
    return [str(outcome.status) for outcome in result.outcomes]


def section(*lines: str) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


# Two functions that look alike -------------------------------------------------------------------

LOAD = """\
def load(block):
    table = lookup(block)
    check(table)
    pin(table)
    copy(table)
    log("load")
    return table
"""
STORE = LOAD.replace("load", "store")
TWINS = f"{LOAD}\n\n{STORE}"
AUTHORED_TWINS = f"{LOAD}\n\n" + STORE.replace(
    "    pin(table)\n", "    pin(table)\n    flush(table)\n"
)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            TWINS.replace('log("store")', 'log("store", block)'),
            AUTHORED_TWINS.replace('log("store")', 'log("store", block)'),
        ),
        (
            TWINS.replace("def store(block):", "def store(block, now):"),
            AUTHORED_TWINS.replace("def store(block):", "def store(block, now):"),
        ),
        (
            f"{STORE}\n\n{LOAD}",
            STORE.replace("    pin(table)\n", "    pin(table)\n    flush(table)\n") + f"\n\n{LOAD}",
        ),
        (STORE, STORE.replace("    pin(table)\n", "    pin(table)\n    flush(table)\n")),
    ],
    ids=["last-context-changed", "header-changed", "changed-places", "first-one-gone"],
)
def test_insertion_for_the_second_of_two_like_functions_stays_with_it(
    target: str, expected: str
) -> None:
    result = move(TWINS, AUTHORED_TWINS, target)
    outcome = only(result)
    assert content(result) == expected
    assert (outcome.definition_before, outcome.definition_after) == ("store", "store")


def test_insertion_for_a_function_that_is_gone_does_not_land_in_its_twin() -> None:
    result = move(TWINS, AUTHORED_TWINS, LOAD)
    outcome = only(result)
    assert outcome.status == "orphaned"
    assert outcome.reason == "`store` is not in the target under its name, nor clearly elsewhere"
    assert content(result) == LOAD


def test_function_of_another_name_with_the_same_body_is_a_rename_and_said_to_be_one() -> None:
    target = TWINS.replace("def store", "def keep")
    result = move(TWINS, AUTHORED_TWINS, target)
    outcome = only(result)
    assert content(result) == AUTHORED_TWINS.replace("def store", "def keep")
    assert (outcome.method, outcome.definition_before, outcome.definition_after) == (
        "renamed",
        "store",
        "keep",
    )
    assert any("`store` is called `keep`" in str(e) for e in outcome.evidence)


def loader(kind: str, bits: int, dtype: str) -> str:
    return (
        f"def load_{kind}(layer, path):\n    data = read(path)\n    check(data, bits={bits})\n"
        f"    scales = data.pop('{kind}_scales')\n    weights = data.pop('weights')\n"
        f"    layer.weights = weights.view({dtype})\n    layer.scales = scales\n    return layer\n"
    )


def test_new_function_with_a_similar_body_is_not_the_one_that_upstream_dropped() -> None:
    # similar bodies alone invent renames: the int4 loader is no renamed fp8 loader
    base = loader("fp8", 8, "float8") + "\n\ndef go(layer):\n    return load_fp8(layer, 'x')\n"
    authored = base.replace("    layer.scales", "    layer.kind = 1\n    layer.scales")
    target = loader("int4", 4, "uint8") + "\n\ndef go(layer):\n    return layer\n"
    result = move(base, authored, target)
    assert not result.ok
    assert content(result) == target


def test_conflict_in_a_method_lists_where_the_target_defines_that_name() -> None:
    base = "class A:\n    def run(self):\n        a()\n        return self.x\n"
    authored = base.replace("self.x", "self.y")
    target = (
        "class A:\n    def run(self):\n        a()\n        return self.z\n\n\n"
        "class B:\n    def run(self):\n        return 0\n"
    )
    outcome = only(move(base, authored, target))
    assert outcome.status == "conflicted"
    assert outcome.candidates == (f"{PATH}:2 A.run", f"{PATH}:8 B.run")


def test_singledispatch_implementations_of_one_name_are_not_taken_for_each_other() -> None:
    def implementation(kind: str) -> str:
        steps = "".join(f"    step{n}(arg)\n" for n in range(9))
        return f"@show.register\ndef _(arg: {kind}):\n{steps}    return arg\n\n\n"

    head = "from functools import singledispatch\n\n\n@singledispatch\ndef show(arg): ...\n\n\n"
    base = head + implementation("int") + implementation("str")
    authored = base.replace("step4(arg)", "step4(arg + 1)", 1)
    target = head + implementation("str") + implementation("bytes")
    result = move(base, authored, target)
    assert not result.ok
    assert content(result) == target


def test_hunk_for_a_branch_that_is_gone_does_not_land_in_the_branch_that_came() -> None:
    base = (
        'def f(kind):\n    if kind == "a":\n        pass\n    elif kind == "b":\n'
        + "".join(f"        s{n}()\n" for n in range(8))
        + "    return kind\n"
    )
    authored = base.replace("        s4()\n", "        s4()\n        extra()\n")
    target = base.replace('"b"', '"c"')
    result = move(base, authored, target)
    assert not result.ok
    assert content(result) == target


def test_hunk_for_a_guarded_block_does_not_land_under_another_lock() -> None:
    base = "def f(a, b):\n    with a:\n" + "".join(f"        s{n}()\n" for n in range(8))
    authored = base.replace("        s4()\n", "        s4()\n        extra()\n")
    target = base.replace("with a:", "with b:")
    result = move(base, authored, target)
    assert not result.ok
    assert content(result) == target


def test_hunk_lands_in_a_branch_whose_test_only_gained_a_condition() -> None:
    base = (
        'def f(kind):\n    if kind == "a":\n'
        + "".join(f"        s{n}()\n" for n in range(8))
        + "    return kind\n"
    )
    authored = base.replace("        s4()\n", "        s4()\n        extra()\n")
    target = base.replace('if kind == "a":', 'if kind == "a" and ready():')
    result = move(base, authored, target)
    assert result.ok
    assert content(result) == target.replace("        s4()\n", "        s4()\n        extra()\n")


def test_argument_does_not_land_in_a_call_of_another_function() -> None:
    base = (
        "def f(a, b, c, d, e):\n    x = PagedCache(\n        a,\n        b,\n        c,\n"
        "        d,\n        e,\n    )\n    return x\n"
    )
    authored = base.replace("        e,\n", "        e,\n        timeout=3,\n")
    target = base.replace("PagedCache", "ChunkedCache")
    result = move(base, authored, target)
    assert not result.ok
    assert content(result) == target


def test_entry_does_not_land_in_the_dict_of_another_variable() -> None:
    entries = "".join(f"        {n}: a,\n" for n in range(6))
    base = f"def f(a):\n    defaults = {{\n{entries}    }}\n    return use(defaults)\n"
    authored = base.replace("        5: a,\n", "        5: a,\n        6: a,\n")
    target = (
        f"def f(a):\n    defaults = dict(a)\n    limits = {{\n{entries}    }}\n"
        "    return use(defaults, limits)\n"
    )
    result = move(base, authored, target)
    assert not result.ok
    assert content(result) == target


def test_two_proven_places_are_a_conflict_and_not_a_choice() -> None:
    body = "".join(f"    s{n}()\n" for n in range(9))
    base = f"def f(x):\n{body}"
    authored = base.replace("    s1()\n", "    s1()\n    extra()\n")
    wrapper = "def f(x):\n" + "".join(f"    s{n}()\n" for n in range(6)) + "    return _f(x)\n"
    target = f"{wrapper}\n\ndef _f(x):\n{body}"
    result = move(base, authored, target)
    assert statuses(result) == ["conflicted"]
    assert content(result) == target


# Lines that repeat -------------------------------------------------------------------------------


@pytest.mark.parametrize("stated", [3, 4, 5])
def test_eight_single_letter_lines_change_the_fourth_whatever_the_header_says(stated: int) -> None:
    base = b"a\nb\nc\nd\ne\nf\ng\nh\n"
    patch = section(
        "--- a/vllm/l.txt", "+++ b/vllm/l.txt", f"@@ -{stated} +{stated} @@", "-d", "+D"
    )
    result = patchkit.port([patch], {"vllm/l.txt": base}, {"vllm/l.txt": base})
    assert result.tree.files["vllm/l.txt"] == b"a\nb\nc\nD\ne\nf\ng\nh\n"
    assert only(result).target_lines == (4, 4)


def test_a_stated_old_line_that_is_nowhere_is_refused_and_named() -> None:
    patch = section("--- a/vllm/l.txt", "+++ b/vllm/l.txt", "@@ -4 +4 @@", "-x", "+X")
    with pytest.raises(PatchkitError) as caught:
        patchkit.port([patch], {"vllm/l.txt": b"a\nb\nc\nd\n"}, {"vllm/l.txt": b"x\n"})
    assert str(caught.value) == (
        "patch-1:1: vllm/l.txt:4: hunk 1 does not match 'd\\n', expected 'x\\n'"
    )


def block(name: str, changed: bool = False) -> str:
    lines = "".join(f"  k{n}: {9 if changed and n == 4 else 1}\n" for n in range(9))
    return f"{name}:\n{lines}"


def test_text_hunk_stays_with_its_block_when_a_like_one_took_its_line() -> None:
    target = block("b") + block("c")
    result = move(block("a") + block("b"), block("a") + block("b", True), target, "vllm/c.yaml")
    if result.ok:
        assert content(result, "vllm/c.yaml") == block("b", True) + block("c")
    else:
        assert content(result, "vllm/c.yaml") == target


def test_text_hunk_for_a_block_that_is_gone_does_not_land_in_a_like_one() -> None:
    target = block("b") + block("c")
    result = move(block("a") + block("b"), block("a", True) + block("b"), target, "vllm/c.yaml")
    assert statuses(result) == ["conflicted"]
    assert content(result, "vllm/c.yaml") == target


def test_text_that_stood_twice_in_the_base_is_not_unique_because_one_is_gone() -> None:
    result = move(block("a") + block("b"), block("a", True) + block("b"), block("b"), "vllm/c.yaml")
    assert statuses(result) == ["conflicted"]
    assert content(result, "vllm/c.yaml") == block("b")


# Insertions without context ----------------------------------------------------------------------

A = "class A:\n    def f(self):\n        return 1\n"
B = "\n\nclass B:\n    def f(self):\n        return 1\n"
CLASSES = A + B
METHOD_FOR_A = section(
    f"--- a/{PATH}",
    f"+++ b/{PATH}",
    "@@ -3,0 +4,3 @@",
    "+",
    "+    def g(self):",
    "+        return 2",
)
A_WITH_G = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (CLASSES, A_WITH_G + B),
        ("import os\n\n\n" + CLASSES, "import os\n\n\n" + A_WITH_G + B),
        (
            CLASSES.replace("1\n", "1\n\n    def h(self):\n        return 3\n", 1),
            A_WITH_G + "\n    def h(self):\n        return 3\n" + B,
        ),
        (
            CLASSES + "\n    def g(self):\n        return 2\n",
            A_WITH_G + B + "\n    def g(self):\n        return 2\n",
        ),
    ],
    ids=["same", "shifted", "class-grew", "next-class-has-it"],
)
def test_method_without_context_lands_in_its_class(target: str, expected: str) -> None:
    result = patchkit.port([METHOD_FOR_A], {PATH: CLASSES.encode()}, {PATH: target.encode()})
    outcome = only(result)
    assert result.ok
    assert content(result) == expected
    assert (outcome.definition_before, outcome.definition_after) == ("A", "A")


def test_method_without_context_that_the_class_has_is_upstream_and_not_added_twice() -> None:
    target = A_WITH_G + B
    result = patchkit.port([METHOD_FOR_A], {PATH: CLASSES.encode()}, {PATH: target.encode()})
    outcome = only(result)
    assert outcome.status == "already_upstream"
    assert [str(e) for e in outcome.evidence] == [
        "definition added: the target has it in `A.g`, line 5"
    ]
    assert content(result) == target


def test_method_without_context_that_the_class_has_with_another_body_is_a_conflict() -> None:
    target = A_WITH_G.replace("2", "5") + B
    result = patchkit.port([METHOD_FOR_A], {PATH: CLASSES.encode()}, {PATH: target.encode()})
    assert only(result).status == "conflicted"
    assert only(result).reason == "definition `g` would be there twice in A"
    assert content(result) == target


# Verdicts side by side ---------------------------------------------------------------------------


def test_hunk_that_is_upstream_and_hunk_in_conflict_are_told_apart() -> None:
    middle = "\n\n" + "".join(f"def m{n}():\n    return {n}\n\n\n" for n in range(3))
    base = "def first():\n    return 1" + middle + "def last():\n    return 8\n"
    authored = base.replace("return 1\n", "return 10\n", 1).replace("return 8", "return 80")
    target = base.replace("return 1\n", "return 10\n", 1).replace("return 8", "return eight()")
    result = move(base, authored, target)
    assert statuses(result) == ["already_upstream", "conflicted"]
    first, last = result.outcomes
    assert [str(e) for e in first.evidence] == [
        "expression replaced: the target has it in `first`, line 2"
    ]
    assert first.reason is None
    assert (last.definition_before, last.definition_after) == ("last", None)
    assert last.candidates == (f"{PATH}:16 last",)
    assert content(result) == target


def test_three_verdicts_in_one_patch_are_told_apart() -> None:
    filler = "\n\n" + "".join(f"def m{n}():\n    return {n}\n\n\n" for n in range(3))
    base = f"def a():\n    return 10{filler}def b():\n    return 20{filler.replace('m', 'n')}"
    base += "def c():\n    return 30\n"
    authored = base.replace("10", "11").replace("20", "21").replace("30", "31")
    target = base.replace("10", "11").replace("30", "33")
    result = move(base, authored, target)
    assert statuses(result) == ["already_upstream", "placed", "conflicted"]
    assert content(result) == base.replace("10", "11").replace("20", "21").replace("30", "33")
    assert not result.ok


def test_hunks_of_one_file_carry_only_evidence_of_their_own_definition() -> None:
    functions = [f"def {name}():\n    return {n}\n" for n, name in enumerate("fghk", start=1)]
    base = "\n\n".join(functions)
    authored = base.replace("return 1", "return 10").replace("return 4", "return 40")
    result = move(base, authored, "import os\n\n" + base)
    assert [[str(e) for e in o.evidence] for o in result.outcomes] == [
        [
            "all 5 old lines stand once in the file, +2 lines away",
            "expression replaced in `f`: what it replaces is unchanged there",
        ],
        [
            "all 4 old lines stand once in the file, +2 lines away",
            "expression replaced in `k`: what it replaces is unchanged there",
        ],
    ]


# What hangs together -----------------------------------------------------------------------------

DEFINES = "vllm/a.py"
USES = "vllm/b.py"
A_BASE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
A_AUTHORED = A_BASE.replace("    return 1\n", "    return 1\n\n\ndef helper():\n    return 3\n")
B_BASE = "from vllm.a import one\n\n\ndef use():\n    return one()\n"
B_AUTHORED = "from vllm.a import helper, one\n\n\ndef use():\n    return one() + helper()\n"
PAIR = diff(A_BASE, A_AUTHORED, DEFINES) + diff(B_BASE, B_AUTHORED, USES)


def test_import_of_a_function_whose_place_is_gone_is_blocked_by_that_hunk() -> None:
    base = {DEFINES: A_BASE.encode(), USES: B_BASE.encode()}
    gone = "class One:\n    pass\n"
    result = patchkit.port([PAIR], base, {DEFINES: gone.encode(), USES: B_BASE.encode()})
    first, second = result.outcomes
    assert first.status in ("orphaned", "conflicted")
    assert second.status == "blocked"
    assert second.blocked_by == ("patch-1#1",)
    assert content(result, USES) == B_BASE
    assert content(result, DEFINES) == gone


def test_import_in_a_later_patch_is_blocked_by_the_hunk_of_the_earlier_one() -> None:
    base = {DEFINES: A_BASE.encode(), USES: B_BASE.encode()}
    patches = [diff(A_BASE, A_AUTHORED, DEFINES), diff(B_BASE, B_AUTHORED, USES)]
    gone = "class One:\n    pass\n"
    result = patchkit.port(patches, base, {DEFINES: gone.encode(), USES: B_BASE.encode()})
    assert result.outcomes[1].status == "blocked"
    assert result.outcomes[1].blocked_by == ("patch-1#1",)
    assert content(result, USES) == B_BASE


def test_pair_of_hunks_that_both_have_their_place_lands_whole() -> None:
    base = {DEFINES: A_BASE.encode(), USES: B_BASE.encode()}
    result = patchkit.port([PAIR], base, {DEFINES: A_BASE.encode(), USES: b"\n" + B_BASE.encode()})
    assert statuses(result) == ["placed", "placed"]
    assert content(result, DEFINES) == A_AUTHORED
    assert content(result, USES) == "\n" + B_AUTHORED


def test_caller_of_a_parameter_that_did_not_land_is_blocked() -> None:
    base = "def f(a):\n    return a\n\n\ndef m():\n    return 0\n\n\ndef n():\n    return 0\n\n\n"
    base += "def g():\n    return f(1)\n"
    authored = base.replace("def f(a):", "def f(a, b=0):").replace("f(1)", "f(1, b=2)")
    target = base.replace("def f(a):", "def f(*a):")
    result = move(base, authored, target, context=1)
    assert statuses(result) == ["conflicted", "blocked"]
    assert result.outcomes[1].blocked_by == ("patch-1#1",)
    assert content(result) == target


# Line endings and last lines ---------------------------------------------------------------------

PLAIN = "def f(x):\n    a = 1\n    b = 2\n    return a\n\n\ndef g():\n    return 0\n"
CHANGED = PLAIN.replace("b = 2", "b = 3")


def crlf(source: str) -> bytes:
    return source.replace("\n", "\r\n").encode()


def test_crlf_target_keeps_its_line_endings_and_the_lines_are_counted_right() -> None:
    target = "import os\n" + PLAIN
    result = patchkit.port([diff(PLAIN, CHANGED)], {PATH: PLAIN.encode()}, {PATH: crlf(target)})
    assert result.ok
    assert result.tree.files[PATH] == crlf("import os\n" + CHANGED)
    assert only(result).target_lines == (4, 4)


def test_crlf_base_lands_in_an_lf_target_with_its_line_endings() -> None:
    target = "import os\n" + PLAIN
    result = patchkit.port([diff(PLAIN, CHANGED)], {PATH: crlf(PLAIN)}, {PATH: target.encode()})
    assert result.ok
    assert result.tree.files[PATH] == ("import os\n" + CHANGED).encode()


def test_crlf_base_and_target_stay_crlf() -> None:
    target = "import os\n" + PLAIN
    result = patchkit.port([diff(PLAIN, CHANGED)], {PATH: crlf(PLAIN)}, {PATH: crlf(target)})
    assert result.ok
    assert result.tree.files[PATH] == crlf("import os\n" + CHANGED)


def test_a_line_ending_that_differs_elsewhere_in_the_target_stays() -> None:
    mixed = PLAIN.replace("return 0\n", "return 0\r\n")
    result = patchkit.port([diff(PLAIN, CHANGED)], {PATH: PLAIN.encode()}, {PATH: mixed.encode()})
    assert result.ok
    assert content(result) == CHANGED.replace("return 0\n", "return 0\r\n")


LAST = PLAIN.replace("return 0", "return 5")


@pytest.mark.parametrize(
    ("base", "authored", "target", "expected"),
    [
        (PLAIN[:-1], LAST[:-1], "import os\n" + PLAIN[:-1], "import os\n" + LAST[:-1]),
        (PLAIN[:-1], LAST[:-1], "import os\n" + PLAIN, "import os\n" + LAST),
        (PLAIN, LAST, "import os\n" + PLAIN[:-1], "import os\n" + LAST[:-1]),
    ],
    ids=["neither", "base-only", "target-only"],
)
def test_last_line_without_newline_is_changed_and_keeps_its_end(
    base: str, authored: str, target: str, expected: str
) -> None:
    result = move(base, authored, target)
    assert result.ok
    assert content(result) == expected


# Whole files -------------------------------------------------------------------------------------

OTHER = {"vllm/other.py": b"y = 1\n"}
NEW_FILE = section(
    "diff --git a/vllm/n.py b/vllm/n.py", "new file mode 100755", "--- /dev/null",
    "+++ b/vllm/n.py", "@@ -0,0 +1 @@", "+x = 1",
)  # fmt: skip


def test_new_file_lands_with_its_mode() -> None:
    result = patchkit.port([NEW_FILE], OTHER, OTHER)
    outcome = only(result)
    assert (outcome.status, outcome.method) == ("placed", "new_file")
    assert [str(e) for e in outcome.evidence] == ["the target has no vllm/n.py"]
    assert outcome.target_lines == (1, 1)
    assert result.tree.files["vllm/n.py"] == b"x = 1\n"
    assert result.tree.mode("vllm/n.py") == 0o100755


def test_new_file_that_upstream_has_with_other_content_is_a_conflict() -> None:
    result = patchkit.port([NEW_FILE], OTHER, {**OTHER, "vllm/n.py": b"x = 2\n"})
    outcome = only(result)
    assert outcome.status == "conflicted"
    assert outcome.reason == "the target has a vllm/n.py of its own, with other content"
    assert outcome.candidates == ("vllm/n.py",)
    assert result.tree.files["vllm/n.py"] == b"x = 2\n"


def test_new_file_that_upstream_has_word_for_word_is_upstream() -> None:
    target = SourceTree({**OTHER, "vllm/n.py": b"x = 1\n"}, {"vllm/n.py": 0o100755})
    result = patchkit.port([NEW_FILE], OTHER, target)
    assert only(result).status == "already_upstream"
    assert [str(e) for e in only(result).evidence] == [
        "the target has vllm/n.py with the same content"
    ]


def test_new_executable_that_upstream_has_as_a_plain_file_does_not_lose_its_mode_in_silence() -> (
    None
):
    result = patchkit.port([NEW_FILE], OTHER, {**OTHER, "vllm/n.py": b"x = 1\n"})
    assert not result.ok or result.tree.mode("vllm/n.py") == 0o100755


SMALL = "import os\n\n\ndef f():\n    return 1\n"
GROWN = "import os\n\n\ndef zero():\n    return 0\n\n\ndef f():\n    return 1\n"
DELETION = section(
    "diff --git a/vllm/a.py b/vllm/a.py", "deleted file mode 100644", "--- a/vllm/a.py",
    "+++ /dev/null", "@@ -1,5 +0,0 @@", *("-" + line for line in SMALL.splitlines()),
)  # fmt: skip


def test_deletion_of_an_unchanged_file_lands() -> None:
    result = patchkit.port(
        [DELETION], {"vllm/a.py": SMALL.encode()}, {**OTHER, "vllm/a.py": SMALL.encode()}
    )
    assert (only(result).status, only(result).method) == ("placed", "delete_file")
    assert dict(result.tree.files) == OTHER


def test_deletion_of_a_file_that_changed_upstream_is_a_conflict() -> None:
    target = {"vllm/a.py": GROWN.encode()}
    result = patchkit.port([DELETION], {"vllm/a.py": SMALL.encode()}, target)
    assert only(result).status == "conflicted"
    assert (
        only(result).reason
        == "vllm/a.py has changed upstream; what would be lost has to be looked at"
    )
    assert dict(result.tree.files) == target


def test_deletion_is_upstream_only_where_the_whole_tree_is_known() -> None:
    base = {"vllm/a.py": SMALL.encode()}
    whole = patchkit.port([DELETION], base, SourceTree(OTHER))
    part = patchkit.port([DELETION], base, OTHER)
    assert only(whole).status == "already_upstream"
    assert [str(e) for e in only(whole).evidence] == ["the target has no vllm/a.py"]
    assert only(part).status == "orphaned"
    assert only(part).reason == "vllm/a.py is not among the files given"


RENAME = section(
    "diff --git a/vllm/a.py b/vllm/b.py", "similarity index 90%", "rename from vllm/a.py",
    "rename to vllm/b.py", "--- a/vllm/a.py", "+++ b/vllm/b.py", "@@ -2,4 +2,4 @@", " ", " ",
    " def f():", "-    return 1", "+    return 2",
)  # fmt: skip


def test_rename_with_a_hunk_takes_the_targets_content_along() -> None:
    result = patchkit.port([RENAME], {"vllm/a.py": SMALL.encode()}, {"vllm/a.py": GROWN.encode()})
    outcome = only(result)
    assert result.ok
    assert dict(result.tree.files) == {"vllm/b.py": GROWN.replace("1", "2").encode()}
    assert (outcome.path_before, outcome.path_after) == ("vllm/a.py", "vllm/b.py")
    assert outcome.target_lines == (9, 9)


def test_rename_whose_hunk_conflicts_leaves_the_file_where_it_is() -> None:
    target = {"vllm/a.py": SMALL.replace("1", "7").encode()}
    result = patchkit.port([RENAME], {"vllm/a.py": SMALL.encode()}, target)
    assert only(result).status == "conflicted"
    assert dict(result.tree.files) == target


def test_rename_onto_a_file_of_upstreams_own_is_a_conflict() -> None:
    target = {"vllm/a.py": SMALL.encode(), "vllm/b.py": b"x = 1\n"}
    result = patchkit.port([RENAME], {"vllm/a.py": SMALL.encode()}, target)
    assert only(result).reason == "the target has a vllm/b.py of its own"
    assert dict(result.tree.files) == target


def test_rename_that_empties_the_file_leaves_it_empty() -> None:
    patch = section(
        "diff --git a/vllm/a.txt b/vllm/b.txt", "similarity index 0%", "rename from vllm/a.txt",
        "rename to vllm/b.txt", "--- a/vllm/a.txt", "+++ b/vllm/b.txt", "@@ -1 +0,0 @@", "-x",
    )  # fmt: skip
    result = patchkit.port([patch], {"vllm/a.txt": b"x\n"}, {"vllm/a.txt": b"x\n"})
    assert result.ok
    assert dict(result.tree.files) == {"vllm/b.txt": b""}


def test_rename_and_edit_that_upstream_made_as_well_is_upstream() -> None:
    target = {"vllm/b.py": SMALL.replace("1", "2").encode()}
    result = patchkit.port([RENAME], {"vllm/a.py": SMALL.encode()}, target)
    assert statuses(result) == ["already_upstream"]
    assert dict(result.tree.files) == target


def test_copy_does_not_drop_what_upstream_added_to_its_source() -> None:
    patch = RENAME.replace(b"rename from", b"copy from").replace(b"rename to", b"copy to")
    target = {"vllm/a.py": GROWN.encode()}
    result = patchkit.port([patch], {"vllm/a.py": SMALL.encode()}, target)
    if result.ok:
        assert result.tree.files["vllm/b.py"] == GROWN.replace("1", "2").encode()
    else:
        assert dict(result.tree.files) == target


MODE = section("diff --git a/vllm/a.py b/vllm/a.py", "old mode 100644", "new mode 100755")


def test_mode_change_lands_on_changed_content() -> None:
    result = patchkit.port([MODE], {"vllm/a.py": SMALL.encode()}, {"vllm/a.py": GROWN.encode()})
    assert (only(result).status, only(result).method) == ("placed", "metadata")
    assert dict(result.tree.files) == {"vllm/a.py": GROWN.encode()}
    assert result.tree.mode("vllm/a.py") == 0o100755


def test_mode_that_upstream_set_is_upstream() -> None:
    target = SourceTree({"vllm/a.py": GROWN.encode()}, {"vllm/a.py": 0o100755})
    result = patchkit.port([MODE], {"vllm/a.py": SMALL.encode()}, target)
    assert only(result).status == "already_upstream"
    assert [str(e) for e in only(result).evidence] == ["vllm/a.py has mode 100755 already"]


def test_mode_of_a_file_whose_hunk_conflicts_is_not_changed() -> None:
    patch = MODE + diff(SMALL, SMALL.replace("1", "2"), "vllm/a.py")
    target = {"vllm/a.py": SMALL.replace("1", "7").encode()}
    result = patchkit.port([patch], {"vllm/a.py": SMALL.encode()}, target)
    assert statuses(result) == ["conflicted"]
    assert result.tree.mode("vllm/a.py") == 0o100644


# Trees and paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    ["vllm/v1/core/x.py", "v1/core/x.py", "usr/lib/python3/site-packages/vllm/v1/core/x.py"],
)
def test_path_is_found_in_the_tree_however_deep_it_is_rooted(written: str) -> None:
    patch = diff(PLAIN, CHANGED, written)
    result = patchkit.port([patch], {PATH: PLAIN.encode()}, {PATH: PLAIN.encode()})
    assert only(result).path_before == PATH
    assert content(result) == CHANGED


def test_partial_target_without_the_file_is_orphaned_and_says_so() -> None:
    result = patchkit.port([diff(PLAIN, CHANGED)], {PATH: PLAIN.encode()}, OTHER)
    outcome = only(result)
    assert outcome.status == "orphaned"
    assert dict(result.tree.files) == OTHER


def test_import_from_outside_a_partial_tree_is_placed_and_recorded_as_not_checked() -> None:
    authored = "from vllm.elsewhere import thing\n\n\n" + PLAIN + "\n\nthing()\n"
    result = move(PLAIN, authored, "\n" + PLAIN)
    assert result.ok
    assert any("vllm.elsewhere" in text for o in result.outcomes for text in o.not_checked)


def test_import_that_a_whole_target_does_not_have_is_refused() -> None:
    authored = "from vllm.elsewhere import thing\n\n\n" + PLAIN + "\n\nthing()\n"
    base = {"vllm/__init__.py": b"", PATH: PLAIN.encode(), "vllm/elsewhere.py": b"thing = print\n"}
    target = {"vllm/__init__.py": b"", PATH: PLAIN.encode()}
    result = patchkit.port([diff(PLAIN, authored)], SourceTree(base), SourceTree(target))
    assert not result.ok
    assert "imports `vllm.elsewhere" in (result.outcomes[0].reason or "")
    assert content(result) == PLAIN


# Input that is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (b"", "patch-1:1: file is empty, expected a unified diff"),
        (
            section(f"--- a/{PATH}", f"+++ b/{PATH}", "@@ -1 +1 @@", "-x = 1", "+x = 1"),
            f"patch-1:1: {PATH}: patch changes nothing",
        ),
    ],
    ids=["empty", "nothing-changed"],
)
def test_patch_that_changes_nothing_is_refused(patch: bytes, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        patchkit.port([patch], {PATH: b"x = 1\n"}, {PATH: b"x = 1\n"})
    assert str(caught.value) == message


def test_new_file_that_the_base_has_is_a_mistake_in_the_input() -> None:
    with pytest.raises(PatchkitError) as caught:
        patchkit.port([NEW_FILE], {"vllm/n.py": b"x = 1\n"}, OTHER)
    assert str(caught.value) == "patch-1:1: adds vllm/n.py, which the base already has"
    assert caught.value.hint == "choose the base that the patch was cut against"


def test_hunks_whose_only_places_overlap_in_the_target_are_not_both_placed() -> None:
    base = "def a():\n    p()\n    q()\n    r()\n\n\ndef b():\n    q()\n    r()\n    s()\n"
    patch = section(
        f"--- a/{PATH}", f"+++ b/{PATH}", "@@ -2,3 +2,2 @@", "     p()", "-    q()", "     r()",
        "@@ -8,3 +7,1 @@", "-    q()", "-    r()", "     s()",
    )  # fmt: skip
    target = "import os\n\n\ndef a():\n    p()\n    q()\n    r()\n    s()\n"
    result = patchkit.port([patch], {PATH: base.encode()}, {PATH: target.encode()})
    assert result.outcomes[1].status in ("conflicted", "orphaned")
    assert content(result) in (target, target.replace("    q()\n", ""))


@pytest.mark.parametrize(
    "line",
    ["y = x" + ".a()" * 400, "y = " + "lambda: " * 300 + "1", "y = 0x" + "f" * 5000,
     "y = " + " + ".join(["x"] * 900), "y = " + "(" * 90 + "1" + ",)" * 90],
    ids=["method-chain", "lambdas", "huge-integer", "long-sum", "nested-tuples"],
)  # fmt: skip
@pytest.mark.parametrize("where", ["target", "both"])
def test_code_that_python_reads_never_ends_in_a_crash(line: str, where: str) -> None:
    extra = f"\n\nx = None\n{line}\n"
    base = PLAIN + extra if where == "both" else PLAIN
    authored = CHANGED + extra if where == "both" else CHANGED
    result = move(base, authored, "import os\n" + PLAIN + extra)
    assert statuses(result) in (["placed"], ["conflicted"])
