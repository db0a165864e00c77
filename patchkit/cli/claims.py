"""`patchkit claims`: every figure of the repository's texts, held against the run records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_claims
from patchkit.cli.options import here, json_option
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError
from patchkit.records.claims import Finding, Judged, judge_text
from patchkit.records.library import Library
from patchkit.repository.workspace import Replacement, Workspace, read_file

_ENCODING = {"encoding": "utf-8", "errors": "surrogateescape"}


@click.command(short_help="Say which figures no run record backs.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--fill", is_flag=True, help="Write the figures that records and sums give.")
@json_option
def command(paths: tuple[str, ...], fill: bool, as_json: bool) -> ExitCode:
    """Say which figures no run record backs.

    README.md, docs and the headers of stored patches are read, or the files and folders that are
    named. Each number of speed or memory outside code has to be marked: as of record, as the ratio
    of two rows that differ in one thing, as published elsewhere, or as a sum. Records lie in
    docs/records; benchmarks write them. docs/records.md shows the marks and lists the rules. With
    --fill figures that differ from what they are marked with are written. The exit status is 3
    where a figure is not backed.

    \b
    Examples:
      patchkit claims
      patchkit claims --fill docs/kernels.md
    """
    config = here()
    files = list(_files(config, paths))
    library = Library(config.root, config.root / config.records)
    texts = {path: str(read_file(path), **_ENCODING) for path in files}
    judged = {path: judge_text(text, _place(config, path), library) for path, text in texts.items()}
    filled: list[Finding] = []
    if fill:
        filled = _fill(config, texts, judged)
        texts = {path: judged[path].filled for path in files}
        judged = {p: judge_text(text, _place(config, p), library) for p, text in texts.items()}
    document = _document(config, library, list(judged.values()), filled)
    if as_json:
        render.show_json(document)
    else:
        render_claims.show_claims(document)
    return ExitCode(document["exit_code"])


def _files(config: Config, names: Sequence[str]) -> Iterator[Path]:
    """Yield the files to be read, each once: those named, else the repository's."""
    if not names:
        patterns = (*config.claims, *(f"{folder}/**/*.patch" for folder in config.series))
        found = (path for pattern in patterns for path in sorted(config.root.glob(pattern)))
        yield from dict.fromkeys(path for path in found if path.is_file())
        return
    for name in dict.fromkeys(names):
        path = Path(name)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix in (".md", ".patch"))
            if not inside:
                raise PatchkitError("holds no Markdown and no patch", place=name)
            yield from inside
        else:
            yield path


def _place(config: Config, path: Path) -> str:
    path = path.absolute()
    root = config.root.absolute()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _fill(config: Config, texts: dict[Path, str], judged: dict[Path, Judged]) -> list[Finding]:
    """Write the files whose figures are to be others, all or none; return what was wrong."""
    changed = [path for path in texts if judged[path].filled != texts[path]]
    if changed:
        workspace = Workspace(config.state_folder)
        with workspace.locked():
            workspace.commit([
                Replacement(path, judged[path].filled.encode(**_ENCODING)) for path in changed
            ])  # fmt: skip
    found = (finding for path in changed for finding in judged[path].findings)
    return [finding for finding in found if finding.rule == "mismatched"]


def _document(
    config: Config, library: Library, judged: Sequence[Judged], filled: Sequence[Finding]
) -> dict[str, Any]:
    """Return the findings as docs/schema/claims-1.json describes them."""
    findings = [finding for one in judged for finding in one.findings]
    findings += [
        Finding("edited-record", f"{config.records}/{name}.json", 1, err.fact, err.hint)
        for name, err in library.refused()
    ]
    counts: Counter[str] = Counter()
    for one in judged:
        counts.update(one.counts)
    return {
        "schema": "patchkit.claims/1",
        "ok": not findings,
        "exit_code": int(ExitCode.FINDINGS if findings else ExitCode.DONE),
        "files": len(judged),
        "marks": {kind: counts[kind] for kind in ("record", "ratio", "published", "arithmetic")},
        "unmarked": counts["unmarked"],
        "filled": [_finding(finding) for finding in filled],
        "findings": [_finding(finding) for finding in findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "place": finding.place,
        "line": finding.lineno,
        "rule": finding.rule,
        "text": finding.text,
        "hint": finding.hint,
    }
