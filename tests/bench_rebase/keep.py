"""What patchkit got wrong or refused, as folders to study."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchkit.outcome import HunkOutcome
from tests.bench_rebase.cases import Case
from tests.bench_rebase.judge import Answer, Judgement, Verdict


def keep_case(
    folder: Path,
    case: Case,
    answer: Answer,
    judgement: Judgement,
    outcomes: Sequence[HunkOutcome],
) -> Path:
    """Write a case and its answer below `folder`/VERDICT/NAME; return that folder."""
    for verdict in Verdict:  # of an earlier run
        shutil.rmtree(folder / verdict / case.name, ignore_errors=True)
    place = folder / judgement.verdict / case.name
    place.mkdir(parents=True)
    (place / "change.patch").write_bytes(case.patch)
    _write_files(place / "base", {case.path: case.base})
    _write_files(place / "authored", {case.path: case.authored})
    _write_files(place / "target", case.target)
    _write_files(place / "truth", case.truth)
    _write_files(place / "result", answer.files or {})
    lines = [
        f"case       {case.name}",
        f"digest     {case.digest}",
        f"path       {case.path}",
        f"definition {case.definition or '<module>'}",
        *(f"done       {note}" for note in case.notes),
        f"verdict    {judgement.verdict}: {judgement.remark}",
        "",
        *(outcome_text(outcome) for outcome in outcomes),
    ]
    (place / "case.txt").write_text("\n".join(lines) + "\n")
    return place


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def outcome_text(outcome: HunkOutcome) -> str:
    """Return all that an outcome says, for people."""
    lines = [
        f"hunk {outcome.hunk}: {outcome.status} by {outcome.method}, lines {outcome.target_lines}",
        f"  {outcome.definition_before} -> {outcome.definition_after} in {outcome.path_after}",
    ]
    if outcome.reason:
        lines.append(f"  reason: {outcome.reason}")
    lines += [f"  candidate: {candidate}" for candidate in outcome.candidates]
    lines += [f"  evidence: {evidence.kind}: {evidence.text}" for evidence in outcome.evidence]
    return "\n".join(lines)
