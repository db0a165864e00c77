"""The command line: `python -m tests.history`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.history.changes import read_table, releases
from tests.history.judge import Answer, Judgement, judge


def judge_change(number: int) -> list[Answer]:
    """Return what patchkit says of one change on every pinned release."""
    change = read_table()[number]
    return [judge(change, release) for release in releases()]


def summary(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the counts of a run, by kind, and each answer that is not right."""
    kinds = {kind: Counter[str]() for kind in dict.fromkeys(a.kind for a in answers)}
    for answer in answers:
        kinds[answer.kind][answer.judgement.value] += 1
    total = Counter(a.judgement.value for a in answers)
    return {
        "releases": list(releases()),
        "changes": len({(a.kind, a.change) for a in answers}),
        "verdicts": len(answers),
        **{str(j): total[str(j)] for j in Judgement},
        "already": sum(a.found == "upstream" for a in answers),
        "landed": sum(a.found == "landed" for a in answers),
        "open": sum(a.found == "open" for a in answers),
        "kinds": {k: {str(j): c[str(j)] for j in Judgement} for k, c in kinds.items()},
        "not_right": [
            {
                "change": f"{a.kind}: {a.change}", "release": a.release,
                "found": str(a.found), "judgement": str(a.judgement), "remark": a.remark,
            }
            for a in answers
            if a.judgement is not Judgement.RIGHT
        ],
    }  # fmt: skip


def _print(counts: dict[str, Any], console: Console) -> None:
    table = Table("kind", "right", "missed", "wrong")
    for kind, row in counts["kinds"].items():
        table.add_row(kind, *(str(row[str(j)]) for j in Judgement))
    table.add_row("all", *(str(counts[str(j)]) for j in Judgement))
    console.print(table)
    for entry in counts["not_right"]:
        line = "{judgement}: {change} on {release}: {found}; {remark}".format(**entry)
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@click.command()
@click.option("--jobs", default=2, show_default=True)
@click.option("--only", help="Part of a change's name.")
@click.option("--out", type=click.Path(path_type=Path), help="File for the record.")
def main(jobs: int, only: str | None, out: Path | None) -> None:
    """Ask of real changes, on every pinned release, whether it has them already."""
    chosen = [n for n, c in enumerate(read_table()) if only is None or only in c.name]
    answers: list[Answer] = []
    console = Console(stderr=True)
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(judge_change, chosen)
        hidden = not console.is_terminal
        for each in track(found, "judging", len(chosen), console=console, disable=hidden):
            answers += each
    counts = summary(answers)
    if out is not None:
        out.write_text(json.dumps(counts, indent=1) + "\n")
    _print(counts, Console(file=sys.stdout, width=100))


if __name__ == "__main__":
    main()
