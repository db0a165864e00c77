"""Series of any size made from what upstream itself changed later: hunks on files of a base.

A release changes hundreds of files. Some hunks of each, in a fixed order by seed, are taken for
what somebody keeps downstream; they apply to the base at zero offset.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from patchkit.diff import diff_files, format_files
from patchkit.diff.model import FilePatch, Hunk
from patchkit.errors import PatchkitError
from patchkit.stacking.rebase import PatchInput
from patchkit.tree import SourceTree

# As in the series that patchkit was written for: 118 hunks, 15 patches, 30 files.
HUNKS_A_FILE = 4
HUNKS_A_PATCH = 8


@dataclass(frozen=True)
class Drawn:
    """A generated series, and over how many files its hunks are spread."""

    patches: tuple[PatchInput, ...]
    hunks: int
    files: int


def draw_series(
    base: SourceTree,
    later: SourceTree,
    target: SourceTree,
    *,
    hunks: int,
    seed: int,
    patches: int | None = None,
) -> Drawn:
    """Return a series of exactly so many hunks on Python files that all three releases have.

    Raises PatchkitError where they changed less between base and later release.
    """
    files: list[FilePatch] = []
    left = hunks
    for file in _changed(base, later, target, random.Random(seed)):
        chosen = _some(file, min(HUNKS_A_FILE, left), random.Random(f"{seed} {file.path}"))
        files.append(chosen)
        left -= len(chosen.hunks)
        if not left:
            break
    if left:
        raise PatchkitError(f"there are {hunks - left} hunks to draw from, {hunks} are wanted")
    count = min(patches or max(1, round(hunks / HUNKS_A_PATCH)), len(files))
    parts = [tuple(sorted(files[i::count], key=lambda f: f.path)) for i in range(count)]
    inputs = [PatchInput(f"part-{i}", format_files(part)) for i, part in enumerate(parts, start=1)]
    return Drawn(tuple(inputs), hunks, len(files))


def _changed(
    base: SourceTree, later: SourceTree, target: SourceTree, rng: random.Random
) -> Iterator[FilePatch]:
    """The files that the later release changed, in a random order, each with all its hunks."""
    paths = [p for p in sorted(base.files) if p.endswith(".py")]
    paths = [p for p in paths if p in later.files and p in target.files]
    rng.shuffle(paths)
    for path in paths:
        yield from diff_files({path: base.files[path]}, {path: later.files[path]})


def _some(file: FilePatch, count: int, rng: random.Random) -> FilePatch:
    """A file's section with some of its hunks, at the lines that they have without the others."""
    hunks = sorted(rng.sample(file.hunks, min(count, len(file.hunks))), key=lambda h: h.old_start)
    placed: list[Hunk] = []
    shift = 0
    for hunk in hunks:
        placed.append(replace(hunk, new_start=hunk.old_start + shift))
        shift += hunk.new_count - hunk.old_count
    return replace(file, hunks=tuple(placed), old_id=None, new_id=None)
