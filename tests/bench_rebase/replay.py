"""Give patchkit a kept case again: `python -m tests.bench_rebase.replay KEPT/wrong/CASE`."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from tests.bench_rebase.cases import Case
from tests.bench_rebase.judge import judge
from tests.bench_rebase.keep import outcome_text
from tests.bench_rebase.peers import patchkit_with_outcomes


def read_case(folder: Path) -> Case:
    """Return a case as `--keep` wrote it; what no tool reads is left out."""
    base = _read_files(folder / "base")
    authored = _read_files(folder / "authored")
    (path,) = base
    return Case(
        name=folder.name,
        kind="",
        releases=("", ""),
        path=path,
        hunks=0,
        base=base[path],
        authored=authored[path],
        patch=(folder / "change.patch").read_bytes(),
        target=_read_files(folder / "target"),
        truth=_read_files(folder / "truth"),
        definition="",
        notes=(),
    )


def _read_files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--diff", is_flag=True, help="Show how the result differs from the truth.")
def main(folders: tuple[Path, ...], diff: bool) -> None:
    """Print patchkit's verdict on kept cases, with what it says of each hunk."""
    for folder in folders:
        case = read_case(folder)
        answer, outcomes = patchkit_with_outcomes(case)
        judgement = judge(answer, case.target, case.truth)
        click.echo(f"{case.name}: {judgement.verdict} {judgement.remark}".rstrip())
        for outcome in outcomes:
            click.echo(outcome_text(outcome))
        if diff:
            for path in sorted({*case.truth, *(answer.files or {})}):
                result = (answer.files or {}).get(path, b"")
                sys.stdout.writelines(_diff(case.truth.get(path, b""), result, path))


def _diff(truth: bytes, result: bytes, path: str) -> list[str]:
    old, new = (t.decode(errors="replace").splitlines(keepends=True) for t in (truth, result))
    return list(difflib.unified_diff(old, new, f"truth/{path}", f"result/{path}"))


if __name__ == "__main__":
    main()
