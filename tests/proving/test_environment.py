"""The environment for tests: what pip is asked for, with a pip that is played."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchkit.errors import PatchkitError
from patchkit.proving import environment
from patchkit.proving.environment import Environment, make_environment, read_environment

SMALL = Environment("2.13.0", ("numpy", "pytest"), ("xgrammar",), "https://cpu", {"X": "1"})
CUDA = ["filelock", "cuda-toolkit==13.0; platform_system == 'Linux'"]
CPU = ["filelock", "nvidia-nccl-cu13; extra == 'all'", "cuda-toolkit; sys_platform == 'none'"]


class Pip:
    """Plays pip and venv: `builds` says what torch requires, by index."""

    def __init__(self, builds: dict[str | None, list[str]]) -> None:
        self.builds = builds
        self.calls: list[list[str]] = []
        self.fails_at = ""

    def run(self, command: Sequence[str], fact: str) -> str:
        words = [word for word in command[1:] if not word.startswith("--disable")]
        self.calls.append(words)
        if self.fails_at in words:
            raise PatchkitError(fact)
        if words[:2] == ["-m", "venv"]:
            Path(words[2]).mkdir()
            return ""
        assert "--report" not in words or "--dry-run" in words
        index = words[words.index("--index-url") + 1] if "--index-url" in words else None
        return json.dumps({"install": [{"metadata": {"requires_dist": self.builds[index]}}]})

    @property
    def installed(self) -> list[str]:
        """The words of each real installation."""
        return [
            " ".join(words[3:])
            for words in self.calls
            if words[1:3] == ["pip", "install"] and "--dry-run" not in words
        ]


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    played = Pip({None: CPU, "https://cpu": CPU, "https://mine": CUDA})
    monkeypatch.setattr(environment, "_run", played.run)
    return played


def test_the_users_own_index_is_used_where_its_torch_is_for_the_cpu(
    pip: Pip, tmp_path: Path
) -> None:
    python = make_environment(SMALL, tmp_path)
    assert python.parent.parent.parent == tmp_path / "environments"
    assert pip.installed == [
        "--no-deps torch==2.13.0",
        "torch==2.13.0 numpy pytest",
        "--no-deps xgrammar",
    ]


def test_a_build_for_cuda_is_never_pulled_unasked(pip: Pip, tmp_path: Path) -> None:
    pip.builds[None] = CUDA
    make_environment(SMALL, tmp_path)
    assert pip.installed[0] == "--no-deps --index-url https://cpu torch==2.13.0"
    assert not any("index" in words for words in pip.installed[1:])


def test_where_there_are_only_builds_for_cuda_it_is_refused(pip: Pip, tmp_path: Path) -> None:
    pip.builds |= {None: CUDA, "https://cpu": CUDA}
    with pytest.raises(PatchkitError) as caught:
        make_environment(SMALL, tmp_path)
    assert str(caught.value) == (
        "https://cpu: there is only a build of torch==2.13.0 for CUDA, expected one for the CPU"
    )
    assert pip.installed == []


def test_an_index_that_is_named_is_taken_as_it_is(pip: Pip, tmp_path: Path) -> None:
    make_environment(SMALL, tmp_path, torch_index="https://mine")
    assert pip.installed[0] == "--no-deps --index-url https://mine torch==2.13.0"


def test_it_is_made_once_for_each_content(pip: Pip, tmp_path: Path) -> None:
    said: list[str] = []
    first = make_environment(SMALL, tmp_path, announce=said.append)
    calls = len(pip.calls)
    assert make_environment(SMALL, tmp_path, announce=said.append) == first
    assert len(pip.calls) == calls
    assert said == ["making the environment for tests, once"]
    other = Environment("2.14.0", *(getattr(SMALL, n) for n in list(vars(SMALL))[1:]))
    made = {first, make_environment(other, tmp_path)}
    made.add(make_environment(SMALL, tmp_path, torch_index="https://mine"))
    assert len(made) == 3


def test_what_was_broken_off_is_made_anew(pip: Pip, tmp_path: Path) -> None:
    pip.fails_at = "xgrammar"
    with pytest.raises(PatchkitError, match="`pip install xgrammar` failed"):
        make_environment(SMALL, tmp_path)
    pip.fails_at = ""
    python = make_environment(SMALL, tmp_path)
    assert (python.parent.parent / "complete").is_file()


def test_a_failure_is_told_with_the_last_error() -> None:
    script = "import sys; sys.exit('WARNING: x\\nERROR: first\\nERROR: no such thing\\n\\nnote: y')"
    with pytest.raises(PatchkitError) as caught:
        environment._run([sys.executable, "-c", script], "it failed")
    assert str(caught.value) == "it failed: no such thing"
    assert environment._run([sys.executable, "-c", "print(1)"], "it failed") == "1\n"


def test_the_environment_that_comes_with_patchkit() -> None:
    shipped = read_environment()
    assert shipped.torch == "2.13.0"
    assert "torchvision" not in shipped.requirements
    assert any(name.startswith("pytest") for name in shipped.requirements)
    assert shipped.variables["VLLM_TARGET_DEVICE"] == "cpu"
