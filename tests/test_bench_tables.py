"""docs/bench/README.md against the records it names: every cell is what the run wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "docs/bench"
PAGE = (BENCH / "README.md").read_text()
ROWS = re.findall(r"^\| (\S+) to (\S+), (\d+) \|(.*)\| \[json\]\((\S+)\) \|$", PAGE, re.MULTILINE)
HISTORY = BENCH / "history.json"
TOOLS = ("GNU patch", "git apply --3way", "git merge-file", "wiggle", "patchkit")


@pytest.mark.parametrize("row", ROWS, ids=[row[4] for row in ROWS])
def test_a_row_says_what_its_record_says(row: tuple[str, str, str, str, str]) -> None:
    old, new, seed, cells, name = row
    record = json.loads((BENCH / name).read_text())
    assert (record["releases"], record["seed"]) == ([f"{old}:{new}"], int(seed))
    counts = [record["total"]["tools"][tool] for tool in TOOLS]
    said = [f"{c['right']} / {c['wrong']} / {c['refused']}" for c in counts]
    assert [cell.strip() for cell in cells.split("|")] == said


def test_the_second_run_says_what_its_records_say() -> None:
    (said,) = re.findall(r"The same cases on\nthem: (.*) for each of the three pairs", PAGE)
    for row in ROWS:
        count = json.loads((BENCH / "again" / row[4]).read_text())["total"]["tools"]["patchkit"]
        assert f"{count['right']} / {count['wrong']} / {count['refused']}" == said


def test_every_record_is_in_the_table() -> None:
    named = [*(row[4] for row in ROWS), HISTORY.name]
    assert sorted(named) == sorted(p.name for p in BENCH.glob("*.json"))
    assert len(ROWS) == 3


def test_the_verdicts_on_history_are_those_of_their_record() -> None:
    record = json.loads(HISTORY.read_text())
    kinds = {**record["kinds"], "all": record}
    said = re.findall(r"^\| ([a-z ]+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert said == [
        (kind, *(str(counts[j]) for j in ("right", "missed", "wrong")))
        for kind, counts in kinds.items()
    ]
    assert f"cuts {record['changes']} real changes" in PAGE
    assert f"asks all {len(record['releases'])} pinned releases" in PAGE
    assert (
        f"Of the {record['verdicts']} verdicts {record['already']} are *already upstream*, "
        f"{record['landed']} landed and {record['open']} are open."
    ) in PAGE
