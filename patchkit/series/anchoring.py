"""Anchors files as the store needs them: read, renewed, and given what a person decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from patchkit.diff import parse_patch
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.placing.resolution import Resolution
from patchkit.series.anchor import format_anchors, generate_anchors, parse_anchors
from patchkit.series.override import Overrides
from patchkit.series.series import Series, anchors_name
from patchkit.stacking.rebase import PatchInput
from patchkit.tree import SourceTree


def stored_overrides(data: bytes | None, place: str) -> Overrides:
    """Return what people decided, from an anchors file; nothing where there is no file."""
    return parse_anchors(data, place).overrides if data is not None else Overrides()


def with_overrides(data: bytes | None, plan: PatchPlan, added: Overrides, place: str) -> bytes:
    """Return an anchors file with overrides, in place of those that decided the same.

    Those are adaptations for the same hunks and release, and acceptances of the same drift of the
    same hunk. Other overrides stay letter for letter unless one of them is replaced.
    """
    if data is None:
        return format_anchors(generate_anchors(plan), added)
    anchors = parse_anchors(data, place)
    kept = without_decided(anchors.overrides, added)
    if kept == anchors.overrides:
        return format_anchors(anchors.generated, added, anchors.override_text)
    both = Overrides(
        (*kept.adaptations, *added.adaptations), (*kept.acceptances, *added.acceptances)
    )
    return format_anchors(anchors.generated, both)


def without_decided(stored: Overrides, anew: Overrides) -> Overrides:
    """Return the stored overrides but for those that are decided anew."""
    adapted = {(a.release, hunk) for a in anew.adaptations for hunk in a.hunks}
    accepted = {(a.hunk, a.surface) for a in anew.acceptances}
    return Overrides(
        tuple(a for a in stored.adaptations if adapted.isdisjoint((a.release, h) for h in a.hunks)),
        tuple(a for a in stored.acceptances if (a.hunk, a.surface) not in accepted),
    )


def series_inputs(
    series: Series,
    place: str,
    *,
    chosen: Collection[str] | None = None,
    left_out: Mapping[str, frozenset[int]] | None = None,
    added: Mapping[str, Overrides] | None = None,
    memory: tuple[Resolution, ...] = (),
) -> tuple[PatchInput, ...]:
    """Return a stored series as a run takes it, with what people decided on each patch.

    Patches that are not `chosen` (all, where not given) are left out, and hunks of the others by
    `left_out`. `added` is what is decided now and not stored yet.
    """
    inputs = []
    for name, data in series.patches.items():
        file = anchors_name(name)
        stored = stored_overrides(series.anchors.get(name), f"{place}/{file}")
        now = (added or {}).get(name, Overrides())
        kept = without_decided(stored, now)
        whole = chosen is not None and name not in chosen
        inputs.append(
            PatchInput(
                name,
                data,
                (*kept.adaptations, *now.adaptations),
                None if whole else (left_out or {}).get(name, frozenset()),
                (*kept.acceptances, *now.acceptances),
                memory,
            )
        )
    return tuple(inputs)


def renewed(data: bytes | None, plan: PatchPlan, place: str) -> bytes:
    """Return the anchors file of a patch on its base, with the overrides of the file as it is."""
    kept = parse_anchors(data, place).override_text if data is not None else ""
    return format_anchors(generate_anchors(plan), Overrides(), kept)


def plan_on(patch: bytes, name: str, before: Mapping[str, bytes | None]) -> PatchPlan:
    """Return a patch read against the files that it changes, as they are before it."""
    files = {path: content for path, content in before.items() if content is not None}
    return plan_patch(parse_patch(patch, name), SourceTree(files, partial=True))
