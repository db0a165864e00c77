"""Real changes of protocols: told at the release that made them, and not before.

Each change was read in the two releases' own sources.
"""

from __future__ import annotations

import tomllib
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

import patchkit
from patchkit import SourceTree
from patchkit.outcome import Drift
from patchkit.upstream import open_tree

pytestmark = pytest.mark.network

RELEASES = (
    "0.21.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1",
    "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("history.toml").read_text())[
    "case"
]


def between(old: bytes | None, new: str, path: str) -> bytes:
    before = old.decode() if old is not None else ""
    name = f"a/{path}" if old is not None else "/dev/null"
    pair = before.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(unified_diff(*pair, name, f"b/{path}")).encode()


def patch(case: dict[str, Any], base: SourceTree) -> bytes:
    path = case.get("append_to")
    if path is None:
        return between(None, case["text"].lstrip("\n"), "vllm/mine.py")
    old = base.files[path]
    return between(old, old.decode() + case["text"].removeprefix("\n"), path)


def told(patches: list[bytes], base: SourceTree, target: SourceTree) -> list[Drift]:
    result = patchkit.port(patches, base, target)
    assert [(o.status, o.reason) for o in result.outcomes if not o.landed] == []
    assert [text for o in result.outcomes for text in o.not_checked] == []
    return [d for o in result.outcomes for d in o.drifts if d.kind == "protocol"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_a_change_is_told_from_its_release_on(case: dict[str, Any]) -> None:
    base = open_tree(f"v{case['base']}")
    place = {release: number for number, release in enumerate(RELEASES)}
    for release in RELEASES[place[case["base"]] :]:
        found = told([patch(case, base)], base, open_tree(f"v{release}"))
        expected = {
            drift["name"]
            for drift in case["drifts"]
            if place[drift["since"]] <= place[release] < place.get(drift.get("until"), 99)
        }
        assert {drift.name for drift in found} == expected, release
        for drift in case["drifts"]:
            if drift["since"] == release:
                (text,) = [d.text for d in found if d.name == drift["name"]]
                assert drift["says"] in text, release
