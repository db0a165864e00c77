"""Block promotion: the rule of patches/…/block-promotion.patch, which runs before `unify`.

A sliding-window layer is born with the smallest kernel block and relies on being scaled. Where its
page does not divide the largest one, every such block would take a whole page. Its block becomes
the smallest multiple whose page covers the largest, and the largest of these is what others pad to.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from patchkit.kv.pages import STATE, Page
from patchkit.kv.rules import Rules
from patchkit.kv.unify import can_pad


def promote(pages: Sequence[Page], rules: Rules) -> tuple[tuple[Page, ...], int]:
    """Return the pages with small blocks raised, and the page size in bytes to unify them to.

    Where that would not pay they are returned as they are, with their largest page.
    """
    largest = max(page.page_bytes for page in pages)
    as_they_are = tuple(pages), largest
    raised = {page: _raised(page, largest) for page in pages if _can_rise(page, rules)}
    new_largest = max((page.page_bytes for page in raised.values()), default=largest)
    if new_largest == largest:
        return as_they_are
    promoted = []
    for page in pages:
        divides = page.kind != STATE and new_largest % page.page_bytes == 0
        if not (page.padded_bytes is None if divides else can_pad(page, rules)):
            return as_they_are
        promoted.append(page if divides else raised.get(page, page))
    before, after = _token_bytes(pages, largest), _token_bytes(promoted, new_largest)
    return (tuple(promoted), new_largest) if after < before else as_they_are


def _can_rise(page: Page, rules: Rules) -> bool:
    return page.kind != STATE and page.padded_bytes is None and can_pad(page, rules)


def _raised(page: Page, largest: int) -> Page:
    return page.with_block(page.block * -(-largest // page.page_bytes))


def _token_bytes(pages: Sequence[Page], largest: int) -> Fraction:
    """Return what a token takes in all attention layers together, with pages of one size."""
    total = Fraction(0)
    for page in pages:
        if page.kind != STATE:
            ratio, rest = divmod(largest, page.page_bytes)
            total += Fraction(largest, page.block * (1 if rest else ratio))
    return total
