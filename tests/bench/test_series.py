"""Generated series on small releases: as large as asked for, the same twice, fit for their base."""

from __future__ import annotations

import pytest

from patchkit.diff import parse_patch
from patchkit.diff.apply import apply_exact
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree
from tests.bench.series import draw_series

FILES = [f"vllm/part{number}.py" for number in range(9)]


def release(changed: int) -> SourceTree:
    """Files of six functions of which the first `changed` return something else."""
    now, then = "return first + second", "return (\n        first - second)"
    text = "".join(
        f"def f{n}(a, b):\n    first = a\n    second = b\n    third{n} = a\n    use(third{n})\n"
        f"    {then if n < changed else now}\n\n\n"
        for n in range(6)
    )
    return SourceTree(
        {path: text.encode() for path in FILES} | {f"docs/{changed}.md": b"x\n"}, name="small"
    )


BASE, LATER = release(0), release(6)


def draw(hunks: int, seed: int = 1, patches: int | None = None):
    return draw_series(BASE, LATER, BASE, hunks=hunks, seed=seed, patches=patches)


@pytest.mark.parametrize("hunks", [1, 4, 5, 18, 36])
def test_the_series_has_as_many_hunks_as_asked_for(hunks: int) -> None:
    series = draw(hunks)
    sections = [s for p in series.patches for s in parse_patch(p.data, p.name).files]
    assert sum(len(section.hunks) for section in sections) == series.hunks == hunks
    assert len(sections) == len({s.path for s in sections}) == series.files == -(-hunks // 4)


def test_every_hunk_applies_to_the_base_at_its_own_line() -> None:
    changed = 0
    for patch in draw(18).patches:
        for section in parse_patch(patch.data, patch.name).files:
            applied = apply_exact(section, BASE.files[section.path])
            assert [place.old[0] + 1 for place in applied.hunk_ranges] == [
                hunk.old_start for hunk in section.hunks
            ]
            assert [place.new[0] + 1 for place in applied.hunk_ranges] == [
                hunk.new_start for hunk in section.hunks
            ]
            changed += applied.content.count(b" - ")
    assert changed == 18


def test_a_seed_gives_the_same_series_and_another_seed_another() -> None:
    assert draw(18, seed=3) == draw(18, seed=3)
    assert draw(18, seed=3) != draw(18, seed=4)


def test_the_files_are_dealt_out_to_the_patches() -> None:
    series = draw(36, patches=4)
    assert [p.name for p in series.patches] == ["part-1", "part-2", "part-3", "part-4"]
    assert [len(parse_patch(p.data, p.name).files) for p in series.patches] == [3, 2, 2, 2]
    assert len(draw(36).patches) == 4  # a patch for every eight hunks


def test_a_series_that_the_releases_do_not_hold_is_refused() -> None:
    with pytest.raises(PatchkitError, match="there are 36 hunks to draw from, 37 are wanted"):
        draw(37)
