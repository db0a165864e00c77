"""The table of the engine runs, on runs that are written down here."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.engine.__main__ import CASES, INT8, Case, judge
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


def test_a_control_past_the_kernel_is_not_shown() -> None:
    """Caught: the path of a control not looked at."""
    line = judge(CONTROL, OFF, found(0, [1, 7, 3]))
    assert line["problems"] == ["0 of 1 decoding steps went through verify"]


def test_an_engine_that_did_not_end_well_is_not_shown() -> None:
    """Caught: an error of one run taken for no tokens."""
    line = judge(EAGER, OFF, {"error": "exit status 1"})
    assert (line["ok"], line["problems"]) == (False, ["exit status 1"])


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
