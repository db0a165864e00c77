"""patchkit's own wheel, in a clean environment, in an empty folder."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from patchkit.diff import diff_files, format_files
from patchkit.upstream import open_tree

ROOT = Path(__file__).parents[1]
CACHE = "vllm/config/cache.py"
HEADER = b"""\
Description: Say what the block size is
Reason: a test
Origin: written here
Forwarded: not-needed
Exit-Condition: never
Applies-To: >=0.28,<0.30

"""

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder)]
    subprocess.run([*pip, str(ROOT)], check=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `patchkit` of a new environment that holds the wheel and what it requires."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True)
    return environment / "bin" / "patchkit"


def patchkit(command: Path, folder: Path, *args: str, status: int = 0) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(command), *args, "--json"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == status, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_wheel_holds_the_package_and_its_pins_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        pins = archive.read("patchkit/upstream/upstream_pins.toml")
    assert pins == (ROOT / "upstream_pins.toml").read_bytes()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"patchkit", "patchkit-0.1.0.dist-info"}
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "patchkit").rglob("*.py")}
    assert sources <= set(names)


def test_init_port_check_and_rebase_work_in_an_empty_folder(command: Path, tmp_path: Path) -> None:
    before = open_tree("v0.28.0").files[CACHE]
    after = before.replace(b'"nvfp4",\n', b'"nvfp4",\n    "mine",\n', 1)
    assert after != before
    text = HEADER + format_files(diff_files({CACHE: before}, {CACHE: after}))
    (tmp_path / "mine.patch").write_bytes(text)

    trees = ("--base", "v0.28.0", "--target", "v0.29.0")
    ported = patchkit(command, tmp_path, "port", "mine.patch", *trees)
    assert [outcome["status"] for outcome in ported["outcomes"]] == ["placed"]
    assert [path.name for path in tmp_path.iterdir()] == ["mine.patch"]

    created = patchkit(command, tmp_path, "init", "--from", "v0.28.0")["created"]
    assert created == ["pyproject.toml", "patches/v0.28.0/series"]
    series = tmp_path / "patches" / "v0.28.0"
    (tmp_path / "mine.patch").rename(series / "mine.patch")
    with (series / "series").open("a") as file:
        file.write("mine.patch\n")
    assert patchkit(command, tmp_path, "check")["series"][0]["refreshed"] == ["mine.anchors.toml"]

    moved = patchkit(command, tmp_path, "rebase", "v0.29.0")
    assert moved["series"][0]["stored"]["state"] == "written"
    stored = tmp_path / "patches" / "v0.29.0"
    assert sorted(path.name for path in stored.iterdir()) == [
        "mine.anchors.toml",
        "mine.patch",
        "series",
    ]
    assert patchkit(command, tmp_path, "check", "--frozen")["ok"] is True
