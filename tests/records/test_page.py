"""docs/records.md: its benchmark is run, and its marks are judged, as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.records.claims import RULES, judge_text
from patchkit.records.compare import COMPARABLE
from patchkit.records.figures import find_figures
from patchkit.records.prose import markdown_prose
from patchkit.records.record import Workload, read_record
from tests.records.conftest import git
from tests.records.made import BF16, library, replaced, row, store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+) ?([\w-]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with the record that the page speaks of."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "verify.py").write_text("")
    rows = [
        row("int8-131072-q8", 100.04), row("bf16-131072-q8", 133.4, BF16),
        row("bf16-131072-q8-b8", 1066.0, replaced(BF16, batch=8)),
    ]  # fmt: skip
    store(tmp_path, "verify-attention-2026-11-30-h200", *rows, name="verify-attention")
    return tmp_path


@pytest.mark.parametrize(("language", "rule", "text"), BLOCKS)
def test_each_example_is_judged_as_the_page_says(
    root: Path, language: str, rule: str, text: str
) -> None:
    if language == "python":
        return
    place = "docs/x.md" if language == "markdown" else "patches/v0.28.0/x.patch"
    judged = judge_text(text, place, library(root))
    assert {finding.rule for finding in judged.findings} == ({rule} if rule else set())
    assert sum(judged.counts.values()) > 0
    if language == "text":
        assert judged.counts == {"record": 1, "arithmetic": 1}


def test_the_page_has_an_example_of_each_kind() -> None:
    shown = "".join(text for language, _, text in BLOCKS if language == "markdown")
    kinds = re.findall(r"<!-- (\w+):", shown)
    assert set(kinds) == {"record", "ratio", "published", "arithmetic"}
    assert [language for language, *_ in BLOCKS].count("python") == 1


def test_the_benchmark_of_the_page_writes_a_record(project: Path) -> None:
    (code,) = [text for language, _, text in BLOCKS if language == "python"]
    (project / "bench.py").write_text(code)
    git(project, "commit", "-q", "-a", "-m", "the page's")
    subprocess.run(
        [sys.executable, "bench.py"],
        cwd=project, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, check=True,
    )  # fmt: skip
    (path,) = (project / "docs" / "records").iterdir()
    record = read_record(path)
    assert record.rows["bf16-131072-q8"].value == 133.4
    assert record.rows["bf16-131072-q8"].workload == Workload(
        context=131072, new_tokens=8, batch=1, kv_format="bf16", cache="cold"
    )
    assert record.header["command"] == ["bench.py"]


def test_the_table_of_rules_and_the_list_of_things_compared_are_the_codes() -> None:
    assert re.findall(r"^\| `([\w-]+)` \| (.*) \|$", PAGE, re.MULTILINE) == list(RULES.items())
    listed = re.search(r"`compare=` is one of (.*?)\.", PAGE, re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r"`(\w+)`", listed[1])) == COMPARABLE


def test_the_pages_prose_has_no_figure_of_its_own() -> None:
    assert find_figures(markdown_prose(PAGE)[0], tables=True) == []
