"""A patch as it is stored: its sections made anew from what it does to a tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchkit.diff import FilePatch, Note, Patch, apply_exact
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.placing.plan import PlannedFile, Unshipped, plan_patch
from patchkit.repository.applied import apply_shipped, canonical_sections
from patchkit.surveying.fit import said_notes
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Canonical:
    """A patch in the one form, the tree with it applied, and what was tolerated on the way."""

    patch: Patch
    after: SourceTree
    unshipped: tuple[Unshipped, ...]
    notes: tuple[str, ...]


def canonical(patch: Patch, tree: SourceTree, *, strip: int | None = None) -> Canonical:
    """Return a patch made anew on a tree; sections for what is not shipped are kept as they are.

    `strip` is what a quilt series says of the paths: where the tree says otherwise that is noted.
    Raises PatchkitError where the patch does not fit, at exact lines but for an offset.
    """
    resolved, root_notes = resolve_roots(patch, tree)
    after, plan = apply_shipped(resolved, tree, allow_offset=True)
    left = {section.path for section in plan.unshipped}
    others = tuple(_bare(section.file) for section in plan.unshipped)
    files = (*canonical_sections(tree, after, plan.paths), *others)
    if not files:
        raise PatchkitError("sections undo each other: the patch changes nothing", place=patch.name)
    known = {f"{path} is not in the tree" for path in left}  # that is said of them anyway
    told = [note for note in (*patch.notes, *root_notes) if note.text not in known]
    notes = said_notes(patch.name, told)
    notes += said_notes(patch.name, [note for file in plan.files for note in _tolerated(file)])
    notes += _odd_strip(patch, resolved, strip)
    return Canonical(replace(resolved, files=files), after, plan.unshipped, tuple(notes))


def after(patch: Patch, tree: SourceTree) -> SourceTree | None:
    """Return the tree with a patch applied as `canonical` does, None where it does not fit."""
    try:
        resolved, _ = resolve_roots(patch, tree)
        return tree.with_changes(plan_patch(resolved, tree).after)
    except PatchkitError:
        return None


def _bare(file: FilePatch) -> FilePatch:
    """Return a section less the text before it, which is of the patch file."""
    return replace(file, lead=b"")


def _tolerated(file: PlannedFile) -> tuple[Note, ...]:
    """Return what was tolerated in applying a section: an offset, a hunk without context."""
    return apply_exact(file.section, file.base, allow_offset=True).notes


def _odd_strip(patch: Patch, resolved: Patch, strip: int | None) -> list[str]:
    """Return a note where the paths lie otherwise than at a quilt series' strip level.

    The prefix of a name (a/, b/) is off already, where it had one.
    """
    if strip is None:
        return []
    for written, found in zip(patch.files, resolved.files, strict=True):
        parts = written.path.lstrip("/").split("/")
        if found.path not in ("/".join(parts[n:]) for n in (strip, strip - 1) if n >= 0):
            text = f"the series says -p{strip}; by the tree {written.path} is {found.path}"
            return [f"{patch.name}:{written.lineno}: {text}"]
    return []
