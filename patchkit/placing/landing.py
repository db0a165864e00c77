"""One patch on one target: every section placed, then the result as a whole checked.

A hunk can be right in itself and still not stand: a name that it needs was to come from a hunk that
did not land, or what it adds is there already under another roof. Such hunks are taken out again,
with the reason, and the patch is placed anew without them until what is left holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import FileChange, Hunk
from patchkit.errors import PatchkitError
from patchkit.names.doubled import doubled_beyond
from patchkit.names.imports import added_imports, check_import, module_of
from patchkit.names.locals import Version, mixed_up, no_longer_local
from patchkit.names.unresolved import unresolved_beyond
from patchkit.outcome import Evidence, Method, Rejected, Status
from patchkit.placing.adaptation import (
    Adaptation,
    apply_adaptation,
    check_adaptation,
    definitions_around,
)
from patchkit.placing.introductions import introduced, needed_elsewhere, unused_in
from patchkit.placing.place import Verdict
from patchkit.placing.place_file import place_file
from patchkit.placing.placers import Placers
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.placing.units import NEEDED, Fact, facts_added, missing_partner
from patchkit.syntax.tree import NotPythonError, compile_error
from patchkit.tree import SourceTree

Span = tuple[str, int, int]  # path, first and last line, 1-based and inclusive


@dataclass(frozen=True)
class Landing:
    """What a patch did to a target: a verdict a hunk, the new contents, where each hunk stands."""

    verdicts: Mapping[int, Verdict]
    contents: Mapping[str, bytes | None]
    modes: Mapping[str, int]
    spans: Mapping[int, Span]
    not_checked: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """What hunks that did not land would have introduced, and which hunk that was."""

    fact: Fact
    patch: str
    hunk: int

    @property
    def label(self) -> str:
        """The hunk as people write it."""
        return f"{self.patch}#{self.hunk}"


@dataclass
class _Draft:
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)


def land_patch(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    *,
    adaptations: Sequence[Adaptation] = (),
    missing: Sequence[Missing] = (),
    banned: Mapping[int, Verdict] | None = None,
) -> Landing:
    """Return what a patch does to a target.

    `missing` is what earlier patches did not land; `banned` hunks keep the verdict given.
    """
    stopped = dict(banned or {})
    placers = Placers()
    while True:
        landing = place_patch(plan, base, target, adaptations, stopped, placers)
        found = _violations(plan, base, target, landing, missing, placers)
        new = {n: v for n, v in found.items() if n not in stopped}
        if not new:
            return replace(landing, not_checked=_unchecked(plan, target, landing))
        stopped.update(new)


def place_patch(
    plan: PatchPlan,
    base: SourceTree,
    target: SourceTree,
    adaptations: Sequence[Adaptation],
    banned: Mapping[int, Verdict],
    placers: Placers | None = None,
) -> Landing:
    """Return every section placed, with no check of the whole.

    `placers` are those of the patch in an earlier round.
    """
    draft = _Draft()
    placers = placers or Placers()
    usable, stopped = _choose(plan, target, adaptations, banned)
    base_now, target_now = base, target
    for file in plan.files:
        placement = place_file(file, base_now, target_now, stopped, placers)
        draft.verdicts.update(placement.verdicts)
        draft.contents.update(placement.contents)
        draft.modes.update(placement.modes)
        if placement.contents:
            target_now = target_now.with_changes(placement.contents, placement.modes)
    spans = _spans(draft)
    for adaptation in usable:
        _adapt(adaptation, draft, spans, plan, target)
    return Landing(draft.verdicts, draft.contents, draft.modes, spans)


# Adaptations -------------------------------------------------------------------------------------


def _choose(
    plan: PatchPlan,
    target: SourceTree,
    adaptations: Sequence[Adaptation],
    banned: Mapping[int, Verdict],
) -> tuple[list[Adaptation], dict[int, Verdict]]:
    """The adaptations meant for this target, and their hunks, which the cascade leaves alone."""
    stopped = dict(banned)
    hunks = {job.number: job.hunk for file in plan.files for job in file.jobs}
    usable = []
    for adaptation in adaptations:
        if any(n in banned for n in adaptation.hunks):
            continue
        if not _meant_for(adaptation, target, hunks):
            continue
        usable.append(adaptation)
        reason = "waits for its stored adaptation"
        for number in adaptation.hunks:
            stopped[number] = Verdict(Status.CONFLICTED, reason=reason)
    return usable, stopped


def _meant_for(adaptation: Adaptation, target: SourceTree, hunks: Mapping[int, Hunk]) -> bool:
    """Whether an adaptation speaks about this target: its release, or content that matches."""
    if target.version is None or target.version == adaptation.release:
        return True
    return check_adaptation(adaptation, hunks, target.files.get(adaptation.path)) is None


def _adapt(
    adaptation: Adaptation,
    draft: _Draft,
    spans: dict[int, Span],
    plan: PatchPlan,
    target: SourceTree,
) -> None:
    """Place an adaptation on what the cascade made of its file, or say why it does not hold."""
    path = adaptation.path
    content = draft.contents.get(path, target.files.get(path))
    hunks = {job.number: job.hunk for file in plan.files for job in file.jobs}
    mismatch = check_adaptation(adaptation, hunks, content)
    reason = mismatch.text if mismatch else None
    if content is not None and reason is None:
        try:
            adapted = apply_adaptation(adaptation, content)
        except PatchkitError as error:
            reason = str(error)
    if reason is not None:
        text = f"the adaptation stored for {adaptation.release} does not hold: {reason}"
        verdict = Verdict(
            Status.CONFLICTED, reason=text, candidates=(path,) if content is not None else ()
        )
        draft.verdicts.update(dict.fromkeys(adaptation.hunks, verdict))
        return
    assert content is not None
    changed = diff_lines(content.splitlines(True), adapted.splitlines(True))
    evidence = (
        Evidence("adaptation", f"stored for {adaptation.release}: {adaptation.reason}"),
        Evidence("fingerprints", "the hunk and the target definitions are as they were then"),
    )
    verdict = Verdict(
        Status.PLACED, path=path, method=Method.ADAPTATION, evidence=evidence,
        definition_after=definitions_around(
            content, adapted,
            [(c.old_start + 1, c.old_end) for c in changed if c.old_end > c.old_start],
            [(c.new_start + 1, c.new_end) for c in changed if c.new_end > c.new_start],
        ),
    )  # fmt: skip
    for file in plan.files:
        for job in file.jobs:
            if job.number in adaptation.hunks:
                removed = [(r.start + 1, r.end) for r in job.runs if r.end > r.start]
                added = authored_lines(file, job.number)
                name = definitions_around(file.base or b"", file.authored or b"", removed, added)
                draft.verdicts[job.number] = replace(verdict, definition_before=name)
    draft.contents[path] = adapted
    first = min(c.new_start for c in changed) + 1
    last = max(max(c.new_end, c.new_start + 1) for c in changed)
    for number, (other, low, high) in list(spans.items()):
        if other == path:
            spans[number] = (path, *shift_lines((low, high), changed))
    spans.update(dict.fromkeys(adaptation.hunks, (path, first, last)))


def shift_lines(lines: tuple[int, int], changes: Sequence[Change]) -> tuple[int, int]:
    """Return where lines (first, last), 1-based and inclusive, stand after some changes."""
    first, last = lines
    low, high = first, last
    for change in changes:
        growth = (change.new_end - change.new_start) - (change.old_end - change.old_start)
        if change.old_end < first:
            low += growth
        if change.old_end <= last:
            high += growth
    return low, max(low, high)


# Where things stand ------------------------------------------------------------------------------


def _spans(draft: _Draft) -> dict[int, Span]:
    """The lines of each placed hunk in the target as this patch leaves it."""
    spans: dict[int, Span] = {}
    for number, verdict in draft.verdicts.items():
        if verdict.path and verdict.lines:
            spans[number] = (verdict.path, *verdict.lines)
    return spans


def authored_lines(file: PlannedFile, number: int) -> list[tuple[int, int]]:
    """Return the 1-based inclusive line ranges that a hunk adds to its authored file."""
    ranges, shift = [], 0
    if not file.jobs and file.authored is not None:
        return [(1, file.authored.count(b"\n") + 1)]
    for job in file.jobs:
        for run in job.runs:
            start = run.start + shift
            if job.number == number and run.lines:
                ranges.append((start + 1, start + len(run.lines)))
            shift += len(run.lines) - (run.end - run.start)
    return ranges


def missing_from(plan: PatchPlan, landing: Landing) -> list[Missing]:
    """Return what others may need of what the hunks that did not land would have introduced."""
    result = []
    for file in plan.files:
        for number in file.numbers:
            if _is_there(landing.verdicts[number]):
                continue
            lines = authored_lines(file, number)
            added = facts_added(file.base, file.authored, lines)
            module = module_of(file.section.path)
            named = [f._replace(owner=module) if f.kind == "name" else f for f in added]
            if file.section.change is FileChange.ADD:
                package, _, name = module.rpartition(".")
                named += [Fact("name", name, package, 1), Fact("name", module, "", 1)]
            result += [Missing(f, plan.patch.name, number) for f in named if f.kind in NEEDED]
    return result


# Checks of the whole -----------------------------------------------------------------------------


def _violations(
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
            partner = _partner(file, number, gone, plan.patch.name)
            if partner is not None and number not in found:
                found[number] = _blocked(landing.verdicts[number], *partner)
    # hunks that land for nothing are looked for last: until then others may still come out
    return found or _pointless(plan, base, landing, placers)


def _pointless(
    plan: PatchPlan, base: SourceTree, landing: Landing, placers: Placers
) -> dict[int, Verdict]:
    """The placed hunks that only introduce what hunks would use that did not land."""
    there = {n for n, verdict in landing.verdicts.items() if _is_there(verdict)}
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
        if landing.verdicts[number].status is not Status.PLACED or edits is None:
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
        result[number] = _stopped(landing.verdicts[number], label, text)
    return result


def _is_there(verdict: Verdict) -> bool:
    return verdict.status in (Status.PLACED, Status.ALREADY_UPSTREAM)


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
        return {}
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


def _unchecked(plan: PatchPlan, target: SourceTree, landing: Landing) -> dict[int, tuple[str, ...]]:
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
