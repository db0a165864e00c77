"""The table says what was timed, what was skipped and why, and which targets are met."""

from __future__ import annotations

import pytest

from tests.bench.kernels import prefill, store_pack, tile_attention
from tests.bench.kernels.cases import Case
from tests.bench.kernels.ratios import TIME, Target
from tests.bench.kernels.rows import Row
from tests.bench.kernels.table import legend, table
from tests.bench.kernels.verify_attention import SUITE

CASE, LONG = Case(1, 1536, 8), Case(8, 131_072, 8)


def timed(column: str, us: float, case: Case = CASE, copy: float = 4000.0) -> Row:
    return Row(case, column, "timed", "", (us, us, us, us), 4_000_000, copy, 0.001)


def test_a_skipped_peer_is_marked_in_its_cell_and_its_reason_is_below() -> None:
    rows = [
        timed("ours bf16", 10.0),
        Row(CASE, "unified bf16", "skipped", "vllm: ModuleNotFoundError"),
        Row(LONG, "ours bf16", "failed", "relative error 0.5"),
        Row(LONG, "unified bf16", "skipped", "vllm: ModuleNotFoundError"),
    ]
    assert table([CASE, LONG], ["ours bf16", "unified bf16"], rows).splitlines() == [
        "batch  context  q     ours bf16  unified bf16",
        "    1     1536  8  10.0 ±0% 10%       skipped",
        "    8   131072  8        failed       skipped",
        "unified bf16: skipped (b1-1536-q8, b8-131072-q8): vllm: ModuleNotFoundError",
        "ours bf16: failed (b8-131072-q8): relative error 0.5",
    ]


def test_a_cell_that_was_not_measured_is_neither_timed_nor_skipped() -> None:
    assert table([CASE], ["ours bf16"], []).splitlines()[1].endswith("  -")


def test_many_cases_of_one_reason_are_counted() -> None:
    cases = [Case(1, 1536, q) for q in (1, 2, 3, 4)]
    rows = [Row(case, "SDPA", "skipped", "no memory") for case in cases]
    assert "SDPA: skipped (4 cases): no memory" in table(cases, ["SDPA"], rows).splitlines()


def test_the_legend_has_the_copy_of_the_run_or_of_its_parts() -> None:
    assert "(4123 GB/s, bytes read + written)" in legend([4123.4, 4123.1])
    assert "(4100 to 4200 GB/s," in legend([4200.0, 4100.0])


AT = (1, 1536, 8)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (Target("a", "one", AT, "two", 0.5), "met        a <= 0.5: 0.5"),
        (Target("a", "one", AT, "two", 0.4), "MISSED     a <= 0.4: 0.5"),
        (Target("a", "two", AT, "one", 2.0, at_least=True), "met        a >= 2: 2"),
        (Target("a", "two", AT, "one", 2.5, at_least=True), "MISSED     a >= 2.5: 2"),
        (Target("a", "one", AT, None, 0.1, at_least=True), "met        a >= 0.1: 0.1"),
        (Target("a", "one", AT, "gone", 1.0), "not shown  a <= 1 (gone: skipped: absent)"),
        (Target("a", "none", AT, "one", 1.0), "not shown  a <= 1 (none: not measured)"),
        (Target("a", "one", AT, TIME, 10), "met        a <= 10: 10"),
        (Target("a", "two", AT, TIME, 10), "MISSED     a <= 10: 20"),
        (Target("a", "one", (8, 1536, 8), None, 1.0), "not shown  a <= 1 (one: not measured)"),
    ],
)
def test_a_target_is_met_missed_or_not_shown(target: Target, said: str) -> None:
    rows = [timed("one", 10.0), timed("two", 20.0), Row(CASE, "gone", "skipped", "absent")]
    assert target.verdict(rows, judged=True) == said


def test_on_another_gpu_a_ratio_is_told_and_not_judged() -> None:
    target = Target("a", "one", AT, None, 0.7, at_least=True)
    assert target.verdict([timed("one", 10.0)], judged=False) == "not judged a >= 0.7: 0.1"


def test_the_targets_are_those_that_are_to_be_reached_on_an_h200() -> None:
    found = {(t.column, t.over, t.cell, t.bound, t.at_least) for t in SUITE.targets}
    assert found == {
        ("ours bf16", None, (1, 131_072, 8), 0.70, True),
        ("ours bf16", "FlashAttention 3", (1, 131_072, 8), 1.15, False),
        ("ours int8", "ours bf16", (1, 131_072, 8), 0.75, False),
        ("unified bf16", "ours bf16", (1, 131_072, 8), 30, True),
        ("ours bf16", "FlashAttention 3", (1, 1536, 8), 1.2, False),
        ("ours int8", "ours bf16", (1, 65536, 1), 1.0, False),
    }
    cells = {(case.batch, case.context, case.new_tokens) for case in SUITE.cases}
    assert {target.cell for target in SUITE.targets} <= cells
    assert {t.column for t in SUITE.targets} <= set(SUITE.columns)
    assert SUITE.judged_on == "H200"


def test_the_targets_of_kvarn_are_those_of_the_issue() -> None:
    flash = "FlashAttention 3"
    found = {(t.column, t.over, t.cell, t.bound) for t in tile_attention.SUITE.targets}
    assert found == {
        *(("ours k4v2", flash, (batch, 131_072, 1), 0.55) for batch in (1, 16)),
        *(("ours k4v2", flash, (batch, 131_072, 8), 0.8) for batch in (1, 16)),
        *(("ours k4v2", flash, (batch, 131_072, 16), 1.1) for batch in (1, 16)),
        *(("ours k4v2", flash, (1, 4096, query), 1.2) for query in (1, 8, 16)),
    }
    found = {(t.column, t.over, t.cell, t.bound) for t in prefill.SUITE.targets}
    assert found == {
        ("ours k4v2 gathered", flash, (1, 16_384, 2048), 1.15),
        ("ours k4v2 gathered", flash, (1, 102_400, 2048), 1.05),
    }
    found = {(t.column, t.over, t.cell, t.bound) for t in store_pack.SUITE.targets}
    assert found == {
        ("ours k4v2 store", TIME, (1, 16_448, 2048), 60),
        *(("ours k4v2 pack", TIME, (b, 1088, q), 3) for b in (1, 16) for q in (1, 8)),
    }
    for suite in (tile_attention.SUITE, prefill.SUITE, store_pack.SUITE):
        cells = {(case.batch, case.context, case.new_tokens) for case in suite.cases}
        assert {target.cell for target in suite.targets} <= cells
        assert {t.over for t in suite.targets} <= {*suite.columns, TIME}
        assert not any(target.at_least for target in suite.targets)
