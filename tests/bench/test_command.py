"""The command from end to end on two small releases, in one process."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchkit.records.record import read_record
from patchkit.records.run import Run
from tests.bench import measure
from tests.bench import rebase as command
from tests.bench.test_series import BASE, LATER
from tests.records.conftest import git

TREES = {"v1.0": BASE, "v1.1": BASE, "v1.2": LATER}
RELEASES = ("--base", "1.0", "--target", "1.1", "--later", "1.2")


class SameProcess:
    """An executor that works in this process."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> SameProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work, job) -> Future:
        future: Future = Future()
        future.set_result(work(job))
        return future


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for module in (command, measure):
        monkeypatch.setattr(module, "open_tree", TREES.__getitem__)
    monkeypatch.setattr(command, "ProcessPoolExecutor", SameProcess)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(command.main, [*RELEASES, *arguments])

    return invoke


def test_the_file_holds_what_is_printed_as_json(run, tmp_path: Path) -> None:
    result = run("--hunks", "4,18", "--repeat", "2", "--out", "docs/speed.json", "--json")
    assert result.exit_code == 0, result.output
    assert result.output == (tmp_path / "docs/speed.json").read_text()
    record = json.loads(result.output)
    assert record["releases"] == {"base": "1.0", "target": "1.1", "later": "1.2"}
    assert record["seed"] == 7
    sizes = [(r["hunks"], r["files"], r["patches"], r["n"]) for r in record["rows"]]
    assert sizes == [(4, 1, 1, 2), (18, 5, 2, 2)]
    for row in record["rows"]:
        assert row["outcomes"] == {"placed": row["hunks"]}
        assert row["wall_s_least"] <= row["wall_s"] <= row["wall_s_most"]
        assert 0 < row["placing_share"] + row["drift_share"] <= 1


def test_a_record_has_the_processors_time_and_where_it_went(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_begin", lambda: _measured(tmp_path))
    result = run("--hunks", "4,18", "--repeat", "2", "--record", "records")
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "records").iterdir()
    rows = read_record(path).rows
    assert [name for name in rows if name.endswith("-18")] == [
        "cpu-18", "cpu-a-hunk-18", "placing-18", "drift-18",
    ]  # fmt: skip
    assert [rows[f"{name}-4"].unit for name in ("cpu", "cpu-a-hunk", "placing")] == ["s", "ms", "%"]
    assert rows["cpu-4"].n == 2
    # seconds of the whole in milliseconds of one of four: 1000 / 4
    assert rows["cpu-a-hunk-4"].value == pytest.approx(250 * rows["cpu-4"].value)
    assert all((command.ROOT / source).exists() for source in command.SOURCES)


def _measured(folder: Path) -> Run:
    """A run of a small project under git, which is clean."""
    root = folder / "project"
    root.mkdir()
    (root / "bench.py").write_text("")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        git(root, *words)
    return Run.begin("x", root=root, sources=("bench.py",), command=[], uses_gpu=False)


def test_the_table_has_a_line_for_each_size(run) -> None:
    result = run("--hunks", "4,18", "--repeat", "1")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines() if line.strip()[:1].isdigit()]
    assert [line[:4] for line in lines] == [["4", "1", "1", "1"], ["18", "5", "2", "1"]]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [("ten", "`ten` is not a list of numbers"), ("0", "a series has one hunk at least")],
)
def test_sizes_that_are_none_are_refused(run, sizes: str, said: str) -> None:
    result = run("--hunks", sizes)
    assert result.exit_code == 2
    assert said in result.output
