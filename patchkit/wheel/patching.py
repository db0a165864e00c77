"""What the chosen patches of a release make of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchkit.diff import parse_patch
from patchkit.diff.header import parse_header
from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import FileChange, Hunk
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome, Method, Status
from patchkit.placing.plan import PatchPlan, Unshipped
from patchkit.profile import Section, matches
from patchkit.repository.applied import apply_series, apply_shipped, with_overlay
from patchkit.repository.store import Stored
from patchkit.series.selection import Selection
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class ChangedFile:
    """One file of the result that is not upstream's; None where there is no file.

    `mode` is its git mode, None where the patches leave upstream's alone.
    """

    before: bytes | None
    after: bytes | None
    mode: int | None = None


@dataclass(frozen=True)
class Patched:
    """The files that the patches change, and what became of every hunk.

    `unshipped` are (patch, section): what a wheel does not hold, and is left out; `outcomes` go by
    series folder. `texts` are the patches by (folder, name) as they apply to this very tree, one on
    top of the other: the stored text, or what placing made of it.
    """

    files: dict[str, ChangedFile]
    outcomes: tuple[tuple[str, HunkOutcome], ...]
    unshipped: tuple[tuple[str, Unshipped], ...] = ()
    notes: tuple[str, ...] = ()
    texts: Mapping[tuple[str, str], bytes] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every hunk landed, on ground that held."""
        return all(outcome.landed and not outcome.drifted for _, outcome in self.outcomes)


@dataclass
class _Run:
    """How far the tree has come."""

    tree: SourceTree
    paths: dict[str, None] = field(default_factory=dict)
    outcomes: list[tuple[str, HunkOutcome]] = field(default_factory=list)
    unshipped: list[tuple[str, Unshipped]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: dict[tuple[str, str], bytes] = field(default_factory=dict)


def patch_tree(
    root: Path,
    stored: Sequence[Stored],
    selection: Selection,
    tree: SourceTree,
    base: SourceTree | None = None,
) -> Patched:
    """Return what the chosen patches make of a release's tree.

    A whole series was made on this release, so it must apply as it is, without an offset. Where
    patches are left out, the others are placed and proven as in a rebase: what they needed of the
    ones left out is then an outcome that did not land. So they are, all of them, where `base` is
    given: the release that the series was made on, where the tree is another. Raises PatchkitError
    where a stored patch does not fit its own release, for a section that is built from source and
    not optional, for an overlay file that upstream has, and where nothing changes.
    """
    run = _Run(tree)
    if selection.left_out or base is not None:
        _place_some(run, root, stored, selection, base or tree)
    else:
        for series in stored:
            _apply_all(run, root, series)
    files = {path: _changed(path, tree, run.tree) for path in sorted(run.paths)}
    files = {path: file for path, file in files.items() if _differs(path, file, tree)}
    found = Patched(files, tuple(run.outcomes), tuple(run.unshipped), tuple(run.notes), run.texts)
    if found.ok and not files:
        raise PatchkitError(
            "the chosen patches change no file of the wheel",
            hint="sections for sources to build, tests and docs are left out",
        )
    return found


def is_taken(stored: Stored, selection: Selection) -> bool:
    """Return whether anything of a series is in: its overlay goes with any of its patches."""
    whole = not stored.series.patches
    return whole or any(folder == stored.folder for folder, _ in selection.chosen)


def _apply_all(run: _Run, root: Path, stored: Stored) -> None:
    """Apply a whole series with its overlay, at the very lines that it names."""
    _lay_over(run, root, stored)
    for name, data in stored.series.patches.items():
        place = f"{stored.place}/{name}"
        parsed = parse_patch(data, place)
        patch, notes = resolve_roots(parsed, run.tree)
        run.notes += [f"{place}:{note.lineno}: {note.text}" for note in (*parsed.notes, *notes)]
        run.tree, plan = apply_shipped(patch, run.tree)
        run.texts[stored.folder, name] = data
        _take_unshipped(run, stored, name, plan)
        for file in plan.files:
            paths = (file.section.old_path, file.section.new_path)
            run.paths.update(dict.fromkeys(path for path in paths if path))
        _take_exact(run, stored.folder, name, plan)


def _take_exact(run: _Run, folder: str, name: str, plan: PatchPlan) -> None:
    """Note every hunk of a plan as placed where it says; those of earlier patches have moved."""
    for file in plan.files:
        known = any(outcome.path_after == file.path_before for _, outcome in run.outcomes)
        if known and file.base is not None and file.authored is not None:
            lines = file.base.splitlines(True), file.authored.splitlines(True)
            changes, path = diff_lines(*lines), file.path_before
            run.outcomes = [(f, _shifted(o, path, changes)) for f, o in run.outcomes]
    for file in plan.files:
        section = file.section
        method = {FileChange.ADD: Method.NEW_FILE, FileChange.DELETE: Method.DELETE_FILE}.get(
            section.change, Method.EXACT if section.hunks else Method.METADATA
        )
        spans = [_new_lines(hunk) for hunk in section.hunks]
        gone = section.change is FileChange.DELETE
        for at, number in enumerate(file.numbers):
            outcome = HunkOutcome(
                name, number, Status.PLACED, file.path_before, section.new_path,
                method=method, target_lines=spans[at] if spans and not gone else None,
            )  # fmt: skip
            run.outcomes.append((folder, outcome))


def _new_lines(hunk: Hunk) -> tuple[int, int]:
    """Return the lines of the new file, 1-based and inclusive, between a hunk's outer context."""
    kinds = "".join(line.kind for line in hunk.lines)
    first = hunk.new_start + len(kinds) - len(kinds.lstrip(" "))
    last = hunk.new_start + hunk.new_count - 1 - (len(kinds) - len(kinds.rstrip(" ")))
    return first, max(first, last)


def _shifted(outcome: HunkOutcome, path: str, changes: Sequence[Change]) -> HunkOutcome:
    from patchkit.placing.landed import shift_lines  # the engine, as below

    if outcome.path_after != path or outcome.target_lines is None:
        return outcome
    return replace(outcome, target_lines=shift_lines(outcome.target_lines, changes))


def _place_some(
    run: _Run, root: Path, stored: Sequence[Stored], selection: Selection, base: SourceTree
) -> None:
    """Place the chosen patches on a tree without the others, each proven."""
    # a whole series does not need the engine, whose import takes longer than writing the wheel
    from patchkit.series.anchoring import series_inputs
    from patchkit.stacking.rebase import rebase_series

    for series in stored:
        chosen = {name for folder, name in selection.chosen if folder == series.folder}
        whole, base = base, apply_series(root, series, base)
        if not is_taken(series, selection):
            continue
        whole, _ = with_overlay(root, series, whole)
        _lay_over(run, root, series)
        if not chosen:
            continue
        inputs = series_inputs(series.series, series.place, chosen=chosen)
        result = rebase_series(inputs, whole, run.tree)
        run.tree = result.tree
        run.notes += result.notes
        run.outcomes += [(series.folder, o) for o in result.outcomes if o.patch in chosen]
        for patch in result.patches:
            if patch.name in chosen:
                _take_unshipped(run, series, patch.name, patch.plan)
                run.texts[series.folder, patch.name] = patch.data
            run.paths.update(dict.fromkeys((*patch.before, *patch.after)))


def _lay_over(run: _Run, root: Path, stored: Stored) -> None:
    """Put the overlay's files into the tree; upstream must have none of that name."""
    run.tree, clashes = with_overlay(root, stored, run.tree)
    if clashes:
        raise PatchkitError(
            f"the release has {', '.join(clashes)} already", place=f"{stored.place}/overlay.toml"
        )
    overlay = stored.series.overlay
    run.paths.update(dict.fromkeys(entry.path for entry in overlay.entries) if overlay else {})


def _take_unshipped(run: _Run, stored: Stored, name: str, plan: PatchPlan) -> None:
    """Note the sections that a wheel does not hold; refuse those that would have to be built."""
    place = f"{stored.place}/{name}"
    optional = parse_header(plan.patch.preamble, place).optional_sections
    for section in plan.unshipped:
        free = any(matches(section.path, pattern) for pattern in optional)
        if section.section is Section.BUILT and not free:
            raise PatchkitError(
                f"{section.path} is built from source, which a wheel does not hold",
                place=f"{place}:{section.file.lineno}",
                hint="build vLLM from source, or say with Optional-Sections in the patch's header "
                "that the rest works without it",
            )
        run.unshipped.append((f"{stored.folder}/{name}", section))


def _changed(path: str, before: SourceTree, after: SourceTree) -> ChangedFile:
    old, new = before.files.get(path), after.files.get(path)
    same_mode = old is not None and before.mode(path) == after.mode(path)
    return ChangedFile(old, new, None if new is None or same_mode else after.mode(path))


def _differs(path: str, file: ChangedFile, before: SourceTree) -> bool:
    return file.before != file.after or file.mode not in (None, before.mode(path))
