"""The patch that the survey is timed with, on small releases."""

from __future__ import annotations

import pytest

from patchkit.diff import parse_patch
from patchkit.errors import PatchkitError
from patchkit.stacking.rebase import PatchInput, rebase_series
from patchkit.tree import SourceTree
from tests.bench.where import draw_standing

GAP = "".join(f"x{n} = {n}\n" for n in range(9))


def release(now: str, broken: str = "") -> SourceTree:
    """Files with two places that a release changed, and one whose change does not stand."""
    text = f"def f(a):\n    return a{now}\n\n\n{GAP}\n\ndef g(a):\n    return a{now}\n"
    files = {f"vllm/part{n}.py": text for n in range(4)}
    files["vllm/broken.py"] = broken + text
    return SourceTree({path: content.encode() for path, content in files.items()}, name="small")


BASE, LATER = release(" + 1"), release(" - 1", "from vllm.gone import h\n")


def test_it_has_as_many_hunks_as_asked_for_and_lands_on_its_own_base() -> None:
    for seed in range(5):
        data = draw_standing(BASE, LATER, hunks=8, seed=seed)
        files = parse_patch(data, "drawn").files
        assert [file.path for file in files] == [f"vllm/part{n}.py" for n in range(4)]
        result = rebase_series([PatchInput("drawn", data)], BASE, BASE)
        assert [outcome.status for outcome in result.outcomes] == ["placed"] * 8


def test_what_does_not_stand_is_not_drawn() -> None:
    with pytest.raises(PatchkitError, match="there are 8 hunks that stand, 10 are wanted"):
        draw_standing(BASE, LATER, hunks=10, seed=1)
