"""The comparison fails for each thing that it is there to notice."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.compare import problems


def imported(state: str, **change: Any) -> dict[str, Any]:
    """What `verify --imported` says of an engine with one process that has the module."""
    modules = [{"module": "vllm.v1.core.kv_cache_utils", "state": state}]
    other = [{"module": "vllm.v1.core.kv_cache_utils", "state": "not loaded"}]
    found = {"ok": state == "patched", "faults": [], "command_status": 0}
    return {**found, "processes": [{"modules": modules}, {"modules": other}], **change}


PATHS = {"upstream": Path("/a"), "patched": Path("/b")}
UPSTREAM = {
    "version": "0.29.0",
    "module": "/a/vllm/v1/core/kv_cache_utils.py",
    "promotes": False,
    "blocks": [32, 128],
    "tokens": [[1, 2, 3], [4, 5, 6]],
    "imported": imported("pristine"),
}
PATCHED = {
    **UPSTREAM,
    "version": "0.29.0+patchkit.h1",
    "module": "/b/vllm/v1/core/kv_cache_utils.py",
    "promotes": True,
    "blocks": [96, 128],
    "imported": imported("patched"),
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
        ("window", {"imported": imported("pristine", ok=True)},
         "patched: modules of the series are ['pristine', 'not loaded']"),
        ("window", {"imported": imported("patched", processes=[])},
         "patched: modules of the series are []"),
        ("window", {"imported": imported("patched", ok=False, faults=["held"])},
         "patched: ['held'], exit status 0"),
        ("window", {"imported": imported("patched", command_status=1)},
         "patched: [], exit status 1"),
        ("window", {"version": "0.29.0"}, "patched: version 0.29.0 does not say so"),
        ("window", {"version": "0.28.0+patchkit.h1"}, "versions 0.29.0 and 0.28.0+patchkit.h1"),
    ],
)  # fmt: skip
def test_what_is_noticed(model: str, change: dict[str, Any], start: str) -> None:
    (text,) = problems(model, UPSTREAM, {**PATCHED, **change}, PATHS)
    assert text.startswith(start)


def test_a_model_that_says_the_same_whatever_it_reads_proves_nothing() -> None:
    same = {"tokens": [[1, 2, 1], [2, 1, 2]]}
    (text,) = problems("window", {**UPSTREAM, **same}, {**PATCHED, **same}, PATHS)
    assert text.startswith("tokens prove nothing: ")
