"""Later patches carried over a change of what lies below them: placed and proven, or refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from patchkit.editing.draft import Draft
from patchkit.editing.stack import Layer
from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome, Status
from patchkit.repository.store import Stored
from patchkit.series.anchoring import series_inputs
from patchkit.stacking.rebase import Progress, RebaseResult, rebase_series
from patchkit.tree import SourceTree

_SHOWN = 4  # hunks that a refusal names


def carry(
    stored: Stored,
    layers: Sequence[Layer],
    old: SourceTree,
    new: SourceTree,
    *,
    change: str,
    gone: Collection[str] = (),
    accept_drift: bool = False,
    progress: Progress | None = None,
) -> tuple[tuple[Draft, ...], SourceTree]:
    """Return some patches that follow each other, moved from one tree to another, and that tree
    with them.

    `change` names in words what made the trees differ; the patches that are `gone` are left out.
    Raises PatchkitError where a hunk does not land, is there already, or would rely on what is
    otherwise now.
    """
    if not layers:
        return (), new
    result = moved(stored, layers, old, new, gone=gone, progress=progress)
    own = [outcome for outcome in result.outcomes if outcome.patch not in gone]
    problems = [outcome for outcome in own if _is_in_the_way(outcome, accept_drift)]
    if problems:
        raise _refusal(stored, problems, change)
    drafts = []
    for layer, patch in zip(layers, result.patches, strict=True):
        if layer.name in gone:
            continue
        data = patch.data or layer.data  # of a patch of which nothing ships, nothing moves
        drafts.append(Draft(layer.entry, data, (layer,)))
    return tuple(drafts), result.tree


def moved(
    stored: Stored,
    layers: Sequence[Layer],
    old: SourceTree,
    new: SourceTree,
    *,
    gone: Collection[str] = (),
    progress: Progress | None = None,
) -> RebaseResult:
    """Return what becomes of some patches that follow each other, when they are moved."""
    patches = {layer.name: layer.data for layer in layers}
    series = replace(stored.series, patches=patches)
    chosen = [name for name in patches if name not in gone]
    inputs = series_inputs(series, stored.place, chosen=chosen)
    return rebase_series(inputs, old, new, progress=progress)


def in_the_way(result: RebaseResult) -> tuple[HunkOutcome, ...]:
    """Return the hunks that did not go in where they were, or not on ground that held."""
    return tuple(outcome for outcome in result.outcomes if _is_in_the_way(outcome, False))


def _is_in_the_way(outcome: HunkOutcome, accept_drift: bool) -> bool:
    return outcome.status is not Status.PLACED or (outcome.drifted and not accept_drift)


def _refusal(stored: Stored, problems: Sequence[HunkOutcome], change: str) -> PatchkitError:
    name = problems[0].patch
    told = [_told(o, name) for o in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        told.append(f"and {len(problems) - _SHOWN} hunks more")
    return PatchkitError(
        f"cannot be carried over {change}: {'; '.join(told)}",
        place=f"{stored.place}/{name}",
        hint=f"nothing was changed; {_advice(problems)}",
    )


def _told(outcome: HunkOutcome, name: str) -> str:
    whose = "" if outcome.patch == name else f"{outcome.patch} "
    where = outcome.definition_before or outcome.path_before
    if outcome.status is Status.ALREADY_UPSTREAM:
        why = "its change is there already"
    elif outcome.status is Status.PLACED:
        why = "; ".join(drift.text for drift in outcome.drifts) or "nothing is left of it"
    else:
        why = outcome.reason or outcome.status.value.replace("_", " ")
    return f"{whose}hunk {outcome.hunk} ({where}): {why}"


def _advice(problems: Sequence[HunkOutcome]) -> str:
    name = problems[0].patch.removesuffix(".patch")
    if problems[0].status is Status.ALREADY_UPSTREAM:
        return f"leave that to {name}, or `patchkit fold` it first"
    if all(o.status is Status.PLACED for o in problems):
        return "say --accept-drift where that is right all the same"
    return f"change it so that {name} still finds its place, or edit {name} first"
