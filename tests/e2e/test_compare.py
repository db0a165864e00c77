"""The comparison fails for each thing that it is there to notice."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.compare import problems

PATHS = {"upstream": Path("/a"), "patched": Path("/b")}
UPSTREAM = {
    "version": "0.29.0",
    "module": "/a/vllm/v1/core/kv_cache_utils.py",
    "promotes": False,
    "blocks": [32, 128],
    "tokens": [[1, 2, 3], [4, 5, 6]],
}
PATCHED = {
    **UPSTREAM,
    "version": "0.29.0+patchkit.h1",
    "module": "/b/vllm/v1/core/kv_cache_utils.py",
    "promotes": True,
    "blocks": [96, 128],
}


def test_promoted_blocks_and_equal_tokens_are_as_they_must_be() -> None:
    assert problems("window", UPSTREAM, PATCHED, PATHS) == []
    assert problems("qwen3", UPSTREAM, {**PATCHED, "blocks": [32, 128]}, PATHS) == []


@pytest.mark.parametrize(
    ("model", "change", "start"),
    [
        ("window", {"tokens": [[1, 2, 3], [4, 5, 7]]}, "tokens differ: "),
        ("window", {"blocks": [32, 128]}, "blocks [32, 128] and [32, 128]"),
        ("qwen3", {}, "blocks [32, 128] and [96, 128]"),
        ("window", {"promotes": False}, "patched: the loaded module is not the patched one"),
        ("window", {"module": "/a/vllm/x.py"}, "patched: kv_cache_utils was loaded from /a/vllm"),
        ("window", {"version": "0.29.0"}, "patched: version 0.29.0 does not say so"),
        ("window", {"version": "0.28.0+patchkit.h1"}, "versions 0.29.0 and 0.28.0+patchkit.h1"),
    ],
)
def test_what_is_noticed(model: str, change: dict[str, Any], start: str) -> None:
    (text,) = problems(model, UPSTREAM, {**PATCHED, **change}, PATHS)
    assert text.startswith(start)


def test_a_model_that_says_the_same_whatever_it_reads_proves_nothing() -> None:
    same = {"tokens": [[1, 2, 1], [2, 1, 2]]}
    (text,) = problems("window", {**UPSTREAM, **same}, {**PATCHED, **same}, PATHS)
    assert text.startswith("tokens prove nothing: ")
