"""What pinned releases make of the series that is stored here, in one process and in two."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from patchkit.config import find_config
from patchkit.surveying import forecast as surveying
from patchkit.surveying.forecast import Forecast, Outlook, forecasts
from patchkit.upstream import open_tree, shipped_pins

ROOT = Path(__file__).parents[1]


def timeless(found: Forecast) -> Forecast:
    """Return a forecast without what no two runs have in common."""
    series = tuple(
        replace(one, patches=tuple(replace(patch, seconds=0.0) for patch in one.patches))
        for one in found.series
    )
    return replace(found, series=series, seconds=0.0, made="")


@pytest.mark.network
def test_the_stored_patch_is_superseded_from_0_30_on_and_says_so_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = find_config(ROOT)
    opener = partial(open_tree, pins=shipped_pins())
    targets = ["0.24.0", "0.30.0", "0.33.0"]
    told: list[tuple[int, int | None]] = []

    def run(jobs: int) -> list[Forecast]:
        def progress(label: str, done: int, total: int | None) -> None:
            assert label == "targets"
            told.append((done, total))

        return list(forecasts(config, targets, (opener, opener), jobs, progress))

    found = run(1)
    assert [(one.target, one.version, one.lands) for one in found] == [
        ("0.24.0", "0.24.0", True),
        ("0.30.0", "0.30.0", True),
        ("0.33.0", "0.33.0", True),
    ]
    assert [one.series[0].base for one in found] == ["0.25.0", "0.29.0", "0.32.0"]
    patches = [patch for one in found for series in one.series for patch in series.patches]
    superseded = [patch for patch in patches if patch.patch == "block-promotion.patch"]
    assert [patch.outlook for patch in superseded] == [Outlook.SUPERSEDED] * 2
    assert [patch.exit is None for patch in superseded] == [True, False]
    kept = [(patch.patch, patch.outlook) for patch in patches if patch not in superseded]
    assert kept == [("spec-decode-verify.patch", Outlook.CLEAN)] * 2
    monkeypatch.setattr(surveying, "WORTH_SPREADING", 1)
    assert list(map(timeless, run(2))) == list(map(timeless, found))
    assert told == [(1, 3), (2, 3), (3, 3)] * 2
