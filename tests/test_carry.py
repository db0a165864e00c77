"""A patch carried back over one before it: it applies to the file without that, at zero offset."""

from __future__ import annotations

import random

import pytest

from patchkit.diff import format_hunk
from patchkit.diff.apply import apply_exact
from patchkit.placing.plan import PatchPlan
from patchkit.stacking.carry import carry_back, with_hunks
from patchkit.stacking.dependencies import dependencies
from patchkit.stacking.weave import HunkId, weave
from tests.test_dependencies import F, Step, X, diff, plans

TEXT = "vllm/notes.txt"


def carried(series: list[PatchPlan], skipped: tuple[int, ...] = ()) -> PatchPlan:
    """The last patch of a series without the first."""
    weaves = weave(series)
    for plan in series:
        weaves.follow(plan)
    gone = {HunkId("A", number) for file in series[0].files for number in file.numbers}
    return carry_back(series[-1], weaves, gone, skipped)


def test_a_hunk_beside_a_missing_one_has_the_lines_of_the_base_around_it() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    series, _ = plans({X: F}, {X: one}, {X: one.replace("c(x)", "c(x, 1)")})
    (file,) = carried(series).files
    assert file.base == F.encode()
    assert file.authored == F.replace("c(x)", "c(x, 1)").encode()
    assert format_hunk(file.section.hunks[0]).decode() == (
        "@@ -1,7 +1,7 @@\n def f(x):\n     a(x)\n     b(x)\n-    c(x)\n+    c(x, 1)\n"
        "     d(x)\n     e(x)\n     return x\n"
    )


def test_a_hunk_that_is_skipped_leaves_no_line() -> None:
    one = F.replace("a(x)", "a(x, 1)")
    two = one.replace("a(x, 1)", "a(x, 2)").replace("e(x)", "e(x, 1)")
    series, _ = plans({X: F}, {X: one}, {X: two}, context=1)
    (file,) = carried(series, (1,)).files
    assert file.numbers == (2,)
    assert file.authored == F.replace("e(x)", "e(x, 1)").encode()


def test_a_file_that_the_missing_patch_does_not_touch_stays_as_it_is() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    series, _ = plans({X: F, TEXT: "a\n"}, {X: one}, {TEXT: "b\n"})
    assert carried(series) == series[-1]


def test_two_sections_for_one_file_stay_as_they_are() -> None:
    one = F.replace("b(x)", "b(x, 1)")
    two = one.replace("d(x)", "d(x, 1)")
    both = (diff(one, two, X) + diff(two, two.replace("e(x)", "e(x, 1)"), X)).encode()
    series, _ = plans({X: F}, {X: one}, both)
    assert carried(series).files == series[-1].files


@pytest.mark.parametrize("seed", range(60))
def test_what_needs_nothing_applies_without_the_missing_patch(seed: int) -> None:
    """Carried back, the second and third patch give what the weave holds, hunk by hunk."""
    rng = random.Random(seed)
    lines = [f"line {n}\n" for n in range(16)]
    versions: list[Step] = []
    for patch in range(3):
        for change in range(rng.randrange(1, 4)):
            at, mine = rng.randrange(len(lines)), f"own {patch} {change}\n"
            lines[at : at + 1] = rng.choice([[mine], [mine, lines[at]], [lines[at], mine], []])
        lines.append(f"own {patch} end\n")  # so that no patch is empty
        versions.append({TEXT: "".join(lines)})
    base = "".join(f"line {n}\n" for n in range(16))
    series, tree = plans({TEXT: base}, *versions, context=rng.randrange(1, 4))
    needs = [need for need in dependencies(series, tree) if need.binds]
    waiting = {need.later for need in needs if need.earlier.patch == "A"}
    waiting |= {need.later for need in needs if need.earlier in waiting}
    now = base.encode()
    for n, plan in enumerate(series[1:], start=2):
        skipped = tuple(h.number for h in waiting if h.patch == plan.patch.name)
        weaves = weave(series)
        for earlier in series[:n]:
            weaves.follow(earlier)
        gone = {HunkId("A", k) for k in range(1, 9)} | {h for h in waiting if h.patch == "B"}
        for file in carry_back(plan, weaves, gone, skipped).files:
            assert file.base == now
            now = apply_exact(file.section, now).content or b""
            assert now == file.authored
            assert with_hunks(file, file.numbers) == now
    kept = [line for line in "".join(lines).splitlines() if line.startswith("own")]
    there = [line for line in now.decode().splitlines() if line.startswith("own")]
    assert [line for line in there if line in kept] == [line for line in kept if line in there]
    assert not any(line.startswith("own 0") for line in there)
