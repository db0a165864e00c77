"""A child that dies costs what it had begun, and the rest is measured by the next one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from patchkit.errors import PatchkitError
from patchkit.records.machine import Gpu, GpuState
from tests.bench.kernels import running, stand_ins
from tests.bench.kernels.__main__ import arguments, chosen, status
from tests.bench.kernels.rows import Row, Rows
from tests.bench.kernels.stand_ins import A, B, row
from tests.bench.kernels.verify_attention import SUITE

COLUMNS = ["one", "two"]


def statuses(rows: Rows) -> dict[str, str]:
    return {found.name: found.status for found in rows}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path / "rows.jsonl", "key")


def test_kept_rows_depend_on_what_the_record_says_of_the_gpu() -> None:
    """Broken: rows measured under one power limit in the record of another."""
    state = GpuState(1980.0, 3201.0, "P0", 600.0, 50.0)
    gpu = Gpu(0, "GPU-1", "NVIDIA H200", "580.95", 700.0, state)
    assert running.lasting(lambda: gpu) == {"driver": "580.95", "power_limit_w": 700.0}
    assert running.lasting(lambda: None) == {"driver": "unknown", "power_limit_w": None}

    def refuses() -> Gpu:
        raise PatchkitError("cannot be understood")

    assert running.lasting(refuses) == {"driver": "unknown", "power_limit_w": None}


def measure(rows: Rows, child: object) -> None:
    running.measured("suite", [A, B], COLUMNS, rows, "cpu", 2, child)


def test_the_column_that_ended_the_process_has_failed_and_the_rest_is_measured(rows: Rows) -> None:
    measure(rows, stand_ins.dies_at_two)
    assert statuses(rows) == {
        "one: b1-100-q1": "timed",
        "two: b1-100-q1": "failed",
        "one: b1-100-q2": "timed",
        "two: b1-100-q2": "timed",
    }
    lost = rows.get(A, "two")
    assert lost is not None
    assert lost.reason == "the process ended (exit 7)"


def test_while_columns_are_timed_in_turn_all_without_a_row_have_failed(rows: Rows) -> None:
    measure(rows, stand_ins.dies_while_timing)
    assert statuses(rows) == {
        "one: b1-100-q1": "timed",
        "two: b1-100-q1": "failed",
        "one: b1-100-q2": "timed",
        "two: b1-100-q2": "timed",
    }


def test_a_child_that_never_begins_ends_the_run_all_the_same(rows: Rows) -> None:
    measure(rows, stand_ins.ends_at_once)
    assert set(statuses(rows).values()) == {"failed"}
    assert len(statuses(rows)) == 4


def test_what_was_told_of_a_failure_stays(rows: Rows) -> None:
    measure(rows, stand_ins.told_before)
    found = rows.get(A, "one")
    assert found is not None
    assert (found.status, found.reason) == ("failed", "bad address")
    assert [r.status for r in rows].count("timed") == 3


def test_a_child_of_which_nothing_is_heard_is_ended(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SILENCE_S", 5)
    measure(rows, stand_ins.hangs)
    assert statuses(rows)["two: b1-100-q1"] == "failed"
    lost = rows.get(A, "two")
    assert lost is not None
    assert lost.reason == "nothing was heard for 5 s"


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([row(A, "ours bf16"), row(A, "SDPA")], 0),
        ([row(A, "ours bf16"), row(A, "SDPA", "skipped")], 0),
        ([row(A, "ours bf16"), row(A, "SDPA", "failed")], 3),
        ([row(A, "ours bf16"), row(A, "ours int8", "skipped")], 5),
        ([row(A, "SDPA", "skipped")], 5),
        ([], 5),
    ],
)
def test_the_exit_status_is_no_pass_where_ours_is_not_timed(
    rows: Sequence[Row], wanted: int
) -> None:
    assert status(rows) == wanted


def test_shards_are_all_cases_and_share_none() -> None:
    parts = [chosen(SUITE, arguments(["--shard", f"{n}/3"]))[0] for n in (1, 2, 3)]
    assert sorted(len(part) for part in parts) == [16, 17, 17]
    assert {case for part in parts for case in part} == set(SUITE.cases)
    for wrong in ("4/3", "0/3", "x", "1/2/3"):
        with pytest.raises(
            SystemExit, match=rf"^--shard {wrong}: it is I/N, and I is one of 1 to N$"
        ):
            chosen(SUITE, arguments(["--shard", wrong]))


def test_only_what_is_asked_for_is_measured() -> None:
    cases, columns = chosen(SUITE, arguments(["--only", "int8: b1-131072"]))
    assert columns == ["ours int8", "unified int8"]
    assert {(case.batch, case.context) for case in cases} == {(1, 131_072)}
    assert len(cases) == 5


def test_on_a_cpu_peers_that_need_a_gpu_are_left_out() -> None:
    cases, columns = chosen(SUITE, arguments(["--device", "cpu"]))
    assert columns == ["ours bf16", "ours int8", "ours fp8", "SDPA"]
    assert max(case.context for case in cases) < 100
