"""Rows are kept as they come; those of other sources, devices or versions are not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.kernels.cases import Case
from tests.bench.kernels.rows import Row, Rows, digest, spread
from tests.bench.kernels.running import pending

CASE = Case(1, 1000, 8, num_query_heads=4, num_kv_heads=2, head_dim=64)
TIMED = Row(CASE, "ours", "timed", "", (10.0, 30.0, 20.0), 4_000_000, 400.0, 0.002)


def test_a_row_says_the_median_its_bandwidth_and_the_share_of_the_copy() -> None:
    assert TIMED.us == 20.0
    assert TIMED.gbps == 200.0  # 4,000,000 bytes in 20 µs
    assert TIMED.share == 0.5


def test_the_spread_is_half_of_what_lies_between_the_quartiles() -> None:
    # of 1 to 7 they are 2 and 6, the median is 4
    assert spread([7.0, 1.0, 6.0, 2.0, 4.0, 3.0, 5.0]) == 0.5
    assert spread([1.0, 9.0]) == 0.0


def test_a_run_goes_on_with_the_rows_that_are_timed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = Rows(path, "key")
    rows.add(TIMED)
    rows.add(Row(CASE, "peer", "skipped", "absent"))
    rows.add(Row(CASE, "other", "failed", "wrong"))
    again = Rows(path, "key")
    assert list(again) == [TIMED]
    assert pending([CASE], ["ours", "peer", "other"], again) == [(CASE, ["peer", "other"])]
    assert pending([CASE], ["ours"], again) == []


def test_a_row_of_another_block_size_is_another_cell(tmp_path: Path) -> None:
    """Broken: rows found by the case's name, which says nothing of its block size."""
    rows = Rows(tmp_path / "rows.jsonl", "key")
    rows.add(TIMED)
    other = replace(CASE, block_size=128)
    assert pending([other], ["ours"], rows) == [(other, ["ours"])]
    assert rows.get(CASE, "ours") == TIMED


def test_rows_of_another_key_are_dropped_from_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Rows(path, "old").add(TIMED)
    assert list(Rows(path, "new")) == []
    assert path.read_text() == ""
    assert list(Rows(path, "old")) == []


def test_measuring_anew_forgets_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Rows(path, "key").add(TIMED)
    assert list(Rows(path, "key", resume=False)) == []


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Rows(path, "key").add(TIMED)
    line = path.read_text()
    path.write_text(line + line[: len(line) // 2])
    assert list(Rows(path, "key")) == [TIMED]
    assert len(path.read_text().splitlines()) == 1
    assert json.loads(path.read_text())["key"] == "key"


@pytest.mark.parametrize("changed", ["source", "new file", "renamed", "gpu", "patch"])
def test_the_key_follows_sources_and_what_they_ran_on(tmp_path: Path, changed: str) -> None:
    (tmp_path / "port").mkdir()
    (tmp_path / "port" / "kernel.py").write_text("x = 1\n")
    facts = {"gpu": "A", "torch": "2"}
    before = digest(tmp_path, ["port"], facts)
    assert digest(tmp_path, ["port"], dict(reversed(facts.items()))) == before
    if changed == "source":
        (tmp_path / "port" / "kernel.py").write_text("x = 2\n")
    elif changed == "new file":
        (tmp_path / "port" / "deeper").mkdir()
        (tmp_path / "port" / "deeper" / "more.py").write_text("")
    elif changed == "renamed":
        (tmp_path / "port" / "kernel.py").rename(tmp_path / "port" / "other.py")
    elif changed == "patch":  # what is no Python is measured, too
        (tmp_path / "port" / "fix.patch").write_text("--- a/x\n")
    else:
        facts["gpu"] = "B"
    assert digest(tmp_path, ["port"], facts) != before
