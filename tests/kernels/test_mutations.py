"""The lists of mutations are true, and what is said of a run is read from it; nothing is run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.kernels.cases import hopper_cases
from tests.kernels.hopper_mutations import HANDFUL, HOPPER_MUTATIONS
from tests.kernels.mutate import (
    GPU_MUTATIONS,
    KVARN_MUTATIONS,
    PARITY,
    QUICK,
    REFERENCE,
    ROOT,
    UNCHANGED,
    Found,
    mutated,
    parsed,
    stages,
)
from tests.kernels.mutations import MUTATIONS, Mutation
from tests.kernels.tile_cases import hopper_cases as tile_hopper_cases
from tests.kernels.tile_cases import small_cases as tile_cases

ALL = (*MUTATIONS, *GPU_MUTATIONS, *KVARN_MUTATIONS)
SOME = Mutation("some", "a.py", "1 + 2", "1 - 2")


def test_names_are_different() -> None:
    assert len({mutation.name for mutation in ALL}) == len(ALL)


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_what_a_mutation_replaces_is_there_and_leaves_python(mutation: Mutation) -> None:
    source = (ROOT / mutation.file).read_text(encoding="utf-8")
    changed = mutated(source, mutation)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def named_by_comments(file: str) -> set[str]:
    """What the comments of a file of tests have that looks like the name of a mutation."""
    comments = re.findall(r"^ *# (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"\b[a-z][a-z0-9]*(?:-[a-z0-9]+)+\b", "\n".join(comments)))


def test_comments_of_the_tests_of_parity_name_mutations_that_are_tried() -> None:
    named = named_by_comments(PARITY)
    assert "causal-late" in named
    assert named <= {mutation.name for mutation in MUTATIONS}


def test_comments_of_the_tests_of_kvarns_references_name_mutations_that_are_tried() -> None:
    files = [f"tests/kernels/{path.name}" for path in Path(__file__).parent.glob("test_kvarn_ref*")]
    named = set().union(*map(named_by_comments, (*files, "tests/kernels/test_layout.py")))
    assert "store-before-pack" in named
    assert named <= {mutation.name for mutation in KVARN_MUTATIONS}


@pytest.mark.parametrize(("source", "count"), [("3 + 4", 0), ("1 + 2, 1 + 2", 2)])
def test_text_that_is_not_there_once_is_refused(source: str, count: int) -> None:
    with pytest.raises(ValueError, match=rf"^some: its text is {count} times in a\.py$"):
        mutated(source, SOME)


def test_each_mutation_is_tried_with_the_tests_that_may_see_it() -> None:
    marked = ("-m", "kernel and not gpu")
    kernel = Mutation("k", "kvarn_port/kernels/verify_attend.py", "a", "b")
    named = Mutation("n", kernel.file, "a", "b", caught_by="company")
    reference = Mutation("r", "kvarn_port/reference/verify_attention.py", "a", "b")
    assert stages(kernel) == [(*marked, "-k", QUICK, PARITY), (*marked, PARITY)]
    assert stages(named) == [(*marked, "-k", "company", PARITY), (*marked, PARITY)]
    assert stages(reference) == [(*marked, REFERENCE)]
    files = Mutation("f", reference.file, "a", "b", tests=("first.py", "second.py"))
    assert stages(files) == [(*marked, "first.py"), (*marked, "second.py")]


def test_on_a_gpu_each_is_tried_with_a_handful_of_the_cases_of_its_path() -> None:
    (asked,) = stages(HOPPER_MUTATIONS[0])
    assert asked[:2] == ("-m", "kernel")
    assert [name.removeprefix(f"{PARITY}::") for name in asked[2:]] == list(HANDFUL)
    ids = {f"[{case}]" for case in hopper_cases()}
    assert {name[name.index("[") :] for name in HANDFUL[1:]} <= ids
    assert all(mutation.gpu for mutation in GPU_MUTATIONS)
    assert not any(mutation.gpu for mutation in (*MUTATIONS, *KVARN_MUTATIONS))


def test_on_a_gpu_those_of_tiles_are_tried_with_calls_that_there_are() -> None:
    cases = [*tile_hopper_cases(), *tile_cases()]
    ids = {f"[{case}]" for case in cases} | {f"[hopper-{splits}]" for splits in (5, 66, 150)}
    listed = [mutation for mutation in GPU_MUTATIONS if mutation.name.startswith("tile-gpu-")]
    named = {test for mutation in listed for test in mutation.tests}
    assert all(stages(mutation) == [("-m", "kernel", *mutation.tests)] for mutation in listed)
    assert {test[test.index("[") :] for test in named} <= ids
    # what is asked of a mistake is asked of no mistake as well
    assert named <= {test for unchanged in UNCHANGED for test in unchanged.tests}


@pytest.mark.parametrize(
    ("status", "output", "test", "verdict"),
    [
        (0, "..\n2 passed in 1.00s\n", None, "survived"),
        (0, "2 skipped in 1.00s\n", "no test", "broken"),
        (1, "FAILED a/b.py::test_x[[1]x[1],a] - assert inf <= 1\n", "test_x[[1]x[1],a]", "caught"),
        (1, "FAILED a/b.py::test_x - AssertionError: assert False\n", "test_x", "caught"),
        (1, "FAILED a/b.py::test_x - ValueError: 'x' is not defined\n", "test_x", "broken"),
        (1, "FAILED a/b.py::test_x - E: E(\"RuntimeWarning('overflow')\")\n", "test_x", "caught"),
        (2, "ERROR a/b.py - SyntaxError: invalid syntax\n", "a/b.py", "broken"),
        (4, "ERROR: not found: a/b.py::test_x[y]\n", "some test", "broken"),
        (-11, "", "some test", "caught"),
    ],
)
def test_what_pytest_says_is_read(status: int, output: str, test: str | None, verdict: str) -> None:
    found = parsed(status, output)
    assert (found.test, found.verdict) == (test, verdict)


def test_a_run_without_end_is_caught() -> None:
    assert Found("some test", "not done in 90 s").verdict == "caught"
