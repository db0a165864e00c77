"""What landed hunks rely on, held against the ground that they landed on.

What a person wrote for another release relies on that release, not on the one that the patch was
made on: it is held against it as any hunk is against its base.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchkit.outcome import Drift, Method, Status
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.landed import Landing, authored_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.verdict import Verdict
from patchkit.surface.defined import DriftReport, Surface, reads
from patchkit.surface.ground import Ground, ground_drifts
from patchkit.surface.program import Program
from patchkit.surface.protocol import NewCode, Protocols, Trees
from patchkit.surface.receivers import Code
from patchkit.surface.uses import Landed, uses
from patchkit.syntax.tree import NotPythonError
from patchkit.tree import SourceTree

OpenMadeOn = Callable[[str], SourceTree | None]


def drifts_of(
    plan: PatchPlan,
    landing: Landing,
    base: SourceTree,
    before: SourceTree,
    after: SourceTree,
    made_on: OpenMadeOn | None = None,
) -> dict[int, DriftReport]:
    """Return for each placed hunk on changed ground what of its new code's surface changed.

    `made_on` gives the tree of a release that an adaptation was made for, None where it cannot.
    """
    found: dict[int, DriftReport] = {}
    surfaces: dict[str, Surface] = {}
    programs = Program(base.with_changes(plan.after)), Program(after)
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
            renames = _renames(verdict)
            try:
                wanted = [r for r in reads(old, new) if any(a <= r.line <= b for a, b in lines)]
                bound = _bound(file, number, verdict, programs, before)
            except NotPythonError:
                continue
            if verdict.path not in surfaces:
                surfaces[verdict.path] = Surface(base, after, verdict.path)
            # What upstream renamed is read by its new name in the code that landed.
            report = _joined(surfaces[verdict.path].drift(wanted, renames), bound)
            code = NewCode(new, old, tuple(lines), file.section.path, verdict.path)
            more = protocols.drift(code)
            report = DriftReport(
                (*report.drifts, *more.drifts), (*report.not_checked, *more.not_checked)
            )
            if report.drifts or report.not_checked:
                found[number] = report
    for number, adaptation in _from_elsewhere(landing, before).items():
        ground = made_on(adaptation.written_on[0]) if made_on is not None else None
        report = _since(number, adaptation, landing, ground, before, after)
        known = found.get(number, DriftReport())
        doubts = *known.not_checked, *report.not_checked
        found[number] = _joined(DriftReport(known.drifts, doubts), report.drifts)
    return {n: report for n, report in found.items() if report.drifts or report.not_checked}


def _from_elsewhere(landing: Landing, target: SourceTree) -> Mapping[int, Adaptation]:
    """The adaptations that were placed and made for another release than the target's."""
    here = target.version or target.name
    return {
        number: adaptation
        for number, adaptation in landing.adapted.items()
        if adaptation.written_on[0] != here
        and landing.verdicts[number].method is Method.ADAPTATION
        and str(landing.verdicts[number].path).endswith((".py", ".pyi"))
    }


def _since(
    number: int,
    adaptation: Adaptation,
    landing: Landing,
    ground: SourceTree | None,
    before: SourceTree,
    after: SourceTree,
) -> DriftReport:
    """What the text of an adaptation relies on, since the release that it was made for."""
    release, written_in = adaptation.written_on
    if ground is None:
        text = f"what it calls and reads: {release}, for which it was made, is not at hand"
        return DriftReport((), (text,))
    path, first, last = landing.spans[number]
    old, new = before.files.get(path, b""), after.files[path]
    try:
        wanted = [r for r in reads(old, new) if first <= r.line <= last]
        found = [u for u in uses(old, new) if u.line <= last and first <= u.last]
    except NotPythonError:
        return DriftReport()
    was, now = (
        Ground(Code(program, there), program.label)
        for program, there in ((Program(ground), written_in), (Program(after), path))
    )
    bound = ground_drifts(found, Landed(found, {}), was, now, path)
    return _joined(Surface(ground, after, path).drift(wanted), bound)


def _bound(
    file: PlannedFile,
    number: int,
    verdict: Verdict,
    programs: tuple[Program, Program],
    before: SourceTree,
) -> tuple[Drift, ...]:
    """What the new code of a hunk binds to otherwise; an adaptation was written for its target."""
    path = verdict.path
    if verdict.method == "adaptation" or path is None or file.authored is None:
        return ()
    lines = authored_lines(file, number)
    found = [
        use
        for use in uses(file.base or b"", file.authored)
        if any(a <= use.last and use.line <= b for a, b in lines)
    ]
    if not found:
        return ()
    base, target = (
        Ground(Code(program, there), program.label)
        for program, there in zip(programs, (file.section.path, path), strict=True)
    )
    landed = uses(before.files.get(path, b""), programs[1].source(path))
    return ground_drifts(found, Landed(landed, _renames(verdict)), base, target, path)


def _renames(verdict: Verdict) -> dict[str, str]:
    """The names that upstream changed, as code says them."""
    return {
        rename.old.rpartition(".")[2]: rename.new.rpartition(".")[2] for rename in verdict.renames
    }


def _joined(report: DriftReport, bound: tuple[Drift, ...]) -> DriftReport:
    """Both reports as one, each name once: what binding says of it says more."""
    known = {(drift.kind, drift.name) for drift in bound}
    names = {drift.name for drift in bound if drift.kind == "attribute"}
    kept = [d for d in report.drifts if (d.kind, d.name) not in known and d.name not in names]
    return DriftReport((*kept, *bound), report.not_checked)


def _new_code(
    file: PlannedFile, number: int, landing: Landing, after: SourceTree
) -> tuple[bytes, list[tuple[int, int]]]:
    """The text that a hunk's new code stands in, and on which of its lines."""
    verdict = landing.verdicts[number]
    if verdict.method == "adaptation":
        path, first, last = landing.spans[number]
        return after.files[path], [(first, last)]
    return file.authored or b"", authored_lines(file, number)
