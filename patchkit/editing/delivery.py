"""What an edit of stored patches writes, held against all else that goes by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.config import Config
from patchkit.editing.around import (
    refuse_stopped_rebase,
    replacements,
    stale_verdicts,
    with_others,
)
from patchkit.editing.revision import Revision
from patchkit.errors import PatchkitError
from patchkit.repository.move import OpenTree
from patchkit.repository.workspace import Replacement, Workspace


@dataclass(frozen=True, eq=False)
class Delivery:
    """What is to be written for one release, and what people should know of it."""

    release: str
    folder: str
    changes: tuple[tuple[str, str], ...]
    replacements: tuple[Replacement, ...]
    written: tuple[str, ...]
    notes: tuple[str, ...]


def plan_delivery(
    config: Config,
    revision: Revision,
    folder: str,
    open_tree: OpenTree,
    *,
    forget: bool = False,
    lost: Sequence[str] = (),
) -> Delivery:
    """Return what a revision writes.

    Raises PatchkitError where decisions would be lost unasked, and where a rebase has stopped that
    goes by what is stored.
    """
    every = tuple(dict.fromkeys((*lost, *revision.lost)))
    if every and not forget:
        raise PatchkitError(
            f"decisions would be lost with the hunks that they are on: {'; '.join(every)}",
            place=revision.stack.stored[folder].place,
            hint="nothing was changed; --forget-decisions drops them, a rebase asks again",
        )
    revision = with_others(config, revision, folder, open_tree)
    files = revision.files()
    refuse_stopped_rebase(config, files)
    notes = [*revision.notes, *stale_verdicts(config, revision)]
    notes += [f"a decision is gone: {text}" for text in every]
    return Delivery(
        revision.stack.release,
        folder,
        revision.changes,
        tuple(replacements(config.root, files)),
        tuple(files),
        tuple(notes),
    )


def deliver(
    workspace: Workspace, deliveries: Sequence[Delivery], others: Sequence[Replacement] = ()
) -> None:
    """Write everything, or nothing; the caller holds the lock."""
    workspace.commit([*(one for each in deliveries for one in each.replacements), *others])


def with_notes(delivery: Delivery, notes: Sequence[str]) -> Delivery:
    """Return a delivery with more to tell."""
    return replace(delivery, notes=(*delivery.notes, *notes))
