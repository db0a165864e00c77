"""The summary: counts, shares, and text that is the same for the same run."""

import json
import re
from io import StringIO
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.bench_rebase.__main__ import main, shares
from tests.bench_rebase.cases import Generated
from tests.bench_rebase.judge import Judgement, Verdict
from tests.bench_rebase.report import Summary, as_json, print_table

SETTINGS = {"seed": 7, "releases": ["1:2"], "grain": "hunk", "tools": ["GNU patch", "patchkit"]}


@pytest.fixture
def summary():
    result = Summary(SETTINGS)
    none, wrap = (
        SimpleNamespace(kind="none", releases=("1", "2"), hunks=1),
        SimpleNamespace(kind="wrap", releases=("2", "3"), hunks=2),
    )
    result.add_generated(Generated("none", ("1", "2"), (none,) * 3, {}, {"x": 9}))
    result.add_generated(Generated("wrap", ("2", "3"), (wrap,), {"two orders": 1}, {}))
    for verdict, exact in ((Verdict.RIGHT, True), (Verdict.RIGHT, False), (Verdict.WRONG, False)):
        result.add_judgement(none, "GNU patch", Judgement(verdict, exact))
        result.add_judgement(none, "patchkit", Judgement(Verdict.RIGHT, True))
    result.add_judgement(wrap, "GNU patch", Judgement(Verdict.REFUSED))
    result.add_judgement(wrap, "patchkit", Judgement(Verdict.RIGHT, False))
    return result


def test_the_summary_as_json(summary):
    assert json.loads(as_json(summary)) == {
        "format": 1,
        **SETTINGS,
        "kinds": {
            "none": {
                "cases": 3,
                "units": 0,
                "dropped": {},
                "dropped_share": 0.0,
                "tools": {
                    "GNU patch": {"right": 2, "wrong": 1, "refused": 0, "exact": 1},
                    "patchkit": {"right": 3, "wrong": 0, "refused": 0, "exact": 3},
                },
            },
            "wrap": {
                "cases": 1,
                "units": 1,
                "dropped": {"two orders": 1},
                "dropped_share": 0.5,
                "tools": {
                    "GNU patch": {"right": 0, "wrong": 0, "refused": 1, "exact": 0},
                    "patchkit": {"right": 1, "wrong": 0, "refused": 0, "exact": 0},
                },
            },
        },
        "pairs": {
            "1:2": {
                "GNU patch": {"right": 2, "wrong": 1, "refused": 0, "exact": 1},
                "patchkit": {"right": 3, "wrong": 0, "refused": 0, "exact": 3},
            },
            "2:3": {
                "GNU patch": {"right": 0, "wrong": 0, "refused": 1, "exact": 0},
                "patchkit": {"right": 1, "wrong": 0, "refused": 0, "exact": 0},
            },
        },
        "total": {
            "cases": 4,
            "tools": {
                "GNU patch": {"right": 2, "wrong": 1, "refused": 1, "exact": 1},
                "patchkit": {"right": 4, "wrong": 0, "refused": 0, "exact": 3},
            },
        },
    }
    assert as_json(summary).endswith("}\n")


def test_the_table_says_what_was_dropped(summary):
    console = Console(width=100, record=True, file=StringIO())
    print_table(summary, console)
    lines = [re.split("  +", line.strip()) for line in console.export_text().splitlines()]
    assert ["kind", "cases", "dropped", "GNU patch", "patchkit"] in lines
    assert ["none", "3", "0 (0%)", "2 / 1 / 0 (1)", "3 / 0 / 0 (3)"] in lines
    assert ["wrap", "1", "1 (50%)", "0 / 0 / 1 (0)", "1 / 0 / 0 (0)"] in lines
    assert ["1:2", "3", "2 / 1 / 0 (1)", "3 / 0 / 0 (3)"] in lines
    assert ["all", "4", "1", "2 / 1 / 1 (1)", "4 / 0 / 0 (3)"] in lines
    assert ["dropped of wrap: 1 two orders"] in lines
    assert ["wrap: more than 30% of the cases were dropped"] in lines


def test_cases_are_shared_evenly():
    assert shares(11, ["a", "b", "c"]) == {"a": 4, "b": 4, "c": 3}
    assert shares(2, ["a", "b", "c"]) == {"a": 1, "b": 1, "c": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--releases", "1"], "`1` is not OLD:NEW, for example 0.27.1:0.28.0"),
        (["--releases", "1:2", "--kinds", "none,wrong"], "`wrong` is not one of none, reformat"),
        (["--releases", "1:2", "--tools", "patch"], "`patch` is not one of GNU patch, git apply"),
    ],
)
def test_a_wrong_choice_is_a_usage_error(arguments, message):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
