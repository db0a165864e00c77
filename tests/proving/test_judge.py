"""What a report says, for every way in which a run can end; no test is run here."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.proving.judge import Ended, TreeRun, explain, judge_run, read_report
from patchkit.series.verdict import Colour, Verdict, judge

NAME = "tests/test_pages.py"
NODE = f"{NAME}::test_size"
TREE = "/tmp/tree"
Report = list[dict[str, Any]]


def phase(outcome: str = "passed", when: str = "call", **fields: Any) -> dict[str, Any]:
    line = {"kind": "phase", "nodeid": NODE, "when": when, "outcome": outcome}
    return {**line, "own": False, "text": "", **fields}


def end(**fields: Any) -> dict[str, Any]:
    line = {"kind": "end", "exit": 0, "torch": "2.13.0+cpu", "origin": f"{TREE}/vllm/__init__.py"}
    return {**line, **fields}


def judged(report: Report, status: int | None = 0, names: tuple[str, ...] = (NAME,)) -> TreeRun:
    return judge_run(report, Ended(status, 5), names, TREE)


START = {"kind": "start", "nodeid": NODE}
GREEN = [START, phase(when="setup"), phase(), phase(when="teardown"), end()]
FAILED = phase("failed", own=True, text="AssertionError: 3 blocks\nassert 3 == 2")


def test_tests_that_all_pass_are_green() -> None:
    assert judged(GREEN) == TreeRun(Colour.GREEN, "", "2.13.0+cpu")


def test_a_failed_own_assertion_is_red_with_the_first_line_of_what_it_says() -> None:
    run = judged([phase(when="setup"), FAILED, phase(when="teardown"), end()])
    assert run == TreeRun(Colour.RED, "test_size: AssertionError: 3 blocks", "2.13.0+cpu")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            phase("failed", text="ImportError: no pages"),
            "test_size raised: ImportError: no pages",
        ),
        (
            phase("failed", when="setup", own=True, text="AssertionError"),
            "test_size has no fixture: AssertionError",
        ),
        (
            phase("failed", when="teardown", own=True, text="AssertionError"),
            "test_size did not clean up: AssertionError",
        ),
        (phase("skipped", text="Skipped: no GPU"), "test_size was skipped: Skipped: no GPU"),
        (phase("xskipped", text="AssertionError"), "test_size was skipped: AssertionError"),
        (phase("xpassed"), "test_size was expected to fail:"),
        (
            {"kind": "collect", "nodeid": NAME, "text": "x.py:1: in f\nE   ImportError: no pages"},
            "cannot be collected: ImportError: no pages",
        ),
    ],
)
def test_all_else_is_broken_also_beside_a_red_test(line: dict[str, Any], reason: str) -> None:
    assert judged([*GREEN[:-1], line, end()]) == TreeRun(Colour.BROKEN, reason, "2.13.0+cpu")
    assert judged([FAILED, line, end()]).colour is Colour.BROKEN


def test_a_crash_is_told_with_the_test_that_it_was_in() -> None:
    assert judged([START], -11).reason == "the interpreter ended with signal 11 in test_size"
    assert judged([], 4).reason == "the interpreter ended with exit status 4 before any test ran"
    assert judged([START], -11).colour is Colour.BROKEN


def test_a_crash_after_a_red_test_is_broken() -> None:
    assert judged([FAILED, START], -11).colour is Colour.BROKEN


def test_a_run_that_does_not_end_is_broken() -> None:
    run = judged([START], None)
    assert run == TreeRun(Colour.BROKEN, "was stopped after 5 seconds in test_size")


@pytest.mark.parametrize("name", ["tests/test_other.py", f"{NODE}_2", f"{NAME}::test_siz"])
def test_a_named_test_that_did_not_run_is_broken(name: str) -> None:
    run = judged(GREEN, names=(NAME, name))
    assert (run.colour, run.reason) == (Colour.BROKEN, f"{name} names no test")


def test_a_name_may_be_of_a_file_a_class_a_test_and_one_case_of_it() -> None:
    node = f"{NAME}::TestSize::test_one[a-1]"
    report = [phase(nodeid=node), end()]
    for name in (NAME, f"{NAME}::TestSize", f"{NAME}::TestSize::test_one", node):
        assert judged(report, names=(name,)).colour is Colour.GREEN


def test_a_package_from_elsewhere_proves_nothing() -> None:
    for origin in ("/site-packages/vllm/__init__.py", f"{TREE}2/vllm/__init__.py"):
        run = judged([*GREEN[:-1], end(origin=origin)])
        assert run.colour is Colour.BROKEN
        assert run.reason == f"the tests imported {origin}, which is not the tree under test"


def test_a_report_that_is_cut_short_is_read_up_to_there() -> None:
    assert read_report('{"kind": "start", "nodeid": "a"}\n{"kind": "ph') == [
        {"kind": "start", "nodeid": "a"}
    ]


R, G, B = Colour.RED, Colour.GREEN, Colour.BROKEN


@pytest.mark.parametrize(
    ("pristine", "patched", "lands", "verdict"),
    [
        (R, G, True, Verdict.NEEDED),
        (G, G, True, Verdict.SUPERSEDED),
        (G, R, True, Verdict.SUPERSEDED),  # it does harm
        (G, B, True, Verdict.SUPERSEDED),
        (G, None, False, Verdict.SUPERSEDED),
        (R, R, True, Verdict.NOT_EFFECTIVE),
        (R, None, True, Verdict.NOT_EFFECTIVE),  # it changes nothing
        (R, None, False, Verdict.BROKEN),  # it does not land
        (R, B, True, Verdict.BROKEN),
        (B, G, True, Verdict.BROKEN),
        (B, R, True, Verdict.BROKEN),
        (B, None, True, Verdict.BROKEN),
    ],
)
def test_the_verdict(
    pristine: Colour, patched: Colour | None, lands: bool, verdict: Verdict
) -> None:
    assert judge(pristine, patched, lands=lands) is verdict


def test_a_reason_says_on_which_tree() -> None:
    red, green, broken = TreeRun(R, "t: red"), TreeRun(G), TreeRun(B, "t raised: x")
    assert explain(Verdict.NEEDED, red, green, "") == "without it: t: red"
    assert explain(Verdict.NEEDED, red, green, "it lands, y") == "without it: t: red; it lands, y"
    assert explain(Verdict.SUPERSEDED, green, green, "") == "green without it"
    assert explain(Verdict.SUPERSEDED, green, red, "") == "green without it; with it: t: red"
    assert explain(Verdict.SUPERSEDED, green, None, "gone") == "green without it; gone"
    assert explain(Verdict.NOT_EFFECTIVE, red, red, "") == "with it: t: red"
    assert explain(Verdict.NOT_EFFECTIVE, red, None, "gone") == "without it: t: red; gone"
    assert explain(Verdict.BROKEN, broken, red, "") == "without it: t raised: x"
    assert explain(Verdict.BROKEN, red, broken, "") == "with it: t raised: x"
    assert explain(Verdict.BROKEN, red, None, "it does not land") == "it does not land"
