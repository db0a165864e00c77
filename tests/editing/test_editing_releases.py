"""The shipped patch on its real release: edited, taken apart and put together again."""

import shutil
import subprocess
from pathlib import Path

import pytest

from patchkit.cli import run
from tests.editing.store import read

pytestmark = pytest.mark.network
ROOT = Path(__file__).parents[2]
FILE = "vllm/v1/core/kv_cache_utils.py"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with the shipped patches for one release."""
    for folder in ("patches/v0.28.0", "kvarn_port"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "pyproject.toml").write_text("[tool.patchkit]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_split_and_a_fold_leave_the_shipped_patch_as_it_is(store: Path) -> None:
    before = read(store)
    assert run(["split", "block-promotion", "--hunks", "1", "--into", "promote"]) == 0
    series = (store / "patches/v0.28.0/series").read_text()
    assert series == "promote.patch\nblock-promotion.patch\nspec-decode-verify.patch\n"
    assert run(["fold", "promote", "--into", "block-promotion"]) == 0
    assert read(store) == before


def test_the_whole_release_is_a_work_tree_in_which_one_line_can_be_recorded(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read(store)
    assert run(["edit", "block-promotion"]) == 0
    at = store / ".patchkit/edit/v0.28.0"
    assert sum(path.is_file() for path in (at / "vllm").rglob("*")) > 4000
    assert run(["record"]) == 0
    assert read(store) == before
    text = (at / FILE).read_text()
    (at / FILE).write_text(
        text.replace("if spec.page_size_bytes < new_", "if new_page_size > spec.page_", 1)
    )
    capsys.readouterr()
    assert run(["record"]) == 1
    assert "block-promotion.patch: hunk 1: the adaptation to 0.29.0" in capsys.readouterr().err
    assert run(["record", "--forget-decisions"]) == 0
    log = ["git", "log", "--format=%s", "--numstat", "-1"]
    said = subprocess.run(log, cwd=at, check=True, capture_output=True, text=True).stdout
    assert said.split() == ["block-promotion", "124", "1", FILE]
    assert run(["check", "--frozen"]) == 0
