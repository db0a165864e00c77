"""The command from end to end on two small releases."""

import json

import pytest
from click.testing import CliRunner

from patchkit.tree import SourceTree
from tests.bench_rebase import __main__ as command
from tests.bench_rebase.replay import main as replay
from tests.bench_rebase.test_cases import NEW, OLD


class SameProcess:
    """An executor that works in this process."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    map = staticmethod(map)


@pytest.fixture
def run(monkeypatch, tmp_path):
    trees = {"1.0": SourceTree(OLD), "1.1": SourceTree(NEW)}
    monkeypatch.setattr(command, "_tree", trees.__getitem__)
    monkeypatch.setattr(command, "ProcessPoolExecutor", SameProcess)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(command.main, ["--releases", "v1.0:v1.1", *arguments])

    return invoke


CHOICE = ("--kinds", "none,wrap", "--tools", "GNU patch,patchkit", "--cases", "5")


def test_the_file_is_what_is_printed_as_json_and_the_same_twice(run, tmp_path):
    first = run(*CHOICE, "--out", "docs/bench/a.json", "--json")
    second = run(*CHOICE, "--out", "docs/bench/b.json", "--json")
    assert first.exit_code == second.exit_code == 0
    assert first.output == second.output == (tmp_path / "docs/bench/a.json").read_text()
    report = json.loads(first.output)
    assert report["seed"] == 1
    assert report["releases"] == ["1.0:1.1"]
    assert report["tools"] == ["GNU patch", "patchkit"]
    assert {name: kind["cases"] for name, kind in report["kinds"].items()} == {"none": 3, "wrap": 2}
    for tool in report["tools"]:
        counts = report["total"]["tools"][tool]
        assert counts["right"] + counts["wrong"] + counts["refused"] == 5
    assert report["total"]["tools"]["GNU patch"]["right"] >= 3


def test_what_patchkit_misses_is_kept_and_can_be_given_to_it_again(run, monkeypatch, tmp_path):
    def nothing(*_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tests.bench_rebase.peers.port", nothing)
    done = run("--kinds", "wrap", "--tools", "patchkit", "--cases", "1", "--keep", "kept")
    assert "patchkit crash: ZeroDivisionError in test_command.py:" in done.output
    assert ": oh: 1.0-1.1-wrap-1-001\n" in done.output
    kept = tmp_path / "kept/refused/1.0-1.1-wrap-1-001"
    assert sorted(path.name for path in kept.iterdir()) == [
        "authored", "base", "case.txt", "change.patch", "target", "truth"
    ]  # fmt: skip
    assert "verdict    refused: crash: ZeroDivisionError in" in (kept / "case.txt").read_text()
    monkeypatch.undo()
    again = CliRunner().invoke(replay, [str(kept), "--diff"])
    assert again.output.startswith("1.0-1.1-wrap-1-001: right")
    assert "hunk 1: placed by " in again.output
