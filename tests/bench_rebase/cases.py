"""Cases: a real change as the patch, the module's other changes as drift, a refactoring on top.

The same for a seed on any Python. A kind's cases depend on seed, releases and kind alone, so that
asking for fewer cases or other kinds gives a part of the same ones.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from patchkit.diff.lines import diff_lines
from patchkit.names.unresolved import new_unresolved, unresolved
from patchkit.syntax.tree import NotPythonError
from tests.bench_rebase.changes import CONTEXT, Hunks, ModuleChanges, cut_patch, module_hunks
from tests.bench_rebase.draw import seeded, shuffled
from tests.bench_rebase.kinds import KINDS, refactor
from tests.bench_rebase.refactors.ground import DroppedError, Ground, InapplicableError
from tests.bench_rebase.source import enclosing, is_python, read_source

_MOST_BYTES = 400_000
GRAINS = {"hunk": 2 * CONTEXT, "run": 0}

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Case:
    """One case. `path` is the file in base; `notes` says what was done to target and truth."""

    name: str
    kind: str
    releases: tuple[str, str]
    path: str
    hunks: int
    base: bytes
    authored: bytes
    patch: bytes
    target: Files
    truth: Files
    definition: str
    notes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A hash of all that a tool gets and is judged by."""
        parts = [self.name.encode(), self.base, self.patch]
        for files in (self.target, self.truth):
            parts += [part for path in sorted(files) for part in (path.encode(), files[path])]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


@dataclass(frozen=True)
class Generated:
    """The cases of one kind, with the dropped ones by reason.

    `passed_over` counts draws that gave the refactoring nothing to work on; these are no cases.
    """

    kind: str
    releases: tuple[str, str]
    cases: tuple[Case, ...]
    dropped: Mapping[str, int]
    passed_over: Mapping[str, int]


def generate(
    kind: str,
    releases: tuple[str, str],
    old: Files,
    new: Files,
    *,
    seed: int,
    count: int,
    grain: str = "hunk",
) -> Generated:
    """Return up to `count` cases of a kind from the changes between two releases."""
    assert kind in KINDS
    rng = seeded(seed, *releases, kind)
    cases: list[Case] = []
    dropped: Counter[str] = Counter()
    passed_over: Counter[str] = Counter()
    for changes, hunk in _draws(rng, old, new, GRAINS[grain]) if count else ():
        name = f"{'-'.join(releases)}-{kind}-{seed}-{len(cases) + 1:03}"
        try:
            cases.append(_make(name, kind, releases, changes, hunk, rng))
        except InapplicableError as err:
            passed_over[str(err)] += 1
        except DroppedError as err:
            dropped[err.reason] += 1
        if len(cases) == count:
            break
    return Generated(kind, releases, tuple(cases), dict(dropped), dict(passed_over))


def _draws(rng: Random, old: Files, new: Files, gap: int) -> Iterator[tuple[ModuleChanges, int]]:
    """Yield hunks, each once: one of each module in random order, and around again."""
    paths = [path for path in sorted(set(old) & set(new)) if path.endswith(".py")]
    paths = [path for path in paths if old[path] != new[path] and len(old[path]) < _MOST_BYTES]
    left: dict[str, list[int]] = {}
    hunks: dict[str, Hunks] = {}  # the trees of all modules would take gigabytes
    order = shuffled(rng, paths)
    while order:
        for path in order:
            if path not in hunks:
                usable = is_python(old[path]) and is_python(new[path])
                found = module_hunks(old[path], new[path], gap=gap) if usable else ()
                # A module with one hunk has no drift.
                left[path] = shuffled(rng, range(len(found))) if len(found) > 1 else []
                hunks[path] = found
            if left[path]:
                sources = read_source(old[path]), read_source(new[path])
                yield ModuleChanges(path, *sources, hunks[path]), left[path].pop()
        order = [path for path in order if left[path]]


def _make(
    name: str,
    kind: str,
    releases: tuple[str, str],
    changes: ModuleChanges,
    hunk: int,
    rng: Random,
) -> Case:
    unit = changes.unit(hunk)
    if len(unit) == len(changes.hunks):
        raise InapplicableError("the unit is the whole change of the module")
    path, base = changes.path, changes.old.text
    authored, target = changes.applied(unit), changes.without(unit)
    truth = changes.new.text
    if not is_python(authored) or not is_python(target):
        raise DroppedError("not parsable")
    if _dump(authored) == _dump(base):
        raise InapplicableError("the change is not one of the syntax tree")
    chain = _chain(changes, hunk)
    plain = Ground({path: target}, {path: truth}, path, chain, changes.regions(hunk, unit))
    ground = refactor(kind, plain, rng)
    _require_names(base, authored, "patch leaves a name undefined")
    _require_names(target, truth, "patch leaves a name undefined")
    _check_refactored(plain, ground)
    changed = [c for n in unit for c in changes.hunks[n]]
    patch = cut_patch(path, changes.old, authored, changed)
    return Case(
        name, kind, releases, path, patch.count(b"\n@@ -"), base, authored, patch,
        ground.target, ground.truth, ".".join(k[0] for k in chain[-1:]), ground.notes,
    )  # fmt: skip


def _chain(changes: ModuleChanges, hunk: int) -> tuple[tuple[str, int], ...]:
    """Return the definitions around a hunk that base and release both have."""
    group = changes.hunks[hunk]
    new = enclosing(changes.new, group[0].new_start, group[-1].new_end)
    if group[0].new_start == group[-1].new_end:
        new = enclosing(changes.old, group[0].old_start, group[-1].old_end)
    if group[0].old_start == group[-1].old_end:
        return new
    old = enclosing(changes.old, group[0].old_start, group[-1].old_end)
    return tuple(one for one, other in zip(old, new, strict=False) if one == other)


@lru_cache(maxsize=16)
def _dump(text: bytes) -> str:
    return ast.dump(read_source(text).tree)


def _require_names(before: bytes, after: bytes, reason: str) -> None:
    try:
        if new_unresolved(before, after):
            raise DroppedError(reason)
    except NotPythonError as err:
        raise DroppedError("not parsable") from err


def _undefined(files: Files) -> set[str]:
    return {gap.name for path in files for gap in unresolved(files[path])}


def _check_refactored(before: Ground, after: Ground) -> None:
    """Require that the refactoring left both sides valid, and the patch still its effect."""
    known = _undefined(before.target) | _undefined(before.truth)
    try:
        if (_undefined(after.target) | _undefined(after.truth)) - known:
            raise DroppedError("refactoring leaves a name undefined")
    except NotPythonError as err:
        raise AssertionError(f"refactoring broke the file: {after.notes}: {err}") from err
    for path in sorted(after.target):
        _require_names(after.target[path], after.truth[path], "patch leaves a name undefined")
    changed = [
        path
        for path in sorted(after.target)
        if diff_lines(read_source(after.target[path]).lines, read_source(after.truth[path]).lines)
    ]
    assert changed, "the patch lost its effect"
