"""The environment that tests run in: made once in the cache, keyed by what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from patchkit.errors import PatchkitError

DATA = Path(__file__).parents[1] / "vllm" / "environment.toml"
ENVIRONMENTS = "environments"
_COMPLETE = "complete"
# What a build of torch for NVIDIA's cards requires, by any of its releases.
_CUDA = re.compile(r"(nvidia|cuda)-")


@dataclass(frozen=True)
class Environment:
    """What is installed: a version of torch, requirements, and those that come without theirs.

    `cpu_index` is the index of torch builds for the CPU; `variables` are set for the tests.
    """

    torch: str
    requirements: tuple[str, ...]
    alone: tuple[str, ...]
    cpu_index: str
    variables: Mapping[str, str]


def read_environment(path: Path = DATA) -> Environment:
    """Return the environment that patchkit describes for the releases it knows."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Environment(
        table["torch"],
        tuple(table["requirements"]),
        tuple(table["alone"]),
        table["cpu_index"],
        table["variables"],
    )


def environment_key(environment: Environment, index: str | None, python: str) -> str:
    """Return the name of an environment's folder, the same for the same content."""
    parts = (environment.torch, environment.requirements, environment.alone, index, python)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def make_environment(
    environment: Environment,
    root: Path,
    *,
    torch_index: str | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Return the interpreter of an environment below the cache's root, made first if need be.

    Packages come from the user's own index. A build of torch for CUDA is installed only from an
    index that `torch_index` names; unless it does, and where the user's index has such a build,
    torch's own index of CPU builds is asked. Raises PatchkitError with pip's last line.
    """
    from filelock import FileLock

    python = f"{sys.implementation.cache_tag} {sys.prefix}"
    folder = root / ENVIRONMENTS / environment_key(environment, torch_index, python)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise PatchkitError(
            f"the cache cannot be written: {err.strerror}", place=str(folder.parent)
        ) from err
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if (folder / _COMPLETE).is_file():
            return inside
        announce("making the environment for tests, once")
        shutil.rmtree(folder, ignore_errors=True)  # what a killed run left
        _run([sys.executable, "-m", "venv", str(folder)], "the environment cannot be made")
        _install(environment, inside, torch_index)
        (folder / _COMPLETE).touch()
    return inside


def _install(environment: Environment, python: Path, torch_index: str | None) -> None:
    torch = f"torch=={environment.torch}"
    index = torch_index
    if index is None and _is_cuda(_candidate(python, torch, None)):
        index = environment.cpu_index
        if _is_cuda(_candidate(python, torch, index)):
            raise _only_cuda(torch, index)
    source = ["--index-url", index] if index else []
    # torch's index has no more than torch: what that requires comes from the user's index
    _pip(python, "install", "--no-deps", *source, torch)
    _pip(python, "install", torch, *environment.requirements)
    if environment.alone:
        _pip(python, "install", "--no-deps", *environment.alone)


def _candidate(python: Path, requirement: str, index: str | None) -> Mapping[str, Any]:
    """Return the metadata of the file that pip would install; it is not downloaded for that where
    the index offers metadata apart, as PEP 658 has it.
    """
    source = ["--index-url", index] if index else []
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-"]
    text = _pip(python, "install", *options, *source, requirement)
    found: Mapping[str, Any] = json.loads(text)["install"][0]["metadata"]
    return found


def _is_cuda(metadata: Mapping[str, Any]) -> bool:
    """Return whether a build of torch requires what only NVIDIA's cards need, on this machine."""
    for text in metadata.get("requires_dist", ()):
        requirement = Requirement(text)
        marker = requirement.marker
        if _CUDA.match(requirement.name) and (marker is None or marker.evaluate({"extra": ""})):
            return True
    return False


def _only_cuda(torch: str, index: str) -> PatchkitError:
    return PatchkitError(
        f"there is only a build of {torch} for CUDA",
        place=index,
        expected="one for the CPU",
        hint="--torch-index names the index to take it from, --python an interpreter that has it",
    )


def _pip(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    shown = f"pip {arguments[0]} {arguments[-1]}"
    return _run(command, f"`{shown}` failed")


def _run(command: Sequence[str], fact: str) -> str:
    """Return what a command printed; PatchkitError with the last thing it complained of."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.split("\n") if line.strip()]
        errors = (
            [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        )
        raise PatchkitError(
            f"{fact}: {errors[-1].removeprefix('ERROR: ')}",
            hint="--python names an interpreter that has pytest and torch already",
        )
    return done.stdout
