"""How sure the context of a hunk is in its release: where else its lines occur, or would fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchkit.diff.apply import find_lines
from patchkit.diff.model import FileChange, Hunk, split_lines
from patchkit.placing.adaptation import definitions_around
from patchkit.placing.plan import PatchPlan
from patchkit.tree import PYTHON

USUAL = 3  # lines of context, as git and diff write them


@dataclass(frozen=True)
class Context:
    """How well a hunk's context tells its place from others of the file.

    `occurrences` counts its old lines in the file; `thinner` maps a number of context lines, fewer
    than it has, to how often the old lines occur with just those; `definitions` are the definitions
    that hold one of the most of these. `lines` is the context that it has on the longer side.
    """

    number: int
    path: str
    occurrences: int
    thinner: tuple[tuple[int, int], ...]
    definitions: tuple[str, ...]
    lines: int
    insert_only: bool
    whole: bool = False

    @property
    def is_weak(self) -> bool:
        """Whether a few other lines of upstream's could make the place doubtful."""
        return not self.whole and (self.lines == 0 or self.unique_from > 1)

    @property
    def unique_from(self) -> int:
        """The least number of context lines with which the place is the only one."""
        most = [lines for lines, found in self.thinner if found > 1]
        return max(most) + 1 if most else 0

    @property
    def text(self) -> str:
        """What there is to say of it, in a line."""
        if self.whole:
            return "the whole file"
        parts = []
        if self.lines == 0:
            parts.append("no context")
        if self.insert_only:
            parts.append("only adds lines")
        if self.lines > USUAL:
            parts.append(f"has {self.lines} lines of context, to be the only one of its kind")
        if self.occurrences > 1:
            parts.append(f"its old lines occur {self.occurrences} times")
        elif self.unique_from == 0:
            parts.append("unique by its own lines")
        else:
            lines = f"{self.unique_from} line{'s' if self.unique_from > 1 else ''}"
            parts.append(f"unique from {lines} of context on")
            less = self.unique_from - 1
            if less or not self.insert_only:
                count = next(n for around, n in self.thinner if around == less)
                parts.append(f"with {less} at {count} places")
        if len(self.definitions) > 1:
            parts.append(f"would fit in {len(self.definitions)} definitions")
        return ", ".join(parts)


def contexts_of(plan: PatchPlan) -> tuple[Context, ...]:
    """Return for each hunk of a patch how sure its context is in the files that it is made on."""
    found = []
    for file in plan.files:
        if file.section.change is not FileChange.MODIFY or not file.jobs:
            numbers = file.numbers
            found += [Context(n, file.section.path, 0, (), (), 0, False, True) for n in numbers]
            continue
        lines = split_lines(file.base or b"")
        for job in file.jobs:
            found.append(_context(job.number, file.path_before, job.hunk, lines))
    return tuple(found)


def _context(number: int, path: str, hunk: Hunk, lines: list[bytes]) -> Context:
    above, below = _around(hunk)
    most = max(above, below)
    thinner = []
    for count in range(most):
        old = _thinned(hunk, min(count, above), min(count, below))
        thinner.append((count, len(find_lines(lines, old)) if old else len(lines) + 1))
    places = find_lines(lines, hunk.old_lines)
    widest = _thinned(hunk, min(1, above), min(1, below))
    insert_only = all(line.kind != "-" for line in hunk.lines)
    # what is added is where the line above it is
    ahead = 0 if insert_only else min(1, above)
    names = _definitions(path, lines, find_lines(lines, widest), ahead)
    return Context(
        number,
        path,
        len(places) if hunk.old_lines else len(lines) + 1,
        tuple(thinner),
        names,
        most,
        insert_only,
    )


def _around(hunk: Hunk) -> tuple[int, int]:
    """Return how many lines of context a hunk has above its first change and below its last."""
    kinds = [line.kind for line in hunk.lines]
    changed = [at for at, kind in enumerate(kinds) if kind != " "]
    return changed[0], len(kinds) - 1 - changed[-1]


def _thinned(hunk: Hunk, above: int, below: int) -> list[bytes]:
    """Return the old lines of a hunk with less context around its changes."""
    top, bottom = _around(hunk)
    end = len(hunk.lines) - (bottom - below)
    return [line.text for line in hunk.lines[top - above : end] if line.kind != "+"]


def _definitions(
    path: str, lines: list[bytes], places: Sequence[int], ahead: int
) -> tuple[str, ...]:
    """Return the definitions that hold the places at which some lines occur."""
    if not path.endswith(PYTHON):
        return ()
    source = b"".join(lines)
    spots = [(place + ahead + 1, place + ahead + 1) for place in places]
    found = [definitions_around(source, source, [spot], []) for spot in spots]
    return tuple(dict.fromkeys(name for name in found if name is not None))
