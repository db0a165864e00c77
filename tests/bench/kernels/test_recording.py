"""Timed rows become the rows of a record; a changed tree gets none, and the reason is told."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.records.machine import Gpu, GpuState
from tests.bench.kernels import recording
from tests.bench.kernels.cases import Case
from tests.bench.kernels.rows import Row
from tests.bench.kernels.verify_attention import SUITE

LONG = Case(1, 131_072, 8)
PORT = replace(SUITE, sources=("port",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one committed source."""
    (tmp_path / "port").mkdir()
    (tmp_path / "port" / "kernel.py").write_text("x = 1\n")
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def timed(column: str, *samples: float) -> Row:
    return Row(LONG, column, "timed", "", samples, 500_000_000, 4200.0, 0.002)


def test_a_record_has_each_timed_row_with_its_workload(root: Path) -> None:
    run, refused = recording.begin(PORT, root, ["python", "-m", "x"], None)
    assert refused is None
    rows = [
        timed("ours int8", 100.0, 102.0, 101.0),
        timed("FlashAttention 3", 175.0),
        Row(LONG, "SDPA", "skipped", "no memory"),
    ]
    path = recording.write(run, PORT, rows, root / "records")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["name"] == "verify-attention"
    found = {row["row"]: row for row in record["rows"]}
    assert list(found) == [
        "ours-int8-b1-131072-q8",
        "flashattention-3-b1-131072-q8",
        "copy",
    ]
    ours = found["ours-int8-b1-131072-q8"]
    assert (ours["subject"], ours["measured"]) == ("ours", "verify attention, int8")
    assert (ours["value"], ours["unit"], ours["n"]) == (101.0, "µs", 3)
    assert ours["workload"] == {
        "context": 131_072,
        "new_tokens": 8,
        "batch": 1,
        "draft_length": 7,
        "cached_tokens": 131_064,
        "kv_format": "int8_per_token_head",
        "block_size": 448,
        "cache": "cold",
    }
    flash = found["flashattention-3-b1-131072-q8"]
    assert (flash["subject"], flash["measured"]) == ("FlashAttention 3", "verify attention, bf16")
    assert (found["copy"]["value"], found["copy"]["unit"]) == (4200.0, "GB/s")


def test_a_gpu_that_nvidia_smi_does_not_name_gets_no_record(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: a record that says cpu of what ran on a slice of a GPU, or on one out of sight."""
    state = GpuState(1980.0, 3201.0, "P0", 600.0, 50.0)
    whole = Gpu(0, "GPU-1", "NVIDIA H200", "580.95", 700.0, state)
    for found, named in ((None, "none"), (whole, "NVIDIA H200")):
        monkeypatch.setattr("patchkit.records.run.read_gpu", lambda found=found: found)
        run, refused = recording.begin(PORT, root, ["x"], None, "NVIDIA H200 MIG 1g.18gb")
        assert run is None
        assert refused == (
            f"the GPU is NVIDIA H200 MIG 1g.18gb, nvidia-smi and CUDA_VISIBLE_DEVICES name {named}"
        )
    assert recording.begin(PORT, root, ["x"], None, "NVIDIA H200")[1] is None


def test_a_changed_tree_gets_no_record_and_the_reason_is_told(root: Path) -> None:
    (root / "port" / "kernel.py").write_text("x = 2\n")
    run, refused = recording.begin(PORT, root, ["python"], None)
    assert run is None
    assert refused is not None
    assert "kernel.py" in refused or "port" in refused
