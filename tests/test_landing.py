"""A patch as a whole: names, imports and partners hold, or the hunks that lack them come out."""

from __future__ import annotations

from difflib import unified_diff

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


def test_optional_parameter_lands_without_its_caller() -> None:
    base = {A: "def f(a):\n    return a\n", B: "def use():\n    x = 1\n    return f(x)\n"}
    authored = {
        A: "def f(a, b=None):\n    return a\n",
        B: "def use():\n    x = 1\n    return f(x, b=2)\n",
    }
    result = move(base, authored, {A: base[A], B: "def use():\n    return g()\n"})
    assert str(result.outcomes[0].status) == "placed"
    assert result.tree.files[A].decode() == authored[A]


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
