"""Whether what was placed may stay: names, imports, doubles and partners of the result as a whole.

A hunk can be right in itself and still not stand: a name that it needs was to come from a hunk that
did not land, what it adds is there already under another roof, or nothing is left to use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchkit.names.doubled import doubled_beyond
from patchkit.names.imports import added_imports, check_import, module_of
from patchkit.names.locals import Version, mixed_up, no_longer_local
from patchkit.names.unresolved import unresolved_beyond
from patchkit.outcome import Method, Rejected, Status
from patchkit.placing.introductions import introduced, needed_elsewhere, unused_in
from patchkit.placing.landed import (
    Landing,
    Missing,
    Span,
    authored_lines,
    is_there,
    missing_from,
    removed_lines,
)
from patchkit.placing.placers import Placers
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.units import NEEDED, Fact, facts_added, missing_partner
from patchkit.placing.verdict import Verdict
from patchkit.syntax.tree import NotPythonError, compile_error
from patchkit.tree import SourceTree


def violations(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    landing: Landing,
    missing: Sequence[Missing],
    placers: Placers,
) -> dict[int, Verdict]:
    """The placed hunks that may not stay, with their new verdicts."""
    gone = [*missing, *missing_from(plan, landing)]
    after = target.with_changes(landing.contents)
    found: dict[int, Verdict] = {}
    for file in plan.files:
        placed = [n for n in file.numbers if landing.verdicts[n].status is Status.PLACED]
        if not placed:
            continue
        paths = {landing.verdicts[n].path for n in placed}
        for path in sorted(p for p in paths if p):
            found.update(_check_file(file, path, placed, landing, target, after, gone))
        for number in placed:
            if landing.verdicts[number].method is Method.ADAPTATION:
                continue  # what landed is a person's text; its names are checked, not the patch's
            partner = _partner(file, number, gone, plan.patch.name)
            if partner is not None and number not in found:
                found[number] = _blocked(landing.verdicts[number], *partner)
    # hunks that land for nothing are looked for last: until then others may still come out
    return found or _taken_away(plan, landing) or _pointless(plan, base, landing, placers)


def _taken_away(plan: PatchPlan, landing: Landing) -> dict[int, Verdict]:
    """The placed hunks that take away what hunks still use that did not land.

    What the patch no longer says, read backwards: the uses that stay want their definitions.
    """
    open_hunks = [n for n, verdict in landing.verdicts.items() if not is_there(verdict)]
    if not open_hunks:
        return {}
    files = {number: file for file in plan.files for number in file.numbers}
    kept = {n: _no_longer_said(files[n], n) for n in open_hunks if n in files}
    result: dict[int, Verdict] = {}
    for number, file in files.items():
        verdict = landing.verdicts[number]
        if verdict.status is not Status.PLACED or verdict.method is Method.ADAPTATION:
            continue
        gone = [fact for fact in _no_longer_said(file, number) if fact.kind in NEEDED]
        for user, uses in kept.items():
            found = missing_partner(uses, gone)
            if found is not None:
                label = f"{plan.patch.name}#{user}"
                text = (
                    f"takes away `{found[1].name}`, which stays in use where {label} did not land"
                )
                result[number] = _stopped(verdict, label, text)
                break
    return result


def _no_longer_said(file: PlannedFile, number: int) -> list[Fact]:
    """What a hunk takes out of its file, as facts; a name with the module that bound it."""
    said = facts_added(file.authored, file.base, removed_lines(file, number))
    module = module_of(file.path_before)
    return [f._replace(owner=module) if f.kind == "name" else f for f in said]


def _pointless(
    plan: PatchPlan, base: SourceTree, landing: Landing, placers: Placers
) -> dict[int, Verdict]:
    """The placed hunks that only introduce what hunks would use that did not land."""
    there = {n for n, verdict in landing.verdicts.items() if is_there(verdict)}
    if len(there) == len(landing.verdicts):
        return {}
    files = {number: file for file in plan.files for number in file.numbers}
    uses = {
        n: (file.path_before, facts_added(file.base, file.authored, authored_lines(file, n)))
        for n, file in files.items()
    }
    result: dict[int, Verdict] = {}
    for number, file in files.items():
        edits = placers.edits(file.numbers[0])
        verdict = landing.verdicts[number]
        by_hand = verdict.method is Method.ADAPTATION
        if verdict.status is not Status.PLACED or by_hand or edits is None:
            continue
        own = introduced(edits.edits_of(number))
        landed = {n: use for n, use in uses.items() if n in there and n != number}
        stopped = {n: use for n, use in uses.items() if n not in there}
        unused = unused_in(own, file.path_before, landed, stopped)
        if unused is None or any(needed_elsewhere(i, base, file.path_before) for i in own):
            continue
        item, user = unused
        label = f"{plan.patch.name}#{user}"
        text = f"`{item.name}` is for {label}, which did not land"
        result[number] = _stopped(verdict, label, text)
    return result


def _check_file(
    file: PlannedFile,
    path: str,
    placed: list[int],
    landing: Landing,
    target: SourceTree,
    after: SourceTree,
    gone: Sequence[Missing],
) -> dict[int, Verdict]:
    """Names, doubles and imports of one changed target file."""
    result = after.files.get(path)
    if not path.endswith((".py", ".pyi")) or result is None or file.authored is None:
        return {}
    empty = b""
    base, before = file.base or empty, target.files.get(path, empty)
    found: dict[int, Verdict] = {}
    try:
        names = unresolved_beyond(base, file.authored, before, result)
        doubles = doubled_beyond(base, file.authored, before, result)
        uses = added_imports(before, result, path)
    except NotPythonError:
        # what was Python, and is none after a person's text went in
        if compile_error(before) or compile_error(file.authored) or not compile_error(result):
            return {}
        names, doubles, uses = (), (), ()
    problem = compile_error(result)
    # only then: to compile a file takes as long as to place a hunk in it
    if problem is not None and not (compile_error(before) or compile_error(file.authored)):
        line, why = problem
        for number in _owners([(line, line)], path, placed, landing):
            found[number] = _refused(landing.verdicts[number], f"does not compile: {why}")
    for number in placed:
        span = landing.spans.get(number)
        mixed = _mixed_up(file, number, landing.verdicts[number], span, before, result)
        if mixed is not None and landing.verdicts[number].path == path:
            found[number] = _refused(landing.verdicts[number], mixed)
    for name in names:
        for number in _owners([(name.line, name.line)], path, placed, landing):
            module = module_of(file.section.path)
            found[number] = _unnamed(landing.verdicts[number], name.name, str(name), module, gone)
    for double in doubles:
        places = double.places or ((double.line, double.line),)
        for number in _owners(places, path, placed, landing):
            if double.kind == "statement" and not landing.verdicts[number].adds_statements:
                continue  # one that was changed, and now says what another says too
            text = f"{double.kind} `{double.name}` would be there twice in {double.scope}"
            found[number] = _refused(landing.verdicts[number], text)
    for use in uses:
        if use.guarded or check_import(use, after, relied_on=target) != "missing":
            continue
        for number in _owners([(use.line, use.line)], path, placed, landing):
            what = f"{use.module}.{use.name}" if use.name else use.module
            text = f"imports `{what}`, which the target does not have"
            module = use.module if use.name else ""
            wanted = use.name or what
            found[number] = _unnamed(landing.verdicts[number], wanted, text, module, gone)
    return found


def _mixed_up(
    file: PlannedFile,
    number: int,
    verdict: Verdict,
    span: Span | None,
    target: bytes,
    result: bytes,
) -> str | None:
    """Why the variables of a hunk would be others in the result than in the patch, if so."""
    before, after = verdict.definition_before, verdict.definition_after
    if before is None or after is None or verdict.method is Method.ADAPTATION:
        return None
    lines = authored_lines(file, number)
    authored = Version(file.authored or b"", before)
    base = Version(file.base or b"", before)
    landed = (span[1], span[2]) if span is not None else (0, 0)
    versions = base, authored, Version(target, after)
    for name in mixed_up(*versions, lines, Version(result, after), landed):
        return f"upstream binds `{name}` in {after} as well"
    renames = {r.old: r.new for r in verdict.renames if r.kind == "variable"}
    for name in no_longer_local(authored, Version(result, after), lines, renames):
        return f"`{name}` is no longer a variable of {after}"
    return None


def unchecked(plan: PatchPlan, target: SourceTree, landing: Landing) -> dict[int, tuple[str, ...]]:
    """Per hunk what of its names was not checked.

    Imports that it adds from the package but from outside a partial tree; all of them in a file
    that this Python does not read.
    """
    after = target.with_changes(landing.contents)
    found: dict[int, tuple[str, ...]] = {}
    for file in plan.files:
        placed = [n for n in file.numbers if landing.verdicts[n].status is Status.PLACED]
        for path in sorted({landing.verdicts[n].path or "" for n in placed} - {""}):
            before, result = target.files.get(path, b""), after.files.get(path)
            if result is None or not path.endswith((".py", ".pyi")):
                continue
            try:
                uses = added_imports(before, result, path)
            except NotPythonError as error:
                for number in (n for n in placed if landing.verdicts[n].path == path):
                    found[number] = (f"names and imports of {path}: {error}",)
                continue
            package = path.split("/")[0]
            for use in uses if target.partial else ():
                if use.module.split(".")[0] != package or check_import(use, after) != "not_checked":
                    continue
                text = f"import `{use}`: not among the files given"
                for number in _owners([(use.line, use.line)], path, placed, landing):
                    found[number] = (*found.get(number, ()), text)
    return found


def _owners(
    places: Sequence[tuple[int, int]], path: str, placed: list[int], landing: Landing
) -> list[int]:
    """The placed hunks that hold one of some lines of the result; all of the file if none does.

    `places` are first and last lines, 1-based and inclusive.
    """
    inside = [
        n
        for n in placed
        if n in landing.spans
        and landing.spans[n][0] == path
        and any(a <= landing.spans[n][2] and landing.spans[n][1] <= b for a, b in places)
    ]
    here = [n for n in placed if landing.verdicts[n].path == path]
    return inside or here


def _partner(
    file: PlannedFile, number: int, gone: Sequence[Missing], patch: str
) -> tuple[Missing, str] | None:
    if not gone:
        return None
    uses = facts_added(file.base, file.authored, authored_lines(file, number))
    found = missing_partner(uses, (m.fact for m in gone if (m.hunk, m.patch) != (number, patch)))
    if found is None:
        return None
    use, fact = found
    source = next(m for m in gone if m.fact is fact and (m.hunk, m.patch) != (number, patch))
    return source, f"{use.kind} `{use.name}` needs what {source.label} would have added"


def _blocked(verdict: Verdict, source: Missing, text: str) -> Verdict:
    return _stopped(verdict, source.label, text)


def _stopped(verdict: Verdict, by: str, text: str) -> Verdict:
    return replace(
        verdict, status=Status.BLOCKED, path=None, lines=None, method=None, reason=text,
        definition_after=None, evidence=(), blocked_by=(by,), renames=(),
        rejected=(*verdict.rejected, Rejected("method", str(verdict.method), text)),
    )  # fmt: skip


def _refused(verdict: Verdict, text: str) -> Verdict:
    return replace(
        verdict, status=Status.CONFLICTED, path=None, lines=None, method=None, reason=text,
        definition_after=None, evidence=(), renames=(),
        rejected=(*verdict.rejected, Rejected("method", str(verdict.method), text)),
    )  # fmt: skip


def _unnamed(
    verdict: Verdict, name: str, text: str, module: str, gone: Sequence[Missing]
) -> Verdict:
    """The verdict on a hunk that lacks a name: blocked by what would have bound it in `module`."""
    source = next((m for m in gone if m.fact.name == name and _binds(m.fact, module)), None)
    return _blocked(verdict, source, text) if source else _refused(verdict, text)


def _binds(fact: Fact, module: str) -> bool:
    return fact.kind in ("member", "parameter") or (fact.kind == "name" and fact.owner == module)
