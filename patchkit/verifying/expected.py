"""What a series makes of the files that it changes, every line with the hunk that it came from.

Patches are applied in order, each at the very lines that it names. A line remembers the hunk that
added it, and the lines that hunks took out keep their place, through all later patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchkit.diff import apply_exact, parse_patch, split_lines
from patchkit.diff.model import FileChange, FilePatch
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.placing.plan import plan_patch
from patchkit.placing.propose import runs_of
from patchkit.tree import SourceTree


@dataclass(frozen=True, order=True)
class Spot:
    """One hunk of one patch, or one file of an overlay; `order` counts through the whole series.

    `path` is that of the file after the patch, or before it where the file goes.
    """

    order: int
    series: str
    patch: str
    hunk: int
    path: str


@dataclass(eq=False)
class Gap:
    """A place before a line where a hunk took lines out."""

    spot: Spot
    removed: tuple[ExpectedLine, ...]

    @property
    def texts(self) -> list[bytes]:
        """The lines that the hunk took out."""
        return [line.text for line in self.removed]


@dataclass(eq=False)
class ExpectedLine:
    """One line; `gaps` lie before it. At `edges` a run of changed lines ends that took lines out.

    The last entry of a file is empty, its end, and belongs to no hunk.
    """

    text: bytes
    spot: Spot | None = None
    gaps: list[Gap] = field(default_factory=list)
    edges: list[Gap] = field(default_factory=list)


@dataclass
class ExpectedFile:
    """One file after the series: its lines, None where there is no file, and as it was before.

    `whole` are the hunks that stand or fall with the file: those of a new, a renamed, a removed
    file. `mode` is the git mode that the series gives it.
    """

    before: bytes | None
    lines: list[ExpectedLine] | None
    whole: list[Spot] = field(default_factory=list)
    mode: int | None = None

    @property
    def content(self) -> bytes | None:
        """The bytes of the file, None where there is none."""
        return None if self.lines is None else b"".join(line.text for line in self.lines)


@dataclass
class Expected:
    """The files that a series changes, and its hunks in order.

    `overlay` maps a path to the hunk's stand-in and the sha256 of the file.
    """

    files: dict[str, ExpectedFile] = field(default_factory=dict)
    spots: list[Spot] = field(default_factory=list)
    overlay: dict[str, tuple[Spot, str]] = field(default_factory=dict)


def expected_files(
    patches: Mapping[tuple[str, str], bytes],
    base: SourceTree,
    overlay: Sequence[tuple[str, str, str]] = (),
    *,
    allow_offset: bool = False,
) -> Expected:
    """Return what patches, by (series, name) in order, make of a tree as it was before them.

    `overlay` are (series, path, sha256). Raises PatchkitError for a patch that does not fit.
    """
    found = Expected()
    for series, path, sha256 in overlay:
        spot = Spot(len(found.spots) + 1, series, "overlay.toml", len(found.overlay) + 1, path)
        found.spots.append(spot)
        found.overlay[path] = (spot, sha256)
    for (series, name), data in patches.items():
        tree = _Layered(found, base)
        patch = resolve_roots(parse_patch(data, name), tree.value)[0]
        left = {section.path for section in plan_patch(patch, tree.value).unshipped}
        number = 1
        for section in patch.files:
            count = max(1, len(section.hunks))
            if section.path not in left:
                spots = [
                    Spot(len(found.spots) + at, series, name, number + at - 1, section.path)
                    for at in range(1, count + 1)
                ]
                found.spots += spots
                _take(found, base, section, spots, allow_offset=allow_offset)
            number += count
    return found


class _Layered:
    """The tree with what patches made of it so far."""

    def __init__(self, found: Expected, base: SourceTree) -> None:
        changes = {path: file.content for path, file in found.files.items()}
        self.value = base.with_changes(changes)


def _take(
    found: Expected,
    base: SourceTree,
    section: FilePatch,
    spots: Sequence[Spot],
    *,
    allow_offset: bool,
) -> None:
    """Apply one section."""
    source = section.path if section.old_path is None else section.old_path
    file = found.files.get(source) or _untouched(base, source)
    content = file.content
    applied = apply_exact(section, content, allow_offset=allow_offset)
    lines = file.lines if file.lines is not None else [ExpectedLine(b"")]
    for hunk, spot, landed in reversed(
        list(zip(section.hunks, spots, applied.hunk_ranges, strict=False))
    ):
        for run in reversed(runs_of(hunk, landed.old[0])):
            _replace(lines, run.start, run.end, run.lines, spot)
    if section.change is FileChange.DELETE:
        found.files[source] = ExpectedFile(file.before, None, [*file.whole, *spots])
        return
    whole = list(file.whole)
    if section.change is not FileChange.MODIFY or not section.hunks:
        whole += spots if not section.hunks or section.change is FileChange.ADD else spots[:1]
    new = found.files.get(section.path) or _untouched(base, section.path)
    before = file.before if section.path == source else new.before
    result = ExpectedFile(before, lines, whole, section.new_mode or file.mode)
    if result.content != applied.content:
        raise PatchkitError("cannot be followed line by line", place=section.path)
    if section.path != source and section.change is not FileChange.COPY:
        found.files[source] = ExpectedFile(file.before, None, list(spots[:1]))
    found.files[section.path] = result


def _untouched(base: SourceTree, path: str) -> ExpectedFile:
    content = base.files.get(path)
    if content is None:
        return ExpectedFile(None, None)
    lines = [ExpectedLine(text) for text in split_lines(content)]
    return ExpectedFile(content, [*lines, ExpectedLine(b"")])


def _replace(
    lines: list[ExpectedLine], start: int, end: int, new: Sequence[bytes], spot: Spot
) -> None:
    """Put a hunk's lines in the place of others; what they kept goes to the line after them."""
    gone, after = lines[start:end], lines[end]
    added = [ExpectedLine(text, spot) for text in new]
    following = added[0] if added else after
    gaps = [gap for line in gone for gap in (*line.gaps, *line.edges)]
    # a line taken out before one that is gone now was above or below what came in its place
    for line in (following, after) if added else (after,):
        line.edges += gaps
    if gone:
        gap = Gap(spot, tuple(gone))
        following.gaps.append(gap)
        if added:
            after.edges.append(gap)
    lines[start:end] = added


def owned(file: ExpectedFile) -> Iterator[tuple[int, Spot]]:
    """Yield the lines, 0-based, that a hunk added, with the hunk."""
    for at, line in enumerate(file.lines or ()):
        if line.spot is not None:
            yield at, line.spot
