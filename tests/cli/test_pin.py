import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.cli.options import read_pins
from patchkit.config import find_config
from patchkit.errors import PatchkitError
from patchkit.upstream import pinning
from patchkit.upstream.pins import Artifact, Pins, Release, format_pins

WHEEL = Artifact("vllm-0.99.0-cp38-abi3-manylinux_2_28_x86_64.whl", 1000, "a" * 64, "b" * 64)
SDIST = Artifact("vllm-0.99.0.tar.gz", 10, "c" * 64, yanked="broken")


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the index offer one release."""

    def pin_release(version: str, *_: object) -> Release:
        assert version == "0.99"
        return Pins().with_release(Release("0.99.0", (SDIST, WHEEL))).releases[0]

    monkeypatch.setattr(pinning, "pin_release", pin_release)


def test_a_release_is_written_beside_pyproject(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text("[tool.patchkit]\n")
    assert run(["pin", "0.99"]) == 0
    assert capsys.readouterr().out == (
        "vllm-0.99.0-cp38-abi3-manylinux_2_28_x86_64.whl aaaaaaaaaaaa\n"
        "vllm-0.99.0.tar.gz cccccccccccc (yanked)\n"
        "pinned 0.99.0 in upstream_pins.toml\n"
    )
    pins = Pins().with_release(Release("0.99.0", (WHEEL, SDIST)))
    assert (folder / "upstream_pins.toml").read_text() == format_pins(pins)
    assert run(["pin", "0.99"]) == 0
    assert capsys.readouterr().out.endswith("unchanged: 0.99.0 in upstream_pins.toml\n")


def test_the_repositorys_pins_are_laid_over_the_shipped_ones(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.patchkit]\npins = "own/pins.toml"\n')
    with pytest.raises(PatchkitError) as caught:
        read_pins(find_config(folder))
    assert caught.value.fact == "no such file or directory"
    assert run(["pin", "0.99"]) == 0
    versions = read_pins(find_config(folder)).versions
    assert versions[-1] == "0.99.0"
    assert "0.28.0" in versions


def test_json_names_every_file(
    folder: Path,  # noqa: ARG001
    capsys: pytest.CaptureFixture[str],
    check: Callable[[dict[str, Any]], None],
) -> None:
    assert run(["pin", "0.99", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["release"] == "0.99.0"
    assert document["changed"] is True
    assert document["artifacts"][1] == {
        "filename": "vllm-0.99.0.tar.gz",
        "size_bytes": 10,
        "sha256": "c" * 64,
        "yanked": "broken",
    }
