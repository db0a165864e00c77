"""What outcomes say is true: a case for each method, and each sentence made false is found out.

`tests/conftest.py` holds every run of every test against its trees; these cases are there so that
no method and no sentence goes without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import unified_diff

import pytest

import patchkit
from patchkit import RebaseResult
from patchkit.outcome import Evidence, HunkOutcome, Rejected, Rename
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree
from tests.bench_rebase.cases import generate
from tests.bench_rebase.kinds import KINDS
from tests.evidence.truth import problems

PATH, OTHER = "vllm/mod.py", "vllm/other.py"
STEPS = "".join(f"    step{n}(x, {n})\n" for n in range(8))
F = f"def f(x):\n{STEPS}    return x\n"
G = "def g(x):\n    return os\n"
BASE = f"import os\n\n\n{F}\n\n{G}"
INSERTED = BASE.replace("    step4(x, 4)\n", "    step4(x, 4)\n    mine(x)\n")
REPLACED = BASE.replace("step4(x, 4)", "step4(x, 44)")
IMPORTED = BASE.replace("import os\n", "import os\nimport re\n")
LOCAL = "def f(a):\n    tmp = g(a)\n    use(tmp)\n    x = h(a)\n    return x\n\n\ndef g(a): pass\n"
AFTER_USE = LOCAL.replace("    use(tmp)\n", "    use(tmp)\n    check(tmp)\n")
SPLIT = (
    f"import os\n\n\ndef f(x):\n    return f_steps(x)\n\n\ndef f_steps(x):\n{STEPS}    return x\n"
    f"\n\n{G}"
)
WRAPPED = BASE.replace(
    STEPS, "    with lock:\n" + "".join(f"    {x}\n" for x in STEPS[:-1].split("\n"))
)
OTHERS = "".join(f"    if x[{n}]:\n        del y.z{n}\n" for n in range(4))
DECOY = f"def f_old(x):\n{OTHERS}" + "".join(f"    step{n}(x, {n})\n" for n in range(4, 8))
TWIN = F.replace("f(", "f_new(").replace("step1(x, 1)", "step1(x, 2)")


def diff(old: str, new: str) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{PATH}", f"b/{PATH}"
    )
    return "".join(lines).encode()


def move(base: str, authored: str, target: dict[str, str] | str) -> RebaseResult:
    files = {PATH: target} if isinstance(target, str) else target
    goal = SourceTree({path: content.encode() for path, content in files.items()})
    return patchkit.port([diff(base, authored)], {PATH: base.encode()}, goal)


CASES: dict[str, tuple[str, str, dict[str, str] | str, str]] = {
    "exact": (BASE, INSERTED, BASE, "placed exact"),
    "offset": (BASE, REPLACED, "import re\n" + BASE, "placed offset"),
    "merge3": (BASE, INSERTED, BASE.replace("step2(x, 2)", "step2(x)"), "placed merge3"),
    "typed": (BASE, REPLACED, BASE.replace("step4(x, 4)", "step4(\n        x, 4\n    )"),
              "placed typed"),
    "wrapped": (BASE, INSERTED, WRAPPED, "placed typed"),
    "local": (LOCAL, AFTER_USE, LOCAL.replace("tmp", "out"), "placed renamed"),
    "renamed": (BASE, INSERTED, BASE.replace("def f(", "def f_new("), "placed renamed"),
    "renamed-beside-a-decoy": (BASE, INSERTED, f"import os\n\n\n{DECOY}\n\n{TWIN}\n\n{G}",
                               "placed renamed"),
    "moved": (BASE, INSERTED, {PATH: f"import os\n\n\n{G}", OTHER: f"from q import *\n\n\n{F}"},
              "placed moved"),
    "split": (BASE, INSERTED, SPLIT, "placed moved"),
    "upstream": (BASE, INSERTED, INSERTED, "already_upstream None"),
    "partly": (BASE, IMPORTED.replace("step0(x, 0)", "step0(x, 9)"),
               IMPORTED.replace("step0(x, 0)", "step0(x, 5)"), "partly_upstream None"),
    "conflict": (BASE, REPLACED, BASE.replace("step4(x, 4)", "step4(x, 5)"), "conflicted None"),
    "gone": (BASE, INSERTED, f"import os\n\n\n{DECOY}\n\n{G}", "orphaned None"),
    "unlike": (BASE, INSERTED, {PATH: f"import os\n\n\n{G}", OTHER: "def f(x):\n    return 1\n"},
               "orphaned None"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_evidence_of_each_method_is_true(name: str) -> None:
    base, authored, target, expected = CASES[name]
    result = move(base, authored, target)
    assert f"{result.outcomes[0].status} {result.outcomes[0].method}" == expected
    assert problems(result) == []


def outcome(name: str) -> HunkOutcome:
    base, authored, target, _ = CASES[name]
    return move(base, authored, target).outcomes[0]


def test_a_renamed_place_names_the_likeness_and_the_runner_up() -> None:
    found = outcome("renamed-beside-a-decoy")
    assert found.renames == (Rename("definition", "f", "f", "f_new"),)
    assert "`f` is called `f_new` in the target, 96 % of its neighbouring words the same" in map(
        str, found.evidence
    )
    assert found.rejected == (
        Rejected(
            "definition", "`f_old`", "45 % of its statements' text the same, and `f_new` has 96 %"
        ),
    )


def test_a_place_in_a_block_that_upstream_put_around_says_so() -> None:
    assert [str(e) for e in outcome("wrapped").evidence] == [
        "what it replaces, or its neighbours, are there",
        "statement added in `f`, in another block of it than in the base, "
        "between the same neighbours",
    ]


def test_a_conflict_says_what_each_method_lacked() -> None:
    assert list(map(str, outcome("conflict").rejected)) == [
        "offset: its 7 old lines stand nowhere in the file as they are",
        "merge3: line 9 of the base, `step4(x, 4)`, has no counterpart in its place",
    ]


def test_what_is_gone_names_what_was_looked_at() -> None:
    definitions = [str(r) for r in outcome("unlike").rejected if r.kind == "definition"]
    assert len(definitions) == 1
    assert definitions[0].startswith(f"`f` in {OTHER}: ")
    assert definitions[0].endswith(" of its words and signs the same, and 50 % is asked")


# Each sentence, made false -----------------------------------------------------------------------


def _said(old: str, new: str) -> Callable[[HunkOutcome], HunkOutcome]:
    def change(outcome: HunkOutcome) -> HunkOutcome:
        facts = [Evidence(e.kind, e.text.replace(old, new)) for e in outcome.evidence]
        assert tuple(facts) != outcome.evidence
        return replace(outcome, evidence=tuple(facts))

    return change


def _rejected(old: str, new: str) -> Callable[[HunkOutcome], HunkOutcome]:
    def change(outcome: HunkOutcome) -> HunkOutcome:
        facts = [
            Rejected(r.kind, r.candidate.replace(old, new), r.why.replace(old, new))
            for r in outcome.rejected
        ]
        assert tuple(facts) != outcome.rejected
        return replace(outcome, rejected=tuple(facts))

    return change


def _with(**fields: object) -> Callable[[HunkOutcome], HunkOutcome]:
    return lambda outcome: replace(outcome, **fields)  # type: ignore[arg-type]


EXACT = Evidence("exact", "all 6 old lines stand at line 7")
MERGED = Evidence("merge3", "its lines and both neighbours are unchanged in the definition")

LIES: list[tuple[str, Callable[[HunkOutcome], HunkOutcome]]] = [
    ("exact", _said("line 7", "line 8")),
    ("exact", _said("6 old", "5 old")),
    ("exact", _said("in `f`", "in `h`")),
    ("exact", _said("the same neighbours", "some neighbours")),
    ("exact", _with(target_lines=(11, 11))),
    ("exact", _with(definition_before="h")),
    ("exact", _with(definition_after="h")),
    ("exact", _with(definition_after="g", evidence=(EXACT,))),
    ("exact", _with(evidence=())),
    ("exact", _with(renames=(Rename("variable", "f", "x", "y"),))),
    ("offset", _said("+1 lines", "+2 lines")),
    ("offset", _said("what it replaces is", "all of it is")),
    ("merge3", _with(evidence=(EXACT,))),
    ("merge3", _rejected("nowhere in", "more than once in")),
    ("typed", _with(evidence=(MERGED,))),
    ("typed", _rejected("step4", "step5")),
    ("typed", _rejected("line 9", "line 8")),
    ("wrapped", _said("in `f`, in another", "in `g`, in another")),
    ("local", _said("`tmp`", "`a`")),
    ("local", _said("`out`", "`x`")),
    ("local", _with(renames=())),
    ("local", _with(renames=(Rename("variable", "f", "tmp", "x"),))),
    ("renamed", _said("word for word", "95 % of its statements' text the same")),
    ("renamed", _said("`f_new`", "`g`")),
    ("renamed", _with(definition_after="f")),
    ("renamed-beside-a-decoy", _said("96 %", "93 %")),
    ("renamed-beside-a-decoy", _said("96 % of its neighbouring words the same", "word for word")),
    ("renamed-beside-a-decoy", _rejected("`f_old`", "`f_older`")),
    ("renamed-beside-a-decoy", _rejected(" % of", "0 % of")),
    ("moved", _said(f"in {OTHER}", f"in {PATH}")),
    ("moved", _said("word for word", "80 % of its words and signs the same")),
    ("moved", _said(f"of {PATH}", f"of {OTHER}")),
    ("split", _said("`f_steps`", "`g`")),
    ("upstream", _said("line 10", "line 90")),
    ("upstream", _said("it in `f`", "it in `g`")),
    ("conflict", _with(candidates=(f"{PATH}:5 f",))),
    ("conflict", _rejected("offset", "guess")),
    ("gone", _with(definition_before="f_old")),
    ("gone", _rejected("the same", "the same as it was, and that is all")),
    ("unlike", _rejected(OTHER, PATH)),
    ("unlike", _rejected("and 50 %", "and 5 %")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lie"), LIES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(LIES)])
def test_what_is_not_true_is_found(name: str, lie: Callable[[HunkOutcome], HunkOutcome]) -> None:
    base, authored, target, _ = CASES[name]
    result = move(base, authored, target)
    first, *others = result.outcomes
    assert problems(replace(result, outcomes=(lie(first), *others))) != []


# Real releases -----------------------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.parametrize("kind", KINDS)
def test_evidence_on_real_changes_is_true(kind: str) -> None:
    old, new = open_tree("v0.28.0").files, open_tree("v0.29.0").files
    cases = generate(kind, ("0.28.0", "0.29.0"), old, new, seed=7, count=2).cases
    assert cases
    for case in cases:
        result = patchkit.port([case.patch], {case.path: case.base}, dict(case.target))
        assert problems(result) == [], case.name
