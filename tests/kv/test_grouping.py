"""Groups: which layers share a block table."""

from __future__ import annotations

import pytest

from patchkit.kv.grouping import Group, group, group_size, is_one_group
from patchkit.kv.pages import FULL, STATE, WINDOW, Page


def page(name: str, number: int = 0, window: int | None = None, block: int = 16) -> Page:
    size = 16 * 100 if name == STATE else 0
    return Page(name, "auto", (number,), block, 100, state_bytes=size, window=window)


FULL_PAGE, WINDOW_PAGE, STATE_PAGE = page(FULL), page(WINDOW, window=512), page(STATE)


@pytest.mark.parametrize(
    ("layers", "size"),
    [
        ({FULL_PAGE: 16, STATE_PAGE: 48, WINDOW_PAGE: 5}, 5),
        ({FULL_PAGE: 12, WINDOW_PAGE: 13}, 13),
        ({FULL_PAGE: 10, WINDOW_PAGE: 15}, 10),
        ({FULL_PAGE: 10, WINDOW_PAGE: 14}, 14),
        ({FULL_PAGE: 5, WINDOW_PAGE: 25}, 5),
    ],
)
def test_the_size_is_that_of_the_rarest_page_or_of_the_commonest_if_near(
    layers: dict[Page, int], size: int
) -> None:
    assert group_size(layers, even=False) == size


@pytest.mark.parametrize(
    ("layers", "size"),
    [
        ({FULL_PAGE: 16, STATE_PAGE: 48, WINDOW_PAGE: 5}, 8),
        ({FULL_PAGE: 16, STATE_PAGE: 48, WINDOW_PAGE: 8}, 16),
        ({FULL_PAGE: 16, STATE_PAGE: 48, WINDOW_PAGE: 7}, 8),
        ({FULL_PAGE: 16, STATE_PAGE: 48, WINDOW_PAGE: 1}, 2),
        ({FULL_PAGE: 16, STATE_PAGE: 40, WINDOW_PAGE: 5}, 8),
        ({FULL_PAGE: 7, STATE_PAGE: 35, WINDOW_PAGE: 2}, 1),
        ({FULL_PAGE: 5, STATE_PAGE: 48, WINDOW_PAGE: 16}, 5),
        ({FULL_PAGE: 4, STATE_PAGE: 48, WINDOW_PAGE: 4}, 4),
        ({WINDOW_PAGE: 4, page(WINDOW, 1): 4}, 4),
    ],
)
def test_an_even_size_divides_the_others_and_wastes_no_more_than_the_windows(
    layers: dict[Page, int], size: int
) -> None:
    assert group_size(layers, even=True) == size


def test_layers_are_spread_over_their_groups() -> None:
    pages = [FULL_PAGE, *[WINDOW_PAGE] * 5, FULL_PAGE]
    assert group(pages, "upstream") == (
        Group((0, 6), FULL_PAGE),
        Group((1, 4), WINDOW_PAGE),
        Group((2, 5), WINDOW_PAGE),
        Group((3,), WINDOW_PAGE),
    )


def test_layers_of_another_shape_are_another_bucket() -> None:
    pages = [FULL_PAGE, page(FULL, 1), WINDOW_PAGE, WINDOW_PAGE]
    assert [each.places for each in group(pages, "upstream")] == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("pages", "one"),
    [
        ([FULL_PAGE, page(FULL, 1)], True),
        ([FULL_PAGE, page(FULL, block=32)], False),
        ([WINDOW_PAGE, page(WINDOW, 1, window=512)], True),
        ([WINDOW_PAGE, page(WINDOW, window=1024)], False),
        ([FULL_PAGE, WINDOW_PAGE], False),
        ([STATE_PAGE, page(STATE, 1)], True),
        ([STATE_PAGE, STATE_PAGE.padded(9999)], False),
        ([FULL_PAGE, FULL_PAGE.padded(9999)], True),
    ],
)
def test_layers_that_need_the_same_tokens_are_one_group(pages: list[Page], one: bool) -> None:
    assert is_one_group(pages) == one
    assert (len(group(pages, "upstream")) == 1) == one
