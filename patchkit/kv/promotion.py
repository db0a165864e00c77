"""Block promotion: the rule of patches/…/block-promotion.patch, which runs once there are groups.

A sliding-window layer is born with the smallest kernel block and relies on being scaled. Where its
page does not divide the largest one, every such block takes a whole page. Its block becomes the
smallest multiple whose page covers the common one, and the largest of these is what others pad to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm

from patchkit.kv.grouping import Group
from patchkit.kv.pages import STATE, Page
from patchkit.kv.planned import Options
from patchkit.kv.rules import Rules
from patchkit.kv.unify import can_pad

# Backends that read a block of any size whole, so that its page can be padded.
WHOLE_BLOCKS = ("TRITON_ATTN", "CPU_ATTN")
SCALES = "_per_token_head"  # formats that one of these alone takes


@dataclass(frozen=True)
class Promotion:
    """What decides whether blocks are promoted: how the engine is started, and what requests take.

    `blocks` returns what a request of so many tokens needs in one group of such a page.
    """

    options: Options
    rules: Rules
    mode: str  # of states
    max_model_len: int
    has_drafter: bool
    blocks: Callable[[Page, int], int]


def promote(groups: Sequence[Group], at_birth: Sequence[Page], by: Promotion) -> tuple[Group, ...]:
    """Return the groups with promoted blocks, or as they are.

    They stay as they are unless all layers can follow, prefixes can be matched where they could be,
    and a request needs less at each length from the promoted block on.
    """
    as_they_are = tuple(groups)
    common = groups[0].page.page_bytes
    raised = [_raised(each, at_birth, common) for each in groups]
    promoted = [page.block for page in raised if page is not None]
    if not promoted:
        return as_they_are
    old = [each.page for each in groups]
    new = [old[at] if page is None else page for at, page in enumerate(raised)]
    largest = max(page.page_bytes for page in new)
    if not all(page.page_bytes == largest or _can_follow(page, by) for page in new):
        return as_they_are
    new = [page if page.page_bytes == largest else page.padded(largest) for page in new]
    if by.options.prefix_caching and not _matches_as_before(old, new, promoted, by):
        return as_they_are
    if not _needs_less(old, new, min(promoted), by):
        return as_they_are
    return tuple(replace(each, page=page) for each, page in zip(groups, new, strict=True))


def _raised(each: Group, at_birth: Sequence[Page], common: int) -> Page | None:
    """Return the page of a promoted group; None where it is a state, was scaled, or fills it."""
    small = replace(each.page, padded_bytes=None)
    was_padded = small.page_bytes < common and all(
        at_birth[place].page_bytes == small.page_bytes for place in each.places
    )
    if small.kind == STATE or not was_padded:
        return None
    return small.with_block(small.block * -(-common // small.page_bytes))


def _can_follow(page: Page, by: Promotion) -> bool:
    """Return whether a page can be padded, also one that was not and might be split by a kernel."""
    if page.kind == STATE or page.padded_bytes is not None:
        return can_pad(page, by.rules)
    named = by.options.backend in WHOLE_BLOCKS and not by.has_drafter
    return can_pad(page, by.rules) and (named or page.format.endswith(SCALES))


def _matches_as_before(
    old: Sequence[Page], new: Sequence[Page], promoted: Sequence[int], by: Promotion
) -> bool:
    """Return whether prefixes can be matched at the ends of blocks where they could be before.

    A promoted window can only be matched at the ends of its own block.
    """
    blocks = [page.block for page in new]
    if lcm(*blocks) != lcm(*(page.block for page in old)):
        return False
    unit = by.options.prefix_match_unit or gcd(*blocks)
    aligned = by.mode == "align" and any(page.kind == STATE for page in new)
    return not (aligned and any(unit % block for block in promoted))


def _needs_less(old: Sequence[Page], new: Sequence[Page], block: int, by: Promotion) -> bool:
    """Return whether a request needs a page less in each layer, at each length from a block on.

    Blocks that are saved and blocks that remain only grow with the length: what holds for a length
    and for twice that holds between them. The page is what a pool loses that is no multiple of it.
    """
    before, after = old[0].page_bytes, new[0].page_bytes
    lengths = [by.max_model_len]
    while block < by.max_model_len:
        lengths.append(block)
        block *= 2
    for length in lengths:
        saved = _blocks(old, length, by) - _blocks(new, length, by)
        remaining = _blocks(new, min(2 * length, by.max_model_len), by)
        if before * saved < (after - before) * remaining + after:
            return False
    return True


def _blocks(pages: Sequence[Page], length: int, by: Promotion) -> int:
    return sum(by.blocks(page, length) for page in pages)
