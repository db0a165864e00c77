"""The planner says what engines laid out, and whatever it says wrong is noticed."""

from dataclasses import replace
from typing import Any

import pytest

from patchkit.kv.planned import Plan
from tests.e2e.cases import CASES
from tests.e2e.figures import (
    REFUSED,
    Figures,
    differences,
    figures_of_plan,
    figures_of_run,
    plan_case,
)
from tests.e2e.record import read_recorded

RECORDED = read_recorded()
STARTED = [key for key, run in RECORDED.items() if "error" not in run]
NO_ROOM = [key for key, run in RECORDED.items() if "To serve" in run.get("error", "")]


def planned(release: str, name: str, **change: Any) -> Figures:
    """What the planner says of a case, other than as it is where asked for."""
    case = CASES[name]
    state_dtype = RECORDED[release, name].get("state_dtype", case.state_dtype)
    return figures_of_plan(plan_case(case, release, state_dtype, **change))


def noticed(release: str, name: str, **change: Any) -> list[str]:
    """In which figures a changed plan is not what the engine has."""
    found = differences(planned(release, name, **change), figures_of_run(RECORDED[release, name]))
    return [text.partition(":")[0] for text in found]


def plan_of(name: str) -> Plan:
    """What the planner says of a case on 0.29.0, as a plan."""
    found = plan_case(CASES[name], "v0.29.0", "float32")
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize(("release", "name"), RECORDED)
def test_the_planner_says_what_the_engine_did(release: str, name: str) -> None:
    assert differences(planned(release, name), figures_of_run(RECORDED[release, name])) == []


def test_every_case_is_recorded_on_each_of_its_releases() -> None:
    wanted = {(release, name) for name, case in CASES.items() for release in case.releases}
    assert wanted <= set(RECORDED)


def test_what_an_engine_has_and_logs_is_read() -> None:
    assert figures_of_run(RECORDED["v0.28.0", "hybrid, block of 32"]) == {
        "starts": True,
        "state layers": 7,
        "tables of state layers": 3,
        "block of state layers (tokens)": [288],
        "page of state layers (bytes)": [73728],
        "full layers": 3,
        "tables of full layers": 1,
        "block of full layers (tokens)": [288],
        "page of full layers (bytes)": [73728],
        "blocks": 75,
        "padding layers": [2],
        "aligned block (tokens)": "288",
        "padding of a state (%)": "7.46",
        "KV cache size (tokens)": "7500",
        "requests at once": "7.50",
    }
    no_room = figures_of_run(RECORDED["v0.29.0", "mixed, too little memory"])
    assert no_room == {"starts": False, "longest (tokens)": 1280}
    assert figures_of_run(RECORDED["v0.28.0", "mixed"]) == REFUSED


def test_a_start_for_which_no_length_fits_says_none() -> None:
    error = "To serve at least one request with the model's max seq len (4000), (0.0 GiB KV cache"
    assert figures_of_run({"error": error}) == {"starts": False, "longest (tokens)": 0}


@pytest.mark.parametrize(("release", "name"), STARTED)
def test_a_planner_told_another_block_size_is_noticed(release: str, name: str) -> None:
    # no block of these cases is what comes of 1,024 tokens
    assert "block of full layers (tokens)" in noticed(release, name, block_size=1024)


@pytest.mark.parametrize(("release", "name"), STARTED)
def test_a_planner_told_of_more_memory_is_noticed(release: str, name: str) -> None:
    changed = noticed(release, name, memory_bytes=2 * CASES[name].memory_bytes)
    assert changed == ["blocks", "KV cache size (tokens)", "requests at once"]


@pytest.mark.parametrize(("release", "name"), NO_ROOM)
def test_a_planner_that_lets_a_start_pass_is_noticed(release: str, name: str) -> None:
    memory_bytes = CASES[name].memory_bytes
    assert noticed(release, name, memory_bytes=2 * memory_bytes // 3) == ["longest (tokens)"]
    assert noticed(release, name, memory_bytes=16 * memory_bytes)[0] == "starts"


def test_a_planner_without_the_patch_is_noticed() -> None:
    changed = noticed("v0.29.0", "mixed", promotion=False)
    assert "block of window layers (tokens)" in changed
    assert "page of full layers (bytes)" in changed


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"num_blocks": 57}, ["blocks: planned 57, engine 56"]),
        ({"tokens": 6223}, ["KV cache size (tokens): planned 6223, engine 6222"]),
        ({"concurrency": 6.23}, ["requests at once: planned 6.23, engine 6.22"]),
        ({"group_size": 4}, ["padding layers: planned [1, 5], engine [2]"]),
        ({"fits": False}, ["starts: planned False, engine True"]),
    ],
)  # fmt: skip
def test_a_wrong_figure_of_a_plan_is_noticed(change: dict[str, Any], texts: list[str]) -> None:
    wrong = figures_of_plan(replace(plan_of("hybrid"), **change))
    assert differences(wrong, figures_of_run(RECORDED["v0.29.0", "hybrid"]))[: len(texts)] == texts


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"layers": 8}, "state layers"),
        ({"groups": 2}, "tables of state layers"),
        ({"block": 128}, "block of state layers (tokens)"),
        ({"page_bytes": 98305}, "page of state layers (bytes)"),
        ({"content_bytes": 68000}, "padding of a state (%)"),
        ({"kind": "window"}, "window layers"),
    ],
)  # fmt: skip
def test_a_wrong_figure_of_a_kind_is_noticed(change: dict[str, Any], name: str) -> None:
    plan = plan_of("hybrid")
    kinds = tuple(replace(k, **change) if k.kind == "state" else k for k in plan.kinds)
    wrong = figures_of_plan(replace(plan, kinds=kinds))
    found = differences(wrong, figures_of_run(RECORDED["v0.29.0", "hybrid"]))
    assert name in [text.partition(":")[0] for text in found]


def test_what_only_an_engine_has_is_noticed() -> None:
    assert differences({}, {"window layers": 3}) == ["window layers: planned None, engine 3"]
