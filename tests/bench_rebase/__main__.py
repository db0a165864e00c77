"""The command line: `python -m tests.bench_rebase --releases 0.27.1:0.28.0 --seed 1`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import track

from patchkit.tree import SourceTree
from patchkit.upstream import open_tree, shipped_pins
from patchkit.upstream.pins import parse_pins
from tests.bench_rebase.cases import GRAINS, Case, Generated, generate
from tests.bench_rebase.judge import Judgement, Verdict, judge
from tests.bench_rebase.keep import keep_case
from tests.bench_rebase.kinds import KINDS
from tests.bench_rebase.peers import OWN, TOOLS, answer, missing, patchkit_with_outcomes, versions
from tests.bench_rebase.report import Summary, as_json, print_table

A = TypeVar("A")
B = TypeVar("B")
Releases = tuple[str, str]

_WIDTH = 140  # of the table where there is no terminal


@dataclass(frozen=True)
class Job:
    """Cases to generate: of one kind, between two releases."""

    kind: str
    releases: Releases
    seed: int
    count: int
    grain: str


OLDER = Path(__file__).with_name("older_pins.toml")


@lru_cache(maxsize=4)
def _tree(version: str) -> SourceTree:
    pins = shipped_pins()
    if version not in pins.versions:
        pins = parse_pins(OLDER.read_text(), OLDER.name)
    return open_tree(f"v{version}", pins=pins)


def generate_job(job: Job) -> Generated:
    """Return the cases of a job."""
    old, new = (_tree(version).files for version in job.releases)
    return generate(
        job.kind, job.releases, old, new, seed=job.seed, count=job.count, grain=job.grain
    )


def judge_case(case: Case, *, tools: Sequence[str], keep: Path | None) -> dict[str, Judgement]:
    """Return the verdict on each tool's answer; what patchkit got wrong is kept for study."""
    verdicts = {}
    for tool in tools:
        if tool == OWN:
            given, outcomes = patchkit_with_outcomes(case)
            verdicts[tool] = judge(given, case.target, case.truth)
            if keep is not None and verdicts[tool].verdict is not Verdict.RIGHT:
                keep_case(keep, case, given, verdicts[tool], outcomes)
        else:
            verdicts[tool] = judge(answer(tool, case), case.target, case.truth)
    return verdicts


def shares(total: int, kinds: Sequence[str]) -> dict[str, int]:
    """Return how many cases each kind gets: as even as can be, the first ones get the rest."""
    least, rest = divmod(total, len(kinds))
    return {kind: least + (number < rest) for number, kind in enumerate(kinds)}


def _mapped(jobs: int, work: Callable[[A], B], items: Sequence[A], what: str) -> Iterable[B]:
    """Yield the results in order, with a progress bar where somebody can see it."""
    console = Console(stderr=True)
    with ProcessPoolExecutor(jobs, initializer=_collect_less) as pool:
        results = pool.map(work, items)
        yield from track(
            results, what, len(items), console=console, disable=not console.is_terminal
        )


def _collect_less() -> None:
    """Collect garbage less often: trees of large modules are what takes the time."""
    gc.set_threshold(200_000, 20, 20)


def _releases(text: str) -> Releases:
    old, colon, new = text.partition(":")
    if not colon or not old or not new:
        raise click.BadParameter(f"`{text}` is not OLD:NEW, for example 0.27.1:0.28.0")
    return old.removeprefix("v"), new.removeprefix("v")


def _chosen(text: str | None, known: Iterable[str]) -> tuple[str, ...]:
    known = tuple(known)
    if text is None:
        return known
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"`{name}` is not one of {', '.join(known)}")
    return tuple(name for name in known if name in names)


@click.command()
@click.option("--releases", "pairs", multiple=True, required=True, help="OLD:NEW; may be repeated.")
@click.option("--seed", default=1, show_default=True)
@click.option("--cases", "total", default=200, show_default=True, help="Per pair of releases.")
@click.option("--kinds", help="Comma-separated; all by default.")
@click.option("--tools", help="Comma-separated; all by default.")
@click.option("--grain", type=click.Choice(list(GRAINS)), default="hunk", show_default=True)
@click.option("--jobs", default=2, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for what patchkit misses.")
@click.option("--out", type=click.Path(path_type=Path), help="File for the summary.")
@click.option("--json", "as_text", is_flag=True, help="Print the summary as JSON.")
def main(
    pairs: Sequence[str],
    seed: int,
    total: int,
    kinds: str | None,
    tools: str | None,
    grain: str,
    jobs: int,
    keep: Path | None,
    out: Path | None,
    as_text: bool,
) -> None:
    """Measure how each tool lands real changes on refactored releases."""
    chosen_kinds, chosen_tools = _chosen(kinds, KINDS), _chosen(tools, TOOLS)
    releases = [_releases(text) for text in pairs]
    count = shares(total, chosen_kinds)
    work = [Job(kind, pair, seed, count[kind], grain) for kind in chosen_kinds for pair in releases]
    usable = [tool for tool in chosen_tools if tool not in missing()]
    absent = [tool for tool in chosen_tools if tool in missing()]
    summary = Summary(
        {
            "seed": seed,
            "releases": [":".join(pair) for pair in releases],
            "grain": grain,
            "tools": usable,
            "not_installed": absent,
            "versions": {tool: versions()[tool] for tool in usable if tool in versions()},
        }
    )
    remarks = _run(summary, work, jobs, keep)
    text = as_json(summary)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    if as_text:
        sys.stdout.write(text)
        return
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    print_table(summary, console)
    for tool in absent:
        console.print(f"{tool} is not installed")
    for remark in remarks:
        console.print(remark, highlight=False, markup=False, soft_wrap=True)


def _run(summary: Summary, work: Sequence[Job], jobs: int, keep: Path | None) -> list[str]:
    """Fill the summary; return what is to be said of single cases."""
    cases: list[Case] = []
    for generated in _mapped(jobs, generate_job, work, "generating"):
        summary.add_generated(generated)
        cases += generated.cases
    judged = partial(judge_case, tools=summary.settings["tools"], keep=keep)
    remarks = []
    for case, verdicts in zip(cases, _mapped(jobs, judged, cases, "judging"), strict=True):
        for tool, judgement in verdicts.items():
            summary.add_judgement(case, tool, judgement)
        own = verdicts.get(OWN)
        if own is not None and own.verdict is Verdict.WRONG:
            remarks.append(f"patchkit wrong: {case.name}: {own.remark}")
        elif own is not None and own.remark.startswith(("crash", "corrupt", "error")):
            remarks.append(f"patchkit {own.remark}: {case.name}")
    return remarks


if __name__ == "__main__":
    main()
