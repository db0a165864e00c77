"""Anchors files as the store needs them: read, renewed, and given a person's adaptations."""

from __future__ import annotations

from collections.abc import Mapping

from patchkit.diff import parse_patch
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.series.anchor import format_anchors, generate_anchors, parse_anchors
from patchkit.tree import SourceTree


def stored_adaptations(data: bytes | None, place: str) -> tuple[Adaptation, ...]:
    """Return the adaptations in an anchors file; none where there is no file."""
    return parse_anchors(data, place).adaptations if data is not None else ()


def with_adaptation(
    data: bytes | None, plan: PatchPlan, adaptation: Adaptation, place: str
) -> bytes:
    """Return an anchors file with an adaptation, in place of those for its hunks and release.

    Other overrides stay letter for letter unless one of them is replaced.
    """
    if data is None:
        return format_anchors(generate_anchors(plan), [adaptation])
    anchors = parse_anchors(data, place)
    others = [other for other in anchors.adaptations if not _same_hunks(other, adaptation)]
    if len(others) == len(anchors.adaptations):
        return format_anchors(anchors.generated, [adaptation], anchors.override_text)
    return format_anchors(anchors.generated, [*others, adaptation])


def renewed(data: bytes | None, plan: PatchPlan, place: str) -> bytes:
    """Return the anchors file of a patch on its base, with the overrides of the file as it is."""
    kept = parse_anchors(data, place).override_text if data is not None else ""
    return format_anchors(generate_anchors(plan), [], kept)


def plan_on(patch: bytes, name: str, before: Mapping[str, bytes | None]) -> PatchPlan:
    """Return a patch read against the files that it changes, as they are before it."""
    files = {path: content for path, content in before.items() if content is not None}
    return plan_patch(parse_patch(patch, name), SourceTree(files, partial=True))


def _same_hunks(one: Adaptation, other: Adaptation) -> bool:
    return one.release == other.release and not set(one.hunks).isdisjoint(other.hunks)
