"""One release of a series folder, as it is stored or as the move that led to it makes it again.

Nothing of a move is kept on disk, so that no stored evidence can go stale: a move is made again,
with the code and the trees of now, and its result compared with what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome
from patchkit.repository import session
from patchkit.repository.deliver import plan_deliveries
from patchkit.repository.move import OpenTree, Request, SeriesMove, move_all
from patchkit.repository.stop import request_of, sources_of
from patchkit.repository.store import (
    Stored,
    held_releases,
    nearest_base,
    not_stored,
    read_stored,
    stored_releases,
)
from patchkit.series.contents import FileContents, PatchContents, read_contents
from patchkit.stacking.rebase import Progress

_HUNK = re.compile(r"(.+)[#:](\d+)$")


@dataclass(frozen=True)
class Wanted:
    """What of a series is asked for: all of it, one patch, or one hunk of that."""

    patch: str | None = None
    hunk: int | None = None

    def holds(self, patch: str, hunk: int | None = None) -> bool:
        """Return whether a patch, or one hunk of it, is asked for."""
        named = self.patch in (None, patch, patch.removesuffix(".patch"))
        return named and (hunk is None or self.hunk in (None, hunk))


def parse_wanted(text: str) -> Wanted:
    """Return the patch or hunk that `PATCH`, `PATCH#2` or `PATCH:2` asks for."""
    match = _HUNK.match(text)
    return Wanted(match[1], int(match[2])) if match else Wanted(text)


@dataclass(frozen=True)
class Shown:
    """One release of a series folder: its patches and, where a move was made, what came of it.

    `release` is None for a move onto a tree that is no release; `target` names it either way. With
    a move the patches are those that were moved, and `base` is the release that they are for;
    `outcomes` are by patch and hunk. `differences` say where what is stored is not what the move
    makes; None where nothing was compared. `stopped` says that the move waits for a person;
    `clashes` are overlay files that the target has already.
    """

    folder: str
    release: str | None
    target: str
    same_as: str | None
    patches: tuple[PatchContents, ...]
    base: str | None = None
    stopped: bool = False
    outcomes: Mapping[tuple[str, int], HunkOutcome] = field(default_factory=dict)
    differences: tuple[str, ...] | None = None
    clashes: tuple[str, ...] = ()


def stored_shown(config: Config, folders: tuple[str, ...], release: str | None) -> list[Shown]:
    """Return what is stored for a release, of each folder that holds it; the highest by default.

    Raises PatchkitError where nothing is stored for it.
    """
    release = release or held_releases(config.root, folders)[-1]
    found = []
    for folder in folders:
        if release in stored_releases(config.root, folder):
            stored = read_stored(config.root, folder, release)
            found.append(Shown(folder, release, f"v{release}", stored.same_as, contents_of(stored)))
    if not found:
        raise not_stored(release, held_releases(config.root, folders), ", ".join(folders))
    return found


def moved_shown(
    config: Config,
    folders: tuple[str, ...],
    release: str | None,
    base: str | None,
    open_tree: OpenTree,
    progress: Progress | None = None,
) -> list[Shown]:
    """Return what a move makes of each folder: the one that has stopped, else one made again.

    Raises PatchkitError where the release was not moved from another one.
    """
    state = session.read_state(config.state_folder / "rebase")
    if state is not None and release in (None, request_of(state).release) and base is None:
        request = request_of(state)
    else:
        request = _request(
            config, folders, release or held_releases(config.root, folders)[-1], base
        )
        state = None
    moves = move_all(config, request, open_tree, progress)
    if state is not None and sources_of(moves) != state.sources:
        raise PatchkitError(
            "the stored series was changed since the rebase stopped",
            place=", ".join(state.sources),
            hint="`patchkit rebase --abort`, and begin again",
        )
    return _shown(config, folders, request, moves, stopped=state is not None)


def tried_shown(
    config: Config,
    folders: tuple[str, ...],
    request: Request,
    open_tree: OpenTree,
    progress: Progress | None = None,
) -> list[Shown]:
    """Return what a move onto any release or tree would make of each folder."""
    moves = move_all(config, request, open_tree, progress)
    return _shown(config, folders, request, moves, stopped=False)


def _shown(
    config: Config,
    folders: tuple[str, ...],
    request: Request,
    moves: Sequence[SeriesMove],
    *,
    stopped: bool,
) -> list[Shown]:
    found = []
    for move, delivery in zip(moves, plan_deliveries(config, request, moves), strict=True):
        if move.stored.folder not in folders:
            continue
        compared = not stopped and move.is_settled
        found.append(
            Shown(
                move.stored.folder,
                request.release,
                f"v{request.release}" if request.release else request.target,
                move.stored.same_as,
                contents_of(move.stored),
                move.stored.release,
                stopped,
                {(o.patch, o.hunk): o for o in move.result.outcomes},
                delivery.differences if compared else None,
                move.clashes,
            )
        )
    return found


def _request(config: Config, folders: tuple[str, ...], release: str, base: str | None) -> Request:
    """Return the move that led to a stored release; refuse where there was none."""
    holding = [f for f in folders if release in stored_releases(config.root, f)]
    if not holding:
        raise not_stored(release, held_releases(config.root, folders), ", ".join(folders))
    for folder in holding:
        stored = stored_releases(config.root, folder)
        if base is None and nearest_base(stored, release) is None:
            above = next((r for r in stored if r != release), None)
            hint = f"`patchkit show v{release}` shows what is in it"
            hint += f"; `patchkit show v{above} --why` how it was moved on" if above else ""
            raise PatchkitError(
                "was not moved from another release: none below it is stored",
                place=f"{folder}/v{release}",
                hint=hint,
            )
    return Request(target=f"v{release}", is_release=True, base=base)


def no_such_patch(wanted: Wanted, shown: list[Shown]) -> PatchkitError:
    """Return the error that says which patches there are instead."""
    places = [f"{s.folder}/{f'v{s.base}' if s.base else s.target}" for s in shown]
    where = ", ".join(places)
    hunk = "" if wanted.hunk is None else f"#{wanted.hunk}"
    hint = f"`patchkit show {places[0].rpartition('/')[2]}` lists the patches and their hunks"
    return PatchkitError(f"there is no {wanted.patch}{hunk}", place=where, hint=hint)


def contents_of(stored: Stored) -> tuple[PatchContents, ...]:
    """Return what each patch of a stored release holds."""
    series = stored.series
    return tuple(
        read_contents(name, data, series.anchors.get(name), place=stored.place)
        for name, data in series.patches.items()
    )


def only(shown: Shown, wanted: Wanted) -> Shown:
    """Return what is asked for of a shown release."""
    patches = []
    for patch in shown.patches:
        files = [
            FileContents(f.path_before, f.path_after, f.change, hunks)
            for f in patch.files
            if (hunks := tuple(h for h in f.hunks if wanted.holds(patch.name, h.number)))
        ]
        if files:
            patches.append(PatchContents(patch.name, patch.header, tuple(files)))
    names = [patch.name for patch in patches]
    differences = shown.differences
    if differences is not None and wanted.patch is not None:
        differences = tuple(d for d in differences if d.split(":")[0] in names)
    return replace(
        shown,
        patches=tuple(patches),
        outcomes={key: o for key, o in shown.outcomes.items() if wanted.holds(*key)},
        differences=differences,
    )
