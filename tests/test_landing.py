"""A patch as a whole: names, imports and partners hold, or the hunks that lack them come out."""

from __future__ import annotations

from difflib import unified_diff

import pytest

import patchkit
from patchkit import RebaseResult, SourceTree

A, B, C = "vllm/a.py", "vllm/b.py", "vllm/c.py"


def diff(old: str, new: str, path: str, context: int = 3) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
        n=context,
    )
    return "".join(lines).encode()


def move(
    base: dict[str, str], authored: dict[str, str], target: dict[str, str], whole: bool = False
) -> RebaseResult:
    """Move one patch over several files; `whole` trees are known to be complete."""
    patch = b"".join(diff(base[p], authored[p], p) for p in base if base[p] != authored[p])
    old = {p: c.encode() for p, c in base.items()}
    new = {p: c.encode() for p, c in target.items()}
    if whole:
        return patchkit.port([patch], SourceTree(old), SourceTree(new))
    return patchkit.port([patch], old, new)


def verdicts(result: RebaseResult) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(o.status), o.blocked_by) for o in result.outcomes]


MODULE_A = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
WITH_HELPER = MODULE_A.replace("\n\ndef two", "\n\ndef helper():\n    return 3\n\n\ndef two")
MODULE_B = "from vllm.a import one\n\n\ndef use():\n    x = one()\n    return x\n"
USES_HELPER = (
    "from vllm.a import helper, one\n\n\ndef use():\n    x = one() + helper()\n    return x\n"
)
MODULE_C = "from vllm.b import use\n\n\ndef top():\n    return use()\n"


def test_chain_of_hunks_falls_with_the_first_and_the_rest_stays() -> None:
    base = {A: MODULE_A, B: MODULE_B, C: MODULE_C}
    authored = {A: WITH_HELPER, B: USES_HELPER, C: MODULE_C.replace("use()\n", "use() + 1\n")}
    target = {A: "class One: pass\n", B: MODULE_B, C: MODULE_C}
    result = move(base, authored, target)
    assert [status for status, _ in verdicts(result)][1:] == ["blocked", "placed"]
    assert result.outcomes[1].blocked_by == ("patch-1#1",)
    assert result.tree.files[B].decode() == MODULE_B
    assert result.tree.files[C].decode() == authored[C]


def test_blocked_hunk_holds_no_trace_of_a_landing() -> None:
    base, authored = {A: MODULE_A, B: MODULE_B}, {A: WITH_HELPER, B: USES_HELPER}
    outcome = move(base, authored, {A: "class One: pass\n", B: MODULE_B}).outcomes[1]
    assert (outcome.path_after, outcome.definition_after, outcome.method) == (None, None, None)
    assert (outcome.target_lines, outcome.evidence) == (None, ())
    assert outcome.reason is not None
    assert "patch-1#1" in outcome.reason or "helper" in outcome.reason


def test_partner_that_is_upstream_already_blocks_nothing() -> None:
    base, authored = {A: MODULE_A, B: MODULE_B}, {A: WITH_HELPER, B: USES_HELPER}
    result = move(base, authored, {A: WITH_HELPER, B: MODULE_B})
    assert verdicts(result) == [("already_upstream", ()), ("placed", ())]
    assert result.tree.files[B].decode() == USES_HELPER


def test_caller_is_blocked_where_the_method_that_it_calls_did_not_land() -> None:
    base = {
        A: "class K:\n    def one(self):\n        return 1\n",
        B: "def use(k):\n    return k.one()\n",
    }
    authored = {
        A: base[A] + "\n    def extra(self):\n        return 2\n",
        B: base[B].replace("k.one()", "k.one() + k.extra()"),
    }
    result = move(base, authored, {A: "x = 1\n", B: base[B]})
    assert verdicts(result)[1] == ("blocked", ("patch-1#1",))
    assert result.tree.files[B].decode() == base[B]


def test_required_parameter_is_blocked_where_its_caller_did_not_land() -> None:
    base = {A: "def f(a):\n    return a\n", B: "def use():\n    x = 1\n    return f(x)\n"}
    authored = {
        A: "def f(a, b):\n    return a\n",
        B: "def use():\n    x = 1\n    return f(x, b=2)\n",
    }
    result = move(base, authored, {A: base[A], B: "def use():\n    return g()\n"})
    assert verdicts(result)[0] == ("blocked", ("patch-1#2",))
    assert result.tree.files[A].decode() == base[A]


# What only introduces something falls with those that were to use it

F = "def f(a):\n    return a\n"
USES_F = "def use():\n    x = 1\n    return f(x)\n"
REWRITTEN = "def use():\n    return g()\n"


def test_optional_parameter_falls_with_the_only_call_that_passes_it() -> None:
    base = {A: F, B: USES_F}
    authored = {A: F.replace("a):", "a, b=None):"), B: USES_F.replace("f(x)", "f(x, b=2)")}
    result = move(base, authored, {A: F, B: REWRITTEN})
    assert verdicts(result)[0] == ("blocked", ("patch-1#2",))
    assert result.outcomes[0].reason == "`b` is for patch-1#2, which did not land"
    assert result.tree.files[A].decode() == F
    assert verdicts(move(base, authored, base)) == [("placed", ()), ("placed", ())]


def test_optional_parameter_that_its_function_reads_lands_without_its_caller() -> None:
    base = {A: F, B: USES_F}
    authored = {
        A: "def f(a, b=None):\n    return a if b is None else b\n",
        B: USES_F.replace("f(x)", "f(x, b=2)"),
    }
    result = move(base, authored, {A: F, B: REWRITTEN})
    assert verdicts(result)[0] == ("placed", ())
    assert result.tree.files[A].decode() == authored[A]


def test_definition_falls_with_its_only_caller_and_its_import() -> None:
    base, authored = {A: MODULE_A, B: MODULE_B}, {A: WITH_HELPER, B: USES_HELPER}
    target = {A: MODULE_A, B: "from vllm.a import one\n\n\nclass Use:\n    x = one()\n"}
    result = move(base, authored, target)
    assert verdicts(result)[0] == ("blocked", ("patch-1#2",))
    assert result.outcomes[0].reason == "`helper` is for patch-1#2, which did not land"
    assert {p: c.decode() for p, c in result.tree.files.items()} == target


def test_definition_with_another_caller_that_lands_stays() -> None:
    base = {A: MODULE_A, B: MODULE_B, C: MODULE_C}
    uses = (
        "from vllm.a import helper\nfrom vllm.b import use\n\n\n"
        "def top():\n    return use(helper())\n"
    )
    authored = {A: WITH_HELPER, B: USES_HELPER, C: uses}
    target = {**base, B: "from vllm.a import one\n\n\nclass Use:\n    x = one()\n"}
    result = move(base, authored, target)
    assert [status for status, _ in verdicts(result)] == ["placed", "orphaned", "placed"]


def test_definition_that_nothing_in_the_patch_uses_stays() -> None:
    base = {A: MODULE_A, B: MODULE_B}
    authored = {A: WITH_HELPER, B: MODULE_B.replace("x = one()", "x = one() + 1")}
    target = {A: MODULE_A, B: "from vllm.a import one\n\n\nclass Use:\n    x = one()\n"}
    assert verdicts(move(base, authored, target))[0] == ("placed", ())


LONG = "import os\n" + "\n" * 8 + "def use():\n    x = os.one()\n    return x\n"


def test_import_falls_with_its_only_use_in_the_file() -> None:
    authored = LONG.replace("import os\n", "import os\nimport re\n")
    authored = authored.replace("os.one()", "os.one(re.compile)")
    target = LONG.replace("    x = os.one()\n    return x\n", "    return os.two()\n")
    result = move({A: LONG}, {A: authored}, {A: target})
    assert verdicts(result) == [("blocked", ("patch-1#2",)), ("conflicted", ())]
    assert result.tree.files[A].decode() == target


K = "class K:\n    def one(self):\n        return 1\n"


def test_method_falls_with_its_only_caller_unless_upstream_knows_the_name() -> None:
    base = {A: K, B: "def use(k):\n    return k.one()\n"}
    extra = "\n    def extra(self):\n        return 2\n"
    authored = {A: K + extra, B: base[B].replace("k.one()", "k.one() + k.extra()")}
    target = {A: K, B: "class Use: pass\n"}
    result = move(base, authored, target)
    assert verdicts(result)[0] == ("blocked", ("patch-1#2",))
    known = {C: "def run(k):\n    return k.extra()\n"}
    result = move({**base, **known}, {**authored, **known}, {**target, **known})
    assert verdicts(result)[0] == ("placed", ())


def test_definition_that_is_registered_is_used_by_whoever_registers_it() -> None:
    base, authored = {A: MODULE_A, B: MODULE_B}, {A: WITH_HELPER, B: USES_HELPER}
    target = {A: MODULE_A, B: "class Use: pass\n"}
    authored[A] = WITH_HELPER.replace("def helper", "@one\ndef helper")
    assert verdicts(move(base, authored, target))[0] == ("placed", ())
    authored[A] = WITH_HELPER.replace("def helper", "@functools.cache\ndef helper")
    assert verdicts(move(base, authored, target))[0] == ("blocked", ("patch-1#2",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return 1\n", "    return 9\n"),
        ("    log(1)\n    return 1\n", "    return 1\n"),
        ("    return 1\n", "    log(1)\n    return 1\n"),
    ],
)
def test_hunk_that_does_something_besides_stays(old: str, new: str) -> None:
    base = {A: MODULE_A.replace("    return 1\n", old), B: MODULE_B}
    authored = {A: WITH_HELPER.replace("    return 1\n", new), B: USES_HELPER}
    result = move(base, authored, {A: base[A], B: "class Use: pass\n"})
    assert verdicts(result)[0] == ("placed", ())
    assert result.tree.files[A].decode() == authored[A]


def test_variable_of_the_same_name_in_another_file_is_no_use() -> None:
    base = {A: MODULE_A, B: "def use(helper):\n    return 1\n"}
    authored = {A: WITH_HELPER, B: "def use(helper):\n    return helper\n"}
    result = move(base, authored, {A: MODULE_A, B: "class Use: pass\n"})
    assert [status for status, _ in verdicts(result)] == ["placed", "orphaned"]


KERNEL = "def kernel(x_ptr, N):\n    pass\n"
LAUNCH = "def launch(x, n):\n    grid = (n,)\n    kernel[grid](x, n)\n    return x\n"


@pytest.mark.parametrize("argument", ["S=1", "1"])
def test_kernel_and_its_launch_stand_or_fall_together(argument: str) -> None:
    base = {A: KERNEL, B: LAUNCH}
    launch = LAUNCH.replace("(x, n)\n    r", f"(x, n, {argument})\n    r")
    authored = {A: KERNEL.replace("N)", "N, S)"), B: launch}
    result = move(base, authored, {A: KERNEL, B: "class Launch:\n    pass\n"})
    assert verdicts(result) == [("blocked", ("patch-1#2",)), ("orphaned", ())]
    result = move(base, authored, {A: "class Kernel:\n    pass\n", B: LAUNCH})
    assert verdicts(result) == [("orphaned", ()), ("blocked", ("patch-1#1",))]


def test_argument_of_a_constructor_falls_with_its_parameter_or_field() -> None:
    init = "class Spec:\n    def __init__(self, a):\n        self.a = a\n"
    data = "@dataclass\nclass Spec:\n    a: int\n"
    call = "def make():\n    return Spec(1)\n"
    target = {A: "class Other:\n    pass\n", B: call}
    for old, new in (
        (init, init.replace("a):", "a, b=0):")),
        (data, data + "    b: int = 0\n"),
    ):
        authored = {A: new, B: call.replace("Spec(1)", "Spec(1, b=2)")}
        result = move({A: old, B: call}, authored, target)
        assert verdicts(result)[1] == ("blocked", ("patch-1#1",))


def test_argument_by_position_does_not_count_self() -> None:
    old = "class K:\n    def m(self, a):\n        return a\n"
    call = "def use(k):\n    return k.m(1)\n"
    authored = {A: old.replace("a):", "a, b=0):"), B: call.replace("m(1)", "m(1, 2)")}
    result = move({A: old, B: call}, authored, {A: "class Other:\n    pass\n", B: call})
    assert verdicts(result)[1] == ("blocked", ("patch-1#1",))


def test_import_of_a_name_that_the_whole_target_lost_is_refused() -> None:
    base = {A: WITH_HELPER, B: MODULE_B, "vllm/__init__.py": ""}
    authored = {**base, B: USES_HELPER}
    target = {A: MODULE_A, B: MODULE_B, "vllm/__init__.py": ""}
    result = move(base, authored, target, whole=True)
    assert verdicts(result) == [("conflicted", ())]
    assert result.outcomes[0].reason == ("imports `vllm.a.helper`, which the target does not have")
    assert result.tree.files[B].decode() == MODULE_B


def test_guarded_import_may_fail() -> None:
    base = {B: "def use():\n    return 1\n", "vllm/__init__.py": ""}
    guard = "try:\n    from vllm.gone import x\nexcept ImportError:\n    x = None\n\n\n"
    authored = {**base, B: guard + base[B]}
    result = move(base, authored, base, whole=True)
    assert verdicts(result) == [("placed", ())]


def test_name_that_the_patch_itself_leaves_unresolved_is_not_refused() -> None:
    base = {B: "def use():\n    return 1\n"}
    authored = {B: "def use():\n    return undefined_anywhere\n"}
    result = move(base, authored, {B: "import os\n\n\n" + base[B]})
    assert verdicts(result) == [("placed", ())]


def test_removal_of_a_binding_that_upstream_began_to_use_is_refused() -> None:
    base = {B: "import os\nimport re\n\n\ndef use():\n    return re\n"}
    authored = {B: "import re\n\n\ndef use():\n    return re\n"}
    target = {B: "import os\nimport re\n\n\ndef use():\n    return re, os.sep\n"}
    result = move(base, authored, target)
    assert verdicts(result) == [("conflicted", ())]
    assert result.outcomes[0].reason == "name `os` is not bound in use (line 5)"
    assert result.tree.files[B].decode() == target[B]


def test_import_that_upstream_has_under_another_statement_is_not_added_twice() -> None:
    base = {B: "import os\n\n\ndef use():\n    return os\n"}
    authored = {B: "import os\nimport re\n\n\ndef use():\n    return os\n"}
    target = {B: "import os\n\n\ndef use():\n    return os\n\n\nimport re\n"}
    result = move(base, authored, target)
    assert result.tree.files[B].decode().count("import re") == 1


NEW = "vllm/new.py"


def added(path: str, text: str) -> bytes:
    lines = text.splitlines(keepends=True)
    head = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    return (head + "".join("+" + line for line in lines)).encode()


@pytest.mark.parametrize(
    "line",
    ["from vllm.new import one", "import vllm.new", "from vllm import new", "from .new import one"],
)
def test_import_of_a_new_file_falls_where_upstream_has_another_of_that_name(line: str) -> None:
    patch = added(NEW, "def one():\n    return 1\n") + diff(MODULE_A, f"{line}\n" + MODULE_A, A)
    base = {A: MODULE_A.encode()}
    target = {**base, NEW: b"def one(a, b):\n    return a + b\n"}
    result = patchkit.port([patch], base, target)
    assert verdicts(result) == [("conflicted", ()), ("blocked", ("patch-1#1",))]
    assert result.tree.files[A] == base[A]


def test_import_of_the_same_name_from_elsewhere_is_no_partner() -> None:
    base = {A: MODULE_A, B: "x = 1\n", C: MODULE_C}
    authored = {
        A: MODULE_A,
        B: "from vllm.a import two\n\nx = two()\n",
        C: "from vllm.a import two\n" + MODULE_C.replace("use()\n", "use() + two()\n"),
    }
    result = move(base, authored, {A: MODULE_A, B: "class X: pass\n", C: MODULE_C})
    assert [status for status, _ in verdicts(result)] == ["conflicted", "placed"]


def test_name_that_another_file_would_have_bound_is_no_partner() -> None:
    read = "from vllm.a import one, two\n\n\ndef use():\n    x = one()\n    return x, two\n"
    base = {A: "x = 1\n", B: read}
    authored = {
        A: "from vllm.b import two\n\nx = two\n",
        B: read.replace("x = one()", "x = one() + two()"),
    }
    target = {A: "class X: pass\n", B: MODULE_B}
    result = move(base, authored, target)
    assert verdicts(result) == [("conflicted", ()), ("conflicted", ())]


# What is taken away waits for its users

OLD = "def keep(x):\n    return x\n\n\ndef old(x):\n    return x\n\n\ndef tail(x):\n    return x\n"
USER = (
    "from vllm.a import keep, old\n\n\ndef go(x):\n    a = x\n    b = a\n    c = b\n    d = c\n"
    "    return old(d)\n"
)


def test_definition_stays_while_a_hunk_that_still_uses_it_did_not_land() -> None:
    base = {A: OLD, B: USER}
    authored = {
        A: OLD.replace("def old(x):\n    return x\n\n\n", ""),
        B: USER.replace("keep, old", "keep").replace("old(d)", "keep(d)"),
    }
    target = {A: OLD, B: USER.replace("return old(d)", "return old(d) + old(2)")}
    result = move(base, authored, target)
    assert verdicts(result)[0] == ("blocked", ("patch-1#2",))
    assert result.outcomes[0].reason == (
        "takes away `old`, which stays in use where patch-1#2 did not land"
    )
    assert {p: c.decode() for p, c in result.tree.files.items()} == target
    assert [status for status, _ in verdicts(move(base, authored, base))] == ["placed"] * 3


def test_parameter_stays_while_a_call_that_passes_it_did_not_land() -> None:
    base = {A: "def f(a, b):\n    return a\n", B: "def use():\n    x = 1\n    return f(x, b=2)\n"}
    authored = {A: F, B: USES_F}
    result = move(base, authored, {A: base[A], B: REWRITTEN})
    assert verdicts(result)[0] == ("blocked", ("patch-1#2",))
    assert result.tree.files[A].decode() == base[A]


def test_new_function_lands_where_one_of_its_callers_does_not() -> None:
    helper = MODULE_A + "\n\ndef helper(x):\n    return x\n"
    uses = (
        "from vllm.a import helper, one\n\n\ndef use():\n    x = one() + helper(1)\n    return x\n"
    )
    top = "from vllm.a import helper\n" + MODULE_C.replace("use()\n", "use() + helper(2)\n")
    base = {A: MODULE_A, B: MODULE_B, C: MODULE_C}
    target = {**base, B: "from vllm.a import one\n\n\nclass Use:\n    x = one()\n"}
    result = move(base, {A: helper, B: uses, C: top}, target)
    assert [status for status, _ in verdicts(result)] == ["placed", "orphaned", "placed"]


@pytest.mark.parametrize(
    ("path", "there"), [(NEW, "vllm/new/__init__.py"), ("vllm/new/__init__.py", NEW)]
)
def test_new_module_and_a_package_of_its_name_are_in_conflict(path: str, there: str) -> None:
    result = patchkit.port([added(path, "x = 1\n")], {A: b""}, {A: b"", there: b"y = 1\n"})
    assert result.outcomes[0].reason == (
        f"the target has {there}, which is the same module to an import"
    )


def test_rename_is_not_dropped_where_its_edit_is_upstream() -> None:
    head = f"diff --git a/{A} b/{NEW}\nsimilarity index 90%\nrename from {A}\nrename to {NEW}\n"
    patch = head.encode() + diff(MODULE_A, WITH_HELPER, A).replace(
        b"+++ b/vllm/a", b"+++ b/vllm/new"
    )
    result = patchkit.port([patch], {A: MODULE_A.encode()}, {A: WITH_HELPER.encode()})
    assert verdicts(result) == [("conflicted", ())]
    assert result.outcomes[0].reason == (
        f"the target has its edits in {A} already, and not the name {NEW}"
    )


def test_mode_is_not_dropped_where_its_edit_is_upstream() -> None:
    head = f"diff --git a/{A} b/{A}\nold mode 100644\nnew mode 100755\n"
    patch = head.encode() + diff(MODULE_A, WITH_HELPER, A)
    base = {A: MODULE_A.encode()}
    result = patchkit.port([patch], base, {A: WITH_HELPER.encode()})
    assert result.outcomes[0].reason == f"the target has its edits in {A} already, and not the mode"
    there = SourceTree({A: WITH_HELPER.encode()}, {A: 0o100755}, partial=True)
    assert verdicts(patchkit.port([patch], base, there)) == [("already_upstream", ())]
