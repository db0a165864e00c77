"""`--speculative-config` of vLLM, read for what a plan goes by: the drafter and its tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from patchkit.errors import UsageError

PLACE = "--speculative-config"
_WITHOUT_DRAFTER = ("ngram", "ngram_gpu", "suffix")  # they look back in the text
# What a drafter may have otherwise than its target; it is planned with the target's.
_OWN = ("kv_cache_dtype", "attention_backend", "draft_tensor_parallel_size", "tensor_parallel_size")


@dataclass(frozen=True)
class Drafting:
    """Who drafts how many tokens a step."""

    draft_tokens: int
    mtp: bool  # layers of the model itself
    drafter: str | None  # path of its config.json


def read_speculative(text: str) -> Drafting:
    """Return what a JSON object says of drafts; raises UsageError where that is not enough."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise _wrong("is not JSON") from err
    if not isinstance(values, dict):
        raise _wrong("is no JSON object")
    for name in _OWN:
        if values.get(name) is not None:
            hint = "leave it out to plan the drafter like its model"
            raise UsageError(f"{name} is not modelled", place=PLACE, hint=hint)
    number = values.get("num_speculative_tokens")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= 1024:
        raise _wrong("num_speculative_tokens is no number from 1 to 1024")
    method, drafter = (_text(values, name) for name in ("method", "model"))
    if method in _WITHOUT_DRAFTER:
        return Drafting(number, mtp=False, drafter=None)
    mtp = drafter is None and method is not None and method.split("_")[-1] == "mtp"
    if drafter is None and not mtp:
        raise UsageError(
            f"method {method or 'none'} has a drafter, and no model is named", place=PLACE,
            expected='"model" with the path of its config.json, or of the folder of it',
        )  # fmt: skip
    return Drafting(number, mtp, drafter)


def _text(values: dict[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"{name} is no text")
    return value


def _wrong(fact: str) -> UsageError:
    example = '\'{"method": "mtp", "num_speculative_tokens": 3}\''
    return UsageError(fact, place=PLACE, expected=f"an object such as {example}")
