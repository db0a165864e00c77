"""docs/bench/README.md against the records it names: every cell is what the run wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "docs/bench"
PAGE = (BENCH / "README.md").read_text()
ROWS = re.findall(r"^\| (\S+) to (\S+), (\d+) \|(.*)\| \[json\]\((\S+)\) \|$", PAGE, re.MULTILINE)
TOOLS = ("GNU patch", "git apply --3way", "git merge-file", "wiggle", "patchkit")


@pytest.mark.parametrize("row", ROWS, ids=[row[4] for row in ROWS])
def test_a_row_says_what_its_record_says(row: tuple[str, str, str, str, str]) -> None:
    old, new, seed, cells, name = row
    record = json.loads((BENCH / name).read_text())
    assert (record["releases"], record["seed"]) == ([f"{old}:{new}"], int(seed))
    counts = [record["total"]["tools"][tool] for tool in TOOLS]
    said = [f"{c['right']} / {c['wrong']} / {c['refused']}" for c in counts]
    assert [cell.strip() for cell in cells.split("|")] == said


def test_every_record_is_in_the_table() -> None:
    assert sorted(row[4] for row in ROWS) == sorted(p.name for p in BENCH.glob("*.json"))
    assert len(ROWS) == 3
