"""Groups: layers with one block table. A block id stands for one page in each layer of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from patchkit.kv.pages import STATE, WINDOW, Page


@dataclass(frozen=True)
class Group:
    """The layers of one block table, by their place among all layers, and one of their pages.

    All pages of a group have the same block; where the pages differ, all layers are in one group.
    """

    places: tuple[int, ...]
    page: Page


def is_one_group(pages: Sequence[Page]) -> bool:
    """Return whether layers need the same tokens, so that one group holds all, unlike pages too.

    That is full attention alone, or one window, in blocks of one size
    (UniformTypeKVCacheSpecs.is_uniform_type).
    """
    first = pages[0]
    same = all(
        (page.kind, page.window, page.block) == (first.kind, first.window, first.block)
        for page in pages
    )
    return same and (first.kind != STATE or len({page.page_bytes for page in pages}) == 1)


def group(pages: Sequence[Page], group_rule: str) -> tuple[Group, ...]:
    """Return the groups of pages that have one size, or make one group.

    Layers that are alike are spread over as few groups as hold them, each with at most a group's
    size of layers (_get_kv_cache_groups_uniform_page_size). A group that is not full leaves pages
    unused. The rule "even" is that of a port, see `group_size`.
    """
    if is_one_group(pages):
        return (Group(tuple(range(len(pages))), pages[0]),)
    buckets: dict[Page, list[int]] = {}
    for place, page in enumerate(pages):
        buckets.setdefault(page, []).append(place)
    size = group_size(
        {page: len(places) for page, places in buckets.items()}, even=group_rule == "even"
    )
    groups = []
    for page, places in buckets.items():
        count = -(-len(places) // size)
        groups += [Group(tuple(places[at::count]), page) for at in range(count)]
    return tuple(groups)


def group_size(layers: dict[Page, int], *, even: bool) -> int:
    """Return the layers of one group: those of the rarest page, or of the commonest if it is near.

    `even`: where only windows are that rare, the largest size that divides all the others, as long
    as it leaves no more room unused than the windows themselves take.
    """
    least, most = min(layers.values()), max(layers.values())
    if even:
        size = _even_size(layers)
        if size is not None:
            return size
    return most if most * 2 < least * 3 else least


def _even_size(layers: dict[Page, int]) -> int | None:
    least = min(layers.values())
    rarest = [page for page, count in layers.items() if count == least]
    others = [count for count in layers.values() if count != least]
    if not others or any(page.kind != WINDOW for page in rarest):
        return None
    common = reduce(gcd, others)
    for size in range(common, 0, -1):
        if common % size == 0 and -least % size <= least:
            return size
    return None
