"""The overlay of each release has every file that verify attention is made of, and none besides."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from patchkit.series.overlay import parse_overlay

ROOT = Path(__file__).parents[1]
PLACE = "vllm/v1/attention/ops/verify_attention"
BACKEND = {
    "kvarn_port/backend/__init__.py": f"{PLACE}/__init__.py",
    "kvarn_port/backend/verify_layer.py": f"{PLACE}/layer.py",
}
RELEASES = ["v0.28.0", "v0.29.0", "v0.30.0", "v0.31.0", "v0.32.0", "v0.33.0"]


def siblings(name: str, found: set[str]) -> set[str]:
    """The modules beside a kernel that it imports, those that these import, and itself."""
    path = ROOT / "kvarn_port" / "kernels" / f"{name}.py"
    if name in found or not path.exists():  # what a later Triton brings may not be there
        return found
    found.add(name)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for sibling in names:
                siblings(sibling, found)
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_gets_the_kernels_that_the_wiring_imports(release: str) -> None:
    path = ROOT / "patches" / release / "overlay.toml"
    overlay = parse_overlay(path.read_bytes(), path.name)
    kernels = siblings("verify_attention", set())
    assert {entry.source: entry.path for entry in overlay.entries} == BACKEND | {
        f"kvarn_port/kernels/{name}.py": f"{PLACE}/{name}.py" for name in kernels
    }


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_that_is_wired_has_the_overlay(release: str) -> None:
    series = (ROOT / "patches" / release / "series").read_text().split()
    assert "spec-decode-verify.patch" in series
