"""Landings that would be wrong, each made by some version: none may land, and no byte change."""

from __future__ import annotations

import tomllib
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

import patchkit

PATH = "p/m.py"
CASES = tomllib.loads(Path(__file__).with_name("wrong_landings.toml").read_text())


@pytest.mark.parametrize("case", CASES["case"], ids=lambda case: f"{case['kind']}: {case['name']}")
def test_it_does_not_land(case: dict[str, Any]) -> None:
    old, new = (case[key].splitlines(keepends=True) for key in ("base", "authored"))
    patch = "".join(unified_diff(old, new, f"a/{PATH}", f"b/{PATH}")).encode()
    base = {PATH: case["base"], **case.get("base_files", {})}
    target = {**({PATH: case["target"]} if case["target"] else {}), **case.get("target_files", {})}
    before = {path: text.encode() for path, text in target.items()}
    result = patchkit.port([patch], {path: text.encode() for path, text in base.items()}, before)
    assert not result.ok
    assert dict(result.tree.files) == before
