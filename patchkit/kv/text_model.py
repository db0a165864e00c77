"""Which part of a config.json says what a text model caches, and as which family it is read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from patchkit.errors import PatchkitError
from patchkit.kv.config_fields import Fields
from patchkit.kv.families import (
    Family,
    families_of,
    read_families,
    speculators_architecture,
    speculators_methods,
)

# What only consolidated files of Mistral have (params.json), by the names of their own code.
_CONSOLIDATED = ("n_layers", "n_heads", "dim")


@dataclass(frozen=True)
class TextModel:
    """A text model: its architecture, the family, its own fields and those of the whole file."""

    architecture: str
    family: Family
    fields: Fields
    top: Fields


def find_text_model(config: Mapping[str, object], file: str, *, drafter: bool) -> TextModel:
    """Return what a parsed config.json holds of a text model; a drafter may wrap it.

    Raises PatchkitError, with file and field, for what is not a model whose layers are known.
    """
    notes: list[str] = []
    top = Fields(config, file, notes=notes)
    _check_is_config(top)
    if drafter and top.given("speculators_model_type"):
        return _of_speculators(top)
    inner = top.part("model") if drafter and config.get("model_type") == "eagle" else None
    whole = inner or top
    architecture = _architecture(whole)
    families = families_of(architecture)
    if not families:
        raise _unknown(whole, architecture)
    if families[0].drafts(architecture) and not drafter:
        fact = f"{architecture} drafts for another model"
        raise whole.wrong(
            "architectures", fact, "a model", "give this config.json as the drafter's"
        )
    fields = whole
    if families[0].nests(architecture):
        nested = whole.part("text_config")
        if nested is None:
            raise whole.wrong(
                "text_config", "the field is missing", f"it, as {architecture} has it"
            )
        fields = nested
    family = _by_model_type(families, fields, architecture)
    _check_attention(fields, top)
    own = Fields(fields.values, file, fields.prefix, family.defaults, notes)
    return TextModel(architecture, family, own, top)


def _check_is_config(top: Fields) -> None:
    if not top.given("architectures") and all(top.given(name) for name in _CONSOLIDATED):
        raise PatchkitError(
            "has the fields of a consolidated checkpoint's params.json",
            place=top.file,
            expected="a Hugging Face config.json",
            hint="most such checkpoints have a config.json beside it; vLLM's Mistral format "
            "is not read",
        )


def _of_speculators(top: Fields) -> TextModel:
    """A drafter in the speculators format, whose layers are described inside."""
    method = top.text("speculators_model_type") or ""
    if method not in speculators_methods():
        expected = f"one of {', '.join(speculators_methods())}"
        raise top.wrong("speculators_model_type", f'is "{method}"', expected)
    inner = top.part("transformer_layer_config")
    if inner is None:
        raise top.wrong("transformer_layer_config", "the field is missing", "the drafter's layers")
    model_type = inner.text("model_type") or "llama"
    architecture = speculators_architecture(method, model_type)
    if architecture is None:
        expected = f"llama or qwen3, which vLLM takes for {method}"
        raise inner.wrong("model_type", f'is "{model_type}"', expected)
    family = next(f for f in families_of(architecture) if "speculators" in f.model_types)
    own = Fields(inner.values, top.file, inner.prefix, family.defaults, top.notes)
    return TextModel(architecture, family, own, top)


def _architecture(whole: Fields) -> str:
    value = whole.values.get("architectures")
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        shown = "the field is missing" if value is None else "is not a list of names"
        hint = "add the class that vLLM is to build, as the model's card or authors have it"
        raise whole.wrong("architectures", shown, 'a list of names as ["LlamaForCausalLM"]', hint)
    return value[0]


def _unknown(whole: Fields, architecture: str) -> PatchkitError:
    names = sorted({name for family in read_families() for name in family.names})
    near = difflib.get_close_matches(architecture, names, n=3, cutoff=0.6)
    hint = f"near it: {', '.join(near)}" if near else None
    for field in ("kv_lora_rank", "qk_rope_head_dim"):
        if whole.given(field):
            hint = "it caches latent vectors (MLA), which are not modelled"
    expected = f"an architecture whose layers are known ({', '.join(names)})"
    return whole.wrong("architectures", f"{architecture} is not known", expected, hint)


def _by_model_type(families: tuple[Family, ...], fields: Fields, architecture: str) -> Family:
    """The family that transformers' defaults come from."""
    known = [name for family in families for name in family.model_types if name != "speculators"]
    model_type = fields.text("model_type")
    if model_type is None and len(known) == 1:
        return families[0]
    for family in families:
        if model_type in family.model_types and model_type != "speculators":
            return family
    fact = "the field is missing" if model_type is None else f'is "{model_type}"'
    raise fields.wrong("model_type", fact, f"{' or '.join(known)}, as {architecture} has it")


def _check_attention(fields: Fields, top: Fields) -> None:
    """Refuse what caches something else than keys and values of every token, seen causally."""
    for part in (top, fields):
        if part.flag("is_encoder_decoder"):
            raise part.wrong("is_encoder_decoder", "is true", "a decoder-only model")
    if fields.given("kv_lora_rank"):
        hint = "latent attention (MLA) caches no heads, and is not modelled"
        raise fields.wrong("kv_lora_rank", "the field is set", "keys and values by heads", hint)
    if fields.given("attention_chunk_size"):
        hint = "chunked attention (Llama 4) is not modelled"
        raise fields.wrong(
            "attention_chunk_size", "the field is set", "no such field, or null", hint
        )
    both = fields.values.get("use_bidirectional_attention")
    if both is True or both == "all":
        expected = "a model that looks back only"
        raise fields.wrong("use_bidirectional_attention", "is set for all tokens", expected)
