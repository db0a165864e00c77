"""What landed hunks rely on, held against the ground that they landed on."""

from __future__ import annotations

from patchkit.names.protocol import NewCode, Protocols, Trees
from patchkit.names.surface import DriftReport, Surface, reads
from patchkit.outcome import Status
from patchkit.placing.landing import Landing, authored_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.syntax.tree import NotPythonError
from patchkit.tree import SourceTree


def drifts_of(
    plan: PatchPlan,
    landing: Landing,
    base: SourceTree,
    before: SourceTree,
    after: SourceTree,
) -> dict[int, DriftReport]:
    """Return for each placed hunk on changed ground what of its new code's surface changed."""
    found: dict[int, DriftReport] = {}
    surfaces: dict[str, Surface] = {}
    protocols = Protocols(Trees(base, base.with_changes(plan.after), before, after))
    for file in plan.files:
        for number in file.numbers:
            verdict = landing.verdicts[number]
            if verdict.status is not Status.PLACED or not verdict.path:
                continue
            if not verdict.path.endswith((".py", ".pyi")):
                continue
            new, lines = _new_code(file, number, landing, after)
            old = (
                before.files.get(verdict.path, b"")
                if verdict.method == "adaptation"
                else (file.base or b"")
            )
            try:
                wanted = [r for r in reads(old, new) if any(a <= r.line <= b for a, b in lines)]
            except NotPythonError:
                continue
            if verdict.path not in surfaces:
                surfaces[verdict.path] = Surface(base, after, verdict.path)
            report = surfaces[verdict.path].drift(wanted)
            code = NewCode(new, old, tuple(lines), file.section.path, verdict.path)
            more = protocols.drift(code)
            report = DriftReport(
                (*report.drifts, *more.drifts), (*report.not_checked, *more.not_checked)
            )
            if report.drifts or report.not_checked:
                found[number] = report
    return found


def _new_code(
    file: PlannedFile, number: int, landing: Landing, after: SourceTree
) -> tuple[bytes, list[tuple[int, int]]]:
    """The text that a hunk's new code stands in, and on which of its lines."""
    verdict = landing.verdicts[number]
    if verdict.method == "adaptation":
        path, first, last = landing.spans[number]
        return after.files[path], [(first, last)]
    return file.authored or b"", authored_lines(file, number)
