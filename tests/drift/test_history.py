"""Real changes of what code relies on, each flagged at exactly the release that made it."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from patchkit.stacking.rebase import PatchInput, rebase_series
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree, shipped_pins
from tests.moves import diff

HOST = "vllm/v1/metrics/utils.py"  # the same in every pinned release
CHANGES = tomllib.loads(Path(__file__).with_name("history.toml").read_text())["change"]


@cache
def tree(version: str) -> SourceTree:
    return open_tree(f"v{version}")


def patch(change: dict[str, Any]) -> bytes:
    old = tree(change["base"]).files[HOST].decode()
    new = f"{change['needs'].strip()}\n{old}\n\n{change['adds'].strip()}\n"
    return diff(old, new, HOST)


def drifts(change: dict[str, Any], version: str) -> list[str]:
    """Return what drifted of the patch on a release, as KIND NAME."""
    result = rebase_series(
        [PatchInput("probe", patch(change))], tree(change["base"]), tree(version)
    )
    return sorted(f"{d.kind} {d.name}" for o in result.outcomes for d in o.drifts)


@pytest.mark.network
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c['what'][:60]}")
def test_a_change_is_flagged_at_the_release_that_made_it(change: dict[str, Any]) -> None:
    versions = list(shipped_pins().versions)
    versions = versions[versions.index(change["base"]) :]
    last = versions.index(change["release"]) if change["release"] else len(versions) - 1
    found = {version: drifts(change, version) for version in versions[: last + 1]}
    wanted: dict[str, list[str]] = {version: [] for version in found}
    if change["release"]:
        wanted[change["release"]] = sorted(change["drifts"])
    assert found == wanted


def test_the_table_is_long_enough_and_of_each_kind() -> None:
    flagged = [change for change in CHANGES if change["release"]]
    assert len(flagged) >= 25
    kinds = {drift.partition(" ")[0] for change in flagged for drift in change["drifts"]}
    assert kinds == {
        "attribute", "call", "choice", "default", "import", "keyword", "name", "type", "value",
    }  # fmt: skip
