"""Pages of one size: a layer's block is scaled, or its page padded, to the largest page."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.kv.pages import STATE, Page
from patchkit.kv.planned import RefusedError
from patchkit.kv.rules import Rules


def can_pad(page: Page, rules: Rules) -> bool:
    """Return whether a release can give a layer a larger page than it fills."""
    if page.kind == STATE:
        return rules.padded_states
    assert page.backend is not None
    return rules.padded_attention == "all" or page.backend.block_stride


def unify(pages: Sequence[Page], rules: Rules) -> tuple[Page, ...]:
    """Return pages of one size, layer by layer (unify_kv_cache_spec_page_size).

    Refused where a page neither divides the largest nor can be padded to it.
    """
    largest = max(page.page_bytes for page in pages)
    return tuple(_unified(page, largest, rules) for page in pages)


def _unified(page: Page, largest: int, rules: Rules) -> Page:
    if page.page_bytes == largest:
        return page
    ratio, rest = divmod(largest, page.page_bytes)
    if page.kind != STATE and rest == 0:
        if page.padded_bytes is not None:
            raise RefusedError(
                f"a {page.kind} page of {page.page_bytes:,} bytes is padded already, and cannot be"
                f" scaled to the largest page of {largest:,} bytes"
            )
        return page.with_block(page.block * ratio)
    if not can_pad(page, rules):
        raise RefusedError(_cannot_pad(page, largest, rules))
    return page.padded(largest)


def _cannot_pad(page: Page, largest: int, rules: Rules) -> str:
    if page.backend is None:
        return (
            f"{rules.release} cannot pad the page of a recurrent state, {page.page_bytes:,} bytes,"
            f" to the largest page of {largest:,} bytes"
        )
    rest = largest % page.page_bytes
    multiple = largest - rest + page.page_bytes
    growth = 100 * (multiple - largest) / largest
    return (
        f"a {page.kind} page of {page.page_bytes:,} bytes does not divide the largest page of"
        f" {largest:,} bytes: {rest:,} bytes are left, the next multiple is {multiple:,}"
        f" (+{growth:.3f} %), and {page.backend.name} cannot read padded pages on {rules.release}"
    )
