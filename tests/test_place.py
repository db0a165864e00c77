"""The cascade: which method places a hunk, what its evidence says, and when there is none."""

from __future__ import annotations

import pytest

import patchkit
from patchkit import RebaseResult
from patchkit.diff import Hunk, Line
from patchkit.outcome import HunkOutcome
from patchkit.placing.merge3 import Run, place_run
from patchkit.placing.propose import HunkJob, Lines, by_text, runs_of
from tests.moves import PATH, diff, move


def only(result: RebaseResult) -> HunkOutcome:
    (outcome,) = result.outcomes
    return outcome


def facts(outcome: HunkOutcome) -> list[str]:
    return [str(e) for e in outcome.evidence]


STEPS = "".join(f"    step{n}(x)\n" for n in range(8))
BASE = f"import os\n\n\ndef f(x):\n{STEPS}    return x\n\n\ndef g(x):\n    return os\n"
AUTHORED = BASE.replace("    step4(x)\n", "    step4(x)\n    mine(x)\n")


def test_exact_place_is_named_by_its_line() -> None:
    outcome = only(move(BASE, AUTHORED, BASE))
    assert (outcome.method, outcome.target_lines) == ("exact", (10, 10))
    assert facts(outcome) == [
        "all 6 old lines stand at line 7",
        "statement added in `f`, between the same neighbours",
    ]


def test_offset_place_is_named_by_its_distance() -> None:
    result = move(BASE, AUTHORED, "import re\n" + BASE)
    outcome = only(result)
    assert (outcome.method, outcome.target_lines) == ("offset", (11, 11))
    assert facts(outcome)[0] == "all 6 old lines stand once in the file, +1 lines away"
    assert result.tree.files[PATH].decode() == "import re\n" + AUTHORED


def test_merge_places_a_run_whose_own_neighbours_are_unchanged() -> None:
    target = BASE.replace("step2(x)", "step2(x, 1)")
    result = move(BASE, AUTHORED, target)
    outcome = only(result)
    assert (outcome.method, outcome.target_lines) == ("merge3", (10, 10))
    assert facts(outcome)[0] == "its lines and both neighbours are unchanged in the definition"
    assert result.tree.files[PATH].decode() == AUTHORED.replace("step2(x)", "step2(x, 1)")


def test_definition_moved_to_another_file_takes_the_hunk_along() -> None:
    moved = f"from q import *\n\n\nclass K: pass\n\n\ndef f(x):\n{STEPS}    return x\n"
    target = {PATH: "import os\n\n\ndef g(x):\n    return os\n", "vllm/other.py": moved}
    result = move(BASE, AUTHORED, target)
    outcome = only(result)
    assert (outcome.method, outcome.path_before, outcome.path_after) == (
        "moved",
        PATH,
        "vllm/other.py",
    )
    assert outcome.target_lines == (13, 13)
    assert any("vllm/other.py" in fact and "word for word" in fact for fact in facts(outcome))
    assert result.tree.files["vllm/other.py"].decode() == moved.replace(
        "    step4(x)\n", "    step4(x)\n    mine(x)\n"
    )
    assert result.tree.files[PATH].decode() == target[PATH]


def test_function_that_became_a_method_takes_the_hunk_along_re_indented() -> None:
    inner = "".join(f"        step{n}(x)\n" for n in range(8))
    target = f"class K:\n    @staticmethod\n    def f(x):\n{inner}        return x\n"
    result = move(BASE, AUTHORED, target)
    outcome = only(result)
    assert (outcome.definition_before, outcome.definition_after) == ("f", "K.f")
    assert result.tree.files[PATH].decode() == target.replace(
        "        step4(x)\n", "        step4(x)\n        mine(x)\n"
    )


def test_two_places_that_the_definition_may_have_moved_to_are_a_conflict() -> None:
    body = f"def f(x):\n{STEPS}    return x\n"
    target = {PATH: "import os\n", "vllm/a.py": body, "vllm/b.py": body}
    result = move(BASE, AUTHORED, target)
    outcome = only(result)
    assert outcome.status == "orphaned"
    assert outcome.candidates == ("vllm/a.py:1 f", "vllm/b.py:1 f")
    assert {p: c.decode() for p, c in result.tree.files.items()} == target


def test_definition_that_the_base_had_twice_has_not_moved_into_the_other() -> None:
    body = f"def f(x):\n{STEPS}    return x\n"
    base = {PATH: BASE.encode(), "vllm/a.py": body.encode()}
    target = {PATH: b"import os\n", "vllm/a.py": body.encode()}
    result = patchkit.port([diff(BASE, AUTHORED)], base, target)
    assert only(result).status == "orphaned"
    assert dict(result.tree.files) == target


def linear(name: str, kind: str, extra: str = "") -> str:
    return (
        f"class {name}(Base):\n    def forward(self, x, bias=None):\n"
        f"        x = self.quantize(x)\n        out = {kind}_matmul(x, self.weight)\n{extra}"
        "        if bias is not None:\n            out = out + bias\n        return out\n"
    )


@pytest.mark.parametrize("path", [PATH, "vllm/int4.py"])
def test_method_of_a_class_that_is_gone_has_not_moved_into_a_like_class(path: str) -> None:
    head = "from q import *\n\n\n"
    base = head + linear("Fp8Linear", "fp8")
    authored = head + linear("Fp8Linear", "fp8", "        out = out * 2\n")
    target = {PATH: head, path: head + linear("Int4Linear", "int4")}
    result = move(base, authored, target)
    assert not result.ok
    assert {p: c.decode() for p, c in result.tree.files.items()} == target


def test_function_of_a_common_name_has_not_moved_into_an_unrelated_file() -> None:
    base = "def main(argv):\n    a = parse(argv)\n    run(a)\n    return 0\n\n\ndef z(): pass\n"
    authored = base.replace("    run(a)\n", "    fix(a)\n    run(a)\n")
    other = "def main(argv):\n    a = parse(argv)\n    run(a)\n    close()\n    return 0\n"
    target = {PATH: "def z(): pass\n", "vllm/other.py": other}
    result = move(base, authored, target)
    assert not result.ok
    assert {p: c.decode() for p, c in result.tree.files.items()} == target


def test_renamed_local_is_not_the_argument_that_the_patch_adds() -> None:
    base = "def f(a):\n    tmp = g(a)\n    use(tmp)\n    return tmp\n"
    authored = base.replace("    use(tmp)\n", "    out = 1\n    use(tmp, out)\n")
    target = base.replace("tmp", "out")
    result = move(base, authored, target)
    assert only(result).status == "conflicted"
    assert result.tree.files[PATH].decode() == target


def test_typed_landing_keeps_crlf_on_every_line() -> None:
    target = "def f(a):\n    with q:\n        one(a)\n        two(a)\n        three(a)\n"
    base = "def f(a):\n    one(a)\n    two(a)\n    three(a)\n"
    authored = base.replace("    two(a)\n", "    mine(a)\n    more(a)\n    two(a)\n")
    expected = target.replace("        two", "        mine(a)\n        more(a)\n        two")
    for old in (base, base.replace("\n", "\r\n")):
        result = patchkit.port(
            [diff(base, authored)],
            {PATH: old.encode()},
            {PATH: target.replace("\n", "\r\n").encode()},
        )
        assert result.tree.files[PATH].decode() == expected.replace("\n", "\r\n")


def test_string_over_several_lines_keeps_its_value_where_it_is_re_indented() -> None:
    base = "def f(x):\n    a()\n    b()\n    d()\n"
    authored = base.replace("    b()\n", '    c("""one\n    two""")\n    b()\n')
    target = "def f(x):\n    with q:\n        a()\n        b()\n        d()\n"
    result = move(base, authored, target)
    assert result.tree.files[PATH].decode() == target.replace(
        "        b()\n", '        c("""one\n    two""")\n        b()\n'
    )


def test_renamed_definition_is_found_by_its_body_and_its_uses_follow() -> None:
    target = BASE.replace("def f(", "def f_new(")
    result = move(BASE, AUTHORED, target)
    outcome = only(result)
    assert outcome.method == "renamed"
    assert (outcome.definition_before, outcome.definition_after) == ("f", "f_new")
    assert result.tree.files[PATH].decode() == AUTHORED.replace("def f(", "def f_new(")


def test_evidence_of_a_renamed_place_does_not_claim_lines_that_are_not_there() -> None:
    base = "def f(a):\n    tmp = g(a)\n    use(tmp)\n    x = h(a)\n    return x\n"
    authored = base.replace("    use(tmp)\n", "    tmp.fix()\n    use(tmp)\n")
    target = base.replace("tmp", "out")
    result = move(base, authored, target)
    outcome = only(result)
    assert result.tree.files[PATH].decode() == authored.replace("tmp", "out")
    assert outcome.method == "renamed"
    assert "`tmp` in `f` is called `out` in the target" in facts(outcome)
    assert not any(fact.startswith("all 5 old lines stand at") for fact in facts(outcome))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    step4(x)\n", "    step4(x)\n    theirs(x)\n"),
        ("    step5(x)\n", "    theirs(x)\n    step5(x)\n"),
    ],
    ids=["after", "before"],
)
def test_insertion_of_both_sides_into_one_gap_is_a_conflict(old: str, new: str) -> None:
    target = BASE.replace(old, new)
    result = move(BASE, AUTHORED, target)
    assert only(result).status == "conflicted"
    assert only(result).candidates == (f"{PATH}:4 f",)
    assert result.tree.files[PATH].decode() == target


def test_statement_that_upstream_changed_is_not_replaced() -> None:
    authored = BASE.replace("step4(x)", "step4(x, mine=1)")
    target = BASE.replace("step4(x)", "step4(y)")
    result = move(BASE, authored, target)
    assert only(result).status == "conflicted"
    assert result.tree.files[PATH].decode() == target


def test_class_that_is_gone_leaves_its_hunk_orphaned() -> None:
    base = "class A:\n    def go(self):\n        return 1\n\n\ndef z():\n    return 0\n"
    authored = base.replace("return 1\n", "return 1\n\n    def more(self):\n        return 2\n")
    target = "class B:\n    def run(self, x):\n        return x.y\n\n\ndef z():\n    return 0\n"
    result = move(base, authored, target)
    assert not result.ok
    assert only(result).status == "orphaned"
    assert result.tree.files[PATH].decode() == target


def test_hunk_that_is_partly_upstream_says_what_is_missing() -> None:
    base = "def f(x):\n    a(x)\n    b(x)\n    c(x)\n"
    authored = "def f(x):\n    a(x)\n    one(x)\n    b(x)\n    two(x)\n    c(x)\n"
    target = "def f(x):\n    a(x)\n    one(x)\n    b(x, 1)\n    theirs(x)\n    c(x)\n"
    result = move(base, authored, target)
    outcome = only(result)
    assert outcome.status == "partly_upstream"
    assert outcome.reason == "the target has 1 of 2 edits; missing: statement added at base line 3"
    assert facts(outcome) == ["statement added: the target has it in `f`, line 3"]
    assert result.tree.files[PATH].decode() == target


def test_nothing_is_defined_twice_after_a_landing() -> None:
    base = "def a():\n    return 1\n\n\ndef z():\n    return 0\n"
    authored = base.replace("\n\ndef z", "\n\ndef b():\n    return 2\n\n\ndef z")
    target = "def b():\n    return 5\n\n\n" + base
    result = move(base, authored, target)
    assert only(result).status == "conflicted"
    assert only(result).reason == "definition `b` would be there twice in <module>"
    assert result.tree.files[PATH].decode() == target


def test_name_that_upstream_dropped_refuses_the_landing() -> None:
    base = "from os import path\n\n\ndef a():\n    return 1\n\n\ndef z():\n    return path\n"
    authored = base.replace("return 1", "return path.sep")
    target = "def a():\n    return 1\n\n\ndef z():\n    return 0\n"
    result = move(base, authored, target)
    assert only(result).status == "conflicted"
    assert only(result).reason == "name `path` is not bound in a (line 2)"
    assert result.tree.files[PATH].decode() == target


def test_enum_value_that_upstream_gave_away_refuses_the_landing() -> None:
    base = "import enum\n\n\nclass K(enum.Enum):\n    A = 1\n    B = 2\n"
    authored = base + "    C = 3\n"
    target = base.replace("B = 2", "B = 3")
    result = move(base, authored, target)
    assert only(result).status == "conflicted"
    assert only(result).reason == "enum value `3 (B, C)` would be there twice in K"
    assert result.tree.files[PATH].decode() == target


# Proposals, which the proof would refuse as well -------------------------------------------------


def job(old: str, start: int, new: str) -> HunkJob:
    """A hunk that replaces whole lines, its old text at base line `start` (0-based)."""
    lines = [Line("-", line.encode()) for line in old.splitlines(keepends=True)]
    lines += [Line("+", line.encode()) for line in new.splitlines(keepends=True)]
    hunk = Hunk(start + 1, old.count("\n"), start + 1, new.count("\n"), b"", tuple(lines), lineno=1)
    return HunkJob(1, hunk, start, runs_of(hunk, start))


def test_text_proposes_no_place_where_the_old_lines_stand_twice() -> None:
    twice = Lines(b"x\na\ny\na\n")
    assert by_text(job("a\n", 0, "b\n"), twice, PATH) is None
    once = by_text(job("a\n", 0, "b\n"), Lines(b"x\na\n"), PATH)
    assert once is not None
    assert (once.method, once.pieces) == ("offset", ((2, 4, b"b\n"),))


def test_text_proposes_the_stated_line_only_where_all_old_lines_stand_there() -> None:
    assert by_text(job("a\nb\n", 0, "c\n"), Lines(b"a\nx\n"), PATH) is None
    exact = by_text(job("a\nb\n", 1, "c\n"), Lines(b"x\na\nb\n"), PATH)
    assert exact is not None
    assert (exact.method, exact.pieces) == ("exact", ((2, 6, b"c\n"),))


def test_text_proposes_nothing_for_a_hunk_without_old_lines() -> None:
    assert by_text(job("", 0, "a\n"), Lines(b"x\n"), PATH) is None


def test_run_is_placed_only_between_both_of_its_neighbours() -> None:
    run = Run(1, 2, (b"n\n",))
    whole = (0, 3)
    assert place_run(run, whole, (0, 3), {0: 0, 1: 1, 2: 2}) == (1, 2)
    assert place_run(run, whole, (0, 4), {0: 0, 1: 1, 2: 3}) is None
    assert place_run(run, whole, (0, 4), {0: 0, 1: 2, 2: 3}) is None
    assert place_run(run, whole, (0, 3), {0: 0, 2: 2}) is None
    assert place_run(run, whole, (0, 3), {1: 1, 2: 2}) is None
    assert place_run(run, whole, (0, 3), {0: 0, 1: 1}) is None


def test_run_at_the_edge_of_its_region_has_the_edge_as_neighbour() -> None:
    assert place_run(Run(0, 0, (b"n\n",)), (0, 2), (5, 7), {0: 5, 1: 6}) == (5, 5)
    assert place_run(Run(2, 2, (b"n\n",)), (0, 2), (5, 7), {0: 5, 1: 6}) == (7, 7)
    assert place_run(Run(2, 2, (b"n\n",)), (0, 2), (5, 8), {0: 5, 1: 6}) is None
