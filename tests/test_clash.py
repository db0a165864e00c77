"""Upstream's different change of the same place: flagged, with what each side says there."""

from __future__ import annotations

import pytest

import patchkit
from patchkit.cli.render_outcome import why_lines
from patchkit.diff import parse_patch
from patchkit.outcome import Clash, HunkOutcome, Status
from patchkit.placing.clash import clash_of
from patchkit.report import outcome_json
from patchkit.repository.note import OpenHunk, conflict_note
from patchkit.syntax.align import Alignment
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import Change, lift
from patchkit.tree import SourceTree
from tests.moves import PATH, move

BASE = "import os\n\n\ndef f(x):\n    a(x)\n    b(x)\n    return x\n"
ENUM = "from enum import Enum\n\n\nclass K(Enum):\n    A = 1\n    B = 2\n"
DICT = "x = {\n    'a': 1,\n    'b': 2,\n}\n"
NEW_FILE = b"--- /dev/null\n+++ b/vllm/n.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2\n"


def outcome(base: str, authored: str, target: str) -> HunkOutcome:
    result = move(base, authored, target)
    assert dict(result.tree.files) == {PATH: target.encode()}
    return result.outcomes[0]


def with_guard(test: str, value: str) -> str:
    return BASE.replace("    b(x)\n", f"    if {test}:\n        return {value}\n    b(x)\n")


CASES = [
    pytest.param(
        BASE, with_guard("not x", "0"), with_guard("x is None", "None"),
        Clash("same gap", f"{PATH}:6 f", "", "if x is None:\n    return None",
              "if not x:\n    return 0"),
        id="guard-with-another-condition",
    ),
    pytest.param(
        BASE, BASE.replace("b(x)", "b(x, 1)"), BASE.replace("b(x)", "b(x, 2)"),
        Clash("same statement", f"{PATH}:6 f", "b(x)", "b(x, 2)", "b(x, 1)"),
        id="statement-changed-otherwise",
    ),
    pytest.param(
        BASE, BASE.replace("    b(x)\n", ""), BASE.replace("b(x)", "b(x, 2)"),
        Clash("same statement", f"{PATH}:6 f", "b(x)", "b(x, 2)", ""),
        id="statement-that-the-patch-removes",
    ),
    pytest.param(
        BASE, BASE.replace("b(x)", "b(x, 1)"), BASE.replace("    b(x)\n", ""),
        Clash("same statement", f"{PATH}:4 f", "b(x)", "", "b(x, 1)"),
        id="statement-that-upstream-removed",
    ),
    pytest.param(
        BASE, BASE + "\n\ndef g(y):\n    return 1\n", BASE + "\n\ndef g(y):\n    return 2\n",
        Clash("same name", f"{PATH}:10 g", "", "def g(y):\n    return 2",
              "def g(y):\n    return 1"),
        id="function-with-another-body",
    ),
    pytest.param(
        ENUM, ENUM + "    C = 3\n", ENUM + "    C = 4\n",
        Clash("same name", f"{PATH}:7 K", "", "C = 4", "C = 3"),
        id="enum-member-with-another-value",
    ),
    pytest.param(
        ENUM, ENUM + "    C = 3\n", ENUM + "    D = 3\n",
        Clash("same name", f"{PATH}:7 K", "", "D = 3", "C = 3"),
        id="enum-value-under-another-name",
    ),
    pytest.param(
        DICT, DICT.replace("}", "    'c': 3,\n}"), DICT.replace("}", "    'c': 4,\n}"),
        Clash("same name", f"{PATH}:4", "", "'c': 4", "'c': 3"),
        id="dict-entry-with-another-value",
    ),
    pytest.param(
        "def f(x): pass\n", "def f(x, y=1): pass\n", "def f(x, y=2): pass\n",
        Clash("same name", f"{PATH}:1 f", "", "y=2", "y=1"),
        id="parameter-with-another-default",
    ),
    pytest.param(
        "X = 1\n", "X = 2\n", "X = 3\n",
        Clash("same statement", f"{PATH}:1", "X = 1", "X = 3", "X = 2"),
        id="constant",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("base", "authored", "target", "clash"), CASES)
def test_upstreams_different_change_of_the_same_place_is_a_flagged_conflict(
    base: str, authored: str, target: str, clash: Clash
) -> None:
    hunk = outcome(base, authored, target)
    assert (hunk.status, hunk.clash) == ("conflicted", clash)


@pytest.mark.parametrize(("base", "authored", "target", "clash"), CASES)
def test_what_upstream_did_not_change_is_no_clash(
    base: str, authored: str, target: str, clash: Clash
) -> None:
    del target, clash
    assert move(base, authored, base).outcomes[0].clash is None
    same = move(base, authored, authored).outcomes[0]
    assert (same.status, same.clash) == ("already_upstream", None)


def test_another_file_of_the_same_name_is_shown_as_a_diff_of_it_against_ours() -> None:
    files = {PATH: b"a\n", "vllm/n.py": b"x = 1\ny = 3\n"}
    result = patchkit.port([NEW_FILE], {PATH: b"a\n"}, files)
    assert result.outcomes[0].status == "conflicted"
    assert result.outcomes[0].clash == Clash(
        "same file", "vllm/n.py", "", "",
        "--- target/vllm/n.py\n+++ patch/vllm/n.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 3\n+y = 2",
    )  # fmt: skip
    assert dict(result.tree.files) == files


def test_a_name_of_upstreams_is_shown_as_upstream_spells_it() -> None:
    base = "def f(a):\n    x = first(a)\n    use(x)\n    last(x)\n    return x\n"
    authored = base.replace("use(x)", "use(x, 1)")
    target = base.replace("use(x)", "use(x, 2)").replace("x", "hidden")
    hunk = outcome(base, authored, target)
    assert hunk.clash == Clash(
        "same statement", f"{PATH}:3 f", "use(x)", "use(hidden, 2)", "use(x, 1)"
    )


def test_the_lines_of_a_clash_are_limited_and_labelled() -> None:
    clash = Clash("same gap", "a.py:1 f", "", "a()\nb()\nc()", "d()")
    assert str(clash) == "upstream put something else into the same gap: a.py:1 f"
    assert list(clash.lines(2)) == [
        ("base", "(nothing)"), ("target", "a()"), ("target", "b()"), ("target", "…"),
        ("patch", "d()"),
    ]  # fmt: skip


GUARD = Clash(
    "same gap", f"{PATH}:6 f", "", "if x is None:\n    return None", "if not x:\n    return 0"
)


def test_a_clash_stands_in_the_reasons_of_a_hunk() -> None:
    hunk = outcome(BASE, with_guard("not x", "0"), with_guard("x is None", "None"))
    assert why_lines(outcome_json(hunk))[2:9] == [
        "  open       typed: the neighbour after it in `f` (FunctionDef, line 5) is not the "
        "authored one",
        f"  clash      upstream put something else into the same gap: {PATH}:6 f",
        "  base       (nothing)",
        "  target     if x is None:",
        "                 return None",
        "  patch      if not x:",
        "                 return 0",
    ]


def test_a_clash_is_json_with_every_side() -> None:
    hunk = outcome(BASE, with_guard("not x", "0"), with_guard("x is None", "None"))
    assert outcome_json(hunk)["clash"] == {
        "kind": "same gap",
        "place": f"{PATH}:6 f",
        "base": "",
        "target": GUARD.target,
        "patch": GUARD.patch,
    }
    assert outcome_json(move(BASE, BASE + "\nx()\n", BASE).outcomes[0])["clash"] is None


@pytest.mark.parametrize(
    ("clash", "said"),
    [
        (
            GUARD,
            f"upstream put something else into the same gap: {PATH}:6 f\n\n"
            "base:\n\n```python\n(nothing)\n```\n\n"
            "target:\n\n```python\nif x is None:\n    return None\n```\n\n"
            "patch:\n\n```python\nif not x:\n    return 0\n```\n\n",
        ),
        (
            Clash("same file", "vllm/n.py", "", "", "-y = 3\n+y = 2"),
            "upstream added a file of that name with other content: vllm/n.py:\n\n"
            "```diff\n-y = 3\n+y = 2\n```\n\n",
        ),
    ],
    ids=["gap", "file"],
)
def test_the_note_of_a_stopped_rebase_shows_a_clash(clash: Clash, said: str) -> None:
    hunk = HunkOutcome("a.patch", 1, Status.CONFLICTED, PATH, clash=clash)
    tree = SourceTree({PATH: BASE.encode()}, name="x", version="1")
    text = b"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"
    lines = parse_patch(text, "a.patch").files[0].hunks[0]
    note = conflict_note("a.patch", [OpenHunk(hunk, lines)], tree, tree, "files")
    assert f"{PATH}\n\n{said}As authored:\n\n" in note


def direct(base: str, authored: str, target: str) -> Clash | None:
    """The clash of a change, whatever becomes of it."""
    old, new, goal = (parse_module(text.encode()) for text in (base, authored, target))
    whole = [Change(0, len(old.source), 0, len(new.source))]
    return clash_of(lift(old, new, whole), Alignment(old, goal), PATH, goal)


@pytest.mark.parametrize(
    ("base", "authored", "target"),
    [
        (ENUM, ENUM + "    C = 3\n", ENUM + "    C = 3\n"),
        (BASE, BASE.replace("b(x)", "b(x, 1)"), BASE.replace("b(x)", "b(x, 1)")),
        (BASE, with_guard("not x", "0"), with_guard("not x", "0")),
        (BASE, BASE.replace("b(x)", "b(x, 1)"), BASE.replace("a(x)", "a(x, 2)")),
        ("A = 1\nx()\n", "A = 1\nx()\nA = 2\n", "A = 1\nx()\n"),
    ],
    ids=["same-member", "same-change", "same-guard", "other-statement", "name-of-the-base"],
)
def test_what_is_the_same_or_elsewhere_is_no_clash_of_names_or_statements(
    base: str, authored: str, target: str
) -> None:
    assert direct(base, authored, target) is None
