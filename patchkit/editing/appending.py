"""Patches put after those of a series folder: the folders above are carried over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from patchkit.config import Config
from patchkit.editing.draft import Draft, draft_of
from patchkit.editing.opened import find_opened, refuse_unrecorded
from patchkit.editing.revision import Revision, revise
from patchkit.editing.stack import Stack
from patchkit.repository.store import Stored
from patchkit.series.series import Series, read_series
from patchkit.stacking.rebase import Progress


def append(
    config: Config,
    stack: Stack,
    folder: str,
    content: Mapping[str, bytes],
    *,
    progress: Progress | None = None,
) -> Revision:
    """Return a release with a folder that holds `content`: what it held, and more patches after.

    Raises PatchkitError where a patch of a folder above cannot be carried over them.
    """
    stack = _with_folder(config, stack, folder)
    layers = stack.of(folder)
    known = {layer.name for layer in layers}
    place = stack.stored[folder].place
    series = read_series(content, version=stack.release, place=place)
    drafts = [draft_of(layer) for layer in layers]
    drafts += [Draft(e, series.patches[e.name]) for e in series.entries if e.name not in known]
    change = "what is put below it"
    revision = revise(stack, folder, drafts, change=change, progress=progress)
    files = {**revision.built, folder: replace(revision.built[folder], files=content)}
    return replace(revision, built=files)


def _with_folder(config: Config, stack: Stack, folder: str) -> Stack:
    """Return a stack in which a folder has its place, though it holds nothing of the release."""
    if folder in stack.stored:
        return stack
    below = [name for name in config.series[: config.series.index(folder)] if name in stack.stored]
    ground = stack.top(below[-1]) if below else stack.pristine
    empty = Stored(folder, stack.release, {}, Series(stack.release))
    every = {**stack.stored, folder: empty}
    stored = {name: every[name] for name in config.series if name in every}
    return replace(stack, stored=stored, grounds={**stack.grounds, folder: ground})


def refuse_open_top(config: Config, release: str) -> None:
    """Raise PatchkitError where a work tree on top of all patches holds changes not recorded.

    These are made on what was the top; one that stands at a patch keeps what it was made on.
    """
    opened = find_opened(config.state_folder, release)
    if opened is not None and opened.changes and opened.state.patch is None:
        raise refuse_unrecorded(opened, opened.state.path)
