"""Which patches of a stored series may go on a release, by their own exit conditions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from patchkit.diff.exit_when import Condition
from patchkit.diff.header import parse_header
from patchkit.diff.parse import parse_patch
from patchkit.errors import PatchkitError
from patchkit.repository.store import Stored, read_stored, release_folder, stored_releases
from patchkit.series.exits import Exit, Holding, exit_conditions, judge_exit
from patchkit.tree import SourceTree


def conditions_of(stored: Stored) -> dict[str, tuple[Condition, ...]]:
    """Return the conditions of each patch of a stored series, none where it names none.

    Raises PatchkitError, with the line, for a header that cannot be read.
    """
    found = {}
    for name, data in stored.series.patches.items():
        place = f"{release_folder(stored.folder, stored.same_as or stored.release)}/{name}"
        found[name] = exit_conditions(parse_header(parse_patch(data, place).preamble, place), place)
    return found


def stored_conditions(root: Path, folder: str) -> dict[str, dict[str, tuple[Condition, ...]]]:
    """Return the conditions of each patch on each release that a series folder holds."""
    found: dict[str, dict[str, tuple[Condition, ...]]] = {}
    for release in stored_releases(root, folder):
        for patch, conditions in conditions_of(read_stored(root, folder, release)).items():
            found.setdefault(patch, {})[release] = conditions
    return found


def stored_exits(stored: Stored, tree: SourceTree) -> dict[str, Exit]:
    """Return what a pristine tree says of each patch that names conditions; raises as above."""
    return {
        name: judge_exit(conditions, tree)
        for name, conditions in conditions_of(stored).items()
        if conditions
    }


def exit_notes(stored: Stored, tree: SourceTree) -> tuple[str, ...]:
    """Return what a rebase says of the patches that may go on its target."""
    return tuple(_notes(stored, tree))


def _notes(stored: Stored, tree: SourceTree) -> Iterator[str]:
    try:
        exits = stored_exits(stored, tree)
    except PatchkitError as error:
        yield f"exit conditions were not looked at: {error}"
        return
    for name, found in exits.items():
        if found.holding is Holding.HELD:
            where = tree.version or tree.name
            go = f"`patchkit drop {name.removesuffix('.patch')}`"
            yield f"exit condition of {name} holds on {where}: {found.text}; drop it with {go}"
