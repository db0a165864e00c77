"""Whether an environment has what patches need of it, apart from whether they land.

The environment's own interpreter is asked for what only it knows: versions of distributions, which
modules it finds, where its headers lie. Nothing that is looked for is imported or run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from patchkit.diff.requires import Need, Required
from patchkit.errors import PatchkitError

_ASK = """
import importlib.metadata, importlib.util, json, sys, sysconfig
from pathlib import Path
wanted = json.loads(sys.argv[1])
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
def place(name):
    # a package on the way is not imported: its folders are looked at instead
    folders, parts = None, name.split(".")
    for at, part in enumerate(parts):
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(".".join(parts[: at + 1]), folders) if find else None
            if spec is not None:
                break
        if spec is None:
            return None
        folders = spec.submodule_search_locations
        if folders is None and at + 1 < len(parts):
            return None
    return spec.origin or "a namespace"
nvidia = [str(p) for e in sys.path for p in Path(e or ".").glob("nvidia/*/include")]
print(json.dumps({
    "python": sys.version.split()[0],
    "packages": {name: version(name) for name in wanted["packages"]},
    "modules": {name: place(name) for name in wanted["modules"]},
    "includes": [sysconfig.get_path("include"), *nvidia],
}))
"""
_INCLUDES = ("/usr/local/cuda/include", "/usr/local/include", "/usr/include")
_FOLDERS_IN = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_ROOTS_IN = ("CUDA_HOME", "CUDA_PATH")


@dataclass(frozen=True)
class Environment:
    """What an interpreter says of its environment, as far as it was asked."""

    python: str
    packages: dict[str, str | None]
    modules: dict[str, str | None]
    includes: tuple[str, ...]
    variables: dict[str, str]


@dataclass(frozen=True)
class Met:
    """One requirement, whether the environment meets it, and what is there."""

    required: Required
    is_met: bool
    text: str


def read_environment(python: str, wanted: Sequence[Required]) -> Environment:
    """Return the environment of an interpreter; raises PatchkitError where that does not run."""
    question = {
        "packages": [r.name for r in wanted if r.need is Need.PACKAGE],
        "modules": [r.name for r in wanted if r.need is Need.MODULE],
    }
    try:
        done = subprocess.run(
            [python, "-c", _ASK, json.dumps(question)],
            check=True, capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as err:
        raise PatchkitError("is no Python that runs", place=python) from err
    variables = dict(os.environ)
    includes = [folder for folder in found["includes"] if folder]
    for name in _FOLDERS_IN:
        includes += [f for f in variables.get(name, "").split(os.pathsep) if f]
    includes += [f"{variables[name]}/include" for name in _ROOTS_IN if variables.get(name)]
    return Environment(
        found["python"],
        found["packages"],
        found["modules"],
        tuple(dict.fromkeys((*includes, *_INCLUDES))),
        variables,
    )


def judge(required: Required, there: Environment) -> Met:
    """Return whether an environment meets a requirement."""
    is_met, text = _JUDGES[required.need](required, there)
    return Met(required, is_met, text)


def _package(required: Required, there: Environment) -> tuple[bool, str]:
    version = there.packages[required.name]
    if version is None:
        return False, "is not installed"
    return _covers(required, version), f"{version} is installed"


def _python(required: Required, there: Environment) -> tuple[bool, str]:
    return _covers(required, there.python), f"it is {there.python}"


def _covers(required: Required, version: str) -> bool:
    try:
        found = Version(version)
    except InvalidVersion:
        return False
    return required.range is None or required.range.contains(found, prereleases=True)


def _module(required: Required, there: Environment) -> tuple[bool, str]:
    place = there.modules[required.name]
    return place is not None, f"is {place}" if place else "cannot be found"


def _command(required: Required, there: Environment) -> tuple[bool, str]:
    found = shutil.which(required.name, path=there.variables.get("PATH", os.defpath))
    return found is not None, f"is {found}" if found else "is not on the search path"


def _header(required: Required, there: Environment) -> tuple[bool, str]:
    for folder in there.includes:
        if (Path(folder) / required.name).is_file():
            return True, f"is in {folder}"
    return False, f"is in none of {', '.join(there.includes)}"


def _option(required: Required, there: Environment) -> tuple[bool, str]:
    value = there.variables.get(required.name)
    if value is None:
        return False, "is not set"
    return required.value in (None, value), f"is set to {value!r}"


_JUDGES = {
    Need.PACKAGE: _package,
    Need.MODULE: _module,
    Need.PYTHON: _python,
    Need.COMMAND: _command,
    Need.HEADER: _header,
    Need.OPTION: _option,
}
