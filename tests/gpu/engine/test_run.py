"""What one run does to a cache; engines themselves start on a GPU machine."""

from __future__ import annotations

import pytest

from tests.gpu.engine.run import swap_pages

pytestmark = pytest.mark.kernel


def test_pages_are_swapped_in_a_cache_that_the_engine_made_in_inference_mode() -> None:
    """Caught: a swap outside that mode, which torch refuses; a page that is kept as a view."""
    import torch

    with torch.inference_mode():
        cache = torch.arange(12.0).reshape(4, 3)
    swap_pages(cache, 1, 3)
    assert cache.tolist() == [[0, 1, 2], [9, 10, 11], [6, 7, 8], [3, 4, 5]]
