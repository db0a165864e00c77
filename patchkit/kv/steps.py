"""How blocks and pages came about, in sentences for people."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.kv.amounts import share
from patchkit.kv.grouping import Group
from patchkit.kv.pages import FULL, STATE, WINDOW, Page

NAMES = {FULL: "full attention", WINDOW: "window", STATE: "state"}


def page_steps(at_birth: Sequence[Page], pages: Sequence[Page]) -> tuple[str, ...]:
    """Return what became of each page, once for layers that are alike."""
    before = max(page.page_bytes for page in at_birth)
    steps = (_page_step(*both, before) for both in zip(at_birth, pages, strict=True))
    return tuple(dict.fromkeys(step for step in steps if step is not None))


def _page_step(first: Page, last: Page, before: int) -> str | None:
    """Return what became of one page; `before` is the largest page at birth, in bytes."""
    name = NAMES[first.kind]
    used = f"{share(last.content_bytes, last.page_bytes)} of it is used"
    if last.block != first.block:
        how = f"scaled to the page of {last.page_bytes:,} bytes"
        if last.page_bytes > before:
            growth = share(last.page_bytes - before, before)
            how = f"promoted, page {before:,} → {last.page_bytes:,} bytes, +{growth}"
        return f"{name} block {first.block:,} → {last.block:,} tokens: {how}"
    if last.page_bytes != first.page_bytes:
        return f"{name} page {first.page_bytes:,} → {last.page_bytes:,} bytes: padded, {used}"
    if first.kind == WINDOW and first.padded_bytes is not None:
        return (
            f"{name} block {first.block:,} tokens: what the shared page of {first.page_bytes:,}"
            f" bytes holds, {used}"
        )
    return None


def group_step(groups: Sequence[Group], pages: Sequence[Page], stages: int) -> tuple[str, ...]:
    """Return how layers share block tables, those of all pipeline stages counted together."""
    over = f" over all {stages} stages" if stages > 1 else ""
    size = max(len(each.places) for each in groups)
    if len(groups) == 1:
        return (f"one group of {len(pages)} layers{over}",)
    kinds: dict[Page, int] = {}
    for each in groups:
        kinds[each.page] = kinds.get(each.page, 0) + 1
    counts = ", ".join(f"{count} {NAMES[page.kind]}" for page, count in kinds.items())
    unused = size * len(groups) - len(pages)
    left = f"; {unused} of {size * len(groups)} places stay unused" if unused else ""
    return (f"groups of {size} layers{over}: {counts}{left}",)
