"""Fixtures: a release's own module, as it was released and with a stored series applied."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from patchkit.diff import apply_exact, parse_patch
from patchkit.series.series import Series, read_series

PATCHES = Path(__file__).parents[2] / "patches"
MODULE = "vllm/v1/core/kv_cache_utils.py"


@dataclass(frozen=True)
class Release:
    """One module of the importable vLLM, twice: as released, and with the stored series."""

    version: str
    pristine: ModuleType
    patched: ModuleType


def package_folder() -> Path:
    """The folder of the importable vLLM, found without importing it."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def release_version(package: Path) -> str:
    """The release that a package folder is, without its local version ("0.28.0")."""
    for node in ast.parse((package / "_version.py").read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found = re.match(r"\d+\.\d+\.\d+", str(node.value.value))
            if found:
                return found[0]
    raise AssertionError(f"{package / '_version.py'} assigns no version")


def stored_versions(patch: str) -> list[str]:
    """The releases with a stored patch that the importable vLLM is: none or one."""
    if importlib.util.find_spec("vllm") is None:
        return []
    version = release_version(package_folder())
    stored = (PATCHES / f"v{version}").is_dir() and stored_series(version).patches
    return [version] if patch in (stored or ()) else []


def stored_series(version: str) -> Series:
    """The series stored for a release; where it is the same as another one, that one."""
    folder = PATCHES / f"v{version}"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    series = read_series(files, version=version)
    return stored_series(series.same_as) if series.same_as else series


def patched_source(series: Series, source: bytes, module: str = MODULE) -> bytes:
    """The module after every patch of a series that touches it, each hunk where it says."""
    for entry in series.entries:
        for file_patch in parse_patch(series.patches[entry.name], entry.name).files:
            if file_patch.path == module:
                content = apply_exact(file_patch, source, allow_offset=False).content
                assert content is not None
                source = content
    return source


def load_source(name: str, path: Path) -> ModuleType:
    """A module executed from a file under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it executes
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", params=stored_versions("block-promotion.patch"))
def release(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """The importable release, one for each series that is stored for it."""
    path = package_folder().parent / MODULE
    patched_path = tmp_path_factory.mktemp("patched") / "kv_cache_utils.py"
    patched_path.write_bytes(patched_source(stored_series(request.param), path.read_bytes()))
    pristine, patched = "patchkit_engine_pristine", "patchkit_engine_patched"
    yield Release(request.param, load_source(pristine, path), load_source(patched, patched_path))
    for name in (pristine, patched):
        del sys.modules[name]
