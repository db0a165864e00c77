"""docs/architecture.md against the real import graph: every module named once, imports one way."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()
# What holds no logic of its own: the doors of packages, and `python -m patchkit`.
DOORS = {"__init__", "__main__"}


def named() -> list[str]:
    """The modules that the page names in its lists, in its order."""
    listed = "\n".join(line for line in PAGE.split("\n") if re.match(r"- `|  `", line))
    return re.findall(r"`([a-z0-9_.]+)`", listed)


def modules() -> set[str]:
    """The modules of the package, dotted, without `patchkit.`."""
    files = (ROOT / "patchkit").rglob("*.py")
    paths = [path.relative_to(ROOT / "patchkit").with_suffix("") for path in files]
    return {".".join(path.parts) for path in paths if path.name not in DOORS}


def imports(module: str) -> set[str]:
    """The modules of the package that a module imports, at its top or inside its functions."""
    path = ROOT / "patchkit" / (module.replace(".", "/") + ".py")
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("patchkit"):
            base = (node.module or "").removeprefix("patchkit").lstrip(".")
            names = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
            found |= ({base} | names) & modules()
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("patchkit.") for a in node.names} & modules()
    return found - {module}


def test_every_module_is_on_the_page_exactly_once() -> None:
    assert {name: n for name, n in Counter(named()).items() if n > 1} == {}
    assert set(named()) == modules()


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_imports_only_what_the_page_names_above_it(module: str) -> None:
    order = {name: place for place, name in enumerate(named())}
    later = {other for other in imports(module) if order[other] > order[module]}
    assert later == set()


def test_the_example_is_what_the_tool_says_of_the_stored_patch() -> None:
    patch = (ROOT / "patches/v0.28.0/block-promotion.patch").read_text()
    call = "_get_kv_cache_groups_uniform_page_size(filtered_spec)"
    assert f"\n-    groups = {call}\n+    groups = _promote_small_blocks(\n" in patch
    anchors = (ROOT / "patches/v0.28.0/block-promotion.anchors.toml").read_text()
    hunk = anchors.split("[[generated.hunk]]")[2].split("[[override")[0]
    assert hunk.count("{kind = ") == 1
    assert '{kind = "expression replaced", in = "get_kv_cache_groups Call.func"' in hunk
