"""The types that keys, values and states are kept in, as vLLM takes them from a config.json."""

from __future__ import annotations

from patchkit.errors import PatchkitError
from patchkit.kv.config_fields import Fields
from patchkit.kv.layers import ITEM_BYTES
from patchkit.kv.text_model import TextModel

_SHORT = {"half": "float16", "float": "float32"}
# vllm/config/model.py keeps these as they are or falls back to the first type of the device
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


def model_dtype(text: TextModel, asked: str | None) -> str:
    """Return the type that a model is computed in: the one asked for, or by the file's.

    float32 checkpoints become bfloat16, the first type of every GPU from compute capability 8.0
    and of x86 CPUs (`_resolve_auto_dtype`).
    """
    if asked is not None and asked != "auto":
        return _asked_dtype(text, asked)
    found = _file_dtype(text)
    if found is None:
        text.fields.note("dtype is not given: bfloat16; vLLM takes it from the weights")
        return "bfloat16"
    if found == "float32" or found in _FLOAT8:
        text.fields.note(f"dtype is {found}: vLLM takes bfloat16")
        return "bfloat16"
    if found == "float16" and not text.family.float16:
        text.fields.note(f"dtype is float16, in which {text.family.name} overflows: bfloat16")
        return "bfloat16"
    return found


def _asked_dtype(text: TextModel, asked: str) -> str:
    """The type that was asked for, in full."""
    dtype = _SHORT.get(asked, asked)
    if dtype not in ITEM_BYTES:
        raise PatchkitError(f'dtype "{asked}" is not known', expected=f"auto, {_names()}")
    if dtype == "float16" and not text.family.float16:
        fact = f"{text.family.name} is not served in float16: its activations overflow"
        raise PatchkitError(fact, place=text.top.file, expected="bfloat16 or float32")
    return dtype


def _file_dtype(text: TextModel) -> str | None:
    """The type that the file names: the whole, then the text model, then the vision model."""
    parts = [text.top, text.fields, text.top.part("vision_config")]
    for part in parts:
        for name in ("dtype", "torch_dtype"):
            if part and part.given(name):
                return _dtype_of(part, name)
    return None


def _dtype_of(part: Fields, name: str) -> str:
    value = part.text(name) or ""
    dtype = _SHORT.get(value, value)
    if dtype not in (*ITEM_BYTES, *_FLOAT8):
        raise part.wrong(name, f'is "{value}"', _names())
    return dtype


def state_dtype(text: TextModel, asked: str | None, model: str) -> str:
    """Return the type of the recurrent states: asked for, of the file, or the model's.

    The convolution's columns always have the model's (`--mamba-cache-dtype` left alone).
    """
    if asked is not None and asked != "auto":
        if asked not in ITEM_BYTES:
            fact = f'state dtype "{asked}" is not known'
            raise PatchkitError(fact, expected=f"auto, {_names()}")
        return asked
    name = text.family.state_dtype_field
    if name is None or not text.fields.given(name):
        return model
    value = text.fields.text(name)
    if value not in (*ITEM_BYTES, "auto"):
        raise text.fields.wrong(name, f'is "{value}"', f"auto, {_names()}")
    return model if value == "auto" else value


def _names() -> str:
    return ", ".join(sorted(ITEM_BYTES))
