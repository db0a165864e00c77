"""The longest context that a config.json allows, as vLLM's `_get_and_verify_max_len` has it."""

from __future__ import annotations

import math

from patchkit.kv.config_fields import Fields
from patchkit.kv.families import Family, yarn_multiplies

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# With these the file's length is already that of the scaled context; from 0.30.0 YaRN too.
_SCALED = ("longrope", "llama3")
_LEGACY = {"su": "longrope", "mrope": "default"}


def max_model_len(fields: Fields, family: Family, release: str) -> int:
    """Return the longest context in tokens, where no option asks for another one."""
    length: int | float = _stated(fields)
    ropes = _ropes(fields)
    if family.rope_scales_context:
        factor: int | float = 1
        for kind, rope in ropes:
            if kind in _SCALED or (kind == "yarn" and not yarn_multiplies(release)):
                continue
            factor = _factor(rope, factor)
            if kind == "yarn":
                length = _original(rope, fields)
        # a float as the release has it, cut off at the end
        length = length * factor
    if any(kind == "longrope" for kind, _ in ropes) and _has(fields, _ORIGINAL):
        return fields.count(_ORIGINAL)
    return math.floor(length)


_ORIGINAL = "original_max_position_embeddings"


def _has(fields: Fields, name: str) -> bool:
    return fields.given(name) or name in fields.defaults


def _stated(fields: Fields) -> int:
    """The shortest of the lengths that the file states, or model_max_length."""
    if fields.given("model_max_length"):
        return fields.count("model_max_length")
    lengths = [fields.count(name) for name in _LENGTHS if fields.given(name)]
    if not fields.given("max_position_embeddings") and _LENGTHS[0] in fields.defaults:
        lengths.append(fields.count("max_position_embeddings"))
    return min(lengths) if lengths else fields.count("max_position_embeddings")


def _ropes(fields: Fields) -> list[tuple[str, Fields]]:
    """The scalings with their kinds: one, or one for each kind of layers."""
    # transformers lets the older name win
    scaling = fields.part("rope_scaling") if fields.values.get("rope_scaling") else None
    scaling = scaling or fields.part("rope_parameters")
    if scaling is None or not scaling.values:
        return []
    kinds = [name for name in scaling.values if name.endswith("_attention")]
    parts = [part for name in kinds if (part := scaling.part(name))] if kinds else [scaling]
    return [(_kind(part), part) for part in parts]


def _kind(rope: Fields) -> str:
    kind = rope.text("rope_type") or rope.text("type") or "default"
    return _LEGACY.get(kind, kind)


def _factor(rope: Fields, otherwise: int | float) -> int | float:
    """What lengths are multiplied by; a null one is 1."""
    if "factor" not in rope.values:
        return otherwise
    value = rope.values["factor"]
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise rope.wrong("factor", "is no such number", "a number above 0")
    return value


def _original(rope: Fields, fields: Fields) -> int:
    """The length before scaling, as transformers fills it in."""
    if fields.given(_ORIGINAL):
        return fields.count(_ORIGINAL)
    return rope.count(_ORIGINAL) if rope.given(_ORIGINAL) else _stated(fields)
