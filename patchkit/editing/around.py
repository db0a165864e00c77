"""What else a repository holds on a release that is edited: releases that are the same as it, and
verdicts and rebases that go by what was stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchkit.config import Config
from patchkit.editing.draft import build, draft_of
from patchkit.editing.revision import Revision
from patchkit.editing.stack import Layer
from patchkit.errors import PatchkitError
from patchkit.repository.applied import apply_series, apply_shipped, with_overlay
from patchkit.repository.move import OpenTree
from patchkit.repository.session import read_state
from patchkit.repository.store import Stored, read_stored, release_folder, stored_releases
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.repository.workspace import Replacement
from patchkit.tree import SourceTree


def with_others(config: Config, revision: Revision, folder: str, open_tree: OpenTree) -> Revision:
    """Return a revision with the releases that are the same as its own looked after."""
    stack = revision.stack
    others: dict[str, Mapping[str, bytes]] = {}
    notes = []
    for release in stored_releases(config.root, folder):
        place = release_folder(folder, release)
        one = read_stored(config.root, folder, release)
        if one.same_as != stack.release:
            continue
        ground = _ground(config, one, folder, release, open_tree)
        try:
            for layer in revision.built[folder].layers:
                ground = apply_shipped(layer.plan.patch, ground)[0]
            notes.append(f"v{release} is the same as v{stack.release}, and takes the change too")
        except PatchkitError as err:
            ground = _ground(config, one, folder, release, open_tree)
            kept = replace(one, files={}, same_as=None)
            others[place] = _as_it_was(kept, ground, stack.of(folder), stack.release)
            notes.append(
                f"v{release} was the same as v{stack.release}; the change does not apply there "
                f"({err}), so that it has its own copy now of what it had; move the change by "
                f"`patchkit rebase v{release} --from v{stack.release} --update`"
            )
    return replace(revision, others=others, notes=(*revision.notes, *notes))


def _as_it_was(
    stored: Stored, ground: SourceTree, layers: Sequence[Layer], release: str
) -> Mapping[str, bytes]:
    """Return the folder of a release that is no longer the same as another one."""
    try:
        return build(stored, ground, [draft_of(layer) for layer in layers]).files
    except PatchkitError as err:
        raise PatchkitError(
            f"is the same as v{release}, and what is stored there does not apply: {err}",
            place=stored.place,
            hint=f"`patchkit rebase v{stored.release} --from v{release} --update` stores its own",
        ) from err


def _ground(
    config: Config, stored: Stored, folder: str, release: str, open_tree: OpenTree
) -> SourceTree:
    tree = open_tree(f"v{release}")
    for below in config.series:
        if below == folder:
            break
        if release in stored_releases(config.root, below):
            tree = apply_series(config.root, read_stored(config.root, below, release), tree)
    return with_overlay(config.root, stored, tree)[0]


def stale_verdicts(config: Config, revision: Revision) -> tuple[str, ...]:
    """Return notes on the verdicts that held for what is stored and do not for the revision."""
    notes = []
    for folder, built in revision.built.items():
        stored = revision.stack.stored[folder]
        patches = {layer.name: layer.data for layer in built.layers}
        new = replace(stored, series=replace(stored.series, patches=patches))
        for verdict in read_verdicts(config.root, folder):
            if verdict.release != stored.release or verdict.patch not in stored.series.patches:
                continue
            held = is_fresh(config.root, stored, verdict)
            if held and verdict.patch in patches and not is_fresh(config.root, new, verdict):
                again = f"`patchkit test v{stored.release} {verdict.patch}` makes it anew"
                notes.append(f"the verdict on {verdict.patch} holds no more; {again}")
    return tuple(notes)


def refuse_stopped_rebase(config: Config, places: Iterable[str]) -> None:
    """Raise PatchkitError where a rebase has stopped that began with one of some folders."""
    state = read_state(config.state_folder / "rebase")
    if state is not None and set(places) & set(state.sources):
        raise PatchkitError(
            f"a rebase onto {state.target} has stopped that began with it",
            place=", ".join(sorted(set(places) & set(state.sources))),
            hint="finish it with `patchkit rebase --continue`, or drop it with `--abort`",
        )


def replacements(root: Path, files: Mapping[str, Mapping[str, bytes]]) -> list[Replacement]:
    """Return the release folders as the workspace writes them."""
    return [Replacement(root / place, content) for place, content in files.items()]
