"""Whether what a report says of a run is true of its trees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from patchkit.outcome import Clash, HunkOutcome, Method, Status
from patchkit.stacking.rebase import RebasedPatch, RebaseResult
from tests.evidence import code
from tests.evidence.ground import Ground, grounds_of
from tests.evidence.rejections import no_candidate, not_rejected
from tests.evidence.rules import no_rename, untrue


def problems(result: RebaseResult) -> list[str]:
    """Return what is not true of a run's outcomes, each with its hunk."""
    found = []
    for patch, grounds in grounds_of(result):
        for ground in grounds:
            outcome = ground.outcome
            for text in _problems_of(ground):
                found.append(f"{outcome.patch}#{outcome.hunk} {outcome.method}: {text}")
        found += [f"{patch.name}: {text}" for text in _other_change(patch, grounds)]
    found += [f"{o.patch}#{o.hunk}: {text}" for o in result.outcomes for text in _wait(o, result)]
    return found


_BROUGHT = re.compile(
    r"`(?:[\w.]+\.)?(?P<name>\w+)`(?: of `[^`]+`)? is (?:defined|added|bound) by "
    r"(?P<patch>\S+)#\d+ \((?P<path>[^:]+):(?P<line>\d+)\) and "
)


def _wait(outcome: HunkOutcome, result: RebaseResult) -> Iterator[str]:
    """Whether what a hunk waits for did not land, and brings the name that is said."""
    if (outcome.status is Status.BLOCKED) != bool(outcome.blocked_by):
        yield f"{outcome.status}, blocked by {outcome.blocked_by}"
    landed = {f"{o.patch}#{o.hunk}" for o in result.outcomes if o.landed}
    for label in outcome.blocked_by:
        if label in landed:
            yield f"waits for {label}, which landed"
    match = _BROUGHT.match(outcome.reason or "")
    for patch in result.patches if match else ():
        if match and patch.name == match["patch"]:
            line = (patch.plan.after[match["path"]] or b"").split(b"\n")[int(match["line"]) - 1]
            if match["name"] not in code.words(line.decode()):
                yield f"{outcome.reason!r}: it is not there"


def _problems_of(ground: Ground) -> Iterator[str]:
    outcome = ground.outcome
    for name in (outcome.definition_before or "").split(", ") if ground.base else ():
        if name and not code.has(ground.base, name):
            yield f"the base has no {name}"
    for name in (outcome.definition_after or "").split(", "):
        if name and not code.has(ground.target, name):
            yield f"the target has no {name}"
    if outcome.target_lines:
        yield from _wrong_lines(ground, *outcome.target_lines)
    for evidence in outcome.evidence:
        yield from untrue(ground, evidence.kind, evidence.text)
    for rename in outcome.renames:
        yield from no_rename(ground, rename)
    for rejected in outcome.rejected:
        yield from not_rejected(ground, rejected)
    if outcome.clash is not None:
        yield from _no_clash(ground, outcome.clash)
    if outcome.status is Status.PLACED and not outcome.evidence:
        yield "placed without evidence"
    for candidate in outcome.candidates:
        yield from no_candidate(ground, candidate)


def _no_clash(ground: Ground, clash: Clash) -> Iterator[str]:
    """Yield what is not true of a clash: each text is its side's, and upstream's not the base's."""
    if ground.outcome.landed:
        yield "a clash though it landed"
    path = clash.place.split(":")[0]
    target = ground.trees[1].files.get(path)
    if clash.kind == "same file":
        if target is None or target == ground.authored or path in ground.trees[0].files:
            yield f"{path} is no other file of upstream's"
        return
    sides = (("base", ground.base), ("target", target), ("patch", ground.authored))
    for name, content in sides:
        text = getattr(clash, name).removesuffix("\n…")
        there = {*code.words(content or b""), *ground.names, *ground.names.values()}
        for line in text.split("\n"):
            if not set(code.words(line)) <= there:
                yield f"clash: {name} does not say {line!r}"
    if clash.target in (clash.base, clash.patch):
        yield "clash: upstream changed nothing, or the same"


def _wrong_lines(ground: Ground, first: int, last: int) -> Iterator[str]:
    assert ground.final is not None
    lines = ground.final.decode("utf-8", "replace").split("\n")
    if not 1 <= first <= last <= len(lines):
        yield f"lines {first} to {last} are not in the file"
        return
    there = Counter(ground.renamed(code.words("\n".join(lines[first - 1 : last]))))
    own = ground.hunk is not None and ground.outcome.method is not Method.ADAPTATION
    if own and ground.hunk is not None and ground.final == ground.landed:  # no later patch's
        added = Counter(ground.renamed(code.words(ground.hunk.new)))
        added -= Counter(ground.renamed(code.words(ground.hunk.old)))
        if any(e.kind == "upstream" for e in ground.outcome.evidence):
            added -= Counter(code.words(ground.target or b""))  # what is there was left out
        if added - there:
            yield f"lines {first} to {last} do not hold {sorted((added - there).elements())}"
    # A hunk that changes several definitions says which in its evidence.
    told = [e.text for e in ground.outcome.evidence if e.kind in ("between", "replaced")]
    names = (ground.outcome.definition_after or "").split(", ")
    names += [name for text in told for name in re.findall(r"`([^`]+)`", text)]
    spans = {n: code.span(ground.final, n) for n in names if n and code.has(ground.final, n)}
    if spans and not any(low <= last and first <= high + 1 for low, high in spans.values()):
        yield f"lines {first} to {last} are in none of {spans}"


def _other_change(patch: RebasedPatch, grounds: Sequence[Ground]) -> Iterator[str]:
    """Whether the words that target and result differ in are those of base and authored file."""
    for file in patch.placed.files:
        own = [g for g in grounds if g.outcome.hunk in file.numbers]
        plain = all(
            g.outcome.status is Status.PLACED and g.outcome.method is not Method.ADAPTATION
            for g in own
        )
        if not plain or file.base is None or file.authored is None or not file.jobs:
            continue
        paths = {g.outcome.path_after for g in own}
        if any(g.outcome.path_after in paths for g in grounds if g not in own):
            continue
        names = {old: new for g in own for old, new in g.names.items()}
        wanted, made = Counter[str](), Counter[str]()
        for old, new in {(g.base, g.authored) for g in own}:
            wanted.update(_delta(old, new, names))
        for old, new in {(g.target, g.landed) for g in own}:
            made.update(_delta(old, new, names))
        there = any(e.kind == "upstream" for g in own for e in g.outcome.evidence)
        if (made - wanted) if there else (wanted != made):  # what is there need not be made
            yield f"{file.path_before}: the patch changes {wanted}, the landing {made}"


def _delta(old: bytes | None, new: bytes | None, names: Mapping[str, str]) -> Counter[str]:
    before, after = (
        Counter(names.get(w, w) for w in code.words(content or b"")) for content in (old, new)
    )
    return Counter(
        {f"-{w}": n for w, n in (before - after).items()}
        | {f"+{w}": n for w, n in (after - before).items()}
    )
