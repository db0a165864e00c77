"""A stored series on a tree, as it is: exact lines, its overlay included."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from patchkit.diff import FilePatch, Patch, apply_patch, diff_files, parse_patch
from patchkit.diff.roots import resolve_roots
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.repository.store import Stored
from patchkit.repository.workspace import read_file
from patchkit.series.overlay import Overlay, overlay_changes, overlay_conflicts
from patchkit.tree import SourceTree


def apply_series(root: Path, stored: Stored, tree: SourceTree) -> SourceTree:
    """Return a tree with a stored series applied, its overlay included."""
    tree, _ = with_overlay(root, stored, tree)
    for entry in stored.series.entries:
        patch = parse_patch(stored.series.patches[entry.name], f"{stored.place}/{entry.name}")
        tree, _ = apply_shipped(resolve_roots(patch, tree)[0], tree)
    return tree


def apply_shipped(
    patch: Patch, tree: SourceTree, *, allow_offset: bool = False
) -> tuple[SourceTree, PatchPlan]:
    """Return the tree after the sections that it has files for, and the patch read against it.

    Paths must be the tree's. Raises PatchkitError as `apply_patch` does.
    """
    plan = plan_patch(patch, tree)
    left = {section.path for section in plan.unshipped}
    shipped = tuple(file for file in patch.files if file.path not in left)
    return apply_patch(replace(patch, files=shipped), tree, allow_offset=allow_offset), plan


def with_overlay(
    root: Path, stored: Stored, tree: SourceTree
) -> tuple[SourceTree, tuple[str, ...]]:
    """Return the tree with the series' whole new files, and the paths that it has already."""
    overlay = stored.series.overlay
    if overlay is None:
        return tree, ()
    clashes = overlay_conflicts(overlay, tree)
    free = Overlay(tuple(entry for entry in overlay.entries if entry.path not in clashes))
    sources = {entry.source: read_file(root / entry.source) for entry in free.entries}
    changes = overlay_changes(free, sources, tree, place=f"{stored.place}/overlay.toml")
    return tree.with_changes(dict(changes)), clashes


def canonical_sections(
    before: SourceTree, after: SourceTree, paths: Collection[str]
) -> tuple[FilePatch, ...]:
    """Return the canonical sections for some files of two trees."""
    old = {path: before.files[path] for path in paths if path in before.files}
    new = {path: after.files[path] for path in paths if path in after.files}
    return diff_files(old, new, before.modes, after.modes)
