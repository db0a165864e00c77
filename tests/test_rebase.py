"""A series moved as a whole: order, what each patch becomes, and where its lines end up."""

from __future__ import annotations

from difflib import unified_diff

import pytest

import patchkit
from patchkit import PatchkitError, SourceTree
from patchkit.diff import parse_patch
from patchkit.stacking.rebase import PatchInput, RebaseResult, rebase_series

PATH = "vllm/mod.py"
BASE = "".join(f"def f{n}(x):\n    a{n}(x)\n    return {n}\n\n\n" for n in range(6)) + "END = 1\n"


def diff(old: str, new: str, path: str = PATH) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
    )
    return "".join(lines).encode()


def series(base: str, *versions: str) -> list[PatchInput]:
    """One patch for each step from a base over several versions."""
    steps = zip((base, *versions), versions, strict=False)
    return [PatchInput(f"{n}.patch", diff(a, b)) for n, (a, b) in enumerate(steps, start=1)]


def move(patches: list[PatchInput], base: str, target: str) -> RebaseResult:
    return rebase_series(
        patches,
        SourceTree({PATH: base.encode()}, partial=True),
        SourceTree({PATH: target.encode()}, partial=True),
    )


def statuses(result: RebaseResult) -> list[tuple[str, int, str]]:
    return [(o.patch, o.hunk, str(o.status)) for o in result.outcomes]


ONE = BASE.replace("    a4(x)\n", "    a4(x)\n    mine(x)\n")
TWO = ONE.replace("    a0(x)\n", "    first(x)\n    second(x)\n    a0(x)\n")


def test_patches_are_placed_on_what_the_ones_before_them_made() -> None:
    result = move(series(BASE, ONE, TWO), BASE, "import os\n" + BASE)
    assert statuses(result) == [("1.patch", 1, "placed"), ("2.patch", 1, "placed")]
    assert result.tree.files[PATH].decode() == "import os\n" + TWO
    assert result.ok
    assert not result.drifted


def test_lines_are_those_of_the_file_after_the_whole_run() -> None:
    result = move(series(BASE, ONE, TWO), BASE, "import os\n" + BASE)
    lines = result.tree.files[PATH].decode().splitlines()
    first, second = result.outcomes
    assert first.target_lines == (26, 26)
    assert lines[25] == "    mine(x)"
    assert second.target_lines == (3, 4)
    assert lines[2:4] == ["    first(x)", "    second(x)"]


def test_line_that_a_later_patch_overwrites_stays_where_it_was() -> None:
    three = ONE.replace("mine(x)", "mine(x, 2)")
    result = move(series(BASE, ONE, three), BASE, BASE)
    assert [o.target_lines for o in result.outcomes] == [(23, 23), (23, 23)]


def test_each_patch_comes_back_as_text_that_applies_in_order() -> None:
    target = "import os\n" + BASE
    result = move(series(BASE, ONE, TWO), BASE, target)
    assert [p.name for p in result.patches] == ["1.patch", "2.patch"]
    again = patchkit.port(
        [p.data for p in result.patches], {PATH: target.encode()}, {PATH: target.encode()}
    )
    assert {str(o.method) for o in again.outcomes} == {"exact"}
    assert again.tree.files[PATH] == result.tree.files[PATH]
    first = result.patches[0]
    assert first.before == {PATH: target.encode()}
    assert first.after == {PATH: ("import os\n" + ONE).encode()}


def test_patch_keeps_its_preamble() -> None:
    head = b"Description: adds mine\nOrigin: here\n\n"
    (patch,) = move(
        [PatchInput("1.patch", head + diff(BASE, ONE))], BASE, "import os\n" + BASE
    ).patches
    assert patch.preamble == head
    assert patch.data.startswith(head)


def test_patch_that_is_upstream_leaves_nothing_and_the_next_goes_on() -> None:
    result = move(series(BASE, ONE, TWO), BASE, "import os\n" + ONE)
    assert statuses(result) == [("1.patch", 1, "already_upstream"), ("2.patch", 1, "placed")]
    assert result.patches[0].data == b""
    assert result.outcomes[0].target_lines is None
    assert result.tree.files[PATH].decode() == "import os\n" + TWO


def test_patch_that_builds_on_one_in_conflict_does_not_land() -> None:
    three = ONE.replace("mine(x)", "mine(x, 2)")
    target = BASE.replace("    a4(x)\n", "    b4(x, 1)\n    c4(x)\n").replace(
        "return 4", "return four"
    )
    result = move(series(BASE, ONE, three), BASE, target)
    assert [o.landed for o in result.outcomes] == [False, False]
    assert result.tree.files[PATH].decode() == target


def test_run_finishes_and_reports_every_hunk() -> None:
    authored = BASE
    for n in range(6):
        authored = authored.replace(f"return {n}", f"return {n}0")
    target = BASE.replace("return 2", "return two").replace("return 4", "return four")
    hunks = sum(len(f.hunks) for f in parse_patch(diff(BASE, authored), "p").files)
    result = move(series(BASE, authored), BASE, target)
    assert len(result.outcomes) == hunks
    assert not result.ok


def test_hunks_in_one_diff_hunk_stand_or_fall_together() -> None:
    base = "def f(x):\n    a(x)\n    b(x)\n    c(x)\n"
    authored = "def f(x):\n    a(x, 1)\n    b(x)\n    c(x, 1)\n"
    target = "def f(x):\n    a(x)\n    b(x)\n    c(y)\n"
    result = move(series(base, authored), base, target)
    assert not result.ok
    assert result.tree.files[PATH].decode() == target


def test_file_that_one_patch_adds_is_changed_by_the_next() -> None:
    add = b"--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,2 @@\n+def n():\n+    return 1\n"
    change = diff("def n():\n    return 1\n", "def n():\n    return 2\n", "vllm/new.py")
    result = patchkit.port([add, change], {PATH: b""}, {PATH: b""})
    assert [str(o.status) for o in result.outcomes] == ["placed", "placed"]
    assert result.tree.files["vllm/new.py"] == b"def n():\n    return 2\n"


def test_patch_that_does_not_fit_its_base_stops_before_anything_is_placed() -> None:
    with pytest.raises(PatchkitError) as caught:
        patchkit.port([diff(ONE, TWO)], {"vllm/other.py": b""}, {PATH: BASE.encode()})
    assert caught.value.hint is not None


def test_progress_is_told_of_the_start_and_of_each_patch() -> None:
    seen: list[tuple[str, int, int]] = []
    rebase_series(
        series(BASE, ONE, TWO),
        SourceTree({PATH: BASE.encode()}),
        SourceTree({PATH: BASE.encode()}),
        progress=lambda name, done, total: seen.append((name, done, total)),
    )
    assert seen == [("1.patch", 0, 2), ("1.patch", 1, 2), ("2.patch", 2, 2)]


def test_sections_that_are_not_shipped_are_listed() -> None:
    tests = b"--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"
    built = b"--- a/csrc/x.cu\n+++ b/csrc/x.cu\n@@ -1 +1 @@\n-a\n+b\n"
    result = patchkit.port(
        [diff(BASE, ONE) + tests + built], {PATH: BASE.encode()}, {PATH: BASE.encode()}
    )
    assert [(u.patch, u.path, str(u.section), u.hunks) for u in result.unshipped] == [
        ("patch-1", "tests/test_x.py", "not_shipped", 1),
        ("patch-1", "csrc/x.cu", "built", 1),
    ]
    assert [o.hunk for o in result.outcomes] == [1]


def test_attribute_that_only_the_base_defines_is_drift() -> None:
    base = {
        PATH: b"def f(k):\n    return 1\n",
        "vllm/k.py": b"class K:\n    def __init__(self):\n        self.stride_kind = 1\n",
    }
    target = {**base, "vllm/k.py": b"class K:\n    def __init__(self):\n        self.other = 1\n"}
    authored = "def f(k):\n    return k.stride_kind\n"
    result = patchkit.port(
        [diff("def f(k):\n    return 1\n", authored)], SourceTree(base), SourceTree(target)
    )
    (outcome,) = result.outcomes
    assert result.ok
    assert result.drifted
    assert [(d.kind, d.name, d.read_at) for d in outcome.drifts] == [
        ("attribute", "stride_kind", f"{PATH}:2")
    ]
