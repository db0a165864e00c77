"""Timed rows become the rows of a record; a changed tree gets none, and the reason is told."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.records.claims import judge_text
from patchkit.records.library import Library
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
        "ours-int8-b1-131072-q8-gbps",
        "ours-int8-b1-131072-q8-of-copy",
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
    rate = found["ours-int8-b1-131072-q8-gbps"]  # 500,000,000 bytes in 100 to 102 µs
    assert (rate["value"], rate["unit"]) == (pytest.approx(4950.495, abs=1e-3), "GB/s")
    assert rate["measured"] == "bandwidth of verify attention, int8"
    share = found["ours-int8-b1-131072-q8-of-copy"]  # over 4,200 GB/s
    assert (share["value"], share["unit"]) == (pytest.approx(117.869, abs=1e-3), "%")
    flash = found["flashattention-3-b1-131072-q8"]
    assert (flash["subject"], flash["measured"]) == ("FlashAttention 3", "verify attention, bf16")
    assert (found["copy"]["value"], found["copy"]["unit"]) == (4200.0, "GB/s")


@pytest.mark.parametrize(
    ("column", "subject", "variant"),
    [
        ("ours k4v2", "ours", "k4v2"),
        ("ours k4v2 pack", "ours", "k4v2 pack"),
        ("FlashAttention 3 fp8", "FlashAttention 3", "fp8"),
        ("FlashAttention 3", "FlashAttention 3", "bf16"),
        ("SDPA", "SDPA", "bf16"),
        ("unified int4", "unified", "int4"),
    ],
)
def test_a_column_says_whose_it_is_and_of_which_format(
    column: str, subject: str, variant: str
) -> None:
    assert recording.parts(column) == (subject, variant)


def test_a_tree_that_changes_meanwhile_is_told_and_no_traceback(root: Path) -> None:
    run, _ = recording.begin(PORT, root, ["python"], None)
    (root / "port" / "kernel.py").write_text("x = 2\n")
    text = recording.written(run, PORT, [timed("SDPA", 1.0)], root / "records")
    assert text.startswith(f"no record: {root}: the tree is not what was committed")


def said(folder: Path, pair: str, figure: str, compare: str, text: str = "") -> list[str]:
    """What `patchkit claims` says of a ratio that README would state: rules and facts."""
    mark = f"<!-- ratio: verify-attention-cpu#{pair} compare={compare} -->{figure}<!-- /ratio -->"
    result = judge_text(f"{text}it is {mark} of it.\n", "README.md", Library(folder, folder / "r"))
    return [f"{finding.rule}: {finding.text}" for finding in result.findings]


def test_the_ratios_of_the_targets_can_be_stated_and_no_others(root: Path) -> None:
    """Broken: measured with its format before the comma; formats told in the subject."""
    run, _ = recording.begin(PORT, root, ["x"], None)
    cells = [
        LONG,
        replace(LONG, context=65536),
        replace(LONG, batch=8),
        replace(LONG, new_tokens=5),
    ]
    times = {"ours bf16": 200.0, "ours int8": 150.0, "FlashAttention 3": 160.0,
             "unified bf16": 7000.0}  # fmt: skip
    rows = [replace(timed(column, us), case=case) for case in cells for column, us in times.items()]
    recording.write(run, PORT, rows, root / "r")
    long = "b1-131072-q8"
    stated = "With 131,072 tokens "
    int8 = f"ours-int8-{long} / #ours-bf16-{long}"
    assert said(root, int8, "0.75×", "kv_format", stated) == []
    assert said(root, int8, "25 %", "kv_format as=less") == []
    flash = f"ours-bf16-{long} / #flashattention-3-{long}"
    assert said(root, flash, "1.25×", "subject", stated) == []
    unified = f"unified-bf16-{long} / #ours-bf16-{long}"
    assert said(root, unified, "35×", "subject", stated) == []

    refused = "not-comparable: the rows differ in more than"
    formats = "kv_format: int8_per_token_head and bfloat16"
    assert said(root, int8, "0.75×", "subject") == [f"{refused} subject: {formats}"]
    crossed = f"ours-int8-{long} / #flashattention-3-{long}"
    assert said(root, crossed, "0.94×", "subject") == [f"{refused} subject: {formats}"]
    for other, fields in (
        ("b1-65536-q8", "context: 131072 and 65536; cached_tokens: 131064 and 65528"),
        ("b8-131072-q8", "batch: 1 and 8"),
        ("b1-131072-q5",
         "new_tokens: 8 and 5; draft_length: 7 and 4; cached_tokens: 131064 and 131067"),
    ):  # fmt: skip
        pair = f"ours-int8-{long} / #ours-bf16-{other}"
        assert said(root, pair, "0.75×", "kv_format") == [f"{refused} kv_format: {fields}"]
    copied = said(root, f"ours-bf16-{long} / #copy", "0.75×", "subject")
    assert copied[0].startswith(f"{refused} subject: measured: verify attention and copy on the")
    assert said(root, int8, "0.75×", "kv_format", "With 65,536 tokens ") == [
        "other-workload: the text says 65,536 tokens, the record has context 131072, new_tokens 8, "
        "cached_tokens 131064, draft_length 7, block_size 448"
    ]


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
