"""The table of the engine runs, on runs that are written down here."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.engine import __main__ as table
from tests.gpu.engine.__main__ import CASES, INT8, Case, Folders, judge, run
from tests.gpu.engine.table import last_lines, printed
from tests.gpu.engine.tree import tree_sha256

EAGER = Case("TRITON_ATTN", INT8, graphs=False)
CONTROL = Case("TRITON_ATTN", INT8, graphs=False, swap=True)


def found(verify: int, far: list[int], near: list[int] | None = None) -> dict[str, Any]:
    near = near or [4, 5, 6]
    return {
        "tokens": {"far": far, "near": near},
        "margins": {"far": [9.0, 9.0, 9.0], "near": [9.0, 9.0, 9.0]},
        "induced": {"far": [1, 2, 3], "near": [4, 5, 6]},
        "drafting": {"drafts": 2, "draft_tokens": 14, "accepted_tokens": 13},
        "captured": {"verify": 0, "unified": 0},
        "steps": [
            {"decoding": False, "verify": 0, "unified": 2},
            {"decoding": True, "verify": verify, "unified": 2 - verify},
        ],
    }


OFF, ON = found(0, [1, 2, 3]), found(2, [1, 2, 3])


def test_equal_runs_of_which_one_took_the_path_are_shown() -> None:
    """Caught: the runs exchanged."""
    line = judge(EAGER, OFF, ON)
    assert line["problems"] == []
    assert line["ok"] is True
    assert (line["equal"], line["positions"], line["induced"]) == (6, 6, 1.0)
    assert line["path"] == {"captured": 0, "called": 2, "decoding steps": 1, "silent steps": 0}


def test_a_run_on_the_old_way_is_not_shown() -> None:
    """Caught: no look at the path, so that two runs of the old way are equal."""
    line = judge(EAGER, OFF, OFF)
    assert line["problems"] == ["0 of 1 decoding steps went through verify"]
    assert line["ok"] is False


def test_other_tokens_are_not_shown() -> None:
    """Caught: the comparison's problems dropped."""
    line = judge(EAGER, OFF, found(2, [1, 2, 7]))
    assert line["problems"] == ["'far' at 2: 7 for 3, margin 9.00"]
    assert line["ok"] is False


def test_the_control_is_shown_where_only_the_swapped_request_differs() -> None:
    """Caught: a control that passes because everything is broken."""
    assert judge(CONTROL, OFF, found(2, [1, 7, 3]))["ok"] is True
    assert judge(CONTROL, OFF, ON)["problems"] == ["swapped scales went unnoticed or elsewhere: []"]
    line = judge(CONTROL, OFF, found(2, [1, 7, 3], [4, 5, 9]))
    assert line["ok"] is False


def test_a_control_drafts_little_once_it_copies_no_more() -> None:
    """Caught: half of the steps asked of a control too; one of three asked of a pair."""
    idle = [{"decoding": True, "verify": 0, "unified": 2}] * 2
    control = found(2, [1, 7, 3])
    assert judge(CONTROL, OFF, control | {"steps": control["steps"] + idle})["ok"] is True
    line = judge(EAGER, OFF, ON | {"steps": ON["steps"] + idle})
    assert line["problems"] == ["1 of 3 decoding steps went through verify"]


def test_a_control_past_the_kernel_is_not_shown() -> None:
    """Caught: the path of a control not looked at."""
    line = judge(CONTROL, OFF, found(0, [1, 7, 3]))
    assert line["problems"] == ["0 of 1 decoding steps went through verify"]


def test_an_engine_that_did_not_end_well_is_not_shown() -> None:
    """Caught: an error of one run taken for no tokens."""
    line = judge(EAGER, OFF, {"error": "exit status 1"})
    assert (line["ok"], line["problems"]) == (False, ["exit status 1"])


def test_runs_of_other_requests_are_not_shown_and_end_nothing() -> None:
    """Caught: the comparison's ValueError, which would hide every other case."""
    other = {**ON, "tokens": {"far": [1, 2, 3]}}
    line = judge(EAGER, OFF, other)
    assert (line["ok"], line["problems"]) == (False, ["requests ['far', 'near'] and ['far']"])


LOG = """INFO 11-30 16:18:17 [importing.py:53] ValueError: is what a line of INFO may hold
Traceback (most recent call last):
  File "/x/run.py", line 9, in <module>
    raise ValueError("no")
(EngineCore pid=7) ERROR 11-30 16:18:17 [core.py:9] torch.OutOfMemoryError: CUDA out of memory
  Tried to allocate 2 GiB
nanobind: leaked 12 functions!
 - leaked function "get_result"
See https://nanobind.readthedocs.io"""


def test_the_last_error_of_a_log_is_told_and_not_what_follows_it() -> None:
    """Caught: the log's last lines; its first error; a line that only mentions one; no limit."""
    said = "torch.OutOfMemoryError: CUDA out of memory\nTried to allocate 2 GiB"
    assert last_lines(LOG) == said
    assert last_lines("a\n\nb: no Error: here\n  c\n") == "b: no Error: here\nc"
    assert last_lines("") == ""
    assert len(last_lines(f"ValueError: {'x' * 999}\n{'y' * 999}")) == 601


def test_what_is_printed_is_short_whatever_went_wrong() -> None:
    """Eight cases take under 6,000 characters. Caught: every problem; problems of many lines."""
    bad = judge(EAGER, OFF, {"error": "long\n" * 999})
    other = judge(CASES[4], OFF, found(2, [1, 2, 3])) | {"problems": ["x" * 400] * 999}
    lines = printed([*[bad] * 4, *[other] * 4])
    assert len(lines) < 6000
    assert lines.count("BAD ") == 8
    assert len(lines.splitlines()) == 4 * 2 + 4 * 5 + 1
    assert "      and 996 more: result.json has them\n" in lines
    assert lines.endswith("\n0 of 8 cases are as they must be")


def test_a_printed_case_has_its_figures() -> None:
    """Caught: drafts of the run with the option off."""
    off = {**OFF, "drafting": {"drafts": 2, "draft_tokens": 14, "accepted_tokens": 11}}
    lines = printed([judge(EAGER, off, ON)])
    assert lines.splitlines() == [
        "ok  TRITON_ATTN, int8_per_token_head, 8/2 heads of 128, eager: 6 of 6 equal, 0 excluded, "
        "0 other; margins move 0.0, at most 0.0 of 1.761; 100.0% copied; drafts 13/14; verify "
        "0 captured, 2 called in 1 steps, 0 silent",
        "1 of 1 cases are as they must be",
    ]


def test_a_run_that_fails_is_an_error_and_leaves_its_log(tmp_path: Path) -> None:
    """There is no checkpoint. Caught: the whole log as the error; no log."""
    error = run(Folders(tmp_path, tmp_path), EAGER.shape, (), 5)["error"]
    assert error.startswith("exit status 1: FileNotFoundError: ")
    assert "\n" not in error
    assert "Traceback" in (tmp_path / "run-5.log").read_text()


def run_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[[str, int], bool], *options: str
) -> dict[str, Any]:
    """The table's result.json where runs of some shapes and numbers fail; its status is 3."""

    def runs(_folders: Folders, shape: str, options: Any, number: int) -> dict[str, Any]:
        if fails(shape, number):
            return {"error": "exit status 1: ValueError: no"}
        return ON if "--verify" in options else OFF

    monkeypatch.setattr(table, "run", runs)
    monkeypatch.setattr(table, "write_checkpoint", lambda *_: None)
    monkeypatch.setattr(table, "installed_site", lambda: folder)
    monkeypatch.setattr(table, "tree_sha256", lambda _: "ab" * 32)
    assert table.main(["--out", str(folder / "out"), *options]) == 3
    return json.loads((folder / "out" / "result.json").read_text())


def test_failed_runs_do_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Caught: an end of the table with the first of them; a failed case left out."""
    result = run_table(tmp_path, monkeypatch, lambda shape, _: shape != EAGER.shape)
    assert [line["case"] for line in result["table"]] == [case.name for case in CASES]
    told = capsys.readouterr().out
    assert f"ok  {CASES[0].name}: 6 of 6 equal" in told
    assert f"BAD {CASES[4].name}\n      exit status 1: ValueError: no\n" in told


def test_a_failed_timed_run_leaves_the_table_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Caught: an exit before result.json is written; status 0, since all cases are as they must."""
    monkeypatch.setattr(table, "CASES", [EAGER])
    result = run_table(tmp_path, monkeypatch, lambda _, number: number >= 1000, "--times", "2")
    assert [line["ok"] for line in result["table"]] == [True]
    assert result["tokens a second"] == {"error": "exit status 1: ValueError: no"}
    assert "\n1 of 1 cases are as they must be\n" in capsys.readouterr().out


def test_a_case_is_held_against_the_bound_of_its_shape() -> None:
    """Caught: one bound for every shape."""
    assert judge(EAGER, OFF, ON)["bound"] == 1.761
    assert judge(CASES[4], OFF, ON)["bound"] == 1.905


def test_the_table_has_eager_and_graphs_each_with_a_control() -> None:
    """Caught: a case left out."""
    found = {(case.graphs, case.swap) for case in CASES if case.cache == INT8}
    assert found == {(False, False), (True, False), (False, True), (True, True)}
    assert CONTROL.run_options(verify=False) == EAGER.run_options(verify=False)
    assert "--swap" in CONTROL.run_options(verify=True)


def test_a_wheel_and_its_folder_have_one_hash_which_code_changes(tmp_path: Path) -> None:
    """Caught: names left out of the hash; a stub or a compiled part in it."""
    files = {"vllm/a.py": "a = 1\n", "vllm/v1/b.py": "b = 2\n", "vllm/__init__.py": ""}
    wheel = tmp_path / "vllm-0.28.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, "vllm/_C.abi3.so": "x", "other/c.py": "c = 3\n"}.items():
            archive.writestr(name, text)
    site = tmp_path / "site"
    for name, text in {**files, "vllm/_vllm_fa2_C.py": "", "other/d.py": "d = 4\n"}.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert tree_sha256(wheel) == tree_sha256(site)
    before = tree_sha256(site)
    (site / "vllm" / "a.py").rename(site / "vllm" / "c.py")
    assert tree_sha256(site) != before
    with pytest.raises(ValueError, match="no Python files of vllm"):
        tree_sha256(tmp_path / "site" / "vllm")
